//! Putting and reading, which are the same in memory and on disk.

use rocketmq_wire::message::batch::BatchElement;
use rocketmq_wire::message::{MagicVersion, RecordView, sys_flag};

use crate::store::test_support::*;
use crate::store::{Boundary, GetStatus, MessageFilter, PutError, PutMessage, Store, StoreConfig};

#[test]
fn what_was_put_is_read_after_dispatch() {
    let mut store = Store::memory(StoreConfig::memory());
    let outcome = store.put(NOW, &PutMessage { properties: b"TAGS\x01TagA\x02", ..message("T", b"hello") }).unwrap();
    assert_eq!((outcome.physical_offset, outcome.queue_offset, outcome.store_timestamp), (0, 0, NOW));
    assert_eq!(store.max_offset("T", 0), 0);
    assert_eq!(store.dispatch_behind(), outcome.size as u64);

    let mut arrivals = Vec::new();
    let mut note = |arrival: crate::store::Arrival<'_>| {
        arrivals.push((arrival.topic.to_owned(), arrival.queue_id, arrival.queue_offset, arrival.tags_code));
    };
    store.dispatch(&mut note).unwrap();
    assert_eq!(arrivals, [("T".to_owned(), 0, 0, 2_598_919)]);
    assert_eq!(store.dispatch_behind(), 0);

    let found = read_all(&store, "T", 0);
    let [found] = found.as_slice() else { panic!("one message, not {found:?}") };
    assert_eq!(found.body(), b"hello".as_slice());
    assert_eq!((found.flag(), found.store_timestamp(), found.store_host()), (7, NOW, host()));
    assert_eq!(found.tags(), Some("TagA"));
    assert_eq!(store.message_at(0).as_ref(), Some(found.as_bytes()));
}

#[test]
fn each_queue_counts_for_itself() {
    let mut store = Store::memory(small());
    for round in 0..10_u64 {
        for (topic, queue_id) in [("A", 0), ("A", 3), ("B", 0)] {
            let outcome = put(&mut store, &PutMessage { queue_id, ..message(topic, b"x") });
            assert_eq!(outcome.queue_offset, round);
        }
    }
    assert_eq!(store.topics(), ["A", "B"]);
    assert_eq!(store.queue_ids("A").collect::<Vec<_>>(), [0, 3]);
    for (topic, queue_id) in [("A", 0), ("A", 3), ("B", 0)] {
        assert_eq!(read_all(&store, topic, queue_id).len(), 10);
    }
    assert_eq!(store.max_offset("A", 1), 0);
}

#[test]
fn a_filler_ends_a_file_when_the_next_record_does_not_fit() {
    let mut store = Store::memory(small());
    // 88 fixed bytes, a topic of 1 + 1, properties of 2: 92 bytes and the body.
    let first = put(&mut store, &message("T", &[1; 408]));
    let second = put(&mut store, &message("T", &[2; 408]));
    // 24 bytes are left: less than any record and a filler.
    let third = put(&mut store, &message("T", &[3; 408]));
    assert_eq!((first.size, first.physical_offset, second.physical_offset), (500, 0, 500));
    assert_eq!(third.physical_offset, 1024);
    let filler = store.read_raw(1000, 100).unwrap();
    assert_eq!(filler.len(), 24);
    assert_eq!(filler[..8], [0, 0, 0, 24, 0xCB, 0xD4, 0x31, 0x94]);
    assert_eq!(bodies(&store, "T"), [vec![1; 408], vec![2; 408], vec![3; 408]]);

    // A record may fill the file up to the 8 bytes that a filler needs, not further.
    let mut store = Store::memory(small());
    let fills = put(&mut store, &message("T", &[1; 1024 - 8 - 92]));
    assert_eq!(fills.size, 1016);
    assert_eq!(put(&mut store, &message("T", b"")).physical_offset, 1024);
    let error = store.put(NOW, &message("T", &[1; 1024 - 8 - 91])).unwrap_err();
    assert!(matches!(error, PutError::Illegal { length: 1017, limit: 1016, .. }), "{error}");
}

