//! What a client says of itself in heartbeats.

use serde::{Deserialize, Deserializer, Serialize};

/// Values of [`ConsumerData::consume_type`].
pub mod consume_type {
    /// The client pulls when its user asks.
    pub const ACTIVELY: &str = "CONSUME_ACTIVELY";
    /// The client pushes messages to its user.
    pub const PASSIVELY: &str = "CONSUME_PASSIVELY";
}

/// Values of [`ConsumerData::message_model`].
pub mod model {
    /// The members share the queues.
    pub const CLUSTERING: &str = "CLUSTERING";
    /// Every member reads every queue.
    pub const BROADCASTING: &str = "BROADCASTING";
}

/// Values of [`ConsumerData::consume_from_where`].
pub mod consume_from {
    /// From the end.
    pub const LAST_OFFSET: &str = "CONSUME_FROM_LAST_OFFSET";
    /// From the beginning.
    pub const FIRST_OFFSET: &str = "CONSUME_FROM_FIRST_OFFSET";
    /// From a time on.
    pub const TIMESTAMP: &str = "CONSUME_FROM_TIMESTAMP";
}

/// Reads `null` as the type's default, as fastjson's readers do.
fn null_is_default<'de, D: Deserializer<'de>, T: Default + Deserialize<'de>>(deserializer: D) -> Result<T, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

/// A client, its producers and its consumers.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct HeartbeatData {
    /// The client's id.
    #[serde(rename = "clientID")]
    pub client_id: String,
    /// Its consumers.
    #[serde(deserialize_with = "null_is_default")]
    pub consumer_data_set: Vec<ConsumerData>,
    /// Fingerprint of the subscriptions; 0 without.
    pub heartbeat_fingerprint: i32,
    /// Its producers.
    #[serde(deserialize_with = "null_is_default")]
    pub producer_data_set: Vec<ProducerData>,
    /// Whether subscriptions are left out.
    pub without_sub: bool,
}

/// A producer group.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ProducerData {
    /// The group.
    pub group_name: String,
}

/// A consumer group and what it subscribes to.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ConsumerData {
    /// Where a group without offsets begins, one of [`consume_from`].
    #[serde(deserialize_with = "null_is_default")]
    pub consume_from_where: String,
    /// One of [`consume_type`].
    #[serde(deserialize_with = "null_is_default")]
    pub consume_type: String,
    /// The group.
    pub group_name: String,
    /// One of [`model`].
    #[serde(deserialize_with = "null_is_default")]
    pub message_model: String,
    /// Its subscriptions.
    #[serde(deserialize_with = "null_is_default")]
    pub subscription_data_set: Vec<SubscriptionData>,
    /// Whether the client works in unit mode.
    pub unit_mode: bool,
}

/// A subscription to one topic.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SubscriptionData {
    /// Whether a class filters on the server; always false today.
    pub class_filter_mode: bool,
    /// Java hash codes of the tags.
    #[serde(deserialize_with = "null_is_default")]
    pub code_set: Vec<i32>,
    /// `TAG` or `SQL92`; empty means `TAG`.
    #[serde(deserialize_with = "null_is_default")]
    pub expression_type: String,
    /// The expression; `*` for everything.
    #[serde(deserialize_with = "null_is_default")]
    pub sub_string: String,
    /// When the subscription was made, in milliseconds since 1970.
    pub sub_version: i64,
    /// The tags.
    #[serde(deserialize_with = "null_is_default")]
    pub tags_set: Vec<String>,
    /// The topic.
    pub topic: String,
}
