//! How far each group has consumed each queue.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write;

use rocketmq_wire::fastjson;
use serde::Deserialize;

use crate::store::{ConfigFile, StoreError};

/// Offsets by group, topic and queue.
#[derive(Debug)]
pub(crate) struct ConsumerOffsets {
    groups: HashMap<String, HashMap<String, BTreeMap<i32, i64>>>,
    /// Offsets that an administrator set and no consumer has taken over: the next pull is sent there.
    resets: HashMap<String, HashMap<String, BTreeMap<i32, i64>>>,
    /// How far each group has pulled, which is more than it has consumed.
    pulled: HashMap<String, HashMap<String, BTreeMap<i32, i64>>>,
    changed: bool,
    file: ConfigFile,
}

/// The form of `consumerOffset.json`: `topic@group` to queue to offset.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Saved {
    offset_table: BTreeMap<String, BTreeMap<i32, i64>>,
}

impl ConsumerOffsets {
    /// Loads the offsets of a store.
    ///
    /// # Errors
    ///
    /// When the file cannot be read.
    pub(crate) fn load(file: ConfigFile) -> Result<Self, StoreError> {
        let saved: Saved =
            file.load(|text| fastjson::from_slice("consumer offsets", text.as_bytes()))?.unwrap_or_default();
        let mut offsets = ConsumerOffsets {
            groups: HashMap::new(),
            resets: HashMap::new(),
            pulled: HashMap::new(),
            changed: false,
            file,
        };
        for (key, queues) in saved.offset_table {
            // Keys of three parts belong to broadcasting clients of proxies.
            if let Some((topic, group)) = key.split_once('@')
                && !group.contains('@')
            {
                offsets.groups.entry(group.to_owned()).or_default().insert(topic.to_owned(), queues);
            }
        }
        Ok(offsets)
    }

    /// The offset of a group for a queue.
    pub(crate) fn get(&self, group: &str, topic: &str, queue_id: i32) -> Option<i64> {
        self.groups.get(group)?.get(topic)?.get(&queue_id).copied()
    }

    /// How far a group has pulled a queue since the broker was started.
    pub(crate) fn pulled(&self, group: &str, topic: &str, queue_id: i32) -> Option<i64> {
        self.pulled.get(group)?.get(topic)?.get(&queue_id).copied()
    }

    /// Notes how far a group has pulled a queue.
    pub(crate) fn set_pulled(&mut self, group: &str, topic: &str, queue_id: i32, offset: i64) {
        store(&mut self.pulled, group, topic, queue_id, offset);
    }

    /// Stores an offset, be it smaller than before or not.
    pub(crate) fn set(&mut self, group: &str, topic: &str, queue_id: i32, offset: i64) {
        self.changed = true;
        store(&mut self.groups, group, topic, queue_id, offset);
    }

    /// Stores an offset and notes that the next pull of the queue is to be sent there.
    pub(crate) fn reset(&mut self, group: &str, topic: &str, queue_id: i32, offset: i64) {
        self.set(group, topic, queue_id, offset);
        let topics = self.resets.entry(group.to_owned()).or_default();
        topics.entry(topic.to_owned()).or_default().insert(queue_id, offset);
    }

    /// Whether an offset was reset that no pull has been sent to yet.
    pub(crate) fn is_reset(&self, group: &str, topic: &str, queue_id: i32) -> bool {
        !self.resets.is_empty() && self.pending(group, topic, queue_id).is_some()
    }

    fn pending(&self, group: &str, topic: &str, queue_id: i32) -> Option<i64> {
        self.resets.get(group)?.get(topic)?.get(&queue_id).copied()
    }

    /// Takes the offset that a pull is to be sent to.
    #[inline]
    pub(crate) fn take_reset(&mut self, group: &str, topic: &str, queue_id: i32) -> Option<i64> {
        if self.resets.is_empty() {
            return None;
        }
        let topics = self.resets.get_mut(group)?;
        let queues = topics.get_mut(topic)?;
        let offset = queues.remove(&queue_id);
        if queues.is_empty() {
            topics.remove(topic);
            if topics.is_empty() {
                self.resets.remove(group);
            }
        }
        offset
    }

