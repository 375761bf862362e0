//! The second thread of a store on disk: it writes committed bytes, settings and the checkpoint to disk, removes files
//! and reserves space ahead of the owner.

use std::fmt;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender, TrySendError};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::clock;
use crate::store::checkpoint::Checkpoint;
use crate::store::config_file;
use crate::store::error::StoreError;
use crate::store::mapped_file::Mapping;

const PAGE: usize = 4096;
/// A queue with less to write waits: it can be made anew from the log, and there may be thousands.
const LEAST_QUEUE_BYTES: usize = 2 * PAGE;
/// How long it waits at most.
const QUEUES_THOROUGH_INTERVAL: Duration = Duration::from_secs(60);
/// How long the last bytes of the log wait at most.
const LOG_THOROUGH_INTERVAL: Duration = Duration::from_secs(10);
/// The checkpoint is not written more often.
const CHECKPOINT_INTERVAL: Duration = Duration::from_secs(1);

/// What the owner asks of the second thread.
enum Job {
    /// Reserve a mapping up to a position, so that the owner need not.
    ReserveAhead(Weak<Mapping>, usize),
    /// Look at [`Shared::settings`].
    Persist,
    /// Remove files and directories.
    Remove(Vec<PathBuf>),
    /// Look at what is asked for in [`Shared`].
    Commit,
    /// Flush everything and say so.
    Flush(SyncSender<()>),
    /// End after the jobs before this one.
    Stop,
}

/// Which mappings there are, in the order in which they have to reach the disk.
#[derive(Debug, Default)]
struct Mappings {
    log: Vec<Weak<Mapping>>,
    /// After the log: an entry on disk must not point at a record that is not.
    queues: Vec<Weak<Mapping>>,
    /// Files that are changed where they lie, and whether each was since it was last written to disk.
    files: Vec<(PathBuf, Weak<AtomicBool>)>,
}

/// Wakes whoever waits for a flush.
struct Wake(Box<dyn Fn() + Send>);

impl fmt::Debug for Wake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Wake")
    }
}

/// What the owner and the second thread both see.
#[derive(Debug, Default)]
struct Shared {
    mappings: Mutex<Mappings>,
    /// Physical offset of the log up to which the owner has committed.
    committed: AtomicU64,
    /// Physical offset of the log up to which everything is on disk.
    flushed: AtomicU64,
    /// Store time of the last message that is in the log and in its queue.
    dispatched_time: AtomicI64,
    /// Store time of the last message in index files that do not change any more.
    indexed_time: AtomicI64,
    /// Settings files to be replaced, in the order in which they were first asked for: what was not written yet when a
    /// file changes again never is.
    settings: Mutex<Vec<(PathBuf, String)>>,
    /// Settings files that were replaced but may not be on disk.
    unsynced: Mutex<Vec<PathBuf>>,
    /// Whether the owner wants the log flushed at once.
    commit_asked: AtomicBool,
    wake: Mutex<Option<Wake>>,
}

impl Shared {
    fn mappings(&self) -> MutexGuard<'_, Mappings> {
        self.mappings.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Where a sequence of files tells the second thread about its mappings.
#[derive(Debug, Clone)]
pub(super) struct Registry {
    shared: Arc<Shared>,
    jobs: SyncSender<Job>,
    is_log: bool,
}

impl Registry {
    /// Has a mapping flushed from now on, as long as somebody holds it.
    pub(super) fn add(&self, mapping: &Arc<Mapping>) {
        let mut mappings = self.shared.mappings();
        let list = if self.is_log { &mut mappings.log } else { &mut mappings.queues };
        list.push(Arc::downgrade(mapping));
    }

    /// Has a file that is changed where it lies written to disk from now on, whenever it says that it is dirty.
    pub(super) fn add_file(&self, path: &Path, dirty: &Arc<AtomicBool>) {
        self.shared.mappings().files.push((path.to_owned(), Arc::downgrade(dirty)));
    }

    /// Asks for space up to `end`. A request that finds the thread busy is dropped: the owner then reserves itself.
    pub(super) fn reserve_ahead(&self, mapping: &Arc<Mapping>, end: usize) {
        let _ = self.jobs.try_send(Job::ReserveAhead(Arc::downgrade(mapping), end));
    }
}

/// Where settings files are handed to the second thread.
#[derive(Debug, Clone)]
pub(super) struct Persister {
    shared: Arc<Shared>,
    jobs: SyncSender<Job>,
}

impl Persister {
    /// Has a settings file written to disk with the next flush.
    pub(super) fn sync(&self, path: &Path) {
        let mut unsynced = self.shared.unsynced.lock().unwrap_or_else(PoisonError::into_inner);
        if !unsynced.iter().any(|waiting| waiting == path) {
            unsynced.push(path.to_owned());
        }
    }

