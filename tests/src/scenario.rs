//! What must hold whoever sends, whoever receives and whoever serves.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    time::Duration,
};

use tokio::{runtime::Builder, sync::watch, time::Instant};

use crate::{
    party::{Body, Consumption, Outgoing, Party, Received, Sent, Subscription, sha1_hex},
    server::{Control, Server},
};

/// Who takes part in a scenario.
#[derive(Debug, Clone, Copy)]
pub struct Cast {
    /// The server.
    pub server: &'static Server,
    /// Who sends.
    pub sender: Party,
    /// Who receives.
    pub receiver: Party,
}

impl Cast {
    async fn send(&self, outgoing: &Outgoing) -> Vec<Sent> {
        let sender = self.sender.sender(self.server).await;
        let outcome = sender.send(outgoing).await;
        sender.shutdown().await;
        assert_eq!(outcome.failed, [] as [String; 0]);
        assert_eq!(outcome.sent.len(), outgoing.count, "an answer to every send");
        outcome.sent
    }

    async fn consume(&self, subscription: &Subscription) -> Consumption {
        self.receiver.consume(self.server, subscription).await
    }

    fn topic(&self, name: &str, queues: u32) -> String {
        let topic = self.server.name(name);
        self.server.create_topic(&topic, queues);
        topic
    }
}

/// Runs a scenario, on threads of its own.
///
/// # Panics
///
/// When the scenario fails, or has not ended after five minutes; with `FULL=1`, after an hour.
pub fn run<F: Future<Output = ()>>(cast: Cast, scenario: impl FnOnce(Cast) -> F) {
    let threads = Builder::new_multi_thread().worker_threads(2).enable_all().build();
    threads.expect("threads can be started").block_on(async {
        let what = format!("{:?} to {:?} over {}", cast.sender, cast.receiver, cast.server.label());
        println!("{what}");
        let limit = Duration::from_secs(if is_full() { 3600 } else { 300 });
        let ended = tokio::time::timeout(limit, scenario(cast)).await;
        assert!(ended.is_ok(), "{what}: not within {limit:?}");
    });
}

/// A count of messages, ten times as many with `FULL=1` in the environment.
pub fn scaled(count: usize) -> usize {
    if is_full() { 10 * count } else { count }
}

/// Whether `FULL=1` is in the environment: the tests before a release, which may take long.
pub fn is_full() -> bool {
    std::env::var_os("FULL").is_some()
}

/// Makes a test of each scenario named, with the same server, sender and receiver.
#[macro_export]
macro_rules! scenarios {
    ($module:ident: $server:expr, $sender:expr, $receiver:expr; $($scenario:ident $(($argument:expr))?),+ $(,)?) => {
        mod $module {
            #[allow(unused_imports, reason = "what the expressions need")]
            use super::*;
            $(
                #[test]
                fn $scenario() {
                    let cast = $crate::scenario::Cast { server: &$server, sender: $sender, receiver: $receiver };
                    $crate::scenario::run(cast, |cast| $crate::scenario::$scenario(cast $(, $argument)?));
                }
            )+
        }
    };
}

/// As [`scenarios!`], with every scenario there is.
#[macro_export]
macro_rules! every_scenario {
    ($module:ident: $server:expr, $sender:expr, $receiver:expr) => {
        $crate::scenarios! {
            $module: $server, $sender, $receiver;
            nothing_lost_none_duplicated($crate::scenario::scaled(10_000)),
            tags_filter,
            non_ascii_tag,
            take_over,
            fails_twice_then_succeeds,
            restart_continues,
            bodies,
            unicode_properties,
            broker_restarts_while_sending,
            broker_is_killed_while_sending,
        }
    };
}

/// Many messages arrive once each, with the body, keys, ids and places that the sender was told.
pub async fn nothing_lost_none_duplicated(cast: Cast, count: usize) {
    let _running = cast.server.share().await;
    let topic = cast.topic("all", 4);
    let outgoing = Outgoing { in_flight: 32, ..Outgoing::new(&topic, count, "k-") };
    let mut consumer = cast.consume(&Subscription::new(&cast.server.name("all-group"), &topic)).await;
    let sent = cast.send(&outgoing).await;
    let received = consumer.messages(count).await;
    let rest = consumer.stop().await;
    assert_eq!(rest, [], "more deliveries than messages");
    assert_matches(&outgoing, &sent, &received);
}

