//! The way of one message: attempts until one succeeds, within one time budget.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rocketmq_wire::message::names::DEFAULT_TOPIC;
use rocketmq_wire::request::send::{SendBatchMessageRequest, SendMessageRequestV2, SendReplyMessageRequestV2};

use super::attempts::{Attempt, Attempts};
use super::lanes::KnownWay;
use super::latency::Attempted;
use super::receipt::{SendReceipt, SentTo};
use super::sending::Stamp;
use super::verdict::{self, Verdict};
use super::{Inner, Target, Targets, TopicQueues};
use crate::backoff::Backoff;
use crate::cluster::QUEUES_OF_NEW_TOPIC;
use crate::error::{Error, ErrorKind, Result};
use crate::message::{Form, Message, MessageQueue, with_id};
use crate::remoting::Peer;

/// How long a busy broker is left alone before the same message is tried there again.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// A checked message on its way.
pub(super) struct Outgoing<'a> {
    pub(super) producer: &'a Inner,
    pub(super) message: &'a Message,
    pub(super) stamp: &'a Stamp,
}

/// What a first attempt came to that was made on the short way.
pub(super) enum First {
    /// It was not made: something about the way is not known, or no longer true, or a limit is reached.
    NotMade,
    /// It was not made, and should be at this broker.
    Preferred(Arc<str>),
    /// It was no full success.
    Made(Arc<Target>, Result<SendReceipt>),
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

impl Inner {
    /// Sends a checked message to queues of the producer's choice, after what came of a first attempt.
    ///
    /// Nearly always the first attempt is made without this and succeeds: what else it may take is made, and held in
    /// memory, only when it does not.
    pub(super) async fn send_anywhere(&self, message: Message, stamp: Stamp, first: First) -> Result<SendReceipt> {
        let outgoing = Outgoing { producer: self, message: &message, stamp: &stamp };
        let (began, deadline) = (stamp.began, stamp.deadline);
        let topic = self.topic(&message, deadline).await?;
        let mut past = Past::default();
        let (mut made, mut preferred) = (0, None);
        match first {
            First::NotMade => {}
            First::Preferred(broker) => preferred = Some(broker),
            First::Made(queue, result) => {
                made = 1;
                if self.note(&topic, &queue, began, result, &mut past) == Verdict::Final {
                    return past.into_result(&message);
                }
            }
        }
        let env = self.cluster.env();
        let mut pause = Backoff::new(FIRST_PAUSE, LONGEST_PAUSE);
        for number in made..=self.config.retries {
            let targets = self.targets(&topic, deadline).await?;
            let place = match preferred.take() {
                Some(broker) => self.choose_at(&topic, &targets, &broker)?,
                None => self.choose(&topic, &targets, past.avoid.as_deref())?,
            };
            let queue = &targets.queues[place];
            let mut began = env.now();
            if let Some(last) = past.failures.last() {
                if verdict::needs_pause(&last.error) && past.avoid.as_deref() == Some(queue.queue.broker()) {
                    env.sleep_until(deadline.min(began + pause.next(env.random()))).await;
                    began = env.now();
                }
                if began >= deadline {
                    break;
                }
            }
            let result =
                outgoing.attempt(&topic, &targets, place, self.attempt_deadline(number, began, deadline)).await;
            if let Some(latencies) = &self.latencies {
                let now = env.now();
                latencies.note(queue.queue.shared_broker(), Attempted::of(&result), now - began, now);
            }
            match result {
                Ok(receipt) if verdict::of_status(receipt.status(), self.config.retry_not_stored) == Verdict::Final => {
                    return Ok(receipt);
                }
                result => {
                    if self.note(&topic, queue, began, result, &mut past) == Verdict::Final {
                        break;
                    }
                }
            }
        }
        past.into_result(&message)
    }

    /// Keeps what an attempt came to that was no full success, and judges whether there should be another.
    fn note(
        &self,
        topic: &TopicQueues,
        target: &Target,
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
        let verdict = verdict::of_error(&error, self.config.retried_codes.as_ref());
        let elapsed = self.cluster.env().now() - began;
        past.failures.push(Attempt { queue: target.queue.clone(), elapsed, error });
        past.avoid = Some(Arc::clone(target.queue.shared_broker()));
        verdict
    }

    /// What the topic's route leads to now.
    pub(super) async fn targets(&self, topic: &TopicQueues, deadline: Instant) -> Result<Arc<Targets>> {
        if let Some(targets) = topic.kept_targets() {
            return Ok(targets);
        }
        let changes = topic.topic.changes();
        let route = self.cluster.routes().for_sending(&topic.topic, deadline).await?;
        Ok(topic.targets(self, changes, route))
    }

