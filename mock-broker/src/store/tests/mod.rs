//! Tests of the whole store.

mod disk;
mod memory;
mod no_space;
mod schedule;
mod torn;