#[test]
fn batches_are_neighbours_in_log_and_queue() {
    let mut store = Store::memory(small());
    put(&mut store, &message("T", &[0; 700]));
    let element = |body| BatchElement { flag: 9, body, properties: b"TAGS\x01a\x02" };
    let elements = [element(b"one".as_slice()), element(b"two"), element(b"three")];
    let outcome = store.put_batch(NOW, &message("T", b""), elements.into_iter()).unwrap();
    dispatch(&mut store);
    // The whole batch goes to the next file.
    assert_eq!(outcome.physical_offsets, [1024, 1024 + 95 + 7, 1024 + 2 * (95 + 7)]);
    assert_eq!(outcome.queue_offset, 1);
    assert_eq!(outcome.size, 95 + 95 + 97 + 21);
    assert_eq!(bodies(&store, "T")[1..], [b"one".to_vec(), b"two".to_vec(), b"three".to_vec()]);
    assert!(read_all(&store, "T", 0)[1..].iter().all(|message| message.flag() == 9 && message.tags() == Some("a")));

    let delayed = BatchElement { flag: 0, body: b"x", properties: b"DELAY\x013\x02" };
    let too_long = [0; 1000];
    let too_large = BatchElement { flag: 0, body: &too_long, properties: b"" };
    let half = PutMessage { sys_flag: sys_flag::TRANSACTION_PREPARED, ..message("T", b"") };
    for (message, elements) in [
        (message("T", b""), vec![]),
        (message("T", b""), vec![element(b"x"), delayed]),
        (message("T", b""), vec![element(b"x"), too_large]),
        (half, vec![element(b"x")]),
    ] {
        let before = store.max_physical_offset();
        store.put_batch(NOW, &message, elements.into_iter()).unwrap_err();
        assert_eq!(store.max_physical_offset(), before);
        assert_eq!(put(&mut store, &PutMessage { topic: "other", ..message }).queue_offset, 0);
        store = Store::memory(small());
    }
}

#[test]
fn get_tells_where_to_go_on() {
    let mut store = Store::memory(small());
    let status = |store: &Store, offset| {
        let outcome = store.get("T", 0, offset, 32, usize::MAX, &|_| true);
        (outcome.status, outcome.next_begin_offset, outcome.messages.len())
    };
    assert_eq!(status(&store, 0), (GetStatus::NoMessageInQueue, 0, 0));
    assert_eq!(status(&store, 5), (GetStatus::NoMessageInQueue, 0, 0));
    for _ in 0..5 {
        put(&mut store, &message("T", b"x"));
    }
    assert_eq!(status(&store, 0), (GetStatus::Found, 5, 5));
    assert_eq!(status(&store, 4), (GetStatus::Found, 5, 1));
    assert_eq!(status(&store, 5), (GetStatus::OffsetOverflowOne, 5, 0));
    assert_eq!(status(&store, 6), (GetStatus::OffsetOverflowBadly, 5, 0));
    assert_eq!(status(&store, u64::MAX), (GetStatus::OffsetOverflowBadly, 5, 0));
    store.config.overflow_restarts_at_zero = true;
    assert_eq!(status(&store, 6), (GetStatus::OffsetOverflowBadly, 0, 0));
    let outcome = store.get("T", 0, 3, 32, usize::MAX, &|_| true);
    assert_eq!((outcome.min_offset, outcome.max_offset), (0, 5));
}

#[test]
fn a_queue_that_begins_later_says_so() {
    let mut source = Store::memory(small());
    for _ in 0..12 {
        put(&mut source, &message("T", &[0; 400]));
    }
    // A copy of the log that lacks its first three files.
    let mut store = Store::memory(small());
    let mut offset = 3 * 1024;
    while let Some(bytes) = source.read_raw(offset, 100) {
        offset = store.append_raw(offset, &bytes).unwrap();
    }
    dispatch(&mut store);
    assert_eq!((store.min_offset("T", 0), store.max_offset("T", 0)), (6, 12));
    assert_eq!((store.min_physical_offset(), store.max_physical_offset()), (3 * 1024, source.max_physical_offset()));
    let outcome = store.get("T", 0, 5, 32, usize::MAX, &|_| true);
    assert_eq!((outcome.status, outcome.next_begin_offset), (GetStatus::OffsetTooSmall, 6));
    assert_eq!(read_all(&store, "T", 0).len(), 6);
    assert_eq!(put(&mut store, &message("T", b"x")).queue_offset, 12);
    assert_eq!(store.offset_by_time("T", 0, 0, Boundary::Upper), 6);
}

