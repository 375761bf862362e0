//! The index: finds messages by key or by unique key, in files of Apache's layout.
//!
//! It is built behind the consume queues, some of the log at a time, and caught up with before it is asked: nobody who
//! sends pays for it. In memory it is built when first asked. What it holds can be made anew from the log.

mod file;

use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use rocketmq_wire::message::properties;
use rocketmq_wire::message::stored::{LogEntry, RecordView};
use rocketmq_wire::message::{sys_flag, tag_hash};

use crate::store::commit_log::CommitLog;
use crate::store::error::StoreError;
use crate::store::flush::Registry;
use file::{IndexFile, Shape};

/// What separates a topic from a key, and the values of `KEYS`.
const TOPIC_SEPARATOR: &str = "#";
const KEY_SEPARATOR: char = ' ';

/// Where the files are, and how large.
#[derive(Debug)]
struct Place {
    directory: Option<PathBuf>,
    shape: Shape,
    registry: Option<Registry>,
}

/// The files, oldest first, and how far the log is entered.
#[derive(Debug)]
pub(super) struct Index {
    place: Place,
    files: Vec<IndexFile>,
    /// Physical offset of the first record that is not entered.
    position: u64,
    /// How many keys of that record are entered nevertheless.
    entered: usize,
}

/// Messages found by key.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Found {
    /// Their physical offsets, newest first.
    pub(super) offsets: Vec<u64>,
    /// Store time of the newest message in the index, 0 without one.
    pub(super) last_timestamp: i64,
    /// Physical offset of the newest message in the index, 0 without one.
    pub(super) last_offset: i64,
}

impl Index {
    /// An empty index; `slots` and `entries` give the size of its files.
    pub(super) fn new(directory: Option<PathBuf>, slots: u32, entries: u32, registry: Option<Registry>) -> Self {
        // Entry 0 is not used, and a table needs a slot.
        let shape = Shape { slots: slots.max(1), entries: entries.max(2) };
        Index { place: Place { directory, shape, registry }, files: Vec::new(), position: 0, entered: 0 }
    }

    /// Opens the files that are on disk, as far as they fit a log of the range `log`; the others are removed, to be made
    /// anew. After a crash only files are kept whose newest message is from before `safe_until` (milliseconds since
    /// 1970).
    ///
    /// # Errors
    ///
    /// When files cannot be read or removed.
    pub(super) fn open(&mut self, log: std::ops::Range<u64>, safe_until: Option<i64>) -> Result<(), StoreError> {
        self.position = log.start;
        let Some(directory) = &self.place.directory else { return Ok(()) };
        let mut paths = files(directory)?.into_iter();
        for path in &mut paths {
            let file = IndexFile::open(&path, self.place.shape)?.filter(|file| {
                let follows = self.files.last().is_none_or(|last| last.end_offset() <= file.begin_offset());
                let is_safe = safe_until.is_none_or(|until| file.end_timestamp() <= until);
                follows && is_safe && u64::try_from(file.end_offset()).is_ok_and(|end| file.is_empty() || end < log.end)
            });
            let Some(file) = file else {
                tracing::info!(path = %path.display(), "an index file does not fit the log or was in use; it is made anew");
                remove(&path)?;
                break;
            };
            if let Some(registry) = &self.place.registry {
                file.register(registry);
            }
            self.files.push(file);
        }
        paths.try_for_each(|path| remove(&path))?;
        if let Some(last) = self.files.iter().rev().find(|file| !file.is_empty())
            && let Ok(end) = u64::try_from(last.end_offset())
            && end >= log.start
        {
            (self.position, self.entered) = (end, last.keys_of_last_message());
        }
        Ok(())
    }

    /// Returns the store time of the last message in files that do not change any more; none while there are none.
    pub(super) fn settled_time(&self) -> Option<i64> {
        let before_last = self.files.len().checked_sub(2)?;
        Some(self.files[before_last].end_timestamp())
    }

    /// Returns how far the log is entered.
    pub(super) fn position(&self) -> u64 {
        self.position
    }

