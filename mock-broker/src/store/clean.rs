//! Removes what is too old: log files by age or by how full the disk is, and then what only pointed into them.

use std::path::PathBuf;

use rocketmq_wire::message::stored::RecordView;

use crate::store::error::PutError;
use crate::store::{Store, StoreError, platform};

/// Most log files that one pass removes (`deleteFileBatchMax`).
const MOST_FILES: usize = 10;
/// Passes that remove old files at any hour after they were asked for.
const MANUAL_PASSES: u32 = 20;

const HOUR_MS: i64 = 3_600_000;

/// What is kept, and when the rest is removed. The last file of the log is always kept.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Retention {
    /// Hours after which a log file whose messages are all older may be removed (`fileReservedTime`). None keeps them
    /// for ever. Default 72 on disk, none in memory.
    pub reserved_hours: Option<u32>,
    /// The hours of the day (0 to 23, UTC) in which old files are removed (`deleteWhen`). Default 4.
    pub delete_when: Vec<u8>,
    /// Percent of the disk in use above which old files are removed at any hour (`diskMaxUsedSpaceRatio`, there 75).
    /// Default none: a disk that others fill is no reason to remove what a test put.
    pub max_used_percent: Option<u8>,
    /// Percent of the disk in use above which the oldest files are removed whatever their age
    /// (`diskSpaceCleanForciblyRatio`, there 85). Default none.
    pub clean_forcibly_percent: Option<u8>,
    /// Percent of the disk in use above which puts are refused (`diskSpaceWarningLevelRatio`, there 90), and the oldest
    /// files are removed whatever their age. Default none.
    pub warning_percent: Option<u8>,
    /// Whether files younger than the time kept may be removed at all (`cleanFileForciblyEnable`). Default true.
    pub clean_forcibly: bool,
}

impl Default for Retention {
    fn default() -> Self {
        Retention {
            reserved_hours: Some(72),
            delete_when: vec![4],
            max_used_percent: None,
            clean_forcibly_percent: None,
            warning_percent: None,
            clean_forcibly: true,
        }
    }
}

/// What a pass did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Cleaned {
    /// Log files removed.
    pub log_files: usize,
    /// Files of queues and index removed.
    pub other_files: usize,
}

/// How far cleaning has come.
#[derive(Debug, Default)]
pub(super) struct Cleaning {
    /// Passes left that do not look at the hour.
    manual_passes: u32,
    /// Percent of the disk in use when it was looked at last, if that is too much for puts.
    disk_full: Option<u8>,
    page_cache_busy: bool,
}

impl Cleaning {
    /// Refuses a put while the disk is too full or the page cache busy.
    #[inline]
    pub(super) fn check(&self) -> Result<(), PutError> {
        match self.disk_full {
            None if self.page_cache_busy => Err(PutError::Busy),
            None => Ok(()),
            Some(percent) => Err(PutError::NoSpace(StoreError::new(format!(
                "{percent} % of the disk are in use: make room, or raise diskSpaceWarningLevelRatio"
            )))),
        }
    }
}

impl Store {
    /// Removes log files that [`Retention`] does not keep, at most ten a call, and then the files of queues and index
    /// that have nothing else to point to. `now` is in milliseconds since 1970; the age of a file is that of its newest
    /// message. Call it every ten seconds.
    ///
    /// Message slices that were handed out stay valid. On disk, the second thread removes the files.
    pub fn clean(&mut self, now: i64) -> Cleaned {
        let used = self.used_percent();
        let retention = &self.config.retention;
        let beyond = |limit: Option<u8>| used.zip(limit).is_some_and(|(used, limit)| used > limit);
        let too_full = beyond(retention.warning_percent);
        let forced = retention.clean_forcibly && (too_full || beyond(retention.clean_forcibly_percent));
        let hour = (now.rem_euclid(24 * HOUR_MS) / HOUR_MS) as u8;
        let is_time = retention.delete_when.contains(&hour);
        let is_full = too_full || beyond(retention.max_used_percent) || beyond(retention.clean_forcibly_percent);
        self.cleaning.disk_full = used.filter(|_| too_full);
        let manual = self.cleaning.manual_passes > 0;
        if !(is_time || is_full || manual) {
            return Cleaned::default();
        }
        self.cleaning.manual_passes = self.cleaning.manual_passes.saturating_sub(1);
        let kept_ms = retention.reserved_hours.map(|hours| i64::from(hours) * HOUR_MS);
        let mut count = 0;
        // Files are not taken out of the middle: the first one that is kept ends the pass.
        while count < MOST_FILES && self.may_remove(count, now, kept_ms, forced) {
            count += 1;
        }
        if count == 0 {
            return Cleaned::default();
        }
        self.remove_log_files(count)
    }

    /// Has puts refused as if the machine were busy with its page cache, which nothing else makes them be.
    pub fn set_page_cache_busy(&mut self, busy: bool) {
        self.cleaning.page_cache_busy = busy;
    }

    /// Returns whether puts are refused because the page cache is busy.
    #[inline]
    pub fn is_page_cache_busy(&self) -> bool {
        self.cleaning.page_cache_busy
    }

    /// Returns whether [`clean`](Self::clean) can ever do anything.
    pub fn is_cleaned(&self) -> bool {
        self.disk.is_some() || self.config.retention.reserved_hours.is_some()
    }

    /// Has the next twenty passes of [`clean`](Self::clean) remove old files whatever the hour.
    pub fn clean_at_any_hour(&mut self) {
        self.cleaning.manual_passes = MANUAL_PASSES;
    }

    /// Returns how many percent of the disk are in use, rounded up; none in memory, or if that cannot be found out.
    pub fn used_percent(&self) -> Option<u8> {
        let disk = self.disk.as_ref()?;
        match platform::used_percent(&disk.directory.commit_log()) {
            Ok(percent) => percent,
            Err(error) => {
                tracing::warn!(%error, "cannot tell how full the disk is");
                None
            }
        }
    }

    /// Whether the log file after the first `index` ones may be removed.
    fn may_remove(&self, index: usize, now: i64, kept_ms: Option<i64>, forced: bool) -> bool {
        let Some(next) = self.log.start_of_file(index + 1).filter(|next| *next <= self.dispatch.position()) else {
            return false;
        };
        if forced {
            return true;
        }
        // No message of a file is newer than the first one of the next.
        let newest =
            self.log.read_to_end(next).and_then(|bytes| Some(RecordView::parse(bytes).ok()?.store_timestamp()));
        newest.zip(kept_ms).is_some_and(|(newest, kept)| newest.saturating_add(kept) <= now)
    }

    fn remove_log_files(&mut self, count: usize) -> Cleaned {
        let log = self.log.remove_first(count);
        let min = self.log.min_offset();
        let mut others: Vec<PathBuf> = self.queues.all_mut().flat_map(|queue| queue.clean(min)).collect();
        others.extend(self.index.take_before(min));
        let cleaned = Cleaned { log_files: count, other_files: others.len() };
        tracing::info!(files = count, min_physical_offset = min, "old files of the commit log are removed");
        if let Some(disk) = &self.disk {
            // What points into a file goes after it: an entry without a record is known to be possible.
            disk.flusher.remove(log.into_iter().chain(others).collect());
        }
        cleaned
    }
}
