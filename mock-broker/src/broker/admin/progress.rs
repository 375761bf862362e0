//! How far groups are: codes 43, 45, 208, 303, 308, 314 and 317.

use std::collections::BTreeMap;
use std::fmt::Write;

use rocketmq_wire::fastjson::ObjectKey;
use rocketmq_wire::header::DecodeFields;
use rocketmq_wire::model::{
    BrokerConsumeStats, ConsumeStats, ConsumeTimeSpan, ConsumeTimeSpans, CorrectionOffsets, DataVersion, QueueProgress,
};
use rocketmq_wire::request::admin::{
    BrokerConsumeStatsRequest, CloneOffsetRequest, ConsumeStatsRequest, ConsumeTimeSpanRequest, CorrectionOffsetRequest,
};

use super::{Handled, no_such_topic};
use crate::broker::Broker;
use crate::clock::Now;
use crate::reply::{Command, Reply};

impl Broker {
    /// Says how far a group is, in one topic or in all that it has offsets for.
    pub(super) fn consume_stats<'a>(&self, command: &Command<'a>) -> Handled<'a> {
        let request = ConsumeStatsRequest::decode_fields(command.header.fields)?;
        let group: &str = &request.consumer_group;
        let topics = match request.topic.as_deref().filter(|topic| !topic.trim().is_empty()) {
            Some(topic) => vec![topic.to_owned()],
            None => self.offsets.topics_of(group),
        };
        let mut stats = ConsumeStats::default();
        for topic in topics {
            let Some(config) = self.topics.get(&topic).filter(|_| !self.is_ignored(group, &topic)) else { continue };
            for queue_id in 0..config.read_queue_nums {
                let mut progress = self.progress(group, &topic, queue_id);
                if self.compatibility.counts_what_is_in_flight() {
                    let pulled = self.offsets.pulled(group, &topic, queue_id).unwrap_or(0);
                    progress.pull_offset = Some(pulled.max(progress.consumer_offset));
                }
                stats.offset_table.insert(ObjectKey(self.message_queue(&topic, queue_id)), progress);
            }
            stats.consume_tps += self.counters.group_rate(group, &topic);
        }
        Ok(Reply::success().body(crate::json::to_dialect(&stats)).into())
    }

    /// Says how far all groups are.
    pub(super) fn broker_consume_stats<'a>(&self, command: &Command<'a>) -> Handled<'a> {
        let request = BrokerConsumeStatsRequest::decode_fields(command.header.fields)?;
        let in_flight = self.compatibility.counts_what_is_in_flight();
        let mut answer = BrokerConsumeStats {
            broker_addr: self.store_host.to_string(),
            consume_stats_list: Vec::new(),
            total_diff: 0,
            total_inflight_diff: in_flight.then_some(0),
        };
        for group in self.groups.names() {
            let mut of_group = Vec::new();
            for topic in self.offsets.topics_of(group) {
                let Some(config) = self.topics.get(&topic).filter(|_| !self.is_ignored(group, &topic)) else {
                    continue;
                };
                if request.is_order && !config.order {
                    continue;
                }
                let mut stats = ConsumeStats::default();
                for queue_id in 0..config.write_queue_nums {
                    let mut progress = self.progress(group, &topic, queue_id);
                    answer.total_diff += progress.broker_offset - progress.consumer_offset;
                    if let Some(total) = &mut answer.total_inflight_diff {
                        // As Apache: what is pulled is not looked up here.
                        progress.pull_offset = Some(0);
                        *total -= progress.consumer_offset;
                    }
                    stats.offset_table.insert(ObjectKey(self.message_queue(&topic, queue_id)), progress);
                }
                stats.consume_tps = self.counters.group_rate(group, &topic);
                of_group.push(stats);
            }
            answer.consume_stats_list.push(BTreeMap::from([(group.to_owned(), of_group)]));
        }
        Ok(Reply::success().body(crate::json::to_dialect(&answer)).into())
    }

    /// Whether the group's members that are online do not subscribe to the topic.
    fn is_ignored(&self, group: &str, topic: &str) -> bool {
        self.clients.consumer_group(group).is_some_and(|online| online.ignores(topic))
    }

    fn progress(&self, group: &str, topic: &str, queue_id: i32) -> QueueProgress {
        let consumer_offset = self.offsets.get(group, topic, queue_id).unwrap_or(0).max(0);
        let last = u64::try_from(consumer_offset - 1).ok();
        QueueProgress {
            broker_offset: self.store.max_offset(topic, queue_id) as i64,
            consumer_offset,
            last_timestamp: last.and_then(|last| self.store.store_time_at(topic, queue_id, last)).unwrap_or(0),
            pull_offset: None,
        }
    }

    /// Says between which times the queues of a topic lie, and where a group is.
    pub(super) fn consume_time_span<'a>(&self, now: Now, command: &Command<'a>) -> Handled<'a> {
        let request = ConsumeTimeSpanRequest::decode_fields(command.header.fields)?;
        let topic: &str = &request.topic;
        let Some(config) = self.topics.get(topic) else { return no_such_topic(topic) };
        let span = |queue_id| {
            let max = self.store.max_offset(topic, queue_id);
            let time_at = |offset: u64| self.store.store_time_at(topic, queue_id, offset);
            let min_time = self.store.earliest_store_time(topic, queue_id).unwrap_or(-1);
            let max_time = max.checked_sub(1).and_then(time_at).unwrap_or(-1);
            let consumed = self.offsets.get(&request.group, topic, queue_id).unwrap_or(-1);
            let last = u64::try_from(consumed).ok().and_then(|consumed| consumed.checked_sub(1));
            let consume_time = last.map_or(min_time, |last| time_at(last).unwrap_or(-1));
            let next = u64::try_from(consumed).ok().filter(|next| *next < max).and_then(time_at);
            ConsumeTimeSpan {
                consume_time_stamp: consume_time,
                consume_time_stamp_str: readable(consume_time),
                delay_time: next.map_or(0, |next| (now.message_ms - next).max(0)),
                max_time_stamp: max_time,
                max_time_stamp_str: readable(max_time),
                message_queue: self.message_queue(topic, queue_id),
                min_time_stamp: min_time,
                min_time_stamp_str: readable(min_time),
            }
        };
        let spans = ConsumeTimeSpans { consume_time_span_set: (0..config.write_queue_nums).map(span).collect() };
        Ok(Reply::success().body(crate::json::to_vec(&spans)).into())
    }

    /// Finds the smallest offset of all groups in each queue of a topic; a huge one where that is beyond what the group
    /// to compare with has.
    pub(super) fn correction_offsets<'a>(&self, command: &Command<'a>) -> Handled<'a> {
        let request = CorrectionOffsetRequest::decode_fields(command.header.fields)?;
        let topic: &str = &request.topic;
        let left_out: Vec<&str> = request.filter_groups.as_deref().unwrap_or_default().split(',').collect();
        let mut smallest = BTreeMap::<i32, i64>::new();
        for group in self.offsets.groups_of(topic).into_iter().filter(|group| !left_out.contains(group)) {
            for (&queue_id, &offset) in self.offsets.of_topic(group, topic).into_iter().flatten() {
                if offset >= self.store.min_offset(topic, queue_id) as i64 {
                    let known = smallest.entry(queue_id).or_insert(offset);
                    *known = offset.min(*known);
                }
            }
        }
        for (queue_id, &bound) in self.offsets.of_topic(&request.compare_group, topic).into_iter().flatten() {
            if let Some(offset) = smallest.get_mut(queue_id).filter(|offset| **offset > bound) {
                *offset = i64::MAX;
            }
        }
        let answer = CorrectionOffsets { correction_offsets: smallest };
        Ok(Reply::success().body(crate::json::to_dialect(&answer)).into())
    }

    /// Gives a group the offsets of another.
    pub(super) fn clone_offsets<'a>(&mut self, command: &Command<'a>) -> Handled<'a> {
        let request = CloneOffsetRequest::decode_fields(command.header.fields)?;
        let topics = match request.topic.as_deref().filter(|topic| !topic.trim().is_empty()) {
            Some(topic) => vec![topic.to_owned()],
            None => self.offsets.topics_of(&request.source_group),
        };
        for topic in topics.iter().filter(|topic| self.topics.get(topic).is_some()) {
            self.offsets.copy(&request.source_group, &request.target_group, topic);
        }
        Ok(Reply::success().into())
    }

    /// Lists the offsets of all groups.
    pub(super) fn all_consumer_offsets<'a>(&self) -> Handled<'a> {
        let mut out = String::from("{");
        if self.compatibility.has_acting_masters() {
            let version = crate::json::data_version(self.compatibility, DataVersion::default());
            let topics = serde_json::to_string(&self.offsets.topics_by_group()).unwrap_or_default();
            let _ = write!(out, "\"dataVersion\":{version},\"groupTopicMap\":{topics},");
        }
        out.push_str("\"offsetTable\":{");
        for (index, (key, queues)) in self.offsets.table().into_iter().enumerate() {
            if index > 0 {
                out.push(',');
            }
            crate::json::text(&mut out, &key);
            out.push(':');
            number_table(&mut out, queues.iter().map(|(queue_id, offset)| (i64::from(*queue_id), *offset)));
        }
        out.push_str("}}");
        Ok(Reply::success().body(out).into())
    }

    /// Says how far each level of delayed messages was delivered.
    pub(super) fn all_delay_offsets<'a>(&self) -> Handled<'a> {
        let mut out = String::from("{");
        if self.compatibility.has_acting_masters() {
            let version = crate::json::data_version(self.compatibility, DataVersion::default());
            let _ = write!(out, "\"dataVersion\":{version},");
        }
        out.push_str("\"offsetTable\":");
        let levels = self.store.delivery_progress().iter().enumerate().filter(|(_, offset)| **offset > 0);
        number_table(&mut out, levels.map(|(index, offset)| (index as i64 + 1, *offset as i64)));
        out.push('}');
        Ok(Reply::success().body(out).into())
    }
}