    /// The offsets of a group in a topic, by queue.
    pub(crate) fn of_topic(&self, group: &str, topic: &str) -> Option<&BTreeMap<i32, i64>> {
        self.groups.get(group)?.get(topic)
    }

    /// The topics that a group has offsets for, in alphabetical order.
    pub(crate) fn topics_of(&self, group: &str) -> Vec<String> {
        let mut topics: Vec<_> = self.groups.get(group).into_iter().flat_map(|topics| topics.keys().cloned()).collect();
        topics.sort_unstable();
        topics
    }

    /// The groups that have offsets for a topic, in alphabetical order.
    pub(crate) fn groups_of(&self, topic: &str) -> Vec<&str> {
        let with_topic = self.groups.iter().filter(|(_, topics)| topics.contains_key(topic));
        let mut groups: Vec<_> = with_topic.map(|(group, _)| group.as_str()).collect();
        groups.sort_unstable();
        groups
    }

    /// Gives a group the offsets that another has in a topic.
    pub(crate) fn copy(&mut self, from: &str, to: &str, topic: &str) {
        let Some(queues) = self.of_topic(from, topic).cloned() else { return };
        self.groups.entry(to.to_owned()).or_default().insert(topic.to_owned(), queues);
        self.changed = true;
    }

    /// Takes over the offsets of another broker, from the text of its `consumerOffset.json`, over its own.
    ///
    /// # Errors
    ///
    /// When the text cannot be read.
    pub(crate) fn take_over(&mut self, text: &[u8]) -> Result<(), rocketmq_wire::DecodeError> {
        let saved: Saved = fastjson::from_slice("consumer offsets", text)?;
        for (key, queues) in saved.offset_table {
            let Some((topic, group)) = key.split_once('@').filter(|(_, group)| !group.contains('@')) else { continue };
            for (queue_id, offset) in queues {
                if self.get(group, topic, queue_id) != Some(offset) {
                    self.set(group, topic, queue_id, offset);
                }
            }
        }
        Ok(())
    }

    /// Forgets all offsets of a group.
    pub(crate) fn remove_group(&mut self, group: &str) {
        self.changed |= self.groups.remove(group).is_some();
        self.resets.remove(group);
        self.pulled.remove(group);
    }

    /// Forgets the offsets of all groups for a topic.
    pub(crate) fn remove_topic(&mut self, topic: &str) {
        for topics in self.groups.values_mut() {
            self.changed |= topics.remove(topic).is_some();
        }
        self.groups.retain(|_, topics| !topics.is_empty());
        for topics in self.resets.values_mut().chain(self.pulled.values_mut()) {
            topics.remove(topic);
        }
        self.resets.retain(|_, topics| !topics.is_empty());
    }

    /// All offsets: `topic@group` to queue to offset.
    pub(crate) fn table(&self) -> BTreeMap<String, &BTreeMap<i32, i64>> {
        let topics = self.groups.iter().flat_map(|(group, topics)| topics.iter().map(move |topic| (group, topic)));
        topics.map(|(group, (topic, queues))| (format!("{topic}@{group}"), queues)).collect()
    }

    /// The topics of each group.
    pub(crate) fn topics_by_group(&self) -> BTreeMap<&str, Vec<String>> {
        self.groups.keys().map(|group| (group.as_str(), self.topics_of(group))).collect()
    }

    /// Saves the offsets if some changed since they were last saved.
    pub(crate) fn save(&mut self) {
        if !std::mem::take(&mut self.changed) {
            return;
        }
        if let Err(error) = self.file.persist(self.to_text()) {
            tracing::error!(%error, "consumer offsets could not be saved");
        }
    }

