//! The way of one message: attempts until one succeeds, within one time budget.

use std::borrow::Cow;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use rocketmq_wire::message::id::UniqueId;
use rocketmq_wire::message::names::DEFAULT_TOPIC;
use rocketmq_wire::request::send::{SendMessageRequestV2, TemplatedSend};

use super::attempts::{Attempt, Attempts};
use super::receipt::SendReceipt;
use super::verdict::{self, Verdict};
use super::{Inner, Targets, TopicQueues};
use crate::backoff::Backoff;
use crate::cluster::{QUEUES_OF_NEW_TOPIC, WriteQueue};
use crate::error::{Error, ErrorKind, Result};
use crate::message::{Message, MessageQueue};
use crate::remoting::{Connection, Peer};

/// How long a busy broker is left alone before the same message is tried there again.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// A message with what stays the same over all attempts.
struct Outgoing<'a> {
    producer: &'a Inner,
    message: &'a Message,
    unique_id: UniqueId,
    born_ms: i64,
}

/// What came of the attempts so far.
#[derive(Default)]
struct Past {
    failures: Attempts,
    /// Taken by a broker, but not stored as safely as it should be.
    not_stored: Option<SendReceipt>,
    /// The broker that failed last.
    avoid: Option<Arc<str>>,
}

impl Past {
    fn into_result(self, message: &Message) -> Result<SendReceipt> {
        match self.not_stored {
            Some(receipt) => Ok(receipt),
            None => Err(self.failures.into_error(message.topic()).unwrap_or_else(|| time_is_over(message.topic()))),
        }
    }
}

/// Where one attempt goes.
pub(super) struct Way {
    targets: Arc<Targets>,
    place: usize,
    /// The connection that was up when the way was chosen.
    connection: Option<Connection>,
}

impl Way {
    fn target(&self) -> &WriteQueue {
        &self.targets.route.write_queues()[self.place]
    }

    fn peer(&self) -> &Peer {
        &self.targets.masters[self.place]
    }
}

impl Inner {
    /// Sends a checked message to queues of the producer's choice.
    ///
    /// Nearly always the way is known and the first attempt succeeds: what else it may take is made, and held in
    /// memory, only when they do not.
    pub(super) async fn send_anywhere(
        &self,
        message: &mut Message,
        began: Instant,
        deadline: Instant,
    ) -> Result<SendReceipt> {
        let outgoing = self.outgoing(message, began);
        let mut way = match self.known_way(outgoing.message.topic()) {
            Some(way) => way,
            None => Box::pin(self.find_way(outgoing.message, deadline)).await?,
        };
        match outgoing.attempt(&mut way, self.attempt_deadline(0, began, deadline)).await {
            Ok(receipt) if verdict::of_status(receipt.status(), self.config.retry_not_stored) == Verdict::Final => {
                Ok(receipt)
            }
            first => Box::pin(self.go_on(outgoing, &way, began, deadline, first)).await,
        }
    }

    /// What comes after a first attempt that was no full success: more of them, while that may help.
    async fn go_on(
        &self,
        outgoing: Outgoing<'_>,
        way: &Way,
        began: Instant,
        deadline: Instant,
        first: Result<SendReceipt>,
    ) -> Result<SendReceipt> {
        let topic = self.topic(outgoing.message, deadline).await?;
        let mut past = Past::default();
        if self.note(&topic, way.target(), began, first, &mut past) == Verdict::Final {
            return past.into_result(outgoing.message);
        }
        let env = self.cluster.env();
        let mut pause = Backoff::new(FIRST_PAUSE, LONGEST_PAUSE);
        for number in 1..=self.config.retries {
            let targets = self.targets(&topic, deadline).await?;
            let mut way = self.choose(&topic, targets, past.avoid.as_deref())?;
            let mut began = env.now();
            if let Some(last) = past.failures.last() {
                if verdict::needs_pause(&last.error) && past.avoid.as_deref() == Some(way.target().queue.broker()) {
                    env.sleep_until(deadline.min(began + pause.next(env.random()))).await;
                    began = env.now();
                }
                if began >= deadline {
                    break;
                }
            }
            match outgoing.attempt(&mut way, self.attempt_deadline(number, began, deadline)).await {
                Ok(receipt) if verdict::of_status(receipt.status(), self.config.retry_not_stored) == Verdict::Final => {
                    return Ok(receipt);
                }
                result => {
                    if self.note(&topic, way.target(), began, result, &mut past) == Verdict::Final {
                        break;
                    }
                }
            }
        }
        past.into_result(outgoing.message)
    }