    /// Sends a checked message to one queue, once.
    pub(super) async fn send_to_queue(
        &self,
        queue: &MessageQueue,
        message: &Message,
        stamp: &Stamp,
    ) -> Result<SendReceipt> {
        let topic = self.topic(message, stamp.deadline).await?;
        let peer = self.master(queue)?;
        let outgoing = Outgoing { producer: self, message, stamp };
        let result = outgoing.attempt_at(&peer, queue, stamp.deadline).await;
        result.map_err(|error| self.only_attempt(&topic, queue, stamp, error))
    }

    /// The error of a send that was tried once, and to one queue only.
    pub(super) fn only_attempt(&self, topic: &TopicQueues, queue: &MessageQueue, stamp: &Stamp, error: Error) -> Error {
        if verdict::suspects_route(&error) {
            self.cluster.routes().suspect(&topic.topic);
        }
        let mut attempts = Attempts::default();
        attempts.push(Attempt { queue: queue.clone(), elapsed: self.cluster.env().now() - stamp.began, error });
        attempts.into_error(queue.topic()).unwrap_or_else(|| time_is_over(queue.topic()))
    }

    /// Hands a checked message to a connection and is done with it.
    pub(super) async fn send_and_forget(
        &self,
        queue: Option<&MessageQueue>,
        message: &Message,
        stamp: &Stamp,
    ) -> Result<()> {
        let topic = self.topic(message, stamp.deadline).await?;
        let targets;
        let (queue, peer) = match queue {
            Some(queue) => (queue, self.master(queue)?),
            None => {
                targets = self.targets(&topic, stamp.deadline).await?;
                let place = self.choose(&topic, &targets, None)?;
                (&targets.queues[place].queue, targets.queues[place].master.clone())
            }
        };
        let outgoing = Outgoing { producer: self, message, stamp };
        let sent = async {
            let mut request = outgoing.request(queue);
            if message.form() == Form::Timed {
                let (_, properties) = self.time(message, &peer, stamp.deadline).await?;
                request.properties = Some(with_id(&properties, stamp.unique_id.as_str()).into());
            }
            peer.call_one_way(&request, message.body(), stamp.deadline).await
        };
        sent.await.map_err(|error| {
            if verdict::suspects_route(&error) {
                self.cluster.routes().suspect(&topic.topic);
            }
            error.with_operation("send one-way")
        })
    }

    pub(super) async fn topic(&self, message: &Message, deadline: Instant) -> Result<Arc<TopicQueues>> {
        self.look_up(message.shared_topic(), deadline).await.map_err(|error| error.with_operation("send"))
    }

    /// The place of the next queue: not on the broker to avoid, nor on one that cannot be reached at the moment, while
    /// there is another.
    pub(super) fn choose(&self, topic: &TopicQueues, targets: &Targets, avoid: Option<&str>) -> Result<usize> {
        let queues = &targets.queues;
        if let Some(place) = self.choose_fast(topic, queues, avoid) {
            return Ok(place);
        }
        let next = |suits: &dyn Fn(&Target) -> bool| topic.choice.choose(queues.len(), |place| suits(&queues[place]));
        let allowed = |queue: &Target| avoid != Some(queue.queue.broker());
        let reachable = |queue: &Target| allowed(queue) && queue.master.failure().is_none();
        next(&reachable).or_else(|| next(&allowed)).or_else(|| next(&|_| true)).ok_or_else(|| {
            self.cluster.routes().suspect(&topic.topic);
            let name = topic.topic.name();
            Error::new(
                ErrorKind::NoRoute,
                format!(
                    "the topic `{name}` has no queue to write to: check its permission and that a master of its brokers is up"
                ),
            )
            .with_operation("send")
        })
    }

    /// The place of the next queue whose broker is not slow or failing, if that is looked at and there is one.
    fn choose_fast(&self, topic: &TopicQueues, queues: &[Arc<Target>], avoid: Option<&str>) -> Option<usize> {
        let latencies = self.latencies.as_ref()?;
        let now = self.cluster.env().now();
        let next = |suits: &dyn Fn(&str) -> bool| {
            topic.choice.choose(queues.len(), |place| {
                let broker = queues[place].queue.broker();
                avoid != Some(broker) && suits(broker)
            })
        };
        next(&|broker| latencies.is_available(broker, now)).or_else(|| next(&|broker| latencies.is_reachable(broker)))
    }

