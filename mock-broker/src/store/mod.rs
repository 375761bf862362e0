//! The store: the messages of a broker, in Apache's layout, in memory or in a directory.
//!
//! ```text
//! put -> commit_log -> dispatch -> consume_queue -> get
//! ```
//!
//! A [`Store`] has one owner, takes time as an argument and never waits: on disk, a second thread writes to the disk
//! what was committed ([`StoreConfig::flush_interval_ms`]). What was put survives the end of the process, however it
//! ends; a power failure may cost what was not flushed.
//!
//! ```
//! use rocketmq_mock_broker::store::{PutMessage, Store, StoreConfig};
//!
//! let mut store = Store::memory(StoreConfig::memory());
//! let host = "127.0.0.1:10911".parse().unwrap();
//! let message = PutMessage {
//!     topic: "orders",
//!     queue_id: 0,
//!     flag: 0,
//!     sys_flag: 0,
//!     born_timestamp: 0,
//!     born_host: host,
//!     store_host: host,
//!     reconsume_times: 0,
//!     prepared_transaction_offset: 0,
//!     body: b"hi",
//!     properties: b"",
//! };
//! let outcome = store.put(1_700_000_000_000, &message)?;
//! store.dispatch(&mut |arrival| assert_eq!(arrival.topic, "orders"))?;
//! let found = store.get("orders", 0, outcome.queue_offset, 32, usize::MAX, &|_tags_code| true);
//! assert_eq!(found.messages.len(), 1);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod checkpoint;
mod clean;
mod commit_log;
mod config;
mod config_file;
mod consume_queue;
mod delay_offsets;
mod directory;
mod dispatch;
mod error;
mod file_sequence;
mod flush;
mod get;
mod index;
mod mapped_file;
mod offset_by_time;
mod platform;
mod properties;
mod put;
mod query;
mod queue_extension;
mod queue_recovery;
mod queues;
mod recovery;
mod schedule;
#[cfg(test)]
mod test_support;
#[cfg(test)]
mod tests;
mod timer;

use std::path::Path;

use bytes::Bytes;
use rocketmq_wire::message::RecordView;

pub use clean::{Cleaned, Retention};
pub use config::StoreConfig;
pub use config_file::ConfigFile;
pub use dispatch::Arrival;
pub use error::{PutError, StoreError};
pub use get::{GetOutcome, GetStatus, MessageFilter};
pub use offset_by_time::Boundary;
pub use put::{BatchOutcome, PutMessage, PutOutcome};
pub use query::QueryOutcome;
pub use schedule::{DelayLevels, DelayLevelsError, Delivered};
pub use timer::TimerConfig;

use checkpoint::Checkpoint;
use clean::Cleaning;
use commit_log::CommitLog;
use consume_queue::ConsumeQueue;
use directory::StoreDirectory;
use dispatch::Dispatch;
use file_sequence::{FileSequence, Layout};
use flush::{FlushPolicy, Flusher};
use index::Index;
use mapped_file::Reservation;
use queues::Queues;
use schedule::Schedule;
use timer::Timers;

/// The messages of a broker. Dropping it without [`close`](Self::close) is like killing the process: nothing that was
/// put is lost, but the next one to open the directory looks at its last files.
#[derive(Debug)]
pub struct Store {
    config: StoreConfig,
    log: CommitLog,
    queues: Queues,
    dispatch: Dispatch,
    schedule: Schedule,
    /// None if times mean nothing.
    timers: Option<Timers>,
    index: Index,
    /// Where the last message ends for which somebody waits until it is safe.
    awaited: Option<u64>,
    cleaning: Cleaning,
    disk: Option<Disk>,
}

/// Bytes of the log that the index lets pile up on disk, and catches up with at once.
const INDEX_STEP: u64 = 1 << 20;

/// What only a store on disk has. The thread ends before the directory is let go of.
#[derive(Debug)]
struct Disk {
    flusher: Flusher,
    directory: StoreDirectory,
    /// How many things were put aside to be removed.
    removed: u64,
}