    /// As Apache's broker writes them: sorted, and queue ids without quotes.
    fn to_text(&self) -> String {
        let mut out = String::from("{\n\t\"offsetTable\":{");
        for (index, (key, queues)) in self.table().into_iter().enumerate() {
            out.push_str(if index == 0 { "\n\t\t" } else { ",\n\t\t" });
            crate::json::text(&mut out, &key);
            out.push_str(":{");
            for (index, (queue_id, offset)) in queues.iter().enumerate() {
                // Writing to a string cannot fail.
                let _ = write!(out, "{}{queue_id}:{offset}", if index == 0 { "" } else { "," });
            }
            out.push('}');
        }
        out.push_str("\n\t}\n}\n");
        out
    }
}

/// Enters an offset. No text is copied but for the first offset of a group or topic.
fn store(
    groups: &mut HashMap<String, HashMap<String, BTreeMap<i32, i64>>>,
    group: &str,
    topic: &str,
    queue_id: i32,
    offset: i64,
) {
    if let Some(queues) = groups.get_mut(group).and_then(|topics| topics.get_mut(topic)) {
        queues.insert(queue_id, offset);
        return;
    }
    let topics = groups.entry(group.to_owned()).or_default();
    topics.entry(topic.to_owned()).or_default().insert(queue_id, offset);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{Store, StoreConfig};

    fn in_memory() -> ConsumerOffsets {
        let store = Store::memory(StoreConfig::memory());
        ConsumerOffsets::load(store.config_file("consumerOffset.json")).unwrap()
    }

    #[test]
    fn a_reset_is_taken_once() {
        let mut offsets = in_memory();
        offsets.set("g", "t", 0, 9);
        offsets.reset("g", "t", 0, 4);
        offsets.reset("g", "t", 1, 5);
        assert_eq!(offsets.get("g", "t", 0), Some(4));
        assert!(offsets.is_reset("g", "t", 0) && !offsets.is_reset("h", "t", 0));
        assert_eq!((offsets.take_reset("g", "t", 0), offsets.take_reset("g", "t", 0)), (Some(4), None));
        assert_eq!((offsets.take_reset("g", "t", 1), offsets.resets.len()), (Some(5), 0));
    }

    #[test]
    fn groups_and_topics_are_copied_listed_and_forgotten() {
        let mut offsets = in_memory();
        offsets.set("g", "t", 0, 9);
        offsets.set("g", "u", 0, 1);
        offsets.copy("g", "h", "t");
        offsets.copy("g", "h", "none");
        assert_eq!((offsets.topics_of("g"), offsets.topics_of("h")), (vec!["t".into(), "u".into()], vec!["t".into()]));
        assert_eq!(offsets.groups_of("t"), ["g", "h"]);
        offsets.remove_topic("t");
        assert_eq!((offsets.groups_of("t").len(), offsets.topics_by_group().len()), (0, 1));
        offsets.remove_group("g");
        assert_eq!(offsets.table().len(), 0);
    }

    #[test]
    fn offsets_survive_in_apache_s_form() {
        let directory = tempfile::tempdir().unwrap();
        let store = Store::open(directory.path(), StoreConfig::disk()).unwrap();
        let mut offsets = ConsumerOffsets::load(store.config_file("consumerOffset.json")).unwrap();
        offsets.set("g", "t", 1, 5);
        offsets.set("g", "t", 1, 3);
        offsets.set("g", "%RETRY%g", 0, 7);
        offsets.save();
        store.close(0).unwrap();
        let text = std::fs::read_to_string(directory.path().join("config/consumerOffset.json")).unwrap();
        assert!(text.contains("\"t@g\":{1:3}"), "{text}");
        let store = Store::open(directory.path(), StoreConfig::disk()).unwrap();
        let offsets = ConsumerOffsets::load(store.config_file("consumerOffset.json")).unwrap();
        assert_eq!(offsets.get("g", "t", 1), Some(3));
        assert_eq!(offsets.get("g", "%RETRY%g", 0), Some(7));
        assert_eq!(offsets.get("g", "t", 0), None);
    }
}
