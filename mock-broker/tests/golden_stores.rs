//! Stores that Apache's broker left behind, opened by ours: every message is where the listing says.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use rocketmq_mock_broker::store::{GetStatus, PutMessage, Store, StoreConfig};
use rocketmq_wire::message::StoredMessage;
use serde_json::Value;

const SCHEDULE: &str = "SCHEDULE_TOPIC_XXXX";

/// Reads and unpacks a golden file.
fn unpacked(name: &str) -> Vec<u8> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(name);
    let packed = fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let mut content = Vec::new();
    flate2::read::GzDecoder::new(packed.as_slice()).read_to_end(&mut content).expect("gzip");
    content
}

/// Unpacks an archive of golden files.
fn extract(name: &str, directory: &Path) {
    let archive = unpacked(name);
    let text = |field: &[u8]| field.split(|&byte| byte == 0).next().map(<[u8]>::to_vec).unwrap_or_default();
    let mut rest = archive.as_slice();
    while rest.len() >= 512 && rest[0] != 0 {
        let (header, content) = rest.split_at(512);
        let name = String::from_utf8(text(&header[..100])).unwrap();
        let size = String::from_utf8(text(&header[124..136])).unwrap();
        let size = usize::from_str_radix(size.trim(), 8).expect("octal size");
        if matches!(header[156], b'0' | 0) {
            let path = directory.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, &content[..size]).unwrap();
        }
        rest = &content[size.next_multiple_of(512)..];
    }
}

/// A copy of a golden store in a directory of its own, with what it should hold.
struct Golden {
    directory: tempfile::TempDir,
    listing: Value,
}

impl Golden {
    fn unpack(version: &str) -> Golden {
        let directory = tempfile::tempdir().unwrap();
        extract(&format!("tests/golden/stores/{version}.tar.gz"), directory.path());
        // The codec's tests use the same listing.
        let listing = unpacked(&format!("../rocketmq-wire/tests/golden/stores/{version}.json.gz"));
        let listing = serde_json::from_slice(&listing).expect("JSON");
        Golden { directory, listing }
    }

    fn path(&self) -> PathBuf {
        self.directory.path().join("store")
    }

    fn open(&self) -> Store {
        Store::open(&self.path(), StoreConfig::disk()).expect("the store can be opened")
    }

    fn rows(&self, name: &str) -> &[Value] {
        let rows = self.listing[name].as_array().expect(name);
        assert!(!rows.is_empty(), "{name} is empty");
        rows
    }

    /// Bytes of all log files, by name.
    fn log(&self) -> BTreeMap<String, Vec<u8>> {
        let files = fs::read_dir(self.path().join("commitlog")).unwrap().map(|entry| entry.unwrap());
        files.map(|file| (file.file_name().into_string().unwrap(), fs::read(file.path()).unwrap())).collect()
    }
}

fn number(value: &Value) -> i64 {
    value.as_i64().unwrap_or_else(|| value.as_str().and_then(|text| text.parse().ok()).expect("a number"))
}

fn check(store: &Store, golden: &Golden) {
    for queue in golden.rows("consumeQueues") {
        let (topic, queue_id) = (queue["topic"].as_str().unwrap(), number(&queue["queueId"]) as i32);
        let entries = queue["entries"].as_array().unwrap();
        assert_eq!(store.min_offset(topic, queue_id), 0);
        assert_eq!(store.max_offset(topic, queue_id), entries.len() as u64, "{topic} {queue_id}");
        for entry in entries {
            let [offset, physical_offset, size, tags_code] = [0, 1, 2, 3].map(|column| number(&entry[column]));
            let with_this_code = |code: i64| code == tags_code;
            let found = store.get(topic, queue_id, offset as u64, 1, usize::MAX, &with_this_code);
            assert_eq!(found.status, GetStatus::Found, "{topic} {queue_id} {entry}");
            let (found, size_found) = StoredMessage::parse(found.messages[0].clone()).unwrap();
            assert_eq!((found.queue_offset(), found.physical_offset()), (offset, physical_offset));
            assert_eq!(size_found as i64, size);
        }
    }
    for listed in golden.rows("messages") {
        let bytes = store.message_at(number(&listed["commitLogOffset"]) as u64).expect("the listed message");
        let (found, size) = StoredMessage::parse(bytes).unwrap();
        found.verify_crc().unwrap();
        assert_eq!(Some(found.topic()), listed["topic"].as_str());
        for (name, value) in [
            ("queueId", i64::from(found.queue_id())),
            ("queueOffset", found.queue_offset()),
            ("storeSize", size as i64),
            ("bodyCRC", i64::from(found.body_crc())),
            ("bornTimestamp", found.born_timestamp()),
            ("storeTimestamp", found.store_timestamp()),
            ("reconsumeTimes", i64::from(found.reconsume_times())),
            ("preparedTransactionOffset", found.prepared_transaction_offset()),
        ] {
            assert_eq!(value, number(&listed[name]), "{name} of {listed}");
        }
    }
}

