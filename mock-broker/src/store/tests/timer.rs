//! Messages for any time, on a clock that is turned by hand.

use std::fs;
use std::path::Path;

use rocketmq_wire::message::names::TIMER_TOPIC;
use rocketmq_wire::message::{StoredMessage, properties, tag_hash};
use serde_json::Value;

use crate::store::test_support::*;
use crate::store::{PutError, PutMessage, Store, StoreConfig, TimerConfig};

fn config() -> StoreConfig {
    StoreConfig { timers: Some(TimerConfig::default()), ..StoreConfig::memory() }
}

fn timed(properties: &[u8]) -> PutMessage<'_> {
    PutMessage { queue_id: 1, properties, ..message("T", properties) }
}

/// The bodies that are there once it is `now`, in the order in which they came.
fn at(store: &mut Store, now: i64) -> Vec<String> {
    store.deliver_timed(now, &mut |_| {}).unwrap();
    read_all(store, "T", 1).iter().map(|message| String::from_utf8_lossy(&message.body()).into_owned()).collect()
}

fn put_for(store: &mut Store, now: i64, deliver_ms: i64, more: &str) {
    let text = format!("TIMER_DELIVER_MS\u{1}{deliver_ms}\u{2}{more}");
    let body = deliver_ms.to_string();
    let message = PutMessage { queue_id: 1, properties: text.as_bytes(), ..message("T", body.as_bytes()) };
    store.put(now, &message).unwrap();
}

#[test]
fn times_are_taken_as_apache_s_classes_take_them() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/vectors/timer.jsonl");
    let text = fs::read_to_string(&path).unwrap();
    let base = NOW + 60_000 - NOW % 60_000;
    let mut checked = 0;
    for line in text.lines() {
        let row: Value = serde_json::from_str(line).unwrap();
        let given = row["props"].as_object().unwrap();
        // A property string can carry neither a level that is no number nor an empty value.
        if row.get("error").is_some() || given.values().any(|value| value == "") {
            continue;
        }
        let time = |text: &str| match (text.strip_prefix("BASE+"), text.strip_prefix("NOW+")) {
            (Some(more), _) => (base + more.parse::<i64>().unwrap()).to_string(),
            (_, Some(more)) => (NOW + more.parse::<i64>().unwrap()).to_string(),
            _ => text.to_owned(),
        };
        let sent: String =
            given.iter().map(|(name, value)| format!("{name}\u{1}{}\u{2}", time(value.as_str().unwrap()))).collect();
        let precision_ms = row["timerPrecisionMs"].as_i64().unwrap_or(1000);
        let enabled = row["timerWheelEnable"].as_bool().unwrap_or(true);
        let max_delay_ms = row["timerMaxDelaySec"].as_i64().unwrap_or(259_200) * 1000;
        let timers = Some(TimerConfig { precision_ms, enabled, max_delay_ms, ..TimerConfig::default() });
        let mut store = Store::memory(StoreConfig { timers, ..StoreConfig::memory() });
        let topic = row["topic"].as_str().unwrap_or("TopicTest");
        let sys_flag = row["sys_flag"].as_i64().unwrap_or(0) as i32;
        let message = PutMessage { queue_id: 3, sys_flag, properties: sent.as_bytes(), ..message(topic, b"x") };
        let result = store.put(NOW, &message);
        checked += 1;
        match row["put_status"].as_str() {
            Some("WHEEL_TIMER_MSG_ILLEGAL") => assert!(matches!(result, Err(PutError::TimerIllegal { .. })), "{line}"),
            Some("WHEEL_TIMER_NOT_ENABLE") => assert!(matches!(result, Err(PutError::TimerDisabled)), "{line}"),
            Some(status) => panic!("{status}"),
            None => {
                let outcome = result.unwrap_or_else(|error| panic!("{line}: {error}"));
                let stored = StoredMessage::parse(store.message_at(outcome.physical_offset).unwrap()).unwrap().0;
                assert_eq!(stored.topic(), row["topic_after"], "{line}");
                assert_eq!(i64::from(stored.queue_id()), row["queue_id_after"], "{line}");
                for (name, value) in row["props_after"].as_object().unwrap() {
                    let expected = if value == "(kept)" {
                        time(given[name].as_str().unwrap())
                    } else {
                        time(value.as_str().unwrap())
                    };
                    assert_eq!(stored.property(name), Some(&*expected), "{line}");
                }
                assert_eq!(
                    outcome.timer_out_ms.is_some(),
                    stored.topic() == TIMER_TOPIC && topic != TIMER_TOPIC,
                    "{line}"
                );
                if let Some(from_base) = row["timer_out_minus_base"].as_i64() {
                    assert_eq!(outcome.timer_out_ms, Some(base + from_base), "{line}");
                }
                if row["timer_out_multiple_of_precision"] == true {
                    assert_eq!(outcome.timer_out_ms.unwrap() % precision_ms, 0, "{line}");
                }
            }
        }
    }
    assert!(checked >= 35, "{checked}");
}

