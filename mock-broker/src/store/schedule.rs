//! Messages delayed by level: they wait in `SCHEDULE_TOPIC_XXXX`, one queue per level, until they are due.

use std::cell::Cell;
use std::fmt;

use rocketmq_wire::message::names::{HALF_TOPIC, SCHEDULE_TOPIC};
use rocketmq_wire::message::properties::{self, Properties};
use rocketmq_wire::message::stored::RecordView;

use crate::store::Store;
use crate::store::commit_log::CommitLog;
use crate::store::consume_queue::Entry;
use crate::store::dispatch::Arrival;
use crate::store::error::{PutError, StoreError};
use crate::store::properties::replaced;
use crate::store::put::PutMessage;
use crate::store::queue_extension;
use crate::store::queues::Queues;

/// How long a delivery waits that failed for lack of space, in milliseconds.
const RETRY_AFTER_MS: i64 = 100;

/// The delays of the levels.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DelayLevels {
    /// Milliseconds of level 1, 2, ..
    delays: Vec<i64>,
}

impl DelayLevels {
    /// Reads delays as Apache's `messageDelayLevel` writes them: numbers with a unit (`s`, `m`, `h` or `d`), separated
    /// by blanks, level 1 first.
    ///
    /// # Errors
    ///
    /// [`DelayLevelsError`] if there are none, or one is not of that form.
    pub fn parse(text: &str) -> Result<Self, DelayLevelsError> {
        let delays = text.split_ascii_whitespace().map(parse_delay).collect::<Result<Vec<i64>, _>>()?;
        // A level is a queue id, which has 32 bits.
        if delays.is_empty() || i32::try_from(delays.len()).is_err() {
            return Err(DelayLevelsError { delay: text.to_owned() });
        }
        Ok(DelayLevels { delays })
    }

    /// Returns the highest level.
    pub fn highest(&self) -> i32 {
        self.delays.len() as i32
    }

    /// Returns the delay of a level in milliseconds: of the highest above it, and one second below level 1.
    fn delay(&self, level: i32) -> i64 {
        match usize::try_from(level) {
            Ok(level) if level > 0 => self.delays[level.min(self.delays.len()) - 1],
            _ => 1000,
        }
    }

    /// Returns when a message stored at `store_timestamp` is due.
    pub(crate) fn due(&self, level: i32, store_timestamp: i64) -> i64 {
        store_timestamp.saturating_add(self.delay(level))
    }
}

impl Default for DelayLevels {
    /// Apache's 18 levels, from one second to two hours.
    fn default() -> Self {
        const MINUTE: i64 = 60_000;
        let seconds = [1000, 5000, 10_000, 30_000].into_iter();
        let minutes = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 20, 30, 60, 120].into_iter().map(|minutes| minutes * MINUTE);
        DelayLevels { delays: seconds.chain(minutes).collect() }
    }
}

impl fmt::Display for DelayLevels {
    /// Writes the delays as [`parse`](Self::parse) reads them, each in the largest unit that it is a multiple of.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, &delay) in self.delays.iter().enumerate() {
            let seconds = delay / 1000;
            let units = [(86_400, 'd'), (3600, 'h'), (60, 'm')];
            let (size, unit) =
                units.into_iter().find(|(size, _)| seconds > 0 && seconds % size == 0).unwrap_or((1, 's'));
            write!(f, "{}{}{unit}", if index == 0 { "" } else { " " }, seconds / size)?;
        }
        Ok(())
    }
}

fn parse_delay(text: &str) -> Result<i64, DelayLevelsError> {
    let parse = || {
        let unit = match text.as_bytes().last()? {
            b's' => 1000,
            b'm' => 60_000,
            b'h' => 3_600_000,
            b'd' => 86_400_000,
            _ => return None,
        };
        let number: u32 = text[..text.len() - 1].parse().ok()?;
        Some(i64::from(number) * unit)
    };
    parse().ok_or_else(|| DelayLevelsError { delay: text.to_owned() })
}

/// Delay levels that could not be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DelayLevelsError {
    delay: String,
}