/// Of three tags a consumer of two gets just these.
pub async fn tags_filter(cast: Cast) {
    let _running = cast.server.share().await;
    let topic = cast.topic("tags", 4);
    let tags = ["apple", "pear", "plum"].map(str::to_owned).to_vec();
    let outgoing = Outgoing { tags, ..Outgoing::new(&topic, 300, "k-") };
    let group = cast.server.name("tags-group");
    let subscription = Subscription { expression: "apple || plum".to_owned(), ..Subscription::new(&group, &topic) };
    let mut consumer = cast.consume(&subscription).await;
    cast.send(&outgoing).await;
    let received = consumer.messages(200).await;
    let rest = consumer.stop().await;
    assert_eq!(rest, [], "more deliveries than messages");
    let wanted: BTreeSet<String> = (0..300).filter(|index| index % 3 != 1).map(|index| outgoing.key(index)).collect();
    assert_eq!(keys(&received), wanted);
    for message in &received {
        assert_eq!(Some(message.tag.as_str()), outgoing.tag(index_of(message)), "{message:?}");
    }
}

/// A tag outside ASCII is found by its Java hash, which is over UTF-16 units.
pub async fn non_ascii_tag(cast: Cast) {
    let _running = cast.server.share().await;
    let topic = cast.topic("tag", 4);
    let outgoing =
        Outgoing { tags: ["標籤🦀".to_owned(), "étiquette".to_owned()].into(), ..Outgoing::new(&topic, 20, "k-") };
    let group = cast.server.name("tag-group");
    let subscription = Subscription { expression: "標籤🦀".to_owned(), ..Subscription::new(&group, &topic) };
    let mut consumer = cast.consume(&subscription).await;
    cast.send(&outgoing).await;
    let received = consumer.messages(10).await;
    assert_eq!(consumer.stop().await, []);
    assert_eq!(keys(&received), (0..20).step_by(2).map(|index| outgoing.key(index)).collect());
}

/// Two consumers of a group share the queues; when one leaves, the other gets all of them, and no message is lost.
pub async fn take_over(cast: Cast) {
    let _running = cast.server.share().await;
    const QUEUES: u32 = 8;
    const ROUND: usize = 40;
    let topic = cast.topic("shared", QUEUES);
    let subscription = Subscription::new(&cast.server.name("shared-group"), &topic);
    let mut first = cast.consume(&subscription).await;
    let mut second = cast.consume(&subscription).await;
    let deadline = Instant::now() + Duration::from_secs(60);
    for round in 0.. {
        let outgoing = Outgoing::new(&topic, ROUND, &format!("both-{round}-"));
        cast.send(&outgoing).await;
        let (by_first, by_second) = receive_by_two(&mut first, &mut second, &outgoing).await;
        let shared = by_first.len() == 4 && by_second.len() == 4 && by_first.is_disjoint(&by_second);
        if shared {
            break;
        }
        assert!(Instant::now() < deadline, "the queues are not shared evenly: {by_first:?} and {by_second:?}");
    }
    first.stop().await;
    for round in 0.. {
        let outgoing = Outgoing::new(&topic, ROUND, &format!("one-{round}-"));
        cast.send(&outgoing).await;
        let mut queues = BTreeSet::new();
        let mut missing: BTreeSet<String> = (0..ROUND).map(|index| outgoing.key(index)).collect();
        while !missing.is_empty() {
            let message = &second.messages(1).await[0];
            if missing.remove(&message.keys) {
                queues.insert(message.queue_id);
            }
        }
        if queues.len() == QUEUES as usize {
            break;
        }
        assert!(Instant::now() < deadline, "only queues {queues:?} of {QUEUES} are taken over");
    }
    second.stop().await;
}

/// A handler that fails twice sees each message three times, and no fourth time.
pub async fn fails_twice_then_succeeds(cast: Cast) {
    let _running = cast.server.share().await;
    const COUNT: usize = 10;
    let topic = cast.topic("retry", 4);
    let group = cast.server.name("retry-group");
    let mut consumer = cast.consume(&Subscription { fail_first: 2, ..Subscription::new(&group, &topic) }).await;
    let outgoing = Outgoing { tags: vec!["t".to_owned()], ..Outgoing::new(&topic, COUNT, "k-") };
    let sent = cast.send(&outgoing).await;
    let received = consumer.messages(3 * COUNT).await;
    let rest = consumer.stop().await;
    assert_eq!(rest, [], "a delivery after success");
    let mut times: HashMap<&str, Vec<(u32, bool)>> = HashMap::new();
    for message in &received {
        let index = index_of(message);
        assert_eq!(message.topic, topic, "the retry topic is not shown");
        assert_eq!(message.msg_id, sent_at(&sent, index).msg_id, "the id stays the same");
        assert_eq!(message.tag, "t");
        assert_eq!(message.sha1, sha1_hex(&outgoing.body.make(index)));
        times.entry(&message.keys).or_default().push((message.reconsume_times, message.succeeded));
    }
    assert_eq!(times.len(), COUNT);
    for (key, times) in times {
        assert_eq!(times, [(0, false), (1, false), (2, true)], "{key}");
    }
}

