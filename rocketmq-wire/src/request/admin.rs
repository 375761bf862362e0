//! Topics and groups as an administrator sees them.

use std::borrow::Cow;

use super::{EmptyResponse, request};
use crate::header::header;

header! {
    /// Creates a topic on a broker or changes it. No body.
    pub struct CreateTopicRequest<'a> {
        /// The topic.
        pub topic: Cow<'a, str> = "topic",
        /// The topic whose brokers get it; brokers themselves ignore it.
        pub default_topic: Cow<'a, str> = "defaultTopic",
        /// Queues to read from.
        pub read_queue_nums: i32 = "readQueueNums",
        /// Queues to write to.
        pub write_queue_nums: i32 = "writeQueueNums",
        /// Permission bits: 4 read, 2 write, 1 inherit.
        pub perm: i32 = "perm",
        /// `SINGLE_TAG` or `MULTI_TAG`.
        pub topic_filter_type: Cow<'a, str> = "topicFilterType",
        /// System flag of the topic.
        pub topic_sys_flag: Option<i32> = "topicSysFlag",
        /// Whether the topic is ordered.
        pub order: Option<bool> = "order",
        /// `+key=value` list joined by commas, since 5.0.
        pub attributes: Option<Cow<'a, str>> = "attributes",
        /// Whether checks may be skipped, since 5.0.
        pub force: Option<bool> = "force",
    }
}
request!(CreateTopicRequest<'a> = UPDATE_AND_CREATE_TOPIC -> EmptyResponse);
