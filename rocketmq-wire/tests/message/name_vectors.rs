//! Names and namespaces against `names.jsonl`.

use rocketmq_wire::message::names::{self, NameError};
use rocketmq_wire::message::namespace;
use serde_json::Value;

use crate::common::{field, json_lines};

fn rows(op: &str) -> Vec<Value> {
    let rows: Vec<Value> = json_lines("vectors/names.jsonl").into_iter().filter(|row| row["op"] == op).collect();
    assert!(!rows.is_empty(), "no rows of {op}");
    rows
}

/// The verdict that belongs to a validator's answer, which is cut after 100 characters: where it quotes the name, the
/// characters are what is wrong.
fn verdict(answer: &Value) -> &'static str {
    let answer = answer.as_str().expect("text");
    let verdicts = [
        ("is blank", "blank"),
        ("is longer than", "long"),
        ("illegal characters", "illegal"),
        ("The specified topic[", "illegal"),
        ("the specified group[", "illegal"),
    ];
    let found = verdicts.into_iter().find(|(words, _)| answer.contains(words));
    found.map_or_else(|| if answer == "ok" { "ok" } else { panic!("{answer}") }, |(_, verdict)| verdict)
}

fn ours(result: Result<(), NameError>) -> &'static str {
    match result {
        Ok(()) => "ok",
        Err(NameError::Blank) => "blank",
        Err(NameError::IllegalCharacter(_)) => "illegal",
        Err(NameError::TooLong { .. }) => "long",
        Err(other) => panic!("{other}"),
    }
}

#[test]
fn topics_and_groups_are_judged_as_java_judges_them() {
    let mut judged = 0;
    for row in rows("valid") {
        // Java's null is an absent name here.
        let Some(name) = row["in"].as_str() else { continue };
        judged += 1;
        let expected = |field_name| field(&row, "5.3.3", field_name).expect("a field");
        assert_eq!(ours(names::check_topic(name)), verdict(expected("checkTopic")), "{name}");
        assert_eq!(ours(names::check_topic(name)), verdict(expected("validateTopic")), "{name}");
        assert_eq!(ours(names::check_group(name)), verdict(expected("checkGroup")), "{name}");
        assert_eq!(!name.chars().all(names::is_legal), expected("illegalChars").as_bool().unwrap(), "{name}");
        assert_eq!(!names::is_sendable(name), expected("isNotAllowedSendTopic").as_bool().unwrap(), "{name}");
        assert_eq!(names::is_system_topic(name), expected("isSystemTopic").as_bool().unwrap(), "{name}");
        assert_eq!(names::is_system_group(name), expected("isSysConsumerGroup").as_bool().unwrap(), "{name}");
        assert_eq!(names::retry_topic(name), expected("retryTopic").as_str().unwrap());
        assert_eq!(names::dead_letter_topic(name), expected("dlqTopic").as_str().unwrap());
        assert_eq!(names::group_of_retry_topic(&names::retry_topic(name)), Some(name));
    }
    assert_eq!(judged, 92);
}

#[test]
fn names_are_wrapped_in_namespaces_as_java_wraps_them() {
    let mut wrapped = 0;
    for row in rows("ns") {
        let Some(name) = row["in"].as_str() else { continue };
        wrapped += 1;
        let namespace = row["ns"].as_str().unwrap_or_default();
        let expected = |field: &str| row[field].as_str().expect("text");
        let case = format!("{namespace} and {name}");
        assert_eq!(namespace::wrap(namespace, name), expected("wrapNamespace"), "{case}");
        assert_eq!(namespace::wrap(namespace, name), expected("clientConfigWithNamespace"), "{case}");
        assert_eq!(
            namespace::wrap_retry_topic(namespace, name).as_deref(),
            row["wrapNamespaceAndRetry"].as_str(),
            "{case}"
        );
        assert_eq!(namespace::unwrap(namespace, name), expected("withoutNamespaceNs"), "{case}");
        assert_eq!(namespace::unwrap(namespace, name), expected("clientConfigWithoutNamespace"), "{case}");
        assert_eq!(namespace::unwrap_any(name), expected("withoutNamespace"), "{case}");
        assert_eq!(namespace::namespace_of(name).unwrap_or_default(), expected("getNamespaceFromResource"), "{case}");
        assert_eq!(namespace::is_wrapped(namespace, name), row["isAlreadyWithNamespace"].as_bool().unwrap(), "{case}");
        assert_eq!(names::is_retry_topic(name), row["isRetryTopic"].as_bool().unwrap(), "{case}");
        assert_eq!(names::is_dead_letter_topic(name), row["isDLQTopic"].as_bool().unwrap(), "{case}");
    }
    assert_eq!(wrapped, 69);
}
