//! Every record of the golden stores decodes to what the listing says, and encodes to the same bytes.

use std::collections::BTreeMap;

use bytes::Bytes;
use rocketmq_wire::message::{LogEntry, Record, RecordView, StoredMessage, sys_flag, tag_hash};
use serde_json::Value;

use crate::common::{golden, tar_files};

pub(crate) const STORES: [&str; 4] = ["4.4.0", "4.9.7", "4.9.7-killed", "5.3.3"];

/// A commit log offset and what stands there.
type At<T> = (u64, T);

/// The commit log files of a store, with the offsets at which they begin.
pub(crate) fn commit_log(store: &str) -> Vec<At<Bytes>> {
    let mut files: Vec<_> = tar_files(&format!("stores/{store}.commitlog.tar.gz"))
        .into_iter()
        .filter_map(|(path, content)| {
            let begin = path.strip_prefix("store/commitlog/")?.parse().expect("a file named by its offset");
            Some((begin, Bytes::from(content)))
        })
        .collect();
    files.sort_by_key(|(begin, _)| *begin);
    files
}

/// All records of a store and the sizes of the fillers, with their offsets.
pub(crate) fn records(store: &str) -> (Vec<At<Bytes>>, Vec<At<usize>>) {
    let (mut records, mut fillers) = (Vec::new(), Vec::new());
    for (begin, file) in commit_log(store) {
        let mut at = 0;
        while at < file.len() {
            let size =
                match LogEntry::parse(&file[at..]).unwrap_or_else(|error| panic!("{store} {begin}+{at}: {error}")) {
                    LogEntry::Record(record) => {
                        records.push((begin + at as u64, file.slice(at..at + record.size())));
                        record.size()
                    }
                    LogEntry::EndOfFile { size } => {
                        fillers.push((begin + at as u64, size));
                        size
                    }
                    LogEntry::Unwritten => break,
                };
            at += size;
        }
    }
    (records, fillers)
}

fn listing(store: &str) -> Value {
    serde_json::from_slice(&golden(&format!("stores/{store}.json.gz"))).expect("JSON")
}

#[test]
fn every_record_is_what_the_listing_says() {
    for store in STORES {
        let listing = listing(store);
        let (records, fillers) = records(store);
        let mut by_offset: BTreeMap<u64, Bytes> = records.into_iter().collect();
        let messages = listing["messages"].as_array().expect("messages");
        for expected in messages {
            let offset = expected["commitLogOffset"].as_u64().expect("offset");
            let bytes = by_offset.remove(&offset).unwrap_or_else(|| panic!("{store}: no record at {offset}"));
            let (message, size) = StoredMessage::parse(bytes).expect("a record");
            assert_eq!(size, message.size());
            compare(&message, expected, store);
        }
        assert!(by_offset.is_empty(), "{store}: records that are not listed: {:?}", by_offset.keys());

        let blank: Vec<(u64, usize)> = listing["blankRecords"]
            .as_array()
            .expect("blank records")
            .iter()
            .map(|blank| (blank["offset"].as_u64().unwrap(), blank["size"].as_u64().unwrap() as usize))
            .collect();
        assert_eq!(fillers, blank, "{store}");
    }
}

fn compare(message: &StoredMessage, expected: &Value, store: &str) {
    let client_clears_compressed = store == "5.3.3";
    let plain = message.decompressed_body(1 << 20).expect("a readable body");
    for (name, value) in expected.as_object().expect("an object") {
        let actual: Value = match name.as_str() {
            "topic" => message.topic().into(),
            "queueId" => message.queue_id().into(),
            "queueOffset" => message.queue_offset().into(),
            "commitLogOffset" => message.physical_offset().into(),
            "storeSize" => message.size().into(),
            "msgId" => message.offset_message_id().to_string().into(),
            "uniqueId" => message.unique_id().into(),
            // The listing has the flag as the client shows it after inflating.
            "sysFlag" if client_clears_compressed => (message.sys_flag() & !sys_flag::COMPRESSED).into(),
            "sysFlag" | "storedSysFlag" => message.sys_flag().into(),
            "flag" => message.flag().into(),
            "bodyCRC" => message.body_crc().into(),
            "bornTimestamp" => message.born_timestamp().into(),
            "storeTimestamp" => message.store_timestamp().into(),
            "bornHost" => message.born_host().to_string().into(),
            "storeHost" => message.store_host().to_string().into(),
            "reconsumeTimes" => message.reconsume_times().into(),
            "preparedTransactionOffset" => message.prepared_transaction_offset().into(),
            "bodyLength" => plain.len().into(),
            "storedBodyLength" => message.body().len().into(),
            "bodySha256" => sha256_hex(&plain).into(),
            "bodyBase64" => base64(&plain).into(),
            "properties" => {
                let added_by_the_client = ["MIN_OFFSET", "MAX_OFFSET"];
                let mut map = message.properties().to_map();
                for added in added_by_the_client {
                    if let (Some(value), None) = (value.get(added), map.get(added)) {
                        map.insert(added.to_owned(), value.as_str().expect("text").to_owned());
                    }
                }
                serde_json::to_value(map).expect("a map")
            }
            "propertiesRaw" => {
                let raw = std::str::from_utf8(message.properties().as_bytes()).expect("UTF-8");
                raw.replace('\u{1}', "\\x01").replace('\u{2}', "\\x02").into()
            }
            "tagsCode" => consume_queue_code(message, value),
            "recordVersion" => format!("{:?}", message.view().version()).into(),
            "source" | "inConsumeQueue" => continue,
            unknown => panic!("{store}: the listing has a field `{unknown}` that is not compared"),
        };
        assert_eq!(&actual, value, "{store}: {name} of the record at {}", message.physical_offset());
    }
    message.verify_crc().expect("an intact body");
    assert_eq!(message.clone().into_owned().as_bytes(), message.as_bytes());
}

