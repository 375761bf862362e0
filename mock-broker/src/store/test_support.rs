//! What the tests of the store share.

use std::net::SocketAddr;

use rocketmq_wire::message::StoredMessage;

use crate::store::{PutMessage, PutOutcome, Store, StoreConfig};

/// A point in time to begin at, in milliseconds since 1970.
pub(super) const NOW: i64 = 1_700_000_000_000;

pub(super) fn host() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 10911))
}

pub(super) fn message<'a>(topic: &'a str, body: &'a [u8]) -> PutMessage<'a> {
    PutMessage {
        topic,
        queue_id: 0,
        flag: 7,
        sys_flag: 0,
        born_timestamp: NOW - 1,
        born_host: SocketAddr::from(([10, 0, 0, 2], 4711)),
        store_host: host(),
        reconsume_times: 0,
        prepared_transaction_offset: 0,
        body,
        properties: b"",
    }
}

/// Files so small that a few messages fill them.
pub(super) fn small() -> StoreConfig {
    StoreConfig { commit_log_file_size: 1024, consume_queue_file_entries: 4, ..StoreConfig::disk() }
}

pub(super) fn dispatch(store: &mut Store) {
    store.dispatch(&mut |_| {}).expect("there is space");
}

/// Puts a message and makes it readable.
pub(super) fn put(store: &mut Store, message: &PutMessage<'_>) -> PutOutcome {
    let outcome = store.put(NOW, message).expect("the message can be stored");
    dispatch(store);
    outcome
}

/// Reads a whole queue, and checks that each record says where it is.
pub(super) fn read_all(store: &Store, topic: &str, queue_id: i32) -> Vec<StoredMessage> {
    let mut found = Vec::new();
    let mut offset = store.min_offset(topic, queue_id);
    while offset < store.max_offset(topic, queue_id) {
        let outcome = store.get(topic, queue_id, offset, 32, usize::MAX, &|_| true);
        assert!(!outcome.messages.is_empty(), "{outcome:?}");
        for bytes in outcome.messages {
            let (message, _) = StoredMessage::parse(bytes).expect("a whole record");
            assert_eq!(message.queue_offset() as u64, offset);
            assert_eq!((message.topic(), message.queue_id()), (topic, queue_id));
            message.verify_crc().expect("an undamaged body");
            found.push(message);
            offset += 1;
        }
        assert_eq!(outcome.next_begin_offset, offset);
    }
    found
}

pub(super) fn bodies(store: &Store, topic: &str) -> Vec<Vec<u8>> {
    read_all(store, topic, 0).iter().map(|message| message.body().to_vec()).collect()
}
