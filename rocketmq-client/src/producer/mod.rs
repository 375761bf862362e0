//! Sending messages.
//!
//! A [`Producer`] is made by [`Client::producer`](crate::Client::producer). Each send is a plain future: it checks the
//! message, finds the topic's queues, and tries one after the other within one time budget until a broker takes it.

mod attempt;
mod attempts;
mod batch;
mod choice;
mod compress;
mod delay;
mod interceptor;
mod lanes;
mod latency;
mod limits;
mod linger;
mod options;
mod queue_choice;
mod recall;
mod receipt;
mod request_reply;
mod sending;
mod stats;
#[cfg(test)]
mod tests;
mod trace;
pub mod transaction;
mod under_way;
mod verdict;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant};

use futures_util::future::{join, join_all};
use rocketmq_wire::Version;
use rocketmq_wire::message::Compression;
use rocketmq_wire::message::names::DEFAULT_TOPIC;
use rocketmq_wire::request::send::{SendMessageRequestV2, SendTemplate};

use self::compress::Compressor;
use self::delay::Ability;
use self::latency::Latencies;
use self::limits::Limits;
use self::linger::Linger;
use self::options::Choice;
use self::queue_choice::QueueChoice;
use self::sending::{Sending, Stamp};
use self::trace::Tracer;
use self::under_way::{Counted, UnderWay};
use crate::cluster::{Cluster, Membership, QUEUES_OF_NEW_TOPIC, Route, Topic, WriteQueue};
use crate::env::Task;
use crate::error::{Error, ErrorKind, Result};
use crate::message::{Message, MessageQueue, check_group, check_topic_for_sending};
use crate::remoting::Peer;

pub use attempts::{Attempt, Attempts};
pub use batch::BatchProgress;
pub use delay::Delay;
pub use interceptor::{SendInterceptor, Sent};
pub use options::SendOptions;
pub use receipt::{SendReceipt, SendStatus};
pub use stats::ProducerStats;

/// Sends messages; clones are the same producer.
///
/// Any number of tasks may send at the same time: when more is under way than the client's limits allow, the next send
/// waits for its turn within its timeout instead of failing.
///
/// Dropping the last clone leaves the group in the background. [`shutdown`](Self::shutdown) finishes what is under way
/// first.
///
/// ```no_run
/// # async fn example(client: rocketmq_native::Client) -> Result<(), rocketmq_native::Error> {
/// use rocketmq_native::Message;
///
/// let producer = client.producer("orders-service").start().await?;
/// let receipt = producer.send(Message::new("orders", "hi").tag("created").key("42")).await?;
/// println!("{} is at {} of {}", receipt.message_id(), receipt.queue_offset(), receipt.queue());
/// producer.shutdown().await;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Producer(Arc<Inner>);

struct Inner {
    cluster: Cluster,
    group: Arc<str>,
    config: Config,
    /// Topics that have been sent to.
    topics: RwLock<BTreeMap<Arc<str>, Arc<TopicQueues>>>,
    sends: UnderWay,
    /// Topics to whose brokers this client is known, so that they can pass replies on to it.
    asked: Mutex<BTreeSet<Arc<str>>>,
    /// What brokers can do about delays, by address.
    abilities: Mutex<BTreeMap<Arc<str>, (Version, Ability)>>,
    compressor: Compressor,
    limits: Option<Limits>,
    latencies: Option<Latencies>,
    linger: Option<Arc<Linger>>,
    linger_task: Mutex<Option<Task>>,
    interceptors: Vec<Arc<dyn SendInterceptor>>,
    tracer: Option<Tracer>,
    /// A plain message whose body is smaller than this needs nothing done to it.
    plain_below: usize,
    /// Whether receipts keep all that answers say.
    wants_more: bool,
    membership: Mutex<Option<Membership>>,
}

/// A topic, and whose turn it is.
struct TopicQueues {
    topic: Arc<Topic>,
    choice: QueueChoice,
    targets: Mutex<Option<Arc<Targets>>>,
}

/// A queue to send to.
struct Target {
    queue: MessageQueue,
    /// The master of its broker.
    master: Peer,
    /// What the headers of all messages to it have in common.
    template: SendTemplate,
}

/// A route, and its queues to write to, in the order of turns.
struct Targets {
    route: Arc<Route>,
    /// The state of the topic's route that this was made of.
    changes: u64,
    queues: Vec<Arc<Target>>,
}

