//! Topics as brokers keep and register them, and clusters as name servers list them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::BrokerData;

/// Bits of a topic's permission.
pub mod perm {
    /// Automatically created topics inherit from this one.
    pub const INHERIT: i32 = 1;
    /// Messages may be sent.
    pub const WRITE: i32 = 1 << 1;
    /// Messages may be pulled.
    pub const READ: i32 = 1 << 2;
}

/// The state of a table: a higher counter or another timestamp means that it changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DataVersion {
    /// Changes so far.
    pub counter: i64,
    /// Election term of the broker; since 5.0.
    pub state_version: i64,
    /// When it last changed, in milliseconds since 1970.
    pub timestamp: i64,
}

/// A topic on one broker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TopicConfig {
    /// Since 5.0.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub attributes: BTreeMap<String, String>,
    /// Whether the topic is ordered.
    pub order: bool,
    /// Permission bits, see [`perm`].
    pub perm: i32,
    /// Queues to read from.
    pub read_queue_nums: i32,
    /// `SINGLE_TAG` or `MULTI_TAG`.
    pub topic_filter_type: String,
    /// The topic.
    pub topic_name: String,
    /// System flag of the topic.
    pub topic_sys_flag: i32,
    /// Queues to write to.
    pub write_queue_nums: i32,
}

impl Default for TopicConfig {
    /// Sixteen queues for reading and writing, as Apache's class.
    fn default() -> Self {
        Self {
            attributes: BTreeMap::new(),
            order: false,
            perm: perm::READ | perm::WRITE,
            read_queue_nums: 16,
            topic_filter_type: "SINGLE_TAG".to_owned(),
            topic_name: String::new(),
            topic_sys_flag: 0,
            write_queue_nums: 16,
        }
    }
}

/// A broker's topics.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TopicConfigTable {
    /// The table's state.
    pub data_version: DataVersion,
    /// Topic to settings.
    pub topic_config_table: BTreeMap<String, TopicConfig>,
}

/// Several topics to be created.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TopicConfigList {
    /// The topics.
    pub topic_config_list: Vec<TopicConfig>,
}

/// The body of a registration.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RegisterBrokerBody {
    /// Legacy: always empty.
    pub filter_server_list: Vec<String>,
    /// The broker's topics.
    pub topic_config_serialize_wrapper: TopicConfigTable,
}

/// All clusters and brokers.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ClusterInfo {
    /// Broker name to addresses.
    pub broker_addr_table: BTreeMap<String, BrokerData>,
    /// Cluster to broker names.
    pub cluster_addr_table: BTreeMap<String, Vec<String>>,
}

/// Names of topics.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TopicList {
    /// The broker asked, when a broker answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub broker_addr: Option<String>,
    /// The topics.
    pub topic_list: Vec<String>,
}