#[test]
fn get_keeps_the_limits_of_count_and_bytes() {
    let mut store = Store::memory(StoreConfig::memory());
    let size = put(&mut store, &message("T", &[0; 100])).size;
    for _ in 1..2000 {
        store.put(NOW, &message("T", &[0; 100])).unwrap();
    }
    dispatch(&mut store);
    let count = |max_count, max_bytes| store.get("T", 0, 0, max_count, max_bytes, &|_| true).messages.len();
    assert_eq!(count(10, usize::MAX), 10);
    assert_eq!(count(100, usize::MAX), 32);
    assert_eq!(count(32, 3 * size), 3);
    assert_eq!(count(32, 3 * size - 1), 2);
    // The first is returned whatever its size.
    assert_eq!(count(32, 0), 1);
    assert_eq!(count(0, usize::MAX), 1);
    put(&mut store, &message("Large", &[0; 300_000]));
    put(&mut store, &message("Large", &[0; 300_000]));
    assert_eq!(store.get("Large", 0, 0, 32, usize::MAX, &|_| true).messages.len(), 1);

    // At least 800 entries are looked at.
    let none = store.get("T", 0, 0, 32, usize::MAX, &|_| false);
    assert_eq!((none.status, none.next_begin_offset), (GetStatus::NoMatchedMessage, 801));
    let none = store.get("T", 0, 0, 1500, usize::MAX, &|_| false);
    assert_eq!(none.next_begin_offset, 1501);
}

#[test]
fn filters_see_the_tags_code_and_then_the_record() {
    struct BodyIs(u8);
    impl MessageFilter for BodyIs {
        fn matches_tags_code(&self, tags_code: i64) -> bool {
            tags_code == 97
        }
        fn matches_record(&self, record: &[u8]) -> bool {
            RecordView::parse(record).unwrap().body() == [self.0]
        }
    }
    let mut store = Store::memory(small());
    for body in 0..6 {
        let properties: &[u8] = if body % 2 == 0 { b"TAGS\x01a\x02" } else { b"" };
        put(&mut store, &PutMessage { properties, ..message("T", &[body]) });
    }
    let read = |filter: &dyn Fn(i64) -> bool| store.get("T", 0, 0, 32, usize::MAX, &|code: i64| filter(code));
    assert_eq!(read(&|code| code == 97).messages.len(), 3);
    assert_eq!(read(&|code| code == 0).messages.len(), 3);
    assert_eq!(read(&|code| code == 0).next_begin_offset, 6);
    let one = store.get("T", 0, 0, 32, usize::MAX, &BodyIs(4));
    assert_eq!((one.messages.len(), one.next_begin_offset), (1, 6));
    assert_eq!(store.get("T", 0, 0, 32, usize::MAX, &BodyIs(3)).status, GetStatus::NoMatchedMessage);
}

#[test]
fn slices_outlive_the_store() {
    let mut store = Store::memory(small());
    for body in 0..20 {
        put(&mut store, &message("T", &[body; 300]));
    }
    let found = read_all(&store, "T", 0);
    drop(store);
    for (body, message) in found.iter().enumerate() {
        assert_eq!(message.body(), vec![body as u8; 300]);
    }
}