impl Targets {
    fn is_of(&self, changes: u64, route: &Arc<Route>) -> bool {
        self.changes == changes && Arc::ptr_eq(&self.route, route)
    }
}

impl TopicQueues {
    /// What the route known now leads to, if that was found before.
    fn kept_targets(&self) -> Option<Arc<Targets>> {
        let changes = self.topic.changes();
        let known = self.topic.known();
        let route = known.for_sending()?;
        let kept = self.targets.lock().unwrap_or_else(PoisonError::into_inner);
        kept.as_ref().filter(|targets| targets.is_of(changes, route)).cloned()
    }

    /// What a route leads to: found once, as long as the route stays the same.
    fn targets(&self, producer: &Inner, changes: u64, route: Arc<Route>) -> Arc<Targets> {
        // One assignment is all that is done under the lock.
        let mut kept = self.targets.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(targets) = kept.as_ref().filter(|targets| targets.is_of(changes, &route)) {
            return Arc::clone(targets);
        }
        let queues = route.write_queues().iter().map(|queue| Arc::new(producer.target(queue))).collect();
        let targets = Arc::new(Targets { route, changes, queues });
        *kept = Some(Arc::clone(&targets));
        targets
    }
}

/// Settings of a producer; the defaults are those of the Java client 5.3.3.
#[derive(Debug, Clone)]
struct Config {
    timeout: Duration,
    attempt_timeout: Option<Duration>,
    retries: u32,
    retry_not_stored: bool,
    max_message_size: usize,
    topics: Vec<String>,
    compression: compress::Settings,
    max_in_flight: Option<usize>,
    max_in_flight_bytes: Option<usize>,
    latency_fault_tolerance: bool,
    retried_codes: Option<BTreeSet<i32>>,
    linger: Duration,
    max_batch_bytes: usize,
    /// Whether to trace, and to which topic if not to the usual one.
    trace: Option<Option<String>>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            timeout: Duration::from_secs(3),
            attempt_timeout: None,
            retries: 2,
            retry_not_stored: false,
            max_message_size: 4 * 1024 * 1024,
            topics: Vec::new(),
            compression: compress::Settings::default(),
            max_in_flight: None,
            max_in_flight_bytes: None,
            latency_fault_tolerance: false,
            retried_codes: None,
            linger: Duration::ZERO,
            max_batch_bytes: 32 * 1024,
            trace: None,
        }
    }
}

