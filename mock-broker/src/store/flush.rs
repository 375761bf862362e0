//! The second thread of a store on disk: it writes committed bytes and settings to disk and reserves space ahead of
//! the owner.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::clock;
use crate::store::config_file;
use crate::store::error::StoreError;
use crate::store::mapped_file::Mapping;

/// A queue with less to write waits: it can be made anew from the log, and there may be thousands.
const LEAST_QUEUE_BYTES: usize = 2 * 4096;
/// How long it waits at most.
const THOROUGH_INTERVAL: Duration = Duration::from_secs(60);

/// What the owner asks of the second thread.
enum Job {
    /// Reserve a mapping up to a position, so that the owner need not.
    ReserveAhead(Weak<Mapping>, usize),
    /// Replace a settings file.
    Persist(PathBuf, String),
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

/// Where a sequence of files tells the second thread about its mappings.
#[derive(Debug, Clone)]
pub(super) struct Registry {
    mappings: Arc<Mutex<Mappings>>,
    jobs: SyncSender<Job>,
    is_log: bool,
}

impl Registry {
    /// Has a mapping flushed from now on, as long as somebody holds it.
    pub(super) fn add(&self, mapping: &Arc<Mapping>) {
        let mut mappings = self.mappings.lock().unwrap_or_else(PoisonError::into_inner);
        let list = if self.is_log { &mut mappings.log } else { &mut mappings.queues };
        list.push(Arc::downgrade(mapping));
    }

    /// Has a file that is changed where it lies written to disk from now on, whenever it says that it is dirty.
    pub(super) fn add_file(&self, path: &Path, dirty: &Arc<AtomicBool>) {
        let mut mappings = self.mappings.lock().unwrap_or_else(PoisonError::into_inner);
        mappings.files.push((path.to_owned(), Arc::downgrade(dirty)));
    }

    /// Asks for space up to `end`. A request that finds the thread busy is dropped: the owner then reserves itself.
    pub(super) fn reserve_ahead(&self, mapping: &Arc<Mapping>, end: usize) {
        let _ = self.jobs.try_send(Job::ReserveAhead(Arc::downgrade(mapping), end));
    }
}

/// Where settings files are handed to the second thread.
#[derive(Debug, Clone)]
pub(super) struct Persister {
    jobs: SyncSender<Job>,
}

impl Persister {
    /// Has a settings file replaced; waits while 64 jobs are outstanding.
    ///
    /// # Errors
    ///
    /// When the store is closed.
    pub(super) fn persist(&self, path: &Path, text: String) -> Result<(), StoreError> {
        let sent = self.jobs.send(Job::Persist(path.to_owned(), text));
        sent.map_err(|_| StoreError::at("the store is closed, so settings are not written", path))
    }
}

/// The owner's handle of the thread; dropping it stops the thread after the jobs it has, without a last flush.
#[derive(Debug)]
pub(super) struct Flusher {
    mappings: Arc<Mutex<Mappings>>,
    jobs: SyncSender<Job>,
    thread: Option<JoinHandle<()>>,
}

impl Flusher {
    /// Starts the thread, which flushes every `interval`.
    ///
    /// # Errors
    ///
    /// When the operating system has no thread to give.
    pub(super) fn start(interval: Duration) -> Result<Flusher, StoreError> {
        let mappings = Arc::new(Mutex::new(Mappings::default()));
        let (jobs, queue) = mpsc::sync_channel(64);
        let shared = Arc::clone(&mappings);
        let thread = std::thread::Builder::new()
            .name("rocketmq-store".into())
            .spawn(move || run(&queue, &shared, interval))
            .map_err(|error| StoreError::new(format!("cannot start the store's thread: {error}")))?;
        Ok(Flusher { mappings, jobs, thread: Some(thread) })
    }

    /// For the commit log's files.
    pub(super) fn log_registry(&self) -> Registry {
        Registry { mappings: Arc::clone(&self.mappings), jobs: self.jobs.clone(), is_log: true }
    }

    /// For the queues' files.
    pub(super) fn queue_registry(&self) -> Registry {
        Registry { mappings: Arc::clone(&self.mappings), jobs: self.jobs.clone(), is_log: false }
    }

    /// For settings files.
    pub(super) fn persister(&self) -> Persister {
        Persister { jobs: self.jobs.clone() }
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

fn run(queue: &Receiver<Job>, mappings: &Mutex<Mappings>, interval: Duration) {
    let mut next_flush = clock::instant() + interval;
    let mut next_thorough = clock::instant() + THOROUGH_INTERVAL;
    loop {
        let now = clock::instant();
        if now >= next_flush {
            let thorough = now >= next_thorough;
            flush(mappings, thorough);
            next_flush = clock::instant() + interval;
            if thorough {
                next_thorough = next_flush + THOROUGH_INTERVAL;
            }
        }
        match queue.recv_timeout(next_flush.saturating_duration_since(now)) {
            Ok(Job::ReserveAhead(mapping, end)) => {
                // The owner meets an error itself when it gets there, and answers with it.
                if let Some(mapping) = mapping.upgrade() {
                    let _ = mapping.reserve_ahead(end);
                }
            }
            Ok(Job::Persist(path, text)) => {
                if let Err(error) = config_file::replace(&path, &text) {
                    tracing::error!(%error, "settings are not saved");
                }
            }
            Ok(Job::Flush(done)) => {
                flush(mappings, true);
                let _ = done.send(());
            }
            Err(RecvTimeoutError::Timeout) => {}
            Ok(Job::Stop) | Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

/// Writes the log to disk, and then queues that have much to write, or all if `thorough`.
fn flush(mappings: &Mutex<Mappings>, thorough: bool) {
    let least = if thorough { 1 } else { LEAST_QUEUE_BYTES };
    let dirty: Vec<Arc<Mapping>> = {
        let mut mappings = mappings.lock().unwrap_or_else(PoisonError::into_inner);
        let Mappings { log, queues, .. } = &mut *mappings;
        log.retain(|mapping| mapping.strong_count() > 0);
        queues.retain(|mapping| mapping.strong_count() > 0);
        let log = log.iter().filter_map(Weak::upgrade).filter(|mapping| mapping.unflushed() > 0);
        let queues = queues.iter().filter_map(Weak::upgrade).filter(|mapping| mapping.unflushed() >= least);
        log.chain(queues).collect()
    };
    for mapping in dirty {
        if let Err(error) = mapping.flush() {
            tracing::error!(%error, "cannot write the store to disk; trying again later");
            return;
        }
    }
    if thorough {
        flush_files(mappings);
    }
}

/// Writes files to disk that were changed where they lie. What they hold can be made anew from the log.
fn flush_files(mappings: &Mutex<Mappings>) {
    let dirty: Vec<(PathBuf, Arc<AtomicBool>)> = {
        let mut mappings = mappings.lock().unwrap_or_else(PoisonError::into_inner);
        mappings.files.retain(|(_, dirty)| dirty.strong_count() > 0);
        let files = mappings.files.iter().filter_map(|(path, dirty)| Some((path.clone(), dirty.upgrade()?)));
        files.filter(|(_, dirty)| dirty.load(Ordering::Acquire)).collect()
    };
    for (path, dirty) in dirty {
        // First, so that a change made meanwhile is seen next time.
        dirty.store(false, Ordering::Release);
        let synced = File::open(&path).and_then(|file| file.sync_data());
        if let Err(error) = synced {
            dirty.store(true, Ordering::Release);
            tracing::error!(%error, path = %path.display(), "cannot write a file to disk; trying again later");
        }
    }
}
