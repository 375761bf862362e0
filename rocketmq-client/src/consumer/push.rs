//! The push consumer: messages come to a handler.

use std::fmt;
use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use futures_util::future::join_all;
use tokio::sync::watch;

use super::concurrent::Workers;
use super::explain::{self, Explanation};
use super::group::{ConsumerStats, Group};
use super::handler::{Handler, HandlerResult};
use super::message_view::MessageView;
use super::start::{self, Started};
use super::subscription::{self, FilterExpression, Subscriptions};
use crate::env::Task;
use crate::error::{Error, ErrorKind, Result};
use crate::message::MessageQueue;

/// How long the last commits and leaving the group may take after handlers have ended.
const FAREWELL: std::time::Duration = std::time::Duration::from_secs(10);

/// A member of a consumer group that hands messages to a handler, made by
/// [`Client::push_consumer`](crate::Client::push_consumer).
///
/// The members of a group share the queues of its topics, and each queue has one reader at a time. An offset is stored
/// only when all messages below it have been consumed, so every message is consumed at least once.
///
/// Dropping the consumer ends it at once: handlers are cut off, and messages that were not done, or done but not yet
/// committed, are delivered again. [`shutdown`](Self::shutdown) takes leave.
///
/// ```no_run
/// # async fn bill(message: &rocketmq_native::MessageView) -> Result<(), std::io::Error> { Ok(()) }
/// # async fn example(client: rocketmq_native::Client) -> Result<(), rocketmq_native::Error> {
/// let consumer = client
///     .push_consumer("billing")
///     .subscribe("orders", "created || paid")
///     .concurrency(16)
///     .start(|message| async move { bill(&message).await })
///     .await?;
/// // ... until the program ends:
/// consumer.shutdown().await?;
/// # Ok(())
/// # }
/// ```
#[must_use = "dropping a consumer ends it"]
pub struct PushConsumer {
    pub(super) group: Arc<Group>,
    workers: Arc<Workers>,
    /// Taken by the first shutdown.
    tasks: Mutex<Option<Tasks>>,
    stop: watch::Sender<Option<Instant>>,
    ended: watch::Sender<bool>,
    /// Subscriptions are changed one after the other.
    changing: tokio::sync::Mutex<()>,
}

struct Tasks {
    rebalance: Task,
    /// Those that bring messages back, give them up, and answer brokers.
    background: Vec<Task>,
}

impl PushConsumer {
    pub(super) fn new(started: Started) -> Self {
        let Started { group, workers, rebalance, background, stop } = started;
        let tasks = Mutex::new(Some(Tasks { rebalance, background }));
        let (ended, changing) = (watch::Sender::new(false), tokio::sync::Mutex::new(()));
        Self { group, workers, tasks, stop, ended, changing }
    }

    /// The name of the group.
    pub fn group(&self) -> &str {
        &self.group.name
    }

    /// What the consumer has done so far.
    pub fn stats(&self) -> ConsumerStats {
        self.group.counters.read()
    }

    /// Everything that tells why messages come or do not: topics, members, and of each queue where it is, what it waits
    /// for, and what went wrong last. Its `Display` is a text for people.
    pub fn explain(&self) -> Explanation {
        explain::explain(&self.group, self.workers.count())
    }

    /// How many messages of its queues this member has not consumed yet, by what brokers said last; those of a queue whose
    /// broker has not answered yet are not counted.
    pub fn lag(&self) -> u64 {
        self.explain().queues.iter().filter_map(|queue| queue.lag).sum()
    }

    /// Whether every topic exists, the brokers count this client among the members, and each of its queues is being read.
    pub fn is_ready(&self) -> bool {
        self.explain().is_ready()
    }

    /// Waits until the consumer [is ready](Self::is_ready): what a readiness probe asks for.
    ///
    /// Dropping the future changes nothing.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Timeout`], with what is missing, when it is not within `limit`.
    pub async fn wait_ready(&self, limit: std::time::Duration) -> Result<()> {
        let env = self.group.env();
        let deadline = env.now() + limit;
        let mut pause = std::time::Duration::from_millis(2);
        loop {
            let explanation = self.explain();
            if explanation.is_ready() {
                return Ok(());
            }
            if env.now() >= deadline {
                let missing = explanation.reasons().join("; ");
                let message =
                    format!("the consumer of group `{}` is not ready after {limit:?}: {missing}", self.group());
                return Err(Error::new(ErrorKind::Timeout, message).with_operation("wait for the consumer"));
            }
            env.sleep_until((env.now() + pause).min(deadline)).await;
            pause = (pause * 2).min(std::time::Duration::from_millis(100));
        }
    }

