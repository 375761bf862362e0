//! The SQL92 expressions that consumers subscribed with, parsed once.

use std::collections::HashMap;
use std::sync::Arc;

use rocketmq_wire::filter::SqlExpression;
use rocketmq_wire::filter::sql92::Dialect;
use rocketmq_wire::model::SubscriptionData;

use crate::filter::is_tag_type;

/// An expression that could be read.
#[derive(Debug)]
pub(super) struct SqlFilter {
    expression: String,
    /// The version of the subscription that brought it, or confirmed it.
    pub(super) version: i64,
    pub(super) parsed: Arc<SqlExpression>,
}

/// Expressions by group and topic. They outlive their consumers, as in Apache's broker.
#[derive(Debug, Default)]
pub(super) struct SqlFilters {
    groups: HashMap<String, HashMap<String, SqlFilter>>,
}

impl SqlFilters {
    /// Enters the expressions among the subscriptions of a group. One that cannot be read leaves what was there.
    pub(super) fn register(&mut self, group: &str, subscriptions: &[SubscriptionData], dialect: Dialect) {
        for new in subscriptions.iter().filter(|new| !is_tag_type(Some(&new.expression_type))) {
            let known = self.groups.get_mut(group).and_then(|topics| topics.get_mut(&new.topic));
            if let Some(known) = known {
                if new.sub_version <= known.version {
                    continue;
                }
                if known.expression == new.sub_string {
                    known.version = new.sub_version;
                    continue;
                }
            }
            match SqlExpression::parse(&new.sub_string, dialect) {
                Ok(parsed) => {
                    let filter = SqlFilter {
                        expression: new.sub_string.clone(),
                        version: new.sub_version,
                        parsed: Arc::new(parsed),
                    };
                    self.groups.entry(group.to_owned()).or_default().insert(new.topic.clone(), filter);
                }
                Err(error) => {
                    tracing::warn!(group, topic = new.topic, %error, "a subscription by an expression cannot be read");
                }
            }
        }
    }

    /// What a group subscribed to a topic with.
    pub(super) fn find(&self, group: &str, topic: &str) -> Option<&SqlFilter> {
        self.groups.get(group)?.get(topic)
    }
}
