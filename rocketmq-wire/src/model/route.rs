//! Routes of topics.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Where a topic's queues are.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TopicRoute {
    /// The brokers.
    pub broker_datas: Vec<BrokerData>,
    /// Legacy: always empty.
    pub filter_server_table: BTreeMap<String, Vec<String>>,
    /// The fixed queues of an ordered topic, `broker:queues` joined by semicolons.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub order_topic_conf: Option<String>,
    /// The queues, per broker.
    pub queue_datas: Vec<QueueData>,
}

/// A broker and its addresses.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct BrokerData {
    /// Broker id to address; 0 is the master.
    pub broker_addrs: BTreeMap<i64, String>,
    /// The broker's name.
    pub broker_name: String,
    /// The cluster.
    pub cluster: String,
    /// Whether a slave may act as master; name servers since 5.0.
    pub enable_acting_master: bool,
}

/// A topic's queues on one broker.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct QueueData {
    /// The broker's name.
    pub broker_name: String,
    /// Permission bits, see [`super::perm`].
    pub perm: i32,
    /// Queues to read from.
    pub read_queue_nums: i32,
    /// System flag of the topic; servers up to 4.8 spell it `topicSynFlag`.
    #[serde(alias = "topicSynFlag")]
    pub topic_sys_flag: i32,
    /// Queues to write to.
    pub write_queue_nums: i32,
}
