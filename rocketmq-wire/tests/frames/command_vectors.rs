//! What Apache's `RemotingCommand` makes of commands (`tables.jsonl`, kind `command`).

use std::collections::BTreeMap;

use bytes::Bytes;
use rocketmq_wire::header::SerializeType;
use rocketmq_wire::{DecodeError, Frame, LanguageCode, RemotingCommand};
use serde_json::Value;

use crate::common::{VERSIONS, field, hex, json_lines, text};

/// The rows with the version whose answers they hold. 4.9.7 has no `NODE_JS`.
fn rows() -> Vec<(Value, &'static str)> {
    let rows = json_lines("vectors/tables.jsonl").into_iter().filter(|row| row["kind"] == "command");
    let rows: Vec<(Value, &str)> = rows
        .flat_map(|row| VERSIONS.map(|version| (row.clone(), version)))
        .filter(|(row, version)| field(row, version, "json_hex").is_some())
        .collect();
    assert_eq!(rows.len(), 2 * 46 - 1);
    rows
}

fn decode(bytes: &[u8]) -> Result<RemotingCommand, DecodeError> {
    RemotingCommand::decode(&Frame::parse(Bytes::copy_from_slice(bytes))?)
}

fn compare(command: &RemotingCommand, expected: &Value, note: &str) {
    assert_eq!(i64::from(command.code), expected["code"].as_i64().unwrap(), "{note}");
    assert_eq!(i64::from(command.opaque), expected["opaque"].as_i64().unwrap(), "{note}");
    assert_eq!(i64::from(command.flag), expected["flag"].as_i64().unwrap(), "{note}");
    assert_eq!(i64::from(command.version.0), expected["version"].as_i64().unwrap(), "{note}");
    assert_eq!(command.language, LanguageCode::from_name(text(expected, "language")), "{note}");
    assert_eq!(command.remark.as_deref(), expected["remark"].as_str(), "{note}");
    let fields: BTreeMap<String, String> = command.fields.clone().unwrap_or_default().into_iter().collect();
    // Java reads an empty value of a binary header as null.
    let expected_fields: BTreeMap<String, Option<String>> =
        serde_json::from_value(expected["ext"].clone()).unwrap_or_default();
    let expected_fields: BTreeMap<String, String> =
        expected_fields.into_iter().map(|(name, value)| (name, value.unwrap_or_default())).collect();
    assert_eq!(fields, expected_fields, "{note}");
    assert_eq!(command.body, hex(&expected["body_hex"]), "{note}");
}

#[test]
fn json_frames() {
    for (row, version) in rows() {
        let note = text(&row, "note");
        let bytes = hex(field(&row, version, "json_hex").expect("hex"));
        let command = decode(&bytes).unwrap_or_else(|error| panic!("{note}: {error}"));
        compare(&command, field(&row, version, "json_decoded").expect("a command"), note);
        // We always name a language.
        if note != "language null" {
            assert_eq!(command.to_bytes().expect("a frame"), bytes, "{note}");
        }
    }
}

#[test]
fn binary_frames() {
    let mut read = 0;
    for (row, version) in rows() {
        let note = text(&row, "note");
        let Some(bytes) = field(&row, version, "rocketmq_hex").map(hex) else {
            assert_eq!(note, "language null", "only this one cannot be written by Java");
            continue;
        };
        let command = decode(&bytes).unwrap_or_else(|error| panic!("{note}: {error}"));
        assert_eq!(command.to_bytes().expect("a frame"), bytes, "{note}");
        match field(&row, version, "rocketmq_decoded") {
            Some(expected) => compare(&command, expected, note),
            None => assert_eq!(note, "empty ext key", "only this one cannot be read by Java"),
        }
        read += 1;

        // From the values of the row: Java cuts codes that are too large, we write them as JSON.
        let json = decode(&hex(field(&row, version, "json_hex").expect("hex"))).expect("a command");
        let binary = RemotingCommand { serialize_type: SerializeType::Binary, ..json }.to_bytes().expect("a frame");
        if i16::try_from(row["code"].as_i64().expect("a code")).is_ok() {
            assert_eq!(binary, bytes, "{note}");
        } else {
            assert_eq!(binary, hex(field(&row, version, "json_hex").expect("hex")), "{note}");
        }
    }
    assert_eq!(read, 2 * 45 - 1);
}

#[test]
fn vectors_of_the_protocol_notes() {
    let command = RemotingCommand {
        serialize_type: SerializeType::Json,
        code: 105,
        language: LanguageCode::JAVA,
        version: rocketmq_wire::Version(479),
        opaque: 7,
        flag: 0,
        remark: None,
        fields: Some(vec![("topic".to_owned(), "TopicTest".to_owned())]),
        body: Bytes::new(),
    };
    let json = command.to_bytes().expect("a frame");
    assert_eq!(json[..8], [0, 0, 0, 0x87, 0, 0, 0, 0x83], "a header of 131 bytes");
    let binary = RemotingCommand { serialize_type: SerializeType::Binary, language: LanguageCode::RUST, ..command };
    let hex = binary.to_bytes().expect("a frame").iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let expected = "0000002d 01000029 0069 0c 01df 00000007 00000000 00000000 00000014 0005 746f706963 00000009 546f70696354657374";
    assert_eq!(hex, expected.replace(' ', ""));
}
