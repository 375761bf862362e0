//! What a pull is answered with: the same record again and again, each time with the offset it has in its queue.

use std::{collections::HashMap, ops::Range};

/// Where the offsets stand in a stored record.
const QUEUE_ID_AT: usize = 12;
const QUEUE_OFFSET_AT: usize = 20;
const PHYSICAL_OFFSET_AT: usize = 28;

/// What the queues of a topic hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Holding {
    /// Bytes of each body.
    pub(super) body: usize,
    /// Messages in each queue.
    pub(super) messages: i64,
}

impl Holding {
    /// A topic called `backlog-BODY-MESSAGES` holds what its name says, any other nothing.
    pub(super) fn of(topic: &str) -> Self {
        let named = || {
            let (body, messages) = topic.strip_prefix("backlog-")?.split_once('-')?;
            Some(Self { body: body.parse().ok()?, messages: messages.parse().ok()? })
        };
        named().unwrap_or(Self { body: 0, messages: 0 })
    }
}

/// Endless supply of one message a topic.
#[derive(Debug, Default)]
pub(super) struct Backlog {
    records: HashMap<String, Vec<u8>>,
}

impl Backlog {
    /// Appends the records of one queue with these offsets.
    pub(super) fn write(&mut self, out: &mut Vec<u8>, topic: &str, body: usize, queue_id: i32, offsets: Range<i64>) {
        if !self.records.contains_key(topic) {
            self.records.insert(topic.to_owned(), record(topic, body));
        }
        let record = &self.records[topic];
        for offset in offsets {
            let start = out.len();
            out.extend_from_slice(record);
            let mut patch = |at: usize, bytes: &[u8]| out[start + at..start + at + bytes.len()].copy_from_slice(bytes);
            patch(QUEUE_ID_AT, &queue_id.to_be_bytes());
            patch(QUEUE_OFFSET_AT, &offset.to_be_bytes());
            patch(PHYSICAL_OFFSET_AT, &(offset * record.len() as i64).to_be_bytes());
        }
    }
}

/// A stored message of version 1 with a body of so many bytes.
pub(super) fn record(topic: &str, body: usize) -> Vec<u8> {
    let body = vec![b'x'; body];
    let properties = b"UNIQ_KEY\x017F0000010001DEADBEEF000000000000\x02WAIT\x01true\x02";
    let mut record = Vec::new();
    let word = |record: &mut Vec<u8>, value: u32| record.extend_from_slice(&value.to_be_bytes());
    let long = |record: &mut Vec<u8>, value: u64| record.extend_from_slice(&value.to_be_bytes());
    let host = |record: &mut Vec<u8>| record.extend_from_slice(&[127, 0, 0, 1, 0, 0, 0x2A, 0x9F]);
    word(&mut record, 0); // total size, below
    word(&mut record, 0xDAA3_20A7); // magic code of version 1
    word(&mut record, crc32(&body));
    word(&mut record, 0); // queue id
    word(&mut record, 0); // flag
    long(&mut record, 0); // queue offset
    long(&mut record, 0); // physical offset
    word(&mut record, 0); // system flag
    long(&mut record, 1_700_000_000_000); // born
    host(&mut record);
    long(&mut record, 1_700_000_000_001); // stored
    host(&mut record);
    word(&mut record, 0); // reconsume times
    long(&mut record, 0); // prepared transaction offset
    word(&mut record, body.len() as u32);
    record.extend_from_slice(&body);
    record.push(topic.len() as u8);
    record.extend_from_slice(topic.as_bytes());
    record.extend_from_slice(&(properties.len() as u16).to_be_bytes());
    record.extend_from_slice(properties);
    let length = record.len() as u32;
    record[..4].copy_from_slice(&length.to_be_bytes());
    record
}

/// The checksum of a body as Apache stores it: CRC-32 without its highest bit.
fn crc32(bytes: &[u8]) -> u32 {
    let mut crc = u32::MAX;
    for byte in bytes {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = (crc >> 1) ^ (0xEDB8_8320 & (crc & 1).wrapping_neg());
        }
    }
    !crc & 0x7FFF_FFFF
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use rocketmq_wire::message::stored::StoredMessage;

    #[test]
    fn the_name_of_a_topic_says_what_it_holds() {
        assert_eq!(Holding::of("backlog-1024-5000"), Holding { body: 1024, messages: 5000 });
        assert_eq!(Holding::of("bench"), Holding { body: 0, messages: 0 });
        assert_eq!(Holding::of("%RETRY%backlog-1-1").messages, 0);
    }

    #[test]
    fn records_are_stored_messages() {
        let mut out = Vec::new();
        Backlog::default().write(&mut out, "bench", 128, 3, 7..9);
        let mut bytes = Bytes::from(out);
        for offset in [7, 8] {
            let (message, size) = StoredMessage::parse(bytes.clone()).unwrap();
            message.verify_crc().unwrap();
            assert_eq!((message.topic(), message.queue_id(), message.queue_offset()), ("bench", 3, offset));
            assert_eq!((message.unique_id(), message.size()), (Some("7F0000010001DEADBEEF000000000000"), size));
            bytes = bytes.slice(size..);
        }
        assert!(bytes.is_empty());
    }
}
