//! Settings of a consumer.

use std::collections::BTreeMap;
use std::future::Future;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::allocate::{AllocateStrategy, Average};
use super::group::{Hooks, Options, Parts};
use super::handler::{BatchHandlerResult, Handler, HandlerResult, Handlers};
use super::message_view::MessageView;
use super::offset_store::{LocalFileOffsets, OffsetStore};
use super::order::Order;
use super::push::PushConsumer;
use super::rebalance::QueueChange;
use super::start;
use super::start_offset::ConsumeFrom;
use super::stream::DeliveryStream;
use super::subscription::{self, FilterExpression};
use crate::cluster::Cluster;
use crate::error::{Error, ErrorKind, Result};

/// Where Java clients keep the offsets of broadcasting consumers, in the home directory.
const OFFSET_DIRECTORY: &str = ".rocketmq_offsets";

/// Settings of a [`PushConsumer`]; [`start`](Self::start), [`start_batch`](Self::start_batch), [`listen`](Self::listen) or
/// [`stream`](Self::stream) makes it.
///
/// Defaults are those of the Java client 5.3.3 where it has the setting.
#[derive(Debug, Clone)]
#[must_use = "`start` makes the consumer"]
pub struct PushConsumerBuilder {
    cluster: Cluster,
    group: String,
    subscriptions: Vec<(String, FilterExpression)>,
    handlers: BTreeMap<Arc<str>, Handler>,
    options: Options,
    hooks: Hooks,
    strategy: Arc<dyn AllocateStrategy>,
    offsets: Option<Arc<dyn OffsetStore>>,
    offset_directory: Option<PathBuf>,
    batch_size: Option<usize>,
}

impl PushConsumerBuilder {
    pub(crate) fn new(cluster: Cluster, group: String) -> Self {
        Self {
            cluster,
            group,
            subscriptions: Vec::new(),
            handlers: BTreeMap::new(),
            options: Options::default(),
            hooks: Hooks::default(),
            strategy: Arc::new(Average),
            offsets: None,
            offset_directory: None,
            batch_size: None,
        }
    }

    /// Subscribes to a topic: `"*"` for all its messages, tags joined by `||` as in `"created || paid"`, or a condition on
    /// properties by [`FilterExpression::sql92`].
    ///
    /// Call it for each topic; of several calls for one topic the last counts. All members of a group must subscribe
    /// to the same.
    pub fn subscribe(mut self, topic: impl Into<String>, expression: impl Into<FilterExpression>) -> Self {
        self.subscriptions.push((topic.into(), expression.into()));
        self
    }

    /// Subscribes to a topic with a handler of its own; otherwise as [`subscribe`](Self::subscribe).
    /// [`listen`](Self::listen) starts a consumer whose topics all have one.
    pub fn subscribe_with<H, F>(
        mut self,
        topic: impl Into<String>,
        expression: impl Into<FilterExpression>,
        handler: H,
    ) -> Self
    where
        H: Fn(MessageView) -> F + Send + Sync + 'static,
        F: Future + Send + 'static,
        F::Output: HandlerResult,
    {
        let topic = topic.into();
        self.handlers.insert(topic.as_str().into(), Handler::one(handler));
        self.subscribe(topic, expression)
    }

    /// Sets how many handlers run at once, over all queues; 20 by default, from 1 to 10,000.
    pub fn concurrency(mut self, handlers: usize) -> Self {
        self.options.concurrency = handlers;
        self
    }

    /// Handles the messages of each queue one after the other, in the order in which they were stored. A message that
    /// fails is handled again after the [suspend time](Self::suspend_time), and those behind it wait.
    ///
    /// Brokers lock the queues meanwhile, so that never two members work on one, even when queues change hands.
    pub fn ordered(mut self) -> Self {
        self.options.order = Order::Queue;
        self
    }

