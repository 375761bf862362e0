//! A client for Apache RocketMQ that speaks the remoting protocol of brokers 4.4 to 5.x.
//!
//! ```no_run
//! use rocketmq_native::{Client, Message};
//!
//! # #[tokio::main]
//! # async fn main() -> Result<(), rocketmq_native::Error> {
//! let client = Client::builder("127.0.0.1:9876").connect().await?;
//!
//! let producer = client.producer("orders-service").start().await?;
//! let receipt = producer.send(Message::new("orders", "hi").tag("created").key("42")).await?;
//! println!("{} is at offset {} of {}", receipt.message_id(), receipt.queue_offset(), receipt.queue());
//!
//! producer.shutdown().await;
//! client.close().await;
//! # Ok(())
//! # }
//! ```
//!
//! # From here
//!
//! * [`Client`] finds name servers and brokers, and keeps connections, routes and heartbeats.
//! * [`Producer`] sends a [`Message`] and returns a [`SendReceipt`]. It tries again elsewhere within one time budget;
//!   [`producer::Attempts`] tells what was tried when nothing helped. [`SendOptions`] choose a queue,
//!   [`Producer::request`] awaits a consumer's reply.
//! * [`TransactionProducer`] sends messages that are delivered only when a local transaction has succeeded.
//! * [`PushConsumer`] hands messages to an async function, and has those delivered again that it could not handle.
//! * [`PullConsumer`] is asked for messages, of its share of the queues or of those it is given; [`QueueReader`] reads any
//!   queue from any offset.
//! * [`Admin`] makes, lists and deletes topics and groups, moves offsets, finds messages, and tells how brokers are.
//! * [`Error`] is the one error type: [`Error::kind`] for programs, its text for people, [`Error::outcome`] for whether
//!   the message may be stored all the same.
//!
//! # How it behaves
//!
//! Everything is a future that may be dropped at any await: what was to be sent is then sent whole or not at all, and
//! nothing is left behind. Limits make callers wait within their timeouts; they never make a send fail. Nothing is shared
//! between two clients, and there is no global state: time, randomness, tasks and the network come from one
//! [`env::Env`], which is that of the Tokio runtime unless a test gives another.
//!
//! # Features
//!
//! `zlib`, `lz4` and `zstd` read and write bodies compressed in these ways; `tls` encrypts connections. All are on by
//! default. `metrics` lets [`Telemetry`] count and measure; it is off by default.

pub mod admin;
pub mod backoff;
pub mod client;
mod cluster;
mod config;
pub mod consumer;
mod credentials;
pub mod env;
pub mod error;
pub mod message;
mod namespace;
pub mod producer;
pub mod remoting;
#[cfg(test)]
mod scripted;
mod settings;
pub mod telemetry;
mod trace_topic;
pub mod transport;

pub use admin::Admin;
pub use client::{Client, ClientBuilder, ConnectionEvents};
pub use config::NameServers;
pub use consumer::{
    ConsumeFrom, ConsumeResult, ConsumerStats, FilterExpression, MessageView, PullConsumer, PullConsumerBuilder,
    PullResult, PushConsumer, PushConsumerBuilder, QueueReader,
};
pub use credentials::{ChangeableCredentials, Credentials, CredentialsProvider};
pub use error::{Error, ErrorKind, Outcome, Result};
pub use message::{Message, MessageQueue};
pub use producer::transaction::{
    Transaction, TransactionChecker, TransactionProducer, TransactionProducerBuilder, TransactionReceipt,
    TransactionResolution,
};
pub use producer::{Delay, Producer, ProducerBuilder, SendOptions, SendReceipt, SendStatus};
pub use remoting::{ConnectionEvent, HeaderType};
pub use rocketmq_wire::message::Compression;
pub use telemetry::Telemetry;
#[cfg(feature = "tls")]
pub use transport::Tls;
pub use transport::{Connector, Socks5};
