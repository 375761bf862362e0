//! The push consumer: messages come to a handler.

use std::fmt;
use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::future::join_all;
use rocketmq_wire::message::names;
use rocketmq_wire::model::{ConsumerData, consume_from, consume_type, model};
use tokio::sync::watch;

use super::concurrent::{self, HandlerResult};
use super::dispatch::Dispatch;
use super::group::{ConsumerStats, Counters, Group, Options};
use super::message_view::MessageView;
use super::rebalance::Rebalance;
use super::retry::Redelivery;
use super::start_offset::ConsumeFrom;
use super::subscription::{self, Subscription};
use crate::cluster::Cluster;
use crate::env::Task;
use crate::error::{Error, ErrorKind, Result};

/// How long the last commits and leaving the group may take after handlers have ended.
const FAREWELL: Duration = Duration::from_secs(10);

/// Settings of a [`PushConsumer`]; [`start`](Self::start) makes it.
///
/// Defaults are those of the Java client 5.3.3 where it has the setting.
#[derive(Debug, Clone)]
#[must_use = "`start` makes the consumer"]
pub struct PushConsumerBuilder {
    cluster: Cluster,
    group: String,
    subscriptions: Vec<(String, String)>,
    options: Options,
}

impl PushConsumerBuilder {
    pub(crate) fn new(cluster: Cluster, group: String) -> Self {
        Self { cluster, group, subscriptions: Vec::new(), options: Options::default() }
    }

    /// Subscribes to a topic: `"*"` for all its messages, or tags joined by `||`, as in `"created || paid"`.
    ///
    /// Call it for each topic; of several calls for one topic the last counts. All members of a group must subscribe
    /// to the same.
    pub fn subscribe(mut self, topic: impl Into<String>, expression: impl Into<String>) -> Self {
        self.subscriptions.push((topic.into(), expression.into()));
        self
    }

    /// Sets how many messages are handled at once, over all queues; 20 by default, at least 1.
    pub fn concurrency(mut self, handlers: usize) -> Self {
        self.options.concurrency = handlers;
        self
    }

    /// Sets where the group begins in queues that it has no offset for: [`ConsumeFrom::Last`] by default.
    pub fn consume_from(mut self, from: ConsumeFrom) -> Self {
        self.options.consume_from = from;
        self
    }

    /// Sets how often a message is delivered again before it goes to the group's dead letters; 16 by default.
    pub fn max_reconsume_times(mut self, times: u32) -> Self {
        self.options.max_reconsume_times = i32::try_from(times).unwrap_or(i32::MAX);
        self
    }

    /// Sets how many messages of one queue may be in memory; 1,000 by default, at least 1. Beyond it the queue is not
    /// pulled, so that at most one batch more is in memory.
    pub fn max_cached_messages(mut self, messages: usize) -> Self {
        self.options.limits.messages = messages;
        self
    }

    /// Sets how much memory the messages of one queue may take, in bytes; 100 MiB by default, at least 1. Counts the whole
    /// of every answer that has a message still in work.
    pub fn max_cached_bytes(mut self, bytes: usize) -> Self {
        self.options.limits.bytes = bytes;
        self
    }

    /// Sets how far a queue may be consumed ahead of its oldest message in work, in messages; 2,000 by default, at least 1.
    /// It is what may be delivered twice after a crash.
    pub fn max_span(mut self, messages: u32) -> Self {
        self.options.limits.span = i64::from(messages);
        self
    }

    /// Sets how many messages are asked for in one pull; 32 by default, from 1 to 1,024. Brokers have a limit of their
    /// own, 32 unless configured otherwise.
    pub fn pull_batch_size(mut self, messages: u32) -> Self {
        self.options.pull_batch_size = i32::try_from(messages).unwrap_or(i32::MAX);
        self
    }

    /// Sets how often offsets are stored at brokers; 5 s by default. At most one request per queue each time.
    pub fn commit_interval(mut self, interval: Duration) -> Self {
        self.options.commit_interval = interval;
        self
    }

    /// Sets the largest body accepted after decompression, in bytes; 16 MiB by default. A message with a larger one counts
    /// as not consumed, and ends among the dead letters.
    pub fn max_body_bytes(mut self, bytes: usize) -> Self {
        self.options.max_body_bytes = bytes;
        self
    }

