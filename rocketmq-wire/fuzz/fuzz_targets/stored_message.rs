//! Any bytes as stored messages.

#![no_main]

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use rocketmq_wire::message::{LogEntry, Record, RecordView, StoredMessage};

const LIMIT: usize = 1 << 16;

fuzz_target!(|bytes: &[u8]| {
    let _ = LogEntry::parse(bytes);
    for message in StoredMessage::records(Bytes::copy_from_slice(bytes)).flatten() {
        let _ = (message.tags(), message.unique_id(), message.keys().count(), message.verify_crc());
        let _ = (message.offset_message_id().to_string(), message.view().tags_code());
        if let Ok(body) = message.decompressed_body(LIMIT) {
            assert!(body.len() <= LIMIT.max(message.body().len()));
        }

        let record = Record {
            version: message.view().version(),
            queue_id: message.queue_id(),
            flag: message.flag(),
            queue_offset: message.queue_offset(),
            physical_offset: message.physical_offset(),
            sys_flag: message.sys_flag(),
            born_timestamp: message.born_timestamp(),
            born_host: message.born_host(),
            store_timestamp: message.store_timestamp(),
            store_host: message.store_host(),
            reconsume_times: message.reconsume_times(),
            prepared_transaction_offset: message.prepared_transaction_offset(),
            body: message.view().body(),
            topic: message.topic(),
            properties: message.properties().as_bytes(),
        };
        let mut out = vec![0; record.encoded_len().expect("what was read can be written")];
        record.encode(&mut out).expect("room for the record");
        let again = RecordView::parse(&out).expect("a record that was just written");
        assert_eq!((again.topic(), again.body()), (message.topic(), message.view().body()));
        assert_eq!(again.properties(), message.properties());
        again.verify_crc().expect("a checksum that was just written");
    }
});
