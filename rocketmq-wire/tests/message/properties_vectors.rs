//! Property strings against `properties.jsonl`, and the vectors of the protocol notes.

use std::collections::BTreeMap;

use rocketmq_wire::EncodeError;
use rocketmq_wire::message::{BatchElement, Properties, PropertiesWriter, properties};
use serde_json::Value;

use crate::common::{VERSIONS, field, json_lines, text};

fn rows(op: &str) -> Vec<Value> {
    let rows: Vec<Value> = json_lines("vectors/properties.jsonl").into_iter().filter(|row| row["op"] == op).collect();
    assert!(!rows.is_empty(), "no rows of {op}");
    rows
}

#[test]
fn strings_are_written_in_both_forms() {
    let mut refused = 0;
    for row in rows("to") {
        let empty = serde_json::Map::new();
        let map = row["props"].as_object().unwrap_or(&empty);
        // Java skips values that are null.
        let pairs: Vec<(&str, &str)> =
            map.iter().filter_map(|(name, value)| Some((name.as_str(), value.as_str()?))).collect();
        let separators = ['\u{1}', '\u{2}'];
        if pairs.iter().any(|(name, value)| name.contains(separators) || value.contains(separators)) {
            assert!(matches!(properties::encode(pairs), Err(EncodeError::Invalid { .. })), "{row}");
            refused += 1;
            continue;
        }
        for version in VERSIONS {
            let mut writer = PropertiesWriter::new();
            pairs.iter().for_each(|(name, value)| writer.push(name, value).expect("no separators"));
            let written = if version == "4.9.7" { writer.finish_without_last_separator() } else { writer.finish() };
            let expected = field(&row, version, "string").and_then(Value::as_str).expect("text");
            assert_eq!(written, expected, "{version}");
        }
        assert_eq!(properties::encode(pairs).as_deref(), Ok(field(&row, "5.3.3", "string").unwrap().as_str().unwrap()));
    }
    assert_eq!(refused, 5);
}

#[test]
fn strings_are_read_as_java_reads_them() {
    for row in rows("from") {
        let string = row["string"].as_str().unwrap_or_default();
        let expected: BTreeMap<String, String> = serde_json::from_value(row["props"].clone()).expect("a map");
        let properties = Properties::from(string);
        assert_eq!(properties.to_map(), expected, "{string:?}");
        for (name, value) in &expected {
            assert_eq!(properties.value(name), Some(value.as_str()), "{string:?}");
        }
        for absent in ["", "none", "junk", "xy"] {
            assert_eq!(properties.value(absent), None, "{string:?}");
        }
    }
}

#[test]
fn what_is_not_utf8_hides_only_itself() {
    let properties = Properties::new(b"a\x01\xFF\x02\xFE\x011\x02b\x012\x02");
    assert_eq!(properties.iter().collect::<Vec<_>>(), [("b", "2")]);
    assert_eq!((properties.value("a"), properties.value("b")), (None, Some("2")));
}

#[test]
fn a_string_is_continued_whatever_its_end() {
    for start in ["", "a\u{1}1", "a\u{1}1\u{2}"] {
        let mut writer = PropertiesWriter::continue_from(start);
        writer.push("b", "2").unwrap();
        let expected = if start.is_empty() { "b\u{1}2\u{2}" } else { "a\u{1}1\u{2}b\u{1}2\u{2}" };
        assert_eq!(writer.finish(), expected);
    }
}

#[test]
fn reserved_names_are_known() {
    for name in ["KEYS", "TAGS", "WAIT", "DELAY", "UNIQ_KEY", "REAL_QID", "__CRC32#", "1ST_POP_TIME"] {
        assert!(properties::is_reserved(name), "{name}");
    }
    for name in ["keys", "CHECK_IMMUNITY_TIME_IN_SECONDS", "__SHARDINGKEY", "INNER_NUM", "mine", ""] {
        assert!(!properties::is_reserved(name), "{name}");
    }
}

#[test]
fn vectors_of_the_protocol_notes() {
    let row = serde_json::json!({ "hex": concat!(
        "0000002e", "00000000", "00000000", "00000000", "00000002", "6869",
        "0016", "57414954", "01", "74727565", "02", "554e49515f4b4559", "01", "4142", "02") });
    let string = properties::encode([("WAIT", "true"), ("UNIQ_KEY", "AB")]).unwrap();
    let mut out = Vec::new();
    BatchElement { flag: 0, body: b"hi", properties: string.as_bytes() }.encode(&mut out).unwrap();
    assert_eq!(out, crate::common::hex(&row["hex"]), "{}", text(&row, "hex"));

    let string = properties::encode([("A", "1"), ("B", "")]).unwrap();
    assert_eq!(string, "A\u{1}1\u{2}B\u{1}\u{2}");
    assert_eq!(Properties::from(string.as_str()).iter().collect::<Vec<_>>(), [("A", "1")]);
}
