//! Finds messages by key.

use std::ops::RangeInclusive;

use bytes::Bytes;
use rocketmq_wire::message::properties;
use rocketmq_wire::message::stored::RecordView;

use crate::store::Store;

/// Most messages that one query returns (`maxMsgsNumBatch`).
const MOST_MESSAGES: usize = 64;

/// What a query found.
#[derive(Debug, Clone)]
pub struct QueryOutcome {
    /// The records as stored, oldest first; of more than were asked for, the newest.
    pub messages: Vec<Bytes>,
    /// Store time of the newest message in the index, in milliseconds since 1970; 0 without one.
    pub index_last_update_timestamp: i64,
    /// Physical offset of the newest message in the index; 0 without one.
    pub index_last_update_offset: i64,
}

impl Store {
    /// Finds messages of a topic by one of their `KEYS` or by their unique key, among those stored in a range of time
    /// (milliseconds since 1970, whole seconds count): at most `max_count` and at most 64, the newest.
    ///
    /// Catches up with everything that was dispatched, which in memory may be the whole log.
    pub fn query(&mut self, topic: &str, key: &str, max_count: usize, times: RangeInclusive<i64>) -> QueryOutcome {
        if let Err(error) = self.index.catch_up(&self.log, self.dispatch.position(), u64::MAX) {
            // What is entered can be found nevertheless.
            tracing::error!(%error, "the index is behind");
        }
        let found = self.index.find(topic, key, max_count.min(MOST_MESSAGES), &times);
        let mut offsets = found.offsets;
        offsets.sort_unstable();
        offsets.dedup();
        let named = |bytes: &Bytes| {
            RecordView::parse(bytes).is_ok_and(|record| record.topic() == topic && has_key(record, key))
        };
        QueryOutcome {
            messages: offsets.into_iter().filter_map(|offset| self.message_at(offset)).filter(named).collect(),
            index_last_update_timestamp: found.last_timestamp,
            index_last_update_offset: found.last_offset,
        }
    }
}

/// Whether a record has the key; entries of the index tell hashes only.
fn has_key(record: RecordView<'_>, key: &str) -> bool {
    record.property(properties::UNIQUE_ID) == Some(key)
        || record.property(properties::KEYS).is_some_and(|keys| keys.split(' ').any(|each| each == key))
}
