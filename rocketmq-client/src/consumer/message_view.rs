//! A message as a handler gets it.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use crate::message::MessageQueue;
use crate::namespace::Namespace;
use bytes::Bytes;
use rocketmq_wire::message::{OffsetMessageId, StoredMessage, properties};

use crate::error::{Error, ErrorKind, Result};

/// The queue that messages were received from.
#[derive(Debug)]
pub(crate) struct Origin {
    pub(crate) queue: MessageQueue,
    /// Whether it belongs to the retry topic of the consumer's own group, so that messages had another topic first.
    pub(crate) is_own_retry_topic: bool,
    /// What the names in stored messages are in.
    pub(crate) namespace: Namespace,
    /// Time that handlers asked for beyond the consume timeout, by offset.
    pub(crate) extensions: Mutex<BTreeMap<i64, Duration>>,
}

impl Origin {
    pub(crate) fn new(queue: MessageQueue, is_own_retry_topic: bool, namespace: Namespace) -> Self {
        Self { queue, is_own_retry_topic, namespace, extensions: Mutex::default() }
    }

    fn extensions(&self) -> MutexGuard<'_, BTreeMap<i64, Duration>> {
        // Insertions and removals cannot panic half way.
        self.extensions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How much more time the handler of a message has.
    pub(crate) fn extension(&self, offset: i64) -> Duration {
        self.extensions().get(&offset).copied().unwrap_or_default()
    }

    /// Forgets the extensions of all messages below an offset.
    pub(crate) fn forget_extensions(&self, below: i64) {
        let mut extensions = self.extensions();
        if !extensions.is_empty() {
            *extensions = extensions.split_off(&below);
        }
    }
}

/// A message received from a broker.
///
/// Cheap to clone and to pass around: it shares the memory of the answer that it came in, and everything but the body
/// is read when it is asked for. Keeping one message keeps the whole answer (up to 32 messages) in memory;
/// [`into_owned`](Self::into_owned) cuts it loose.
///
/// ```
/// # async fn bill(order: &str, body: &[u8]) -> Result<(), std::io::Error> { Ok(()) }
/// async fn handle(message: rocketmq_native::MessageView) -> Result<(), std::io::Error> {
///     let order = message.keys().next().unwrap_or_default();
///     bill(order, &message.body()).await
/// }
/// ```
#[derive(Clone)]
pub struct MessageView {
    stored: StoredMessage,
    /// The body after decompression, where it was compressed.
    inflated: Option<Bytes>,
    origin: Arc<Origin>,
    /// Deliveries that the broker does not know of, because it could not be told of their failure.
    local_retries: u32,
    /// When a handler got it, in milliseconds since 1970.
    consume_start_ms: Option<i64>,
}

impl MessageView {
    pub(crate) fn new(stored: StoredMessage, origin: Arc<Origin>) -> Self {
        Self { stored, inflated: None, origin, local_retries: 0, consume_start_ms: None }
    }

    /// A message that did not come out of a queue of the consumer's.
    pub(crate) fn of(stored: StoredMessage, broker: &str, namespace: &Namespace) -> Self {
        let queue = MessageQueue::new(&*namespace.unwrap(stored.topic()), broker, stored.queue_id());
        Self::new(stored, Arc::new(Origin::new(queue, false, namespace.clone())))
    }

    /// A copy for a handler: its body is plain, and it knows since when it is being consumed.
    ///
    /// # Errors
    ///
    /// As [`inflate`](Self::inflate).
    pub(crate) fn plain(&self, limit: usize, now_ms: i64) -> Result<Self> {
        let mut plain = self.clone();
        plain.consume_start_ms = Some(now_ms);
        plain.inflate(limit)?;
        Ok(plain)
    }

    /// Makes the body plain if it is compressed.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Protocol`] when the body is damaged, larger than `limit` bytes, or packed in a way that this build
    /// does not know.
    pub(crate) fn inflate(&mut self, limit: usize) -> Result<()> {
        if rocketmq_wire::message::sys_flag::is_compressed(self.stored.sys_flag()) && self.inflated.is_none() {
            let body = self.stored.decompressed_body(limit).map_err(|error| {
                Error::new(ErrorKind::Protocol, format!("the body of message {} cannot be read", self.message_id()))
                    .with_operation("consume")
                    .with_source(error)
            })?;
            self.inflated = Some(body);
        }
        Ok(())
    }

