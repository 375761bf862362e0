//! A transaction that is begun and not decided.

use std::fmt;
use std::sync::Arc;

use super::{Half, Marks, TransactionProducer, TransactionResolution, end};
use crate::error::Result;
use crate::producer::SendReceipt;

/// A half message at a broker, to be committed or rolled back.
///
/// Dropping it undecided leaves the decision to the checker, which the broker asks after a while: 6 s by default, and again
/// every 30 s.
#[must_use = "a transaction that is dropped is left to the checker"]
pub struct Transaction {
    producer: TransactionProducer,
    topic: Arc<str>,
    marks: Marks,
    half: SendReceipt,
}

impl Transaction {
    pub(super) fn new(producer: TransactionProducer, topic: Arc<str>, marks: Marks, half: SendReceipt) -> Self {
        Self { producer, topic, marks, half }
    }

    pub(super) fn half(&self) -> &SendReceipt {
        &self.half
    }

    /// The id of the message, which consumers see, and which names the transaction too.
    pub fn message_id(&self) -> &str {
        self.half.message_id()
    }

    /// Lets the message be delivered. Returns when the broker has done so.
    ///
    /// Dropping the future may have committed the message or not: the checker has to know.
    ///
    /// # Errors
    ///
    /// When the broker could not be told or refuses. Then the checker decides when the broker asks: it must come to the
    /// same. Trying again would not help: if the broker did commit, the message would come twice.
    pub async fn commit(self) -> Result<()> {
        self.resolve(TransactionResolution::Commit).await
    }

    /// Takes the message back: it is never delivered. Returns when the broker has noted it.
    ///
    /// Dropping the future may have taken the message back or not: the checker has to know.
    ///
    /// # Errors
    ///
    /// As [`commit`](Self::commit).
    pub async fn rollback(self) -> Result<()> {
        self.resolve(TransactionResolution::Rollback).await
    }

    pub(super) async fn resolve(self, resolution: TransactionResolution) -> Result<()> {
        let producer = &self.producer.0.producer.0;
        let half = Half::of_receipt(&self.topic, &producer.group, &self.marks, &self.half)?;
        let peer = producer.master(self.half.queue())?;
        let deadline = producer.deadline(producer.cluster.env().now(), None);
        end::end(producer, &peer, &half, resolution, None, deadline).await
    }
}

impl fmt::Debug for Transaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transaction")
            .field("topic", &self.topic)
            .field("message_id", &self.message_id())
            .field("broker_name", &self.half.queue().broker())
            .finish_non_exhaustive()
    }
}
