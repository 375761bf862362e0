//! A RocketMQ client.

pub mod backoff;
mod cluster;
mod config;
pub mod consumer;
pub mod env;
pub mod error;
pub mod message;
pub mod producer;
pub mod remoting;
pub mod transport;

pub use config::NameServers;
pub use consumer::{ConsumeFrom, MessageView};
pub use error::{Error, ErrorKind, Outcome, Result};
pub use message::{Message, MessageQueue};
