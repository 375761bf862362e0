//! A RocketMQ client.

pub mod backoff;
pub mod env;
pub mod error;
pub mod transport;

pub use error::{Error, ErrorKind, Outcome, Result};
