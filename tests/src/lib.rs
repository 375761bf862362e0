//! End-to-end tests: what more than one crate is needed for.
//!
//! The library is the harness: Apache's own servers as child processes ([`apache`]), the Java and Go clients as
//! programs driven over pipes ([`foreign`]). The tests themselves are in `tests/`.

pub mod access;
pub mod administration;
pub mod apache;
pub mod cache;
pub mod certificates;
pub mod columns;
pub mod consuming;
pub mod foreign;
pub mod mock_process;
pub mod network;
pub mod ours;
pub mod party;
pub mod pipelines;
pub mod process;
pub mod producing;
pub mod proxy;
pub mod pulling;
pub mod raw;
pub mod scenario;
pub mod scene;
pub mod server;
pub mod socks;
pub mod stored;

/// The code blocks of the readme, compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct Readme;
