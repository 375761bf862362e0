//! Delay levels on a clock that is turned by hand.

use rocketmq_wire::message::{RecordView, sys_flag};

use crate::store::test_support::*;
use crate::store::{Arrival, DelayLevels, PutMessage, Store, StoreConfig};

const SCHEDULE: &str = "SCHEDULE_TOPIC_XXXX";

fn delayed<'a>(body: &'a [u8], properties: &'a [u8]) -> PutMessage<'a> {
    PutMessage { queue_id: 2, properties, ..message("T", body) }
}

fn deliver(store: &mut Store, now: i64) -> (Vec<Vec<u8>>, Option<i64>) {
    let mut delivered = Vec::new();
    let mut note = |arrival: Arrival<'_>| {
        if arrival.topic != SCHEDULE {
            delivered.push(arrival.record.body().to_vec());
        }
    };
    let outcome = store.deliver_scheduled(now, &mut note).unwrap();
    assert_eq!(outcome.count, delivered.len());
    (delivered, outcome.next_due)
}

#[test]
fn levels_are_those_of_apache() {
    let written = "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h";
    assert_eq!(DelayLevels::parse(written).unwrap(), DelayLevels::default());
    assert_eq!(DelayLevels::parse("3s 1d").unwrap().due(2, 5), 86_400_005);
    for wrong in ["", "  ", "1", "s", "1x", "-1s", "1 s", "1s,2s", "99999999999s"] {
        let error = DelayLevels::parse(wrong).unwrap_err().to_string();
        assert!(error.contains("write a number"), "{error}");
    }
}

#[test]
fn a_delayed_message_waits_and_comes_back_as_it_was() {
    let mut store = Store::memory(StoreConfig::memory());
    let properties = b"TAGS\x01TagA\x02DELAY\x013\x02KEYS\x01k\x02";
    let waits = store.put(NOW, &delayed(b"hello", properties)).unwrap();
    assert_eq!(store.next_delivery(NOW), None, "not dispatched yet");
    dispatch(&mut store);
    assert_eq!(store.next_delivery(NOW), Some(NOW + 10_000));
    assert_eq!((store.max_offset(SCHEDULE, 2), store.max_offset("T", 2)), (1, 0));
    let stored = store.message_at(waits.physical_offset).unwrap();
    let expected = b"TAGS\x01TagA\x02KEYS\x01k\x02DELAY\x013\x02REAL_TOPIC\x01T\x02REAL_QID\x012\x02";
    assert_eq!(RecordView::parse(&stored).unwrap().properties().as_bytes(), expected);

    assert_eq!(deliver(&mut store, NOW + 9_999), (vec![], Some(NOW + 10_000)), "never early");
    let mut arrivals = Vec::new();
    let mut note =
        |arrival: Arrival<'_>| arrivals.push((arrival.topic.to_owned(), arrival.queue_id, arrival.tags_code));
    assert_eq!(store.deliver_scheduled(NOW + 10_000, &mut note).unwrap().count, 1);
    assert_eq!(arrivals, [("T".to_owned(), 2, 2_598_919)]);
    assert_eq!(store.next_delivery(NOW + 10_000), None);

    let found = read_all(&store, "T", 2);
    let [found] = found.as_slice() else { panic!("one message, not {found:?}") };
    assert_eq!(found.body(), b"hello".as_slice());
    assert_eq!(found.properties().as_bytes(), expected, "DELAY stays, so that clients see it");
    assert_eq!(found.store_timestamp(), NOW + 10_000);
    assert_eq!((found.born_timestamp(), found.store_host(), found.flag()), (NOW - 1, host(), 7));
    assert_eq!(deliver(&mut store, i64::MAX / 2).0.len(), 0, "once only");
}

#[test]
fn turning_the_clock_far_delivers_in_the_order_in_which_messages_were_due() {
    let mut store = Store::memory(StoreConfig::memory());
    for (at, level, body) in [(0, "18", "last"), (0, "2", "second"), (4500, "1", "third"), (0, "1", "first")] {
        let properties = format!("DELAY\x01{level}\x02");
        store.put(NOW + at, &delayed(body.as_bytes(), properties.as_bytes())).unwrap();
    }
    let (delivered, next) = deliver(&mut store, NOW + 3_600_000);
    // Within a level messages wait for those before them, as in Apache: `third` was put before `first`.
    assert_eq!(delivered, [b"second".to_vec(), b"third".to_vec(), b"first".to_vec()]);
    assert_eq!(next, Some(NOW + 7_200_000));
    assert_eq!(deliver(&mut store, NOW + 7_200_000), (vec![b"last".to_vec()], None));
}

