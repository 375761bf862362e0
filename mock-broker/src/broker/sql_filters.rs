//! The SQL92 expressions that consumers subscribed with, parsed once, and kept in Apache's `consumerFilter.json`.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use rocketmq_wire::fastjson;
use rocketmq_wire::filter::SqlExpression;
use rocketmq_wire::filter::sql92::Dialect;
use rocketmq_wire::model::SubscriptionData;
use serde::{Deserialize, Serialize};

use crate::filter::{bloom, is_tag_type};
use crate::store::{ConfigFile, StoreError};

/// An expression is forgotten this long after its consumers went (`filterDataCleanTimeSpan`).
const KEPT_AFTER_DEATH_MS: i64 = 24 * 3_600_000;

/// An expression that could be read.
#[derive(Debug)]
pub(super) struct SqlFilter {
    expression: String,
    /// The version of the subscription that brought it, or confirmed it.
    pub(super) version: i64,
    pub(super) parsed: Arc<SqlExpression>,
    born_ms: i64,
    /// When its consumers went; 0 while some are there.
    died_ms: i64,
}

/// Expressions by group and topic. They outlive their consumers by a day, as in Apache's broker.
#[derive(Debug)]
pub(super) struct SqlFilters {
    groups: HashMap<String, HashMap<String, SqlFilter>>,
    file: ConfigFile,
    /// The file as it was written last.
    saved: String,
}

/// `consumerFilter.json`.
#[derive(Serialize, Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct SavedFilters {
    filter_data_by_topic: BTreeMap<String, SavedTopic>,
}

#[derive(Serialize, Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct SavedTopic {
    group_filter_data: BTreeMap<String, SavedFilter>,
    topic: String,
}

#[derive(Serialize, Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct SavedFilter {
    bloom_filter_data: SavedBloom,
    born_time: i64,
    client_version: i64,
    consumer_group: String,
    dead: bool,
    dead_time: i64,
    expression: String,
    expression_type: String,
    topic: String,
}

#[derive(Serialize, Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct SavedBloom {
    bit_num: i32,
    bit_pos: Vec<i32>,
}

impl SqlFilters {
    /// Loads what was saved; nobody who subscribed with it is there any more.
    ///
    /// # Errors
    ///
    /// When the file cannot be read.
    pub(super) fn load(file: ConfigFile, dialect: Dialect, now_ms: i64) -> Result<Self, StoreError> {
        let saved: SavedFilters =
            file.load(|text| fastjson::from_slice("filters of consumers", text.as_bytes()))?.unwrap_or_default();
        let mut groups: HashMap<String, HashMap<String, SqlFilter>> = HashMap::new();
        for (topic, filters) in saved.filter_data_by_topic {
            for (group, saved) in filters.group_filter_data {
                let Ok(parsed) = SqlExpression::parse(&saved.expression, dialect) else { continue };
                let died_ms = if saved.dead_time == 0 { saved.born_time.max(now_ms - 30_000) } else { saved.dead_time };
                let filter = SqlFilter {
                    expression: saved.expression,
                    version: saved.client_version,
                    parsed: Arc::new(parsed),
                    born_ms: saved.born_time,
                    died_ms,
                };
                groups.entry(group).or_default().insert(topic.clone(), filter);
            }
        }
        Ok(SqlFilters { groups, file, saved: String::new() })
    }

    /// Enters the expressions among the subscriptions of a group. One that cannot be read leaves what was there.
    pub(super) fn register(&mut self, group: &str, subscriptions: &[SubscriptionData], dialect: Dialect, now_ms: i64) {
        for new in subscriptions.iter().filter(|new| !is_tag_type(Some(&new.expression_type))) {
            let known = self.groups.get_mut(group).and_then(|topics| topics.get_mut(&new.topic));
            if let Some(known) = known {
                if new.sub_version <= known.version {
                    if new.sub_version == known.version {
                        known.died_ms = 0;
                    }
                    continue;
                }
                if known.expression == new.sub_string {
                    (known.version, known.died_ms) = (new.sub_version, 0);
                    continue;
                }
            }
            match SqlExpression::parse(&new.sub_string, dialect) {
                Ok(parsed) => {
                    let filter = SqlFilter {
                        expression: new.sub_string.clone(),
                        version: new.sub_version,
                        parsed: Arc::new(parsed),
                        born_ms: now_ms,
                        died_ms: 0,
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

    /// Saves the expressions, if that says anything new, and forgets those whose consumers went long ago.
    pub(super) fn save(&mut self, now_ms: i64, is_online: impl Fn(&str) -> bool) {
        for (group, topics) in &mut self.groups {
            if !is_online(group) {
                topics.values_mut().filter(|filter| filter.died_ms == 0).for_each(|filter| filter.died_ms = now_ms);
            }
            topics.retain(|_, filter| filter.died_ms == 0 || now_ms - filter.died_ms < KEPT_AFTER_DEATH_MS);
        }
        self.groups.retain(|_, topics| !topics.is_empty());
        let text = crate::json::to_string_pretty(&self.to_saved());
        if text != self.saved {
            match self.file.persist(text.clone()) {
                Ok(()) => self.saved = text,
                Err(error) => tracing::error!(%error, "filters of consumers could not be saved"),
            }
        }
    }

    fn to_saved(&self) -> SavedFilters {
        let mut saved = SavedFilters::default();
        for (group, topics) in &self.groups {
            for (topic, filter) in topics {
                let of_topic = saved.filter_data_by_topic.entry(topic.clone()).or_default();
                of_topic.topic.clone_from(topic);
                let bit_pos = bloom::positions(&format!("{group}#{topic}")).to_vec();
                let filter = SavedFilter {
                    bloom_filter_data: SavedBloom { bit_num: bloom::BITS, bit_pos },
                    born_time: filter.born_ms,
                    client_version: filter.version,
                    consumer_group: group.clone(),
                    dead: filter.died_ms >= filter.born_ms,
                    dead_time: filter.died_ms,
                    expression: filter.expression.clone(),
                    expression_type: "SQL92".to_owned(),
                    topic: topic.clone(),
                };
                of_topic.group_filter_data.insert(group.clone(), filter);
            }
        }
        saved
    }
}
