//! Handlers at work: as many at once as asked for, over all queues.

use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::watch;

use super::dispatch::Work;
use super::group::Group;
use super::handler::{ConsumeResult, Handled, Results};
use super::message_view::MessageView;
use super::owned_queue::OwnedQueue;
use super::process_queue::Ticket;
use super::settle::{self, Settled};
use crate::env::Task;

/// The tasks that run handlers. There are as many of them as handlers may run at once, so no task is made for a message.
#[derive(Debug)]
pub(super) struct Workers {
    tasks: Mutex<Vec<Task>>,
    wanted: watch::Sender<usize>,
}

impl Workers {
    pub(super) fn start(group: &Arc<Group>, count: usize) -> Self {
        let this = Self { tasks: Mutex::default(), wanted: watch::Sender::new(0) };
        this.set_count(group, count);
        this
    }

    pub(super) fn count(&self) -> usize {
        *self.wanted.borrow()
    }

    /// Sets how many handlers may run at once. Handlers that run are not disturbed.
    pub(super) fn set_count(&self, group: &Arc<Group>, count: usize) {
        self.wanted.send_replace(count);
        // Pushes and removals cannot panic half way.
        let mut tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        for index in 0..count {
            let spawn = || group.env().spawn(work(Arc::clone(group), index, self.wanted.subscribe()));
            match tasks.get_mut(index) {
                Some(task) if task.is_finished() => *task = spawn(),
                Some(_) => {}
                None => tasks.push(spawn()),
            }
        }
    }

