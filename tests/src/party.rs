//! Who sends and who receives in a scenario: our client, the Java client or the Go client, behind one face.

use std::{collections::BTreeMap, fmt, sync::LazyLock};

use sha1::{Digest, Sha1};

use rocketmq_native::HeaderType;

use crate::{
    foreign::{Arguments, Driver, Headers, Job},
    ours::{OurConsumption, OurSender},
    server::Server,
};

/// One client in one language.
#[derive(Clone, Copy)]
pub enum Party {
    /// Our client, and how it writes its headers.
    Ours(HeaderType),
    /// The Java or Go client behind its driver.
    Foreign(&'static Driver),
}

impl fmt::Debug for Party {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ours(header_type) => write!(f, "our client ({header_type:?})"),
            Self::Foreign(driver) => f.write_str(driver.name()),
        }
    }
}

/// Our client as it is by default.
pub fn ours() -> Party {
    Party::Ours(HeaderType::Auto)
}

/// The Java client 5.3.3 with JSON headers.
pub fn java() -> Party {
    static DRIVER: LazyLock<Driver> = LazyLock::new(|| Driver::java("5.3.3", Headers::Json));
    Party::Foreign(&DRIVER)
}

/// The Java client 4.9.7, whose requests work: 5.3.3 does not wait for replies.
pub fn java_4_9_7() -> Party {
    static DRIVER: LazyLock<Driver> = LazyLock::new(|| Driver::java("4.9.7", Headers::Json));
    Party::Foreign(&DRIVER)
}

/// The Java client 5.3.3 with binary headers.
pub fn java_binary() -> Party {
    static DRIVER: LazyLock<Driver> = LazyLock::new(|| Driver::java("5.3.3", Headers::Binary));
    Party::Foreign(&DRIVER)
}

/// The Java client 4.4.0, which sends to the broker's port less 2.
pub fn java_4_4_0() -> Party {
    static DRIVER: LazyLock<Driver> = LazyLock::new(|| Driver::java("4.4.0", Headers::Json));
    Party::Foreign(&DRIVER)
}

/// The Java client 4.4.0 with binary headers.
pub fn java_4_4_0_binary() -> Party {
    static DRIVER: LazyLock<Driver> = LazyLock::new(|| Driver::java("4.4.0", Headers::Binary));
    Party::Foreign(&DRIVER)
}

/// The Go client.
pub fn go() -> Party {
    static DRIVER: LazyLock<Driver> = LazyLock::new(Driver::go);
    Party::Foreign(&DRIVER)
}

impl Party {
    /// The driver of a foreign client.
    ///
    /// # Panics
    ///
    /// For our own client.
    pub fn driver(self) -> &'static Driver {
        match self {
            Self::Foreign(driver) => driver,
            Self::Ours(_) => panic!("our client has no driver"),
        }
    }
}

/// What is to be sent: `count` messages that the receiver can tell apart and check.
#[derive(Debug, Clone)]
pub struct Outgoing {
    /// Where to.
    pub topic: String,
    /// How many.
    pub count: usize,
    /// How many sends wait for their answer at once.
    pub in_flight: usize,
    /// What is in them.
    pub body: Body,
    /// The tags, taken in turn.
    pub tags: Vec<String>,
    /// The keys are this and the number of the message.
    pub key_prefix: String,
    /// User properties.
    pub properties: BTreeMap<String, String>,
}

impl Outgoing {
    /// Messages of 100 bytes.
    pub fn new(topic: &str, count: usize, key_prefix: &str) -> Self {
        Self {
            topic: topic.to_owned(),
            count,
            in_flight: 1,
            body: Body::Text(100),
            tags: Vec::new(),
            key_prefix: key_prefix.to_owned(),
            properties: BTreeMap::new(),
        }
    }

    /// The key of one message.
    pub fn key(&self, index: usize) -> String {
        format!("{}{index}", self.key_prefix)
    }

    /// The tag of one message.
    pub fn tag(&self, index: usize) -> Option<&str> {
        (!self.tags.is_empty()).then(|| self.tags[index % self.tags.len()].as_str())
    }
}

/// Bodies that can be computed again from the number of the message. The drivers make the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Body {
    /// `message-<number>`, filled up with dots or cut.
    Text(usize),
    /// Nothing but zero bytes.
    Zeros(usize),
    /// Every byte value, zero included.
    Bytes(usize),
}

impl Body {
    /// The body of one message.
    pub fn make(self, index: usize) -> Vec<u8> {
        match self {
            Self::Text(size) => {
                let mut body = format!("message-{index}").into_bytes();
                body.resize(size, b'.');
                body
            }
            Self::Zeros(size) => vec![0; size],
            #[expect(clippy::cast_possible_truncation, reason = "the low byte is meant")]
            Self::Bytes(size) => (0..size).map(|i| (index * 31 + i * 7 + (i >> 8)) as u8).collect(),
        }
    }

    fn kind_and_size(self) -> (&'static str, usize) {
        match self {
            Self::Text(size) => ("text", size),
            Self::Zeros(size) => ("zeros", size),
            Self::Bytes(size) => ("bytes", size),
        }
    }
}