    /// Has a settings file replaced by its newest text; never waits.
    ///
    /// # Errors
    ///
    /// When the store is closed.
    pub(super) fn persist(&self, path: &Path, text: String) -> Result<(), StoreError> {
        let mut settings = self.shared.settings.lock().unwrap_or_else(PoisonError::into_inner);
        match settings.iter_mut().find(|(waiting, _)| waiting == path) {
            Some((_, waiting)) => *waiting = text,
            None => settings.push((path.to_owned(), text)),
        }
        drop(settings);
        match self.jobs.try_send(Job::Persist) {
            // A full queue will do: the thread looks after every job.
            Ok(()) | Err(TrySendError::Full(_)) => Ok(()),
            Err(TrySendError::Disconnected(_)) => {
                Err(StoreError::at("the store is closed, so settings are not written", path))
            }
        }
    }
}

/// When the log is flushed without being asked.
#[derive(Debug, Clone, Copy)]
pub(super) struct FlushPolicy {
    /// Looks this often.
    pub(super) interval: Duration,
    /// Leaves less than this for later, for ten seconds at most.
    pub(super) least_bytes: usize,
}

impl FlushPolicy {
    pub(super) fn new(interval_ms: u64, least_pages: usize) -> Self {
        let interval = Duration::from_millis(interval_ms.max(1));
        FlushPolicy { interval, least_bytes: least_pages.saturating_mul(PAGE).max(1) }
    }
}

/// The owner's handle of the thread; dropping it stops the thread after the jobs it has, without a last flush.
#[derive(Debug)]
pub(super) struct Flusher {
    shared: Arc<Shared>,
    jobs: SyncSender<Job>,
    thread: Option<JoinHandle<()>>,
}

impl Flusher {
    /// Starts the thread, which keeps the checkpoint in a file, going on from `checkpoint`.
    ///
    /// # Errors
    ///
    /// When the operating system has no thread to give.
    pub(super) fn start(policy: FlushPolicy, path: PathBuf, checkpoint: Checkpoint) -> Result<Flusher, StoreError> {
        let shared = Arc::new(Shared::default());
        shared.indexed_time.store(checkpoint.index, Ordering::Relaxed);
        let (jobs, queue) = mpsc::sync_channel(64);
        let now = clock::instant();
        let thread = Thread {
            shared: Arc::clone(&shared),
            policy,
            path,
            written: checkpoint,
            checkpoint,
            next_checkpoint: now,
            next_log: now + policy.interval,
            next_thorough_log: now + LOG_THOROUGH_INTERVAL,
            next_thorough_queues: now + QUEUES_THOROUGH_INTERVAL,
        };
        let thread = std::thread::Builder::new()
            .name("rocketmq-store".into())
            .spawn(move || thread.run(&queue))
            .map_err(|error| StoreError::new(format!("cannot start the store's thread: {error}")))?;
        Ok(Flusher { shared, jobs, thread: Some(thread) })
    }

    /// For the commit log's files.
    pub(super) fn log_registry(&self) -> Registry {
        Registry { shared: Arc::clone(&self.shared), jobs: self.jobs.clone(), is_log: true }
    }

    /// For the files of queues and index.
    pub(super) fn queue_registry(&self) -> Registry {
        Registry { shared: Arc::clone(&self.shared), jobs: self.jobs.clone(), is_log: false }
    }

    /// For settings files.
    pub(super) fn persister(&self) -> Persister {
        Persister { shared: Arc::clone(&self.shared), jobs: self.jobs.clone() }
    }

    /// Tells how far the log is committed, and the store time of the last message that is dispatched too.
    pub(super) fn advance(&self, committed: u64, dispatched_time: i64) {
        self.shared.committed.store(committed, Ordering::Release);
        self.shared.dispatched_time.store(dispatched_time, Ordering::Release);
    }

    /// Tells that no message until this store time is in an index file that still changes.
    pub(super) fn advance_index(&self, time: i64) {
        self.shared.indexed_time.store(time, Ordering::Release);
    }

