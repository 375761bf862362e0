//! The topics of a broker.

use std::collections::{BTreeMap, HashMap};

use rocketmq_wire::message::names;
use rocketmq_wire::model::{DataVersion, TopicConfig, TopicConfigTable, perm};

use crate::settings::Settings;
use crate::store::{ConfigFile, StoreError};

/// Topics by name, with the state that name servers compare.
#[derive(Debug)]
pub(crate) struct Topics {
    table: HashMap<String, TopicConfig>,
    data_version: DataVersion,
    /// Topics that name servers were not told of.
    unregistered: Vec<String>,
    file: ConfigFile,
}

impl Topics {
    /// Loads the topics of a store, and adds those that every broker has and those that the settings ask for.
    ///
    /// # Errors
    ///
    /// When the file cannot be read.
    pub(crate) fn load(file: ConfigFile, settings: &Settings, now_ms: i64) -> Result<Self, StoreError> {
        let saved: TopicConfigTable =
            file.load(|text| rocketmq_wire::fastjson::from_slice("topics", text.as_bytes()))?.unwrap_or_default();
        let mut topics = Topics {
            table: saved.topic_config_table.into_iter().collect(),
            data_version: DataVersion { timestamp: now_ms, ..saved.data_version },
            unregistered: Vec::new(),
            file,
        };
        for config in system_topics(settings) {
            topics.table.insert(config.topic_name.clone(), config);
        }
        if !settings.auto_create_topics {
            topics.table.remove(names::DEFAULT_TOPIC);
        }
        for (topic, queues) in &settings.topics {
            topics.table.insert(topic.clone(), config(topic, *queues, perm::READ | perm::WRITE));
        }
        Ok(topics)
    }

    #[inline]
    pub(crate) fn get(&self, topic: &str) -> Option<&TopicConfig> {
        self.table.get(topic)
    }

    /// Creates or changes a topic, unless it is like this already.
    pub(crate) fn set(&mut self, config: TopicConfig, now_ms: i64) {
        if self.table.get(&config.topic_name) == Some(&config) {
            return;
        }
        tracing::info!(topic = config.topic_name, queues = config.write_queue_nums, perm = config.perm, "topic set");
        self.unregistered.push(config.topic_name.clone());
        self.table.insert(config.topic_name.clone(), config);
        self.data_version.counter += 1;
        self.data_version.timestamp = now_ms;
        self.save();
    }

    /// Deletes a topic.
    pub(crate) fn remove(&mut self, topic: &str, now_ms: i64) {
        if self.table.remove(topic).is_none() {
            return;
        }
        tracing::info!(topic, "topic deleted");
        self.unregistered.retain(|name| name != topic);
        self.data_version.counter += 1;
        self.data_version.timestamp = now_ms;
        self.save();
    }

    /// Sets whether sends create topics by the default topic.
    pub(crate) fn set_auto_create(&mut self, auto_create: bool, default_queues: i32, now_ms: i64) {
        // Apache keeps the topic, and ignores that others may inherit from it.
        let perm = perm::READ | perm::WRITE | if auto_create { perm::INHERIT } else { 0 };
        if auto_create || self.table.contains_key(names::DEFAULT_TOPIC) {
            self.set(config(names::DEFAULT_TOPIC, default_queues, perm), now_ms);
        }
    }

    /// Creates a topic of the broker's own making if it does not exist, and returns it.
    pub(crate) fn get_or_create(&mut self, topic: &str, queues: i32, perm: i32, now_ms: i64) -> &TopicConfig {
        if !self.table.contains_key(topic) {
            self.set(config(topic, queues, perm), now_ms);
        }
        self.table.get(topic).expect("it was there or was just set")
    }

    /// Creates a topic because something was sent to it, as its default topic allows: with as many queues as the
    /// client asks for, but no more than the default topic has. None if it does not allow that.
    pub(crate) fn create_by_default(
        &mut self,
        topic: &str,
        default_topic: &str,
        asked_queues: i32,
        sys_flag: i32,
        now_ms: i64,
    ) -> Option<&TopicConfig> {
        let default = self.table.get(default_topic).filter(|default| default.perm & perm::INHERIT != 0)?;
        let queues = asked_queues.min(default.write_queue_nums).max(0);
        let created = TopicConfig {
            topic_name: topic.to_owned(),
            read_queue_nums: queues,
            write_queue_nums: queues,
            perm: default.perm & !perm::INHERIT,
            topic_sys_flag: sys_flag,
            topic_filter_type: default.topic_filter_type.clone(),
            ..TopicConfig::default()
        };
        self.set(created, now_ms);
        self.table.get(topic)
    }

