//! A RocketMQ client.

pub mod backoff;
pub mod client;
mod cluster;
mod config;
pub mod consumer;
pub mod env;
pub mod error;
pub mod message;
pub mod producer;
pub mod remoting;
#[cfg(test)]
mod scripted;
pub mod transport;

pub use client::{Client, ClientBuilder};
pub use config::NameServers;
pub use consumer::{ConsumeFrom, ConsumerStats, MessageView, PushConsumer, PushConsumerBuilder};
pub use error::{Error, ErrorKind, Outcome, Result};
pub use message::{Message, MessageQueue};
pub use producer::{Producer, ProducerBuilder, SendOptions, SendReceipt, SendStatus};
pub use remoting::HeaderType;
