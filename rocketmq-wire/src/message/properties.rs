//! The property string of a message: `name 0x01 value 0x02`, repeated.
//!
//! The last 0x02 may be missing: Apache 4.9.1 to 5.1.4 leave it out. Readers take both forms. Nothing escapes the two
//! separators, so names and values that hold one are refused when written.

use std::collections::BTreeMap;

use crate::error::EncodeError;

/// Stands between a name and its value.
pub const NAME_VALUE_SEPARATOR: char = '\u{1}';
/// Stands behind a value.
pub const PROPERTY_SEPARATOR: char = '\u{2}';
/// Stands between the keys in the value of [`KEYS`].
pub const KEY_SEPARATOR: char = ' ';

macro_rules! names {
    ($($(#[$doc:meta])* $name:ident = $text:literal;)*) => {
        $($(#[$doc])* pub const $name: &str = $text;)*
    };
}

names! {
    /// Index keys, separated by blanks.
    KEYS = "KEYS";
    /// The tag.
    TAGS = "TAGS";
    /// `true` or `false`: whether the answer waits until the message is stored safely. Missing means true.
    WAIT = "WAIT";
    /// The delay level, an integer.
    DELAY = "DELAY";
    /// Delivery after so many seconds (5.0).
    TIMER_DELAY_SEC = "TIMER_DELAY_SEC";
    /// Delivery after so many milliseconds (5.0).
    TIMER_DELAY_MS = "TIMER_DELAY_MS";
    /// Delivery at this time in milliseconds since 1970 (5.0).
    TIMER_DELIVER_MS = "TIMER_DELIVER_MS";
    /// When the timer took the message.
    TIMER_ENQUEUE_MS = "TIMER_ENQUEUE_MS";
    /// When the timer let the message go.
    TIMER_DEQUEUE_MS = "TIMER_DEQUEUE_MS";
    /// How often the timer wheel was rolled for the message.
    TIMER_ROLL_TIMES = "TIMER_ROLL_TIMES";
    /// When the timer is due.
    TIMER_OUT_MS = "TIMER_OUT_MS";
    /// Unique id of the timer message to delete.
    TIMER_DEL_UNIQUE_ID = "TIMER_DEL_UNIQKEY";
    /// The delay level that a timer message came from.
    TIMER_DELAY_LEVEL = "TIMER_DELAY_LEVEL";
    /// The original topic of a message in a retry topic.
    RETRY_TOPIC = "RETRY_TOPIC";
    /// The original topic of a delayed or half message.
    REAL_TOPIC = "REAL_TOPIC";
    /// The original queue of a delayed or half message.
    REAL_QUEUE_ID = "REAL_QID";
    /// `true` on half messages.
    TRANSACTION_PREPARED = "TRAN_MSG";
    /// The producer group of a half message.
    PRODUCER_GROUP = "PGROUP";
    /// Queue offset of the first copy of a half message that was checked.
    TRANSACTION_PREPARED_QUEUE_OFFSET = "TRAN_PREPARED_QUEUE_OFFSET";
    /// The transaction id on the sender's copy.
    TRANSACTION_ID = "__transactionId__";
    /// How often a half message was checked.
    TRANSACTION_CHECK_TIMES = "TRANSACTION_CHECK_TIMES";
    /// How long a half message is left alone before its first check, in seconds.
    CHECK_IMMUNITY_TIME_IN_SECONDS = "CHECK_IMMUNITY_TIME_IN_SECONDS";
    /// The id that the producer gave the message.
    UNIQUE_ID = "UNIQ_KEY";
    /// Added to the unique id by the broker.
    EXTEND_UNIQUE_INFO = "EXTEND_UNIQ_INFO";
    /// The queue's smallest offset when the message was pulled.
    MIN_OFFSET = "MIN_OFFSET";
    /// The queue's largest offset when the message was pulled.
    MAX_OFFSET = "MAX_OFFSET";
    /// Offset id of the first instance of a retried message.
    ORIGIN_MESSAGE_ID = "ORIGIN_MESSAGE_ID";
    /// How often a message sent to a retry topic by a client was consumed.
    RECONSUME_TIME = "RECONSUME_TIME";
    /// How often such a message may be consumed.
    MAX_RECONSUME_TIMES = "MAX_RECONSUME_TIMES";
    /// When the consumer began to work on the message.
    CONSUME_START_TIME = "CONSUME_START_TIME";
    /// The broker's region.
    MSG_REGION = "MSG_REGION";
    /// Whether message trace is on.
    TRACE_ON = "TRACE_ON";
    /// The broker's cluster.
    CLUSTER = "CLUSTER";
    /// `reply` on reply messages.
    MSG_TYPE = "MSG_TYPE";
    /// Links a reply to its request.
    CORRELATION_ID = "CORRELATION_ID";
    /// The client that waits for the reply.
    REPLY_TO_CLIENT = "REPLY_TO_CLIENT";
    /// How long the requester waits, in milliseconds.
    TTL = "TTL";
    /// When the broker took the reply.
    ARRIVE_TIME = "ARRIVE_TIME";
    /// When the broker pushed the reply.
    PUSH_REPLY_TIME = "PUSH_REPLY_TIME";
    /// The producer's namespace.
    INSTANCE_ID = "INSTANCE_ID";
    /// The key that keeps messages in order.
    SHARDING_KEY = "__SHARDINGKEY";
    /// The receipt of a popped message.
    POP_CHECK_POINT = "POP_CK";
    /// Where the receipt of a popped message is stored.
    POP_CHECK_POINT_OFFSET = "POP_CK_OFFSET";
    /// When the message was first popped.
    FIRST_POP_TIME = "1ST_POP_TIME";
    /// How many messages an inner batch holds.
    INNER_NUM = "INNER_NUM";
    /// Queue offset of the first message of an inner batch.
    INNER_BASE = "INNER_BASE";
    /// Light queues that get the message too, separated by commas.
    INNER_MULTI_DISPATCH = "INNER_MULTI_DISPATCH";
    /// Offsets in the light queues, separated by commas.
    INNER_MULTI_QUEUE_OFFSET = "INNER_MULTI_QUEUE_OFFSET";
    /// Legacy.
    DUP_INFO = "DUP_INFO";
    /// Legacy.
    TRANSFER_FLAG = "TRANSFER_FLAG";
    /// Legacy.
    CORRECTION_FLAG = "CORRECTION_FLAG";
    /// Legacy.
    MQ2_FLAG = "MQ2_FLAG";
    /// Legacy.
    BUYER_ID = "BUYER_ID";
    /// The queue a static topic forwarded from.
    FORWARD_QUEUE_ID = "PROPERTY_FORWARD_QUEUE_ID";
    /// Marks a redirected message.
    REDIRECT = "REDIRECT";
    /// Trace context handed from service to service.
    TRACE_CONTEXT = "TRACE_CONTEXT";
    /// The born host as a proxy saw it.
    BORN_HOST = "__BORNHOST";
    /// The born timestamp as a proxy saw it.
    BORN_TIMESTAMP = "BORN_TIMESTAMP";
    /// Original topic of a dead letter.
    DLQ_ORIGIN_TOPIC = "DLQ_ORIGIN_TOPIC";
    /// Original message id of a dead letter.
    DLQ_ORIGIN_MESSAGE_ID = "DLQ_ORIGIN_MESSAGE_ID";
    /// Checksum of the properties.
    CRC32 = "__CRC32#";
    /// In memory only: the topic's flags.
    TRANSIENT_TOPIC_SYS_FLAG = "__RMQ.TRANSIENT.TOPIC_SYS_FLAG";
    /// In memory only: the group's flags.
    TRANSIENT_GROUP_SYS_FLAG = "__RMQ.TRANSIENT.GROUP_SYS_FLAG";
}

/// Names that belong to RocketMQ: a user property must not use them.
#[rustfmt::skip]
const RESERVED: [&str; 50] = [
    KEYS, TAGS, WAIT, DELAY, TIMER_DELAY_SEC, TIMER_DELAY_MS, TIMER_DELIVER_MS, TIMER_ENQUEUE_MS, TIMER_DEQUEUE_MS,
    TIMER_ROLL_TIMES, TIMER_OUT_MS, TIMER_DEL_UNIQUE_ID, TIMER_DELAY_LEVEL, RETRY_TOPIC, REAL_TOPIC, REAL_QUEUE_ID,
    TRANSACTION_PREPARED, PRODUCER_GROUP, TRANSACTION_PREPARED_QUEUE_OFFSET, UNIQUE_ID, EXTEND_UNIQUE_INFO, MIN_OFFSET,
    MAX_OFFSET, ORIGIN_MESSAGE_ID, RECONSUME_TIME, MAX_RECONSUME_TIMES, CONSUME_START_TIME, MSG_REGION, TRACE_ON,
    CLUSTER, MSG_TYPE, CORRELATION_ID, REPLY_TO_CLIENT, TTL, ARRIVE_TIME, PUSH_REPLY_TIME, INSTANCE_ID,
    POP_CHECK_POINT, POP_CHECK_POINT_OFFSET, FIRST_POP_TIME, INNER_MULTI_QUEUE_OFFSET, DUP_INFO, TRANSFER_FLAG,
    CORRECTION_FLAG, MQ2_FLAG, BUYER_ID, BORN_HOST, BORN_TIMESTAMP, DLQ_ORIGIN_TOPIC, DLQ_ORIGIN_MESSAGE_ID,
];

/// Returns whether `name` belongs to RocketMQ, so that a user property must not use it.
pub fn is_reserved(name: &str) -> bool {
    RESERVED.contains(&name) || name == CRC32
}

/// A property string, searched without building a map.
///
/// Reads as Java does: a part without 0x01, with an empty name or with an empty value is passed over, and of equal
/// names the last counts. Parts that are not UTF-8 are passed over too.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Properties<'a> {
    bytes: &'a [u8],
}

impl<'a> Properties<'a> {
    /// Wraps a property string.
    pub const fn new(bytes: &'a [u8]) -> Self {
        Properties { bytes }
    }

    /// Returns the string as it was stored.
    pub fn as_bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Returns the value of `name`: the last one if it occurs more than once.
    pub fn value(&self, name: &str) -> Option<&'a str> {
        let mut rest = self.bytes;
        loop {
            let start = memchr::memrchr(PROPERTY_SEPARATOR as u8, rest).map_or(0, |separator| separator + 1);
            let part = rest[start..].strip_prefix(name.as_bytes());
            match part.and_then(|part| part.strip_prefix(&[NAME_VALUE_SEPARATOR as u8])) {
                Some(value) if !name.is_empty() && !value.is_empty() => {
                    if let Ok(value) = std::str::from_utf8(value) {
                        return Some(value);
                    }
                }
                _ => {}
            }
            rest = &rest[..start.checked_sub(1)?];
        }
    }

    /// Returns names and values in the order written; a name may occur more than once.
    pub fn iter(&self) -> impl Iterator<Item = (&'a str, &'a str)> + use<'a> {
        self.bytes.split(|byte| *byte == PROPERTY_SEPARATOR as u8).filter_map(|part| {
            let (name, value) = std::str::from_utf8(part).ok()?.split_once(NAME_VALUE_SEPARATOR)?;
            (!name.is_empty() && !value.is_empty()).then_some((name, value))
        })
    }

    /// Returns the properties as a map, in which each name has its last value.
    pub fn to_map(&self) -> BTreeMap<String, String> {
        self.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
    }
}

impl<'a> From<&'a str> for Properties<'a> {
    fn from(text: &'a str) -> Self {
        Properties::new(text.as_bytes())
    }
}

