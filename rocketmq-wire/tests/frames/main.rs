//! The frame codec over what Apache's clients and servers sent.

#[path = "../common/mod.rs"]
mod common;

mod bodies;
mod command_vectors;
mod damage;
mod generic;
mod golden_frames;
mod json_vectors;
mod round_trip;
mod signatures;
mod typed;
