//! Where queues begin and end, and how far groups are in them. Tables by queue are in fastjson's dialect.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::MessageQueue;
use super::null_is_default;
use crate::fastjson::ObjectKey;

/// The bounds of a topic's queues.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TopicStats {
    /// Queue to bounds.
    pub offset_table: BTreeMap<ObjectKey<MessageQueue>, QueueBounds>,
    /// Messages a second; since 5.0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub topic_put_tps: Option<f64>,
}

/// The bounds of a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct QueueBounds {
    /// When the newest message was stored, in milliseconds since 1970; 0 without one.
    pub last_update_timestamp: i64,
    /// The offset after the newest message.
    pub max_offset: i64,
    /// The offset of the oldest message.
    pub min_offset: i64,
}

/// How far a group is.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ConsumeStats {
    /// Messages consumed a second; 4.4 may say `null`.
    #[serde(deserialize_with = "null_is_default")]
    pub consume_tps: f64,
    /// Queue to progress.
    pub offset_table: BTreeMap<ObjectKey<MessageQueue>, QueueProgress>,
}

/// How far a group is in one queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct QueueProgress {
    /// The offset after the queue's newest message.
    pub broker_offset: i64,
    /// The group's offset.
    pub consumer_offset: i64,
    /// When the last message that it consumed was stored, in milliseconds since 1970; 0 if it is gone.
    pub last_timestamp: i64,
    /// The offset that the group has pulled up to; since 5.0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pull_offset: Option<i64>,
}

/// How far all groups are on a broker.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct BrokerConsumeStats {
    /// The broker.
    pub broker_addr: String,
    /// Maps of one entry: group to its progress, topic by topic.
    pub consume_stats_list: Vec<BTreeMap<String, Vec<ConsumeStats>>>,
    /// Messages that all groups are behind.
    pub total_diff: i64,
    /// Messages pulled and not consumed; since 5.0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total_inflight_diff: Option<i64>,
}

/// Offsets by queue.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct QueueOffsets {
    /// Queue to offset.
    pub offset_table: BTreeMap<ObjectKey<MessageQueue>, i64>,
}

/// Where the members of a group are.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ConsumerStatus {
    /// Client id to queue to offset, when a broker answers.
    pub consumer_table: BTreeMap<String, BTreeMap<ObjectKey<MessageQueue>, i64>>,
    /// Queue to offset, when a client answers.
    pub message_queue_table: BTreeMap<ObjectKey<MessageQueue>, i64>,
}

/// Offsets by queue number.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CorrectionOffsets {
    /// Queue to offset.
    pub correction_offsets: BTreeMap<i32, i64>,
}

/// The times between which a group's queues lie.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ConsumeTimeSpans {
    /// One for each queue.
    pub consume_time_span_set: Vec<ConsumeTimeSpan>,
}

/// The times of one queue, in milliseconds since 1970, and as text in the broker's time zone.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ConsumeTimeSpan {
    /// When the last message consumed was stored.
    pub consume_time_stamp: i64,
    /// The same, readable.
    pub consume_time_stamp_str: String,
    /// How long the first message that is not consumed has been waiting, in milliseconds.
    pub delay_time: i64,
    /// When the newest message was stored.
    pub max_time_stamp: i64,
    /// The same, readable.
    pub max_time_stamp_str: String,
    /// The queue.
    pub message_queue: MessageQueue,
    /// When the oldest message was stored.
    pub min_time_stamp: i64,
    /// The same, readable.
    pub min_time_stamp_str: String,
}

/// Entries of a consume queue.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ConsumeQueuePage {
    /// What the group's expression filter holds, as text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub filter_data: Option<String>,
    /// The offset after the queue's last entry.
    pub max_queue_index: i64,
    /// The offset of the queue's first entry.
    pub min_queue_index: i64,
    /// The entries; absent for a queue that does not exist.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue_data: Option<Vec<ConsumeQueueEntry>>,
    /// The group's subscription.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subscription_data: Option<super::SubscriptionData>,
}

/// One entry of a consume queue.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ConsumeQueueEntry {
    /// The bit map of expressions, as text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bit_map: Option<String>,
    /// Whether the group's filter takes the message.
    pub eval: bool,
    /// The entry's extension, as text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub extend_data_json: Option<String>,
    /// Where the message lies in the log.
    pub physic_offset: i64,
    /// Its size in bytes.
    pub physic_size: i32,
    /// The hash of its tag.
    pub tags_code: i64,
}