    /// Keeps what an attempt came to that was no full success, and judges whether there should be another.
    fn note(
        &self,
        topic: &TopicQueues,
        target: &WriteQueue,
        began: Instant,
        result: Result<SendReceipt>,
        past: &mut Past,
    ) -> Verdict {
        let error = match result {
            Ok(receipt) => {
                past.not_stored.get_or_insert(receipt);
                past.avoid = Some(Arc::clone(target.queue.shared_broker()));
                return Verdict::Retry;
            }
            Err(error) => error,
        };
        if verdict::suspects_route(&error) {
            self.cluster.routes().suspect(&topic.topic);
        }
        let verdict = verdict::of_error(&error);
        let elapsed = self.cluster.env().now() - began;
        past.failures.push(Attempt { queue: target.queue.clone(), elapsed, error });
        past.avoid = Some(Arc::clone(target.queue.shared_broker()));
        verdict
    }

    /// What the topic's route leads to now.
    async fn targets(&self, topic: &TopicQueues, deadline: Instant) -> Result<Arc<Targets>> {
        if let Some(targets) = topic.kept_targets() {
            return Ok(targets);
        }
        let route = self.cluster.routes().for_sending(&topic.topic, deadline).await?;
        Ok(topic.targets(&self.cluster, route))
    }

    /// Sends a checked message to one queue, once.
    pub(super) async fn send_to_queue(
        &self,
        queue: &MessageQueue,
        message: &mut Message,
        began: Instant,
        deadline: Instant,
    ) -> Result<SendReceipt> {
        let topic = self.topic(message, deadline).await?;
        let peer = self.master(queue)?;
        let outgoing = self.outgoing(message, began);
        let error = match outgoing.attempt_at(&peer, queue, deadline).await {
            Ok(receipt) => return Ok(receipt),
            Err(error) => error,
        };
        if verdict::suspects_route(&error) {
            self.cluster.routes().suspect(&topic.topic);
        }
        let mut attempts = Attempts::default();
        attempts.push(Attempt { queue: queue.clone(), elapsed: self.cluster.env().now() - began, error });
        let topic = outgoing.message.topic();
        Err(attempts.into_error(topic).unwrap_or_else(|| time_is_over(topic)))
    }

    /// Hands a checked message to a connection and is done with it.
    pub(super) async fn send_and_forget(
        &self,
        queue: Option<&MessageQueue>,
        message: &mut Message,
        began: Instant,
        deadline: Instant,
    ) -> Result<()> {
        let topic = self.topic(message, deadline).await?;
        let way;
        let (queue, peer) = match queue {
            Some(queue) => (queue, self.master(queue)?),
            None => {
                way = self.choose(&topic, self.targets(&topic, deadline).await?, None)?;
                (&way.target().queue, way.peer().clone())
            }
        };
        let outgoing = self.outgoing(message, began);
        let request = outgoing.request(queue);
        let sent = peer.call_one_way(&request, outgoing.message.body(), deadline).await;
        sent.map_err(|error| {
            if verdict::suspects_route(&error) {
                self.cluster.routes().suspect(&topic.topic);
            }
            error.with_operation("send one-way")
        })
    }

    fn outgoing<'a>(&'a self, message: &'a mut Message, began: Instant) -> Outgoing<'a> {
        let born_ms = self.cluster.env().wall_clock_ms_at(began);
        let unique_id = self.cluster.unique_id(born_ms);
        message.set_unique_id(unique_id.as_str());
        Outgoing { producer: self, message, unique_id, born_ms }
    }

    async fn topic(&self, message: &Message, deadline: Instant) -> Result<Arc<TopicQueues>> {
        self.look_up(message.shared_topic(), deadline).await.map_err(|error| error.with_operation("send"))
    }

    /// The way of the next message, when nobody has to be asked for it.
    fn known_way(&self, topic: &str) -> Option<Way> {
        let topics = self.topics.read().unwrap_or_else(PoisonError::into_inner);
        let topic = topics.get(topic)?;
        let targets = topic.kept_targets()?;
        let place = topic.choice.choose(targets.route.write_queues(), None)?;
        let connection = targets.masters[place].up()?;
        Some(Way { targets, place, connection: Some(connection) })
    }

