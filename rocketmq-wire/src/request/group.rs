//! Members of groups: heartbeats, leaving, who else is there, queue locks.

use std::borrow::Cow;

use super::{EmptyResponse, bare_request, request};
use crate::header::{EncodeFields, FieldWriter, header};

/// Announces a client, its producers and its consumers. Body: [`crate::model::HeartbeatData`] as JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct HeartbeatRequest;

impl EncodeFields for HeartbeatRequest {
    fn is_present(&self) -> bool {
        false
    }
    fn encode_fields<W: FieldWriter>(&self, _writer: &mut W) {}
}
request!(HeartbeatRequest = HEART_BEAT -> HeartbeatResponse);

header! {
    /// What the broker knows of heartbeats. Brokers before 5.1.3 say nothing.
    pub struct HeartbeatResponse {
        /// Whether the broker takes heartbeats without subscriptions.
        pub supports_v2: Option<bool> = "IS_SUPPORT_HEART_BEAT_V2",
        /// Whether the subscriptions changed.
        pub subscription_changed: Option<bool> = "IS_SUB_CHANGE",
    }
}

header! {
    /// Leaves a group. No body. Clients name exactly one of the two groups.
    pub struct UnregisterClientRequest<'a> {
        /// The client's id.
        pub client_id: Cow<'a, str> = "clientID",
        /// The producer group left.
        pub producer_group: Option<Cow<'a, str>> = "producerGroup",
        /// The consumer group left.
        pub consumer_group: Option<Cow<'a, str>> = "consumerGroup",
    }
}
request!(UnregisterClientRequest<'a> = UNREGISTER_CLIENT -> EmptyResponse);

header! {
    /// Asks for the ids of a group's members. No body; the answer's body is [`crate::model::ConsumerList`] as JSON.
    pub struct ConsumerListRequest<'a> {
        /// The group.
        pub consumer_group: Cow<'a, str> = "consumerGroup",
    }
}
request!(ConsumerListRequest<'a> = GET_CONSUMER_LIST_BY_GROUP -> EmptyResponse);

header! {
    /// Tells a member that its group changed; sent by the broker, one-way. No body.
    pub struct NotifyConsumerIdsChangedRequest<'a> {
        /// The group.
        pub consumer_group: Cow<'a, str> = "consumerGroup",
    }
}
request!(NotifyConsumerIdsChangedRequest<'a> = NOTIFY_CONSUMER_IDS_CHANGED -> EmptyResponse);

bare_request! {
    /// Locks queues for ordered consumption. Body: [`crate::model::LockBatch`] as JSON; the answer's body is
    /// [`crate::model::LockedQueues`] as JSON.
    LockBatchRequest = LOCK_BATCH_MQ
}

bare_request! {
    /// Unlocks queues. Body: [`crate::model::LockBatch`] as JSON.
    UnlockBatchRequest = UNLOCK_BATCH_MQ
}

bare_request! {
    /// Asks whether the broker understands a subscription. Body: [`crate::model::CheckClient`] as JSON.
    CheckClientRequest = CHECK_CLIENT_CONFIG
}