    /// Enters at most about `budget` bytes of the log, up to `end`.
    ///
    /// # Errors
    ///
    /// When a file cannot be created or extended, or the log is damaged. The record is tried again by the next call.
    pub(super) fn catch_up(&mut self, log: &CommitLog, end: u64, budget: u64) -> Result<(), StoreError> {
        if self.position < log.min_offset() {
            (self.position, self.entered) = (log.min_offset(), 0);
        }
        let end = end.min(self.position.saturating_add(budget));
        while self.position < end {
            let position = self.position;
            let damaged = |why: &dyn std::fmt::Display| {
                StoreError::new(format!("the commit log cannot be indexed at offset {position}: {why}"))
            };
            let Some(mut rest) = log.read_to_end(position) else { return Err(damaged(&"nothing is there")) };
            while !rest.is_empty() && self.position < end {
                let size = match LogEntry::parse(rest).map_err(|error| damaged(&error))? {
                    LogEntry::Record(record) => {
                        self.enter(record)?;
                        record.size()
                    }
                    LogEntry::EndOfFile { .. } => {
                        self.position = log.next_file(self.position);
                        break;
                    }
                    LogEntry::Unwritten => return Err(damaged(&"nothing was written there")),
                };
                self.position += size as u64;
                self.entered = 0;
                rest = &rest[size..];
            }
        }
        Ok(())
    }

    /// Goes on at `position`, without what was there before.
    pub(super) fn restart_at(&mut self, position: u64) {
        (self.position, self.entered) = (position, 0);
    }

    fn enter(&mut self, record: RecordView<'_>) -> Result<(), StoreError> {
        if sys_flag::transaction(record.sys_flag()) == sys_flag::TRANSACTION_ROLLBACK {
            return Ok(());
        }
        let properties = record.properties();
        let unique = properties.value(properties::UNIQUE_ID);
        let keys = properties.value(properties::KEYS).unwrap_or_default();
        let keys = unique.into_iter().chain(keys.split(KEY_SEPARATOR).filter(|key| !key.is_empty()));
        for key in keys.skip(self.entered) {
            let hash = key_hash(record.topic(), key);
            self.put(hash, record.physical_offset(), record.store_timestamp())?;
            self.entered += 1;
        }
        Ok(())
    }

    fn put(&mut self, hash: i32, physical_offset: i64, store_timestamp: i64) -> Result<(), StoreError> {
        if self.files.last().is_none_or(IndexFile::is_full) {
            let file = self.create(store_timestamp)?;
            self.files.push(file);
        }
        // There is one now.
        self.files.last_mut().map_or(Ok(()), |file| file.put(hash, physical_offset, store_timestamp))
    }

    /// Makes the file after the last one. It is named after its first message, and later than the one before.
    fn create(&self, store_timestamp: i64) -> Result<IndexFile, StoreError> {
        let Place { directory, shape, registry } = &self.place;
        let Some(directory) = directory else { return IndexFile::in_memory(*shape) };
        std::fs::create_dir_all(directory)
            .map_err(StoreError::io("cannot create a directory of the store", directory))?;
        let after = self.files.last().and_then(IndexFile::path).and_then(file_number).map_or(0, |last| last + 1);
        let path = directory.join(format!("{:017}", time_number(store_timestamp).max(after)));
        let file = IndexFile::create(&path, *shape)?;
        if let Some(registry) = registry {
            file.register(registry);
        }
        Ok(file)
    }

