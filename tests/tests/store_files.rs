//! One store directory, served in turn by our broker and by Apache's: each finds what the other left, byte for byte.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use rocketmq_tests::{
    apache::{ApacheCluster, ApacheOptions, create_topic},
    cache,
    foreign::{Arguments, Driver},
    mock_process::MockProcess,
    party::{java, java_4_4_0, java_4_9_7},
    process::poll,
    stored::{self, Queue},
};

/// Files so small that the messages fill several of each kind.
const SIZES: [(&str, &str); 6] = [
    ("mappedFileSizeCommitLog", "65536"),
    ("mapedFileSizeCommitLog", "65536"),
    ("mappedFileSizeConsumeQueue", "400"),
    ("mapedFileSizeConsumeQueue", "400"),
    ("maxHashSlotNum", "50"),
    ("maxIndexNum", "100"),
];
const DELAYS: (&str, &str) = ("messageDelayLevel", "1s 8s 2h");
/// Half messages wait long for a producer here; they must not be given up meanwhile.
const CHECKS: [(&str, &str); 3] =
    [("transactionTimeOut", "2000"), ("transactionCheckInterval", "2000"), ("transactionCheckMax", "1000")];
const TOPICS: [&str; 2] = ["FilesA", "FilesB"];
/// Where delayed messages go, which arrive while the others are compared.
const LATER: &str = "FilesLater";
const QUEUES: u32 = 2;

/// Where transactions are left undecided, and who sends them.
const HALVES: &str = "FilesHalves";
const PRODUCERS: &str = "files-producers";
const LIMIT: Duration = Duration::from_secs(150);

/// A running broker and the Java client that looks at it.
struct Site {
    name_server: String,
    broker: String,
    client: &'static Driver,
}

impl Site {
    fn arguments(&self, topic: &str) -> Arguments {
        Arguments::new().set("name_server", &self.name_server).set("topic", topic)
    }

    /// Reads a topic from its beginning with a group of its own: queue, offset, id, keys and body of each message.
    fn read(&self, topic: &str, count: u64) -> BTreeSet<(u32, u64, String, String, String)> {
        let group = format!("files-{}", SystemTime::now().duration_since(UNIX_EPOCH).expect("later").as_nanos());
        let mut read = BTreeSet::new();
        rocketmq_tests::administration::run(async {
            let mut consumer = self.client.consume(&self.arguments(topic).set("group", group)).await;
            for message in consumer.messages(usize::try_from(count).expect("few")).await {
                read.insert((message.queue_id, message.queue_offset, message.msg_id, message.keys, message.sha1));
            }
            consumer.stop().await;
        });
        assert_eq!(read.len() as u64, count, "the Java client on {topic}");
        read
    }

    /// Leaves a half message that nobody decides.
    fn leave_half(&self, index: u32) {
        let id = format!("7F0000010000000000000000{index:08X}");
        let properties = format!(
            "TRAN_MSG\u{1}true\u{2}PGROUP\u{1}{PRODUCERS}\u{2}UNIQ_KEY\u{1}{id}\u{2}KEYS\u{1}half{index}\u{2}\
             index\u{1}{index}\u{2}WAIT\u{1}true\u{2}"
        );
        // One that was made days ago would be passed over.
        let born_ms = SystemTime::now().duration_since(UNIX_EPOCH).expect("later").as_millis();
        let body = format!("half {index}");
        let answer = stored::try_send_born(&self.broker, (HALVES, 0), &properties, body.as_bytes(), born_ms);
        assert_eq!(answer.code, 0, "{:?}", answer.remark);
    }

    /// A producer of the group comes, is asked about what was left, and commits it; it is delivered then.
    fn decide_half(&self, index: u32) {
        let arguments = self
            .arguments(HALVES)
            .set("group", PRODUCERS)
            .set("mode", "transaction")
            .set("heartbeat", 1000)
            .set("keys", format!("decider{index}"))
            .set("await_checks", 1);
        let mut events = Vec::new();
        rocketmq_tests::administration::run(async {
            events = self.client.produce(&arguments).events(LIMIT).await;
        });
        let key = format!("half{index}");
        assert!(events.iter().any(|event| event["event"] == "checked" && event["keys"] == key), "{events:?}");
        let body = format!("half {index}");
        let delivered =
            |queue: &Queue| queue.records.windows(body.len()).filter(|window| *window == body.as_bytes()).count();
        poll("the decided message", LIMIT, || {
            let times: usize = (0..QUEUES).map(|queue| delivered(&stored::queue(&self.broker, HALVES, queue))).sum();
            (times > 0).then_some(())
        });
    }
}

