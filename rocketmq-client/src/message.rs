//! Messages to send, and the queues they go to.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use rocketmq_wire::message::{id, names, properties};

use crate::error::{Error, ErrorKind, Result};

/// The most bytes a broker takes for the properties of one message, names, values and separators counted.
pub const MAX_PROPERTIES_LENGTH: usize = i16::MAX as usize;

/// A message to be sent: a topic, a body, and what is said about it.
///
/// The setters take what they are given and complain later: the first thing that is wrong makes the send fail, before
/// anything leaves the process. Clones share topic and body.
///
/// ```
/// use rocketmq_native::Message;
///
/// let message = Message::new("orders", "two books")
///     .tag("created")
///     .key("order-42")
///     .property("region", "eu");
/// assert_eq!(message.topic(), "orders");
/// assert_eq!(message.value("KEYS"), Some("order-42"));
/// ```
#[derive(Clone)]
pub struct Message {
    topic: Arc<str>,
    body: Bytes,
    /// As on the wire: `name 0x01 value 0x02`, repeated, each name once.
    properties: String,
    flag: i32,
    /// What the broker and the consumer are told of the body and the transaction.
    sys_flag: i16,
    form: Form,
    /// The first thing that a setter could not take.
    refusal: Option<Error>,
}

/// How a message travels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Form {
    /// By itself.
    #[default]
    Plain,
    /// To the client that asked.
    Reply,
    /// To be delivered at a time of its own.
    Timed,
    /// With others in one request.
    Batch,
}

impl Message {
    /// A message for a topic.
    ///
    /// The body is anything that turns into [`Bytes`]: `&'static str`, `String`, `Vec<u8>`, `Bytes`. It is not copied
    /// on its way to the socket unless it is small. Giving the topic as `Arc<str>` saves an allocation per message.
    pub fn new(topic: impl Into<Arc<str>>, body: impl Into<Bytes>) -> Self {
        Self {
            topic: topic.into(),
            body: body.into(),
            properties: String::new(),
            flag: 0,
            sys_flag: 0,
            form: Form::Plain,
            refusal: None,
        }
    }

    /// Sets the tag, by which consumers choose; a message has at most one. An empty tag takes it away.
    #[must_use]
    pub fn tag(self, tag: impl AsRef<str>) -> Self {
        self.set(properties::TAGS, "the tag", tag.as_ref())
    }

    /// Adds a key, by which the message can be found at the broker.
    ///
    /// Keys must not hold blanks, which separate them on the wire.
    #[must_use]
    pub fn key(mut self, key: impl AsRef<str>) -> Self {
        let key = key.as_ref();
        if key.is_empty() || key.contains(char::is_whitespace) {
            return self.refuse(format!("the key {key:?} is empty or holds a blank: call `key` once per key"));
        }
        match self.value(properties::KEYS) {
            None => self.set(properties::KEYS, "a key", key),
            Some(keys) => {
                let keys = [keys, " ", key].concat();
                self.remove(properties::KEYS);
                self.set(properties::KEYS, "a key", &keys)
            }
        }
    }

    /// Adds several keys; see [`key`](Self::key).
    #[must_use]
    pub fn keys<K: AsRef<str>>(self, keys: impl IntoIterator<Item = K>) -> Self {
        keys.into_iter().fold(self, |message, key| message.key(key))
    }

    /// Asks the broker to hold the message back for the time of one of its delay levels.
    ///
    /// Brokers count levels from 1; the usual ones are 1 s, 5 s, 10 s, 30 s, 1 to 10 min, 20 min, 30 min, 1 h and 2 h
    /// for levels 1 to 18. Levels above the broker's last mean its last; 0 means no delay.
    #[must_use]
    pub fn delay_level(mut self, level: u32) -> Self {
        self.take_timer();
        if level == 0 {
            self.remove(properties::DELAY);
            return self;
        }
        self.set(properties::DELAY, "the delay level", &level.to_string())
    }

    /// Asks the broker to deliver the message after a time, counted from when it has it.
    ///
    /// Brokers since 5.0 keep to it to the second, up to 3 days unless configured otherwise. For brokers before, the
    /// smallest of their delay levels is taken that is not shorter, up to 2 h; the receipt
    /// [tells](crate::SendReceipt::delay) which. Of all ways to delay a message the one that was called last counts.
    #[must_use]
    pub fn deliver_after(self, delay: Duration) -> Self {
        match i64::try_from(delay.as_nanos().div_ceil(1_000_000)) {
            Ok(0) => self.delay_level(0),
            Ok(ms) => self.timed(properties::TIMER_DELAY_MS, ms),
            Err(_) => self.refuse(format!("a delay of {delay:?} is longer than any broker lives")),
        }
    }

