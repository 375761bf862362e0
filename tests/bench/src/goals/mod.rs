//! The goals: what is measured for each, and what is aimed for.

mod allocations;
mod apache;
mod broker;
mod client;
mod consumer;
mod counts;
mod producer;
mod store;

use tempfile::TempDir;

use crate::{
    programs::Programs,
    report::{Case, Rounds},
};

/// Rounds of each comparison. Subjects take turns within a round, so that what disturbs one disturbs all.
const ROUNDS: usize = 5;

/// Several cases that are measured together.
#[derive(Debug, Clone, Copy)]
pub struct Group {
    /// What it is asked for by: `P2`.
    pub id: &'static str,
    /// Its lines.
    pub cases: &'static [Case],
    /// Measures the values of its lines, in their order.
    pub measure: fn(&Programs) -> Result<Vec<f64>, String>,
}

/// All groups, in the order they are reported.
pub const GROUPS: &[Group] = &[
    counts::INSTRUCTIONS,
    counts::SYSTEM_CALLS,
    client::FLOOR_SHARE,
    client::PEER,
    client::MANY_CALLERS,
    allocations::ALLOCATIONS,
    consumer::INSTRUCTIONS,
    consumer::SYSTEM_CALLS,
    consumer::COMMITS,
    client::RUNTIMES,
    consumer::CROSSINGS,
    broker::STUB_SHARE,
    broker::FLUSHES,
    broker::FOOTPRINT,
    consumer::MEMORY,
    counts::ENCRYPTION,
    apache::CLIENTS,
    apache::CONSUMERS,
    apache::BROKERS,
    producer::LINGER,
    producer::COMPRESSION,
    producer::PRODUCERS,
    consumer::START,
    store::RECOVERY,
    store::TOPICS,
    store::DELAYED,
];

/// Runs every subject once a round and collects what each came to.
fn rounds<const N: usize>(
    count: usize,
    names: [&str; N],
    mut run: impl FnMut(usize) -> Result<f64, String>,
) -> Result<[f64; N], String> {
    let mut results: [Rounds; N] = std::array::from_fn(|_| Rounds::default());
    for _ in 0..count {
        for (index, result) in results.iter_mut().enumerate() {
            result.push(run(index)?);
        }
    }
    for (name, result) in names.iter().zip(&results) {
        eprintln!("  {name}: {result}");
    }
    Ok(results.map(|result| result.median()))
}

/// A folder for a store, beside the programs.
fn folder(programs: &Programs) -> Result<TempDir, String> {
    tempfile::tempdir_in(programs.path("")).map_err(|error| format!("a folder for the store: {error}"))
}