    /// Sets how long handlers that run may take to end when the consumer is shut down or their queue is given to another
    /// member; 30 s by default. Messages of those that take longer are delivered again.
    pub fn drain_timeout(mut self, timeout: Duration) -> Self {
        self.options.drain_timeout = timeout;
        self
    }

    /// Starts consuming: looks up the topics, joins the group, and hands messages to `handler` from now on.
    ///
    /// `handler` runs for each message; nothing or `Ok` means that the message is consumed. An `Err` or a panic means that
    /// it is not: the broker delivers it again, after 10 s the first time, then 30 s, a minute and so on up to 2 h, and puts
    /// it among the dead letters when that was in vain [16 times](Self::max_reconsume_times). A message may come more than
    /// once in any case: after a crash, and when queues change hands.
    ///
    /// A topic that does not exist yet is not an error: it is read as soon as it does.
    ///
    /// Dropping the future leaves the group again.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidArgument`] for a name, expression or setting that makes no sense, or when this client already has
    /// a consumer of the group; before anything is sent. Else why the name servers could not be asked.
    pub async fn start<H, F>(self, handler: H) -> Result<PushConsumer>
    where
        H: Fn(MessageView) -> F + Send + Sync + 'static,
        F: Future + Send + 'static,
        F::Output: HandlerResult,
    {
        self.check()?;
        let Self { cluster, group, subscriptions, options } = self;
        let env = cluster.env().clone();
        let subscriptions: std::collections::BTreeMap<_, _> =
            subscription::subscriptions(&group, &subscriptions, env.wall_clock_ms())?
                .into_iter()
                .map(|(topic, subscription)| (topic, Arc::new(subscription)))
                .collect();
        let data = consumer_data(&group, options.consume_from, subscriptions.values());
        let group = Arc::new(Group {
            retry_topic: names::retry_topic(&group).into(),
            name: group.into(),
            cluster,
            options,
            subscriptions,
            dispatch: Dispatch::new(),
            redelivery: Redelivery::default(),
            counters: Counters::default(),
        });
        look_up_topics(&group).await.map_err(|error| error.with_operation("start the consumer"))?;
        let membership = group.cluster.groups().join_as_consumer(data)?;
        // A broker answers pulls only of those that it knows.
        group.cluster.groups().tell_brokers().await;

        let (stop, stopped) = watch::channel(None);
        let rebalance = env.spawn(Rebalance::new(Arc::clone(&group)).run(membership, stopped));
        let handler = Arc::new(handler);
        let mut workers: Vec<_> = (0..group.options.concurrency)
            .map(|_| env.spawn(concurrent::work(Arc::clone(&group), Arc::clone(&handler))))
            .collect();
        workers.push(env.spawn(Redelivery::run(Arc::clone(&group))));
        let tasks = Mutex::new(Some(Tasks { rebalance, workers }));
        Ok(PushConsumer { group, tasks, stop, ended: watch::Sender::new(false) })
    }

    fn check(&self) -> Result<()> {
        let Options { concurrency, limits, pull_batch_size, commit_interval, drain_timeout, .. } = &self.options;
        let day = Duration::from_secs(24 * 3600);
        for (is_valid, rule) in [
            ((1..=10_000).contains(concurrency), "`concurrency` is from 1 to 10,000"),
            (limits.messages > 0, "`max_cached_messages` is at least 1"),
            (limits.bytes > 0, "`max_cached_bytes` is at least 1"),
            (limits.span > 0, "`max_span` is at least 1"),
            ((1..=1024).contains(pull_batch_size), "`pull_batch_size` is from 1 to 1,024"),
            (
                !commit_interval.is_zero() && *commit_interval <= day,
                "`commit_interval` is more than nothing and at most a day",
            ),
            (*drain_timeout <= day, "`drain_timeout` is at most a day"),
        ] {
            if !is_valid {
                return Err(Error::new(ErrorKind::InvalidArgument, rule).with_operation("start the consumer"));
            }
        }
        Ok(())
    }
}