    /// Asks the broker to deliver the message at a time, or at once when that is past. As
    /// [`deliver_after`](Self::deliver_after); the clocks of this machine and the broker's should agree.
    #[must_use]
    pub fn deliver_at(self, time: SystemTime) -> Self {
        let since_1970 = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        match i64::try_from(since_1970.as_millis()) {
            Ok(ms) => self.timed(properties::TIMER_DELIVER_MS, ms.max(1)),
            Err(_) => self.refuse("the time of delivery is later than any broker lives".to_owned()),
        }
    }

    fn timed(mut self, name: &'static str, ms: i64) -> Self {
        self = self.delay_level(0);
        self.set_own_property(name, &ms.to_string());
        self.form = Form::Timed;
        self
    }

    /// Takes away the time of delivery: the name of its property, and milliseconds.
    pub(crate) fn take_timer(&mut self) -> Option<(&'static str, i64)> {
        let timer = [properties::TIMER_DELAY_MS, properties::TIMER_DELIVER_MS]
            .into_iter()
            .find_map(|name| Some((name, self.value(name)?.parse().ok()?)))?;
        self.remove(timer.0);
        self.form = Form::Plain;
        Some(timer)
    }

    /// Sets a property of the application's own, visible to consumers and to SQL92 filters.
    ///
    /// Neither name nor value may be blank, as no reader would see it; the names that RocketMQ uses itself are refused.
    #[must_use]
    pub fn property(self, name: impl AsRef<str>, value: impl AsRef<str>) -> Self {
        let (name, value) = (name.as_ref(), value.as_ref());
        if properties::is_reserved(name) {
            return self.refuse(format!(
                "the property name `{name}` belongs to RocketMQ: choose another, or use the setter made for it"
            ));
        }
        if name.trim().is_empty() || value.trim().is_empty() {
            return self
                .refuse(format!("the property {name:?} has a blank name or value, which no consumer would see"));
        }
        if let Err(error) = properties::check_text("a property name", name) {
            return self.refuse(error.to_string());
        }
        self.set(name, "a property value", value)
    }

    /// Sets the flag, a number that brokers keep without looking at it. 0 by default.
    #[must_use]
    pub fn flag(mut self, flag: i32) -> Self {
        self.flag = flag;
        self
    }

    /// The topic.
    pub fn topic(&self) -> &str {
        &self.topic
    }

    /// The body.
    pub fn body(&self) -> &Bytes {
        &self.body
    }

    /// The value of a property, be it the application's or one that a setter made, such as `TAGS`.
    pub fn value(&self, name: &str) -> Option<&str> {
        properties::Properties::from(self.properties.as_str()).value(name)
    }

    pub(crate) fn shared_topic(&self) -> &Arc<str> {
        &self.topic
    }

    pub(crate) fn user_flag(&self) -> i32 {
        self.flag
    }

    /// The system flag, see [`rocketmq_wire::message::sys_flag`].
    pub(crate) fn sys_flag(&self) -> i32 {
        self.sys_flag.into()
    }

    /// Adds bits to the system flag.
    pub(crate) fn add_sys_flag(&mut self, bits: i32) {
        // All bits that are defined fit.
        self.sys_flag |= bits as i16;
    }

    pub(crate) fn form(&self) -> Form {
        self.form
    }

    pub(crate) fn set_form(&mut self, form: Form) {
        self.form = form;
    }

    /// Replaces the body by a compressed one, which these bits of the system flag describe.
    pub(crate) fn set_compressed(&mut self, body: Bytes, bits: i32) {
        self.body = body;
        self.add_sys_flag(bits);
    }

    /// Sets a property that belongs to RocketMQ to a value that holds no separator.
    pub(crate) fn set_own_property(&mut self, name: &str, value: &str) {
        debug_assert!(properties::check_text("a property", value).is_ok() && !value.is_empty());
        self.remove(name);
        self.append(name, value);
    }

    /// The properties as they go on the wire.
    pub(crate) fn encoded_properties(&self) -> &str {
        &self.properties
    }

    /// The properties as they go on the wire, with the id that stays the same over all attempts to send the message.
    pub(crate) fn properties_with_id(&self, unique_id: &str) -> String {
        with_id(&self.properties, unique_id)
    }

