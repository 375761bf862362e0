//! Tests of the whole store.

mod memory;
mod schedule;
