//! Consumer groups as brokers keep them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::DataVersion;

/// The settings of a consumer group on one broker. What only brokers since 5.0 have is left out while it is `None`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SubscriptionGroupConfig {
    /// Since 5.0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attributes: Option<BTreeMap<String, String>>,
    /// The replica to read from; 0 is the master.
    pub broker_id: i64,
    /// Whether every member may read every queue.
    pub consume_broadcast_enable: bool,
    /// Whether the group may consume.
    pub consume_enable: bool,
    /// Not read by brokers any more.
    pub consume_from_min_enable: bool,
    /// Whether pop consumers consume in order; since 5.0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub consume_message_orderly: Option<bool>,
    /// Not read by brokers; since 5.0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub consume_timeout_minute: Option<i32>,
    /// The group.
    pub group_name: String,
    /// When pop consumers get a message again; since 5.0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group_retry_policy: Option<GroupRetryPolicy>,
    /// System flag of the group; since 5.0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group_sys_flag: Option<i32>,
    /// Whether members are told when others come and go.
    pub notify_consumer_ids_changed_enable: bool,
    /// How often a message is delivered again before it is a dead letter.
    pub retry_max_times: i32,
    /// Queues of the group's retry topic; 0 drops what is sent back.
    pub retry_queue_nums: i32,
    /// The replica to read from when the group is far behind.
    pub which_broker_when_consume_slowly: i64,
}

impl Default for SubscriptionGroupConfig {
    /// As Apache's class, without what only 5.x has.
    fn default() -> Self {
        Self {
            attributes: None,
            broker_id: 0,
            consume_broadcast_enable: true,
            consume_enable: true,
            consume_from_min_enable: true,
            consume_message_orderly: None,
            consume_timeout_minute: None,
            group_name: String::new(),
            group_retry_policy: None,
            group_sys_flag: None,
            notify_consumer_ids_changed_enable: true,
            retry_max_times: 16,
            retry_queue_nums: 1,
            which_broker_when_consume_slowly: 1,
        }
    }
}

/// When pop consumers get a message again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct GroupRetryPolicy {
    /// The delays of `CUSTOMIZED`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub customized_retry_policy: Option<CustomizedRetryPolicy>,
    /// The delays of `EXPONENTIAL`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exponential_retry_policy: Option<ExponentialRetryPolicy>,
    /// `CUSTOMIZED` or `EXPONENTIAL`.
    #[serde(rename = "type")]
    pub kind: String,
}

impl Default for GroupRetryPolicy {
    fn default() -> Self {
        Self { customized_retry_policy: None, exponential_retry_policy: None, kind: "CUSTOMIZED".to_owned() }
    }
}

/// A list of delays.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct CustomizedRetryPolicy {
    /// Delays in milliseconds.
    pub next: Vec<i64>,
}

/// Delays that grow.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ExponentialRetryPolicy {
    /// The first delay in milliseconds.
    pub initial: i64,
    /// The longest in milliseconds.
    pub max: i64,
    /// The factor from one to the next.
    pub multiplier: i64,
}

/// A broker's consumer groups.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SubscriptionGroupTable {
    /// The table's state.
    pub data_version: DataVersion,
    /// Group to topic to what is forbidden, as bits; since 5.0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub forbidden_table: Option<BTreeMap<String, BTreeMap<String, i32>>>,
    /// Group to settings.
    pub subscription_group_table: BTreeMap<String, SubscriptionGroupConfig>,
}

/// Several groups to be created.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SubscriptionGroupList {
    /// The groups.
    pub group_config_list: Vec<SubscriptionGroupConfig>,
}

/// Names of groups.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct GroupList {
    /// The groups.
    pub group_list: Vec<String>,
}
