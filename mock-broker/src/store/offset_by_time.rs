//! Finds the queue offset that belongs to a store time.

use rocketmq_wire::message::RecordView;

use crate::store::Store;
use crate::store::consume_queue::ConsumeQueue;

/// Which message a time between two stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Boundary {
    /// The first one stored at the time or later; the end of the queue if there is none (5.x, the default).
    #[default]
    Lower,
    /// The last one stored at the time or before; the beginning of the queue if there is none (5.x).
    Upper,
    /// The one stored closest to the time, the earlier of two at the same distance (4.x, which knows no boundaries).
    Nearest,
}

impl Store {
    /// Returns the queue offset that stands for a store time in milliseconds since 1970; 0 for a queue without
    /// messages.
    pub fn offset_by_time(&self, topic: &str, queue_id: i32, timestamp: i64, boundary: Boundary) -> u64 {
        let Some(queue) = self.queues.queue(topic, queue_id) else { return 0 };
        let (min, max) = (queue.min_offset(), queue.max_offset());
        if min == max {
            return max;
        }
        let first_from = |timestamp| first_at_or_after(min, max, timestamp, |offset| self.store_time(queue, offset));
        match boundary {
            Boundary::Lower => first_from(timestamp),
            Boundary::Upper => match timestamp.checked_add(1) {
                Some(later) => first_from(later).saturating_sub(1).max(min),
                None => max - 1,
            },
            Boundary::Nearest => {
                let right = first_from(timestamp);
                if right == max {
                    return max - 1;
                }
                if right == min {
                    return min;
                }
                let distance =
                    |offset| self.store_time(queue, offset).map_or(u64::MAX, |time| time.abs_diff(timestamp));
                if distance(right - 1) > distance(right) { right } else { right - 1 }
            }
        }
    }

    /// Returns when the message at `offset` of a queue was stored, in milliseconds since 1970.
    pub fn store_time_at(&self, topic: &str, queue_id: i32, offset: u64) -> Option<i64> {
        self.store_time(self.queues.queue(topic, queue_id)?, offset)
    }

    fn store_time(&self, queue: &ConsumeQueue, offset: u64) -> Option<i64> {
        let entry = queue.entry(offset)?;
        let record = self.log.read(entry.physical_offset, entry.size as usize)?;
        Some(RecordView::parse(record).ok()?.store_timestamp())
    }
}

/// Binary search; an offset without a record counts as old, because records go from the oldest on.
fn first_at_or_after(min: u64, max: u64, timestamp: i64, store_time: impl Fn(u64) -> Option<i64>) -> u64 {
    let (mut low, mut high) = (min, max);
    while low < high {
        let middle = low + (high - low) / 2;
        if store_time(middle).is_none_or(|time| time < timestamp) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    low
}
