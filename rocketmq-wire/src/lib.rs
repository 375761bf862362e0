//! What goes over the socket, as values.
//!
//! A pure codec for RocketMQ's remoting protocol: no sockets, no clock, no randomness, no threads.

pub mod error;
pub mod filter;
pub mod message;

pub use error::{DecodeError, EncodeError};
