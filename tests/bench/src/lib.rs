//! What the measuring programs are made of.
//!
//! One program plays several parts: the fast stub broker, which a client's ceiling is measured against; ready-made frames,
//! which find a broker's ceiling and the floor below any client; our client under load; and the one who runs them against
//! each other and against what others made, and prints one line for each goal.

pub mod arguments;
pub mod counts;
pub mod frames;
pub mod goals;
pub mod outcome;
pub mod programs;
pub mod raw;
pub mod report;
pub mod stub;
pub mod workload;