#[test]
fn levels_beyond_the_highest_wait_as_long_as_that() {
    let levels = DelayLevels::parse("1s 2s").unwrap();
    let mut store = Store::memory(StoreConfig { delay_levels: levels, ..StoreConfig::memory() });
    let outcome = put(&mut store, &delayed(b"x", b"DELAY\x0199\x02"));
    let stored = store.message_at(outcome.physical_offset).unwrap();
    let stored = RecordView::parse(&stored).unwrap();
    assert_eq!((stored.queue_id(), stored.property("DELAY")), (1, Some("2")));
    assert_eq!(store.next_delivery(NOW), Some(NOW + 2000));
}

#[test]
fn what_is_not_delayed() {
    let mut store = Store::memory(StoreConfig::memory());
    for (properties, sys_flag) in [
        (b"DELAY\x010\x02".as_slice(), 0),
        (b"DELAY\x01-1\x02", 0),
        (b"DELAY\x01soon\x02", 0),
        (b"DELAY\x01\x02", 0),
        (b"X_DELAY\x013\x02", 0),
        (b"DELAY\x013\x02", sys_flag::TRANSACTION_PREPARED),
        (b"DELAY\x013\x02", sys_flag::TRANSACTION_ROLLBACK),
    ] {
        put(&mut store, &PutMessage { sys_flag, ..delayed(b"x", properties) });
        assert_eq!(store.next_delivery(NOW), None, "{properties:?}");
    }
    put(&mut store, &PutMessage { sys_flag: sys_flag::TRANSACTION_COMMIT, ..delayed(b"x", b"DELAY\x013\x02") });
    assert_eq!(store.next_delivery(NOW), Some(NOW + 10_000));
}

#[test]
fn a_level_beats_the_timer_and_stale_destinations() {
    let mut store = Store::memory(StoreConfig::memory());
    let properties = b"REAL_TOPIC\x01Old\x02REAL_QID\x019\x02TIMER_DELIVER_MS\x011\x02TIMER_DELAY_SEC\x011\x02\
        TIMER_DELAY_MS\x011\x02DELAY\x011";
    let outcome = put(&mut store, &delayed(b"x", properties));
    let stored = store.message_at(outcome.physical_offset).unwrap();
    let expected = b"DELAY\x011\x02REAL_TOPIC\x01T\x02REAL_QID\x012\x02";
    assert_eq!(RecordView::parse(&stored).unwrap().properties().as_bytes(), expected);
    assert_eq!(deliver(&mut store, NOW + 1000).0.len(), 1);
    assert_eq!(store.max_offset("T", 2), 1);
}

#[test]
fn a_clock_that_was_set_back_delivers_at_once() {
    let mut store = Store::memory(StoreConfig::memory());
    store.put(NOW + 5000, &delayed(b"x", b"DELAY\x012\x02")).unwrap();
    // Due at NOW + 10 s; at NOW + 5 s that is just within the delay of 5 s, one millisecond before it is not.
    assert_eq!(deliver(&mut store, NOW + 5000), (vec![], Some(NOW + 10_000)));
    assert_eq!(deliver(&mut store, NOW + 4999), (vec![b"x".to_vec()], None));
}

#[test]
fn progress_survives_closing_and_opening() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store");
    let mut store = Store::open(&path, StoreConfig::disk()).unwrap();
    for body in [b"a", b"b"] {
        store.put(NOW, &delayed(body, b"DELAY\x011\x02")).unwrap();
    }
    store.put(NOW + 500, &delayed(b"c", b"DELAY\x011\x02")).unwrap();
    assert_eq!(deliver(&mut store, NOW + 1000).0.len(), 2);
    store.close(NOW + 1000).unwrap();

    let text = std::fs::read_to_string(path.join("config/delayOffset.json")).unwrap();
    assert!(text.contains("\"offsetTable\":{1:2\n"), "{text}");
    let mut store = Store::open(&path, StoreConfig::disk()).unwrap();
    assert_eq!(store.delivery_progress()[..2], [2, 0]);
    assert_eq!(deliver(&mut store, NOW + 1500), (vec![b"c".to_vec()], None));
    store.close(NOW + 1500).unwrap();
    assert!(path.join("config/delayOffset.json.bak").exists());
}

#[test]
fn progress_ahead_of_the_queue_does_not_lose_new_messages() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::create_dir(directory.path().join("config")).unwrap();
    std::fs::write(directory.path().join("config/delayOffset.json"), "{\"offsetTable\":{1:7}}").unwrap();
    let mut store = Store::open(directory.path(), StoreConfig::disk()).unwrap();
    assert_eq!(store.delivery_progress()[0], 0);
    put(&mut store, &delayed(b"x", b"DELAY\x011\x02"));
    assert_eq!(deliver(&mut store, NOW + 1000), (vec![b"x".to_vec()], None));
}