    /// Finds at most `limit` messages of a topic by key or unique key, among those stored in a range of time
    /// (milliseconds since 1970). A message of another key with the same hash may be among them.
    pub(super) fn find(&self, topic: &str, key: &str, limit: usize, times: &RangeInclusive<i64>) -> Found {
        let hash = key_hash(topic, key);
        let mut found = Found::default();
        if let Some(last) = self.files.last() {
            (found.last_timestamp, found.last_offset) = (last.end_timestamp(), last.end_offset());
        }
        for file in self.files.iter().rev() {
            let begin = file.begin_timestamp();
            if begin <= *times.end() && file.end_timestamp() >= *times.start() {
                for entry in file.chain(hash) {
                    if found.offsets.len() >= limit || entry.seconds < 0 {
                        break;
                    }
                    // Entries know seconds only: a message of the range's first second may seem to be before it.
                    let time = begin.saturating_add(i64::from(entry.seconds) * 1000);
                    let in_time = time.saturating_add(999) >= *times.start() && time <= *times.end();
                    if entry.key_hash == hash
                        && in_time
                        && let Ok(offset) = u64::try_from(entry.physical_offset)
                    {
                        found.offsets.push(offset);
                    }
                    if time.saturating_add(999) < *times.start() {
                        break;
                    }
                }
            }
            if begin < *times.start() || found.offsets.len() >= limit {
                break;
            }
        }
        found
    }

    /// Takes out the files that only name messages before `min_offset`, but for the last file.
    pub(super) fn take_before(&mut self, min_offset: u64) -> Vec<PathBuf> {
        let is_gone = |file: &IndexFile| u64::try_from(file.end_offset()).is_ok_and(|end| end < min_offset);
        let candidates = self.files.len().saturating_sub(1);
        let gone = self.files[..candidates].iter().take_while(|file| is_gone(file)).count();
        self.files.drain(..gone).filter_map(|file| file.path().map(Path::to_owned)).collect()
    }
}

/// Returns the hash under which a key of a topic is entered: that of `topic#key`, never negative.
fn key_hash(topic: &str, key: &str) -> i32 {
    use rocketmq_wire::message::tag_hash::continue_hash;
    let hash = continue_hash(continue_hash(tag_hash(topic), TOPIC_SEPARATOR), key);
    hash.checked_abs().unwrap_or(0)
}

/// Lists the index files in a directory, oldest first; none without the directory.
fn files(directory: &Path) -> Result<Vec<PathBuf>, StoreError> {
    let entries = match std::fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(StoreError::io("cannot list the index", directory)(error)),
    };
    let mut files = Vec::new();
    for entry in entries {
        let path = entry.map_err(StoreError::io("cannot list the index", directory))?.path();
        if file_number(&path).is_some() {
            files.push(path);
        }
    }
    files.sort_unstable();
    Ok(files)
}

fn remove(path: &Path) -> Result<(), StoreError> {
    std::fs::remove_file(path).map_err(StoreError::io("cannot remove an index file", path))
}

/// The number that a file is named with.
fn file_number(path: &Path) -> Option<u64> {
    path.file_name()?.to_str().filter(|name| name.len() == 17)?.parse().ok()
}

/// Writes a time as `yyyyMMddHHmmssSSS` (UTC), read as a number.
fn time_number(timestamp: i64) -> u64 {
    let timestamp = timestamp.max(0) as u64;
    let (days, milliseconds) = (timestamp / 86_400_000, timestamp % 86_400_000);
    // Days since 0000-03-01, in eras of 400 years; a year begins in March, so that its leap day is the last.
    let days = days + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (year, month) = (year + era * 400 + u64::from(month >= 10), if month < 10 { month + 3 } else { month - 9 });
    let (hour, minute) = (milliseconds / 3_600_000, milliseconds / 60_000 % 60);
    let second = milliseconds % 60_000;
    // Ten digits hold any year that fits a timestamp of today's kind; more would only sort later.
    ((((year * 100 + month) * 100 + day) * 100 + hour) * 100 + minute) * 100_000 + second
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_named_after_times() {
        for (time, number) in [
            (0, 19_700_101_000_000_000),
            (1_795_958_251_584, 20_261_129_131_731_584),
            (951_827_696_789, 20_000_229_123_456_789),
            (1_709_251_199_999, 20_240_229_235_959_999),
            (4_107_542_400_000, 21_000_301_000_000_000),
        ] {
            assert_eq!(time_number(time), number, "{time}");
        }
    }

    #[test]
    fn keys_are_hashed_with_their_topic() {
        assert_eq!(key_hash("T", "k"), tag_hash("T#k").abs());
        // `topic#key` with the one hash that has no positive counterpart.
        assert_eq!(key_hash("", "").min(0), 0);
    }
}
