//! What Apache's encoders, compressors and checksums answer (`encode.jsonl`).

use std::collections::BTreeMap;
use std::net::SocketAddr;

use bytes::Bytes;
use rocketmq_wire::message::record::{BODY_CRC, body_crc};
use rocketmq_wire::message::{
    BatchElement, Compression, MagicVersion, PropertiesWriter, Record, RecordView, StoredMessage, batch, sys_flag,
    tag_hash,
};
use rocketmq_wire::{DecodeError, EncodeError};
use serde_json::Value;

use crate::common::{VERSIONS, field, hex, integer, json_lines, text};
use crate::stores::record_of;

fn rows(api: &str) -> Vec<Value> {
    let rows: Vec<Value> = json_lines("vectors/encode.jsonl").into_iter().filter(|row| row["api"] == api).collect();
    assert!(!rows.is_empty(), "no rows of {api}");
    rows
}

fn host(row: &Value, ip: &str, port: &str) -> SocketAddr {
    SocketAddr::new(text(row, ip).parse().expect("an address"), integer(row, port) as u16)
}

/// The record of a row; body and properties come from elsewhere.
fn record<'a>(row: &'a Value, physical_offset: i64, body: &'a [u8], properties: &'a [u8]) -> Record<'a> {
    Record {
        version: if row["version"] == "V2" { MagicVersion::V2 } else { MagicVersion::V1 },
        queue_id: integer(row, "queue_id") as i32,
        flag: integer(row, "flag") as i32,
        queue_offset: integer(row, "queue_offset"),
        physical_offset,
        sys_flag: integer(row, "sys_flag") as i32,
        born_timestamp: integer(row, "born_ts"),
        born_host: host(row, "born_ip", "born_port"),
        store_timestamp: integer(row, "store_ts"),
        store_host: host(row, "store_ip", "store_port"),
        reconsume_times: integer(row, "reconsume") as i32,
        prepared_transaction_offset: integer(row, "prepared"),
        body,
        topic: text(row, "topic"),
        properties,
    }
}

#[test]
fn records_of_the_message_decoder() {
    for row in rows("encode") {
        let note = text(&row, "note");
        if let Some(error) = row.get("error") {
            refused_by_java(&row, note, error.as_str().expect("text"));
            continue;
        }
        for version in VERSIONS {
            let bytes = hex(field(&row, version, "hex").expect("hex"));
            check_record(&row, version, &bytes, integer(&row, "phys_offset"));
            // The order of Java's map is not ours to keep; the form of the string is.
            let view = RecordView::parse(&bytes).expect("a record");
            let mut writer = PropertiesWriter::new();
            let properties = view.properties();
            if matches!(note, "empty property value" | "separators in value") {
                continue;
            }
            for (name, value) in properties.iter() {
                writer.push(name, value).expect("no separators");
            }
            let written = match version {
                "4.9.7" => writer.finish_without_last_separator(),
                _ => writer.finish(),
            };
            assert_eq!(written.as_bytes(), properties.as_bytes(), "{note}");
        }
    }
}

fn refused_by_java(row: &Value, note: &str, error: &str) {
    let body = hex(&row["body_hex"]);
    let record = record(row, 0, &body, b"");
    match note {
        _ if note.starts_with("topic ") => {
            assert!(matches!(record.encoded_len(), Err(EncodeError::TooLarge { limit: 127, .. })), "{note}");
        }
        // Java overflows its buffer; we set the bit that the address asks for.
        "IPv6 flag missing" => assert_eq!(record.encoded_sys_flag(), sys_flag::BORN_HOST_V6),
        "compression type 4" => assert!(Compression::from_sys_flag(record.sys_flag).is_err()),
        _ => panic!("{note}: {error} is not expected"),
    }
}