/// The SHA-1 of a body in hexadecimal.
pub fn sha1_hex(body: &[u8]) -> String {
    Sha1::digest(body).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// What is to be received.
#[derive(Debug, Clone)]
pub struct Subscription {
    /// The consumer group.
    pub group: String,
    /// The topic.
    pub topic: String,
    /// The tags.
    pub expression: String,
    /// How often the handler fails on each message before it succeeds.
    pub fail_first: u32,
}

impl Subscription {
    /// All of a topic, from its first message.
    pub fn new(group: &str, topic: &str) -> Self {
        Self { group: group.to_owned(), topic: topic.to_owned(), expression: "*".to_owned(), fail_first: 0 }
    }
}

/// One message that was acknowledged to its sender.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sent {
    /// Its number, from 0.
    pub index: usize,
    /// The unique id that the client gave it.
    pub msg_id: String,
    /// The queue it went to.
    pub queue_id: u32,
    /// Its place in the queue.
    pub queue_offset: u64,
}

/// One delivery to a handler.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Received {
    /// Whether the handler reported success.
    pub succeeded: bool,
    /// The unique id.
    pub msg_id: String,
    /// The topic as shown to the handler.
    pub topic: String,
    /// The queue it came from.
    pub queue_id: u32,
    /// Its place in the queue.
    pub queue_offset: u64,
    /// How often it was delivered before.
    pub reconsume_times: u32,
    /// The length of its body, decompressed.
    pub size: usize,
    /// The SHA-1 of its body.
    pub sha1: String,
    /// Its tag, empty without one.
    pub tag: String,
    /// Its keys, separated by spaces.
    pub keys: String,
    /// All its properties.
    pub properties: BTreeMap<String, String>,
}

/// How sending some messages ended.
#[derive(Debug, Default)]
pub struct Outcome {
    /// The messages that were acknowledged as stored.
    pub sent: Vec<Sent>,
    /// What the other sends failed with.
    pub failed: Vec<String>,
}

impl Party {
    /// Starts a producer.
    pub async fn sender(self, server: &Server) -> Sender {
        match self {
            Self::Ours(header_type) => Sender::Ours(OurSender::start(server, header_type).await),
            Self::Foreign(driver) => Sender::Foreign { driver, arguments: arguments(server) },
        }
    }

    /// Starts a push consumer and waits until it runs.
    pub async fn consume(self, server: &Server, subscription: &Subscription) -> Consumption {
        match self {
            Self::Ours(header_type) => {
                Consumption::Ours(OurConsumption::start(server, header_type, subscription).await)
            }
            Self::Foreign(driver) => {
                // The Go client looks for a new retry topic only every 30 s.
                server.create_topic(&format!("%RETRY%{}", subscription.group), 1);
                Consumption::Foreign(driver.consume(&consume_arguments(server, subscription)).await)
            }
        }
    }
}

/// A running producer.
#[derive(Debug)]
pub enum Sender {
    /// Our client.
    Ours(OurSender),
    /// The drivers start one for each command.
    Foreign {
        /// In which driver.
        driver: &'static Driver,
        /// Where to.
        arguments: Arguments,
    },
}

impl Sender {
    /// Sends the messages and waits until each is answered or has failed.
    pub async fn send(&self, outgoing: &Outgoing) -> Outcome {
        match self {
            Self::Ours(sender) => sender.send(outgoing).await,
            Self::Foreign { driver, arguments } => {
                driver.produce(&produce_arguments(arguments, outgoing)).outcome().await
            }
        }
    }

    /// Shuts the producer down.
    pub async fn shutdown(self) {
        match self {
            Self::Ours(sender) => sender.shutdown().await,
            Self::Foreign { .. } => {}
        }
    }
}

/// A running push consumer.
#[derive(Debug)]
pub enum Consumption {
    /// Our client.
    Ours(OurConsumption),
    /// In a driver.
    Foreign(Job<'static>),
}

impl Consumption {
    /// The next `count` deliveries.
    ///
    /// # Panics
    ///
    /// When the next does not come within a minute, saying how many did.
    pub async fn messages(&mut self, count: usize) -> Vec<Received> {
        match self {
            Self::Ours(consumption) => consumption.messages(count).await,
            Self::Foreign(job) => job.messages(count).await,
        }
    }

    /// Shuts the consumer down and returns what was delivered but not asked for.
    pub async fn stop(self) -> Vec<Received> {
        match self {
            Self::Ours(consumption) => consumption.stop().await,
            Self::Foreign(job) => job.stop().await,
        }
    }
}

/// What a foreign client needs to find a server.
pub(crate) fn arguments(server: &Server) -> Arguments {
    let arguments = Arguments::new().set("name_server", server.name_server());
    match server.namespace() {
        "" => arguments,
        namespace => arguments.set("namespace", namespace),
    }
}

fn produce_arguments(arguments: &Arguments, outgoing: &Outgoing) -> Arguments {
    let (kind, size) = outgoing.body.kind_and_size();
    let mut arguments = arguments
        .clone()
        .set("topic", &outgoing.topic)
        .set("count", outgoing.count)
        .set("in_flight", outgoing.in_flight)
        .set("kind", kind)
        .set("size", size)
        .set("keys", format!("{}{{}}", outgoing.key_prefix));
    if !outgoing.tags.is_empty() {
        arguments = arguments.set("tags", outgoing.tags.join(","));
    }
    for (name, value) in &outgoing.properties {
        arguments = arguments.set_named("property", name, value);
    }
    arguments
}

fn consume_arguments(server: &Server, subscription: &Subscription) -> Arguments {
    arguments(server)
        .set("group", &subscription.group)
        .set("topic", &subscription.topic)
        .set("expression", &subscription.expression)
        .set("fail_first", subscription.fail_first)
}