    pub(super) fn master(&self, queue: &MessageQueue) -> Result<Peer> {
        self.cluster.master(queue.broker()).ok_or_else(|| {
            Error::new(
                ErrorKind::NoRoute,
                format!("the queue {queue} has no broker: no route names a master of `{}`", queue.broker()),
            )
            .with_operation("send")
        })
    }

    /// The end of one attempt: of all but the last there may be a limit of its own.
    pub(super) fn attempt_deadline(&self, number: u32, began: Instant, deadline: Instant) -> Instant {
        match self.config.attempt_timeout {
            Some(limit) if number < self.config.retries => deadline.min(began + limit),
            _ => deadline,
        }
    }
}

impl Outgoing<'_> {
    /// One attempt at a queue of the route. The connection is kept for those who send there next.
    pub(super) async fn attempt(
        &self,
        topic: &Arc<TopicQueues>,
        targets: &Targets,
        place: usize,
        deadline: Instant,
    ) -> Result<SendReceipt> {
        let queue = &targets.queues[place];
        let connection = queue.master.connection(deadline).await?;
        let way = Arc::new(KnownWay { target: Arc::clone(queue), connection: connection.clone() });
        self.producer.sends.lanes().learn(topic, targets, place, Arc::clone(&way));
        if self.message.form() != Form::Plain || self.producer.wants_more {
            return self.attempt_at(&queue.master, &queue.queue, deadline).await;
        }
        let request = self.message.send_request(queue, self.stamp.born_ms, self.stamp.unique_id.suffix());
        let answer = queue.master.call_on(connection, &request, self.message.body(), deadline).await?;
        let sent_to = SentTo::way(way, self.stamp.unique_id.suffix());
        SendReceipt::read(answer.answered(), sent_to).ok_or_else(|| answer.error())
    }

    /// One attempt at any queue, be it in the route or not, in whatever form the message travels.
    async fn attempt_at(&self, peer: &Peer, queue: &MessageQueue, deadline: Instant) -> Result<SendReceipt> {
        let (mut request, body) = (self.request(queue), self.message.body());
        let mut delay = None;
        let answer = match self.message.form() {
            Form::Plain => peer.call(&request, body, deadline).await?,
            Form::Reply => peer.call(&SendReplyMessageRequestV2(request), body, deadline).await?,
            Form::Batch => {
                request.batch = Some(true);
                peer.call(&SendBatchMessageRequest(request), body, deadline).await?
            }
            Form::Timed => {
                let (how, properties) = self.producer.time(self.message, peer, deadline).await?;
                delay = Some(how);
                request.properties = Some(with_id(&properties, self.stamp.unique_id.as_str()).into());
                peer.call(&request, body, deadline).await?
            }
        };
        let receipt = SendReceipt::read(answer.answered(), SentTo::named(queue.clone(), self.stamp.unique_id));
        let receipt = receipt.ok_or_else(|| answer.error())?;
        Ok(receipt.with_more(answer.answered(), delay))
    }

    fn request<'a>(&'a self, queue: &'a MessageQueue) -> SendMessageRequestV2<'a> {
        SendMessageRequestV2 {
            producer_group: Cow::Borrowed(&self.producer.group),
            topic: Cow::Borrowed(self.message.topic()),
            default_topic: Cow::Borrowed(DEFAULT_TOPIC),
            default_topic_queue_nums: QUEUES_OF_NEW_TOPIC,
            queue_id: queue.id(),
            sys_flag: self.message.sys_flag(),
            born_timestamp: self.stamp.born_ms,
            flag: self.message.user_flag(),
            properties: Some(Cow::Owned(self.message.properties_with_id(self.stamp.unique_id.as_str()))),
            broker_name: Some(Cow::Borrowed(queue.broker())),
            // Left out, these are zero and false at brokers of all versions: never consumed, no unit mode, no batch.
            reconsume_times: None,
            unit_mode: None,
            max_reconsume_times: None,
            batch: None,
        }
    }
}

impl Attempted {
    fn of(result: &Result<SendReceipt>) -> Self {
        match result {
            Ok(_) => Self::Answered,
            Err(error) if error.kind() == ErrorKind::Connection => Self::Unreachable,
            Err(_) => Self::Failed,
        }
    }
}

fn time_is_over(topic: &str) -> Error {
    Error::new(ErrorKind::Timeout, format!("the time for the message for `{topic}` was over before it could be sent"))
        .with_operation("send")
}
