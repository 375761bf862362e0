//! One store directory, served in turn by our broker and by Apache's: each finds what the other left, byte for byte.

use std::{collections::BTreeMap, path::Path, time::Duration};

use rocketmq_tests::{
    apache::{ApacheCluster, ApacheOptions, create_topic},
    cache,
    mock_process::MockProcess,
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
const TOPICS: [&str; 2] = ["FilesA", "FilesB"];
/// Where delayed messages go, which arrive while the others are compared.
const LATER: &str = "FilesLater";
const QUEUES: u32 = 2;

/// What a broker says about the whole store.
#[derive(Debug, PartialEq, Eq)]
struct View {
    queues: BTreeMap<(String, u32), Queue>,
    by_key: BTreeMap<String, Vec<u8>>,
    committed: u64,
}

impl View {
    fn of(broker: &str, messages: u32) -> View {
        let queues = stored::topics(broker, &TOPICS, QUEUES);
        let keys = (0..messages).map(|index| format!("key{index}")).chain(["shared".to_owned()]);
        let by_key = keys.map(|key| (key.clone(), stored::by_key(broker, "FilesA", &key))).collect();
        View { queues, by_key, committed: stored::committed(broker, "FilesA", 0) }
    }

    /// Fails with a short text: the records themselves are too long to read.
    fn assert_same(&self, other: &View, what: &str) {
        assert_eq!(self.committed, other.committed, "{what}: committed offset");
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
    MockProcess::start_in(directory, &[&SIZES[..], &[DELAYS, compatibility]].concat())
}

fn apache(directory: &Path, version: &str) -> ApacheCluster {
    let mut options = ApacheOptions { store: Some(directory.join("store")), ..ApacheOptions::default() };
    for (key, value) in SIZES.into_iter().chain([DELAYS]) {
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

fn both_ways(version: &str) {
    let directory = cache::run_directory(&format!("files-{version}"));
    let mut ours = mock(&directory, version);
    let broker = ours.addresses().broker.clone();
    for topic in TOPICS.into_iter().chain([LATER]) {
        create_topic(&ours.addresses().name_server, &broker, topic, QUEUES);
    }
    fill(&broker, 0, 60);
    stored::send(&broker, LATER, 0, "DELAY\u{1}2\u{2}", b"delayed by ours");
    let left = View::of(&broker, 60);
    ours.stop();

    // A cluster each time: between two starts another process may take one of its ports.
    let mut theirs = apache(&directory, version);
    let broker = theirs.broker();
    left.assert_same(&View::of(&broker, 60), "Apache on what we left");
    await_delayed(&broker, b"delayed by ours");
    fill(&broker, 60, 40);
    stored::send(&broker, LATER, 0, "DELAY\u{1}2\u{2}", b"delayed by Apache");
    let left = View::of(&broker, 100);
    theirs.stop_broker();
    drop(theirs);

    ours.start_again();
    let broker = ours.addresses().broker.clone();
    left.assert_same(&View::of(&broker, 100), "ours on what Apache left");
    await_delayed(&broker, b"delayed by Apache");
    fill(&broker, 100, 40);
    // Every five seconds; a kill may take back what was committed since.
    let left = View::of(&broker, 140);
    ours.kill();

    let mut theirs = apache(&directory, version);
    let broker = theirs.broker();
    let mut found = View::of(&broker, 140);
    found.committed = left.committed;
    left.assert_same(&found, "Apache after we were killed");
    fill(&broker, 140, 40);
    let left = View::of(&broker, 180);
    theirs.kill_broker();

    ours.start_again();
    let mut found = View::of(&ours.addresses().broker, 180);
    found.committed = left.committed;
    left.assert_same(&found, "ours after Apache was killed");
    ours.stop();
}

#[test]
fn apache_4_4_0_and_ours_take_turns() {
    both_ways("4.4.0");
}

#[test]
fn apache_4_9_7_and_ours_take_turns() {
    both_ways("4.9.7");
}

#[test]
fn apache_5_3_3_and_ours_take_turns() {
    both_ways("5.3.3");
}
