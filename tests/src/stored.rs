//! What a broker serves of its store, asked over the wire, to compare brokers that had the same directory.

use std::collections::BTreeMap;

use crate::raw::{self, Answer};

const SEND: u32 = 310;
const PULL: u32 = 11;
const QUERY_BY_KEY: u32 = 12;
const CONSUMER_OFFSET: u32 = 14;
const COMMIT_OFFSET: u32 = 15;
const MAX_OFFSET: u32 = 30;
const MIN_OFFSET: u32 = 31;

/// One queue of a topic as a broker serves it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Queue {
    /// The smallest queue offset.
    pub min_offset: u64,
    /// The offset after the newest message.
    pub max_offset: u64,
    /// The records, one after the other, byte for byte as stored.
    pub records: Vec<u8>,
}

/// Sends a message and says at which queue offset it was stored.
///
/// # Panics
///
/// When the broker does not take it.
pub fn send(broker: &str, topic: &str, queue: u32, properties: &str, body: &[u8]) -> u64 {
    let answer = try_send(broker, topic, queue, properties, body);
    assert_eq!(answer.code, 0, "sending to {topic}: {:?}", answer.remark);
    field(&answer, "queueOffset")
}

/// Sends a message and returns whatever the broker answers.
///
/// # Panics
///
/// When it does not answer.
pub fn try_send(broker: &str, topic: &str, queue: u32, properties: &str, body: &[u8]) -> Answer {
    try_send_born(broker, (topic, queue), properties, body, 1_700_000_000_000)
}

/// As [`try_send`], for brokers that look at when the message was made, in milliseconds since 1970.
///
/// # Panics
///
/// When it does not answer.
pub fn try_send_born(
    broker: &str,
    (topic, queue): (&str, u32),
    properties: &str,
    body: &[u8],
    born_ms: u128,
) -> Answer {
    let (queue, born) = (queue.to_string(), born_ms.to_string());
    let fields = [
        ("a", "stored-producer"),
        ("b", topic),
        ("c", "TBW102"),
        ("d", "4"),
        ("e", &queue),
        ("f", "0"),
        ("g", &born),
        ("h", "0"),
        ("i", properties),
        ("j", "0"),
        ("k", "false"),
        ("m", "false"),
    ];
    ask(broker, SEND, &fields, body)
}

/// Reads a queue from its smallest offset to its end.
///
/// # Panics
///
/// When the broker refuses, or ends before the end.
pub fn queue(broker: &str, topic: &str, queue: u32) -> Queue {
    let id = queue.to_string();
    let place = [("topic", topic), ("queueId", id.as_str())];
    let offset = |code| field(&ask(broker, code, &place, &[]), "offset");
    let mut found = Queue { min_offset: offset(MIN_OFFSET), max_offset: offset(MAX_OFFSET), records: Vec::new() };
    let mut next = found.min_offset;
    while next < found.max_offset {
        let answer = pull(broker, topic, queue, next);
        assert_eq!(answer.code, 0, "{topic} {queue} from {next}: {:?}", answer.remark);
        let after: u64 = field(&answer, "nextBeginOffset");
        assert!(after > next, "{topic} {queue}: no progress at {next}");
        next = after;
        found.records.extend_from_slice(&answer.body);
    }
    found
}

/// The offset after the newest message of a queue.
///
/// # Panics
///
/// When the broker does not answer.
pub fn max_offset(broker: &str, topic: &str, queue: u32) -> u64 {
    let queue = queue.to_string();
    field(&ask(broker, MAX_OFFSET, &[("topic", topic), ("queueId", queue.as_str())], &[]), "offset")
}

/// Pulls once from a queue, without waiting.
///
/// # Panics
///
/// When the broker does not answer.
pub fn pull(broker: &str, topic: &str, queue: u32, offset: u64) -> Answer {
    let (id, offset) = (queue.to_string(), offset.to_string());
    let fields = [
        ("consumerGroup", "stored-consumer"),
        ("topic", topic),
        ("queueId", &id),
        ("queueOffset", &offset),
        ("maxMsgNums", "32"),
        ("sysFlag", "4"),
        ("commitOffset", "0"),
        ("suspendTimeoutMillis", "0"),
        ("subscription", "*"),
        ("subVersion", "0"),
        ("expressionType", "TAG"),
    ];
    ask(broker, PULL, &fields, &[])
}

/// Reads the queues 0 to `queues` of each topic.
///
/// # Panics
///
/// As [`queue`].
pub fn topics(broker: &str, names: &[&str], queues: u32) -> BTreeMap<(String, u32), Queue> {
    let places = names.iter().flat_map(|name| (0..queues).map(move |id| (*name, id)));
    places.map(|(name, id)| ((name.to_owned(), id), queue(broker, name, id))).collect()
}

/// The messages that have a key, as the broker answers a query: record by record.
///
/// # Panics
///
/// When the broker does not answer.
pub fn by_key(broker: &str, topic: &str, key: &str) -> Vec<u8> {
    let fields =
        [("topic", topic), ("key", key), ("maxNum", "32"), ("beginTimestamp", "0"), ("endTimestamp", "9000000000000")];
    ask(broker, QUERY_BY_KEY, &fields, &[]).body
}

/// Commits a consumer's offset.
///
/// # Panics
///
/// When the broker refuses.
pub fn commit(broker: &str, topic: &str, queue: u32, offset: u64) {
    let (queue, offset) = (queue.to_string(), offset.to_string());
    let fields =
        [("consumerGroup", "stored-consumer"), ("topic", topic), ("queueId", &queue), ("commitOffset", &offset)];
    let answer = ask(broker, COMMIT_OFFSET, &fields, &[]);
    assert_eq!(answer.code, 0, "{:?}", answer.remark);
}

/// The committed offset of a consumer.
///
/// # Panics
///
/// When the broker has none.
pub fn committed(broker: &str, topic: &str, queue: u32) -> u64 {
    let queue = queue.to_string();
    let fields = [("consumerGroup", "stored-consumer"), ("topic", topic), ("queueId", queue.as_str())];
    field(&ask(broker, CONSUMER_OFFSET, &fields, &[]), "offset")
}

fn ask(broker: &str, code: u32, fields: &[(&str, &str)], body: &[u8]) -> Answer {
    raw::ask(broker, code, fields, body).unwrap_or_else(|error| panic!("request {code} to {broker}: {error}"))
}

fn field(answer: &Answer, name: &str) -> u64 {
    let text = answer.fields.get(name).and_then(|value| value.as_str());
    text.and_then(|text| text.parse().ok()).unwrap_or_else(|| panic!("no {name} in {answer:?}"))
}
