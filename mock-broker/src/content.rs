//! What a broker holds, as values that Rust, the command line and the control API share.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use bytes::Bytes;
use rocketmq_wire::message::{Compression, RecordView, properties};
use serde::{Deserialize, Serialize};

/// A message, decoded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MessageView {
    /// Its topic; of one that waits for a time or an outcome, the topic that it is for.
    pub topic: String,
    /// Its queue.
    pub queue: i32,
    /// Its offset in the queue.
    pub offset: i64,
    /// The id that brokers know it by.
    pub message_id: String,
    /// The id that clients gave it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unique_id: Option<String>,
    /// Its tag.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tag: Option<String>,
    /// Its keys.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub keys: Vec<String>,
    /// Its body, uncompressed if it could be. In JSON text, or base64 in an object if it is no text.
    #[serde(with = "body")]
    pub body: Bytes,
    /// Its properties, those of the system included.
    pub properties: BTreeMap<String, String>,
    /// When the client made it, in milliseconds since 1970.
    pub born_ms: i64,
    /// When the broker stored it, in milliseconds since 1970.
    pub stored_ms: i64,
    /// Where the client was.
    pub born_host: SocketAddr,
    /// How often it was handed back.
    pub reconsume_times: i32,
    /// Bits of the system: compression, transaction.
    pub sys_flag: i32,
    /// The flag that applications may set.
    pub flag: i32,
    /// Where it lies in the log.
    pub physical_offset: i64,
    /// Of one that waits, when it is due in milliseconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub due_ms: Option<i64>,
}

/// Bodies are uncompressed up to this length.
const LONGEST_BODY: usize = 16 << 20;

impl MessageView {
    pub(crate) fn new(record: &RecordView<'_>) -> Self {
        let properties = record.properties().to_map();
        let stored = Bytes::copy_from_slice(record.body());
        let body = match Compression::from_sys_flag(record.sys_flag()).ok().flatten() {
            Some(compression) => compression.decompress(&stored, LONGEST_BODY).map_or(stored, Bytes::from),
            None => stored,
        };
        let keys = properties.get(properties::KEYS).map(|keys| keys.split_whitespace().map(str::to_owned).collect());
        MessageView {
            topic: record.topic().to_owned(),
            queue: record.queue_id(),
            offset: record.queue_offset(),
            message_id: record.offset_message_id().to_string(),
            unique_id: properties.get(properties::UNIQUE_ID).cloned(),
            tag: properties.get(properties::TAGS).cloned(),
            keys: keys.unwrap_or_default(),
            body,
            born_ms: record.born_timestamp(),
            stored_ms: record.store_timestamp(),
            born_host: record.born_host(),
            reconsume_times: record.reconsume_times(),
            sys_flag: record.sys_flag(),
            flag: record.flag(),
            physical_offset: record.physical_offset(),
            due_ms: None,
            properties,
        }
    }

    /// One that waits in a topic of the system, under the topic that it is for.
    pub(crate) fn waiting(record: &RecordView<'_>, due_ms: Option<i64>) -> Self {
        let mut view = Self::new(record);
        if let Some(topic) = view.properties.get(properties::REAL_TOPIC) {
            view.topic.clone_from(topic);
        }
        if let Some(queue) = view.properties.get(properties::REAL_QUEUE_ID).and_then(|id| id.parse().ok()) {
            view.queue = queue;
        }
        view.due_ms = due_ms;
        view
    }

    /// The body as text, with a mark for what is no text.
    #[must_use]
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

/// A message to be put without a client.
///
/// ```
/// use rocketmq_mock_broker::Outgoing;
///
/// let message = Outgoing::new("orders", "hi").tag("created").key("42").property("trace", "7").delay_level(3);
/// let json = r#"{"topic":"orders","body":"hi","tag":"created","keys":["42"],"properties":{"trace":"7"},"delay_level":3}"#;
/// assert_eq!(serde_json::from_str::<Outgoing>(json).unwrap(), message);
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Outgoing {
    /// The topic; it is created if the broker creates topics.
    pub topic: String,
    /// The queue. Default one of the broker's choice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<i32>,
    /// The body.
    #[serde(with = "body")]
    pub body: Bytes,
    /// The tag.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tag: Option<String>,
    /// The keys.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub keys: Vec<String>,
    /// Other properties.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub properties: BTreeMap<String, String>,
    /// The delay level. Default none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay_level: Option<u32>,
    /// When it is to be delivered, in milliseconds since 1970, on brokers 5.x. Default at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deliver_at_ms: Option<i64>,
    /// The flag that applications may set.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub flag: i32,
}

fn is_zero(number: &i32) -> bool {
    *number == 0
}

impl Outgoing {
    /// A message with a topic and a body.
    #[must_use]
    pub fn new(topic: impl Into<String>, body: impl Into<Bytes>) -> Self {
        Outgoing { topic: topic.into(), body: body.into(), ..Self::default() }
    }

    /// Sets the tag.
    #[must_use]
    pub fn tag(mut self, tag: impl Into<String>) -> Self {
        self.tag = Some(tag.into());
        self
    }

