//! Tests of the whole store.

mod clean;
mod disk;
mod index;
mod many_delayed;
mod memory;
mod model;
mod no_space;
mod power_loss;
mod schedule;
mod timer;
mod torn;