/// Builds a property string; the order of the calls is the order on the wire.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PropertiesWriter {
    text: String,
}

impl PropertiesWriter {
    /// Starts an empty string.
    pub fn new() -> Self {
        Self::default()
    }

    /// Starts an empty string with room for `bytes` bytes.
    pub fn with_capacity(bytes: usize) -> Self {
        PropertiesWriter { text: String::with_capacity(bytes) }
    }

    /// Starts with a property string that was written before, separated from what follows if it has to be.
    pub fn continue_from(text: impl Into<String>) -> Self {
        let mut text = text.into();
        if !text.is_empty() && !text.ends_with(PROPERTY_SEPARATOR) {
            text.push(PROPERTY_SEPARATOR);
        }
        PropertiesWriter { text }
    }

    /// Adds a property. An empty value is written, but no reader sees it.
    ///
    /// # Errors
    ///
    /// [`EncodeError::Invalid`] if name or value holds one of the separators 0x01 and 0x02.
    pub fn push(&mut self, name: &str, value: &str) -> Result<(), EncodeError> {
        check_text("a property name", name)?;
        check_text("a property value", value)?;
        self.text.reserve(name.len() + value.len() + 2);
        self.text.push_str(name);
        self.text.push(NAME_VALUE_SEPARATOR);
        self.text.push_str(value);
        self.text.push(PROPERTY_SEPARATOR);
        Ok(())
    }

