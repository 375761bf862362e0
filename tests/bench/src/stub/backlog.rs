//! What a pull is answered with: the same record again and again, each time with the offset it has in its queue.

use std::collections::HashMap;

/// Where the offsets stand in a stored record.
const QUEUE_ID_AT: usize = 12;
const QUEUE_OFFSET_AT: usize = 20;
const PHYSICAL_OFFSET_AT: usize = 28;

/// Endless supply of one message.
#[derive(Debug, Default)]
pub(super) struct Backlog {
    records: HashMap<String, Vec<u8>>,
}

impl Backlog {
    /// Appends the records of one queue from offset `from` up to `until`.
    pub(super) fn write(&mut self, out: &mut Vec<u8>, topic: &str, queue_id: i32, from: i64, until: i64) {
        let record = self.records.entry(topic.to_owned()).or_insert_with(|| record(topic));
        for offset in from..until {
            let start = out.len();
            out.extend_from_slice(record);
            let mut patch = |at: usize, bytes: &[u8]| out[start + at..start + at + bytes.len()].copy_from_slice(bytes);
            patch(QUEUE_ID_AT, &queue_id.to_be_bytes());
            patch(QUEUE_OFFSET_AT, &offset.to_be_bytes());
            patch(PHYSICAL_OFFSET_AT, &(offset * record.len() as i64).to_be_bytes());
        }
    }
}

/// A stored message of version 1 with a body of 128 bytes.
fn record(topic: &str) -> Vec<u8> {
    let body = [b'x'; 128];
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
    fn records_are_stored_messages() {
        let mut out = Vec::new();
        Backlog::default().write(&mut out, "bench", 3, 7, 9);
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
