//! Sends whose queue the caller has a say in, and those of messages that are more than plain.

use std::sync::Arc;
use std::time::Instant;

use super::attempt::{First, Outgoing};
use super::limits::Room;
use super::options::{Choice, SendOptions, place_of_hash};
use super::receipt::SendReceipt;
use super::{Inner, Stamp, Targets, TopicQueues, linger};
use crate::error::{Error, ErrorKind, Result};
use crate::message::{Form, Message, invalid};

impl Inner {
    /// Whether the message is sent as it is, and needs no more than that.
    #[inline]
    pub(super) fn is_plain(&self, message: &Message) -> bool {
        message.form() == Form::Plain && message.body().len() < self.plain_below
    }

    /// Whether somebody wants to know of every send.
    pub(super) fn is_watched(&self) -> bool {
        !self.interceptors.is_empty() || self.tracer.is_some()
    }

    /// Sends a message in the form that it asks for, to the queue that the options ask for.
    pub(super) async fn send_with_options(&self, message: Message, options: SendOptions) -> Result<SendReceipt> {
        if let Some(telemetry) = self.cluster.config().telemetry.as_ref().filter(|_| !options.observed) {
            let options = SendOptions { observed: true, ..options };
            let send = |[message]: [Message; 1]| Box::pin(self.send_with_options(message, options));
            return telemetry.send(&self.cluster, &self.group, [message], send).await;
        }
        let _under_way = self.begin(&message, options.named_queue())?;
        let stamp = self.stamp(options.timeout);
        if self.is_watched() {
            self.send_watched(message, options, stamp).await
        } else {
            self.send_unwatched(message, options, stamp).await
        }
    }

    /// Sends a checked message.
    pub(super) async fn send_unwatched(
        &self,
        mut message: Message,
        options: SendOptions,
        stamp: Stamp,
    ) -> Result<SendReceipt> {
        let _room = self.room(&message, &options, &stamp).await.map_err(|error| error.with_operation("send"))?;
        if let Some(linger) = self.linger.as_ref().filter(|_| message.body().len() < self.compressor.over()) {
            match linger.join(message, &options, &stamp) {
                Ok(receipt) => return linger::outcome(receipt).await,
                Err(returned) => message = returned,
            }
        }
        self.compressor.compress(&mut message, self.cluster.env()).await;
        match &options.choice {
            Choice::Turn => self.send_anywhere(message, stamp, First::NotMade).await,
            Choice::Broker(broker) => self.send_anywhere(message, stamp, First::Preferred(Arc::clone(broker))).await,
            Choice::Queue(queue) => self.send_to_queue(queue, &message, &stamp).await,
            choice => {
                let (topic, targets, place) = self.chosen(choice, &message, stamp.deadline).await?;
                let outgoing = Outgoing { producer: self, message: &message, stamp: &stamp };
                let result = outgoing.attempt(&topic, &targets, place, stamp.deadline).await;
                result.map_err(|error| self.only_attempt(&topic, &targets.queues[place].queue, &stamp, error))
            }
        }
    }

    /// Room under the producer's limits.
    async fn room(&self, message: &Message, options: &SendOptions, stamp: &Stamp) -> Result<Room<'_>> {
        match &self.limits {
            None => Ok(Room::default()),
            Some(limits) if options.only_at_once => limits.room_now(message.body().len()).ok_or_else(would_block),
            Some(limits) => limits.room(message.body().len(), self.cluster.env(), stamp.deadline).await,
        }
    }

    /// As [`send_with_options`](Self::send_with_options), for a message that no broker acknowledges.
    pub(super) async fn send_one_way_with_options(&self, message: Message, options: SendOptions) -> Result<()> {
        if let Some(telemetry) = self.cluster.config().telemetry.as_ref().filter(|_| !options.observed) {
            let options = SendOptions { observed: true, ..options };
            let send = |[message]: [Message; 1]| Box::pin(self.send_one_way_with_options(message, options));
            return telemetry.send(&self.cluster, &self.group, [message], send).await;
        }
        let name = |error: Error| error.with_operation("send one-way");
        let _under_way = self.begin(&message, options.named_queue()).map_err(name)?;
        if !matches!(message.form(), Form::Plain | Form::Timed) {
            let why = "a reply is always acknowledged, as brokers refuse those to clients that are gone: use `send`";
            return Err(name(invalid(why)));
        }
        let stamp = self.stamp(options.timeout);
        if !self.is_watched() {
            return self.send_one_way_unwatched(message, options, &stamp).await.map_err(name);
        }
        let (seen, refusal) = self.intercept(message);
        let result = match refusal {
            None => self.send_one_way_unwatched(seen.message.clone(), options, &stamp).await,
            Some(error) => Err(error),
        };
        let result = result.map_err(name);
        self.report(&seen, result.as_ref().map(|()| None), &stamp);
        result
    }

    async fn send_one_way_unwatched(&self, mut message: Message, options: SendOptions, stamp: &Stamp) -> Result<()> {
        let _room = self.room(&message, &options, stamp).await?;
        self.compressor.compress(&mut message, self.cluster.env()).await;
        let queue = match &options.choice {
            Choice::Turn | Choice::Broker(_) => None,
            Choice::Queue(queue) => Some(queue.clone()),
            choice => {
                let (_, targets, place) = self.chosen(choice, &message, stamp.deadline).await?;
                Some(targets.queues[place].queue.clone())
            }
        };
        self.send_and_forget(queue.as_ref(), &message, stamp).await
    }

    /// The place of the queue that the caller has chosen other than by name.
    pub(super) async fn chosen(
        &self,
        choice: &Choice,
        message: &Message,
        deadline: Instant,
    ) -> Result<(Arc<TopicQueues>, Arc<Targets>, usize)> {
        let topic = self.topic(message, deadline).await?;
        let targets = self.targets(&topic, deadline).await?;
        let count = targets.queues.len();
        let place = match choice {
            Choice::Hash(hash) => place_of_hash(*hash, count),
            Choice::Random if count > 0 => Some(self.cluster.env().random_below(count)),
            Choice::Selector(choose) if count > 0 => {
                let queues: Vec<_> = targets.queues.iter().map(|target| target.queue.clone()).collect();
                let place = choose(&queues, message);
                if place >= count {
                    let message = format!("the selector chose queue {place} of {count}: places count from 0");
                    return Err(invalid(message).with_operation("send"));
                }
                Some(place)
            }
            _ => None,
        };
        let place = match place {
            Some(place) => place,
            // Says that there are no queues.
            None => self.choose(&topic, &targets, None)?,
        };
        Ok((topic, targets, place))
    }

    /// The place of the next queue of a broker while it can be reached; else of the next of all.
    pub(super) fn choose_at(&self, topic: &TopicQueues, targets: &Targets, broker: &str) -> Result<usize, Error> {
        let at_broker = topic.choice.choose(targets.queues.len(), |place| {
            let target = &targets.queues[place];
            target.queue.broker() == broker && target.master.failure().is_none()
        });
        match at_broker {
            Some(place) => Ok(place),
            None => self.choose(topic, targets, None),
        }
    }
}

pub(super) fn would_block() -> Error {
    Error::new(ErrorKind::WouldBlock, "as much is under way as may be, and the message was not to wait for room")
}