    /// Adds a key.
    #[must_use]
    pub fn key(mut self, key: impl Into<String>) -> Self {
        self.keys.push(key.into());
        self
    }

    /// Sets a property.
    #[must_use]
    pub fn property(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.properties.insert(name.into(), value.into());
        self
    }

    /// Sets the queue.
    #[must_use]
    pub fn queue(mut self, queue: i32) -> Self {
        self.queue = Some(queue);
        self
    }

    /// Sets the delay level.
    #[must_use]
    pub fn delay_level(mut self, level: u32) -> Self {
        self.delay_level = Some(level);
        self
    }

    /// Sets when it is to be delivered.
    #[must_use]
    pub fn deliver_at_ms(mut self, at_ms: i64) -> Self {
        self.deliver_at_ms = Some(at_ms);
        self
    }

    /// All properties in the form in which they are stored.
    ///
    /// # Errors
    ///
    /// Names and values with the separators of that form.
    pub(crate) fn encoded_properties(&self) -> Result<String, String> {
        let mut all: BTreeMap<&str, String> =
            self.properties.iter().map(|(name, value)| (name.as_str(), value.clone())).collect();
        if let Some(tag) = &self.tag {
            all.insert(properties::TAGS, tag.clone());
        }
        if !self.keys.is_empty() {
            all.insert(properties::KEYS, self.keys.join(" "));
        }
        if let Some(level) = self.delay_level {
            all.insert(properties::DELAY, level.to_string());
        }
        if let Some(at_ms) = self.deliver_at_ms {
            all.insert(properties::TIMER_DELIVER_MS, at_ms.to_string());
        }
        properties::encode(all.iter().map(|(name, value)| (*name, value.as_str()))).map_err(|error| error.to_string())
    }
}

/// A topic and what is in it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TopicView {
    /// Its name.
    pub topic: String,
    /// Whether the broker made it for itself.
    pub is_system: bool,
    /// Its permission: 2 to write, 4 to read, 6 both.
    pub perm: i32,
    /// Queues that can be read.
    pub read_queues: i32,
    /// Queues that can be written.
    pub write_queues: i32,
    /// How many messages can be read.
    pub messages: u64,
    /// The queues with messages.
    pub queues: Vec<QueueView>,
}

/// A queue and where it begins and ends.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueueView {
    /// Its number.
    pub queue: i32,
    /// The offset of the oldest message.
    pub min: u64,
    /// The offset of the next message.
    pub max: u64,
}

/// A consumer group: who is in it and how far it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupView {
    /// Its name.
    pub group: String,
    /// `CLUSTERING` or `BROADCASTING`, as its members say; empty while nobody is online.
    pub model: String,
    /// Who is online.
    pub members: Vec<MemberView>,
    /// What its members subscribe to: expressions by topic.
    pub subscriptions: BTreeMap<String, String>,
    /// How far it is, queue by queue.
    pub queues: Vec<ProgressView>,
    /// How many messages it has not consumed.
    pub lag: i64,
}

/// A client that is online.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemberView {
    /// Its id.
    pub client: String,
    /// Where it is.
    pub address: SocketAddr,
    /// Its language.
    pub language: String,
    /// Its version, as a number of the protocol.
    pub version: i32,
    /// Its connection's number.
    pub connection: u64,
}

/// How far a group is in a queue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProgressView {
    /// The topic.
    pub topic: String,
    /// The queue.
    pub queue: i32,
    /// The offset that is committed; -1 if none is.
    pub committed: i64,
    /// The offset of the next message to be stored.
    pub max: i64,
    /// How many messages lie between.
    pub lag: i64,
    /// The member that reads the queue, as far as a pull that waits, or a lock, tells.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
}

/// What the broker's clock shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClockView {
    /// Message time in milliseconds since 1970.
    pub message_ms: i64,
    /// Session time in milliseconds since the broker was started.
    pub session_ms: u64,
    /// Whether message time stands still until it is turned.
    pub manual: bool,
    /// Whether message time skips to the next event whenever there is nothing to do.
    pub skipping: bool,
    /// When the next message or check is due, in milliseconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_due_ms: Option<i64>,
}

/// Bodies in JSON: text where they are text, else an object with their base64.
pub(crate) mod body {
    use base64::Engine;
    use base64::prelude::BASE64_STANDARD;
    use bytes::Bytes;
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    #[derive(Serialize, Deserialize)]
    #[serde(untagged)]
    enum Form<'a> {
        Text(std::borrow::Cow<'a, str>),
        Bytes { base64: String },
    }

    pub(crate) fn serialize<S: Serializer>(body: &Bytes, serializer: S) -> Result<S::Ok, S::Error> {
        match std::str::from_utf8(body) {
            Ok(text) => Form::Text(text.into()),
            Err(_) => Form::Bytes { base64: BASE64_STANDARD.encode(body) },
        }
        .serialize(serializer)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Bytes, D::Error> {
        match Form::deserialize(deserializer)? {
            Form::Text(text) => Ok(text.into_owned().into()),
            Form::Bytes { base64 } => BASE64_STANDARD.decode(base64).map(Bytes::from).map_err(D::Error::custom),
        }
    }
}
