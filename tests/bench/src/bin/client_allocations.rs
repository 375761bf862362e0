//! Our client under load, its heap allocations counted; see `workload::run` for the arguments.

use std::{alloc::System, error::Error};

use rocketmq_bench::{arguments::Arguments, workload};
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    workload::run(&Arguments::parse(&words), Some(allocations))
}

/// Allocations and reallocations so far.
fn allocations() -> u64 {
    let stats = ALLOCATOR.stats();
    (stats.allocations + stats.reallocations) as u64
}
