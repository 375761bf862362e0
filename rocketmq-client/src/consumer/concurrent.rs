//! Handlers at work: as many at once as asked for, over all queues, in no order.

use std::any::Any;
use std::fmt;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures_util::FutureExt;

use super::dispatch::Work;
use super::group::Group;
use super::message_view::MessageView;
use super::retry;

/// What a handler can come to: nothing or `Ok` when the message is consumed, `Err` when it has to be delivered again.
pub trait HandlerResult {
    /// The reason why the message was not consumed, if it was not.
    fn failure(self) -> Option<String>;
}

impl HandlerResult for () {
    fn failure(self) -> Option<String> {
        None
    }
}

impl<E: fmt::Display> HandlerResult for Result<(), E> {
    fn failure(self) -> Option<String> {
        self.err().map(|error| error.to_string())
    }
}

/// One of the tasks that run handlers: takes a message, hands it to the handler, and settles what comes of it. Ends when
/// the consumer has stopped.
///
/// There are as many of them as handlers may run at once, so no task is made for a message. Dropping the future in the
/// midst of a handler leaves the message undone.
pub(super) async fn work<H, F>(group: Arc<Group>, handler: Arc<H>)
where
    H: Fn(MessageView) -> F + Send + Sync + 'static,
    F: Future + Send,
    F::Output: HandlerResult,
{
    while let Some(work) = group.dispatch.next().await {
        match consume(&group, &*handler, &work.message).await {
            None => {
                group.counters.consumed.one();
                work.queue.finish(work.ticket);
            }
            Some(reason) => hand_back(&group, work, &reason).await,
        }
    }
}

/// Runs the handler for one message. Returns why the message was not consumed, if it was not.
async fn consume<H, F>(group: &Group, handler: &H, message: &MessageView) -> Option<String>
where
    H: Fn(MessageView) -> F,
    F: Future,
    F::Output: HandlerResult,
{
    let mut message = message.clone();
    if let Err(error) = message.inflate(group.options.max_body_bytes) {
        group.counters.failed.one();
        return Some(error.to_string());
    }
    // Nothing of ours is in there that a panic could leave half changed; the handler's own state is the handler's.
    match AssertUnwindSafe(async { handler(message).await.failure() }).catch_unwind().await {
        Ok(failure) => {
            group.counters.failed.add(usize::from(failure.is_some()));
            failure
        }
        Err(panic) => {
            group.counters.panicked.one();
            Some(format!("the handler panicked: {}", panic_text(&*panic)))
        }
    }
}

async fn hand_back(group: &Arc<Group>, work: Work, reason: &str) {
    let Work { queue, ticket, message } = work;
    tracing::warn!(
        group = &*group.name,
        topic = message.topic(),
        message_id = &*message.message_id(),
        reconsume_times = message.reconsume_times(),
        reason,
        "a message was not consumed and will be delivered again"
    );
    // The next owner of the queue gets the message anyway.
    if queue.is_released() {
        return queue.finish(ticket);
    }
    match retry::hand_back(group, &message).await {
        Ok(()) => {
            group.counters.sent_back.one();
            queue.finish(ticket);
        }
        Err(error) => {
            group.counters.failed_send_backs.one();
            tracing::warn!(
                group = &*group.name,
                message_id = &*message.message_id(),
                %error,
                "no broker takes a message back; it is kept, and handed to a handler again"
            );
            group.redelivery.set_aside(group.env().now(), queue, ticket, message);
        }
    }
}

fn panic_text(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&'static str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message")
}