    /// Returns the string, each value followed by a separator: the form of 4.4.0 to 4.9.0 and of 5.2.0 and later.
    pub fn finish(self) -> String {
        self.text
    }

    /// Returns the string without the last separator: the form of 4.9.1 to 5.1.4.
    pub fn finish_without_last_separator(mut self) -> String {
        if self.text.ends_with(PROPERTY_SEPARATOR) {
            self.text.pop();
        }
        self.text
    }
}

/// Writes `properties` as one string, in their order.
///
/// # Errors
///
/// As [`PropertiesWriter::push`].
pub fn encode<'a>(properties: impl IntoIterator<Item = (&'a str, &'a str)>) -> Result<String, EncodeError> {
    let mut writer = PropertiesWriter::new();
    for (name, value) in properties {
        writer.push(name, value)?;
    }
    Ok(writer.finish())
}

/// Refuses text that cannot stand in a property string.
///
/// # Errors
///
/// [`EncodeError::Invalid`] naming `what` if `text` holds one of the separators 0x01 and 0x02.
pub fn check_text(what: &'static str, text: &str) -> Result<(), EncodeError> {
    if text.bytes().any(|byte| byte == NAME_VALUE_SEPARATOR as u8 || byte == PROPERTY_SEPARATOR as u8) {
        return Err(EncodeError::Invalid { what, why: "it holds a separator, the character 0x01 or 0x02" });
    }
    Ok(())
}