impl fmt::Display for DelayLevelsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` is no delay: write a number and one of s, m, h, d, such as `1s 5s 10m 2h`", self.delay)
    }
}

impl std::error::Error for DelayLevelsError {}

/// How far each level has been delivered.
#[derive(Debug)]
pub(super) struct Schedule {
    levels: DelayLevels,
    /// Queue offset of the next message of level 1, 2, ..
    offsets: Vec<u64>,
    /// The message of each level that is due next, with its queue offset, so that it is looked up once.
    heads: Vec<Cell<Option<(u64, Entry)>>>,
    /// Whether `offsets` are newer than what was last persisted.
    changed: bool,
    #[cfg(test)]
    pub(super) looked_up: Cell<u64>,
}

impl Schedule {
    /// Starts at the given offsets, which belong to level 1, 2, ..; levels without one start at 0.
    pub(super) fn new(levels: DelayLevels, mut offsets: Vec<u64>) -> Self {
        offsets.resize(levels.delays.len(), 0);
        Schedule {
            heads: vec![Cell::new(None); offsets.len()],
            levels,
            offsets,
            changed: false,
            #[cfg(test)]
            looked_up: Cell::new(0),
        }
    }

    /// Takes offsets back that are beyond the end of their queue, as after a crash, or new messages would be missed.
    pub(super) fn limit_to(&mut self, queues: &Queues) {
        for (queue_id, offset) in (0..).zip(&mut self.offsets) {
            let end = queues.queue(SCHEDULE_TOPIC, queue_id).map_or(0, |queue| queue.max_offset());
            *offset = end.min(*offset);
        }
    }

    /// Returns the delays.
    pub(super) fn levels(&self) -> &DelayLevels {
        &self.levels
    }

    /// Returns the offset of level 1, 2, ..
    pub(super) fn offsets(&self) -> &[u64] {
        &self.offsets
    }

    /// Replaces the offsets by those of another store.
    pub(super) fn take_over(&mut self, mut offsets: Vec<u64>) {
        offsets.resize(self.levels.delays.len(), 0);
        self.changed |= self.offsets != offsets;
        self.offsets = offsets;
        // The queues may be others as well.
        self.heads.iter().for_each(|head| head.set(None));
    }

    /// Returns whether the offsets changed since the last call.
    pub(super) fn take_changed(&mut self) -> bool {
        std::mem::take(&mut self.changed)
    }

    /// Returns the message that is due first, if any waits.
    fn first(&self, queues: &Queues, log: &CommitLog, now: i64) -> Option<Waiting> {
        let heads = queues.of_topic(SCHEDULE_TOPIC).filter_map(|(queue_id, queue)| {
            let level = queue_id + 1;
            // Levels may have been taken out of the configuration; their messages stay where they are.
            let index = usize::try_from(queue_id).ok()?;
            let offset = *self.offsets.get(index)?;
            // What is no longer kept cannot be delivered.
            let offset = offset.max(queue.min_offset());
            let entry = match self.heads[index].get() {
                Some((at, entry)) if at == offset => entry,
                _ => {
                    let mut entry = queue.entry(offset)?;
                    if queue_extension::is_position(entry.tags_code) {
                        // The time is in the extension; it follows from the record as well.
                        let record = log.read(entry.physical_offset, entry.size as usize);
                        let stored = record.and_then(|bytes| Some(RecordView::parse(bytes).ok()?.store_timestamp()));
                        entry.tags_code = stored.map_or(now, |stored| self.levels.due(level, stored));
                    }
                    #[cfg(test)]
                    self.looked_up.set(self.looked_up.get() + 1);
                    self.heads[index].set(Some((offset, entry)));
                    entry
                }
            };
            // A time that no waiting can explain means that the clock was set back; Apache delivers at once.
            let latest = now.saturating_add(self.levels.delay(level));
            let due = if entry.tags_code > latest { now } else { entry.tags_code };
            Some(Waiting { level, offset, entry, due })
        });
        heads.min_by_key(|waiting| (waiting.due, waiting.level))
    }

    fn done(&mut self, waiting: &Waiting) {
        self.offsets[waiting.level as usize - 1] = waiting.offset + 1;
        self.changed = true;
    }
}

/// The next message of a level.
#[derive(Debug, Clone, Copy)]
struct Waiting {
    level: i32,
    offset: u64,
    entry: Entry,
    due: i64,
}

/// What a delivery run did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Delivered {
    /// How many messages were brought back.
    pub count: usize,
    /// When the next one is due in milliseconds since 1970; none while none waits.
    pub next_due: Option<i64>,
}

impl Store {
    /// Brings every delayed message that is due at `now` back to its topic and queue, in the order in which they are
    /// due, never early. Dispatches before and after, and tells `on_arrival` about all that can be consumed from now on.
    ///
    /// # Errors
    ///
    /// As [`dispatch`](Store::dispatch). A message that finds no space stays first; it is tried again after 100 ms.
    pub fn deliver_scheduled(
        &mut self,
        now: i64,
        on_arrival: &mut dyn FnMut(Arrival<'_>),
    ) -> Result<Delivered, StoreError> {
        self.dispatch(on_arrival)?;
        let mut count = 0;
        let next_due = loop {
            let Some(waiting) = self.schedule.first(&self.queues, &self.log, now) else { break None };
            if waiting.due > now {
                break Some(waiting.due);
            }
            match self.deliver(now, waiting.entry) {
                Ok(delivered) => {
                    count += usize::from(delivered);
                    self.schedule.done(&waiting);
                }
                Err(error @ (PutError::NoSpace(_) | PutError::Failed(_) | PutError::Busy)) => {
                    tracing::warn!(%error, "a delayed message cannot be delivered yet");
                    break Some(now + RETRY_AFTER_MS);
                }
                Err(error) => {
                    // It will not fit later either.
                    tracing::error!(%error, "a delayed message cannot be delivered; dropped");
                    self.schedule.done(&waiting);
                }
            }
        };
        if count > 0 {
            self.dispatch(on_arrival)?;
        }
        Ok(Delivered { count, next_due })
    }

    /// Returns when the next delayed or timed message is due in milliseconds since 1970; none while none waits.
    ///
    /// Counts messages that were dispatched.
    pub fn next_delivery(&self, now: i64) -> Option<i64> {
        let timed = self.timers.as_ref().and_then(|timers| timers.next_due(&self.queues));
        let delayed = self.schedule.first(&self.queues, &self.log, now).map(|waiting| waiting.due);
        timed.into_iter().chain(delayed).min()
    }

    /// Puts one delayed message back; false if there is nothing that could be.
    fn deliver(&mut self, now: i64, entry: Entry) -> Result<bool, PutError> {
        let Some(bytes) = whole_record(&self.log, entry) else { return Ok(false) };
        let Ok(record) = RecordView::parse(&bytes) else { return Ok(false) };
        let topic = record.property(properties::REAL_TOPIC);
        let queue_id = record.property(properties::REAL_QUEUE_ID).and_then(|id| id.parse().ok());
        let (Some(topic), Some(queue_id)) = (topic, queue_id) else {
            tracing::error!(offset = entry.physical_offset, "a delayed message does not say where it belongs; dropped");
            return Ok(false);
        };
        if topic == HALF_TOPIC {
            tracing::error!(offset = entry.physical_offset, "a half message was delayed; dropped");
            return Ok(false);
        }
        // The properties stay as they are, DELAY included: clients see by it that a message was delayed.
        let message = PutMessage {
            topic,
            queue_id,
            flag: record.flag(),
            sys_flag: record.sys_flag(),
            born_timestamp: record.born_timestamp(),
            born_host: record.born_host(),
            store_host: record.store_host(),
            reconsume_times: record.reconsume_times(),
            prepared_transaction_offset: record.prepared_transaction_offset(),
            body: record.body(),
            properties: record.properties().as_bytes(),
        };
        self.append(now, &message)?;
        Ok(true)
    }
}

fn whole_record(log: &CommitLog, entry: Entry) -> Option<bytes::Bytes> {
    let bytes = log.bytes(entry.physical_offset, entry.size as usize);
    if bytes.is_none() {
        tracing::error!(offset = entry.physical_offset, "a delayed message is gone from the log; dropped");
    }
    bytes
}

/// Writes the properties of a message that is to wait at `level`: as they were, with the level as used and the topic
/// and queue that it came for, and without the timer's properties, which a level beats.
pub(super) fn enter(given: Properties<'_>, message: &PutMessage<'_>, level: i32) -> Vec<u8> {
    let removed = [properties::TIMER_DELIVER_MS, properties::TIMER_DELAY_SEC, properties::TIMER_DELAY_MS];
    let changes = [
        (properties::DELAY, level.to_string()),
        (properties::REAL_TOPIC, message.topic.to_owned()),
        (properties::REAL_QUEUE_ID, message.queue_id.to_string()),
    ];
    replaced(given.as_bytes(), &removed, &changes)
}