#[test]
fn refused_messages_leave_nothing_behind() {
    let mut store = Store::memory(StoreConfig { max_message_size: 1000, ..StoreConfig::memory() });
    let long = vec![b'x'; 33_000];
    let topic = "t".repeat(256);
    for (message, expected) in [
        (message("T", &long), "the body of 33000 bytes exceeds the limit of 1000"),
        (PutMessage { properties: &long, ..message("T", b"") }, "properties of 33000 bytes exceed the limit of 32767"),
        (PutMessage { queue_id: -1, ..message("T", b"") }, "the queue id is negative"),
        (message("", b""), "cannot be the name of a directory"),
        (message("..", b""), "cannot be the name of a directory"),
        (message("a/b", b""), "cannot be the name of a directory"),
        (message(&topic, b""), "cannot be the name of a directory"),
    ] {
        let error = store.put(NOW, &message).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
    assert_eq!(store.max_physical_offset(), 0);
    assert!(store.topics().is_empty());
    assert_eq!(put(&mut store, &message("T", &[0; 1000])).queue_offset, 0);
}

#[test]
fn long_topics_get_the_second_layout() {
    let mut store = Store::memory(StoreConfig::memory());
    for (length, version) in [(127, MagicVersion::V1), (128, MagicVersion::V2), (255, MagicVersion::V2)] {
        let topic = "t".repeat(length);
        let at = put(&mut store, &message(&topic, b"x")).physical_offset;
        assert_eq!(RecordView::parse(&store.message_at(at).unwrap()).unwrap().version(), version);
        assert_eq!(bodies(&store, &topic), [b"x"]);
    }
}

#[test]
fn undecided_transactions_are_in_no_queue() {
    let mut store = Store::memory(StoreConfig::memory());
    for state in [sys_flag::TRANSACTION_PREPARED, sys_flag::TRANSACTION_ROLLBACK] {
        let outcome = put(&mut store, &PutMessage { sys_flag: state, ..message("T", b"x") });
        assert_eq!(outcome.queue_offset, 0);
        assert!(store.message_at(outcome.physical_offset).is_some());
    }
    assert_eq!(store.max_offset("T", 0), 0);
    put(&mut store, &PutMessage { sys_flag: sys_flag::TRANSACTION_COMMIT, ..message("T", b"commit") });
    assert_eq!(bodies(&store, "T"), [b"commit"]);
}

#[test]
fn times_lead_to_offsets() {
    let mut store = Store::memory(small());
    assert_eq!(store.offset_by_time("T", 0, NOW, Boundary::Lower), 0);
    assert_eq!(store.earliest_store_time("T", 0), None);
    for time in [100, 200, 200, 200, 300] {
        store.put(time, &message("T", b"x")).unwrap();
    }
    dispatch(&mut store);
    // (time, lower, upper, nearest)
    for (time, lower, upper, nearest) in [
        (i64::MIN, 0, 0, 0),
        (99, 0, 0, 0),
        (100, 0, 0, 0),
        (149, 1, 0, 0),
        (150, 1, 0, 0),
        (151, 1, 0, 1),
        (200, 1, 3, 1),
        (250, 4, 3, 3),
        (251, 4, 3, 4),
        (300, 4, 4, 4),
        (301, 5, 4, 4),
        (i64::MAX, 5, 4, 4),
    ] {
        assert_eq!(store.offset_by_time("T", 0, time, Boundary::Lower), lower, "lower {time}");
        assert_eq!(store.offset_by_time("T", 0, time, Boundary::Upper), upper, "upper {time}");
        assert_eq!(store.offset_by_time("T", 0, time, Boundary::Nearest), nearest, "nearest {time}");
    }
    assert_eq!(store.earliest_store_time("T", 0), Some(100));
    assert_eq!(store.earliest_message_time(), Some(100));
    assert_eq!(store.store_time_at("T", 0, 4), Some(300));
    assert_eq!(store.store_time_at("T", 0, 5), None);
}

#[test]
fn only_the_start_of_a_record_has_a_message() {
    let mut store = Store::memory(StoreConfig::memory());
    let size = put(&mut store, &message("T", b"x")).size as u64;
    put(&mut store, &message("T", b"y"));
    for offset in (0..2 * size + 8).chain([u64::MAX, 1 << 40]) {
        assert_eq!(store.message_at(offset).is_some(), offset == 0 || offset == size, "{offset}");
    }
}

#[test]
fn replicated_bytes_give_the_same_store() {
    let mut master = Store::memory(small());
    for index in 0..40_usize {
        let topic = if index % 3 == 0 { "A" } else { "B" };
        put(&mut master, &message(topic, &vec![index as u8; 37 * index % 500]));
    }
    // In pieces that cut records and fillers anywhere.
    for step in [1, 7, 100, 5000] {
        let mut slave = Store::memory(small());
        let mut offset = 0;
        while let Some(bytes) = master.read_raw(offset, step) {
            offset = slave.append_raw(offset, &bytes).unwrap();
            dispatch(&mut slave);
        }
        assert_eq!(offset, master.max_physical_offset());
        for topic in ["A", "B"] {
            assert_eq!(bodies(&slave, topic), bodies(&master, topic));
        }
        let error = slave.append_raw(offset + 1, b"x").unwrap_err();
        assert!(matches!(error, PutError::NotContiguous { .. }), "{error}");
    }
}
