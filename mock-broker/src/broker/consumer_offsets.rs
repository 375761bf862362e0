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
        let mut offsets = ConsumerOffsets { groups: HashMap::new(), changed: false, file };
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

    /// Stores an offset, be it smaller than before or not.
    pub(crate) fn set(&mut self, group: &str, topic: &str, queue_id: i32, offset: i64) {
        self.changed = true;
        // No text is copied but for the first offset of a group or topic.
        if let Some(queues) = self.groups.get_mut(group).and_then(|topics| topics.get_mut(topic)) {
            queues.insert(queue_id, offset);
            return;
        }
        let topics = self.groups.entry(group.to_owned()).or_default();
        topics.entry(topic.to_owned()).or_default().insert(queue_id, offset);
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
        let mut sorted = BTreeMap::new();
        for (group, topics) in &self.groups {
            for (topic, queues) in topics {
                sorted.insert(format!("{topic}@{group}"), queues);
            }
        }
        let mut out = String::from("{\n\t\"offsetTable\":{");
        for (index, (key, queues)) in sorted.into_iter().enumerate() {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{Store, StoreConfig};

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