impl Producer {
    /// Sends a message and awaits the broker's receipt.
    ///
    /// A failed attempt is followed by the next at once, at another broker if there is one: after lost connections,
    /// unanswered requests and those refusals that may pass (response codes 1, 2, 14, 16, 17, 204, 205, 215, 1500). All
    /// attempts carry the same message id. A busy broker that is the only one is left alone for a moment first.
    ///
    /// Dropping the future gives the message up: it has then been sent whole or not at all.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidArgument`] and [`ErrorKind::MessageTooLarge`] before anything is sent;
    /// [`ErrorKind::NoRoute`] when the topic exists nowhere and no broker creates it; [`ErrorKind::Closed`] after
    /// [`shutdown`](Self::shutdown); else the kind of the last attempt. [`Error::outcome`] says whether the message may be
    /// stored all the same, [`Attempts::of`] lists the attempts.
    pub fn send(&self, message: Message) -> impl Future<Output = Result<SendReceipt>> + Send + '_ {
        Sending::new(&self.0, message, None)
    }

    /// Sends a message with a timeout or to a queue of the caller's choice; see [`send`](Self::send).
    ///
    /// # Errors
    ///
    /// As [`send`](Self::send), and [`ErrorKind::InvalidArgument`] when the queue is of another topic.
    pub async fn send_with(&self, message: Message, options: SendOptions) -> Result<SendReceipt> {
        match &options.choice {
            Choice::Turn => Sending::new(&self.0, message, options.timeout).await,
            _ => Box::pin(self.0.send_with_options(message, options)).await,
        }
    }

    /// Sends a message as [`send`](Self::send) does, unless it would have to wait for room under a limit: then it fails at
    /// once.
    ///
    /// The limits are those of the producer ([`max_in_flight`](ProducerBuilder::max_in_flight) and
    /// [`max_in_flight_bytes`](ProducerBuilder::max_in_flight_bytes)) if it has any, else those of the connection. The answer is
    /// awaited, and a connection or a route that is not there yet.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::WouldBlock`] when there is no room, and nothing was sent; else as [`send`](Self::send).
    pub async fn try_send(&self, message: Message) -> Result<SendReceipt> {
        if !self.0.is_plain(&message) {
            let options = SendOptions { only_at_once: true, ..SendOptions::default() };
            return Box::pin(self.0.send_with_options(message, options)).await;
        }
        Sending::at_once(&self.0, message).await
    }

    /// Sends a message that no broker acknowledges. Success means that it was handed to a connection: it may be lost.
    ///
    /// Dropping the future before that may or may not have sent the message, but never a part of it.
    ///
    /// # Errors
    ///
    /// As [`send`](Self::send), for what goes wrong before the message is handed to a connection. There is one attempt.
    pub async fn send_one_way(&self, message: Message) -> Result<()> {
        self.send_one_way_with(message, SendOptions::default()).await
    }

    /// Sends a message as [`send_one_way`](Self::send_one_way) does, with options.
    ///
    /// # Errors
    ///
    /// As [`send_one_way`](Self::send_one_way), and [`ErrorKind::InvalidArgument`] when the queue is of another topic.
    pub async fn send_one_way_with(&self, message: Message, options: SendOptions) -> Result<()> {
        Box::pin(self.0.send_one_way_with_options(message, options)).await
    }

    /// The queues that a topic's messages go to, in the order of turns.
    ///
    /// Of a topic that does not exist, those that a broker would create.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidArgument`] for a name that is none, [`ErrorKind::NoRoute`], or why no name server could be
    /// asked.
    pub async fn queues(&self, topic: &str) -> Result<Vec<MessageQueue>> {
        let topic: Arc<str> = topic.into();
        let deadline = self.0.deadline(self.0.cluster.env().now(), None);
        let topic = self.0.look_up(&topic, deadline).await?;
        let route = self.0.cluster.routes().for_sending(&topic.topic, deadline).await?;
        Ok(route.write_queues().iter().map(|target| target.queue.clone()).collect())
    }

    /// The group that the producer belongs to.
    pub fn group(&self) -> &str {
        &self.0.group
    }

    /// Sends what [lingers](ProducerBuilder::linger) now and waits for its outcome, and waits until the messages sent
    /// one-way have reached their brokers, or their connections are lost.
    ///
    /// Acknowledged sends are not waited for: their own futures tell. Dropping the future ends the wait only.
    pub async fn flush(&self) {
        if let Some(linger) = &self.0.linger {
            linger.flush().await;
        }
        // Requests of one connection arrive in order, so the answer to a later one tells of those before.
        self.0.cluster.groups().tell_brokers().await;
    }

    /// Counts of what is easily overlooked.
    pub fn stats(&self) -> ProducerStats {
        ProducerStats {
            waiting_requests: self.0.cluster.replies().count(),
            unknown_replies: self.0.cluster.replies().unknown(),
            dropped_traces: self.0.tracer.as_ref().map_or(0, Tracer::dropped),
        }
    }

    /// Refuses further sends, waits for those under way, each within its own timeout, and leaves the group. Calling it
    /// twice is fine.
    ///
    /// Dropping the future leaves the sends alone and the group in the background.
    pub async fn shutdown(&self) {
        let lingering = async {
            if let Some(linger) = &self.0.linger {
                linger.flush().await;
            }
        };
        // No more may begin first, then what lingers is sent.
        join(self.0.sends.end(), lingering).await;
        if let Some(tracer) = &self.0.tracer {
            tracer.end().await;
        }
        let membership = self.0.membership.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(membership) = membership {
            membership.leave().await;
        }
    }
}

impl fmt::Debug for Producer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Producer").field("group", &self.0.group).field("config", &self.0.config).finish_non_exhaustive()
    }
}