/// What a broker says about the whole store.
#[derive(Debug, Default, PartialEq, Eq)]
struct View {
    by_java: BTreeSet<(u32, u64, String, String, String)>,
    queues: BTreeMap<(String, u32), Queue>,
    by_key: BTreeMap<String, Vec<u8>>,
    committed: u64,
}

impl View {
    fn of(site: &Site, messages: u32) -> View {
        let broker = &site.broker;
        let queues = stored::topics(broker, &TOPICS, QUEUES);
        let keys = (0..messages).map(|index| format!("key{index}")).chain(["shared".to_owned()]);
        let by_key = keys.map(|key| (key.clone(), stored::by_key(broker, "FilesA", &key))).collect();
        let count = queues.iter().filter(|((topic, _), _)| topic == TOPICS[0]).map(|(_, queue)| queue.max_offset).sum();
        // After a clean stop and after a kill; each time takes seconds.
        let by_java = if [60, 140].contains(&messages) { site.read(TOPICS[0], count) } else { BTreeSet::new() };
        View { by_java, queues, by_key, committed: stored::committed(broker, "FilesA", 0) }
    }

    /// After a kill Apache's brokers, unlike ours, make the last index file anew only from where they recover: keys from
    /// before may be lost, after kills of their own too. Leaves out what `found` does not have at all.
    fn without_lost_keys(mut self, found: &View) -> View {
        let kept = |key: &str| key != "shared" && !found.by_key[key].is_empty();
        self.by_key.retain(|key, _| kept(key));
        assert!(self.by_key.len() > 10, "most keys are lost: {:?}", self.by_key.keys());
        self
    }

    /// Fails with a short text: the records themselves are too long to read.
    fn assert_same(&self, other: &View, what: &str) {
        assert_eq!(self.committed, other.committed, "{what}: committed offset");
        assert_eq!(self.by_java, other.by_java, "{what}: what the Java client reads");
        for (place, queue) in &self.queues {
            let other = &other.queues[place];
            let offsets = |queue: &Queue| (queue.min_offset, queue.max_offset, queue.records.len());
            assert_eq!(offsets(queue), offsets(other), "{what}: {place:?}");
            assert!(queue.records == other.records, "{what}: the records of {place:?} differ");
        }
        for (key, records) in &self.by_key {
            assert_eq!(records.len(), other.by_key[key].len(), "{what}: {key}");
            assert!(*records == other.by_key[key], "{what}: the messages with {key} differ");
        }
    }
}

/// Sends messages of many sizes to all queues, the numbers from `from` on.
fn fill(broker: &str, from: u32, count: u32) {
    let mut ends = BTreeMap::new();
    for index in from..from + count {
        let topic = TOPICS[(index % 3 / 2) as usize];
        let properties = format!("TAGS\u{1}tag{}\u{2}KEYS\u{1}key{index} shared\u{2}WAIT\u{1}true\u{2}", index % 4);
        let body = vec![index as u8; (index * 397 % 5000) as usize + 1];
        let queue = index / 3 % QUEUES;
        let offset = stored::send(broker, topic, queue, &properties, &body);
        ends.insert((topic, queue), offset + 1);
    }
    // Apache's brokers carry what they have answered into the queues and the index a moment later.
    poll("all messages in their queues and in the index", Duration::from_secs(150), || {
        let in_queues = ends.iter().all(|((topic, queue), end)| stored::max_offset(broker, topic, *queue) >= *end);
        let last = (from..from + count).rev().find(|index| index % 3 / 2 == 0).expect("a message of the first topic");
        let is_indexed = !stored::by_key(broker, TOPICS[0], &format!("key{last}")).is_empty();
        (in_queues && is_indexed).then_some(())
    });
    // 5.3 commits only for a group that it knows, as from a pull.
    stored::pull(broker, "FilesA", 0, 0);
    stored::commit(broker, "FilesA", 0, u64::from(from + 1));
}

fn mock(directory: &Path, version: &str) -> MockProcess {
    let compatibility = ("compatibility", &version[..3]);
    MockProcess::start_in(directory, &[&SIZES[..], &CHECKS, &[DELAYS, compatibility]].concat())
}

fn apache(directory: &Path, version: &str) -> ApacheCluster {
    let mut options = ApacheOptions { store: Some(directory.join("store")), ..ApacheOptions::default() };
    for (key, value) in SIZES.into_iter().chain([DELAYS]).chain(CHECKS) {
        options = options.set(key, value);
    }
    ApacheCluster::start(version, options)
}

