//! Handlers at work: as many at once as asked for, over all queues.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::watch;

use super::dispatch::Work;
use super::group::Group;
use super::handler::{ConsumeResult, Handled};
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
    loop {
        let work = tokio::select! {
            biased;
            _ = wanted.wait_for(|wanted| *wanted <= index) => return,
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
    let took = group.env().now().saturating_duration_since(started);
    finish(group, queue, ticket, message, handled, took).await;
}

/// Counts what a handler came to, and does what it says.
async fn finish(
    group: &Arc<Group>,
    queue: &Arc<OwnedQueue>,
    ticket: Ticket,
    message: MessageView,
    handled: Handled<ConsumeResult>,
    took: Duration,
) {
    let Handled { result, reason, panicked } = handled;
    let succeeded = result == ConsumeResult::Success;
    queue.note_consumed(group.env(), succeeded, took);
    if panicked {
        group.counters.panicked.one();
    } else if !succeeded {
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
    let mut results: Vec<_> = batch.iter().map(|_| None).collect();
    let mut plain = Vec::with_capacity(batch.len());
    for ((_, message), result) in batch.iter().zip(&mut results) {
        match message.plain(group.options.max_body_bytes, group.env().wall_clock_ms_at(started)) {
            Ok(copy) => plain.push(copy),
            Err(error) => *result = Some(failed(error.to_string())),
        }
    }
    if !plain.is_empty() {
        let topic = plain[0].topic();
        let handled = match group.handlers.of(topic) {
            Some(handler) => match &group.cluster.config().telemetry {
                None => handler.run(plain).await,
                Some(telemetry) => {
                    let messages = plain.clone();
                    let run = handler.run(plain);
                    let all_succeeded = |handled: &Vec<Handled<ConsumeResult>>| {
                        handled.iter().all(|handled| handled.result == ConsumeResult::Success)
                    };
                    telemetry.process(&group.cluster, &group.name, &messages, run, all_succeeded).await
                }
            },
            None => {
                let reason = no_handler(topic);
                plain.iter().map(|_| failed(reason.clone())).collect()
            }
        };
        for (result, handled) in results.iter_mut().filter(|result| result.is_none()).zip(handled) {
            *result = Some(handled);
        }
    }
    let took = group.env().now().saturating_duration_since(started);
    let is_ordered = queue.order().is_ordered();
    let mut goes_on = true;
    for ((ticket, message), result) in batch.into_iter().zip(results) {
        let handled = result.unwrap_or_else(|| failed("the handler gave no result".into()));
        goes_on &= !is_ordered || handled.result == ConsumeResult::Success;
        finish(group, queue, ticket, message, handled, took).await;
    }
    goes_on
}

fn failed(reason: String) -> Handled<ConsumeResult> {
    Handled { result: ConsumeResult::Retry, reason: Some(reason), panicked: false }
}