#[test]
fn records_of_the_store_encoder() {
    for row in rows("store_encoder") {
        let bytes = hex(&row["hex"]);
        if row["decoded"].is_null() {
            // A V1 record whose topic length does not fit its byte: Java writes it and cannot read it.
            let record = record(&row, 0, b"", b"");
            assert!(matches!(record.encoded_len(), Err(EncodeError::TooLarge { limit: 127, .. })), "{}", row["note"]);
            assert!(RecordView::parse(&bytes).is_err(), "{}", row["note"]);
            continue;
        }
        check_record(&row, "5.3.3", &bytes, 0);
        let view = RecordView::parse(&bytes).expect("a record");
        assert_eq!(view.properties().as_bytes(), row["props_string"].as_str().unwrap_or_default().as_bytes());
    }
}

/// Encodes the row's values to the recorded bytes and decodes those to the recorded values.
fn check_record(row: &Value, version: &str, bytes: &[u8], physical_offset: i64) {
    let note = text(row, "note");
    let view = RecordView::parse(bytes).unwrap_or_else(|error| panic!("{note}: {error}"));
    let record = record(row, physical_offset, view.body(), view.properties().as_bytes());
    let mut out = vec![0; record.encoded_len().expect("a length")];
    record.encode(&mut out).expect("a record");
    // Apache's encoder takes the checksum as given: where it compresses, that is the plain body's.
    let crc = integer(row, "body_crc") as u32;
    assert_eq!(view.body_crc(), crc, "{note}");
    out[BODY_CRC..BODY_CRC + 4].copy_from_slice(&crc.to_be_bytes());
    assert_eq!(out, bytes, "{note}");
    assert_eq!(record_of(&view).encoded_len(), Ok(bytes.len()));

    let message = StoredMessage::parse(Bytes::copy_from_slice(bytes)).expect("a record").0;
    let Some(decoded) = field(row, version, "decoded").filter(|decoded| !decoded.is_null()) else {
        assert!(message.decompressed_body(1 << 20).is_err(), "{note}");
        return;
    };
    let body = message.decompressed_body(1 << 20).expect("a readable body");
    assert_eq!(body, hex(&decoded["body_hex"]), "{note}");
    if message.view().verify_crc().is_err() {
        assert_eq!(body_crc(&body), crc, "{note}");
    }
    assert_eq!(message.size() as i64, integer(decoded, "store_size"), "{note}");
    assert_eq!(message.queue_id(), integer(decoded, "queue_id") as i32);
    assert_eq!(message.queue_offset(), integer(decoded, "queue_offset"));
    assert_eq!(message.physical_offset(), integer(decoded, "phys_offset"));
    assert_eq!(message.flag(), integer(decoded, "flag") as i32);
    assert_eq!(message.topic(), text(decoded, "topic"));
    assert_eq!(message.offset_message_id().to_string(), text(decoded, "offset_msg_id"), "{note}");
    let id = message.unique_id().map_or_else(|| message.offset_message_id().to_string(), str::to_owned);
    assert_eq!(id, text(decoded, "msg_id"), "{note}");
    let properties: BTreeMap<String, String> = serde_json::from_value(decoded["props"].clone()).expect("a map");
    assert_eq!(message.properties().to_map(), properties, "{note}");
    for (name, value) in &properties {
        assert_eq!(message.property(name), Some(value.as_str()), "{note}");
    }
    // 5.3.3 clears the compressed bit of what it inflated.
    let stored = integer(row, "sys_flag") as i32;
    assert_eq!(message.sys_flag(), stored, "{note}");
    let shown = if version == "5.3.3" { stored & !sys_flag::COMPRESSED } else { stored };
    assert_eq!(shown, integer(decoded, "sys_flag") as i32, "{note}");
}