/// A consumer that comes back goes on where it stopped: nothing again, nothing left out.
pub async fn restart_continues(cast: Cast) {
    let _running = cast.server.share().await;
    let topic = cast.topic("again", 4);
    let subscription = Subscription::new(&cast.server.name("again-group"), &topic);
    let before = Outgoing::new(&topic, 100, "before-");
    let between = Outgoing::new(&topic, 100, "between-");
    let after = Outgoing::new(&topic, 100, "after-");
    let mut consumer = cast.consume(&subscription).await;
    cast.send(&before).await;
    let received = consumer.messages(100).await;
    assert_eq!(consumer.stop().await, []);
    assert_eq!(keys(&received), all_keys(&before));
    cast.send(&between).await;
    let mut consumer = cast.consume(&subscription).await;
    let mut received = consumer.messages(100).await;
    cast.send(&after).await;
    received.extend(consumer.messages(100).await);
    assert_eq!(consumer.stop().await, []);
    assert_eq!(keys(&received), all_keys(&between).union(&all_keys(&after)).cloned().collect());
}

/// Bodies of one byte, of zero bytes, of every byte value and of exactly the largest size arrive as they were sent.
pub async fn bodies(cast: Cast) {
    let _running = cast.server.share().await;
    let topic = cast.topic("bodies", 4);
    let bodies = [Body::Text(1), Body::Zeros(1), Body::Zeros(5000), Body::Bytes(5000), Body::Bytes(4 << 20)];
    let mut consumer = cast.consume(&Subscription::new(&cast.server.name("bodies-group"), &topic)).await;
    for body in bodies {
        let outgoing = Outgoing { body, ..Outgoing::new(&topic, 1, "k-") };
        let sent = cast.send(&outgoing).await;
        let received = consumer.messages(1).await;
        assert_matches(&outgoing, &sent, &received);
    }
    assert_eq!(consumer.stop().await, []);
}

/// Properties of any text arrive, beside those that clients and brokers add.
pub async fn unicode_properties(cast: Cast) {
    let _running = cast.server.share().await;
    let topic = cast.topic("properties", 4);
    let properties: BTreeMap<String, String> = [
        ("plain", "value"),
        ("ключ", "значение"),
        ("絵文字", "🦀 and 🚀"),
        ("spaces", "  two  "),
        ("marks", "a=b&c;d:e,f\"g\\h/i%20j+k"),
        ("lines", "one\ntwo\ttab"),
    ]
    .map(|(name, value)| (name.to_owned(), value.to_owned()))
    .into();
    let outgoing = Outgoing { properties, tags: vec!["タグ".to_owned()], ..Outgoing::new(&topic, 4, "clé-") };
    let mut consumer = cast.consume(&Subscription::new(&cast.server.name("properties-group"), &topic)).await;
    let sent = cast.send(&outgoing).await;
    let received = consumer.messages(4).await;
    assert_eq!(consumer.stop().await, []);
    assert_matches(&outgoing, &sent, &received);
}

/// The broker is stopped and started while messages are sent and received: every message that was acknowledged
/// arrives, and sending goes on by itself.
pub async fn broker_restarts_while_sending(cast: Cast) {
    interrupt_while_sending(cast, Control::stop_broker).await;
}

/// As when it is stopped, but the broker has no time to write anything down: what was acknowledged still arrives.
pub async fn broker_is_killed_while_sending(cast: Cast) {
    interrupt_while_sending(cast, Control::kill_broker).await;
}

async fn interrupt_while_sending(cast: Cast, end_broker: fn(&mut Control)) {
    let mut control = cast.server.exclusive().await;
    let topic = cast.topic("restart", 4);
    let mut consumer = cast.consume(&Subscription::new(&cast.server.name("restart-group"), &topic)).await;
    let (progress, mut rounds) = watch::channel(Progress::default());
    let (stop, stopped) = watch::channel(false);
    let sending = tokio::spawn(async move { send_until(cast, &topic, &progress, stopped).await });

    await_acknowledged(&mut rounds, 2).await;
    tokio::task::block_in_place(|| end_broker(&mut control));
    tokio::task::block_in_place(|| control.start_broker());
    let so_far = rounds.borrow().acknowledged;
    await_acknowledged(&mut rounds, so_far + 2).await;
    stop.send(true).expect("the sending task listens");
    let acknowledged = sending.await.expect("the sending task ends");

    let mut missing = acknowledged.clone();
    while !missing.is_empty() {
        missing.remove(&consumer.messages(1).await[0].keys);
    }
    consumer.stop().await;
    println!("{} messages were acknowledged, all arrived; {} sends failed", acknowledged.len(), rounds.borrow().failed);
}