    /// Like [`ordered`](Self::ordered), but only messages with the same key wait for each other; those with different
    /// keys are handled at the same time, also when they lie in one queue.
    ///
    /// ```no_run
    /// # async fn ship(message: rocketmq_native::MessageView) {}
    /// # async fn example(client: rocketmq_native::Client) -> Result<(), rocketmq_native::Error> {
    /// let builder = client.push_consumer("shipping").subscribe("orders", "*");
    /// let by_order = builder.ordered_by(|message| message.keys().next().unwrap_or_default().to_owned());
    /// let consumer = by_order.start(ship).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn ordered_by(mut self, key: impl Fn(&MessageView) -> String + Send + Sync + 'static) -> Self {
        self.options.order = Order::Key(Arc::new(key));
        self
    }

    /// Gives every member of the group all messages, instead of sharing them. Offsets are kept in a
    /// [file](Self::offset_directory) under the client's
    /// [instance name](crate::ClientBuilder::instance_name), which the client must have. A message that fails is dropped,
    /// since there is nobody to hand it back to.
    pub fn broadcasting(mut self) -> Self {
        self.options.broadcasting = true;
        self
    }

    /// Sets where a [broadcasting](Self::broadcasting) consumer keeps its offsets; `.rocketmq_offsets` in the home
    /// directory by default, as Java clients do.
    pub fn offset_directory(mut self, directory: impl Into<PathBuf>) -> Self {
        self.offset_directory = Some(directory.into());
        self
    }

    /// Keeps offsets in a store of your own, in place of the brokers or the file.
    pub fn offset_store(mut self, store: impl OffsetStore + 'static) -> Self {
        self.offsets = Some(Arc::new(store));
        self
    }

    /// Sets how the members share the queues: [`Average`] by default. All members must have the same.
    pub fn strategy(mut self, strategy: impl AllocateStrategy + 'static) -> Self {
        self.strategy = Arc::new(strategy);
        self
    }

    /// Has a function called when queues are given to this member or taken from it. It must not block.
    pub fn on_queue_change(mut self, listener: impl Fn(&QueueChange) + Send + Sync + 'static) -> Self {
        self.hooks.on_queue_change = Some(Arc::new(listener));
        self
    }

    /// Passes over messages for which a function says no, before they reach a handler: for conditions that brokers cannot
    /// decide. They count as consumed. It is called while an answer is taken in, so it must be quick.
    pub fn filter(mut self, wanted: impl Fn(&MessageView) -> bool + Send + Sync + 'static) -> Self {
        self.hooks.filter = Some(Arc::new(wanted));
        self
    }

    /// Sets where the group begins in queues that it has no offset for: [`ConsumeFrom::Last`] by default.
    pub fn consume_from(mut self, from: ConsumeFrom) -> Self {
        self.options.consume_from = from;
        self
    }

    /// Takes [`consume_from`](Self::consume_from) at its word, also for a topic that is so young that its broker still has
    /// all of it in memory: brokers then tell new groups to begin at the first message. Brokers before 5.0 do so anyway.
    pub fn strict_start(mut self) -> Self {
        self.options.strict_start = true;
        self
    }

    /// Sets how many messages a handler of [batches](Self::start_batch) gets at once, at most; 32 by default there, from 1
    /// to 1,024. They are of one topic and one queue. A handler is not kept waiting for more than are there.
    pub fn batch_size(mut self, messages: usize) -> Self {
        self.batch_size = Some(messages);
        self
    }

    /// Sets how often a message is delivered again before it goes to the group's dead letters. By default 16 times, and for
    /// an [ordered](Self::ordered) consumer without end, as in Java.
    pub fn max_reconsume_times(mut self, times: u32) -> Self {
        self.options.max_reconsume_times = Some(i32::try_from(times).unwrap_or(i32::MAX));
        self
    }

    /// Sets after how long a message comes again: the first time, the second time, and so on; the last one counts for all
    /// later times. By default brokers decide: 10 s, 30 s, a minute and so on up to 2 h.
    ///
    /// Brokers know 18 delays from 1 s to 2 h; the first that is long enough is taken.
    pub fn retry_schedule(mut self, delays: impl IntoIterator<Item = Duration>) -> Self {
        self.options.retry_schedule = delays.into_iter().collect();
        self
    }

    /// Has a function called with a message that is about to go to the group's dead letters. The message goes there when
    /// the future has ended.
    pub fn before_dead_letter<F>(mut self, hook: impl Fn(MessageView) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        self.hooks.before_dead_letter = Some(Arc::new(move |message| Box::pin(hook(message))));
        self
    }

    /// Sets how long an [ordered](Self::ordered) consumer waits before a message that failed is handled again; 1 s by
    /// default, from 10 ms to 30 s.
    pub fn suspend_time(mut self, time: Duration) -> Self {
        self.options.suspend_time = time;
        self
    }

    /// Sets how long a handler may take; 15 minutes by default. A message whose handler takes longer, and which holds up
    /// the offset of its queue, is handed back and delivered again after 10 s; the handler is not disturbed, and may ask
    /// for more time by [`MessageView::extend`]. Looked for four times in this time. Not for ordered or broadcasting consumers.
    pub fn consume_timeout(mut self, timeout: Duration) -> Self {
        self.options.consume_timeout = timeout;
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

    /// Sets how many messages of one topic may be in memory, over all its queues that this member reads: each gets an
    /// equal share, in place of [`max_cached_messages`](Self::max_cached_messages). No limit by default.
    pub fn max_cached_messages_per_topic(mut self, messages: usize) -> Self {
        self.options.topic_limits.messages = Some(messages);
        self
    }

    /// Sets how much memory the messages of one topic may take, in bytes, over all its queues that this member reads: each
    /// gets an equal share, in place of [`max_cached_bytes`](Self::max_cached_bytes). No limit by default.
    pub fn max_cached_bytes_per_topic(mut self, bytes: usize) -> Self {
        self.options.topic_limits.bytes = Some(bytes);
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

    /// Sets how long each queue rests between two pulls; not at all by default, at most a day.
    pub fn pull_interval(mut self, interval: Duration) -> Self {
        self.options.pull_interval = interval;
        self
    }

    /// Sets how often offsets are stored; 5 s by default. At most one request per queue each time.
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

    /// Starts consuming: looks up the topics, joins the group, and hands messages to `handler` from now on; those of
    /// topics with a [handler of their own](Self::subscribe_with) go there.
    ///
    /// `handler` runs for each message; nothing or `Ok` means that the message is consumed. An `Err` or a panic means that
    /// it is not: the broker delivers it again, after 10 s the first time, then 30 s, a minute and so on up to 2 h, and puts
    /// it among the dead letters when that was in vain [16 times](Self::max_reconsume_times). A
    /// [`ConsumeResult`](super::ConsumeResult) says more. A message may come more than once in any case: after a crash, and
    /// when queues change hands.
    ///
    /// A topic that does not exist yet is not an error: it is read as soon as it does.
    ///
    /// Dropping the future leaves the group again.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidArgument`] for a name, expression or setting that makes no sense, or when this client already has
    /// a consumer of the group; before anything is sent. The broker's words when it refuses an SQL92 expression. Else why
    /// the name servers could not be asked.
    pub async fn start<H, F>(self, handler: H) -> Result<PushConsumer>
    where
        H: Fn(MessageView) -> F + Send + Sync + 'static,
        F: Future + Send + 'static,
        F::Output: HandlerResult,
    {
        self.start_with(Some(Handler::one(handler)), 1).await
    }

    /// Like [`start`](Self::start), with a handler that gets several messages of one queue at once, up to the
    /// [batch size](Self::batch_size). Nothing or `Ok(())` means that all are consumed, an `Err` or a panic that none is;
    /// a [`BatchResult`](super::BatchResult) tells them apart.
    ///
    /// # Errors
    ///
    /// As [`start`](Self::start).
    pub async fn start_batch<H, F>(self, handler: H) -> Result<PushConsumer>
    where
        H: Fn(Vec<MessageView>) -> F + Send + Sync + 'static,
        F: Future + Send + 'static,
        F::Output: BatchHandlerResult,
    {
        let batch_size = self.batch_size.unwrap_or(32);
        if !(1..=1024).contains(&batch_size) {
            return Err(invalid("`batch_size` is from 1 to 1,024"));
        }
        self.start_with(Some(Handler::batch(handler)), batch_size).await
    }

    /// Like [`start`](Self::start), for a consumer whose topics all have a [handler of their own](Self::subscribe_with).
    ///
    /// # Errors
    ///
    /// As [`start`](Self::start); also when a topic has no handler.
    pub async fn listen(self) -> Result<PushConsumer> {
        let without = self.subscriptions.iter().find(|(topic, _)| !self.handlers.contains_key(topic.as_str()));
        if let Some((topic, _)) = without {
            return Err(invalid(&format!("topic `{topic}` has no handler: use `subscribe_with`, or `start` with one")));
        }
        self.start_with(None, 1).await
    }

    /// Like [`start`](Self::start), without a handler: messages are taken out of the stream, one by one, and each is
    /// decided by [`ack`](super::Delivery::ack) or [`nack`](super::Delivery::nack). Nothing is pulled beyond the limits of
    /// what may be in memory, so a stream that is not polled stands still.
    ///
    /// # Errors
    ///
    /// As [`start`](Self::start); also when a topic has a handler of its own.
    pub async fn stream(self) -> Result<DeliveryStream> {
        if let Some(topic) = self.handlers.keys().next() {
            return Err(invalid(&format!(
                "topic `{topic}` has a handler, which a stream does not call: use `subscribe`"
            )));
        }
        let parts = self.parts(None, 1)?;
        Ok(DeliveryStream::new(PushConsumer::new(start::start(parts, 0).await?)))
    }

    async fn start_with(self, handler: Option<Handler>, batch_size: usize) -> Result<PushConsumer> {
        let parts = self.parts(handler, batch_size)?;
        let handlers = parts.options.concurrency;
        Ok(PushConsumer::new(start::start(parts, handlers).await?))
    }

    fn parts(self, handler: Option<Handler>, batch_size: usize) -> Result<Parts> {
        self.check()?;
        let now_ms = self.cluster.env().wall_clock_ms();
        let with_retry_topic = start::has_retry_topic(&self.options);
        let subscriptions = subscription::subscriptions(&self.group, &self.subscriptions, with_retry_topic, now_ms)?;
        let offsets = match self.offsets {
            None if self.options.broadcasting => Some(local_offsets(&self.cluster, self.offset_directory)?),
            offsets => offsets,
        };
        Ok(Parts {
            name: self.group.into(),
            cluster: self.cluster,
            options: Options { batch_size, ..self.options },
            hooks: self.hooks,
            subscriptions,
            strategy: self.strategy,
            offsets,
            handlers: Handlers::new(self.handlers, handler),
        })
    }

    fn check(&self) -> Result<()> {
        let options = &self.options;
        let day = Duration::from_secs(24 * 3600);
        let (shortest, longest) = (Duration::from_millis(10), Duration::from_secs(30));
        start::check_concurrency(options.concurrency)?;
        for (is_valid, rule) in [
            (options.limits.messages > 0, "`max_cached_messages` is at least 1"),
            (options.limits.bytes > 0, "`max_cached_bytes` is at least 1"),
            (options.limits.span > 0, "`max_span` is at least 1"),
            (options.topic_limits.messages != Some(0), "`max_cached_messages_per_topic` is at least 1"),
            (options.topic_limits.bytes != Some(0), "`max_cached_bytes_per_topic` is at least 1"),
            ((1..=1024).contains(&options.pull_batch_size), "`pull_batch_size` is from 1 to 1,024"),
            (options.pull_interval <= day, "`pull_interval` is at most a day"),
            (
                !options.commit_interval.is_zero() && options.commit_interval <= day,
                "`commit_interval` is more than nothing and at most a day",
            ),
            (
                options.consume_timeout >= Duration::from_millis(100) && options.consume_timeout <= day * 30,
                "`consume_timeout` is from 100 ms to 30 days",
            ),
            ((shortest..=longest).contains(&options.suspend_time), "`suspend_time` is from 10 ms to 30 s"),
            (options.drain_timeout <= day, "`drain_timeout` is at most a day"),
        ] {
            if !is_valid {
                return Err(invalid(rule));
            }
        }
        Ok(())
    }
}

fn local_offsets(cluster: &Cluster, directory: Option<PathBuf>) -> Result<Arc<dyn OffsetStore>> {
    if !cluster.has_instance_name() {
        return Err(invalid(
            "a broadcasting consumer keeps its offsets under the client's name, and this client's name changes each time: \
             give the client an `instance_name`, or the consumer an `offset_store`",
        ));
    }
    let directory = match directory {
        Some(directory) => directory,
        None => std::env::home_dir()
            .ok_or_else(|| invalid("there is no home directory: set `offset_directory`"))?
            .join(OFFSET_DIRECTORY),
    };
    Ok(Arc::new(LocalFileOffsets::new(cluster.env().clone(), &directory, cluster.client_id())))
}

fn invalid(rule: &str) -> Error {
    Error::new(ErrorKind::InvalidArgument, rule.to_owned()).with_operation("start the consumer")
}