#[test]
fn batch_bodies() {
    for row in rows("encode_messages") {
        let note = text(&row, "note");
        for version in VERSIONS {
            let bytes = hex(field(&row, version, "hex").expect("hex"));
            let elements: Vec<BatchElement<'_>> =
                batch::elements(&bytes).map(|element| element.expect("an element")).collect();
            let decoded = row["decoded"].as_array().expect("elements");
            assert_eq!(elements.len(), decoded.len(), "{note}");
            let mut again = Vec::new();
            for (element, decoded) in elements.iter().zip(decoded) {
                assert_eq!(element.flag, integer(decoded, "flag") as i32);
                assert_eq!(element.body, hex(&decoded["body_hex"]));
                let properties: BTreeMap<String, String> =
                    serde_json::from_value(decoded["props"].clone()).expect("a map");
                assert_eq!(element.properties().to_map(), properties, "{note}");
                element.encode(&mut again).expect("an element");
            }
            assert_eq!(again, bytes, "{note}");
        }
    }
}

fn algorithm(row: &Value) -> Compression {
    match text(row, "type") {
        "ZLIB" => Compression::Zlib,
        "LZ4" => Compression::Lz4,
        "ZSTD" => Compression::Zstd,
        other => panic!("unknown algorithm {other}"),
    }
}

#[test]
fn compressed_bodies() {
    for row in rows("compress") {
        let (algorithm, plain, compressed) = (algorithm(&row), hex(&row["plain_hex"]), hex(&row["compressed_hex"]));
        let note = format!("{} {}", row["type"], row["note"]);
        assert_eq!(algorithm.decompress(&compressed, plain.len()).as_deref(), Ok(plain.as_slice()), "{note}");
        let bits = algorithm.sys_flag_bits();
        assert_eq!(bits, integer(&row, "sys_flag_bits") as i32 | sys_flag::COMPRESSED);
        assert_eq!(Compression::from_sys_flag(bits), Ok(Some(algorithm)));

        let level = integer(&row, "level") as i32;
        let ours = algorithm.compress(&plain, level).expect("a compressed body");
        assert_eq!(algorithm.decompress(&ours, plain.len()).as_deref(), Ok(plain.as_slice()), "{note}");
        // The same container: its header, whatever the encoder made of the content.
        let header = match algorithm {
            Compression::Zlib => 1,
            Compression::Lz4 => 7,
            // Nothing was written before the end of an empty stream, so our encoder adds the size.
            Compression::Zstd if plain.is_empty() => 4,
            Compression::Zstd => 5,
        };
        assert_eq!(ours[..header], compressed[..header], "{note}");
        if let Some(limit) = plain.len().checked_sub(1) {
            let cut = algorithm.decompress(&compressed, limit);
            assert!(matches!(cut, Err(DecodeError::TooLarge { limit: at, .. }) if at == limit), "{note}: {cut:?}");
        }
    }
}

#[test]
fn levels_beyond_the_range_are_moved_into_it() {
    for algorithm in [Compression::Zlib, Compression::Lz4, Compression::Zstd] {
        for level in [i32::MIN, -1, 0, 10, i32::MAX] {
            let compressed = algorithm.compress(b"body", level).expect("a compressed body");
            assert_eq!(algorithm.decompress(&compressed, 4).as_deref(), Ok(&b"body"[..]), "{algorithm:?} {level}");
        }
    }
}

#[test]
fn damaged_compressed_bodies() {
    for row in rows("decompress") {
        let note = format!("{} {}", row["type"], row["note"]);
        let answer = algorithm(&row).decompress(&hex(&row["compressed_hex"]), 1 << 20);
        match row.get("plain_hex") {
            Some(plain) => assert_eq!(answer.as_ref(), Ok(&hex(plain)), "{note}"),
            None => assert!(matches!(answer, Err(DecodeError::Decompress { .. })), "{note}: {answer:?}"),
        }
    }
}

#[test]
fn checksums() {
    for row in rows("crc32") {
        assert_eq!(i64::from(body_crc(&hex(&row["body_hex"]))), integer(&row, "crc32"));
    }
}

#[test]
fn tag_codes() {
    for row in rows("tags_code") {
        let tags = row["tags"].as_str().unwrap_or_default();
        assert_eq!(i64::from(tag_hash(tags)), integer(&row, "tags_code"), "{tags}");
    }
}
