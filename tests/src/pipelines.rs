//! What brokers do besides storing and serving, asked for by the Java and Go clients: transactions, delays, timers, order,
//! broadcasting, SQL92, requests with replies, offsets that are reset. The same must come out on our broker as on Apache's.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use serde_json::Value;
use tokio::time::Instant;

use crate::{
    foreign::{Arguments, Driver, Job},
    party::{Received, sha1_hex},
    server::Server,
};

/// Waits at most so long for anything.
const LIMIT: Duration = Duration::from_secs(150);

/// A client, the server it talks to, and what it is told besides: an account, encryption.
#[derive(Debug, Clone)]
pub struct Pipelines {
    /// Where.
    pub server: &'static Server,
    /// Who.
    pub client: &'static Driver,
    /// Given with every command.
    pub access: Vec<(&'static str, String)>,
}

impl Pipelines {
    /// Without an account.
    pub fn new(server: &'static Server, client: &'static Driver) -> Self {
        Self { server, client, access: Vec::new() }
    }

    fn arguments(&self, topic: &str) -> Arguments {
        let arguments = Arguments::new().set("name_server", self.server.name_server()).set("topic", topic);
        self.access.iter().fold(arguments, |arguments, (key, value)| arguments.set(key, value))
    }

    fn topic(&self, what: &str, queues: u32) -> String {
        let topic = self.server.name(what);
        self.server.create_topic(&topic, queues);
        topic
    }

    async fn consume(&self, topic: &str, group: &str, more: &[(&str, &str)]) -> Job<'static> {
        // The Go client looks for a new retry topic only every 30 s.
        self.server.create_topic(&format!("%RETRY%{group}"), 1);
        let arguments = self.arguments(topic).set("group", group);
        let arguments = more.iter().fold(arguments, |arguments, (key, value)| arguments.set(key, value));
        self.client.consume(&arguments).await
    }

    async fn produce(&self, topic: &str, more: &[(&str, &str)]) -> Vec<Value> {
        let arguments = more.iter().fold(self.arguments(topic), |arguments, (key, value)| arguments.set(key, value));
        let events = self.client.produce(&arguments).events(LIMIT).await;
        assert!(events.iter().all(|event| event["event"] != "failed"), "{events:?}");
        events
    }

    /// Halves that are committed, rolled back, or decided by checks; what is committed arrives once, the rest does not.
    /// Then another producer of a group is asked for what the first has left behind.
    pub async fn transactions(self) {
        let (topic, group) = (self.topic("transactions", 4), self.server.name("transactions"));
        let mut consumer = self.consume(&topic, &group, &[]).await;
        let producers = self.server.name("producers");
        let all = [("group", producers.as_str()), ("mode", "transaction"), ("keys", "k-{}"), ("tags", "t")];
        let decided = [
            ("count", "10"),
            ("decisions", "commit,rollback,unknown,unknown,unknown"),
            ("checks", "commit,commit,commit,rollback,later"),
            ("await_checks", "6"),
        ];
        let events = self.produce(&topic, &[&all[..], &decided].concat()).await;
        for checked in events.iter().filter(|event| event["event"] == "checked") {
            let index = checked["index"].as_u64().expect("a number");
            assert!(index % 5 >= 2, "asked about what was decided: {checked}");
            assert_eq!(checked["keys"], format!("k-{index}"), "{checked}");
            assert_eq!(checked["topic"], topic, "{checked}");
            let body = crate::party::Body::Text(100).make(usize::try_from(index).expect("small"));
            assert_eq!(checked["sha1"], sha1_hex(&body), "{checked}");
        }
        let received = consumer.messages(6).await;
        let committed = (0..10).filter(|index| [0, 2, 4].contains(&(index % 5)));
        assert_eq!(keys(&received), committed.map(|index| format!("k-{index}")).collect());
        assert!(received.iter().all(|message| message.topic == topic && message.tag == "t"), "{received:?}");

        // The first producer leaves two halves undecided; the second of its group is asked.
        let left = [("count", "2"), ("decisions", "unknown"), ("checks", "unknown")];
        self.produce(&topic, &[&all[..], &left].concat()).await;
        let second = [("count", "1"), ("decisions", "commit"), ("checks", "commit"), ("await_checks", "2")];
        let events = self.produce(&topic, &[&all[..], &second].concat()).await;
        let asked: BTreeSet<&str> = events.iter().filter_map(|event| event["keys"].as_str()).collect();
        assert_eq!(asked, ["k-0", "k-1"].into());
        // Its own and the two of the first.
        let received = consumer.messages(3).await;
        assert_eq!(keys(&received), ["k-0", "k-1"].map(str::to_owned).into());
        assert_eq!(consumer.stop().await, [], "more deliveries than commits");
    }