/// What heartbeats say of a consumer.
fn consumer_data<'a>(
    group: &str,
    from: ConsumeFrom,
    subscriptions: impl Iterator<Item = &'a Arc<Subscription>>,
) -> ConsumerData {
    let from = match from {
        ConsumeFrom::Last => consume_from::LAST_OFFSET,
        ConsumeFrom::First => consume_from::FIRST_OFFSET,
        ConsumeFrom::Timestamp(_) => consume_from::TIMESTAMP,
    };
    ConsumerData {
        group_name: group.to_owned(),
        consume_type: consume_type::PASSIVELY.to_owned(),
        message_model: model::CLUSTERING.to_owned(),
        consume_from_where: from.to_owned(),
        subscription_data_set: subscriptions.map(|subscription| subscription.to_data()).collect(),
        unit_mode: false,
    }
}

/// Learns which brokers the topics are on, so that they can be told of the consumer. A topic that does not exist will be
/// looked up again.
async fn look_up_topics(group: &Group) -> Result<()> {
    let routes = group.cluster.routes();
    let deadline = group.env().now() + group.cluster.config().request_timeout;
    let look_up = |name: &Arc<str>| {
        let topic = routes.topic(name);
        async move { routes.look_up(&topic, deadline).await }
    };
    for (name, known) in group.subscriptions.keys().zip(join_all(group.subscriptions.keys().map(look_up)).await) {
        let known = known?;
        match (known.route, known.failure) {
            (Some(_), _) | (None, None) => {}
            (None, Some(failure)) if failure.kind() == ErrorKind::NoRoute => {
                // A new group's retry topic is made when the broker first hears of the group.
                if **name != *group.retry_topic {
                    tracing::warn!(group = &*group.name, topic = &**name, "a subscribed topic does not exist yet");
                }
            }
            (None, Some(failure)) => return Err(failure),
        }
    }
    Ok(())
}

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
    group: Arc<Group>,
    /// Taken by the first shutdown.
    tasks: Mutex<Option<Tasks>>,
    stop: watch::Sender<Option<std::time::Instant>>,
    ended: watch::Sender<bool>,
}

struct Tasks {
    rebalance: Task,
    /// Those that run handlers, and the one that brings messages back.
    workers: Vec<Task>,
}

impl PushConsumer {
    /// The name of the group.
    pub fn group(&self) -> &str {
        &self.group.name
    }

    /// What the consumer has done so far.
    pub fn stats(&self) -> ConsumerStats {
        self.group.counters.read()
    }

    /// Ends the consumer in good order: takes no more messages, lets the handlers that run end within the
    /// [drain timeout](PushConsumerBuilder::drain_timeout), stores the offsets and leaves the group, so that the other members
    /// take over at once. Messages that were received and not begun are theirs. Calling it twice is fine.
    ///
    /// Dropping the future ends the consumer at once, as dropping the consumer does.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Timeout`] when handlers did not end in time and were cut off; their messages will be delivered again.
    pub async fn shutdown(&self) -> Result<()> {
        let tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(Tasks { rebalance, mut workers }) = tasks else {
            // An error means that the consumer is gone, so it has ended.
            let _ = self.ended.subscribe().wait_for(|ended| *ended).await;
            return Ok(());
        };
        // Also when this future is dropped: nobody must wait for ever.
        let _ended = SetOnDrop(&self.ended);
        let env = self.group.env();
        let deadline = env.now() + self.group.options.drain_timeout;
        self.stop.send_replace(Some(deadline));
        let left = env.within(deadline + FAREWELL, rebalance).await;
        self.group.dispatch.close();
        // Handlers have had their time, in which queues waited for them.
        let redelivery = workers.pop();
        drop(redelivery);
        let ended = env.within(env.now().max(deadline), join_all(workers.iter_mut())).await;
        if left.is_some() && ended.is_some() {
            return Ok(());
        }
        let message = format!(
            "the consumer of group `{}` was cut off: its handlers or the brokers took longer than {:?}",
            self.group.name, self.group.options.drain_timeout
        );
        Err(Error::new(ErrorKind::Timeout, message).with_operation("shut the consumer down"))
    }
}

struct SetOnDrop<'a>(&'a watch::Sender<bool>);

impl Drop for SetOnDrop<'_> {
    fn drop(&mut self) {
        self.0.send_replace(true);
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
