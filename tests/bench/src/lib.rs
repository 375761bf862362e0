//! What the measuring programs are made of.
//!
//! One program plays several parts: the fast stub broker, which a client's ceiling is measured against; ready-made frames,
//! which find a broker's ceiling and the floor below any client; our producer and our consumer under load; and the one who runs them against
//! each other and against what others made, and prints one line for each goal.

pub mod arguments;
pub mod consuming;
pub mod counts;
pub mod delayed;
pub mod frames;
pub mod goals;
pub mod memory;
pub mod outcome;
pub mod programs;
pub mod raw;
pub mod recorded;
pub mod report;
pub mod stub;
pub mod workload;