    async fn find_way(&self, message: &Message, deadline: Instant) -> Result<Way> {
        let topic = self.topic(message, deadline).await?;
        let targets = self.targets(&topic, deadline).await?;
        self.choose(&topic, targets, None)
    }

    /// The next queue and its broker: not the broker to avoid, nor one that cannot be reached at the moment, while there
    /// is another.
    fn choose(&self, topic: &TopicQueues, targets: Arc<Targets>, avoid: Option<&str>) -> Result<Way> {
        let queues = targets.route.write_queues();
        let Some(mut place) = topic.choice.choose(queues, avoid) else {
            self.cluster.routes().suspect(&topic.topic);
            return Err(Error::new(
                ErrorKind::NoRoute,
                format!(
                    "the topic `{}` has no queue to write to: check its permission and that a master of its brokers is up",
                    topic.topic.name()
                ),
            )
            .with_operation("send"));
        };
        if targets.masters[place].failure().is_some() {
            let reachable = |place: usize, queue: &WriteQueue| {
                avoid != Some(queue.queue.broker()) && targets.masters[place].failure().is_none()
            };
            place = topic.choice.choose_where(queues, reachable).unwrap_or(place);
        }
        Ok(Way { targets, place, connection: None })
    }

    fn master(&self, queue: &MessageQueue) -> Result<Peer> {
        self.cluster.master(queue.broker()).ok_or_else(|| {
            Error::new(
                ErrorKind::NoRoute,
                format!("the queue {queue} has no broker: no route names a master of `{}`", queue.broker()),
            )
            .with_operation("send")
        })
    }

    /// The end of one attempt: of all but the last there may be a limit of its own.
    fn attempt_deadline(&self, number: u32, began: Instant, deadline: Instant) -> Instant {
        match self.config.attempt_timeout {
            Some(limit) if number < self.config.retries => deadline.min(began + limit),
            _ => deadline,
        }
    }
}

impl Outgoing<'_> {
    /// One attempt at a queue of the route.
    async fn attempt(&self, way: &mut Way, deadline: Instant) -> Result<SendReceipt> {
        let connection = match way.connection.take() {
            Some(connection) => connection,
            None => way.peer().connection(deadline).await?,
        };
        let target = way.target();
        let request = TemplatedSend {
            template: &target.template,
            producer_group: &self.producer.group,
            sys_flag: 0,
            born_timestamp: self.born_ms,
            flag: self.message.user_flag(),
            properties: self.message.encoded_properties(),
        };
        let answer = way.peer().call_on(connection, &request, self.message.body(), deadline).await?;
        SendReceipt::read(&answer, &target.queue, self.unique_id)
    }

    /// One attempt at a queue that the caller has named, be it in the route or not.
    async fn attempt_at(&self, peer: &Peer, queue: &MessageQueue, deadline: Instant) -> Result<SendReceipt> {
        let answer = peer.call(&self.request(queue), self.message.body(), deadline).await?;
        SendReceipt::read(&answer, queue, self.unique_id)
    }

    fn request<'a>(&'a self, queue: &'a MessageQueue) -> SendMessageRequestV2<'a> {
        SendMessageRequestV2 {
            producer_group: Cow::Borrowed(&self.producer.group),
            topic: Cow::Borrowed(self.message.topic()),
            default_topic: Cow::Borrowed(DEFAULT_TOPIC),
            default_topic_queue_nums: QUEUES_OF_NEW_TOPIC,
            queue_id: queue.id(),
            sys_flag: 0,
            born_timestamp: self.born_ms,
            flag: self.message.user_flag(),
            properties: Some(Cow::Borrowed(self.message.encoded_properties())),
            broker_name: Some(Cow::Borrowed(queue.broker())),
            // Left out, these are zero and false at brokers of all versions: never consumed, no unit mode, no batch.
            reconsume_times: None,
            unit_mode: None,
            max_reconsume_times: None,
            batch: None,
        }
    }
}

fn time_is_over(topic: &str) -> Error {
    Error::new(ErrorKind::Timeout, format!("the time for the message for `{topic}` was over before it could be sent"))
        .with_operation("send")
}
