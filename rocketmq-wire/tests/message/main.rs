//! The message codec over what Apache's brokers and classes wrote.

#[path = "../common/mod.rs"]
mod common;

mod damage;
mod encode_vectors;
mod id_vectors;
mod name_vectors;
mod properties_vectors;
mod round_trip;
mod sql92_vectors;
mod stores;
mod tag_vectors;