    pub(crate) fn count_local_retry(&mut self) {
        self.local_retries = self.local_retries.saturating_add(1);
    }

    pub(crate) fn stored(&self) -> &StoredMessage {
        &self.stored
    }

    /// The topic the message was sent to. For a message that comes again, too: not the group's retry topic, through
    /// which it came.
    pub fn topic(&self) -> &str {
        let original = self.origin.is_own_retry_topic.then(|| self.stored.property(properties::RETRY_TOPIC)).flatten();
        original.map_or(self.origin.queue.topic(), |topic| self.origin.namespace.plain(topic))
    }

    /// The body; plain, whether or not it travelled compressed. Shares memory, copies nothing.
    pub fn body(&self) -> Bytes {
        self.inflated.clone().unwrap_or_else(|| self.stored.body())
    }

    /// The tag, if the message has one.
    pub fn tag(&self) -> Option<&str> {
        self.stored.tags()
    }

    /// The keys that the message can be found by.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.stored.keys()
    }

    /// The value of one property: the sender's, or one of RocketMQ's own.
    pub fn property(&self, name: &str) -> Option<&str> {
        self.stored.property(name)
    }

    /// All properties, RocketMQ's own included, in the order in which they were stored.
    pub fn properties(&self) -> impl Iterator<Item = (&str, &str)> {
        self.stored.properties().iter()
    }

    /// The id that the producer gave the message, which stays the same when it is sent or delivered again; the
    /// [`offset_message_id`](Self::offset_message_id) of a message without one.
    pub fn message_id(&self) -> Cow<'_, str> {
        match self.stored.unique_id() {
            Some(id) => Cow::Borrowed(id),
            None => Cow::Owned(self.stored.offset_message_id().to_string()),
        }
    }

    /// The id that names the stored record by broker and position; another one each time the message is delivered.
    pub fn offset_message_id(&self) -> OffsetMessageId {
        self.stored.offset_message_id()
    }

    /// The name of the broker that delivered the message.
    pub fn broker_name(&self) -> &str {
        self.origin.queue.broker()
    }

    /// The queue that delivered the message; one of the retry topic if it comes again.
    pub fn queue_id(&self) -> i32 {
        self.origin.queue.id()
    }

    /// The position in that queue.
    pub fn queue_offset(&self) -> i64 {
        self.stored.queue_offset()
    }

    /// How often the message was delivered before and not consumed. 0 the first time.
    pub fn reconsume_times(&self) -> u32 {
        u32::try_from(self.stored.reconsume_times()).unwrap_or(0).saturating_add(self.local_retries)
    }

    /// When this delivery of the message began, by this machine's clock; `None` before a handler has it.
    pub fn consume_start_time(&self) -> Option<SystemTime> {
        self.consume_start_ms.map(time)
    }

    /// The queue that delivered the message; one of the retry topic if it comes again.
    pub fn queue(&self) -> &MessageQueue {
        &self.origin.queue
    }

    /// When the producer made the message, by the producer's clock.
    pub fn born_time(&self) -> SystemTime {
        time(self.stored.born_timestamp())
    }

    /// When the broker stored the message, by the broker's clock.
    pub fn store_time(&self) -> SystemTime {
        time(self.stored.store_timestamp())
    }

    /// The address that the producer sent from.
    pub fn born_host(&self) -> SocketAddr {
        self.stored.born_host()
    }

    /// The address of the broker that stored the message.
    pub fn store_host(&self) -> SocketAddr {
        self.stored.store_host()
    }

    /// The flag that the producer set; 0 unless it did.
    pub fn flag(&self) -> i32 {
        self.stored.flag()
    }

    /// Gives the handler of this delivery so much more time than the
    /// [consume timeout](crate::PushConsumerBuilder::consume_timeout) before the message counts as given up and is
    /// delivered again. Calls add up.
    pub fn extend(&self, more: Duration) {
        let mut extensions = self.origin.extensions();
        let extension = extensions.entry(self.queue_offset()).or_default();
        *extension = extension.saturating_add(more);
    }

    /// The same message in memory of its own, so that keeping it keeps nothing else.
    #[must_use]
    pub fn into_owned(self) -> Self {
        Self { stored: self.stored.into_owned(), ..self }
    }
}

