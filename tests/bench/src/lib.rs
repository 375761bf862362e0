//! What the measuring programs share.
//!
//! `bench-stub` is the broker that a client's ceiling is measured against, `bench-raw` sends ready-made frames and so
//! finds a broker's ceiling and the floor below any client, `bench-client` is our client under load. `bench` runs them
//! against each other and against what others made, and prints one line for each goal.

pub mod arguments;
pub mod counts;
pub mod frames;
pub mod goals;
pub mod outcome;
pub mod programs;
pub mod report;
pub mod stub;
