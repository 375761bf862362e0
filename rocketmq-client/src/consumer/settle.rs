//! What becomes of messages after a handler had them.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::sync::Notify;

use super::group::Group;
use super::handler::ConsumeResult;
use super::message_view::MessageView;
use super::owned_queue::OwnedQueue;
use super::process_queue::Ticket;
use super::retry::{self, Delay};

/// An ordered queue waits so long at least, and at most, before a message that failed is handled again: Java's bounds.
const SHORTEST_SUSPENSION: Duration = Duration::from_millis(10);
const LONGEST_SUSPENSION: Duration = Duration::from_secs(30);

/// Messages that are handed back at the same time on behalf of streams.
const AT_ONCE: usize = 32;

/// A message that a handler is through with.
#[derive(Debug)]
pub(super) struct Settled {
    pub(super) queue: Arc<OwnedQueue>,
    pub(super) ticket: Ticket,
    pub(super) message: MessageView,
    pub(super) result: ConsumeResult,
    pub(super) reason: Option<String>,
}

/// Does what a result says. Returns when the message is out of this client's hands, or set aside.
///
/// Dropping the future leaves the message undone.
pub(super) async fn settle(group: &Arc<Group>, settled: Settled) {
    if settled.result == ConsumeResult::Success {
        group.counters.consumed.one();
        return group.dispatch.finish(&settled.queue, [settled.ticket]);
    }
    let message = &settled.message;
    tracing::warn!(
        group = &*group.name,
        topic = message.topic(),
        message_id = &*message.message_id(),
        reconsume_times = message.reconsume_times(),
        result = ?settled.result,
        reason = settled.reason.as_deref(),
        "a message was not consumed"
    );
    if let Some(reason) = &settled.reason {
        settled.queue.note_trouble(group.env(), reason);
    }
    // The next owner of the queue gets the message anyway.
    if settled.queue.is_released() {
        return group.dispatch.finish(&settled.queue, [settled.ticket]);
    }
    if group.options.is_broadcasting() && !settled.queue.order().is_ordered() {
        // There is nobody to hand it back to: every member gets every message by itself.
        group.counters.dropped.one();
        return group.dispatch.finish(&settled.queue, [settled.ticket]);
    }
    if settled.queue.order().is_ordered() {
        settle_ordered(group, settled).await
    } else {
        settle_free(group, settled).await
    }
}

/// Hands the message back to the broker, or keeps it for 5 s when no broker takes it.
async fn settle_free(group: &Arc<Group>, settled: Settled) {
    let Settled { queue, ticket, message, result, .. } = settled;
    let delay = match result {
        ConsumeResult::DeadLetter => Delay::DeadLetter,
        ConsumeResult::RetryAfter(wanted) => Delay::Level(group.options.delay_levels.level_for(wanted)),
        ConsumeResult::RetryAtLevel(level) => Delay::Level(i32::from(level)),
        ConsumeResult::Success | ConsumeResult::Retry => group.options.usual_delay(message.reconsume_times()),
    };
    if delay == Delay::DeadLetter || is_last_chance(group, &message) {
        group.before_dead_letter(&message).await;
    }
    match retry::hand_back(group, &message, delay).await {
        Ok(()) => {
            group.counters.sent_back.one();
            group.dispatch.finish(&queue, [ticket]);
        }
        Err(error) => {
            group.counters.failed_send_backs.one();
            tracing::warn!(
                group = &*group.name,
                message_id = &*message.message_id(),
                %error,
                "no broker takes a message back; it is kept, and handed to a handler again"
            );
            group.redelivery.set_aside(group, queue, ticket, message, retry::REDELIVER_AFTER);
        }
    }
}

/// Keeps the message, and the order, for a moment; one that has failed too often goes to the retry topic, where the broker
/// puts it among the dead letters.
async fn settle_ordered(group: &Arc<Group>, settled: Settled) {
    let Settled { queue, ticket, message, result, .. } = settled;
    let suspension = match result {
        ConsumeResult::RetryAfter(wanted) => wanted,
        ConsumeResult::RetryAtLevel(level) => group.options.delay_levels.of(i32::from(level)),
        _ => group.options.suspend_time,
    };
    let is_dead = result == ConsumeResult::DeadLetter || is_last_chance(group, &message);
    if is_dead {
        group.before_dead_letter(&message).await;
        match retry::send_to_retry_topic(group, &message, Delay::DeadLetter).await {
            Ok(()) => {
                group.counters.sent_back.one();
                return group.dispatch.finish(&queue, [ticket]);
            }
            Err(error) => {
                group.counters.failed_send_backs.one();
                let message_id = &*message.message_id();
                tracing::warn!(group = &*group.name, message_id, %error, "no broker takes a dead letter; it is kept");
            }
        }
    }
    let suspension = suspension.clamp(SHORTEST_SUSPENSION, LONGEST_SUSPENSION);
    group.redelivery.set_aside(group, queue, ticket, message, suspension);
}

/// Whether this failure is one too many.
fn is_last_chance(group: &Group, message: &MessageView) -> bool {
    i64::from(message.reconsume_times()) >= i64::from(group.options.max_reconsume_times())
}

/// Results that come where nothing can be awaited: a delivery of a stream that is dropped or decided. There are never more
/// than messages in memory.
#[derive(Debug, Default)]
pub(super) struct Settlements {
    waiting: Mutex<VecDeque<Settled>>,
    added: Notify,
}

impl Settlements {
    pub(super) fn push(&self, settled: Settled) {
        // A push or a pop cannot panic half way.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).push_back(settled);
        self.added.notify_one();
    }

    fn pop(&self) -> Option<Settled> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
    }

    /// Does what results say; ends only by being dropped.
    pub(super) async fn run(group: Arc<Group>) {
        let mut under_way = FuturesUnordered::new();
        loop {
            while under_way.len() < AT_ONCE {
                let Some(settled) = group.settlements.pop() else { break };
                under_way.push(settle(&group, settled));
            }
            tokio::select! {
                Some(()) = under_way.next() => {}
                () = group.settlements.added.notified(), if under_way.len() < AT_ONCE => {}
            }
        }
    }
}