#[test]
fn nothing_is_early_and_nothing_later_than_a_slot() {
    let mut store = Store::memory(config());
    for deliver_ms in [NOW + 2000, NOW + 2001, NOW + 2999, NOW + 3000, NOW + 86_400_000] {
        put_for(&mut store, NOW, deliver_ms, "");
    }
    assert!(at(&mut store, NOW).is_empty());
    assert_eq!(store.next_delivery(NOW), Some(NOW + 2000));
    assert!(at(&mut store, NOW + 1999).is_empty());
    assert_eq!(at(&mut store, NOW + 2000), [(NOW + 2000).to_string()]);
    assert_eq!(at(&mut store, NOW + 2999).len(), 1);
    assert_eq!(at(&mut store, NOW + 3000).len(), 4);
    assert_eq!(store.next_delivery(NOW + 3000), Some(NOW + 86_400_000));
    assert_eq!(at(&mut store, NOW + 86_400_000).len(), 5);
    assert_eq!(store.next_delivery(NOW + 86_400_000), None);
    let delivered = read_all(&store, "T", 1).pop().unwrap();
    let property = |name| delivered.property(name).unwrap().parse::<i64>().unwrap();
    assert_eq!(property(properties::TIMER_OUT_MS), NOW + 86_399_000);
    assert_eq!(property(properties::TIMER_ENQUEUE_MS), NOW);
    assert_eq!(property(properties::TIMER_DEQUEUE_MS), NOW + 86_400_000);
    assert_eq!(delivered.property(properties::REAL_TOPIC), Some("T"));
}

#[test]
fn what_is_taken_back_is_not_delivered() {
    let mut store = Store::memory(config());
    put_for(&mut store, NOW, NOW + 5500, "UNIQ_KEY\u{1}A\u{2}");
    put_for(&mut store, NOW, NOW + 5600, "UNIQ_KEY\u{1}B\u{2}");
    at(&mut store, NOW);
    put_for(&mut store, NOW + 1000, NOW + 5001, "UNIQ_KEY\u{1}A\u{2}TIMER_DEL_UNIQKEY\u{1}T+A\u{2}");
    assert_eq!(at(&mut store, NOW + 6000), [(NOW + 5600).to_string()]);
    let late = timed(b"TIMER_DELIVER_MS\x011\x02TIMER_DEL_UNIQKEY\x01T+B\x02");
    assert!(matches!(store.put(NOW + 9000, &late), Err(PutError::TimerIllegal { .. })), "its time is over");
    // One whose time comes before it is in its slot does nothing, as there is nothing left to take back.
    put_for(&mut store, NOW + 9000, NOW + 9500, "TIMER_DEL_UNIQKEY\u{1}T+B\u{2}");
    assert_eq!(at(&mut store, NOW + 20_000).len(), 1);
}

#[test]
fn a_long_way_is_gone_in_stages() {
    let timers = Some(TimerConfig { roll_window_slots: 60, ..TimerConfig::default() });
    let mut store = Store::memory(StoreConfig { timers, ..StoreConfig::memory() });
    put_for(&mut store, NOW, NOW + 150_000, "");
    for seconds in 1..150 {
        assert!(at(&mut store, NOW + seconds * 1000).is_empty(), "{seconds}");
    }
    assert_eq!(at(&mut store, NOW + 150_000).len(), 1);
    let delivered = read_all(&store, "T", 1).pop().unwrap();
    assert_eq!(delivered.property(properties::TIMER_ROLL_TIMES), Some("2"));
    // A clock that jumps over all stages delivers as well.
    put_for(&mut store, NOW, NOW + 250_000, "");
    at(&mut store, NOW);
    assert_eq!(at(&mut store, NOW + 300_000).len(), 2);
}

