//! Consumer offsets, and the offsets of queues.

use std::borrow::Cow;

use super::{EmptyResponse, request};
use crate::header::header;

header! {
    /// Asks for the offset that a group has stored for a queue. No body.
    pub struct QueryConsumerOffsetRequest<'a> {
        /// The group.
        pub consumer_group: Cow<'a, str> = "consumerGroup",
        /// The topic.
        pub topic: Cow<'a, str> = "topic",
        /// The queue.
        pub queue_id: i32 = "queueId",
        /// Whether a group without an offset may be told 0; brokers since 5.0, which assume yes.
        pub set_zero_if_not_found: Option<bool> = "setZeroIfNotFound",
        /// The broker that the request is meant for.
        pub broker_name: Option<Cow<'a, str>> = "bname",
    }
}
request!(QueryConsumerOffsetRequest<'a> = QUERY_CONSUMER_OFFSET -> OffsetResponse);

header! {
    /// An offset.
    pub struct OffsetResponse {
        /// The offset.
        pub offset: i64 = "offset",
    }
}

header! {
    /// Stores the offset of a group for a queue. No body; usually one-way.
    pub struct UpdateConsumerOffsetRequest<'a> {
        /// The group.
        pub consumer_group: Cow<'a, str> = "consumerGroup",
        /// The topic.
        pub topic: Cow<'a, str> = "topic",
        /// The queue.
        pub queue_id: i32 = "queueId",
        /// The offset of the first message that is not done.
        pub commit_offset: i64 = "commitOffset",
        /// The broker that the request is meant for.
        pub broker_name: Option<Cow<'a, str>> = "bname",
    }
}
request!(UpdateConsumerOffsetRequest<'a> = UPDATE_CONSUMER_OFFSET -> EmptyResponse);

header! {
    /// Asks for one more than the largest offset of a queue. No body.
    pub struct MaxOffsetRequest<'a> {
        /// The topic.
        pub topic: Cow<'a, str> = "topic",
        /// The queue.
        pub queue_id: i32 = "queueId",
        /// Whether only committed messages count; absent means yes.
        pub committed: Option<bool> = "committed",
        /// The broker that the request is meant for.
        pub broker_name: Option<Cow<'a, str>> = "bname",
    }
}
request!(MaxOffsetRequest<'a> = GET_MAX_OFFSET -> OffsetResponse);

header! {
    /// Asks for the smallest offset of a queue. No body.
    pub struct MinOffsetRequest<'a> {
        /// The topic.
        pub topic: Cow<'a, str> = "topic",
        /// The queue.
        pub queue_id: i32 = "queueId",
        /// The broker that the request is meant for.
        pub broker_name: Option<Cow<'a, str>> = "bname",
    }
}
request!(MinOffsetRequest<'a> = GET_MIN_OFFSET -> OffsetResponse);

header! {
    /// Asks for the offset in a queue at a time. No body.
    pub struct SearchOffsetByTimestampRequest<'a> {
        /// The topic.
        pub topic: Cow<'a, str> = "topic",
        /// The queue.
        pub queue_id: i32 = "queueId",
        /// The time, in milliseconds since 1970.
        pub timestamp: i64 = "timestamp",
        /// `LOWER` (when absent) or `UPPER`, in any case; brokers since 5.1.4.
        pub boundary_type: Option<Cow<'a, str>> = "boundaryType",
        /// The broker that the request is meant for.
        pub broker_name: Option<Cow<'a, str>> = "bname",
    }
}
request!(SearchOffsetByTimestampRequest<'a> = SEARCH_OFFSET_BY_TIMESTAMP -> OffsetResponse);

header! {
    /// Asks when the oldest message of a queue was stored. No body.
    pub struct EarliestStoreTimeRequest<'a> {
        /// The topic.
        pub topic: Cow<'a, str> = "topic",
        /// The queue.
        pub queue_id: i32 = "queueId",
        /// The broker that the request is meant for.
        pub broker_name: Option<Cow<'a, str>> = "bname",
    }
}
request!(EarliestStoreTimeRequest<'a> = GET_EARLIEST_MSG_STORETIME -> StoreTimeResponse);

header! {
    /// When a message was stored.
    pub struct StoreTimeResponse {
        /// Milliseconds since 1970; -1 when the queue is empty.
        pub timestamp: i64 = "timestamp",
    }
}