fn time(milliseconds: i64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_millis(u64::try_from(milliseconds).unwrap_or(0))
}

impl fmt::Debug for MessageView {
    /// Everything that names the message, and never its body.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MessageView")
            .field("topic", &self.topic())
            .field("message_id", &self.message_id())
            .field("broker_name", &self.broker_name())
            .field("queue_id", &self.queue_id())
            .field("queue_offset", &self.queue_offset())
            .field("reconsume_times", &self.reconsume_times())
            .field("body_bytes", &self.body().len())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use rocketmq_wire::message::Record;

    use super::*;

    fn view(properties: &[u8], is_own_retry_topic: bool) -> MessageView {
        let host = "10.0.0.1:10911".parse().expect("an address");
        let record = Record {
            version: Default::default(),
            queue_id: 9,
            flag: 7,
            queue_offset: 42,
            physical_offset: 4242,
            sys_flag: 0,
            born_timestamp: 1_700_000_000_123,
            born_host: host,
            store_timestamp: -1,
            store_host: host,
            reconsume_times: 2,
            prepared_transaction_offset: 0,
            body: b"a\0b",
            topic: "%RETRY%g",
            properties,
        };
        let mut bytes = vec![0; record.encoded_len().expect("small") + 10];
        let size = record.encode(&mut bytes).expect("there is room");
        let (stored, _) = StoredMessage::parse(Bytes::from(bytes).slice(..size)).expect("a record");
        let origin =
            Origin::new(MessageQueue::new("%RETRY%g", "broker-a", 3), is_own_retry_topic, Namespace::default());
        MessageView::new(stored, Arc::new(origin))
    }

    const PROPERTIES: &[u8] =
        b"RETRY_TOPIC\x01orders\x02KEYS\x01a  b\x02TAGS\x01paid\x02UNIQ_KEY\x01ABC\x02own\x01x\x02";

    #[test]
    fn everything_is_read_from_the_record() {
        let message = view(PROPERTIES, true);
        assert_eq!((message.topic(), message.tag(), &*message.message_id()), ("orders", Some("paid"), "ABC"));
        assert_eq!(message.keys().collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!((message.property("own"), message.property("none")), (Some("x"), None));
        assert_eq!(message.properties().count(), 5);
        assert_eq!((message.broker_name(), message.queue_id(), message.queue_offset()), ("broker-a", 3, 42));
        assert_eq!((message.reconsume_times(), message.flag(), &message.body()[..]), (2, 7, &b"a\0b"[..]));
        let born = SystemTime::UNIX_EPOCH + Duration::from_millis(1_700_000_000_123);
        assert_eq!((message.born_time(), message.store_time()), (born, SystemTime::UNIX_EPOCH));
        let text = format!("{message:?}");
        assert!(text.contains("orders") && !text.contains("a\\0b"), "{text}");
    }

    #[test]
    fn a_message_without_an_id_is_named_by_its_place() {
        let message = view(b"", true);
        assert_eq!((&*message.message_id(), message.topic()), ("0A00000100002A9F0000000000001092", "%RETRY%g"));
        assert_eq!(message.keys().count(), 0);
    }

    #[test]
    fn the_topic_is_restored_in_the_groups_own_retry_topic_only() {
        assert_eq!(view(PROPERTIES, false).topic(), "%RETRY%g");
    }

    #[test]
    fn an_owned_message_shares_nothing() {
        let message = view(PROPERTIES, true);
        let owned = message.clone().into_owned();
        assert_ne!(owned.body().as_ptr(), message.body().as_ptr());
        assert_eq!((owned.body(), owned.topic()), (message.body(), message.topic()));
    }
}