fn message<'a>(topic: &'a str, body: &'a [u8]) -> PutMessage<'a> {
    let host = "127.0.0.1:10911".parse().unwrap();
    PutMessage {
        topic,
        queue_id: 0,
        flag: 0,
        sys_flag: 0,
        born_timestamp: 0,
        born_host: host,
        store_host: host,
        reconsume_times: 0,
        prepared_transaction_offset: 0,
        body,
        properties: b"",
    }
}

/// Puts more messages than the files have room for, and reads them back from a store that was opened again.
fn go_on(golden: &Golden, mut store: Store) {
    let first = store.max_offset("GoldenStoreA", 0);
    let body = |index: u64| vec![index as u8; 700];
    for index in 0..40 {
        let outcome = store.put(1, &message("GoldenStoreA", &body(index))).unwrap();
        assert_eq!(outcome.queue_offset, first + index);
    }
    store.close(1).unwrap();
    let store = golden.open();
    for index in 0..40 {
        let found = store.get("GoldenStoreA", 0, first + index, 1, usize::MAX, &|_| true);
        let (found, _) = StoredMessage::parse(found.messages[0].clone()).unwrap();
        assert_eq!(found.body(), body(index));
    }
}

#[test]
fn stores_of_three_versions_serve_what_is_listed() {
    for version in ["4.4.0", "4.9.7", "5.3.3"] {
        let golden = Golden::unpack(version);
        let log = golden.log();
        let store = golden.open();
        assert_eq!(store.max_physical_offset() as i64, number(&golden.listing["commitLogMaxOffset"]), "{version}");
        check(&store, &golden);
        store.close(0).unwrap();
        assert!(golden.log() == log, "opening changed the log of {version}");

        // The same from the log alone.
        fs::remove_dir_all(golden.path().join("consumequeue")).unwrap();
        let store = golden.open();
        check(&store, &golden);
        go_on(&golden, store);
    }
}

#[test]
fn a_delayed_message_that_waits_in_apache_s_store_is_delivered() {
    for version in ["4.4.0", "4.9.7", "5.3.3"] {
        let golden = Golden::unpack(version);
        let mut store = golden.open();
        let waiting = golden.rows("messages").iter().find(|row| row["topic"] == SCHEDULE && row["queueId"] == 17);
        let waiting = waiting.expect("a message of level 18");
        let due = number(&waiting["tagsCode"]);
        let stored = number(&waiting["storeTimestamp"]);
        let properties = waiting["properties"].as_object().unwrap();
        let (topic, queue_id) = (properties["REAL_TOPIC"].as_str().unwrap(), properties["REAL_QID"].as_str().unwrap());
        let queue_id: i32 = queue_id.parse().unwrap();
        let before = store.max_offset(topic, queue_id);

        // Level 1 was delivered by Apache, which noted it.
        assert_eq!(store.next_delivery(stored), Some(due), "{version}");
        let early = store.deliver_scheduled(due - 1, &mut |_| {}).unwrap();
        assert_eq!((early.count, early.next_due), (0, Some(due)), "{version}");
        let mut arrived = Vec::new();
        let delivered = store.deliver_scheduled(due, &mut |arrival| arrived.push(arrival.topic.to_owned())).unwrap();
        assert_eq!((delivered.count, delivered.next_due), (1, None));
        assert_eq!(arrived, [topic]);

        let found = store.get(topic, queue_id, before, 1, usize::MAX, &|_| true);
        let (found, _) = StoredMessage::parse(found.messages[0].clone()).unwrap();
        assert_eq!(i64::from(found.body_crc()), number(&waiting["bodyCRC"]));
        let given: BTreeMap<_, _> = found.properties().to_map();
        for (name, value) in properties {
            assert_eq!(given.get(name).map(String::as_str), value.as_str(), "{version} {name}");
        }
    }
}

#[test]
fn a_store_of_a_killed_broker_recovers_as_apache_recovers_it() {
    let golden = Golden::unpack("4.9.7-killed");
    assert!(golden.path().join("abort").exists());
    let store = golden.open();
    let recovered = &golden.listing["recoveredByApacheBroker"];
    assert_eq!(store.min_physical_offset() as i64, number(&recovered["commitLogMinOffset"]));
    assert_eq!(store.max_physical_offset() as i64, number(&recovered["commitLogMaxOffset"]));
    for queue in recovered["queues"].as_array().unwrap() {
        let (topic, queue_id) = (queue["topic"].as_str().unwrap(), number(&queue["queueId"]) as i32);
        assert_eq!(store.min_offset(topic, queue_id) as i64, number(&queue["minOffset"]));
        assert_eq!(store.max_offset(topic, queue_id) as i64, number(&queue["maxOffset"]));
    }
    check(&store, &golden);
    assert_eq!(golden.log().len(), 2, "the spare file is gone");
    go_on(&golden, store);
}

