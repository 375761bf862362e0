//! Reading queues by offset.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use rocketmq_wire::request::pull::{PullMessageRequest, pull_flag};

use crate::cluster::consume::{self, PullStatus, Pulled};
use crate::cluster::{Cluster, MASTER_ID};
use crate::consumer::message_view::{MessageView, Origin};
use crate::consumer::offset_store::unknown_broker;
use crate::consumer::received;
use crate::consumer::subscription::{self, FilterExpression, Subscription};
use crate::error::{Error, Result};
use crate::message::MessageQueue;
use crate::remoting::Peer;

/// The most body bytes asked for in one pull. Brokers before 5.0 do not read it.
const BATCH_BYTES: i32 = 256 * 1024;

/// The largest body accepted after decompression.
const MAX_BODY_BYTES: usize = 16 << 20;

/// What the answer to a held pull may take beyond the time that it may be held.
const MARGIN: Duration = Duration::from_secs(5);

/// Reads queues by offset, made by [`Client::queue_reader`](crate::Client::queue_reader). Cheap to clone.
///
/// It belongs to no group: nothing is shared out, and no offset moves unless it is [committed](Self::commit). The name of a
/// group is needed for that, and for brokers to say who asks.
///
/// ```no_run
/// # async fn example(client: rocketmq_native::Client) -> Result<(), rocketmq_native::Error> {
/// let reader = client.queue_reader("auditors");
/// for queue in reader.queues("orders").await? {
///     let mut offset = reader.begin(&queue).await?;
///     loop {
///         let pulled = reader.pull(&queue, offset, 32).await?;
///         for message in &pulled.messages {
///             println!("{queue} {}: {:?}", message.queue_offset(), message.body());
///         }
///         if pulled.next_offset >= pulled.end {
///             break;
///         }
///         offset = pulled.next_offset;
///     }
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct QueueReader {
    cluster: Cluster,
    group: Arc<str>,
}

impl fmt::Debug for QueueReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("QueueReader").field("group", &self.group).finish_non_exhaustive()
    }
}

/// What a pull brought.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct PullResult {
    /// The messages that pass the filter, oldest first; none when nothing was stored yet from the offset on.
    pub messages: Vec<MessageView>,
    /// Where to pull next. Beyond the last message when some were filtered out; at the beginning or end of the queue when
    /// it does not reach to the offset that was asked for.
    pub next_offset: i64,
    /// The offset of the oldest message of the queue.
    pub begin: i64,
    /// The offset after the newest message of the queue.
    pub end: i64,
    /// Messages that could not be read, and are left out: why the first of them. Their offsets are passed over.
    pub unreadable: Option<Error>,
    /// Whether the queue does not reach to the offset asked for.
    pub was_out_of_range: bool,
    /// Whether the answer said that an administrator moved the group.
    pub(super) was_reset: bool,
}

impl QueueReader {
    pub(crate) fn new(cluster: Cluster, group: String) -> Self {
        Self { cluster, group: group.into() }
    }

    pub(crate) fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// The group whose offsets it reads and commits.
    pub fn group(&self) -> &str {
        &self.group
    }

    fn deadline(&self) -> Instant {
        self.cluster.env().now() + self.cluster.config().request_timeout
    }

    /// Lists the queues of a topic that may be read, by broker and number; asks a name server each time.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::NoRoute`](crate::ErrorKind::NoRoute) for a topic that does not exist; else when no name server answers.
    pub async fn queues(&self, topic: &str) -> Result<Vec<MessageQueue>> {
        let routes = self.cluster.routes();
        let known = routes.look_up(&routes.topic(&topic.into()), self.deadline()).await?;
        match (known.route, known.failure) {
            (Some(route), _) => Ok(route.read_queues().to_vec()),
            (None, Some(failure)) => Err(failure.with_operation("list the queues of a topic")),
            (None, None) => Ok(Vec::new()),
        }
    }

    /// The replica to ask, once the queue's topic was looked up.
    async fn peer(&self, queue: &MessageQueue, replica: i64) -> Result<(i64, Peer)> {
        if let Some(found) = self.cluster.replica(queue.broker(), replica) {
            return Ok(found);
        }
        let routes = self.cluster.routes();
        routes.look_up(&routes.topic(&queue.topic().into()), self.deadline()).await?;
        self.cluster.replica(queue.broker(), replica).ok_or_else(|| unknown_broker(queue))
    }

    async fn master(&self, queue: &MessageQueue) -> Result<Peer> {
        self.peer(queue, MASTER_ID).await.map(|(_, peer)| peer)
    }

    /// The offset of the oldest message of a queue.
    ///
    /// # Errors
    ///
    /// When the broker does not answer.
    pub async fn begin(&self, queue: &MessageQueue) -> Result<i64> {
        Ok(consume::min_offset(&self.master(queue).await?, queue, self.deadline()).await?.max(0))
    }

    /// The offset after the newest message of a queue.
    ///
    /// # Errors
    ///
    /// When the broker does not answer.
    pub async fn end(&self, queue: &MessageQueue) -> Result<i64> {
        Ok(consume::max_offset(&self.master(queue).await?, queue, self.deadline()).await?.max(0))
    }

