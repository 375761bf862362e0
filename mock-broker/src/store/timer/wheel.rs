//! What waits for its time, slot by slot, and its delivery.

use std::collections::{BTreeMap, HashSet};
use std::path::PathBuf;

use rocketmq_wire::message::names::TIMER_TOPIC;
use rocketmq_wire::message::stored::RecordView;
use rocketmq_wire::message::{properties, tag_hash};

use crate::store::Store;
use crate::store::commit_log::CommitLog;
use crate::store::dispatch::Arrival;
use crate::store::error::{PutError, StoreError};
use crate::store::properties::replaced;
use crate::store::put::PutMessage;
use crate::store::queues::Queues;
use crate::store::timer::TimerConfig;
use crate::store::timer::files::{Checkpoint, Found, TimerFiles};

/// The queue of the timer topic; it has one.
const QUEUE: i32 = 0;

const MAGIC_DEFAULT: i32 = 1;
/// The slot is a stop on the way: the message goes to the timer topic again.
const MAGIC_ROLL: i32 = 1 << 1;
/// The message takes another one of its slot back.
const MAGIC_DELETE: i32 = 1 << 2;

/// Whether a number may stand where an entry says what it is.
pub(super) fn is_magic(magic: i32) -> bool {
    magic | 0xF == 0xF
}

/// A message in a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Waiting {
    /// Position of the entry in the timer log.
    pub(super) position: u64,
    pub(super) magic: i32,
    /// When it was put into the slot, in milliseconds since 1970.
    pub(super) entered_ms: i64,
    pub(super) physical_offset: u64,
    pub(super) size: u32,
}

impl Waiting {
    fn rolls(&self) -> bool {
        self.magic & MAGIC_ROLL != 0
    }

    fn recalls(&self) -> bool {
        self.magic & MAGIC_DELETE != 0 && !self.rolls()
    }

    /// What it adds to the count of its slot.
    pub(super) fn counts(&self) -> i32 {
        if self.magic & MAGIC_DELETE != 0 { -1 } else { 1 }
    }
}

/// The messages of a slot, the first entered first.
#[derive(Debug, Default)]
pub(super) struct Chain {
    entries: Vec<Waiting>,
    /// How many of them are delivered already, which happens when there was no space for the others.
    delivered: usize,
}

impl Chain {
    pub(super) fn of(entries: Vec<Waiting>) -> Self {
        Chain { entries, delivered: 0 }
    }

    pub(super) fn first(&self) -> Option<u64> {
        self.entries.first().map(|entry| entry.position)
    }

    pub(super) fn last(&self) -> Option<u64> {
        self.entries.last().map(|entry| entry.position)
    }

    pub(super) fn count(&self) -> i32 {
        self.entries.iter().map(Waiting::counts).sum()
    }
}

/// Where the files of a store are.
#[derive(Debug)]
struct Paths {
    wheel: PathBuf,
    log: PathBuf,
    checkpoint: PathBuf,
}

/// The timers of a store.
#[derive(Debug)]
pub(in crate::store) struct Timers {
    config: TimerConfig,
    /// By the time of the slot in milliseconds since 1970.
    slots: BTreeMap<i64, Chain>,
    checkpoint: Checkpoint,
    /// The next message of the timer topic to be put into a slot.
    queue_offset: u64,
    /// None in memory.
    paths: Option<Paths>,
    /// Made when the first message comes.
    files: Option<TimerFiles>,
}

impl Timers {
    /// Timers in memory.
    pub(in crate::store) fn in_memory(config: TimerConfig) -> Self {
        Timers {
            config,
            slots: BTreeMap::new(),
            checkpoint: Checkpoint::default(),
            queue_offset: 0,
            paths: None,
            files: None,
        }
    }

    /// Opens the timers of a directory: the wheel, the directory of the log, and the checkpoint.
    ///
    /// # Errors
    ///
    /// When the files cannot be read.
    pub(in crate::store) fn open(
        config: TimerConfig,
        (wheel, log_directory, checkpoint): (PathBuf, PathBuf, PathBuf),
        log: &CommitLog,
        queues: &Queues,
    ) -> Result<Self, StoreError> {
        let paths = Paths { wheel, log: log_directory, checkpoint };
        let mut timers = Timers { paths: Some(paths), ..Self::in_memory(config) };
        if timers.paths.as_ref().is_some_and(|paths| paths.wheel.exists()) {
            let found = timers.open_files()?;
            timers.queue_offset = resumed_offset(&found, log, queues);
            timers.slots = found.slots;
            timers.checkpoint = found.checkpoint;
            timers.files = Some(found.files);
        }
        Ok(timers)
    }