impl Store {
    /// A store in memory; it takes no room before it is used, and is gone with its last message slice.
    pub fn memory(config: StoreConfig) -> Store {
        // Memory is taken page by page; touching the next few at once saves faults.
        let reservation = Reservation { first: 64 << 10, largest: 1 << 20, prefault: true };
        let layout = Layout { directory: None, file_size: config.commit_log_file_size, reservation, registry: None };
        Store {
            log: CommitLog::new(FileSequence::new(layout, 0)),
            queues: Queues::new(None, config.consume_queue_file_entries, None, None),
            dispatch: Dispatch::from(0),
            schedule: Schedule::new(config.delay_levels.clone(), Vec::new()),
            timers: config.timers.map(Timers::in_memory),
            index: Index::new(None, config.index_slots, config.index_entries, None),
            awaited: None,
            cleaning: Cleaning::default(),
            disk: None,
            config,
        }
    }

    /// Opens the store in a directory, which is created if it does not exist.
    ///
    /// A store that Apache's broker left is taken over, and the other way round. A store that was not closed is
    /// looked through from its third-last log file on: torn data at the end is cut off, missing queue entries are
    /// made.
    ///
    /// # Errors
    ///
    /// When somebody else has the store open (the error names the process), when the directory cannot be read or
    /// written, or when files are missing between others.
    pub fn open(directory: &Path, config: StoreConfig) -> Result<Store, StoreError> {
        let directory = StoreDirectory::acquire(directory)?;
        let checkpoint = Checkpoint::read(&directory.checkpoint())?;
        let policy = FlushPolicy::new(config.flush_interval_ms, config.flush_least_pages);
        let flusher = Flusher::start(policy, directory.checkpoint(), checkpoint)?;
        if directory.removed().exists() {
            flusher.remove(vec![directory.removed()]);
        }
        let log_layout = Layout {
            directory: Some(directory.commit_log()),
            file_size: config.commit_log_file_size,
            reservation: Reservation { first: 1 << 20, largest: 4 << 20, prefault: true },
            registry: Some(flusher.log_registry()),
        };
        let suspect_since = (!directory.was_closed()).then(|| checkpoint.recover_from());
        let found = recovery::open_log(log_layout, &directory.commit_log(), suspect_since)?;
        let log = CommitLog::new(found.files);
        let registry = Some(flusher.queue_registry());
        let extensions =
            config.queue_extensions.then(|| (directory.queue_extensions(), config.queue_extension_file_size));
        let entries = config.consume_queue_file_entries;
        let mut queues = Queues::new(Some(directory.consume_queues()), entries, extensions, registry);
        let kept = log.min_offset()..log.max_offset();
        let dispatched =
            queue_recovery::open_queues(&mut queues, &directory.consume_queues(), kept, directory.was_closed())?;
        let from = if directory.was_closed() { dispatched } else { dispatched.min(found.suspect_from) };
        let registry = Some(flusher.queue_registry());
        let mut index = Index::new(Some(directory.index()), config.index_slots, config.index_entries, registry);
        index.open(log.min_offset()..log.max_offset(), (!directory.was_closed()).then_some(checkpoint.index))?;
        let disk = Disk { flusher, directory, removed: 0 };
        let offsets = disk.config_file(delay_offsets::FILE).load(delay_offsets::parse)?.unwrap_or_default();
        let mut store = Store {
            log,
            queues,
            dispatch: Dispatch::from(from),
            schedule: Schedule::new(config.delay_levels.clone(), offsets),
            timers: None,
            index,
            awaited: None,
            cleaning: Cleaning::default(),
            disk: Some(disk),
            config,
        };
        let caught_up = store.dispatch(&mut |_| {}).and_then(|()| store.check_beginnings(from));
        if let Err(error) = caught_up {
            tracing::warn!(%error, "the consume queues do not fit the commit log; they are made anew");
            store.rebuild_queues()?;
        }
        store.schedule.limit_to(&store.queues);
        store.open_timers()?;
        Ok(store)
    }