    /// Stops pulling from all queues, also from those that are taken over later. Messages in memory are still handled, and
    /// the consumer stays in the group. Calling it twice is fine.
    pub fn pause(&self) {
        self.set_paused(true);
    }

    /// Goes on pulling from all queues, those paused by themselves included.
    pub fn resume(&self) {
        self.set_paused(false);
    }

    fn set_paused(&self, paused: bool) {
        self.group.paused.send_replace(paused);
        for (_, queue) in self.group.reports.owned() {
            queue.pause(paused);
        }
    }

    /// Stops pulling from one queue until it is [resumed](Self::resume_queue) or given away. Returns whether this member
    /// reads it.
    pub fn pause_queue(&self, queue: &MessageQueue) -> bool {
        self.group.reports.queue(queue).inspect(|owned| owned.pause(true)).is_some()
    }

    /// Goes on pulling from one queue. Returns whether this member reads it.
    pub fn resume_queue(&self, queue: &MessageQueue) -> bool {
        self.group.reports.queue(queue).inspect(|owned| owned.pause(false)).is_some()
    }

    /// Sets how many handlers may run at once, from 1 to 10,000. Handlers that run are not disturbed. Has no meaning for a
    /// stream.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidArgument`] for another number.
    pub fn set_concurrency(&self, handlers: usize) -> Result<()> {
        start::check_concurrency(handlers)?;
        if self.workers.count() > 0 {
            self.workers.set_count(&self.group, handlers);
        }
        Ok(())
    }

    /// Subscribes to one more topic, or to a topic in another way; its messages go to the handler given to
    /// [`start`](super::PushConsumerBuilder::start), or to the stream. All members of a group must subscribe to the same.
    ///
    /// Returns when the brokers have been told; messages come at once.
    ///
    /// Dropping the future subscribes or does not; brokers are told at the latest with the next heartbeat.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidArgument`] for a topic or expression that makes no sense, or when the consumer has no handler
    /// for it; why the name servers could not be asked; the broker's words when it refuses an SQL92 expression.
    pub async fn subscribe(&self, topic: impl Into<String>, expression: impl Into<FilterExpression>) -> Result<()> {
        let topic = topic.into();
        if self.workers.count() > 0 && !self.group.handlers.has_common() && self.group.handlers.of(&topic).is_none() {
            let message = format!("there is no handler for topic `{topic}`: use `subscribe_with`");
            return Err(Error::new(ErrorKind::InvalidArgument, message).with_operation("subscribe"));
        }
        self.change_subscription(&topic, Some(expression.into()), None).await
    }

    /// Subscribes to one more topic, or to a topic in another way, with a handler of its own; otherwise as
    /// [`subscribe`](Self::subscribe).
    ///
    /// # Errors
    ///
    /// As [`subscribe`](Self::subscribe); also for a stream, which takes the messages of all topics.
    pub async fn subscribe_with<H, F>(
        &self,
        topic: impl Into<String>,
        expression: impl Into<FilterExpression>,
        handler: H,
    ) -> Result<()>
    where
        H: Fn(MessageView) -> F + Send + Sync + 'static,
        F: Future + Send + 'static,
        F::Output: HandlerResult,
    {
        if self.workers.count() == 0 {
            let message = "a stream takes the messages of all topics: use `subscribe`";
            return Err(Error::new(ErrorKind::InvalidArgument, message).with_operation("subscribe"));
        }
        self.change_subscription(&topic.into(), Some(expression.into()), Some(Handler::one(handler))).await
    }

    /// Gives a topic up: its queues go back to the group. Messages of it that failed before still come through the group's
    /// retry topic, and go to the handler that they had.
    ///
    /// Returns when the brokers have been told, as [`subscribe`](Self::subscribe) does.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::NotFound`] when the consumer is not subscribed to the topic, [`ErrorKind::InvalidArgument`] when it is
    /// the last one.
    pub async fn unsubscribe(&self, topic: &str) -> Result<()> {
        self.change_subscription(topic, None, None).await
    }

