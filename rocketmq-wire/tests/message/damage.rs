//! Bytes that were cut short or changed give an error or a value, never a panic.

use bytes::Bytes;
use rocketmq_wire::message::id::UniqueIdParts;
use rocketmq_wire::message::{
    BatchElement, Compression, LogEntry, OffsetMessageId, Properties, RecordView, StoredMessage, batch, properties,
};
use rocketmq_wire::{DecodeError, EncodeError};

use crate::common::{hex, json_lines};
use crate::stores::{STORES, records};

const LIMIT: usize = 64 * 1024;

/// Reads all that can be read of a record.
fn read_everything(bytes: &[u8]) {
    let _ = LogEntry::parse(bytes);
    for message in StoredMessage::records(Bytes::copy_from_slice(bytes)).flatten() {
        let _ = (message.topic(), message.tags(), message.keys().count(), message.unique_id(), message.verify_crc());
        let _ = (message.born_host(), message.store_host(), message.offset_message_id().to_string());
        let _ = (message.reconsume_times(), message.prepared_transaction_offset(), message.properties().to_map());
        if let Ok(body) = message.decompressed_body(LIMIT) {
            assert!(body.len() <= LIMIT.max(message.body().len()));
        }
    }
}

/// One record of every topic and form in the stores.
fn sample() -> Vec<Bytes> {
    let mut sample: Vec<Bytes> = Vec::new();
    for store in STORES {
        for (_, bytes) in records(store).0 {
            let view = RecordView::parse(&bytes).expect("a record");
            // One of each: topic, flags and size.
            let seen = sample.iter().any(|other| {
                let other = RecordView::parse(other).expect("a record");
                (other.topic(), other.sys_flag(), other.size()) == (view.topic(), view.sys_flag(), view.size())
            });
            if !seen && bytes.len() < 1024 {
                sample.push(bytes);
            }
        }
    }
    for row in json_lines("vectors/encode.jsonl").iter().filter(|row| row["api"] == "store_encoder") {
        sample.push(hex(&row["hex"]).into());
    }
    assert!(sample.len() > 40);
    sample
}

#[test]
fn a_record_cut_short_anywhere_is_truncated() {
    for bytes in sample() {
        if RecordView::parse(&bytes).is_err() {
            continue;
        }
        for end in 0..bytes.len() {
            let cut = &bytes[..end];
            assert!(matches!(RecordView::parse(cut), Err(DecodeError::Truncated { .. })), "cut to {end}");
            let read: Vec<_> = StoredMessage::records(Bytes::copy_from_slice(cut)).collect();
            assert_eq!(read.len(), usize::from(end > 0));
            assert!(read.iter().all(Result::is_err));
        }
    }
}

#[test]
fn a_record_with_any_byte_changed_does_no_harm() {
    for bytes in sample() {
        let mut damaged = bytes.to_vec();
        for at in 0..damaged.len() {
            for change in [0x01, 0x80] {
                damaged[at] ^= change;
                read_everything(&damaged);
                damaged[at] ^= change;
            }
            let kept = damaged[at];
            for value in [0x00, 0xFF] {
                damaged[at] = value;
                read_everything(&damaged);
            }
            damaged[at] = kept;
        }
    }
}

#[test]
fn a_changed_body_is_told_by_its_checksum() {
    for bytes in sample() {
        let Ok(view) = RecordView::parse(&bytes) else { continue };
        view.verify_crc().expect("an intact body");
        let body_at = bytes.len() - view.properties().as_bytes().len() - 2 - view.topic().len();
        let body_at = body_at - view.version().topic_length_size() - view.body().len();
        for at in body_at..body_at + view.body().len() {
            let mut damaged = bytes.to_vec();
            damaged[at] ^= 0x20;
            let view = RecordView::parse(&damaged).expect("a record");
            assert!(matches!(view.verify_crc(), Err(DecodeError::Checksum { .. })));
        }
    }
}

#[test]
fn lengths_that_lie_are_refused() {
    let record = records("4.4.0").0.swap_remove(0).1;
    let body_length_at = 84;
    for (at, what) in [(0, "size"), (body_length_at, "body length")] {
        for lie in [i32::MIN, -1, 0, 1, 7, 8, 91, 1 << 30, i32::MAX] {
            let mut damaged = record.to_vec();
            damaged[at..at + 4].copy_from_slice(&lie.to_be_bytes());
            assert!(RecordView::parse(&damaged).is_err(), "{what} {lie}");
            read_everything(&damaged);
        }
    }
}

