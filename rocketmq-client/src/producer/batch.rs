//! Several messages in one request.

use std::sync::Arc;

use bytes::BytesMut;
use rocketmq_wire::message::id::UniqueId;
use rocketmq_wire::message::{BatchElement, names, properties};

use super::attempt::First;
use super::options::Choice;
use super::{Inner, Producer, SendOptions, SendReceipt, Stamp};
use crate::error::{Error, ErrorKind, Result};
use crate::message::{Form, Message, invalid};

impl Producer {
    /// Sends several messages of one topic to one queue, in few requests; their receipts are in their order.
    ///
    /// Each message has its own id and offset. What is too much for one request, which is
    /// [`max_message_size`](super::ProducerBuilder::max_message_size) bytes of messages with their properties, goes in
    /// several, one after the other: each is stored whole or not at all, and may go to another queue unless the queue is
    /// [chosen](Self::send_batch_with). Bodies are not compressed, as no client can read a compressed batch.
    ///
    /// Brokers 5.0 to 5.3 let consumers see the id of the first message as that of each message of one request; tell
    /// messages by their keys there.
    ///
    /// Dropping the future gives up what is not sent yet.
    ///
    /// ```no_run
    /// # async fn example(producer: rocketmq_native::Producer) -> Result<(), rocketmq_native::Error> {
    /// use rocketmq_native::Message;
    ///
    /// let steps = ["created", "paid", "shipped"];
    /// let receipts = producer.send_batch(steps.map(|step| Message::new("orders", step).key("42"))).await?;
    /// assert_eq!(receipts.len(), 3);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidArgument`] before anything is sent: for no message at all, messages of several topics, with a
    /// delay, of a transaction, replies, or to a retry topic, as the Java client refuses them.
    /// [`ErrorKind::MessageTooLarge`] when a message is too large for a request of its own. Else as
    /// [`send`](Self::send); [`BatchProgress::of`] tells what was stored before.
    pub async fn send_batch(&self, messages: impl IntoIterator<Item = Message>) -> Result<Vec<SendReceipt>> {
        self.send_batch_with(messages, SendOptions::default()).await
    }

    /// Sends several messages as [`send_batch`](Self::send_batch) does, with a timeout for all of them, or to a queue of the
    /// caller's choice. A selector is shown the first message.
    ///
    /// # Errors
    ///
    /// As [`send_batch`](Self::send_batch), and as [`send_with`](Self::send_with).
    pub async fn send_batch_with(
        &self,
        messages: impl IntoIterator<Item = Message>,
        options: SendOptions,
    ) -> Result<Vec<SendReceipt>> {
        let messages = messages.into_iter().collect();
        Box::pin(self.0.send_batch(messages, options)).await.map_err(|error| error.with_operation("send batch"))
    }
}

/// What was stored of a batch that then failed: the source of its error.
#[derive(Debug, Clone)]
pub struct BatchProgress {
    receipts: Vec<SendReceipt>,
    cause: Error,
}

impl BatchProgress {
    /// The receipts of the messages at the front of the batch that were stored before `error`; the others were not, or, if
    /// [`Error::outcome`] says so, the next few may be.
    pub fn of(error: &Error) -> &[SendReceipt] {
        let source = std::error::Error::source(error);
        source.and_then(|source| source.downcast_ref::<Self>()).map_or(&[], |progress| &progress.receipts)
    }
}

impl std::fmt::Display for BatchProgress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "after {} messages: {}", self.receipts.len(), self.cause)
    }
}

impl std::error::Error for BatchProgress {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.cause)
    }
}

/// Messages on their way into one request.
#[derive(Debug, Default)]
pub(super) struct Batch {
    body: BytesMut,
    ids: Vec<UniqueId>,
}

impl Batch {
    /// The size of a message in a request, with its id.
    pub(super) fn size_of(message: &Message, id: &UniqueId) -> usize {
        let properties = message.encoded_properties().len() + properties::UNIQUE_ID.len() + id.as_str().len() + 2;
        // Sizes, flag and checksums: what an empty element takes.
        const EMPTY: usize = 22;
        EMPTY + message.body().len() + properties
    }

    /// Adds a checked message.
    pub(super) fn push(&mut self, message: &Message, id: UniqueId) -> Result<()> {
        let element = BatchElement { flag: message.user_flag(), body: message.body(), properties: &[] };
        let properties = [message.encoded_properties(), "UNIQ_KEY\u{1}", id.as_str(), "\u{2}"].map(str::as_bytes);
        let added = element.encode_in_parts(properties, &mut self.body);
        added.map_err(|error| invalid(error.to_string()).with_source(error))?;
        self.ids.push(id);
        Ok(())
    }

    pub(super) fn bytes(&self) -> usize {
        self.body.len()
    }

    /// The one message that carries all, the ids of its parts, and the id that it goes by itself: that of its first part,
    /// as some brokers let consumers see no other.
    pub(super) fn finish(self, topic: &Arc<str>) -> Option<(Message, Vec<UniqueId>, UniqueId)> {
        let first = *self.ids.first()?;
        let mut message = Message::new(Arc::clone(topic), self.body.freeze());
        message.set_form(Form::Batch);
        Some((message, self.ids, first))
    }
}

