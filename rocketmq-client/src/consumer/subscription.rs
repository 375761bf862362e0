//! What a group reads: topics, and of each the messages with certain tags.

use std::collections::BTreeMap;
use std::sync::Arc;

use rocketmq_wire::filter::sql92::Dialect;
use rocketmq_wire::filter::{self, SqlExpression, TagExpression};
use rocketmq_wire::message::names::{self, NameError};
use rocketmq_wire::model::SubscriptionData;

use crate::error::{Error, ErrorKind, Result};

/// Java's placeholder for a group, which its clients refuse.
const PLACEHOLDER_GROUP: &str = "DEFAULT_CONSUMER";

/// Which messages of a topic are wanted, for [`subscribe`](super::PushConsumerBuilder::subscribe).
///
/// A text is a tag expression: `"*"` for all, or tags joined by `||`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum FilterExpression {
    /// `*`, or tags joined by `||`. Brokers compare hashes of tags, and the client the tags themselves.
    Tags(String),
    /// A condition on the properties of messages, as in `a > 5 AND region IN ('north', 'west')`. The broker must have
    /// `enablePropertyFilter=true`, which is not its default; messages that come again after a failure are not filtered.
    Sql92(String),
}

impl FilterExpression {
    /// All messages.
    pub fn all() -> Self {
        Self::Tags(filter::tag::ALL.to_owned())
    }

    /// A condition on properties; see [`Sql92`](Self::Sql92).
    pub fn sql92(condition: impl Into<String>) -> Self {
        Self::Sql92(condition.into())
    }
}

impl From<&str> for FilterExpression {
    fn from(tags: &str) -> Self {
        Self::Tags(tags.to_owned())
    }
}

impl From<String> for FilterExpression {
    fn from(tags: String) -> Self {
        Self::Tags(tags)
    }
}

impl From<&String> for FilterExpression {
    fn from(tags: &String) -> Self {
        Self::Tags(tags.clone())
    }
}

/// A filter that was checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Filter {
    Tags(TagExpression),
    Sql92(String),
}

/// A subscription to one topic.
#[derive(Debug, Clone)]
pub(crate) struct Subscription {
    pub(crate) topic: Arc<str>,
    pub(crate) filter: Filter,
    /// When it was made, in milliseconds since 1970. A broker that knows an older one refuses pulls.
    pub(crate) version: i64,
}

/// By topic.
pub(crate) type Subscriptions = BTreeMap<Arc<str>, Arc<Subscription>>;

impl Subscription {
    /// Whether the consumer wants a message with this tag. The broker compares hashes only.
    pub(crate) fn wants(&self, tag: Option<&str>) -> bool {
        match &self.filter {
            Filter::Tags(expression) => expression.matches_tag(tag),
            Filter::Sql92(_) => true,
        }
    }

    /// Whether tags need not be looked at.
    pub(crate) fn wants_all_tags(&self) -> bool {
        match &self.filter {
            Filter::Tags(expression) => expression.is_all(),
            Filter::Sql92(_) => true,
        }
    }

    /// How the filter is written.
    pub(crate) fn text(&self) -> &str {
        match &self.filter {
            Filter::Tags(expression) => expression.as_str(),
            Filter::Sql92(condition) => condition,
        }
    }

    /// The name of the kind of filter on the wire.
    pub(crate) fn kind(&self) -> &'static str {
        match &self.filter {
            Filter::Tags(_) => filter::TAG,
            Filter::Sql92(_) => filter::SQL92,
        }
    }

    /// The form in which heartbeats carry it.
    pub(crate) fn to_data(&self) -> SubscriptionData {
        let (code_set, tags_set) = match &self.filter {
            Filter::Tags(expression) => (expression.codes().to_vec(), expression.tags().to_vec()),
            Filter::Sql92(_) => (Vec::new(), Vec::new()),
        };
        SubscriptionData {
            class_filter_mode: false,
            code_set,
            expression_type: self.kind().to_owned(),
            sub_string: self.text().to_owned(),
            sub_version: self.version,
            tags_set,
            topic: self.topic.to_string(),
        }
    }
}