    /// Refuses what a broker would refuse, and what would arrive as something else than was meant.
    ///
    /// The name of the topic is not looked at: whoever looks up its route does.
    pub(crate) fn check(&self, max_body_length: usize) -> Result<()> {
        if let Some(refusal) = &self.refusal {
            return Err(refusal.clone());
        }
        if self.body.is_empty() {
            return Err(invalid(format!("the message for `{}` has an empty body: brokers refuse it", self.topic)));
        }
        if self.body.len() > max_body_length {
            return Err(Error::new(
                ErrorKind::MessageTooLarge,
                format!(
                    "the message for `{}` has a body of {} bytes, {max_body_length} are allowed: send less, or raise \
                     `max_message_size` here and `maxMessageSize` on the broker",
                    self.topic,
                    self.body.len()
                ),
            ));
        }
        let properties_length = self.properties.len() + properties::UNIQUE_ID.len() + 2 + id::LENGTH_V6;
        if properties_length > MAX_PROPERTIES_LENGTH {
            return Err(Error::new(
                ErrorKind::MessageTooLarge,
                format!(
                    "the message for `{}` has {properties_length} bytes of properties, {MAX_PROPERTIES_LENGTH} are \
                     allowed: move some into the body",
                    self.topic
                ),
            ));
        }
        Ok(())
    }

    fn set(mut self, name: &str, what: &'static str, value: &str) -> Self {
        if let Err(error) = properties::check_text(what, value) {
            return self.refuse(error.to_string());
        }
        self.remove(name);
        if !value.is_empty() {
            self.append(name, value);
        }
        self
    }

    fn append(&mut self, name: &str, value: &str) {
        // With the first property comes room for the unique id, so that the string is allocated once.
        if self.properties.capacity() == 0 {
            self.properties.reserve(name.len() + value.len() + 64);
        }
        self.properties.push_str(name);
        self.properties.push(properties::NAME_VALUE_SEPARATOR);
        self.properties.push_str(value);
        self.properties.push(properties::PROPERTY_SEPARATOR);
    }

    fn remove(&mut self, name: &str) {
        let mut start = 0;
        for property in self.properties.split_inclusive(properties::PROPERTY_SEPARATOR) {
            if property.strip_prefix(name).is_some_and(|rest| rest.starts_with(properties::NAME_VALUE_SEPARATOR)) {
                let end = start + property.len();
                self.properties.replace_range(start..end, "");
                return;
            }
            start += property.len();
        }
    }

    fn refuse(mut self, why: String) -> Self {
        self.refusal.get_or_insert_with(|| invalid(why));
        self
    }
}

/// Encoded properties with the unique id as one more.
pub(crate) fn with_id(encoded: &str, unique_id: &str) -> String {
    let separators = [properties::NAME_VALUE_SEPARATOR, properties::PROPERTY_SEPARATOR].map(String::from);
    [encoded, properties::UNIQUE_ID, &separators[0], unique_id, &separators[1]].concat()
}

/// Shows the length of the body, never the body.
impl fmt::Debug for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Message")
            .field("topic", &self.topic)
            .field("body_length", &self.body.len())
            .field("properties", &properties::Properties::from(self.properties.as_str()).to_map())
            .field("flag", &self.flag)
            .finish()
    }
}

/// Checks the name of a topic that is to be sent to.
pub(crate) fn check_topic_for_sending(topic: &str) -> Result<()> {
    names::check_topic(topic).map_err(|error| invalid(format!("the topic {topic:?} cannot be used: {error}")))?;
    if !names::is_sendable(topic) {
        return Err(invalid(format!("the topic `{topic}` belongs to the broker: clients must not send to it")));
    }
    Ok(())
}

/// Checks the name of a producer or consumer group.
pub(crate) fn check_group(group: &str) -> Result<()> {
    const REFUSED: [&str; 2] = ["DEFAULT_PRODUCER", "DEFAULT_CONSUMER"];
    names::check_group(group).map_err(|error| invalid(format!("the group {group:?} cannot be used: {error}")))?;
    if REFUSED.contains(&group) {
        return Err(invalid(format!(
            "the group `{group}` is a placeholder of other clients: choose a name of your own"
        )));
    }
    Ok(())
}

pub(crate) fn invalid(message: impl Into<Cow<'static, str>>) -> Error {
    Error::new(ErrorKind::InvalidArgument, message)
}

/// One queue of a topic on one broker. Clones share the names.
///
/// Ordered by topic, broker name and number, which is the order in which queues are allocated to consumers.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MessageQueue {
    names: Arc<Names>,
    id: i32,
}

/// Shared as one: every receipt has them.
#[derive(Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Names {
    topic: Arc<str>,
    broker: Arc<str>,
}

impl MessageQueue {
    /// The queue `id` of a topic on the broker of that name.
    pub fn new(topic: impl Into<Arc<str>>, broker: impl Into<Arc<str>>, id: i32) -> Self {
        Self { names: Arc::new(Names { topic: topic.into(), broker: broker.into() }), id }
    }

    /// The topic.
    pub fn topic(&self) -> &str {
        &self.names.topic
    }

    /// The broker's name.
    pub fn broker(&self) -> &str {
        &self.names.broker
    }

