//! Finding messages by key and by place.

use std::borrow::Cow;

use super::{EmptyResponse, request};
use crate::header::header;

header! {
    /// Asks for the messages of a topic that have a key. No body; the answer's body is stored messages, see
    /// [`crate::message::record`].
    pub struct QueryMessageRequest<'a> {
        /// The topic.
        pub topic: Cow<'a, str> = "topic",
        /// One of the message's keys, or the id that its producer gave it.
        pub key: Cow<'a, str> = "key",
        /// The most messages wanted. Brokers answer at most 64, and for an id as many as they like.
        pub max_count: i32 = "maxNum",
        /// Messages stored before are left out; milliseconds since 1970.
        pub begin_timestamp: i64 = "beginTimestamp",
        /// Messages stored later are left out; milliseconds since 1970.
        pub end_timestamp: i64 = "endTimestamp",
        /// Whether `key` is an id.
        pub is_unique_key: Option<bool> = "_UNIQUE_KEY_QUERY",
    }
}
request!(QueryMessageRequest<'a> = QUERY_MESSAGE -> QueryMessageResponse);

header! {
    /// How far the index of keys reaches.
    pub struct QueryMessageResponse {
        /// When the newest indexed message was stored, in milliseconds since 1970.
        pub index_last_update_timestamp: i64 = "indexLastUpdateTimestamp",
        /// Where the newest indexed message lies in the log.
        pub index_last_update_offset: i64 = "indexLastUpdatePhyoffset",
    }
}

header! {
    /// Asks for the message at a place in the log. No body; the answer's body is one stored message.
    pub struct ViewMessageRequest<'a> {
        /// The topic, since 5.3.
        pub topic: Option<Cow<'a, str>> = "topic",
        /// Position in the commit log, in bytes.
        pub offset: i64 = "offset",
    }
}
request!(ViewMessageRequest<'a> = VIEW_MESSAGE_BY_ID -> EmptyResponse);