#[test]
fn a_store_cut_at_any_record_keeps_what_is_before() {
    let golden = Golden::unpack("4.9.7-killed");
    let copy = |from: &Path, to: &Path| {
        fs::create_dir_all(to).unwrap();
        fs::copy(from, to.join(from.file_name().unwrap())).unwrap();
    };
    let mut offsets: Vec<i64> = golden.rows("messages").iter().map(|row| number(&row["commitLogOffset"])).collect();
    offsets.sort_unstable();
    // The last file has 64 KiB from 65,536 on.
    for (index, &offset) in offsets.iter().enumerate().filter(|(_, offset)| **offset >= 65_536).step_by(3) {
        let directory = tempfile::tempdir().unwrap();
        let log = directory.path().join("commitlog");
        for name in ["00000000000000000000", "00000000000000065536"] {
            copy(&golden.path().join("commitlog").join(name), &log);
        }
        let last = log.join("00000000000000065536");
        let mut bytes = fs::read(&last).unwrap();
        // In the middle of the record's head.
        bytes[offset as usize - 65_536 + 50..].fill(0);
        fs::write(&last, bytes).unwrap();
        fs::write(directory.path().join("abort"), "").unwrap();
        let store = Store::open(directory.path(), StoreConfig::disk()).unwrap();
        assert_eq!(store.max_physical_offset() as i64, offset);
        let kept = store.max_offset("GoldenStoreA", 0) + store.max_offset("GoldenStoreA", 1);
        assert_eq!(kept, index as u64);
    }
}

/// The index file of a golden store.
fn index_file(golden: &Golden) -> PathBuf {
    let files = fs::read_dir(golden.path().join("index")).unwrap();
    let files: Vec<PathBuf> = files.map(|entry| entry.unwrap().path()).collect();
    assert_eq!(files.len(), 1);
    files.into_iter().next().unwrap()
}

#[test]
fn the_index_made_from_the_log_is_the_one_that_apache_made() {
    for (version, entries) in [("4.4.0", 200), ("4.9.7", 200), ("5.3.3", 200), ("4.9.7-killed", 400)] {
        let golden = Golden::unpack(version);
        let apache = fs::read(index_file(&golden)).unwrap();
        let mut config = StoreConfig::disk();
        (config.index_slots, config.index_entries) = (50, entries);
        let open = || Store::open(&golden.path(), config.clone()).unwrap();

        // Opened as it is, and made anew.
        open().close(0).unwrap();
        let kept = fs::read(index_file(&golden)).unwrap();
        fs::remove_dir_all(golden.path().join("index")).unwrap();
        open().close(0).unwrap();
        let made = fs::read(index_file(&golden)).unwrap();
        let used = 240 + 20 * u32::from_be_bytes(*apache[36..].first_chunk().unwrap()) as usize;
        let used_slots = if version == "4.4.0" { 32..36 } else { 0..0 };
        for (name, ours) in [("kept", &kept), ("made", &made)] {
            assert_eq!(ours.len(), apache.len());
            for (at, (ours, apache)) in ours.iter().zip(&apache).enumerate().take(used) {
                assert!(ours == apache || used_slots.contains(&at), "{version}: byte {at} of the {name} index differs");
            }
        }

        let mut store = open();
        for listed in golden.rows("messages") {
            let (topic, offset) = (listed["topic"].as_str().unwrap(), number(&listed["commitLogOffset"]) as u64);
            let properties = &listed["properties"];
            let keys =
                properties["KEYS"].as_str().unwrap_or_default().split(' ').chain(properties["UNIQ_KEY"].as_str());
            for key in keys.filter(|key| !key.is_empty()) {
                let found = store.query(topic, key, 64, 0..=i64::MAX);
                let record = store.message_at(offset).unwrap();
                let shared = found.messages.len() == 64;
                assert!(shared || found.messages.contains(&record), "{version}: {topic} {key}");
            }
        }
    }
}

#[test]
fn a_timer_that_apache_left_waiting_is_delivered_once_and_the_delivered_one_is_not() {
    use rocketmq_mock_broker::store::TimerConfig;
    let golden = Golden::unpack("5.3.3");
    extract("tests/golden/stores/5.3.3-timers.tar.gz", golden.directory.path());
    let mut config = StoreConfig::disk();
    config.timers = Some(TimerConfig::default());
    let open = || Store::open(&golden.path(), config.clone()).expect("the store can be opened");
    let mut store = open();
    let before = store.max_offset("GoldenStoreB", 0);
    // What the waiting message says: one second before 3600 s after it was sent.
    let due = 1_795_962_244_000;
    assert_eq!(store.deliver_timed(due - 1, &mut |_| {}).unwrap(), 0);
    assert_eq!(store.deliver_timed(due, &mut |_| {}).unwrap(), 1);
    let found = store.get("GoldenStoreB", 0, before, 32, usize::MAX, &|_| true);
    let [message] = &found.messages[..] else { panic!("one message") };
    let message = StoredMessage::parse(message.clone()).unwrap().0;
    assert_eq!(message.property("KEYS"), Some("timer-pending"));
    assert_eq!(message.property("TIMER_ENQUEUE_MS"), Some("1795958644000"));
    drop(store);
    assert_eq!(open().deliver_timed(due + 60_000, &mut |_| {}).unwrap(), 0);
}