    /// Another queue of the same topic and broker.
    pub(crate) fn sibling(&self, id: i32) -> Self {
        Self { names: Arc::clone(&self.names), id }
    }

    /// The queue's number on that broker, from 0.
    pub fn id(&self) -> i32 {
        self.id
    }

    pub(crate) fn shared_broker(&self) -> &Arc<str> {
        &self.names.broker
    }
}

impl fmt::Display for MessageQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.names.topic, self.names.broker, self.id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: usize = 4 * 1024 * 1024;

    fn kind(message: &Message) -> Option<ErrorKind> {
        message.check(LIMIT).err().map(|error| error.kind())
    }

    #[test]
    fn bodies_of_all_kinds() {
        let owned = Message::new(String::from("t"), vec![0, 1, 0]);
        assert_eq!(&owned.body()[..], [0, 1, 0]);
        assert_eq!(&Message::new("t", "text").body()[..], b"text");
        assert_eq!(&Message::new("t", Bytes::from_static(b"b")).body()[..], b"b");
        assert_eq!(kind(&owned), None);
    }

    #[test]
    fn properties_are_kept_as_they_go_on_the_wire() {
        let message = Message::new("t", "b")
            .tag("old")
            .key("a")
            .property("größe", "4 €")
            .keys(["b", "c"])
            .tag("new")
            .delay_level(3)
            .property("größe", "5");
        assert_eq!(kind(&message), None);
        assert_eq!(
            message.properties_with_id("ID"),
            "KEYS\u{1}a b c\u{2}TAGS\u{1}new\u{2}DELAY\u{1}3\u{2}größe\u{1}5\u{2}UNIQ_KEY\u{1}ID\u{2}"
        );
        let bare = message.tag("").delay_level(0);
        assert_eq!((bare.value("TAGS"), bare.value("DELAY")), (None, None));
    }

    #[test]
    fn what_would_arrive_as_something_else_is_refused() {
        let message = || Message::new("t", "b");
        for refused in [
            message().tag("a\u{1}b"),
            message().key("a\u{2}"),
            message().key("two words"),
            message().key(""),
            message().property("a\u{1}", "v"),
            message().property("a", "v\u{2}"),
            message().property("", "v"),
            message().property("a", " "),
            message().property("UNIQ_KEY", "v"),
            message().property("TAGS", "v"),
            Message::new("t", ""),
        ] {
            assert_eq!(kind(&refused), Some(ErrorKind::InvalidArgument), "{refused:?}");
        }
        let first = message().key("").tag("\u{1}").check(LIMIT).expect_err("two things are wrong");
        assert!(first.to_string().contains("once per key"), "{first}");
    }

    #[test]
    fn sizes_are_bounded() {
        assert_eq!(kind(&Message::new("t", vec![0; LIMIT])), None);
        assert_eq!(kind(&Message::new("t", vec![0; LIMIT + 1])), Some(ErrorKind::MessageTooLarge));
        let properties = |length| Message::new("t", "b").property("p", "x".repeat(length));
        let most = MAX_PROPERTIES_LENGTH - "p".len() - 2 - "UNIQ_KEY".len() - 2 - id::LENGTH_V6;
        assert_eq!(kind(&properties(most)), None);
        assert_eq!(kind(&properties(most + 1)), Some(ErrorKind::MessageTooLarge));
    }

    #[test]
    fn names_are_checked() {
        for topic in ["orders", "%RETRY%g", "TBW102", &"x".repeat(127)] {
            assert!(check_topic_for_sending(topic).is_ok(), "{topic}");
        }
        for topic in ["", "a b", "a.b", "ä", "SCHEDULE_TOPIC_XXXX", "RMQ_SYS_TRANS_HALF_TOPIC", &"x".repeat(128)] {
            let error = check_topic_for_sending(topic).expect_err("refused");
            assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{topic}");
        }
        assert!(check_group("orders-service").is_ok());
        assert!(check_group("a/b").is_err());
        assert!(check_group("DEFAULT_PRODUCER").is_err());
    }

    #[test]
    fn queues_sort_by_topic_then_broker_then_number() {
        let mut queues = [("b", "a", 0), ("a", "b", 1), ("a", "a", 10), ("a", "a", 9)]
            .map(|(topic, broker, id)| MessageQueue::new(topic, broker, id));
        queues.sort();
        assert_eq!(queues.map(|queue| queue.to_string()), ["a:a:9", "a:a:10", "a:b:1", "b:a:0"]);
    }

    #[test]
    fn debug_hides_the_body() {
        let shown = format!("{:?}", Message::new("t", "secret").tag("x"));
        assert!(!shown.contains("secret") && shown.contains("body_length: 6"), "{shown}");
    }
}
