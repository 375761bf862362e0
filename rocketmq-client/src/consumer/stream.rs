//! Messages as a stream.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_core::Stream;
use futures_util::future::BoxFuture;

use super::dispatch::Work;
use super::group::Group;
use super::handler::ConsumeResult;
use super::message_view::MessageView;
use super::owned_queue::OwnedQueue;
use super::process_queue::Ticket;
use super::push::PushConsumer;
use super::settle::Settled;
use crate::error::Result;
use crate::telemetry::{Processing, Telemetry};

/// The messages of a consumer, one after the other, made by [`stream`](super::PushConsumerBuilder::stream).
///
/// Deliveries may be decided in any order and anywhere; offsets are stored only up to the first that is not decided. An
/// [ordered](super::PushConsumerBuilder::ordered) stream brings the next message of a queue when the one before is decided.
/// It ends when the consumer is shut down. Dropping it ends the consumer at once.
///
/// ```no_run
/// # async fn handle(delivery: &rocketmq_native::consumer::Delivery) -> Result<(), rocketmq_native::Error> { Ok(()) }
/// # async fn example(client: rocketmq_native::Client) -> Result<(), rocketmq_native::Error> {
/// let mut stream = client.push_consumer("audit").subscribe("orders", "*").stream().await?;
/// while let Some(delivery) = stream.next().await {
///     handle(&delivery).await?; // left by an error, the delivery is dropped undecided: it comes again
///     delivery.ack();
/// }
/// # Ok(())
/// # }
/// ```
#[must_use = "dropping a stream ends its consumer"]
pub struct DeliveryStream {
    consumer: PushConsumer,
    /// The wait for the next message, if one was begun.
    next: Option<BoxFuture<'static, Option<Work>>>,
}

impl DeliveryStream {
    pub(super) fn new(consumer: PushConsumer) -> Self {
        Self { consumer, next: None }
    }

    /// The next message; `None` when the consumer was shut down.
    ///
    /// Dropping the future loses nothing.
    pub async fn next(&mut self) -> Option<Delivery> {
        std::future::poll_fn(|context| Pin::new(&mut *self).poll_next(context)).await
    }

    /// The consumer behind the stream, which tells of itself, and can be paused.
    pub fn consumer(&self) -> &PushConsumer {
        &self.consumer
    }

    /// Ends the consumer in good order, as [`PushConsumer::shutdown`] does: waits for deliveries that are not decided.
    ///
    /// # Errors
    ///
    /// As [`PushConsumer::shutdown`].
    pub async fn shutdown(&self) -> Result<()> {
        self.consumer.shutdown().await
    }
}

impl Stream for DeliveryStream {
    type Item = Delivery;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Delivery>> {
        loop {
            let group = Arc::clone(&self.consumer.group);
            let next =
                self.next.get_or_insert_with(|| Box::pin(async move { group.dispatch.next(group.env(), 1).await }));
            let Poll::Ready(work) = next.as_mut().poll(context) else { return Poll::Pending };
            self.next = None;
            let Some(Work { queue, mut messages }) = work else { return Poll::Ready(None) };
            let Some((ticket, message)) = messages.pop() else { continue };
            let group = Arc::clone(&self.consumer.group);
            let plain = message.plain(group.options.max_body_bytes, group.env().wall_clock_ms());
            let mut open = Open { group, queue, ticket, message, processing: None };
            match plain {
                Ok(message) => {
                    open.processing = open.telemetry().and_then(|telemetry| {
                        let (cluster, name) = (&open.group.cluster, &open.group.name);
                        telemetry.begin_processing(cluster, name, std::slice::from_ref(&message))
                    });
                    return Poll::Ready(Some(Delivery { message, open: Some(open) }));
                }
                Err(error) => open.settle(ConsumeResult::Retry, Some(error.to_string())),
            }
        }
    }
}

impl fmt::Debug for DeliveryStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeliveryStream").field("consumer", &self.consumer).finish_non_exhaustive()
    }
}

/// A message that is to be decided. Reads like a [`MessageView`].
///
/// Dropped undecided, it is delivered again, as after [`nack`](Self::nack).
#[must_use = "a delivery that is dropped undecided is delivered again"]
pub struct Delivery {
    message: MessageView,
    /// Gone when it is decided.
    open: Option<Open>,
}

/// What a decision is reported to.
struct Open {
    group: Arc<Group>,
    queue: Arc<OwnedQueue>,
    ticket: Ticket,
    message: MessageView,
    processing: Option<Processing>,
}

impl Open {
    fn telemetry(&self) -> Option<&Telemetry> {
        self.group.cluster.config().telemetry.as_ref()
    }

    fn settle(mut self, result: ConsumeResult, reason: Option<String>) {
        let succeeded = result == ConsumeResult::Success;
        if let Some(processing) = self.processing.take()
            && let Some(telemetry) = self.telemetry()
        {
            telemetry.end_processing(&self.group.cluster, &self.group.name, processing, succeeded);
        }
        let Self { group, queue, ticket, message, .. } = self;
        let now_ms = group.env().wall_clock_ms_at(group.env().now());
        queue.note_consumed(now_ms, 1, succeeded, Duration::ZERO);
        if succeeded {
            group.counters.consumed.one();
            group.dispatch.finish(&queue, [ticket]);
        } else {
            group.counters.failed.one();
            group.settlements.push(Settled { queue, ticket, message, result, reason });
        }
    }
}

impl Delivery {
    /// The message.
    pub fn message(&self) -> &MessageView {
        &self.message
    }

    /// The message is consumed. Never fails: what is not stored at the broker in time comes again.
    pub fn ack(mut self) {
        self.decide(ConsumeResult::Success, None);
    }

    /// The message is to be delivered again: after a delay, or after what belongs to the number of its failures. See
    /// [`ConsumeResult::RetryAfter`] for what delays there are.
    pub fn nack(mut self, delay: Option<Duration>) {
        let result = delay.map_or(ConsumeResult::Retry, ConsumeResult::RetryAfter);
        self.decide(result, Some("not acknowledged".to_owned()));
    }

    /// The message goes to the group's dead letters.
    pub fn dead_letter(mut self) {
        self.decide(ConsumeResult::DeadLetter, Some("given up".to_owned()));
    }

    fn decide(&mut self, result: ConsumeResult, reason: Option<String>) {
        if let Some(open) = self.open.take() {
            open.settle(result, reason);
        }
    }
}

impl std::ops::Deref for Delivery {
    type Target = MessageView;

    fn deref(&self) -> &MessageView {
        &self.message
    }
}

impl Drop for Delivery {
    fn drop(&mut self) {
        self.decide(ConsumeResult::Retry, Some("dropped undecided".to_owned()));
    }
}

impl fmt::Debug for Delivery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Delivery").field("message", &self.message).finish_non_exhaustive()
    }
}
