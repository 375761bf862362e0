//! Clients as brokers see them, and what clients say of themselves when asked.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{MessageQueue, SubscriptionData, null_is_default};
use crate::fastjson::ObjectKey;

/// A client that is connected.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Connection {
    /// Its address.
    pub client_addr: String,
    /// Its id.
    pub client_id: String,
    /// The name of its language.
    pub language: String,
    /// Its version, see [`crate::Version`].
    pub version: i32,
}

/// Who consumes in a group.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ConsumerConnection {
    /// The members.
    pub connection_set: Vec<Connection>,
    /// One of [`super::consume_from`].
    pub consume_from_where: String,
    /// One of [`super::consume_type`].
    pub consume_type: String,
    /// One of [`super::model`].
    pub message_model: String,
    /// Topic to subscription.
    pub subscription_table: BTreeMap<String, SubscriptionData>,
}

/// Who produces in a group.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ProducerConnection {
    /// The members.
    pub connection_set: Vec<Connection>,
}

/// All producers of a broker.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ProducerTable {
    /// Group to members.
    pub data: BTreeMap<String, Vec<ProducerInfo>>,
}

/// One producer.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ProducerInfo {
    /// Its id.
    pub client_id: String,
    /// The name of its language.
    pub language: String,
    /// When it was last heard of, in milliseconds since 1970.
    pub last_update_timestamp: i64,
    /// Its address, as Java writes one: after a slash.
    #[serde(rename = "remoteIP")]
    pub remote_ip: String,
    /// Its version, see [`crate::Version`].
    pub version: i32,
}

/// What a consumer is doing, by its own account.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ConsumerRunningInfo {
    /// Stacks of threads, when asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jstack: Option<String>,
    /// Queues of pop consumption; since 5.0.
    #[serde(deserialize_with = "null_is_default")]
    pub mq_pop_table: BTreeMap<ObjectKey<MessageQueue>, PopProcessQueueInfo>,
    /// The queues that it owns.
    #[serde(deserialize_with = "null_is_default")]
    pub mq_table: BTreeMap<ObjectKey<MessageQueue>, ProcessQueueInfo>,
    /// Settings by name, and `PROP_` keys that the administrator's tools read.
    #[serde(deserialize_with = "null_is_default")]
    pub properties: BTreeMap<String, String>,
    /// Topic to counts.
    #[serde(deserialize_with = "null_is_default")]
    pub status_table: BTreeMap<String, ConsumeStatus>,
    /// What it subscribes to, sorted.
    #[serde(deserialize_with = "null_is_default")]
    pub subscription_set: Vec<SubscriptionData>,
    /// Of the user's own; since 5.0.
    #[serde(deserialize_with = "null_is_default")]
    pub user_consumer_info: BTreeMap<String, String>,
}

/// Keys of [`ConsumerRunningInfo::properties`] that the administrator's tools read.
pub mod running_property {
    /// The name servers, each followed by a semicolon.
    pub const NAME_SERVERS: &str = "PROP_NAMESERVER_ADDR";
    /// Threads that consume.
    pub const THREADS: &str = "PROP_THREADPOOL_CORE_SIZE";
    /// Whether consumption is ordered, `true` or `false`.
    pub const ORDERED: &str = "PROP_CONSUMEORDERLY";
    /// One of [`super::super::consume_type`].
    pub const CONSUME_TYPE: &str = "PROP_CONSUME_TYPE";
    /// The name of the client's version.
    pub const CLIENT_VERSION: &str = "PROP_CLIENT_VERSION";
    /// When the consumer started, in milliseconds since 1970.
    pub const STARTED_AT: &str = "PROP_CONSUMER_START_TIMESTAMP";
}

/// A queue that a consumer owns.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ProcessQueueInfo {
    /// Messages in memory.
    pub cached_msg_count: i32,
    /// The largest offset in memory.
    pub cached_msg_max_offset: i64,
    /// The smallest offset in memory.
    pub cached_msg_min_offset: i64,
    /// What the messages in memory take, in MiB.
    pub cached_msg_size_in_mi_b: i32,
    /// The offset that is committed; -1 if none.
    pub commit_offset: i64,
    /// Whether it is given away; the wire's spelling.
    pub droped: bool,
    /// When a message was last consumed, in milliseconds since 1970.
    pub last_consume_timestamp: i64,
    /// When it was last locked, in milliseconds since 1970.
    pub last_lock_timestamp: i64,
    /// When it was last pulled, in milliseconds since 1970.
    pub last_pull_timestamp: i64,
    /// Whether it is locked.
    pub locked: bool,
    /// Messages of an ordered batch under way.
    pub transaction_msg_count: i32,
    /// The largest offset among them.
    pub transaction_msg_max_offset: i64,
    /// The smallest offset among them.
    pub transaction_msg_min_offset: i64,
    /// Times that unlocking had to wait.
    pub try_unlock_times: i64,
}

/// A queue that a pop consumer owns.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PopProcessQueueInfo {
    /// Whether it is given away; the wire's spelling.
    pub droped: bool,
    /// When it was last popped, in milliseconds since 1970.
    pub last_pop_timestamp: i64,
    /// Messages not acknowledged.
    pub wait_ack_count: i32,
}

/// Counts of one topic.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ConsumeStatus {
    /// Messages that failed within the last hour.
    pub consume_failed_msgs: i64,
    /// Failures a second.
    #[serde(rename = "consumeFailedTPS")]
    pub consume_failed_tps: f64,
    /// Successes a second.
    #[serde(rename = "consumeOKTPS")]
    pub consume_ok_tps: f64,
    /// Milliseconds that consuming took on average.
    #[serde(rename = "consumeRT")]
    pub consume_rt: f64,
    /// Milliseconds that pulls took on average.
    #[serde(rename = "pullRT")]
    pub pull_rt: f64,
    /// Messages pulled a second.
    #[serde(rename = "pullTPS")]
    pub pull_tps: f64,
}

/// How a consumer dealt with one message.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ConsumeDirectlyResult {
    /// Whether the offset moves by itself.
    pub auto_commit: bool,
    /// `CR_SUCCESS`, `CR_LATER`, `CR_ROLLBACK`, `CR_COMMIT`, `CR_THROW_EXCEPTION` or `CR_RETURN_NULL`.
    pub consume_result: String,
    /// Whether the consumer is an ordered one.
    pub order: bool,
    /// The error's text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remark: Option<String>,
    /// Milliseconds that it took.
    pub spent_time_mills: i64,
}
