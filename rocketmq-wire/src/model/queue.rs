//! Queues, and requests about sets of them.

use std::cmp::Ordering;

use serde::{Deserialize, Serialize};

/// One queue of a topic on one broker.
///
/// Ordered by topic, broker and queue as in Apache, which allocation strategies rely on.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct MessageQueue {
    /// The broker's name.
    pub broker_name: String,
    /// The queue's number on that broker.
    pub queue_id: i32,
    /// The topic.
    pub topic: String,
}

impl Ord for MessageQueue {
    fn cmp(&self, other: &Self) -> Ordering {
        let by_topic = self.topic.cmp(&other.topic);
        by_topic.then_with(|| self.broker_name.cmp(&other.broker_name)).then_with(|| self.queue_id.cmp(&other.queue_id))
    }
}

impl PartialOrd for MessageQueue {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
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