    /// Has the log flushed up to `committed` at once; whoever was to be woken is when that is done.
    pub(super) fn commit(&self, committed: u64) {
        self.shared.committed.store(committed, Ordering::Release);
        if !self.shared.commit_asked.swap(true, Ordering::AcqRel) {
            // A full queue will do: the thread looks after every job.
            let _ = self.jobs.try_send(Job::Commit);
        }
    }

    /// Returns the physical offset up to which the log is on disk.
    pub(super) fn flushed(&self) -> u64 {
        self.shared.flushed.load(Ordering::Acquire)
    }

    /// Sets what is called, on the second thread, after each flush that was [asked](Self::commit) for.
    pub(super) fn wake_with(&self, wake: Box<dyn Fn() + Send>) {
        *self.shared.wake.lock().unwrap_or_else(PoisonError::into_inner) = Some(Wake(wake));
    }

    /// Has files and directories removed; what goes wrong is logged.
    pub(super) fn remove(&self, paths: Vec<PathBuf>) {
        // Only fails when the thread is gone, which ends with the store.
        let _ = self.jobs.send(Job::Remove(paths));
    }

    /// Waits until everything committed so far is on disk, as far as the disk can take it.
    pub(super) fn flush(&self) {
        let (done, wait) = mpsc::sync_channel(1);
        if self.jobs.send(Job::Flush(done)).is_ok() {
            let _ = wait.recv();
        }
    }
}

impl Drop for Flusher {
    fn drop(&mut self) {
        let _ = self.jobs.send(Job::Stop);
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the store's thread panicked");
        }
    }
}

/// What the second thread keeps to itself.
struct Thread {
    shared: Arc<Shared>,
    policy: FlushPolicy,
    /// Where the checkpoint is.
    path: PathBuf,
    checkpoint: Checkpoint,
    /// The checkpoint as it is on disk.
    written: Checkpoint,
    next_checkpoint: Instant,
    next_log: Instant,
    next_thorough_log: Instant,
    next_thorough_queues: Instant,
}

impl Thread {
    fn run(mut self, queue: &Receiver<Job>) {
        loop {
            let now = clock::instant();
            if now >= self.next_log {
                self.flush_regularly(now);
                self.next_log = clock::instant() + self.policy.interval;
            }
            let job = queue.recv_timeout(self.next_log.saturating_duration_since(now));
            self.replace_settings();
            match job {
                Ok(Job::ReserveAhead(mapping, end)) => {
                    // The owner meets an error itself when it gets there, and answers with it.
                    if let Some(mapping) = mapping.upgrade() {
                        let _ = mapping.reserve_ahead(end);
                    }
                }
                Ok(Job::Remove(paths)) => paths.iter().for_each(|path| remove(path)),
                Ok(Job::Flush(done)) => {
                    self.flush_everything();
                    let _ = done.send(());
                }
                Ok(Job::Commit | Job::Persist) | Err(RecvTimeoutError::Timeout) => {}
                Ok(Job::Stop) | Err(RecvTimeoutError::Disconnected) => return,
            }
            if self.shared.commit_asked.swap(false, Ordering::AcqRel) {
                self.flush_log(1);
                if let Some(Wake(wake)) = &*self.shared.wake.lock().unwrap_or_else(PoisonError::into_inner) {
                    wake();
                }
            }
        }
    }

    fn replace_settings(&self) {
        let settings = std::mem::take(&mut *self.shared.settings.lock().unwrap_or_else(PoisonError::into_inner));
        for (path, text) in settings {
            if let Err(error) = config_file::replace(&path, &text, &File::sync_all) {
                tracing::error!(%error, "settings are not saved");
            }
        }
    }

    fn sync_settings(&self) {
        let unsynced = std::mem::take(&mut *self.shared.unsynced.lock().unwrap_or_else(PoisonError::into_inner));
        for path in unsynced {
            let directory = path.parent().unwrap_or(&path);
            let synced = [&*path, directory].into_iter().try_for_each(|path| File::open(path)?.sync_all());
            if let Err(error) = synced {
                tracing::error!(%error, path = %path.display(), "cannot write settings to disk");
            }
        }
    }