/// Appends a table of numbers, whose keys Apache writes without quotes.
fn number_table(out: &mut String, entries: impl Iterator<Item = (i64, i64)>) {
    out.push('{');
    for (index, (key, value)) in entries.enumerate() {
        // Writing to a string cannot fail.
        let _ = write!(out, "{}{key}:{value}", if index == 0 { "" } else { "," });
    }
    out.push('}');
}

/// A time as Apache's broker writes it, in UTC; empty for none.
fn readable(milliseconds: i64) -> String {
    let Ok(milliseconds) = u64::try_from(milliseconds) else { return String::new() };
    let (seconds, millis) = (milliseconds / 1000, milliseconds % 1000);
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    let (year, month, day) = civil(days as i64);
    format!("{year:04}-{month:02}-{day:02}#{:02}:{:02}:{:02}:{millis:03}", second / 3600, second / 60 % 60, second % 60)
}

/// The Gregorian date of a day counted from 1970-01-01. Years are counted from March, so that leap days come last.
fn civil(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_as_apache_writes_them() {
        assert_eq!(readable(1_795_958_427_285), "2026-11-29#13:20:27:285");
        assert_eq!(readable(951_782_400_000), "2000-02-29#00:00:00:000");
        assert_eq!((readable(0), readable(-1)), ("1970-01-01#00:00:00:000".to_owned(), String::new()));
    }
}
