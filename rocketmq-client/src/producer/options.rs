//! What differs from the usual for one send.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use rocketmq_wire::message::tag_hash;

use crate::message::{Message, MessageQueue};

/// What differs from the usual for one send.
///
/// ```
/// use std::time::Duration;
///
/// use rocketmq_native::SendOptions;
///
/// // All messages of one customer keep their order, as they go to one queue.
/// let options = SendOptions::new().key("customer-7").timeout(Duration::from_secs(1));
/// ```
#[derive(Debug, Clone, Default)]
pub struct SendOptions {
    pub(super) timeout: Option<Duration>,
    pub(super) choice: Choice,
    /// Whether to fail instead of waiting for room.
    pub(super) only_at_once: bool,
    /// Whether it is inside the span of its send already.
    pub(super) observed: bool,
}

/// Which queue a message goes to.
#[derive(Clone, Default)]
pub(super) enum Choice {
    /// The next in turn.
    #[default]
    Turn,
    /// This one.
    Queue(MessageQueue),
    /// The one that this hash stands for.
    Hash(i32),
    /// Any.
    Random,
    /// The one that the caller picks.
    Selector(Arc<Selector>),
    /// The next in turn of this broker while it has one, else the next in turn.
    Broker(Arc<str>),
}

type Selector = dyn Fn(&[MessageQueue], &Message) -> usize + Send + Sync;

impl SendOptions {
    /// Nothing differs.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the time that all attempts together may take, instead of the producer's timeout.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Names the queue to send to, which must be of the message's topic. There is one attempt then, as no other queue
    /// would do.
    ///
    /// Of the ways to choose a queue the one that was called last counts.
    #[must_use]
    pub fn queue(mut self, queue: MessageQueue) -> Self {
        self.choice = Choice::Queue(queue);
        self
    }

    /// Sends to the queue that this key stands for, so that messages with one key keep their order. There is one attempt.
    ///
    /// It is the queue that the Java client's `SelectMessageQueueByHash` picks for the same text, as long as the number of
    /// queues stays the same. When queues are added the order of a key breaks once.
    #[must_use]
    pub fn key(self, key: impl AsRef<str>) -> Self {
        self.hash(tag_hash(key.as_ref()))
    }

    /// Sends to the queue that this hash stands for, as [`key`](Self::key) does with a hash of the caller's own.
    ///
    /// Java's hash of an `Integer` is its value, that of a `Long` is `(value ^ value >>> 32) as i32`.
    #[must_use]
    pub fn hash(mut self, hash: i32) -> Self {
        self.choice = Choice::Hash(hash);
        self
    }

    /// Sends to any queue, each as likely as another, instead of the next in turn. There is one attempt.
    #[must_use]
    pub fn random(mut self) -> Self {
        self.choice = Choice::Random;
        self
    }

    /// Sends to the queue that `choose` picks: it gets the topic's queues and the message, and returns a place in the
    /// list. There is one attempt. The list is never empty; a place outside of it makes the send fail.
    ///
    /// ```
    /// use rocketmq_native::SendOptions;
    ///
    /// let options = SendOptions::new().selector(|queues, message| message.body().len() % queues.len());
    /// ```
    #[must_use]
    pub fn selector(mut self, choose: impl Fn(&[MessageQueue], &Message) -> usize + Send + Sync + 'static) -> Self {
        self.choice = Choice::Selector(Arc::new(choose));
        self
    }

    /// Prefers the queues of a broker.
    pub(super) fn at_broker(broker: &str) -> Self {
        Self { choice: Choice::Broker(broker.into()), ..Self::default() }
    }

    /// The queue that the caller has named.
    pub(super) fn named_queue(&self) -> Option<&MessageQueue> {
        match &self.choice {
            Choice::Queue(queue) => Some(queue),
            _ => None,
        }
    }
}

impl fmt::Debug for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Turn => f.write_str("Turn"),
            Self::Queue(queue) => f.debug_tuple("Queue").field(queue).finish(),
            Self::Hash(hash) => f.debug_tuple("Hash").field(hash).finish(),
            Self::Random => f.write_str("Random"),
            Self::Selector(_) => f.debug_tuple("Selector").finish_non_exhaustive(),
            Self::Broker(broker) => f.debug_tuple("Broker").field(broker).finish(),
        }
    }
}

/// The place among `count` queues that a hash stands for: the absolute value of Java's signed remainder.
pub(super) fn place_of_hash(hash: i32, count: usize) -> Option<usize> {
    let remainder = i64::from(hash).checked_rem(i64::try_from(count).ok()?)?;
    usize::try_from(remainder.unsigned_abs()).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    /// What Apache's `SelectMessageQueueByHash` computed.
    #[test]
    fn keys_choose_the_queue_that_java_chooses() {
        let vectors = include_str!("../../../rocketmq-wire/tests/golden/vectors/queue_select.jsonl");
        let rows: Vec<Value> = vectors.lines().map(|line| serde_json::from_str(line).expect("a row")).collect();
        let rows: Vec<_> = rows.iter().filter(|row| row["op"] == "hash").collect();
        assert_eq!(rows.len(), 3000);
        for row in rows {
            let key = row["key"].as_str().expect("a key");
            let Choice::Hash(hash) = SendOptions::new().key(key).choice else { panic!("a key is a hash") };
            assert_eq!(Some(i64::from(hash)), row["hash"].as_i64(), "{key:?}");
            let places = [1, 3, 4, 7, 8, 16].map(|count| place_of_hash(hash, count));
            let expected: Vec<_> = row["index"].as_array().expect("places").iter().map(Value::as_u64).collect();
            assert_eq!(places.map(|place| place.map(|place| place as u64)).to_vec(), expected, "{key:?}");
        }
        assert_eq!((place_of_hash(7, 0), place_of_hash(i32::MIN, 3)), (None, Some(2)));
    }

    #[test]
    fn the_last_choice_counts() {
        let options = SendOptions::new().key("a").random();
        assert!(matches!(options.choice, Choice::Random) && options.named_queue().is_none());
        let queue = MessageQueue::new("t", "b", 1);
        let options = SendOptions::new().selector(|_, _| 0).queue(queue.clone());
        assert_eq!(options.named_queue(), Some(&queue));
        assert_eq!(format!("{:?}", SendOptions::new().hash(7).choice), "Hash(7)");
    }
}