    /// The offset of the first message of a queue that was stored at a time, by the broker's clock, or later. Brokers before
    /// 5.0 give the last message when all are older.
    ///
    /// # Errors
    ///
    /// When the broker does not answer.
    pub async fn offset_at(&self, queue: &MessageQueue, time: SystemTime) -> Result<i64> {
        let since_1970 = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let milliseconds = i64::try_from(since_1970.as_millis()).unwrap_or(i64::MAX);
        Ok(consume::search_offset(&self.master(queue).await?, queue, milliseconds, self.deadline()).await?.max(0))
    }

    /// The offset that the group has committed for a queue; none if it has not.
    ///
    /// Brokers answer 0 for a group without an offset while the queue still has its very first message.
    ///
    /// # Errors
    ///
    /// When the broker does not answer.
    pub async fn committed(&self, queue: &MessageQueue) -> Result<Option<i64>> {
        let master = self.master(queue).await?;
        let offset = consume::query_consumer_offset(&master, &self.group, queue, false, self.deadline()).await?;
        Ok(offset.filter(|offset| *offset >= 0))
    }

    /// Commits an offset for the group, and awaits that the broker has stored it. It may be smaller than before.
    ///
    /// # Errors
    ///
    /// When the broker does not answer or refuses: brokers since 5.0 do for a group that does not exist.
    pub async fn commit(&self, queue: &MessageQueue, offset: i64) -> Result<()> {
        let master = self.master(queue).await?;
        self.cluster.commit_offset(&master, &self.group, queue, offset, self.deadline()).await
    }

    /// Reads at most `max` messages of a queue from an offset on, and does not wait for more.
    ///
    /// # Errors
    ///
    /// When the broker does not answer or refuses, such as
    /// [`ErrorKind::NotPermitted`](crate::ErrorKind::NotPermitted) for a topic that may not be read.
    pub async fn pull(&self, queue: &MessageQueue, offset: i64, max: u32) -> Result<PullResult> {
        self.pull_matching(queue, offset, max, FilterExpression::all(), Duration::ZERO).await
    }

    /// As [`pull`](Self::pull), of the messages that pass a filter, and waiting at the broker for so long until there is one.
    ///
    /// # Errors
    ///
    /// As [`pull`](Self::pull); [`ErrorKind::InvalidArgument`](crate::ErrorKind::InvalidArgument) for a filter that is not
    /// valid.
    pub async fn pull_matching(
        &self,
        queue: &MessageQueue,
        offset: i64,
        max: u32,
        filter: impl Into<FilterExpression>,
        wait: Duration,
    ) -> Result<PullResult> {
        let version = 0;
        let subscription = subscription::subscription("", queue.topic(), &filter.into(), version)?;
        let pull = self.read(queue, offset, max, &subscription, wait);
        match &self.cluster.config().telemetry {
            None => pull.await,
            Some(telemetry) => telemetry.poll(&self.cluster, &self.group, pull, |pulled| &pulled.messages).await,
        }
    }

    pub(super) async fn read(
        &self,
        queue: &MessageQueue,
        offset: i64,
        max: u32,
        subscription: &Subscription,
        wait: Duration,
    ) -> Result<PullResult> {
        let mut sys_flag = pull_flag::SUBSCRIPTION;
        if !wait.is_zero() {
            sys_flag |= pull_flag::SUSPEND;
        }
        let request = PullMessageRequest {
            consumer_group: (&*self.group).into(),
            topic: queue.topic().into(),
            queue_id: queue.id(),
            queue_offset: offset,
            max_message_count: i32::try_from(max).unwrap_or(i32::MAX),
            sys_flag,
            commit_offset: 0,
            suspend_timeout_millis: i64::try_from(wait.as_millis()).unwrap_or(i64::MAX),
            subscription: Some(subscription.text().into()),
            sub_version: subscription.version,
            expression_type: Some(subscription.kind().into()),
            max_message_bytes: Some(BATCH_BYTES),
            request_source: None,
            proxy_forward_client_id: None,
            broker_name: Some(queue.broker().into()),
        };
        let (_, peer) = self.peer(queue, MASTER_ID).await?;
        let deadline = self.deadline() + wait + if wait.is_zero() { Duration::ZERO } else { MARGIN };
        let pulled = consume::pull(&peer, &request, deadline).await?;
        Ok(self.result(queue, offset, pulled, subscription))
    }

    fn result(&self, queue: &MessageQueue, offset: i64, pulled: Pulled, subscription: &Subscription) -> PullResult {
        let (begin, end) = (pulled.header.min_offset, pulled.header.max_offset);
        let mut result = PullResult {
            messages: Vec::new(),
            next_offset: pulled.header.next_begin_offset.max(0),
            begin,
            end,
            unreadable: None,
            was_out_of_range: pulled.status == PullStatus::OffsetIllegal,
            was_reset: pulled.was_reset,
        };
        if pulled.status != PullStatus::Found {
            return result;
        }
        let origin = Arc::new(Origin::new(queue.clone(), false, self.cluster.namespace().clone()));
        let received = received::read(pulled.body, &pulled.header, offset, subscription, None, &origin);
        result.next_offset = received.next;
        result.unreadable = received.failure.map(|failure| {
            let message = format!("an answer to a pull from offset {offset} of {queue} holds what is no message");
            Error::new(crate::ErrorKind::Protocol, message).with_operation("pull").with_source(failure)
        });
        for (_, mut message) in received.messages {
            match message.inflate(MAX_BODY_BYTES) {
                Ok(()) => result.messages.push(message),
                Err(error) => {
                    result.unreadable.get_or_insert(error);
                }
            }
        }
        result
    }
}