    fn open_timers(&mut self) -> Result<(), StoreError> {
        if let (Some(config), Some(disk)) = (self.config.timers, &self.disk) {
            let directory = &disk.directory;
            let paths = (directory.timer_wheel(), directory.timer_log(), directory.config("timercheck"));
            self.timers = Some(Timers::open(config, paths, &self.log, &self.queues)?);
        }
        Ok(())
    }

    /// Refuses queues that begin late among what was dispatched from `from` on, though the log has older records:
    /// the messages before are missing.
    fn check_beginnings(&self, from: u64) -> Result<(), StoreError> {
        let is_late = |queue: &ConsumeQueue| {
            queue.min_offset() > 0 && queue.entry(queue.min_offset()).is_some_and(|first| first.physical_offset >= from)
        };
        if from > self.log.min_offset() && self.queues.all().any(is_late) {
            return Err(StoreError::new("a queue lacks its first messages"));
        }
        Ok(())
    }

    /// Makes all queues anew from the log.
    fn rebuild_queues(&mut self) -> Result<(), StoreError> {
        self.queues.clear();
        if let Some(disk) = &self.disk {
            let path = disk.directory.consume_queues();
            std::fs::remove_dir_all(&path).map_err(StoreError::io("cannot remove the consume queues", &path))?;
            let path = disk.directory.queue_extensions();
            if path.exists() {
                std::fs::remove_dir_all(&path)
                    .map_err(StoreError::io("cannot remove the queues' extensions", &path))?;
            }
        }
        self.dispatch = Dispatch::from(self.log.min_offset());
        self.dispatch(&mut |_| {})
    }