    async fn change_subscription(
        &self,
        topic: &str,
        expression: Option<FilterExpression>,
        handler: Option<Handler>,
    ) -> Result<()> {
        let group = &self.group;
        let _turn = self.changing.lock().await;
        let mut subscriptions = Subscriptions::clone(&group.subscriptions.borrow());
        match expression {
            Some(expression) => {
                // Brokers take a subscription as newer only if its time is.
                let latest = subscriptions.values().map(|known| known.version).max().unwrap_or(0);
                let version = group.env().wall_clock_ms().max(latest + 1);
                let new = Arc::new(subscription::subscription(&group.name, topic, &expression, version)?);
                start::look_up_topics(&group.cluster, &group.name, [&new.topic]).await?;
                start::check_at_broker(&group.cluster, &group.name, &new).await?;
                if let Some(handler) = handler {
                    group.handlers.insert(Arc::clone(&new.topic), handler);
                }
                subscriptions.insert(Arc::clone(&new.topic), new);
            }
            None => {
                let error = |kind, message| Err(Error::new(kind, message).with_operation("unsubscribe"));
                if topic == &*group.retry_topic || subscriptions.remove(topic).is_none() {
                    return error(ErrorKind::NotFound, format!("the consumer is not subscribed to topic `{topic}`"));
                }
                if subscriptions.keys().all(|topic| **topic == *group.retry_topic) {
                    let message = format!("`{topic}` is the consumer's last topic: shut the consumer down instead");
                    return error(ErrorKind::InvalidArgument, message);
                }
            }
        }
        group.cluster.groups().update_consumer(start::consumer_data(
            group.name.as_ref(),
            &group.options,
            &subscriptions,
        ));
        group.subscriptions.send_replace(Arc::new(subscriptions));
        group.cluster.groups().tell_brokers().await;
        group.want_rebalance();
        Ok(())
    }

    /// Ends the consumer in good order: takes no more messages, lets the handlers that run end within the
    /// [drain timeout](super::PushConsumerBuilder::drain_timeout), stores the offsets and leaves the group, so that the other
    /// members take over at once. Messages that were received and not begun are theirs. Calling it twice is fine.
    ///
    /// Dropping the future ends the consumer at once, as dropping the consumer does.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Timeout`] when handlers did not end in time and were cut off; their messages will be delivered again.
    /// Its source is an [`Unfinished`], which names their queues.
    pub async fn shutdown(&self) -> Result<()> {
        let tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(Tasks { rebalance, background }) = tasks else {
            // An error means that the consumer is gone, so it has ended.
            let _ = self.ended.subscribe().wait_for(|ended| *ended).await;
            return Ok(());
        };
        // Also when this future is dropped: nobody must wait for ever.
        let _ended = SetOnDrop(&self.ended);
        let env = self.group.env();
        let deadline = env.now() + self.group.options.drain_timeout;
        self.stop.send_replace(Some(deadline));
        let left_group = env.within(deadline + FAREWELL, rebalance).await.is_some();
        self.group.dispatch.close();
        // Handlers have had their time, in which queues waited for them.
        drop(background);
        let mut workers = self.workers.take();
        let ended = env.within(env.now().max(deadline), join_all(workers.iter_mut())).await.is_some();
        let queues = self.group.take_left();
        if left_group && ended && queues.is_empty() {
            return Ok(());
        }
        let message = format!(
            "the consumer of group `{}` was cut off: its handlers or the brokers took longer than {:?}",
            self.group.name, self.group.options.drain_timeout
        );
        let error = Error::new(ErrorKind::Timeout, message).with_operation("shut the consumer down");
        Err(error.with_source(Unfinished { queues }))
    }
}

/// What a consumer left when it was shut down: the source of the error of [`PushConsumer::shutdown`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Unfinished {
    /// Queues with handlers that were cut off. None when it was the brokers that could not be told in time.
    pub queues: Vec<UnfinishedQueue>,
}

/// A queue with handlers that were cut off.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct UnfinishedQueue {
    /// The queue.
    pub queue: MessageQueue,
    /// Messages in the hands of handlers.
    pub running: usize,
    /// Where the next owner begins: everything from here on may be delivered again.
    pub offset: i64,
}

impl fmt::Display for Unfinished {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.queues.is_empty() {
            return f.write_str("the brokers could not be told in time");
        }
        for (index, UnfinishedQueue { queue, running, offset }) in self.queues.iter().enumerate() {
            let comma = if index == 0 { "" } else { ", " };
            write!(f, "{comma}{running} messages of {queue} from offset {offset} on")?;
        }
        Ok(())
    }
}

impl std::error::Error for Unfinished {}

struct SetOnDrop<'a>(&'a watch::Sender<bool>);

impl Drop for SetOnDrop<'_> {
    fn drop(&mut self) {
        self.0.send_replace(true);
    }
}

impl Drop for PushConsumer {
    fn drop(&mut self) {
        self.group.dispatch.close();
        // The tasks keep the group, which keeps them.
        drop(self.workers.take());
    }
}

impl fmt::Debug for PushConsumer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PushConsumer")
            .field("group", &self.group.name)
            .field("stats", &self.stats())
            .finish_non_exhaustive()
    }
}