/// Checks a subscription. `version` is the time, in milliseconds since 1970.
///
/// # Errors
///
/// [`ErrorKind::InvalidArgument`] for a topic or filter that brokers or other members could not work with.
pub(crate) fn subscription(
    group: &str,
    topic: &str,
    expression: &FilterExpression,
    version: i64,
) -> Result<Subscription> {
    check_topic(topic)?;
    if topic == names::retry_topic(group) {
        return Err(invalid(format!(
            "`{topic}` is the group's own retry topic, which every consumer reads: leave the subscription out"
        )));
    }
    let filter = match expression {
        FilterExpression::Tags(tags) => {
            let parsed = TagExpression::parse(tags).ok();
            let parsed = parsed.filter(|parsed| parsed.is_all() || !parsed.tags().is_empty()).ok_or_else(|| {
                invalid(format!(
                    "the expression `{}` for topic `{topic}` names no tag: write `*` for all messages, or tags joined \
                     by ||",
                    tags.escape_debug()
                ))
            })?;
            Filter::Tags(parsed)
        }
        FilterExpression::Sql92(condition) => {
            let parsed = SqlExpression::parse(condition, Dialect::WithStringTests).map_err(|error| {
                let text = condition.escape_debug();
                invalid(format!("the SQL92 condition `{text}` for topic `{topic}` has a mistake {error}"))
                    .with_source(error)
            })?;
            if let Some(position) = parsed.ignored_from() {
                let ignored = condition[position..].escape_debug();
                return Err(invalid(format!(
                    "brokers would ignore `{ignored}` in the SQL92 condition `{}` for topic `{topic}`: the condition is \
                     complete before it; leave it out, or join it by AND or OR",
                    condition.escape_debug()
                )));
            }
            Filter::Sql92(condition.clone())
        }
    };
    Ok(Subscription { topic: topic.into(), filter, version })
}

/// Checks what a consumer was asked to read, and adds the group's retry topic if `with_retry_topic`.
///
/// Of several subscriptions to one topic the last counts. `version` is the time, in milliseconds since 1970.
///
/// # Errors
///
/// [`ErrorKind::InvalidArgument`] for a group, topic or expression that brokers or other members could not work with.
pub(crate) fn subscriptions(
    group: &str,
    requested: &[(String, FilterExpression)],
    with_retry_topic: bool,
    version: i64,
) -> Result<Subscriptions> {
    check_group(group)?;
    if requested.is_empty() {
        return Err(invalid(format!(
            "the consumer of group `{group}` subscribes to no topic: call `subscribe(topic, \"*\")` before `start`"
        )));
    }
    let mut subscriptions = Subscriptions::new();
    for (topic, expression) in requested {
        let subscription = subscription(group, topic, expression, version)?;
        subscriptions.insert(Arc::clone(&subscription.topic), Arc::new(subscription));
    }
    if with_retry_topic {
        let topic: Arc<str> = names::retry_topic(group).into();
        let all = TagExpression::parse(filter::tag::ALL).expect("the expression for all messages is valid");
        let subscription = Subscription { topic: Arc::clone(&topic), filter: Filter::Tags(all), version };
        subscriptions.insert(topic, Arc::new(subscription));
    }
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

    fn parse(group: &str, requested: &[(&str, &str)]) -> Result<Subscriptions> {
        let requested: Vec<_> = requested.iter().map(|(topic, tags)| ((*topic).to_owned(), (*tags).into())).collect();
        subscriptions(group, &requested, true, 7)
    }

    #[test]
    fn mistakes_in_sql_are_found_before_a_broker_is_asked() {
        let check = |condition| subscription("g", "t", &FilterExpression::sql92(condition), 7);
        let data = check("a > 5 AND region IN ('north')").expect("valid").to_data();
        assert_eq!(
            (data.expression_type.as_str(), data.sub_string.as_str()),
            ("SQL92", "a > 5 AND region IN ('north')")
        );
        assert!(data.tags_set.is_empty() && data.code_set.is_empty());
        for (condition, part) in [("a >", "character 4"), ("a != 3", "write `<>`"), ("a = 3 b = 4", "ignore `b = 4`")] {
            let error = check(condition).expect_err(condition);
            assert_eq!(error.kind(), ErrorKind::InvalidArgument);
            assert!(error.to_string().contains(part), "{error}");
        }
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
        assert_eq!(subscriptions["t"].text(), "b");
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
