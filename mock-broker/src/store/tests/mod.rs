//! Tests of the whole store.

mod clean;
mod disk;
mod index;
mod memory;
mod model;
mod no_space;
mod schedule;
mod timer;
mod torn;