#[derive(Debug, Default)]
struct Progress {
    /// How many rounds had every send acknowledged.
    acknowledged: u32,
    /// How many sends failed.
    failed: usize,
}

/// Sends round after round and returns the keys that were acknowledged.
async fn send_until(
    cast: Cast,
    topic: &str,
    progress: &watch::Sender<Progress>,
    stopped: watch::Receiver<bool>,
) -> BTreeSet<String> {
    let sender = cast.sender.sender(cast.server).await;
    let mut acknowledged = BTreeSet::new();
    for round in 0.. {
        let outgoing = Outgoing { in_flight: 8, ..Outgoing::new(topic, 40, &format!("{round}-")) };
        let outcome = sender.send(&outgoing).await;
        acknowledged.extend(outcome.sent.iter().map(|sent| outgoing.key(sent.index)));
        progress.send_modify(|progress| {
            progress.acknowledged += u32::from(outcome.failed.is_empty());
            progress.failed += outcome.failed.len();
        });
        if *stopped.borrow() {
            break;
        }
    }
    sender.shutdown().await;
    acknowledged
}

async fn await_acknowledged(rounds: &mut watch::Receiver<Progress>, wanted: u32) {
    let waiting = rounds.wait_for(|progress| progress.acknowledged >= wanted);
    let reached = matches!(tokio::time::timeout(Duration::from_secs(60), waiting).await, Ok(Ok(_)));
    assert!(reached, "sends are not acknowledged: {:?}", *rounds.borrow());
}

/// Each message was received once and is what the sender was told about it.
fn assert_matches(outgoing: &Outgoing, sent: &[Sent], received: &[Received]) {
    assert_eq!(keys(received), all_keys(outgoing));
    assert_eq!(received.len(), outgoing.count, "a message was delivered twice");
    let by_index: HashMap<usize, &Sent> = sent.iter().map(|sent| (sent.index, sent)).collect();
    for message in received {
        let index = index_of(message);
        let sent = by_index[&index];
        let body = outgoing.body.make(index);
        assert_eq!((message.size, message.sha1.as_str()), (body.len(), sha1_hex(&body).as_str()), "{message:?}");
        assert_eq!(message.msg_id, sent.msg_id, "{message:?}");
        assert_eq!((message.queue_id, message.queue_offset), (sent.queue_id, sent.queue_offset), "{message:?}");
        assert_eq!(message.topic, outgoing.topic);
        assert_eq!(message.tag, outgoing.tag(index).unwrap_or_default(), "{message:?}");
        assert_eq!((message.reconsume_times, message.succeeded), (0, true), "{message:?}");
        for (name, value) in &outgoing.properties {
            assert_eq!(message.properties.get(name), Some(value), "{message:?}");
        }
    }
}

/// Receives all of one round from either consumer and tells which queues each had.
async fn receive_by_two(
    first: &mut Consumption,
    second: &mut Consumption,
    outgoing: &Outgoing,
) -> (BTreeSet<u32>, BTreeSet<u32>) {
    let mut missing = all_keys(outgoing);
    let (mut by_first, mut by_second) = (BTreeSet::new(), BTreeSet::new());
    while !missing.is_empty() {
        // While queues change hands a message may come twice: at least once is what is promised.
        let (message, queues) = tokio::select! {
            messages = first.messages(1) => (messages, &mut by_first),
            messages = second.messages(1) => (messages, &mut by_second),
        };
        let message = &message[0];
        if all_keys(outgoing).contains(&message.keys) {
            missing.remove(&message.keys);
            queues.insert(message.queue_id);
        }
    }
    (by_first, by_second)
}

fn keys(received: &[Received]) -> BTreeSet<String> {
    received.iter().map(|message| message.keys.clone()).collect()
}

fn all_keys(outgoing: &Outgoing) -> BTreeSet<String> {
    (0..outgoing.count).map(|index| outgoing.key(index)).collect()
}

fn index_of(message: &Received) -> usize {
    let digits = message.keys.rsplit('-').next().unwrap_or_default();
    digits.parse().unwrap_or_else(|error| panic!("{error} in the key of {message:?}"))
}

fn sent_at(sent: &[Sent], index: usize) -> &Sent {
    sent.iter().find(|sent| sent.index == index).unwrap_or_else(|| panic!("no message {index} was sent"))
}
