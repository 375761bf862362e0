//! What brokers ask of producers: the outcome of transactions.

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
        /// 0 unknown, 8 commit, 12 roll back.
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
