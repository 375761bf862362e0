//! Tag expressions and the string hash against `queue_select.jsonl`. The queue that a hash selects is not looked at
//! here: it belongs to the producer.

use std::collections::BTreeSet;

use rocketmq_wire::filter::{self, TagExpression};
use rocketmq_wire::message::tag_hash;
use serde_json::Value;

use crate::common::{integer, json_lines, text};

fn rows(op: &str) -> Vec<Value> {
    let rows: Vec<Value> = json_lines("vectors/queue_select.jsonl").into_iter().filter(|row| row["op"] == op).collect();
    assert!(!rows.is_empty(), "no rows of {op}");
    rows
}

fn compare(row: &Value, expression: &TagExpression) {
    assert_eq!(expression.as_str(), text(row, "subString"), "{row}");
    let tags: BTreeSet<&str> = expression.tags().iter().map(String::as_str).collect();
    let expected: BTreeSet<&str> = row["tagsSet"].as_array().unwrap().iter().map(|tag| tag.as_str().unwrap()).collect();
    assert_eq!(tags, expected, "{row}");
    assert_eq!(tags.len(), expression.tags().len(), "each tag once: {row}");
    let codes: BTreeSet<i64> = expression.codes().iter().map(|code| i64::from(*code)).collect();
    let expected: BTreeSet<i64> =
        row["codeSet"].as_array().unwrap().iter().map(|code| code.as_i64().unwrap()).collect();
    assert_eq!(codes, expected, "{row}");
    assert_eq!(codes.len(), expression.codes().len(), "each code once: {row}");
}

#[test]
fn subscriptions_are_parsed_as_java_parses_them() {
    let mut refused = 0;
    for row in rows("sub") {
        // Java takes null as it takes the empty text.
        let parsed = TagExpression::parse(row["expr"].as_str().unwrap_or_default());
        match row.get("error") {
            Some(_) => {
                assert!(parsed.is_err(), "{row}");
                refused += 1;
            }
            None => compare(&row, &parsed.expect("an expression")),
        }
    }
    assert_eq!(refused, 1);
}

#[test]
fn only_expressions_of_the_tag_type_are_parsed() {
    let mut parsed = 0;
    for row in rows("build") {
        if filter::is_tag_type(row["type"].as_str()) {
            compare(&row, &TagExpression::parse(row["expr"].as_str().unwrap_or_default()).expect("an expression"));
            assert_eq!(row["expressionType"], filter::TAG);
            parsed += 1;
        } else if row.get("error").is_none() {
            assert_eq!(row["tagsSet"].as_array().unwrap().len(), 0, "{row}");
        }
    }
    assert_eq!(parsed, 5);
}

#[test]
fn strings_hash_as_in_java() {
    for row in rows("tag").into_iter().chain(rows("hash")) {
        assert_eq!(i64::from(tag_hash(text(&row, "key"))), integer(&row, "hash"), "{row}");
    }
}

#[test]
fn the_broker_looks_at_codes_and_the_consumer_at_tags() {
    let collision = TagExpression::parse("Aa || x").unwrap();
    assert!(collision.matches_code(i64::from(tag_hash("BB"))), "Aa and BB have one hash");
    assert!(!collision.matches_tag(Some("BB")));
    assert!(collision.matches_tag(Some("Aa")) && collision.matches_tag(Some("x")));
    assert!(!collision.matches_tag(None) && !collision.matches_code(0));

    let all = TagExpression::parse("*").unwrap();
    assert!(all.is_all() && all.matches_code(7) && all.matches_tag(None) && all.matches_tag(Some("x")));

    let nothing = TagExpression::parse(" ").unwrap();
    assert!(!nothing.is_all() && !nothing.matches_code(0) && !nothing.matches_code(32));
}
