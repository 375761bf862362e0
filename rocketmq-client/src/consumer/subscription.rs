//! What a group reads: topics, and of each the messages with certain tags.

use std::collections::BTreeMap;
use std::sync::Arc;

use rocketmq_wire::filter::{self, TagExpression};
use rocketmq_wire::message::names::{self, NameError};
use rocketmq_wire::model::SubscriptionData;

use crate::error::{Error, ErrorKind, Result};

/// Java's placeholder for a group, which its clients refuse.
const PLACEHOLDER_GROUP: &str = "DEFAULT_CONSUMER";

/// A subscription to one topic.
#[derive(Debug, Clone)]
pub(crate) struct Subscription {
    pub(crate) topic: Arc<str>,
    pub(crate) expression: TagExpression,
    /// When it was made, in milliseconds since 1970. A broker that knows an older one refuses pulls.
    pub(crate) version: i64,
}

impl Subscription {
    /// Whether the consumer wants a message with this tag. The broker compares hashes only.
    pub(crate) fn wants(&self, tag: Option<&str>) -> bool {
        self.expression.matches_tag(tag)
    }

    /// Whether the consumer wants every message, so that tags need not be looked at.
    pub(crate) fn wants_all(&self) -> bool {
        self.expression.is_all()
    }

    /// The form in which heartbeats carry it.
    pub(crate) fn to_data(&self) -> SubscriptionData {
        SubscriptionData {
            class_filter_mode: false,
            code_set: self.expression.codes().to_vec(),
            expression_type: filter::TAG.to_owned(),
            sub_string: self.expression.as_str().to_owned(),
            sub_version: self.version,
            tags_set: self.expression.tags().to_vec(),
            topic: self.topic.to_string(),
        }
    }
}

/// Checks what a consumer was asked to read, and adds the group's retry topic.
///
/// Of several subscriptions to one topic the last counts. `version` is the time, in milliseconds since 1970.
///
/// # Errors
///
/// [`ErrorKind::InvalidArgument`] for a group, topic or expression that brokers or other members could not work with.
pub(crate) fn subscriptions(
    group: &str,
    requested: &[(String, String)],
    version: i64,
) -> Result<BTreeMap<Arc<str>, Subscription>> {
    check_group(group)?;
    if requested.is_empty() {
        return Err(invalid(format!(
            "the consumer of group `{group}` subscribes to no topic: call `subscribe(topic, \"*\")` before `start`"
        )));
    }
    let retry_topic = names::retry_topic(group);
    let mut subscriptions = BTreeMap::new();
    for (topic, expression) in requested {
        check_topic(topic)?;
        if *topic == retry_topic {
            return Err(invalid(format!(
                "`{topic}` is the group's own retry topic, which every consumer reads: leave the subscription out"
            )));
        }
        let expression = TagExpression::parse(expression)
            .ok()
            .filter(|parsed| parsed.is_all() || !parsed.tags().is_empty())
            .ok_or_else(|| {
                invalid(format!(
                    "the expression `{}` for topic `{topic}` names no tag: write `*` for all messages, or tags joined \
                     by ||",
                    expression.escape_debug()
                ))
            })?;
        let topic: Arc<str> = topic.as_str().into();
        subscriptions.insert(Arc::clone(&topic), Subscription { topic, expression, version });
    }
    let topic: Arc<str> = retry_topic.into();
    let expression = TagExpression::parse(filter::tag::ALL).expect("the expression for all messages is valid");
    subscriptions.insert(Arc::clone(&topic), Subscription { topic, expression, version });
    Ok(subscriptions)
}

fn check_group(group: &str) -> Result<()> {
    if group == PLACEHOLDER_GROUP {
        return Err(invalid(format!("`{group}` is a placeholder, not a consumer group: choose a name of your own")));
    }
    names::check_group(group)
        .and_then(|()| names::check(&names::retry_topic(group), names::MAX_RETRY_TOPIC_LENGTH))
        .map_err(|error| illegal("consumer group", group, error))
}

fn check_topic(topic: &str) -> Result<()> {
    let of_a_group = names::is_retry_topic(topic) || names::is_dead_letter_topic(topic);
    let limit = if of_a_group { names::MAX_RETRY_TOPIC_LENGTH } else { names::MAX_TOPIC_LENGTH };
    names::check(topic, limit).map_err(|error| illegal("topic", topic, error))
}

fn illegal(what: &str, name: &str, error: NameError) -> Error {
    invalid(format!("the {what} `{}` is not valid: {error}", name.escape_debug())).with_source(error)
}

fn invalid(message: String) -> Error {
    Error::new(ErrorKind::InvalidArgument, message).with_operation("subscribe")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(group: &str, requested: &[(&str, &str)]) -> Result<BTreeMap<Arc<str>, Subscription>> {
        let requested: Vec<_> = requested.iter().map(|(t, e)| ((*t).to_owned(), (*e).to_owned())).collect();
        subscriptions(group, &requested, 7)
    }

    #[test]
    fn the_retry_topic_is_subscribed_too() {
        let subscriptions = parse("billing", &[("orders", "paid || created"), ("audit", "*")]).expect("valid");
        let topics: Vec<_> = subscriptions.keys().map(|topic| &**topic).collect();
        assert_eq!(topics, ["%RETRY%billing", "audit", "orders"]);
        let data = subscriptions["orders"].to_data();
        assert_eq!((data.sub_string.as_str(), data.sub_version), ("paid || created", 7));
        assert_eq!((data.tags_set.len(), data.code_set.len(), data.expression_type.as_str()), (2, 2, "TAG"));
        assert!(subscriptions["orders"].wants(Some("paid")));
        assert!(!subscriptions["orders"].wants(Some("lost")) && !subscriptions["orders"].wants(None));
        assert!(subscriptions["audit"].wants(None));
        assert_eq!(subscriptions["%RETRY%billing"].to_data().sub_string, "*");
    }

    #[test]
    fn the_last_subscription_to_a_topic_counts() {
        let subscriptions = parse("g", &[("t", "a"), ("t", "b")]).expect("valid");
        assert_eq!(subscriptions["t"].expression.as_str(), "b");
    }

    #[test]
    fn says_what_is_wrong_before_anything_is_sent() {
        let long = "x".repeat(256);
        type Subscriptions<'a> = &'a [(&'a str, &'a str)];
        let cases: &[(&str, Subscriptions<'_>, &str)] = &[
            ("", &[("t", "*")], "consumer group ``"),
            ("bad group", &[("t", "*")], "holds ' '"),
            (&long, &[("t", "*")], "256 characters"),
            ("DEFAULT_CONSUMER", &[("t", "*")], "placeholder"),
            ("g", &[], "subscribes to no topic"),
            ("g", &[("to\u{1}pic", "*")], "holds '\\u{1}'"),
            ("g", &[("%RETRY%g", "*")], "own retry topic"),
            ("g", &[("t", "||")], "names no tag"),
            ("g", &[("t", " || \n")], "names no tag"),
        ];
        for &(group, requested, part) in cases {
            let error = parse(group, requested).expect_err(part);
            assert_eq!(error.kind(), ErrorKind::InvalidArgument);
            assert!(error.to_string().contains(part), "{error}");
        }
    }
}
