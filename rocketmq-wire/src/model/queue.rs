//! Queues, and requests about sets of them.

use serde::{Deserialize, Serialize};

/// One queue of a topic on one broker.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct MessageQueue {
    // In the order of Apache's comparison, which allocation strategies rely on.
    /// The topic.
    pub topic: String,
    /// The broker's name.
    pub broker_name: String,
    /// The queue's number on that broker.
    pub queue_id: i32,
}

/// Members of a group.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ConsumerList {
    /// Client ids.
    pub consumer_id_list: Vec<String>,
}

/// Queues to lock or unlock.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LockBatch {
    /// The client that owns the locks.
    pub client_id: String,
    /// Its group.
    pub consumer_group: String,
    /// The queues.
    pub mq_set: Vec<MessageQueue>,
    /// Whether the broker must not pass the request on; since 5.0.
    pub only_this_broker: bool,
}

/// Queues that were locked.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct LockedQueues {
    /// The queues.
    #[serde(rename = "lockOKMQSet")]
    pub locked: Vec<MessageQueue>,
}

/// A subscription to be checked.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CheckClient {
    /// The client's id.
    pub client_id: String,
    /// Its group.
    pub group: String,
    /// The subscription.
    pub subscription_data: super::SubscriptionData,
}