    /// Delay levels: no message is early.
    pub async fn delay_levels(self) {
        let (topic, group) = (self.topic("delays", 2), self.server.name("delays"));
        let mut consumer = self.consume(&topic, &group, &[]).await;
        let started = Instant::now();
        // The sixth level is three seconds in these tests.
        self.produce(&topic, &[("count", "4"), ("delay_level", "6"), ("keys", "k-{}"), ("tags", "t")]).await;
        let received = consumer.messages(4).await;
        assert!(started.elapsed() >= Duration::from_secs(3), "after {:?}", started.elapsed());
        assert_eq!(keys(&received), (0..4).map(|index| format!("k-{index}")).collect());
        assert!(received.iter().all(|message| message.topic == topic && message.tag == "t"), "{received:?}");
        assert_eq!(consumer.stop().await, []);
    }

    /// Messages for any time (5.x).
    pub async fn timers(self) {
        let (topic, group) = (self.topic("timers", 2), self.server.name("timers"));
        let mut consumer = self.consume(&topic, &group, &[]).await;
        let started = Instant::now();
        self.produce(&topic, &[("count", "4"), ("delay_ms", "2500"), ("keys", "k-{}")]).await;
        let received = consumer.messages(4).await;
        // A broker's slot is a second.
        assert!(started.elapsed() >= Duration::from_millis(1500), "after {:?}", started.elapsed());
        assert_eq!(keys(&received), (0..4).map(|index| format!("k-{index}")).collect());
        assert_eq!(consumer.stop().await, []);
    }

    /// An orderly consumer sees each queue in order, and what fails comes again before what follows it.
    pub async fn order(self) {
        let (topic, group) = (self.topic("order", 3), self.server.name("order"));
        let mut consumer = self.consume(&topic, &group, &[("orderly", "true")]).await;
        self.produce(&topic, &[("count", "60"), ("keys", "k-{}")]).await;
        let received = consumer.messages(60).await;
        let mut next: BTreeMap<u32, u64> = BTreeMap::new();
        for message in &received {
            let expected = next.entry(message.queue_id).or_default();
            assert_eq!(message.queue_offset, *expected, "{message:?}");
            *expected += 1;
        }
        assert_eq!(next.values().sum::<u64>(), 60);
        assert_eq!(consumer.stop().await, []);
    }

    /// Every member of a broadcasting group gets everything.
    pub async fn broadcasting(self) {
        let (topic, group) = (self.topic("broadcast", 2), self.server.name("broadcast"));
        let mut first = self.consume(&topic, &group, &[("broadcast", "true")]).await;
        let mut second = self.consume(&topic, &group, &[("broadcast", "true")]).await;
        self.produce(&topic, &[("count", "20"), ("keys", "k-{}")]).await;
        let all: BTreeSet<String> = (0..20).map(|index| format!("k-{index}")).collect();
        for member in [&mut first, &mut second] {
            assert_eq!(keys(&member.messages(20).await), all);
        }
        assert_eq!((first.stop().await, second.stop().await), (Vec::new(), Vec::new()));
    }