    /// Becomes the table of another broker, unless it is that already.
    pub(crate) fn take_over(&mut self, table: TopicConfigTable) {
        if self.data_version == table.data_version {
            return;
        }
        let changed = table.topic_config_table.iter().filter(|(name, config)| self.table.get(*name) != Some(*config));
        self.unregistered.extend(changed.map(|(name, _)| name.clone()));
        self.table = table.topic_config_table.into_iter().collect();
        self.data_version = table.data_version;
        self.save();
    }

    /// Takes the topics that changed since the last call.
    pub(crate) fn take_unregistered(&mut self) -> Vec<TopicConfig> {
        let names = std::mem::take(&mut self.unregistered);
        names.iter().filter_map(|name| self.table.get(name).cloned()).collect()
    }

    /// Whether some topics changed since they were last taken.
    #[inline]
    pub(crate) fn has_unregistered(&self) -> bool {
        !self.unregistered.is_empty()
    }

    /// All topics, as they are registered and saved.
    pub(crate) fn to_table(&self) -> TopicConfigTable {
        let table: BTreeMap<_, _> = self.table.iter().map(|(name, config)| (name.clone(), config.clone())).collect();
        TopicConfigTable { data_version: self.data_version, topic_config_table: table }
    }

    /// Saves the topics. Whoever created one may rely on it when that is answered.
    pub(crate) fn save(&self) {
        let text = crate::json::to_string_pretty(&self.to_table());
        if let Err(error) = self.file.write(&text) {
            tracing::error!(%error, "topics could not be saved");
        }
    }
}

/// A topic with as many queues for reading as for writing.
pub(crate) fn config(topic: &str, queues: i32, perm: i32) -> TopicConfig {
    TopicConfig {
        topic_name: topic.to_owned(),
        read_queue_nums: queues,
        write_queue_nums: queues,
        perm,
        ..TopicConfig::default()
    }
}

/// The topics that exist on every broker.
fn system_topics(settings: &Settings) -> Vec<TopicConfig> {
    const READ_WRITE: i32 = perm::READ | perm::WRITE;
    const ALL: i32 = READ_WRITE | perm::INHERIT;
    let compatibility = settings.compatibility;
    let mut topics = vec![
        config(names::SELF_TEST_TOPIC, 1, READ_WRITE),
        config(names::BENCHMARK_TOPIC, 1024, READ_WRITE),
        config(&settings.cluster, 16, ALL),
        config(&settings.broker_name, 1, ALL),
        config(names::OFFSET_MOVED_EVENT_TOPIC, 1, READ_WRITE),
    ];
    if settings.auto_create_topics {
        topics.push(config(names::DEFAULT_TOPIC, settings.default_topic_queues, ALL));
    }
    if settings.trace_topic {
        topics.push(config(&settings.trace_topic_name, 1, READ_WRITE));
    }
    if compatibility.lists_store_topics() {
        topics.push(config(names::SCHEDULE_TOPIC, settings.delay_levels.highest(), READ_WRITE));
        topics.push(config(names::HALF_TOPIC, 1, READ_WRITE));
    }
    if compatibility.has_reply_topic() {
        topics.push(config(&names::reply_topic(&settings.cluster), 1, READ_WRITE));
    }
    if compatibility.has_topics_of_5() {
        topics.push(config(names::HALF_OP_TOPIC, 1, READ_WRITE));
        topics.push(config(names::TIMER_TOPIC, 1, READ_WRITE));
        topics.push(config(&format!("rmq_sys_REVIVE_LOG_{}", settings.cluster), 8, READ_WRITE));
        topics.push(config(&format!("rmq_sys_SYNC_BROKER_MEMBER_{}", settings.broker_name), 1, perm::INHERIT));
    }
    topics
}