    /// All tasks, to be waited for or cut off.
    pub(super) fn take(&self) -> Vec<Task> {
        std::mem::take(&mut *self.tasks.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// One of the tasks that run handlers: takes messages, hands them to the handler, and settles what comes of it. Ends when
/// the consumer has stopped, or fewer are wanted.
///
/// Dropping the future in the midst of a handler leaves the messages undone.
async fn work(group: Arc<Group>, index: usize, mut wanted: watch::Receiver<usize>) {
    let mut dismissed = pin!(wanted.wait_for(|wanted| *wanted <= index));
    loop {
        let work = tokio::select! {
            biased;
            _ = &mut dismissed => return,
            work = group.dispatch.next(group.env(), group.options.batch_size) => work,
        };
        let Some(Work { queue, mut messages }) = work else { return };
        match messages.pop() {
            // What most consumers do all the time, with as little as it takes.
            Some((ticket, message)) if messages.is_empty() => consume_one(&group, &queue, ticket, message).await,
            last => {
                messages.extend(last);
                consume(&group, &queue, messages).await;
            }
        }
    }
}

async fn consume_one(group: &Arc<Group>, queue: &Arc<OwnedQueue>, ticket: Ticket, message: MessageView) {
    let started = group.env().now();
    let handled = match message.plain(group.options.max_body_bytes, group.env().wall_clock_ms_at(started)) {
        Ok(plain) => match group.handlers.of(plain.topic()) {
            Some(handler) => match &group.cluster.config().telemetry {
                None => handler.run_one(plain).await,
                Some(telemetry) => {
                    let first = [plain.clone()];
                    let succeeded = |handled: &Handled<ConsumeResult>| handled.result == ConsumeResult::Success;
                    let run = handler.run_one(plain);
                    Box::pin(telemetry.process(&group.cluster, &group.name, &first, run, succeeded)).await
                }
            },
            None => failed(no_handler(plain.topic())),
        },
        Err(error) => failed(error.to_string()),
    };
    let (now_ms, took) = since(group, started);
    if handled.result == ConsumeResult::Success {
        succeed(group, queue, [ticket], now_ms, took);
    } else {
        fail(group, queue, ticket, message, handled, now_ms, took).await;
    }
}

/// The time now in milliseconds since 1970, and how long ago `started` was.
fn since(group: &Group, started: Instant) -> (i64, Duration) {
    let now = group.env().now();
    (group.env().wall_clock_ms_at(now), now.saturating_duration_since(started))
}

/// Messages that were handled together are done: one reading of the clock and one lock for all.
fn succeed(
    group: &Group,
    queue: &Arc<OwnedQueue>,
    tickets: impl IntoIterator<Item = Ticket, IntoIter: ExactSizeIterator>,
    now_ms: i64,
    took: Duration,
) {
    let tickets = tickets.into_iter();
    queue.note_consumed(now_ms, tickets.len(), true, took);
    group.counters.consumed.add(tickets.len());
    group.dispatch.finish(queue, tickets);
}

/// Counts a failure, and does what its result says.
async fn fail(
    group: &Arc<Group>,
    queue: &Arc<OwnedQueue>,
    ticket: Ticket,
    message: MessageView,
    handled: Handled<ConsumeResult>,
    now_ms: i64,
    took: Duration,
) {
    let Handled { result, reason, panicked } = handled;
    queue.note_consumed(now_ms, 1, false, took);
    if panicked {
        group.counters.panicked.one();
    } else {
        group.counters.failed.one();
    }
    settle::settle(group, Settled { queue: Arc::clone(queue), ticket, message, result, reason }).await;
}

fn no_handler(topic: &str) -> String {
    format!("this consumer has no handler for topic `{topic}`: it was unsubscribed from")
}

/// Runs handlers for messages of one queue; those of one topic together.
async fn consume(group: &Arc<Group>, queue: &Arc<OwnedQueue>, mut messages: Vec<(Ticket, MessageView)>) {
    while !messages.is_empty() {
        // A retry topic brings messages of all topics.
        let of_first = messages.iter().take_while(|(_, message)| message.topic() == messages[0].1.topic()).count();
        let rest = messages.split_off(of_first);
        let batch = std::mem::replace(&mut messages, rest);
        if !consume_batch(group, queue, batch).await {
            // One that is to be handled first has failed.
            for (ticket, message) in messages {
                group.redelivery.set_aside(group, Arc::clone(queue), ticket, message, Duration::ZERO);
            }
            return;
        }
    }
}

/// Returns whether messages behind these may be handled.
async fn consume_batch(group: &Arc<Group>, queue: &Arc<OwnedQueue>, batch: Vec<(Ticket, MessageView)>) -> bool {
    let started = group.env().now();
    let now_ms = group.env().wall_clock_ms_at(started);
    let mut plain = Vec::with_capacity(batch.len());
    let mut damaged = Vec::new();
    for (index, (_, message)) in batch.iter().enumerate() {
        match message.plain(group.options.max_body_bytes, now_ms) {
            Ok(copy) => plain.push(copy),
            Err(error) => damaged.push((index, failed(error.to_string()))),
        }
    }
    let handled = if plain.is_empty() { Results::Each(Vec::new()) } else { run(group, plain).await };
    let (now_ms, took) = since(group, started);
    let mut results = match handled {
        Results::Success if damaged.is_empty() => {
            succeed(group, queue, batch.iter().map(|(ticket, _)| *ticket), now_ms, took);
            return true;
        }
        Results::Success => (damaged.len()..batch.len()).map(|_| succeeded()).collect(),
        Results::Each(results) => results,
    };
    for (index, failure) in damaged {
        results.insert(index.min(results.len()), failure);
    }
    let is_ordered = queue.order().is_ordered();
    let mut goes_on = true;
    let mut results = results.into_iter();
    for (ticket, message) in batch {
        let handled = results.next().unwrap_or_else(|| failed("the handler gave no result".into()));
        if handled.result == ConsumeResult::Success {
            succeed(group, queue, [ticket], now_ms, took);
        } else {
            goes_on &= !is_ordered;
            fail(group, queue, ticket, message, handled, now_ms, took).await;
        }
    }
    goes_on
}

/// Hands messages of one topic to its handler.
async fn run(group: &Group, messages: Vec<MessageView>) -> Results {
    let topic = messages[0].topic();
    let Some(handler) = group.handlers.of(topic) else {
        let reason = no_handler(topic);
        return Results::Each(messages.iter().map(|_| failed(reason.clone())).collect());
    };
    match &group.cluster.config().telemetry {
        None => handler.run(messages).await,
        Some(telemetry) => {
            let handed = messages.clone();
            let run = handler.run(messages);
            telemetry.process(&group.cluster, &group.name, &handed, run, Results::are_success).await
        }
    }
}

fn succeeded() -> Handled<ConsumeResult> {
    Handled { result: ConsumeResult::Success, reason: None, panicked: false }
}

fn failed(reason: String) -> Handled<ConsumeResult> {
    Handled { result: ConsumeResult::Retry, reason: Some(reason), panicked: false }
}
