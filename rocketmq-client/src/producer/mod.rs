//! Sending messages.
//!
//! A [`Producer`] is made by [`Client::producer`](crate::Client::producer). Each send is a plain future: it checks the
//! message, finds the topic's queues, and tries one after the other within one time budget until a broker takes it.

mod attempt;
mod attempts;
mod choice;
mod lanes;
mod options;
mod queue_choice;
mod receipt;
mod request_reply;
mod sending;
mod stats;
#[cfg(test)]
mod tests;
pub mod transaction;
mod under_way;
mod verdict;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant};

use futures_util::future::join_all;

use self::options::Choice;
use self::queue_choice::QueueChoice;
use self::sending::{Sending, Stamp};
use self::under_way::{Counted, UnderWay};
use crate::cluster::{Cluster, Membership, Route, Topic};
use crate::error::{Error, ErrorKind, Result};
use crate::message::{Message, MessageQueue, check_group, check_topic_for_sending};
use crate::remoting::Peer;

pub use attempts::{Attempt, Attempts};
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
    membership: Mutex<Option<Membership>>,
}

/// A topic, and whose turn it is.
struct TopicQueues {
    topic: Arc<Topic>,
    choice: QueueChoice,
    targets: Mutex<Option<Arc<Targets>>>,
}

/// A route, and the master of each of its queues to write to, in their order.
struct Targets {
    route: Arc<Route>,
    /// The state of the topic's route that this was made of.
    changes: u64,
    masters: Vec<Peer>,
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
    fn targets(&self, cluster: &Cluster, changes: u64, route: Arc<Route>) -> Arc<Targets> {
        // One assignment is all that is done under the lock.
        let mut kept = self.targets.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(targets) = kept.as_ref().filter(|targets| targets.is_of(changes, &route)) {
            return Arc::clone(targets);
        }
        let masters = route.write_queues().iter().map(|queue| cluster.peer(&queue.master)).collect();
        let targets = Arc::new(Targets { route, changes, masters });
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

    /// Counts of what is easily overlooked.
    pub fn stats(&self) -> ProducerStats {
        ProducerStats {
            waiting_requests: self.0.cluster.replies().count(),
            unknown_replies: self.0.cluster.replies().unknown(),
        }
    }

    /// Refuses further sends, waits for those under way, each within its own timeout, and leaves the group. Calling it
    /// twice is fine.
    ///
    /// Dropping the future leaves the sends alone and the group in the background.
    pub async fn shutdown(&self) {
        self.0.sends.end().await;
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
#[derive(Debug)]
#[must_use = "`start` makes the producer"]
pub struct ProducerBuilder {
    cluster: Cluster,
    group: String,
    config: Config,
}

impl ProducerBuilder {
    pub(crate) fn new(cluster: Cluster, group: String) -> Self {
        Self { cluster, group, config: Config::default() }
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
    pub async fn start(self) -> Result<Producer> {
        let start = |error: Error| error.with_operation("start producer");
        check_group(&self.group).map_err(start)?;
        if self.config.timeout.is_zero() || self.config.attempt_timeout.is_some_and(|timeout| timeout.is_zero()) {
            return Err(start(Error::new(ErrorKind::InvalidArgument, "a timeout of nothing lets no message through")));
        }
        for topic in &self.config.topics {
            check_topic_for_sending(topic).map_err(start)?;
        }
        if self.cluster.closed().is_cancelled() {
            return Err(start(Error::new(ErrorKind::Closed, "the client was closed")));
        }
        let group: Arc<str> = self.group.into();
        let producer = Producer(Arc::new(Inner {
            membership: Mutex::new(Some(self.cluster.groups().join_as_producer(&group))),
            cluster: self.cluster,
            group,
            config: self.config,
            topics: RwLock::default(),
            sends: UnderWay::default(),
            asked: Mutex::default(),
        }));
        let look_ups = producer.0.config.topics.iter().map(|topic| producer.queues(topic));
        for failure in join_all(look_ups).await.into_iter().filter_map(Result::err) {
            tracing::warn!(group = producer.group(), %failure, "a topic could not be looked up at the start");
        }
        Ok(producer)
    }
}