    fn flush_regularly(&mut self, now: Instant) {
        self.sync_settings();
        let thorough = now >= self.next_thorough_log;
        if thorough {
            self.next_thorough_log = now + LOG_THOROUGH_INTERVAL;
        }
        let on_disk = self.flush_log(if thorough { 1 } else { self.policy.least_bytes });
        if now >= self.next_thorough_queues {
            self.next_thorough_queues = now + QUEUES_THOROUGH_INTERVAL;
            if on_disk {
                self.flush_queues();
            }
        } else if on_disk {
            let queues = self.dirty(|mappings| &mut mappings.queues, LEAST_QUEUE_BYTES);
            flush(&queues);
        }
        if now >= self.next_checkpoint {
            self.next_checkpoint = now + CHECKPOINT_INTERVAL;
            self.write_checkpoint();
        }
    }

    fn flush_everything(&mut self) {
        self.sync_settings();
        if self.flush_log(1) {
            self.flush_queues();
        }
        self.write_checkpoint();
    }

    /// Flushes the log unless it has less than `least` bytes to write. Returns whether nothing of it is missing on disk.
    fn flush_log(&mut self, least: usize) -> bool {
        // Before the mappings are looked at: these are part of what they hold by then.
        let time = self.shared.dispatched_time.load(Ordering::Acquire);
        let committed = self.shared.committed.load(Ordering::Acquire);
        let dirty = self.dirty(|mappings| &mut mappings.log, 1);
        if dirty.iter().map(|mapping| mapping.unflushed()).sum::<usize>() < least && !dirty.is_empty() {
            return false;
        }
        let on_disk = flush(&dirty);
        if on_disk {
            self.checkpoint.log = self.checkpoint.log.max(time);
            self.shared.flushed.fetch_max(committed, Ordering::AcqRel);
        }
        on_disk
    }

    /// Flushes queues and index; the log must be on disk.
    fn flush_queues(&mut self) {
        let time = self.shared.dispatched_time.load(Ordering::Acquire);
        let indexed = self.shared.indexed_time.load(Ordering::Acquire);
        if flush(&self.dirty(|mappings| &mut mappings.queues, 1)) {
            self.checkpoint.queues = self.checkpoint.queues.max(time.min(self.checkpoint.log));
        }
        if self.flush_files() {
            self.checkpoint.index = self.checkpoint.index.max(indexed);
        }
    }

    /// The mappings of a list with at least so many bytes to write; those that nobody holds any more are forgotten.
    fn dirty(&self, list: impl Fn(&mut Mappings) -> &mut Vec<Weak<Mapping>>, least: usize) -> Vec<Arc<Mapping>> {
        let mut mappings = self.shared.mappings();
        let list = list(&mut mappings);
        list.retain(|mapping| mapping.strong_count() > 0);
        list.iter().filter_map(Weak::upgrade).filter(|mapping| mapping.unflushed() >= least).collect()
    }

    /// Writes files to disk that were changed where they lie, and returns whether all are.
    fn flush_files(&self) -> bool {
        let dirty: Vec<(PathBuf, Arc<AtomicBool>)> = {
            let mut mappings = self.shared.mappings();
            mappings.files.retain(|(_, dirty)| dirty.strong_count() > 0);
            let files = mappings.files.iter().filter_map(|(path, dirty)| Some((path.clone(), dirty.upgrade()?)));
            files.filter(|(_, dirty)| dirty.load(Ordering::Acquire)).collect()
        };
        let mut all = true;
        for (path, dirty) in dirty {
            // First, so that a change made meanwhile is seen next time.
            dirty.store(false, Ordering::Release);
            let synced = File::open(&path).and_then(|file| file.sync_data());
            if let Err(error) = synced {
                dirty.store(true, Ordering::Release);
                all = false;
                tracing::error!(%error, path = %path.display(), "cannot write a file to disk; trying again later");
            }
        }
        all
    }

    fn write_checkpoint(&mut self) {
        if self.checkpoint == self.written {
            return;
        }
        match self.checkpoint.write(&self.path) {
            Ok(()) => self.written = self.checkpoint,
            // Recovery begins earlier then.
            Err(error) => tracing::error!(%error, "trying again later"),
        }
    }
}

/// Writes mappings to disk in order, and returns whether that worked.
fn flush(dirty: &[Arc<Mapping>]) -> bool {
    for mapping in dirty {
        if let Err(error) = mapping.flush() {
            tracing::error!(%error, "cannot write the store to disk; trying again later");
            return false;
        }
    }
    true
}

fn remove(path: &Path) {
    let removed = if path.is_dir() { std::fs::remove_dir_all(path) } else { std::fs::remove_file(path) };
    match removed {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            tracing::error!(%error, path = %path.display(), "cannot remove a file of the store");
        }
        _ => {}
    }
}