    /// The broker filters by SQL92.
    pub async fn sql92(self) {
        let (topic, group) = (self.topic("sql", 2), self.server.name("sql"));
        let sql = "a BETWEEN 1 AND 2 AND (b = 'x' OR b IS NULL) AND NOT (TAGS IN ('no'))";
        let mut consumer = self.consume(&topic, &group, &[("sql", sql)]).await;
        for (a, b, tag, key) in [
            ("1", Some("x"), "yes", "one"),
            ("2", None, "yes", "two"),
            ("2", Some("y"), "yes", "three"),
            ("3", Some("x"), "yes", "four"),
            ("1", None, "no", "five"),
            // No whole number, as the constants are: Apache's classes compare it with nothing.
            ("1.5", None, "yes", "six"),
        ] {
            let mut message = vec![("property.a", a), ("tags", tag), ("keys", key)];
            message.extend(b.map(|b| ("property.b", b)));
            self.produce(&topic, &message).await;
        }
        let received = consumer.messages(2).await;
        assert_eq!(keys(&received), ["one", "two"].map(str::to_owned).into());
        assert_eq!(consumer.stop().await, []);
    }

    /// Questions by message are answered by message.
    pub async fn request_and_reply(self) {
        let (topic, group) = (self.topic("questions", 2), self.server.name("questions"));
        let mut consumer = self.consume(&topic, &group, &[("reply", " answered")]).await;
        // The Go client counts the time it allows in seconds and makes itself known with its first heartbeat.
        let arguments = self.arguments(&topic).set("count", "3").set("timeout", "60000");
        let replies = self.client.request(&arguments).await;
        assert_eq!(replies, [0, 1, 2].map(|index| format!("question {index} answered")));
        // Told once the reply is sent.
        assert_eq!(consumer.messages(3).await.len(), 3);
        assert_eq!(consumer.stop().await, []);
    }

    /// Offsets that an administrator resets while the consumer runs: everything comes again. `admin` has the tool.
    pub async fn reset_offset(self, admin: &'static Driver) {
        let (topic, group) = (self.topic("reset", 1), self.server.name("reset"));
        let mut consumer = self.consume(&topic, &group, &[]).await;
        self.produce(&topic, &[("count", "5"), ("keys", "k-{}")]).await;
        let first = consumer.messages(5).await;
        // 4.x resets only what was committed before.
        let deadline = Instant::now() + LIMIT;
        let place = [("consumerGroup", group.as_str()), ("topic", &topic), ("queueId", "0")];
        loop {
            let answer = crate::raw::ask(self.server.broker(), 14, &place, &[]).expect("the broker answers");
            if answer.fields.get("offset").and_then(Value::as_str) == Some("5") {
                break;
            }
            assert!(Instant::now() < deadline, "offset 5 is not committed: {answer:?}");
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        let line = format!("resetOffsetByTime -n {} -g {group} -t {topic} -s 0", self.server.name_server());
        let printed = admin.mqadmin(self.server.name_server(), &line).await;
        println!("{printed}");
        let again = consumer.messages(5).await;
        assert_eq!(keys(&again), keys(&first), "after the reset");
        consumer.stop().await;
    }
}

fn keys(received: &[Received]) -> BTreeSet<String> {
    received.iter().map(|message| message.keys.clone()).collect()
}

/// Makes a test of each pipeline named, with the same server and client, all at the same time.
#[macro_export]
macro_rules! pipelines {
    ($module:ident: $server:expr, $client:expr; $($pipeline:ident $(($argument:expr))?),+ $(,)?) => {
        mod $module {
            #[allow(unused_imports, reason = "what the expressions need")]
            use super::*;
            $(
                #[test]
                fn $pipeline() {
                    $crate::administration::run(async {
                        let _running = $server.share().await;
                        let pipelines = $crate::pipelines::Pipelines::new(&$server, $client.driver());
                        pipelines.$pipeline($($argument)?).await;
                    });
                }
            )+
        }
    };
}
