//! What a broker counts: messages put into topics, and messages that groups got.
//!
//! As in Apache's broker numbers are noted every 10 s, every 10 minutes and every hour, and a number over a period is the
//! difference between its oldest and its newest note. What is put is not counted on its way: the ends of the queues say it.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use rocketmq_wire::model::{BrokerStatsData, BrokerStatsItem};

use crate::store::Store;

/// How often numbers are noted.
pub(super) const SAMPLE_INTERVAL: Duration = Duration::from_secs(10);

/// Notes of one period: how many are kept, and how many of the period before make one.
const MINUTE: usize = 7;
const HOUR: usize = 7;
const DAY: usize = 25;
const MINUTE_NOTES_PER_HOUR_NOTE: u64 = 60;
const MINUTE_NOTES_PER_DAY_NOTE: u64 = 360;

/// A number at a time.
#[derive(Debug, Clone, Copy)]
struct Note {
    at: Duration,
    sum: u64,
    times: u64,
}

/// A number that only grows, and what it was before.
#[derive(Debug, Default)]
struct Count {
    sum: u64,
    times: u64,
    minute: VecDeque<Note>,
    hour: VecDeque<Note>,
    day: VecDeque<Note>,
}

impl Count {
    fn add(&mut self, sum: u64) {
        self.sum += sum;
        self.times += 1;
    }

    fn note(&mut self, now: Duration, round: u64) {
        let note = Note { at: now, sum: self.sum, times: self.times };
        keep(&mut self.minute, note, MINUTE);
        if round.is_multiple_of(MINUTE_NOTES_PER_HOUR_NOTE) {
            keep(&mut self.hour, note, HOUR);
        }
        if round.is_multiple_of(MINUTE_NOTES_PER_DAY_NOTE) {
            keep(&mut self.day, note, DAY);
        }
    }

    fn read(&self) -> BrokerStatsData {
        BrokerStatsData { stats_day: over(&self.day), stats_hour: over(&self.hour), stats_minute: over(&self.minute) }
    }
}

fn keep(notes: &mut VecDeque<Note>, note: Note, count: usize) {
    notes.push_back(note);
    if notes.len() > count {
        notes.pop_front();
    }
}

fn over(notes: &VecDeque<Note>) -> BrokerStatsItem {
    let (Some(first), Some(last)) = (notes.front(), notes.back()) else { return BrokerStatsItem::default() };
    let (sum, times) = (last.sum - first.sum, last.times - first.times);
    let seconds = last.at.saturating_sub(first.at).as_secs_f64();
    BrokerStatsItem {
        avgpt: if times > 0 { sum as f64 / times as f64 } else { 0.0 },
        sum: sum as i64,
        tps: if seconds > 0.0 { sum as f64 / seconds } else { 0.0 },
    }
}

/// Everything that is counted since the broker was started.
#[derive(Debug, Default)]
pub(super) struct Counters {
    /// What the queues of a topic had when they were last looked at.
    ends: HashMap<String, u64>,
    topics: HashMap<String, Count>,
    groups: HashMap<String, HashMap<String, Count>>,
    put: Count,
    got: Count,
    /// Where the log ended when the topics were last looked at.
    log_end: u64,
    round: u64,
}

impl Counters {
    /// Begins to count what is put from now on.
    pub(super) fn new(store: &Store) -> Self {
        let ends = store.topics().into_iter().map(|topic| (topic.to_owned(), end_of(store, topic))).collect();
        Counters { ends, log_end: store.max_physical_offset(), ..Self::default() }
    }

    /// Looks at what was put.
    pub(super) fn update(&mut self, store: &Store) {
        if std::mem::replace(&mut self.log_end, store.max_physical_offset()) == store.max_physical_offset() {
            return;
        }
        for topic in store.topics() {
            let end = end_of(store, topic);
            if self.ends.get(topic) == Some(&end) {
                continue;
            }
            let before = self.ends.insert(topic.to_owned(), end).unwrap_or(0);
            let put = end.saturating_sub(before);
            self.put.sum += put;
            self.put.times += put;
            let count = self.topics.entry(topic.to_owned()).or_default();
            count.sum += put;
            count.times += put;
        }
    }

    /// Notes all numbers; to be called every [`SAMPLE_INTERVAL`].
    pub(super) fn sample(&mut self, now: Duration, store: &Store) {
        self.update(store);
        let round = self.round;
        self.round += 1;
        let groups = self.groups.values_mut().flat_map(HashMap::values_mut);
        for count in self.topics.values_mut().chain(groups).chain([&mut self.put, &mut self.got]) {
            count.note(now, round);
        }
    }

    /// A group got messages of a topic.
    pub(super) fn got(&mut self, group: &str, topic: &str, messages: usize) {
        self.got.add(messages as u64);
        if let Some(count) = self.groups.get_mut(group).and_then(|topics| topics.get_mut(topic)) {
            count.add(messages as u64);
            return;
        }
        let topics = self.groups.entry(group.to_owned()).or_default();
        topics.entry(topic.to_owned()).or_default().add(messages as u64);
    }

    /// Forgets a topic that was deleted.
    pub(super) fn remove_topic(&mut self, topic: &str) {
        self.ends.remove(topic);
        self.topics.remove(topic);
        for topics in self.groups.values_mut() {
            topics.remove(topic);
        }
    }

    /// Messages put into a topic; none if there was none.
    pub(super) fn topic_puts(&self, topic: &str) -> Option<BrokerStatsData> {
        self.topics.get(topic).map(Count::read)
    }

    /// Messages of a topic that a group got; none if there was none.
    pub(super) fn group_gets(&self, group: &str, topic: &str) -> Option<BrokerStatsData> {
        self.groups.get(group)?.get(topic).map(Count::read)
    }

    /// Messages of a topic that a group got a second.
    pub(super) fn group_rate(&self, group: &str, topic: &str) -> f64 {
        self.group_gets(group, topic).map_or(0.0, |stats| stats.stats_minute.tps)
    }

    /// Messages put, and how many a second.
    pub(super) fn put_total(&self) -> (u64, f64) {
        (self.put.sum, over(&self.put.minute).tps)
    }

    /// Messages that groups got, and how many a second.
    pub(super) fn got_total(&self) -> (u64, f64) {
        (self.got.sum, over(&self.got.minute).tps)
    }
}

fn end_of(store: &Store, topic: &str) -> u64 {
    store.queue_ids(topic).map(|queue_id| store.max_offset(topic, queue_id)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::StoreConfig;

    #[test]
    fn a_number_over_a_period_is_the_difference_of_its_notes() {
        let store = Store::memory(StoreConfig::memory());
        let mut counters = Counters::new(&store);
        let seconds = Duration::from_secs;
        counters.got("g", "t", 4);
        counters.sample(seconds(10), &store);
        assert_eq!(counters.group_rate("g", "t"), 0.0);
        counters.got("g", "t", 3);
        counters.got("g", "t", 2);
        counters.sample(seconds(20), &store);
        let stats = counters.group_gets("g", "t").unwrap();
        assert_eq!((stats.stats_minute.sum, stats.stats_minute.tps, stats.stats_minute.avgpt), (5, 0.5, 2.5));
        assert_eq!((stats.stats_hour.sum, counters.got_total().0), (0, 9));
        for round in 3..10 {
            counters.sample(seconds(10 * round), &store);
        }
        assert_eq!(counters.group_gets("g", "t").unwrap().stats_minute.sum, 0);
        assert!(counters.group_gets("g", "other").is_none() && counters.topic_puts("t").is_none());
    }
}