    fn open_files(&self) -> Result<Found, StoreError> {
        let Some(paths) = &self.paths else { return Err(StoreError::new("timers in memory have no files")) };
        TimerFiles::open(
            paths.wheel.clone(),
            paths.log.clone(),
            paths.checkpoint.clone(),
            self.config.precision_ms,
            self.config.log_file_size,
        )
    }

    /// Returns the settings.
    pub(in crate::store) fn config(&self) -> &TimerConfig {
        &self.config
    }

    /// Returns when the next slot is over; none while nothing waits. What is not in a slot yet is due at once.
    pub(in crate::store) fn next_due(&self, queues: &Queues) -> Option<i64> {
        let end = queues.queue(TIMER_TOPIC, QUEUE).map_or(0, |queue| queue.max_offset());
        if self.queue_offset < end {
            return Some(i64::MIN);
        }
        self.slots.keys().next().map(|time_ms| time_ms + self.config.precision_ms)
    }

    /// Puts a message into the slot of `out_ms`, or into one on the way there.
    fn enter(&mut self, now: i64, out_ms: i64, mut entry: Waiting, topic: &str) -> Result<(), StoreError> {
        let precision_ms = self.config.precision_ms;
        let write_ms = now.div_euclid(precision_ms) * precision_ms;
        let window = self.config.roll_window_slots;
        let mut time_ms = out_ms;
        if out_ms - write_ms >= window * precision_ms {
            entry.magic |= MAGIC_ROLL;
            // The last way must not be so short that the roll comes too late for it.
            let is_short = out_ms - write_ms - window * precision_ms < window / 3 * precision_ms;
            time_ms = write_ms + if is_short { window / 2 } else { window } * precision_ms;
        }
        entry.entered_ms = write_ms;
        if self.files.is_none() && self.paths.is_some() {
            self.files = Some(self.open_files()?.files);
        }
        let chain = self.slots.entry(time_ms).or_default();
        if let Some(files) = &mut self.files {
            entry.position = files.append(time_ms, &entry, tag_hash(topic), chain)?;
        }
        chain.entries.push(entry);
        Ok(())
    }

    fn checkpoint(&self) -> [u8; 56] {
        let checkpoint = Checkpoint { queue_offset: self.queue_offset as i64, ..self.checkpoint };
        checkpoint.to_bytes(self.files.as_ref().map_or(0, TimerFiles::ends_at))
    }

    /// Writes how far everything is.
    pub(in crate::store) fn save(&mut self, now: i64) -> Result<(), StoreError> {
        let Some(files) = &mut self.files else { return Ok(()) };
        let offset = self.queue_offset as i64;
        if self.checkpoint.queue_offset != offset {
            self.checkpoint.version_counter += 1;
            self.checkpoint.version_timestamp = now;
        }
        self.checkpoint.queue_offset = offset;
        files.write_checkpoint(self.checkpoint)?;
        if let Some(oldest) = self.slots.values().filter_map(Chain::first).min() {
            files.remove_before(oldest);
        }
        Ok(())
    }
}

/// The first message of the timer topic that is in no slot.
fn resumed_offset(found: &Found, log: &CommitLog, queues: &Queues) -> u64 {
    let last = found.last_entry.and_then(|entry| {
        let bytes = log.bytes(entry.physical_offset, entry.size as usize)?;
        let record = RecordView::parse(&bytes).ok()?;
        (record.topic() == TIMER_TOPIC).then(|| u64::try_from(record.queue_offset()).unwrap_or(0) + 1)
    });
    let saved = u64::try_from(found.checkpoint.queue_offset).unwrap_or(0);
    let offset = match last {
        // Messages whose time had come got no entry, so the checkpoint may be ahead; but not of a log that lost some.
        Some(last) if found.files.ends_at() >= found.checkpoint.log_end => last.max(saved),
        Some(last) => last,
        None => saved,
    };
    let queue = queues.queue(TIMER_TOPIC, QUEUE);
    queue.map_or(offset, |queue| offset.clamp(queue.min_offset(), queue.max_offset()))
}

