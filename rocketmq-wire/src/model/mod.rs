//! What travels as JSON in bodies: plain data.
//!
//! Read leniently (unknown fields are skipped, missing ones take their zero), written with the names and in the order
//! that Apache writes. Maps with numeric or object keys are not JSON in Apache's dialect: see [`crate::fastjson`].

mod heartbeat;
mod queue;
mod registration;
mod route;

pub use heartbeat::{ConsumerData, HeartbeatData, ProducerData, SubscriptionData, consume_from, consume_type, model};
pub use queue::{CheckClient, ConsumerList, LockBatch, LockedQueues, MessageQueue};
pub use registration::{ClusterInfo, DataVersion, RegisterBrokerBody, TopicConfig, TopicConfigTable, TopicList, perm};
pub use route::{BrokerData, QueueData, TopicRoute};