impl Inner {
    /// Checks what can be checked without the cluster, and counts the send as under way.
    fn begin(&self, message: &Message, queue: Option<&MessageQueue>) -> Result<Counted<'_>> {
        let begun = if self.cluster.is_closed() { None } else { self.sends.begin(|_| ()) };
        let Some((counted, ())) = begun else { return Err(shut_down()) };
        message.check(self.config.max_message_size).map_err(|error| error.with_operation("send"))?;
        if let Some(queue) = queue.filter(|queue| queue.topic() != message.topic()) {
            return Err(Error::new(
                ErrorKind::InvalidArgument,
                format!("the queue {queue} is not of the message's topic `{}`", message.topic()),
            )
            .with_operation("send"));
        }
        Ok(counted)
    }

    fn deadline(&self, began: Instant, timeout: Option<Duration>) -> Instant {
        // No longer than the clock goes.
        const LONGEST: Duration = Duration::from_secs(30 * 24 * 3600);
        began + timeout.unwrap_or(self.config.timeout).min(LONGEST)
    }

    fn target(&self, queue: &WriteQueue) -> Target {
        let what_stays = SendMessageRequestV2 {
            producer_group: (&*self.group).into(),
            topic: queue.queue.topic().into(),
            default_topic: DEFAULT_TOPIC.into(),
            default_topic_queue_nums: QUEUES_OF_NEW_TOPIC,
            queue_id: queue.queue.id(),
            broker_name: Some(queue.queue.broker().into()),
            ..Default::default()
        };
        let template = SendTemplate::new(&what_stays, self.cluster.unique_id_prefix());
        Target { queue: queue.queue.clone(), master: self.cluster.sending_peer(&queue.master), template }
    }

    /// What stays the same over all attempts of a send that begins now.
    #[inline]
    fn stamp(&self, timeout: Option<Duration>) -> Stamp {
        let began = self.cluster.env().now();
        let born_ms = self.cluster.env().wall_clock_ms_at(began);
        Stamp { began, deadline: self.deadline(began, timeout), born_ms, unique_id: self.cluster.unique_id(born_ms) }
    }

    fn known_topic(&self, name: &str) -> Option<Arc<TopicQueues>> {
        self.topics.read().unwrap_or_else(PoisonError::into_inner).get(name).cloned()
    }

    /// The topic of that name; checked and looked up when it is new to this producer.
    async fn look_up(&self, name: &Arc<str>, deadline: Instant) -> Result<Arc<TopicQueues>> {
        if let Some(topic) = self.known_topic(name) {
            return Ok(topic);
        }
        check_topic_for_sending(name)?;
        let topic = self.cluster.routes().topic(name);
        self.cluster.routes().for_sending(&topic, deadline).await?;
        let choice = QueueChoice::new(self.cluster.env().random());
        let queues = || Arc::new(TopicQueues { topic, choice, targets: Mutex::default() });
        let mut topics = self.topics.write().unwrap_or_else(PoisonError::into_inner);
        Ok(Arc::clone(topics.entry(Arc::clone(name)).or_insert_with(queues)))
    }
}

fn shut_down() -> Error {
    Error::new(ErrorKind::Closed, "the producer was shut down").with_operation("send")
}

/// Settings of a [`Producer`]; [`start`](Self::start) makes it. Defaults are those of the Java client 5.3.3.
#[must_use = "`start` makes the producer"]
pub struct ProducerBuilder {
    cluster: Cluster,
    group: String,
    config: Config,
    interceptors: Vec<Arc<dyn SendInterceptor>>,
}

impl fmt::Debug for ProducerBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProducerBuilder")
            .field("group", &self.group)
            .field("config", &self.config)
            .field("interceptors", &self.interceptors.len())
            .finish_non_exhaustive()
    }
}

impl ProducerBuilder {
    pub(crate) fn new(cluster: Cluster, group: String) -> Self {
        Self { cluster, group, config: Config::default(), interceptors: Vec::new() }
    }

    /// Sets the time that one send may take, all its attempts together; 3 s by default.
    pub fn send_timeout(mut self, timeout: Duration) -> Self {
        self.config.timeout = timeout;
        self
    }

    /// Sets the time that each attempt but the last may take; as long as the whole send by default.
    pub fn attempt_timeout(mut self, timeout: Duration) -> Self {
        self.config.attempt_timeout = Some(timeout);
        self
    }

    /// Sets how many attempts may follow a failed first one; 2 by default.
    pub fn retries(mut self, retries: u32) -> Self {
        self.config.retries = retries;
        self
    }

