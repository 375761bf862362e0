//! What users hand messages to, and what comes of it.

use std::any::Any;
use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;

use super::message_view::MessageView;

/// What is to become of a message.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum ConsumeResult {
    /// It is consumed.
    #[default]
    Success,
    /// It is to be delivered again, after the delay that belongs to the number of its failures.
    Retry,
    /// It is to be delivered again after this time. Brokers know 18 delays from 1 s to 2 h: the first that is long enough
    /// is taken. An ordered consumer waits exactly so long, from 10 ms to 30 s.
    RetryAfter(Duration),
    /// It is to be delivered again with a delay level of the broker, from 1 on.
    RetryAtLevel(u8),
    /// It goes to the group's dead letters now.
    DeadLetter,
}

/// What a handler can come to: nothing or `Ok` when the message is consumed, `Err` when it has to be delivered again, or a
/// [`ConsumeResult`] that says more.
pub trait HandlerResult {
    /// What becomes of the message, and the reason if it was not consumed.
    fn result(self) -> (ConsumeResult, Option<String>);
}

impl HandlerResult for () {
    fn result(self) -> (ConsumeResult, Option<String>) {
        (ConsumeResult::Success, None)
    }
}

impl HandlerResult for ConsumeResult {
    fn result(self) -> (ConsumeResult, Option<String>) {
        (self, None)
    }
}

impl<T: HandlerResult, E: fmt::Display> HandlerResult for Result<T, E> {
    fn result(self) -> (ConsumeResult, Option<String>) {
        match self {
            Ok(result) => result.result(),
            Err(error) => (ConsumeResult::Retry, Some(error.to_string())),
        }
    }
}

/// What is to become of the messages of a batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BatchResult {
    /// How many from the first on have succeeded.
    succeeded: usize,
    /// What becomes of the others.
    others: ConsumeResult,
    /// Each message by itself, instead.
    each: Option<Vec<ConsumeResult>>,
}

impl BatchResult {
    /// All are consumed.
    pub fn success() -> Self {
        Self::first(usize::MAX)
    }

    /// None is consumed; all are delivered again.
    pub fn retry() -> Self {
        Self::first(0)
    }

    /// So many from the first on are consumed, and the others are delivered again. What Java calls the ack index is this
    /// less one.
    pub fn first(succeeded: usize) -> Self {
        Self { succeeded, others: ConsumeResult::Retry, each: None }
    }

    /// One result for each message, in their order. A message without one is delivered again.
    pub fn each(results: impl IntoIterator<Item = ConsumeResult>) -> Self {
        Self { succeeded: 0, others: ConsumeResult::Retry, each: Some(results.into_iter().collect()) }
    }

    /// Says what becomes of those that are not consumed, instead of being delivered again after the usual delay.
    #[must_use]
    pub fn others(mut self, result: ConsumeResult) -> Self {
        self.others = result;
        self
    }

    fn of(&self, index: usize) -> ConsumeResult {
        match &self.each {
            Some(each) => each.get(index).cloned().unwrap_or_else(|| self.others.clone()),
            None if index < self.succeeded => ConsumeResult::Success,
            None => self.others.clone(),
        }
    }
}

/// What a handler of batches can come to: nothing or `Ok(())` when all messages are consumed, `Err` when none is, or a
/// [`BatchResult`].
pub trait BatchHandlerResult {
    /// What becomes of the messages, and the reason if not all were consumed.
    fn result(self) -> (BatchResult, Option<String>);
}

impl BatchHandlerResult for () {
    fn result(self) -> (BatchResult, Option<String>) {
        (BatchResult::success(), None)
    }
}

impl BatchHandlerResult for BatchResult {
    fn result(self) -> (BatchResult, Option<String>) {
        (self, None)
    }
}

impl<T: BatchHandlerResult, E: fmt::Display> BatchHandlerResult for Result<T, E> {
    fn result(self) -> (BatchResult, Option<String>) {
        match self {
            Ok(result) => result.result(),
            Err(error) => (BatchResult::retry(), Some(error.to_string())),
        }
    }
}

/// What one call of a handler came to.
#[derive(Debug)]
pub(super) struct Handled<R> {
    pub(super) result: R,
    pub(super) reason: Option<String>,
    pub(super) panicked: bool,
}

type One = dyn Fn(MessageView) -> BoxFuture<'static, Handled<ConsumeResult>> + Send + Sync;
type Batch = dyn Fn(Vec<MessageView>) -> BoxFuture<'static, Handled<BatchResult>> + Send + Sync;

/// A user's function; clones are the same.
#[derive(Clone)]
pub(super) enum Handler {
    One(Arc<One>),
    Batch(Arc<Batch>),
}

