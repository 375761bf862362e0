//! What brokers ask of producers, and what is answered: the outcome of transactions, replies to requests.

use std::borrow::Cow;

use super::{EmptyResponse, request};
use crate::header::header;

header! {
    /// Commits or rolls back a half message. No body; one-way.
    pub struct EndTransactionRequest<'a> {
        /// The topic, from clients since 5.3.
        pub topic: Option<Cow<'a, str>> = "topic",
        /// The producer's group.
        pub producer_group: Cow<'a, str> = "producerGroup",
        /// The offset in the half message's queue.
        pub tran_state_table_offset: i64 = "tranStateTableOffset",
        /// The half message's offset in the commit log.
        pub commit_log_offset: i64 = "commitLogOffset",
        /// 0 unknown, 8 commit, 12 roll back: the transaction bits of [`crate::message::sys_flag`].
        pub commit_or_rollback: i32 = "commitOrRollback",
        /// Whether this answers a check by the broker.
        pub from_transaction_check: Option<bool> = "fromTransactionCheck",
        /// The message's unique id.
        pub message_id: Cow<'a, str> = "msgId",
        /// The transaction's id.
        pub transaction_id: Option<Cow<'a, str>> = "transactionId",
        /// The broker that the request is meant for.
        pub broker_name: Option<Cow<'a, str>> = "bname",
    }
}
request!(EndTransactionRequest<'a> = END_TRANSACTION -> EmptyResponse);

header! {
    /// Asks a producer what became of a half message; sent by the broker, one-way. Body: the message as it is stored,
    /// with the topic and queue that it is meant for. Answered with an [`EndTransactionRequest`].
    pub struct CheckTransactionStateRequest<'a> {
        /// The topic of half messages, from brokers since 5.3.
        pub topic: Option<Cow<'a, str>> = "topic",
        /// The offset in the half message's queue.
        pub tran_state_table_offset: i64 = "tranStateTableOffset",
        /// The half message's offset in the commit log.
        pub commit_log_offset: i64 = "commitLogOffset",
        /// The message's unique id.
        pub message_id: Option<Cow<'a, str>> = "msgId",
        /// The transaction's id.
        pub transaction_id: Option<Cow<'a, str>> = "transactionId",
        /// The id that says where the half message is stored.
        pub offset_message_id: Option<Cow<'a, str>> = "offsetMsgId",
        /// The broker that asks.
        pub broker_name: Option<Cow<'a, str>> = "bname",
    }
}
request!(CheckTransactionStateRequest<'a> = CHECK_TRANSACTION_STATE -> EmptyResponse);

header! {
    /// Hands a reply to the client that waits for it; sent by the broker, which passes the answer's code on to the client
    /// that replied. Body: the reply's, compressed if the system flag says so.
    pub struct PushReplyMessageRequest<'a> {
        /// The group of the producer that replied.
        pub producer_group: Cow<'a, str> = "producerGroup",
        /// The topic of replies of the cluster.
        pub topic: Cow<'a, str> = "topic",
        /// The topic whose settings an automatically created topic inherits.
        pub default_topic: Cow<'a, str> = "defaultTopic",
        /// How many queues an automatically created topic gets.
        pub default_topic_queue_nums: i32 = "defaultTopicQueueNums",
        /// The queue that the reply was sent to.
        pub queue_id: i32 = "queueId",
        /// System flag of the reply, see [`crate::message::sys_flag`].
        pub sys_flag: i32 = "sysFlag",
        /// When the reply was made, in milliseconds since 1970.
        pub born_timestamp: i64 = "bornTimestamp",
        /// The user's flag.
        pub flag: i32 = "flag",
        /// Encoded properties, see [`crate::message::properties`].
        pub properties: Option<Cow<'a, str>> = "properties",
        /// Always zero.
        pub reconsume_times: Option<i32> = "reconsumeTimes",
        /// Whether the sender works in unit mode.
        pub unit_mode: Option<bool> = "unitMode",
        /// Where the reply was sent from, as `address:port`.
        pub born_host: Cow<'a, str> = "bornHost",
        /// The broker, as `address:port`.
        pub store_host: Cow<'a, str> = "storeHost",
        /// When the broker took the reply, in milliseconds since 1970.
        pub store_timestamp: i64 = "storeTimestamp",
    }
}
request!(PushReplyMessageRequest<'a> = PUSH_REPLY_MESSAGE_TO_CLIENT -> EmptyResponse);