impl Inner {
    async fn send_batch(&self, messages: Vec<Message>, options: SendOptions) -> Result<Vec<SendReceipt>> {
        if let Some(telemetry) = self.cluster.config().telemetry.as_ref().filter(|_| !options.observed) {
            let options = SendOptions { observed: true, ..options };
            let send = |messages| Box::pin(self.send_batch(messages, options));
            return telemetry.send(&self.cluster, &self.group, messages, send).await;
        }
        if !self.is_watched() {
            return self.send_batch_unwatched(messages, options).await;
        }
        let stamp = self.stamp(options.timeout);
        let mut seen = Vec::with_capacity(messages.len());
        let mut refusal = None;
        for message in messages {
            let (one, refused) = self.intercept(message);
            seen.push(one);
            if refused.is_some() {
                refusal = refused;
                break;
            }
        }
        let result = match refusal {
            Some(error) => Err(error),
            None => {
                let messages = seen.iter().map(|one| one.message.clone()).collect();
                self.send_batch_unwatched(messages, options).await
            }
        };
        for (index, one) in seen.iter().enumerate() {
            let outcome = match &result {
                Ok(receipts) => Ok(receipts.get(index)),
                Err(error) => BatchProgress::of(error).get(index).map(Some).ok_or(error),
            };
            self.report(one, outcome, &stamp);
        }
        result
    }

    async fn send_batch_unwatched(&self, messages: Vec<Message>, options: SendOptions) -> Result<Vec<SendReceipt>> {
        let Some(first) = messages.first() else { return Err(invalid("a batch holds at least one message")) };
        let _under_way = self.begin(first, options.named_queue())?;
        let (topic, env) = (Arc::clone(first.shared_topic()), self.cluster.env());
        let deadline = self.deadline(env.now(), options.timeout);
        for message in &messages {
            message.check(self.config.max_message_size)?;
            check_element(message, &topic)?;
        }
        let choice = self.settled(&options.choice, first, deadline).await?;
        let mut receipts = Vec::with_capacity(messages.len());
        let mut left = messages.iter().peekable();
        while left.peek().is_some() {
            let mut batch = Batch::default();
            while let Some(message) = left.peek() {
                let id = self.cluster.unique_id(env.wall_clock_ms());
                let size = Batch::size_of(message, &id);
                if size > self.config.max_message_size {
                    return Err(progress(receipts, too_large(message, size, self.config.max_message_size)));
                }
                if batch.bytes() + size > self.config.max_message_size {
                    break;
                }
                batch.push(message, id)?;
                left.next();
            }
            match self.send_one_batch(batch, &topic, &choice, deadline).await {
                Ok(stored) => receipts.extend(stored),
                Err(error) => return Err(progress(receipts, error)),
            }
        }
        Ok(receipts)
    }

    /// Sends one request's worth of messages.
    pub(super) async fn send_one_batch(
        &self,
        batch: Batch,
        topic: &Arc<str>,
        choice: &Choice,
        deadline: std::time::Instant,
    ) -> Result<Vec<SendReceipt>> {
        let Some((message, ids, id)) = batch.finish(topic) else { return Ok(Vec::new()) };
        let _room = match &self.limits {
            Some(limits) => limits.room(message.body().len(), self.cluster.env(), deadline).await?,
            None => Default::default(),
        };
        let stamp = Stamp { deadline, unique_id: id, ..self.stamp(None) };
        let receipt = match choice {
            Choice::Queue(queue) => self.send_to_queue(queue, &message, &stamp).await?,
            Choice::Broker(broker) => self.send_anywhere(message, stamp, First::Preferred(Arc::clone(broker))).await?,
            _ => self.send_anywhere(message, stamp, First::NotMade).await?,
        };
        Ok(receipt.of_each(&ids))
    }

    /// A choice that leads to one queue, as that queue; so that all parts of a batch go there.
    pub(super) async fn settled(
        &self,
        choice: &Choice,
        first: &Message,
        deadline: std::time::Instant,
    ) -> Result<Choice> {
        Ok(match choice {
            Choice::Turn => Choice::Turn,
            Choice::Queue(_) | Choice::Broker(_) => choice.clone(),
            _ => {
                let (_, targets, place) = self.chosen(choice, first, deadline).await?;
                Choice::Queue(targets.route.write_queues()[place].queue.clone())
            }
        })
    }
}

/// Refuses what cannot be part of a batch.
fn check_element(message: &Message, topic: &Arc<str>) -> Result<()> {
    let why = if message.topic() != &**topic {
        format!("it has messages for `{topic}` and for `{}`, but goes to one queue", message.topic())
    } else if names::is_retry_topic(topic) {
        format!("`{topic}` is a retry topic, whose messages brokers treat one by one")
    } else if message.form() != Form::Plain || message.value(properties::DELAY).is_some() {
        "a message with a delay, or a reply, goes by itself".to_owned()
    } else if message.value(properties::TRANSACTION_PREPARED).is_some() {
        "a message of a transaction goes by itself".to_owned()
    } else {
        return Ok(());
    };
    Err(invalid(format!("the batch cannot be sent: {why}")))
}

fn too_large(message: &Message, size: usize, limit: usize) -> Error {
    Error::new(
        ErrorKind::MessageTooLarge,
        format!(
            "a message for `{}` takes {size} bytes in a batch, {limit} are allowed: send it by itself, or raise \
             `max_message_size` here and `maxMessageSize` on the broker",
            message.topic()
        ),
    )
}

/// The error of a batch of which this much was stored.
fn progress(receipts: Vec<SendReceipt>, cause: Error) -> Error {
    if receipts.is_empty() {
        return cause;
    }
    let message = format!("{} messages of the batch were stored, then: {cause}", receipts.len());
    cause.clone().with_message(message).with_source(BatchProgress { receipts, cause })
}
