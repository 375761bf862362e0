//! The syntax of SQL92 expressions against `sql92.jsonl`. What they evaluate to belongs to the broker.

use rocketmq_wire::filter::SqlExpression;
use rocketmq_wire::filter::sql92::Dialect;
use serde_json::Value;

use crate::common::{VERSIONS, json_lines, text};

fn is_parsed(row: &Value, version: &str) -> bool {
    let parsed = row.get(version).and_then(|answer| answer.get("parse_ok")).or_else(|| row.get("parse_ok"));
    parsed.and_then(Value::as_bool).unwrap_or_else(|| panic!("no answer of {version}: {row}"))
}

#[test]
fn what_apache_parses_is_parsed_and_what_it_refuses_is_refused() {
    let rows = json_lines("vectors/sql92.jsonl");
    let mut refused = [0; 2];
    for row in &rows {
        for (index, version) in VERSIONS.iter().enumerate() {
            let dialect = [Dialect::WithoutStringTests, Dialect::WithStringTests][index];
            let parsed = SqlExpression::parse(text(row, "expr"), dialect);
            assert_eq!(parsed.is_ok(), is_parsed(row, version), "{version}: {row}: {parsed:?}");
            refused[index] += usize::from(parsed.is_err());
        }
    }
    assert!(rows.len() > 1400 && refused.iter().all(|refused| *refused > 150), "{} {refused:?}", rows.len());
}

#[test]
fn ignored_text_is_told() {
    for (expression, ignored) in [("a = 3", None), ("a = 3 junk", Some(6)), ("a + 1 = 4", Some(2)), ("a = 3)", Some(5))]
    {
        let parsed = SqlExpression::parse(expression, Dialect::default()).expect(expression);
        assert_eq!(parsed.ignored_from(), ignored, "{expression}");
    }
}

#[test]
fn mistakes_are_placed_by_character() {
    for (expression, column) in [("é = 3", 1), ("a = 'é' AND b != 3", 15), ("a IN (3)", 7), ("a = 3 AND", 10), ("", 1)]
    {
        let error = SqlExpression::parse(expression, Dialect::default()).expect_err(expression);
        assert_eq!(error.column(), column, "{expression}: {error}");
    }
}

#[test]
fn no_expression_uses_up_the_stack() {
    let times = 100_000;
    for (unit, tail) in
        [("(", ""), ("NOT ", "a"), ("-", "1 = 1"), ("NOT (", "a"), ("a = ", "1"), ("a OR ", "a"), ("a AND ", "a")]
    {
        let text = unit.repeat(times) + tail;
        let parsed = SqlExpression::parse(&text, Dialect::default());
        // A chain is flat however long it is.
        assert_eq!(parsed.is_ok(), unit == "a OR " || unit == "a AND ", "{unit}");
    }
    let text = "a ".to_owned() + &"IS NULL ".repeat(times);
    assert!(SqlExpression::parse(&text, Dialect::default()).is_err());
}