impl Handler {
    pub(super) fn one<H, F>(handler: H) -> Self
    where
        H: Fn(MessageView) -> F + Send + Sync + 'static,
        F: Future + Send + 'static,
        F::Output: HandlerResult,
    {
        let handler = Arc::new(handler);
        Self::One(Arc::new(move |message| {
            let handler = Arc::clone(&handler);
            Box::pin(async move {
                // Nothing of ours is in there that a panic could leave half changed; the handler's own state is the
                // handler's. The call itself may panic, too.
                let run = AssertUnwindSafe(async { handler(message).await.result() }).catch_unwind();
                match run.await {
                    Ok((result, reason)) => Handled { result, reason, panicked: false },
                    Err(panic) => Handled { result: ConsumeResult::Retry, reason: Some(text(&*panic)), panicked: true },
                }
            })
        }))
    }

    pub(super) fn batch<H, F>(handler: H) -> Self
    where
        H: Fn(Vec<MessageView>) -> F + Send + Sync + 'static,
        F: Future + Send + 'static,
        F::Output: BatchHandlerResult,
    {
        let handler = Arc::new(handler);
        Self::Batch(Arc::new(move |messages| {
            let handler = Arc::clone(&handler);
            Box::pin(async move {
                let run = AssertUnwindSafe(async { handler(messages).await.result() }).catch_unwind();
                match run.await {
                    Ok((result, reason)) => Handled { result, reason, panicked: false },
                    Err(panic) => Handled { result: BatchResult::retry(), reason: Some(text(&*panic)), panicked: true },
                }
            })
        }))
    }

    /// Hands one message over.
    pub(super) async fn run_one(&self, message: MessageView) -> Handled<ConsumeResult> {
        match self {
            Self::One(handler) => handler(message).await,
            Self::Batch(handler) => {
                let Handled { result, reason, panicked } = handler(vec![message]).await;
                Handled { result: result.of(0), reason, panicked }
            }
        }
    }

    /// Hands messages over, one after the other or all at once.
    pub(super) async fn run(&self, messages: Vec<MessageView>) -> Results {
        match self {
            Self::One(handler) => {
                let mut results = Vec::with_capacity(messages.len());
                for message in messages {
                    results.push(handler(message).await);
                }
                Results::Each(results)
            }
            Self::Batch(handler) => {
                let count = messages.len();
                let Handled { result, reason, panicked } = handler(messages).await;
                if result.each.is_none() && result.succeeded >= count {
                    return Results::Success;
                }
                let of = |index| {
                    let result = result.of(index);
                    let reason = if result == ConsumeResult::Success { None } else { reason.clone() };
                    Handled { result, reason, panicked }
                };
                Results::Each((0..count).map(of).collect())
            }
        }
    }
}

/// What a handler came to with several messages.
#[derive(Debug)]
pub(super) enum Results {
    /// All are consumed.
    Success,
    /// Each by itself, in their order.
    Each(Vec<Handled<ConsumeResult>>),
}

impl Results {
    /// Whether all are consumed.
    pub(super) fn are_success(&self) -> bool {
        match self {
            Self::Success => true,
            Self::Each(results) => results.iter().all(|handled| handled.result == ConsumeResult::Success),
        }
    }
}

impl fmt::Debug for Handler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::One(_) => "One",
            Self::Batch(_) => "Batch",
        })
    }
}

fn text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&'static str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message");
    format!("the handler panicked: {text}")
}

/// Which handler a message goes to, by its topic.
#[derive(Debug, Default)]
pub(super) struct Handlers {
    by_topic: RwLock<BTreeMap<Arc<str>, Handler>>,
    of_the_rest: Option<Handler>,
}

impl Handlers {
    pub(super) fn new(by_topic: BTreeMap<Arc<str>, Handler>, of_the_rest: Option<Handler>) -> Self {
        Self { by_topic: RwLock::new(by_topic), of_the_rest }
    }

    /// The one for a topic. `None` for a topic that was unsubscribed from, or when messages go to a stream.
    pub(super) fn of(&self, topic: &str) -> Option<Handler> {
        // An insertion cannot panic half way.
        let by_topic = self.by_topic.read().unwrap_or_else(PoisonError::into_inner);
        by_topic.get(topic).or(self.of_the_rest.as_ref()).cloned()
    }

    /// Whether topics without a handler of their own have one.
    pub(super) fn has_common(&self) -> bool {
        self.of_the_rest.is_some()
    }

    pub(super) fn insert(&self, topic: Arc<str>, handler: Handler) {
        self.by_topic.write().unwrap_or_else(PoisonError::into_inner).insert(topic, handler);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_result_tells_of_each_message() {
        let of = |result: BatchResult| (0..3).map(|index| result.of(index)).collect::<Vec<_>>();
        let (success, retry) = (ConsumeResult::Success, ConsumeResult::Retry);
        assert_eq!(of(BatchResult::success()), vec![success.clone(); 3]);
        assert_eq!(of(BatchResult::retry()), vec![retry.clone(); 3]);
        assert_eq!(of(BatchResult::first(1)), [success.clone(), retry.clone(), retry.clone()]);
        let dead = BatchResult::first(2).others(ConsumeResult::DeadLetter);
        assert_eq!(of(dead), [success.clone(), success.clone(), ConsumeResult::DeadLetter]);
        let each = BatchResult::each([ConsumeResult::DeadLetter, success.clone()]);
        assert_eq!(of(each), [ConsumeResult::DeadLetter, success, retry]);
    }
}