impl Store {
    /// Brings every timed message whose time has come at `now` to its topic and queue, in the order of their times,
    /// never early. Dispatches before and after, and tells `on_arrival` about all that can be consumed from now on.
    /// Returns how many were brought.
    ///
    /// # Errors
    ///
    /// As [`dispatch`](Store::dispatch). A message that finds no space is tried again by the next call.
    pub fn deliver_timed(&mut self, now: i64, on_arrival: &mut dyn FnMut(Arrival<'_>)) -> Result<usize, StoreError> {
        let mut count = 0;
        loop {
            self.dispatch(on_arrival)?;
            if self.timers.as_ref().is_none_or(|timers| timers.next_due(&self.queues).is_none_or(|due| due > now)) {
                return Ok(count);
            }
            let brought = self.fill_slots(now).and_then(|put| Ok(put + self.empty_slots(now)?));
            if let Some(timers) = &mut self.timers {
                timers.save(now)?;
            }
            match brought {
                // What rolls on is in the timer topic again.
                Ok(0) => return Ok(count),
                Ok(put) => count += put,
                Err(error) => {
                    tracing::warn!(%error, "a timed message cannot be delivered yet");
                    self.dispatch(on_arrival)?;
                    return Ok(count);
                }
            }
        }
    }

    /// Returns how far timers are, as Apache's `config/timercheck` says it; none if times mean nothing.
    pub fn timer_checkpoint(&self) -> Option<[u8; 56]> {
        self.timers.as_ref().map(Timers::checkpoint)
    }

    /// Returns how many messages wait for their time, by the topic they are for; none if times mean nothing.
    pub fn timer_counts(&self) -> Option<BTreeMap<String, i64>> {
        let timers = self.timers.as_ref()?;
        let mut counts = BTreeMap::new();
        let in_slots = timers.slots.values().flat_map(|chain| &chain.entries[chain.delivered..]);
        let in_slots = in_slots.map(|entry| (entry.physical_offset, entry.size, entry.counts()));
        // What is in no slot yet waits as well.
        let queue = self.queues.queue(TIMER_TOPIC, QUEUE);
        let new = queue.into_iter().flat_map(|queue| queue.entries(timers.queue_offset));
        let new = new.map(|(_, entry)| (entry.physical_offset, entry.size, 1));
        for (physical_offset, size, count) in in_slots.chain(new) {
            if let Some(bytes) = self.log.bytes(physical_offset, size as usize)
                && let Ok(record) = RecordView::parse(&bytes)
                && let Some(topic) = record.property(properties::REAL_TOPIC)
            {
                *counts.entry(topic.to_owned()).or_default() += i64::from(count);
            }
        }
        Some(counts)
    }

    /// Puts new messages of the timer topic into slots; those whose time has come meanwhile are delivered.
    fn fill_slots(&mut self, now: i64) -> Result<usize, PutError> {
        let mut put = 0;
        loop {
            let Some(timers) = &mut self.timers else { return Ok(put) };
            let Some(queue) = self.queues.queue(TIMER_TOPIC, QUEUE) else { return Ok(put) };
            timers.queue_offset = timers.queue_offset.max(queue.min_offset());
            let Some(found) = queue.entry(timers.queue_offset) else { return Ok(put) };
            let bytes = self.log.bytes(found.physical_offset, found.size as usize);
            let record = bytes.as_deref().and_then(|bytes| RecordView::parse(bytes).ok());
            let out_ms = record.and_then(|record| record.property(properties::TIMER_OUT_MS)?.parse::<i64>().ok());
            let (Some(record), Some(out_ms)) = (record, out_ms) else {
                tracing::error!(offset = timers.queue_offset, "a timed message is gone or says no time; dropped");
                timers.queue_offset += 1;
                continue;
            };
            let recalls = record.property(properties::TIMER_DEL_UNIQUE_ID).is_some();
            // Also into one that is over but not delivered yet: it may hold what a recall is about.
            if out_ms >= timers.checkpoint.read_ms {
                let magic = if recalls { MAGIC_DEFAULT | MAGIC_DELETE } else { MAGIC_DEFAULT };
                let entry = Waiting {
                    position: 0,
                    magic,
                    entered_ms: now,
                    physical_offset: found.physical_offset,
                    size: found.size,
                };
                let topic = record.property(properties::REAL_TOPIC).unwrap_or_default();
                timers.enter(now, out_ms, entry, topic)?;
            } else if !recalls {
                // As Apache marks what never was in a slot.
                self.bring(now, &record, i64::MAX, false)?;
                put += 1;
            }
            if let Some(timers) = &mut self.timers {
                timers.queue_offset += 1;
            }
        }
    }

    /// Delivers the slots that are over.
    fn empty_slots(&mut self, now: i64) -> Result<usize, PutError> {
        let mut put = 0;
        loop {
            let Some(timers) = &mut self.timers else { return Ok(put) };
            let precision_ms = timers.config.precision_ms;
            let Some(first) = timers.slots.first_entry().filter(|slot| slot.key() + precision_ms <= now) else {
                return Ok(put);
            };
            let (time_ms, mut chain) = first.remove_entry();
            let result = self.empty_slot(now, &mut chain, &mut put);
            let Some(timers) = &mut self.timers else { return Ok(put) };
            if let Err(error) = result {
                timers.slots.insert(time_ms, chain);
                return Err(error);
            }
            timers.checkpoint.read_ms = timers.checkpoint.read_ms.max(time_ms + precision_ms);
            timers.save(now)?;
        }
    }

    fn empty_slot(&mut self, now: i64, chain: &mut Chain, put: &mut usize) -> Result<(), PutError> {
        let recalled: HashSet<String> = chain.entries.iter().filter_map(|entry| self.recalled_by(entry)).collect();
        while let Some(entry) = chain.entries.get(chain.delivered) {
            if !entry.recalls()
                && let Some(bytes) = self.log.bytes(entry.physical_offset, entry.size as usize)
                && let Ok(record) = RecordView::parse(&bytes)
                && !is_recalled(&record, &recalled)
            {
                match self.bring(now, &record, entry.entered_ms, entry.rolls()) {
                    Ok(()) => *put += 1,
                    Err(error @ (PutError::NoSpace(_) | PutError::Failed(_) | PutError::Busy)) => return Err(error),
                    // It will not fit later either.
                    Err(error) => tracing::error!(%error, "a timed message cannot be delivered; dropped"),
                }
            }
            chain.delivered += 1;
        }
        Ok(())
    }

    /// The message that an entry takes back.
    fn recalled_by(&self, entry: &Waiting) -> Option<String> {
        let bytes = entry.recalls().then(|| self.log.bytes(entry.physical_offset, entry.size as usize))??;
        Some(RecordView::parse(&bytes).ok()?.property(properties::TIMER_DEL_UNIQUE_ID)?.to_owned())
    }

    /// Puts a message where it belongs, or into the timer topic again if it rolls. Its properties say where it was.
    fn bring(&mut self, now: i64, record: &RecordView<'_>, entered_ms: i64, rolls: bool) -> Result<(), PutError> {
        let mut changes = vec![
            (properties::TIMER_ENQUEUE_MS, entered_ms.to_string()),
            (properties::TIMER_DEQUEUE_MS, now.to_string()),
        ];
        let (mut topic, mut queue_id) = (record.topic(), record.queue_id());
        if rolls {
            let times = record.property(properties::TIMER_ROLL_TIMES).and_then(|times| times.parse::<i32>().ok());
            changes.push((properties::TIMER_ROLL_TIMES, times.unwrap_or(0).saturating_add(1).to_string()));
        } else {
            topic = record.property(properties::REAL_TOPIC).unwrap_or_default();
            queue_id = record.property(properties::REAL_QUEUE_ID).and_then(|id| id.parse().ok()).unwrap_or(-1);
        }
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
            properties: &replaced(record.properties().as_bytes(), &[], &changes),
        };
        self.append(now, &message).map(drop)
    }
}

/// Whether a message was taken back: by topic and unique id, or, as before 5.3.2, by the unique id alone.
fn is_recalled(record: &RecordView<'_>, recalled: &HashSet<String>) -> bool {
    let Some(id) = record.property(properties::UNIQUE_ID).filter(|_| !recalled.is_empty()) else { return false };
    let topic = record.property(properties::REAL_TOPIC).unwrap_or_default();
    recalled.contains(id) || recalled.contains(&format!("{topic}+{id}"))
}
