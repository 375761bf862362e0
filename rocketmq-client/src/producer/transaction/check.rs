//! Answering brokers that ask what became of a half message.

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures_util::FutureExt;
use rocketmq_wire::message::properties;

use super::{Half, TransactionResolution, end};
use crate::cluster::{Check, CheckQueue};
use crate::consumer::MessageView;
use crate::error::Result;
use crate::producer::{Inner, Producer};

/// The largest body of a checked message after decompression.
const MAX_BODY_BYTES: usize = 16 * 1024 * 1024;

/// Says what became of a transaction, from its message alone. Every async function of a [`MessageView`] that returns a
/// [`TransactionResolution`], or a result as in [`transact`](super::TransactionProducer::transact), is one.
pub trait TransactionChecker: Send + Sync + 'static {
    /// What became of the transaction of this message.
    ///
    /// May be asked more than once about one message, and about messages that other processes of the group have sent. An
    /// answer that does not come, as after a panic, counts as [`TransactionResolution::Unknown`]: brokers ask again, 15 times
    /// by default, and then give the message up.
    fn check(&self, message: MessageView) -> impl Future<Output = TransactionResolution> + Send;
}

impl<F, R> TransactionChecker for F
where
    F: Fn(MessageView) -> R + Send + Sync + 'static,
    R: Future + Send,
    R::Output: Into<TransactionResolution>,
{
    async fn check(&self, message: MessageView) -> TransactionResolution {
        self(message).await.into()
    }
}

/// One of the tasks that answer: as many as checks may run at the same time. Ends when the queue does.
///
/// Dropping the future in the midst of a check leaves the question to be asked again.
pub(super) async fn work<C: TransactionChecker>(producer: Producer, queue: Arc<CheckQueue>, checker: Arc<C>) {
    while let Some(check) = queue.next().await {
        if let Err(error) = answer(&producer.0, &*checker, &check).await {
            tracing::warn!(group = producer.group(), %error, "a broker could not be told what became of a transaction: it will ask again");
        }
    }
}

async fn answer<C: TransactionChecker>(producer: &Inner, checker: &C, check: &Check) -> Result<()> {
    let cluster = &producer.cluster;
    let name = match &check.broker_name {
        Some(name) => Some(name.as_str().into()),
        None => cluster.broker_at(&check.broker),
    };
    let mut view = MessageView::of(check.message.clone(), name.as_deref().unwrap_or_default(), cluster.namespace());
    let message_id = view.message_id().into_owned();
    let (resolution, why) = match view.inflate(MAX_BODY_BYTES) {
        Err(error) => (TransactionResolution::Unknown, Some(error.to_string())),
        // Nothing of ours is in there that a panic could leave half changed; the checker's own state is the checker's.
        Ok(()) => match AssertUnwindSafe(async { checker.check(view).await }).catch_unwind().await {
            Ok(resolution) => (resolution, None),
            Err(_) => (TransactionResolution::Unknown, Some("the checker panicked".to_owned())),
        },
    };
    let half = Half {
        topic: check.message.topic(),
        group: &producer.group,
        broker_name: name.as_deref(),
        queue_offset: check.queue_offset,
        commit_log_offset: check.commit_log_offset,
        message_id: &message_id,
        transaction_id: check.transaction_id.as_deref().unwrap_or(&message_id),
        tags: check.message.tags().unwrap_or_default(),
        keys: check.message.property(properties::KEYS).unwrap_or_default(),
        from_check: true,
    };
    let deadline = cluster.env().now() + cluster.config().request_timeout;
    end::end(producer, &cluster.peer(&check.broker), &half, resolution, why.as_deref(), deadline).await
}