#[test]
fn without_timers_the_properties_mean_nothing() {
    let mut store = Store::memory(StoreConfig::memory());
    put_for(&mut store, NOW, NOW + 5000, "");
    assert_eq!(at(&mut store, NOW).len(), 1);
}

#[test]
fn what_waits_survives_a_kill_and_nothing_comes_twice() {
    let directory = tempfile::tempdir().unwrap();
    let timers = Some(TimerConfig { log_file_size: 52 * 4 + 16, ..TimerConfig::default() });
    let config = StoreConfig { timers, ..StoreConfig::disk() };
    let open = || Store::open(directory.path(), config.clone()).unwrap();
    let mut store = open();
    for second in 1..=10 {
        put_for(&mut store, NOW, NOW + second * 1000, "");
        put_for(&mut store, NOW, NOW + second * 1000, "");
    }
    at(&mut store, NOW);
    assert_eq!(at(&mut store, NOW + 3500).len(), 6);
    assert_eq!(fs::read_dir(directory.path().join("timerlog")).unwrap().count(), 4, "delivered files are removed");
    // Put, but in no slot yet.
    put_for(&mut store, NOW + 3500, NOW + 20_000, "");
    drop(store);
    let mut store = open();
    assert_eq!(at(&mut store, NOW + 3500).len(), 6);
    assert_eq!(at(&mut store, NOW + 4000).len(), 8);
    store.close(NOW + 4000).unwrap();
    let mut store = open();
    assert_eq!(at(&mut store, NOW + 10_000).len(), 20);
    drop(store);
    let mut store = open();
    let all = at(&mut store, NOW + 20_000);
    assert_eq!(all.len(), 21);
    assert_eq!(at(&mut store, NOW + 90_000), all);
}

#[test]
fn files_are_those_of_apache() {
    let directory = tempfile::tempdir().unwrap();
    let mut store =
        Store::open(directory.path(), StoreConfig { timers: config().timers, ..StoreConfig::disk() }).unwrap();
    assert!(!directory.path().join("timerwheel").exists(), "no message, no file");
    put_for(&mut store, NOW, NOW + 5000, "");
    put_for(&mut store, NOW, NOW + 5000, "");
    at(&mut store, NOW);
    let offset = |queue_offset| {
        let found = store.get(TIMER_TOPIC, 0, queue_offset, 1, usize::MAX, &|_| true);
        let message = StoredMessage::parse(found.messages[0].clone()).unwrap().0;
        (message.physical_offset(), message.size() as i32)
    };
    let longs = |bytes: &[u8]| {
        bytes.chunks_exact(8).map(|long| i64::from_be_bytes(long.try_into().unwrap())).collect::<Vec<_>>()
    };
    let wheel = fs::read(directory.path().join("timerwheel")).unwrap();
    assert_eq!(wheel.len(), 38_707_200);
    let slot_ms = NOW + 4000;
    let index = (slot_ms / 1000 % 1_209_600) as usize * 32;
    assert_eq!(longs(&wheel[index..index + 24]), [slot_ms / 1000, 0, 52]);
    assert_eq!(wheel[index + 24..index + 32], [0, 0, 0, 2, 0, 0, 0, 0]);
    let log = fs::read(directory.path().join("timerlog/00000000000000000000")).unwrap();
    for (number, before) in [(0_usize, -1_i64), (1, 0)] {
        let (physical_offset, size) = offset(number as u64);
        let mut expected = Vec::new();
        expected.extend(52_i32.to_be_bytes());
        expected.extend(before.to_be_bytes());
        expected.extend(1_i32.to_be_bytes());
        expected.extend(NOW.to_be_bytes());
        expected.extend(4000_i32.to_be_bytes());
        expected.extend(physical_offset.to_be_bytes());
        expected.extend(size.to_be_bytes());
        expected.extend(tag_hash("T").to_be_bytes());
        expected.extend(0_i64.to_be_bytes());
        assert_eq!(log[number * 52..][..52], expected);
    }
    let check = fs::read(directory.path().join("config/timercheck")).unwrap();
    assert_eq!((check.len(), &longs(&check[..40])[..]), (4096, &[0, 104, 2, 2, 0][..]));
}