#[test]
fn log_positions_without_a_message_are_told_apart() {
    use rocketmq_wire::message::record::encode_end_of_file;

    let mut file = [0; 64];
    assert!(matches!(LogEntry::parse(&file), Ok(LogEntry::Unwritten)));
    assert!(matches!(LogEntry::parse(&file[..3]), Ok(LogEntry::Unwritten)));
    encode_end_of_file(&mut file[20..]).expect("room for a filler");
    assert!(matches!(LogEntry::parse(&file[20..]), Ok(LogEntry::EndOfFile { size: 44 })));
    assert!(LogEntry::parse(&file[20..60]).is_err(), "a filler does not reach beyond its file");
    assert!(RecordView::parse(&file[20..]).is_err(), "a filler is no message");
    assert!(LogEntry::parse(&[0, 0, 0, 9, 1]).is_err());
    for room in 0..8 {
        assert!(matches!(encode_end_of_file(&mut file[..room]), Err(EncodeError::NoRoom { .. })));
    }
}

#[test]
fn batches_do_no_harm() {
    for row in json_lines("vectors/encode.jsonl").iter().filter(|row| row["api"] == "encode_messages") {
        let bytes = hex(&row["5.3.3"]["hex"]);
        let whole = batch::elements(&bytes).count();
        for end in 0..bytes.len() {
            let elements: Vec<_> = batch::elements(&bytes[..end]).collect();
            assert!(elements.len() <= whole);
            assert_eq!(
                elements.iter().filter(|element| element.is_err()).count(),
                usize::from(!on_an_edge(&bytes, end))
            );
        }
        for at in 0..bytes.len() {
            for value in 0..=u8::MAX {
                let mut damaged = bytes.clone();
                damaged[at] = value;
                batch::elements(&damaged).flatten().for_each(|element| drop(element.properties().to_map()));
            }
        }
    }
}

fn on_an_edge(bytes: &[u8], end: usize) -> bool {
    let mut at = 0;
    while at < end {
        at += BatchElement::parse(&bytes[at..]).expect("an element").1;
    }
    at == end
}

#[test]
fn compressed_bodies_do_no_harm() {
    for row in json_lines("vectors/encode.jsonl").iter().filter(|row| row["api"] == "compress") {
        let algorithm = match row["type"].as_str() {
            Some("ZLIB") => Compression::Zlib,
            Some("LZ4") => Compression::Lz4,
            _ => Compression::Zstd,
        };
        let (plain, bytes) = (hex(&row["plain_hex"]), hex(&row["compressed_hex"]));
        for end in 0..bytes.len() {
            if let Ok(body) = algorithm.decompress(&bytes[..end], LIMIT) {
                assert!(plain.starts_with(&body), "{row} cut to {end}");
            }
        }
        for at in 0..bytes.len() {
            for change in [0x01, 0x80, 0xFF] {
                let mut damaged = bytes.clone();
                damaged[at] ^= change;
                if let Ok(body) = algorithm.decompress(&damaged, LIMIT) {
                    assert!(body.len() <= LIMIT);
                }
            }
        }
    }
}

#[test]
fn a_bomb_is_stopped_at_the_limit() {
    let zeros = vec![0; 1 << 20];
    for algorithm in [Compression::Zlib, Compression::Lz4, Compression::Zstd] {
        let bomb = algorithm.compress(&zeros, 5).expect("a compressed body");
        for limit in [0, 1, 4096, zeros.len() - 1] {
            let answer = algorithm.decompress(&bomb, limit);
            assert!(matches!(answer, Err(DecodeError::TooLarge { limit: at, .. }) if at == limit), "{algorithm:?}");
        }
        assert_eq!(algorithm.decompress(&bomb, zeros.len()).map(|body| body.len()), Ok(zeros.len()));
    }
}

#[test]
fn ids_and_properties_take_any_text() {
    for text in
        ["", "中", "0A00000100002A9F000000000000109G", "+A00000100002A9F0000000000001092", "é中中中中中中中中中中"]
    {
        assert!(text.parse::<OffsetMessageId>().is_err());
        assert!(UniqueIdParts::parse(text).is_err());
    }
    for byte in 0..=u8::MAX {
        let bytes = [byte, 1, byte, 2, byte];
        let properties = Properties::new(&bytes);
        let _ = (properties.to_map(), properties.value("a"));
    }
    assert!(properties::check_text("a key", "a\u{1}").is_err());
    assert!(properties::check_text("a key", "a\u{3} \u{0}").is_ok());
}