    /// Sets whether to try another broker when one has taken the message but not stored it as safely as it should; off by
    /// default. The message may then be there twice.
    pub fn retry_not_stored(mut self, retry: bool) -> Self {
        self.config.retry_not_stored = retry;
        self
    }

    /// Sets the largest body in bytes; 4 MiB by default, which is also the limit of a broker unless it is raised there.
    pub fn max_message_size(mut self, bytes: usize) -> Self {
        self.config.max_message_size = bytes;
        self
    }

    /// Sets how large bodies are compressed: [`Compression::Zlib`] by default, the only way that Java consumers
    /// before 4.9.4 and Go consumers can read. Needs the feature of that name.
    pub fn compression(mut self, compression: Compression) -> Self {
        self.config.compression.algorithm = compression;
        self
    }

    /// Sets how hard to compress, within the range of the algorithm; 5 by default. LZ4 has no levels.
    pub fn compression_level(mut self, level: i32) -> Self {
        self.config.compression.level = level;
        self
    }

    /// Sets the smallest body that is compressed, in bytes; 4,096 by default, `usize::MAX` for never. A body that would not
    /// get smaller is sent as it is.
    pub fn compress_over(mut self, bytes: usize) -> Self {
        self.config.compression.over = bytes;
        self
    }

    /// Sets how many messages of this producer may await their answers; no limit by default but that of each
    /// [connection](crate::ClientBuilder::max_in_flight). One more waits within its timeout.
    pub fn max_in_flight(mut self, messages: usize) -> Self {
        self.config.max_in_flight = Some(messages);
        self
    }

    /// Sets how many bytes of bodies may be under way from this producer, up to 4 GiB; no limit by default but that of each
    /// [connection](crate::ClientBuilder::max_in_flight_bytes). One more message waits within its timeout.
    pub fn max_in_flight_bytes(mut self, bytes: usize) -> Self {
        self.config.max_in_flight_bytes = Some(bytes);
        self
    }

    /// Sets whether brokers that were slow or failed are left alone for a while as long as there are others; off by default.
    ///
    /// A broker that took 550 ms is left alone for 2 s, one that took 15 s or longer for 30 s, one that failed for 10 s: the
    /// table of the Java client since 5.1.4.
    pub fn latency_fault_tolerance(mut self, on: bool) -> Self {
        self.config.latency_fault_tolerance = on;
        self
    }

    /// Sets after which response codes of a broker another attempt is made, instead of 1, 2, 14, 16, 17, 204, 205, 215 and
    /// 1500. Lost connections and missing answers are always followed by another.
    pub fn retry_response_codes(mut self, codes: impl IntoIterator<Item = i32>) -> Self {
        self.config.retried_codes = Some(codes.into_iter().collect());
        self
    }

    /// Sets how long a message may wait for others that go to the same topic and queue in the same request; off, which is
    /// zero, by default. From a millisecond to 30 s.
    ///
    /// Worth it with many sends at the same time and brokers that spend more on a request than on a message: each send
    /// then takes up to this much longer, and many more fit in a second. Receipts and errors are each message's own. What
    /// cannot be part of a batch goes by itself, as for [`send_batch`](Producer::send_batch), whose note about ids holds
    /// here too; so does a message whose send has a timeout of its own, or whose body is compressed.
    pub fn linger(mut self, time: Duration) -> Self {
        self.config.linger = time;
        self
    }

    /// Sets at how many bytes a request is sent before the time to [linger](Self::linger) is over; 32 KiB by default, from
    /// 1 KiB to 2 MiB.
    pub fn max_batch_bytes(mut self, bytes: usize) -> Self {
        self.config.max_batch_bytes = bytes;
        self
    }

    /// Adds code that sees every message before it is sent and what came of it; those added earlier run earlier.
    pub fn interceptor(mut self, interceptor: impl SendInterceptor) -> Self {
        self.interceptors.push(Arc::new(interceptor));
        self
    }

    /// Traces every acknowledged message to `RMQ_SYS_TRACE_TOPIC`, in the form that RocketMQ's tools read; off by default.
    ///
    /// Brokers have that topic when `traceTopicEnable` is set there. Traces are sent in the background, once a second and
    /// many at a time; when they come faster than they can be sent, some are dropped and counted in
    /// [`ProducerStats::dropped_traces`].
    pub fn trace(mut self) -> Self {
        self.config.trace = Some(None);
        self
    }