/// Waits for the message that was delayed by another broker.
fn await_delayed(broker: &str, body: &[u8]) {
    poll("the delayed message", Duration::from_secs(40), || {
        let queue = stored::queue(broker, LATER, 0);
        queue.records.windows(body.len()).any(|window| window == body).then_some(())
    });
}

/// Has a message delivered in ten seconds at a time of its own, if the version knows how.
fn time(broker: &str, version: &str, body: &[u8]) {
    if version.starts_with("5.") {
        let due = SystemTime::now().duration_since(UNIX_EPOCH).expect("later").as_millis() + 10_000;
        stored::send(broker, LATER, 1, &format!("TIMER_DELIVER_MS\u{1}{due}\u{2}"), body);
    }
}

fn await_timed(broker: &str, version: &str, body: &[u8]) {
    if version.starts_with("5.") {
        poll("the timed message", LIMIT, || {
            let queue = stored::queue(broker, LATER, 1);
            let times = queue.records.windows(body.len()).filter(|window| *window == body).count();
            assert!(times <= 1, "timed once, delivered {times} times");
            (times == 1).then_some(())
        });
    }
}

fn both_ways(version: &str, client: &'static Driver) {
    let directory = cache::run_directory(&format!("files-{version}"));
    let mut ours = mock(&directory, version);
    let addresses = ours.addresses().clone();
    let our_site = Site { name_server: addresses.name_server.clone(), broker: addresses.broker.clone(), client };
    for topic in TOPICS.into_iter().chain([LATER, HALVES]) {
        create_topic(&addresses.name_server, &addresses.broker, topic, QUEUES);
    }
    fill(&our_site.broker, 0, 60);
    let left = View::of(&our_site, 60);
    our_site.leave_half(1);
    stored::send(&our_site.broker, LATER, 0, "DELAY\u{1}2\u{2}", b"delayed by ours");
    time(&our_site.broker, version, b"timed by ours");
    ours.stop();

    // A cluster each time: between two starts another process may take one of its ports.
    let mut theirs = apache(&directory, version);
    let site = Site { name_server: theirs.name_server(), broker: theirs.broker(), client };
    left.assert_same(&View::of(&site, 60), "Apache on what we left");
    await_delayed(&site.broker, b"delayed by ours");
    await_timed(&site.broker, version, b"timed by ours");
    site.decide_half(1);
    fill(&site.broker, 60, 40);
    let left = View::of(&site, 100);
    site.leave_half(2);
    stored::send(&site.broker, LATER, 0, "DELAY\u{1}2\u{2}", b"delayed by Apache");
    time(&site.broker, version, b"timed by Apache");
    theirs.stop_broker();
    drop(theirs);

    ours.start_again();
    left.assert_same(&View::of(&our_site, 100), "ours on what Apache left");
    await_delayed(&our_site.broker, b"delayed by Apache");
    await_timed(&our_site.broker, version, b"timed by Apache");
    our_site.decide_half(2);
    fill(&our_site.broker, 100, 40);
    // Every five seconds; a kill may take back what was committed since.
    let left = View::of(&our_site, 140);
    our_site.leave_half(3);
    ours.kill();

    let mut theirs = apache(&directory, version);
    let site = Site { name_server: theirs.name_server(), broker: theirs.broker(), client };
    let mut found = View::of(&site, 140);
    found.committed = left.committed;
    left.without_lost_keys(&found).assert_same(&found, "Apache after we were killed");
    site.decide_half(3);
    fill(&site.broker, 140, 40);
    let left = View::of(&site, 180);
    let known = View { by_key: left.by_key.clone(), ..View::default() };
    let left = left.without_lost_keys(&known);
    site.leave_half(4);
    theirs.kill_broker();

    ours.start_again();
    let mut found = View::of(&our_site, 180);
    found.committed = left.committed;
    left.assert_same(&found, "ours after Apache was killed");
    our_site.decide_half(4);
    ours.stop();
}

#[test]
fn apache_4_4_0_and_ours_take_turns() {
    both_ways("4.4.0", java_4_4_0().driver());
}

#[test]
fn apache_4_9_7_and_ours_take_turns() {
    both_ways("4.9.7", java_4_9_7().driver());
}

#[test]
fn apache_5_3_3_and_ours_take_turns() {
    both_ways("5.3.3", java().driver());
}
