//! Pulling messages out of a queue.

use std::borrow::Cow;

use super::request;
use crate::header::{EncodeFields, FieldWriter, header};

/// Bits of [`PullMessageRequest::sys_flag`].
pub mod pull_flag {
    /// `commit_offset` is to be stored.
    pub const COMMIT_OFFSET: i32 = 1;
    /// The broker may hold the request until a message arrives.
    pub const SUSPEND: i32 = 1 << 1;
    /// The request carries its subscription.
    pub const SUBSCRIPTION: i32 = 1 << 2;
    /// The subscription is a class filter.
    pub const CLASS_FILTER: i32 = 1 << 3;
    /// The request comes from a lite pull consumer.
    pub const LITE_PULL: i32 = 1 << 4;
}

header! {
    /// Asks for the messages of one queue from an offset on. No body; the answer's body is stored messages, see
    /// [`crate::message::record`].
    pub struct PullMessageRequest<'a> {
        /// The consumer's group.
        pub consumer_group: Cow<'a, str> = "consumerGroup",
        /// The topic.
        pub topic: Cow<'a, str> = "topic",
        /// The queue.
        pub queue_id: i32 = "queueId",
        /// The first offset wanted.
        pub queue_offset: i64 = "queueOffset",
        /// The most messages wanted.
        pub max_message_count: i32 = "maxMsgNums",
        /// Bits of [`pull_flag`].
        pub sys_flag: i32 = "sysFlag",
        /// The consumer's offset, stored when the flag says so.
        pub commit_offset: i64 = "commitOffset",
        /// How long the broker may hold the request, in milliseconds.
        pub suspend_timeout_millis: i64 = "suspendTimeoutMillis",
        /// The subscription's expression, when the flag says so.
        pub subscription: Option<Cow<'a, str>> = "subscription",
        /// The version of the subscription in the heartbeat.
        pub sub_version: i64 = "subVersion",
        /// `TAG` or `SQL92`; absent means `TAG`.
        pub expression_type: Option<Cow<'a, str>> = "expressionType",
        /// The most body bytes wanted, to brokers since 5.0.
        pub max_message_bytes: Option<i32> = "maxMsgBytes",
        /// Set by proxies.
        pub request_source: Option<i32> = "requestSource",
        /// Set by proxies.
        pub proxy_forward_client_id: Option<Cow<'a, str>> = "proxyFrowardClientId",
        /// The broker that the request is meant for.
        pub broker_name: Option<Cow<'a, str>> = "bname",
    }
}
request!(PullMessageRequest<'a> = PULL_MESSAGE -> PullMessageResponse);

/// As [`PullMessageRequest`], sent by lite pull consumers to brokers since 5.0.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LitePullMessageRequest<'a>(pub PullMessageRequest<'a>);

impl EncodeFields for LitePullMessageRequest<'_> {
    fn encode_fields<W: FieldWriter>(&self, writer: &mut W) {
        self.0.encode_fields(writer);
    }
}
request!(LitePullMessageRequest<'a> = LITE_PULL_MESSAGE -> PullMessageResponse);

header! {
    /// What a pull found, whatever its code.
    pub struct PullMessageResponse {
        /// The broker id to pull from next.
        pub suggest_which_broker_id: i64 = "suggestWhichBrokerId",
        /// The offset to pull from next.
        pub next_begin_offset: i64 = "nextBeginOffset",
        /// The smallest offset of the queue.
        pub min_offset: i64 = "minOffset",
        /// One more than the largest offset of the queue.
        pub max_offset: i64 = "maxOffset",
        /// Shift between logical and physical offsets of a static topic.
        pub offset_delta: Option<i64> = "offsetDelta",
        /// System flag of the topic, from brokers since 5.0.
        pub topic_sys_flag: Option<i32> = "topicSysFlag",
        /// System flag of the group, from brokers since 5.0.
        pub group_sys_flag: Option<i32> = "groupSysFlag",
        /// Why consuming is forbidden.
        pub forbidden_type: Option<i32> = "forbiddenType",
    }
}