    /// Traces as [`trace`](Self::trace) does, to another topic.
    pub fn trace_topic(mut self, topic: impl Into<String>) -> Self {
        self.config.trace = Some(Some(topic.into()));
        self
    }

    /// Names a topic to be looked up at the start, so that the first send need not. It need not exist.
    pub fn topic(mut self, topic: impl Into<String>) -> Self {
        self.config.topics.push(topic.into());
        self
    }

    /// Starts the producer: it joins its group, and brokers learn of it in the background.
    ///
    /// Dropping the future leaves nothing behind.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidArgument`] for a group or topic name that is none, or a timeout of nothing;
    /// [`ErrorKind::Closed`] when the client was closed. A topic that cannot be looked up is no error.
    pub async fn start(mut self) -> Result<Producer> {
        let start = |error: Error| error.with_operation("start producer");
        check_group(&self.group).map_err(start)?;
        if self.config.timeout.is_zero() || self.config.attempt_timeout.is_some_and(|timeout| timeout.is_zero()) {
            return Err(start(Error::new(ErrorKind::InvalidArgument, "a timeout of nothing lets no message through")));
        }
        for topic in &self.config.topics {
            check_topic_for_sending(topic).map_err(start)?;
        }
        let Config { linger, max_batch_bytes, trace, .. } = &self.config;
        if !linger.is_zero() && !(Duration::from_millis(1)..=Duration::from_secs(30)).contains(linger) {
            return Err(start(Error::new(
                ErrorKind::InvalidArgument,
                "`linger` is from a millisecond to 30 s, or zero",
            )));
        }
        if !(1024..=2 * 1024 * 1024).contains(max_batch_bytes) {
            return Err(start(Error::new(ErrorKind::InvalidArgument, "`max_batch_bytes` is from 1 KiB to 2 MiB")));
        }
        if let Some(Some(topic)) = trace {
            check_topic_for_sending(topic).map_err(start)?;
        }
        if self.cluster.closed().is_cancelled() {
            return Err(start(Error::new(ErrorKind::Closed, "the client was closed")));
        }
        let group: Arc<str> = self.group.into();
        let compressor = Compressor::new(self.config.compression, self.cluster.env());
        let (messages, bytes) = (self.config.max_in_flight, self.config.max_in_flight_bytes);
        let limits = (messages.is_some() || bytes.is_some()).then(|| Limits::new(messages, bytes));
        let latencies = self.config.latency_fault_tolerance.then(Latencies::default);
        let linger = (!self.config.linger.is_zero())
            .then(|| Arc::new(Linger::new(self.config.linger, self.config.max_batch_bytes)));
        let tracer = match self.config.trace.take() {
            Some(topic) => Some(Tracer::start(&self.cluster, &group, topic).await.map_err(start)?),
            None => None,
        };
        let is_watched = tracer.is_some() || !self.interceptors.is_empty();
        let is_observed = self.cluster.config().telemetry.is_some();
        let is_simple = limits.is_none() && latencies.is_none() && linger.is_none() && !is_watched && !is_observed;
        let producer = Producer(Arc::new(Inner {
            membership: Mutex::new(Some(self.cluster.groups().join_as_producer(&group))),
            cluster: self.cluster,
            group,
            config: self.config,
            topics: RwLock::default(),
            sends: UnderWay::default(),
            asked: Mutex::default(),
            abilities: Mutex::default(),
            plain_below: if is_simple { compressor.over() } else { 0 },
            compressor,
            limits,
            latencies,
            linger,
            linger_task: Mutex::default(),
            interceptors: self.interceptors,
            wants_more: tracer.is_some(),
            tracer,
        }));
        if let Some(linger) = &producer.0.linger {
            let env = producer.0.cluster.env();
            let batching = linger::run(Arc::clone(linger), env.clone(), Arc::downgrade(&producer.0));
            let task = env.spawn(batching);
            *producer.0.linger_task.lock().unwrap_or_else(PoisonError::into_inner) = Some(task);
        }
        let look_ups = producer.0.config.topics.iter().map(|topic| producer.queues(topic));
        for failure in join_all(look_ups).await.into_iter().filter_map(Result::err) {
            tracing::warn!(group = producer.group(), %failure, "a topic could not be looked up at the start");
        }
        Ok(producer)
    }
}