    /// Enters what was put since the last call into the queues, where it can be read, and tells `on_arrival` about
    /// each message in the order of the log.
    ///
    /// # Errors
    ///
    /// When a queue has no space. Messages are kept back then, and tried again by the next call.
    pub fn dispatch(&mut self, on_arrival: &mut dyn FnMut(Arrival<'_>)) -> Result<(), StoreError> {
        self.dispatch.run(&self.log, &mut self.queues, self.schedule.levels(), on_arrival)?;
        if let Some(disk) = &self.disk {
            disk.flusher.advance(self.log.max_offset(), self.dispatch.last_time());
        }
        if self.index_behind() >= INDEX_STEP {
            self.index_some();
        }
        Ok(())
    }

    /// Returns how many dispatched bytes of the log the index on disk does not have; in memory it is not built before
    /// it is asked.
    pub fn index_behind(&self) -> u64 {
        if self.disk.is_some() { self.dispatch.position().saturating_sub(self.index.position()) } else { 0 }
    }

    /// Enters some of what the index lacks; does nothing in memory. Call it when there is nothing else to do.
    pub fn index_some(&mut self) {
        if self.disk.is_none() {
            return;
        }
        if let Err(error) = self.index.catch_up(&self.log, self.dispatch.position(), INDEX_STEP) {
            tracing::error!(%error, "the index falls behind");
        }
        if let (Some(disk), Some(time)) = (&self.disk, self.index.settled_time()) {
            disk.flusher.advance_index(time);
        }
    }

    /// Takes the physical offset at which the last message ends that was put since the last call and does not say
    /// `WAIT=false`: whoever put it waits until it is on disk ([`flushed_offset`](Self::flushed_offset)) or replicated.
    /// Always none unless [`flush_sync`](StoreConfig::flush_sync) or [`replicates_sync`](StoreConfig::replicates_sync).
    #[inline]
    pub fn take_awaited(&mut self) -> Option<u64> {
        self.awaited.take()
    }

    /// Returns the physical offset up to which the log is on disk; in memory that is its end.
    pub fn flushed_offset(&self) -> u64 {
        self.disk.as_ref().map_or(self.log.max_offset(), |disk| disk.flusher.flushed())
    }

    /// Has the second thread write everything put so far to disk at once, however much that is: one flush for all who
    /// wait. [`wake_with`](Self::wake_with) tells when it is done.
    pub fn commit(&self) {
        if let Some(disk) = &self.disk {
            disk.flusher.commit(self.log.max_offset());
        }
    }

    /// Sets what the second thread calls after each [`commit`](Self::commit); never called in memory.
    pub fn wake_with(&self, wake: impl Fn() + Send + 'static) {
        if let Some(disk) = &self.disk {
            disk.flusher.wake_with(Box::new(wake));
        }
    }

    /// Forgets the queues of a topic; its messages stay in the log, where nobody finds them by queue. A message put
    /// later begins at queue offset 0 again.
    ///
    /// # Errors
    ///
    /// When the queues cannot be moved out of the way.
    pub fn delete_topic(&mut self, topic: &str) -> Result<(), StoreError> {
        if let Some(disk) = &mut self.disk
            && queues::is_directory_name(topic)
        {
            let aside = disk.directory.removed();
            for from in [disk.directory.consume_queues(), disk.directory.queue_extensions()] {
                let from = from.join(topic);
                if !from.exists() {
                    continue;
                }
                // Removed elsewhere: the topic may be back before that is done.
                disk.removed += 1;
                let to = aside.join(disk.removed.to_string());
                std::fs::create_dir_all(&aside)
                    .and_then(|()| std::fs::rename(&from, &to))
                    .map_err(StoreError::io("cannot remove the queues of a topic", &from))?;
                disk.flusher.remove(vec![to]);
            }
        }
        self.queues.remove(topic);
        Ok(())
    }

    /// Returns how many bytes of the log are not dispatched yet.
    pub fn dispatch_behind(&self) -> u64 {
        self.log.max_offset() - self.dispatch.position()
    }

    /// Returns the settings.
    pub fn config(&self) -> &StoreConfig {
        &self.config
    }

    /// Returns the queue offset of a queue's oldest message, 0 if it never had one.
    pub fn min_offset(&self, topic: &str, queue_id: i32) -> u64 {
        self.queues.queue(topic, queue_id).map_or(0, |queue| queue.min_offset())
    }

    /// Returns the queue offset after a queue's newest message, 0 if it never had one.
    pub fn max_offset(&self, topic: &str, queue_id: i32) -> u64 {
        self.queues.queue(topic, queue_id).map_or(0, |queue| queue.max_offset())
    }

    /// Returns when a queue's oldest message was stored, in milliseconds since 1970; none if it has no message.
    pub fn earliest_store_time(&self, topic: &str, queue_id: i32) -> Option<i64> {
        self.store_time_at(topic, queue_id, self.min_offset(topic, queue_id))
    }

    /// Returns when the oldest message of the log was stored, in milliseconds since 1970; none if it has no message.
    pub fn earliest_message_time(&self) -> Option<i64> {
        let record = self.log.read_to_end(self.log.min_offset())?;
        Some(RecordView::parse(record).ok()?.store_timestamp())
    }

    /// Returns the physical offset of the oldest byte of the log.
    pub fn min_physical_offset(&self) -> u64 {
        self.log.min_offset()
    }

    /// Returns the physical offset after the newest byte of the log.
    pub fn max_physical_offset(&self) -> u64 {
        self.log.max_offset()
    }

    /// Returns the size of the file system that keeps the log, and what of it is free, in bytes; none in memory, and where
    /// it cannot be told.
    pub fn disk_space(&self) -> Option<(u64, u64)> {
        platform::disk_space(&self.commit_log_path()?).ok()
    }

    /// Returns the directory of the log; none in memory.
    pub fn commit_log_path(&self) -> Option<std::path::PathBuf> {
        self.disk.as_ref().map(|disk| disk.directory.commit_log())
    }

    /// Returns the topics that have, or had, a message, in alphabetical order.
    pub fn topics(&self) -> Vec<&str> {
        self.queues.topics()
    }

    /// Returns the ids of a topic's queues that have, or had, a message, in ascending order.
    pub fn queue_ids(&self, topic: &str) -> impl Iterator<Item = i32> {
        self.queues.of_topic(topic).map(|(queue_id, _)| queue_id)
    }

    /// Appends bytes of another store's log as they are and returns where the log ends then. Whole records among them
    /// can be read after the next [`dispatch`](Self::dispatch). An empty log may begin at the start of any file.
    ///
    /// # Errors
    ///
    /// [`PutError::NotContiguous`] if `offset` is not where the log ends, [`PutError::NoSpace`] or
    /// [`PutError::Failed`] if a file cannot be extended; the log ends with a whole file then.
    pub fn append_raw(&mut self, offset: u64, bytes: &[u8]) -> Result<u64, PutError> {
        let was_empty = self.log.min_offset() == self.log.max_offset();
        let end = self.log.append_raw(offset, bytes)?;
        if was_empty {
            self.dispatch = Dispatch::from(self.log.min_offset());
            self.index.restart_at(self.log.min_offset());
        }
        Ok(end)
    }

    /// Returns at most `limit` bytes of the log as they are, from `offset` on and from one file; none at the end of
    /// the log.
    pub fn read_raw(&self, offset: u64, limit: usize) -> Option<Bytes> {
        self.log.read_raw(offset, limit)
    }

    /// Returns a settings file of the store, such as `topics.json`; of a store in memory it holds nothing.
    pub fn config_file(&self, name: &str) -> ConfigFile {
        match &self.disk {
            Some(disk) => disk.config_file(name),
            None => ConfigFile::in_memory(),
        }
    }

    /// Saves how far delayed and timed messages were delivered, if that changed. What was delivered since the last call is
    /// delivered again if the process is killed, so call it every few seconds. `now` is in milliseconds since 1970.
    ///
    /// # Errors
    ///
    /// As [`ConfigFile::persist`].
    pub fn save_delivery_progress(&mut self, now: i64) -> Result<(), StoreError> {
        if self.schedule.take_changed() {
            let text = delay_offsets::write(self.schedule.offsets(), now);
            self.config_file(delay_offsets::FILE).persist(text)?;
        }
        self.timers.as_mut().map_or(Ok(()), |timers| timers.save(now))
    }

    /// Returns the size of the log's files in bytes.
    pub fn commit_log_file_size(&self) -> u64 {
        self.log.file_size()
    }

    /// Takes over how far another store has delivered delayed messages, from the text of its `delayOffset.json`, and
    /// saves it. `now` is in milliseconds since 1970.
    ///
    /// # Errors
    ///
    /// When the text cannot be read.
    pub fn take_over_delivery_progress(&mut self, now: i64, text: &[u8]) -> Result<(), rocketmq_wire::DecodeError> {
        self.schedule.take_over(delay_offsets::parse(&String::from_utf8_lossy(text))?);
        if let Err(error) = self.save_delivery_progress(now) {
            tracing::error!(%error, "the progress of delayed messages could not be saved");
        }
        Ok(())
    }

    /// Returns how far each level of delayed messages was delivered: the next queue offset of level 1, 2, ..
    pub fn delivery_progress(&self) -> &[u64] {
        self.schedule.offsets()
    }

    /// Waits until everything put so far is on disk; nothing to wait for in memory.
    pub fn flush(&self) {
        if let Some(disk) = &self.disk {
            disk.flusher.flush();
        }
    }

    /// Saves what is to be saved, waits until everything is on disk, and marks the store as closed. `now` is in
    /// milliseconds since 1970. Message slices that were handed out stay valid.
    ///
    /// # Errors
    ///
    /// When the directory cannot be written; what was put is safe nevertheless.
    pub fn close(mut self, now: i64) -> Result<(), StoreError> {
        self.dispatch(&mut |_| {})?;
        self.save_delivery_progress(now)?;
        if self.disk.is_some()
            && let Err(error) = self.index.catch_up(&self.log, self.dispatch.position(), u64::MAX)
        {
            // The next one to open the store goes on with it.
            tracing::error!(%error, "the index stays behind");
        }
        self.flush();
        match &self.disk {
            Some(disk) => disk.directory.mark_closed(),
            None => Ok(()),
        }
    }
}

impl Disk {
    fn config_file(&self, name: &str) -> ConfigFile {
        ConfigFile::on_disk(self.directory.config(name), self.flusher.persister())
    }
}
