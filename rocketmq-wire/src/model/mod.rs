//! What travels as JSON in bodies: plain data.
//!
//! Read leniently (unknown fields are skipped, missing ones take their zero), written with the names and in the order
//! that Apache writes. Maps with numeric or object keys are not JSON in Apache's dialect: see [`crate::fastjson`].

mod broker;
mod client;
mod heartbeat;
mod progress;
mod queue;
mod registration;
mod route;
mod subscription_group;

use serde::{Deserialize, Deserializer};

pub use broker::{BrokerStatsData, BrokerStatsItem, KeyValueTable};
pub use client::{
    Connection, ConsumeDirectlyResult, ConsumeStatus, ConsumerConnection, ConsumerRunningInfo, PopProcessQueueInfo,
    ProcessQueueInfo, ProducerConnection, ProducerInfo, ProducerTable, running_property,
};
pub use heartbeat::{ConsumerData, HeartbeatData, ProducerData, SubscriptionData, consume_from, consume_type, model};
pub use progress::{
    BrokerConsumeStats, ConsumeQueueEntry, ConsumeQueuePage, ConsumeStats, ConsumeTimeSpan, ConsumeTimeSpans,
    ConsumerStatus, CorrectionOffsets, QueueBounds, QueueOffsets, QueueProgress, TopicStats,
};
pub use queue::{CheckClient, ConsumerList, LockBatch, LockedQueues, MessageQueue};
pub use registration::{
    ClusterInfo, DataVersion, RegisterBrokerBody, TopicConfig, TopicConfigList, TopicConfigTable, TopicList, perm,
};
pub use route::{BrokerData, QueueData, TopicRoute};
pub use subscription_group::{
    CustomizedRetryPolicy, ExponentialRetryPolicy, GroupList, GroupRetryPolicy, SubscriptionGroupConfig,
    SubscriptionGroupList, SubscriptionGroupTable,
};

/// Reads `null` as the type's default, as fastjson's readers do.
fn null_is_default<'de, D: Deserializer<'de>, T: Default + Deserialize<'de>>(deserializer: D) -> Result<T, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}