/// For a delayed message the queue keeps the time of delivery instead of the tag's hash.
fn consume_queue_code(message: &StoredMessage, expected: &Value) -> Value {
    if message.topic() == "SCHEDULE_TOPIC_XXXX" {
        assert!(expected.as_i64().expect("a code") > message.store_timestamp());
        return expected.clone();
    }
    assert_eq!(message.view().tags_code(), message.tags().map_or(0, |tags| i64::from(tag_hash(tags))));
    message.view().tags_code().into()
}

#[test]
fn every_record_encodes_to_its_own_bytes() {
    for store in STORES {
        let (records, _) = records(store);
        assert!(records.len() >= 68);
        for (offset, bytes) in records {
            let view = RecordView::parse(&bytes).expect("a record");
            let record = record_of(&view);
            let mut out = vec![0xEE; bytes.len() + 3];
            assert_eq!(record.encode(&mut out), Ok(bytes.len()));
            assert_eq!(out[..bytes.len()], bytes[..], "{store} at {offset}");
            assert_eq!(out[bytes.len()..], [0xEE; 3], "nothing is written beyond the record");
        }
    }
}

#[test]
fn records_that_lie_back_to_back_are_read_in_order() {
    let (records, _) = records("5.3.3");
    let body: Vec<u8> = records.iter().flat_map(|(_, bytes)| bytes.iter().copied()).collect();
    let read: Vec<Bytes> = StoredMessage::records(Bytes::from(body))
        .map(|message| message.expect("a record").as_bytes().clone())
        .collect();
    assert_eq!(read, records.into_iter().map(|(_, bytes)| bytes).collect::<Vec<_>>());
}

#[test]
fn a_record_that_cannot_be_read_does_not_hide_the_next() {
    let (records, _) = records("4.9.7");
    let (first, second, third) = (&records[0].1, &records[1].1, &records[2].1);
    let mut damaged = second.to_vec();
    damaged[4] ^= 0xFF;
    let body = Bytes::from([first.as_ref(), &damaged, third.as_ref()].concat());
    let read: Vec<_> = StoredMessage::records(body).collect();
    assert_eq!(read.len(), 3);
    assert_eq!(read[0].as_ref().expect("the first").as_bytes(), first);
    assert!(read[1].is_err());
    assert_eq!(read[2].as_ref().expect("the third").as_bytes(), third);
}

pub(crate) fn record_of<'a>(view: &RecordView<'a>) -> Record<'a> {
    Record {
        version: view.version(),
        queue_id: view.queue_id(),
        flag: view.flag(),
        queue_offset: view.queue_offset(),
        physical_offset: view.physical_offset(),
        sys_flag: view.sys_flag(),
        born_timestamp: view.born_timestamp(),
        born_host: view.born_host(),
        store_timestamp: view.store_timestamp(),
        store_host: view.store_host(),
        reconsume_times: view.reconsume_times(),
        prepared_transaction_offset: view.prepared_transaction_offset(),
        body: view.body(),
        topic: view.topic(),
        properties: view.properties().as_bytes(),
    }
}

fn base64(bytes: &[u8]) -> String {
    use base64::Engine;
    base64::engine::general_purpose::STANDARD.encode(bytes)
}

fn sha256_hex(bytes: &[u8]) -> String {
    use sha2::Digest;
    sha2::Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}
