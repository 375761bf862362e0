//! The settings of a store.

use crate::store::clean::Retention;
use crate::store::schedule::DelayLevels;
use crate::store::timer::TimerConfig;

/// The settings of a store; the defaults are those of Apache's broker where it has them.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct StoreConfig {
    /// Size of a commit log file in bytes (`mappedFileSizeCommitLog`). Default 1 GiB on disk, sparse, and 64 MiB in
    /// memory. A store that exists keeps the size of its files.
    pub commit_log_file_size: usize,
    /// Entries of 20 bytes in a file of a consume queue. Default 300,000 (`mappedFileSizeConsumeQueue` is the size in
    /// bytes). A store that exists keeps the size of its files.
    pub consume_queue_file_entries: usize,
    /// Whether queues on disk get an extension (`enableConsumeQueueExt`): tags code and store time of each message in
    /// `consumequeue_ext`, as brokers of 4.x with that setting keep them. Default false.
    pub queue_extensions: bool,
    /// Size of a file of an extension in bytes (`mappedFileSizeConsumeQueueExt`). Default 48 MiB, sparse.
    pub queue_extension_file_size: usize,
    /// Largest body in bytes (`maxMessageSize`). Default 4 MiB. A whole record or batch may have 64 KiB more.
    pub max_message_size: usize,
    /// Most messages that one read returns (`maxTransferCountOnMessageInMemory`). Default 32.
    pub max_transfer_count: usize,
    /// Most bytes that one read returns, unless its first message is larger
    /// (`maxTransferBytesOnMessageInMemory`). Default 256 KiB.
    pub max_transfer_bytes: usize,
    /// Hash slots of an index file (`maxHashSlotNum`). Default 5,000,000 on disk, 100,000 in memory. Index files of
    /// another size are made anew.
    pub index_slots: u32,
    /// Most entries of an index file (`maxIndexNum`). Default 20,000,000 on disk, 2,000,000 in memory.
    pub index_entries: u32,
    /// Milliseconds between two flushes of the commit log to disk (`flushIntervalCommitLog`). Default 500.
    pub flush_interval_ms: u64,
    /// Pages of 4 KiB that the commit log lets pile up before it is flushed without being asked, for ten seconds at
    /// most (`flushCommitLogLeastPages`). Default 4.
    pub flush_least_pages: usize,
    /// Whether a put counts only when it is on disk (`flushDiskType` is `SYNC_FLUSH`), see
    /// [`take_awaited`](crate::store::Store::take_awaited). Default false.
    pub flush_sync: bool,
    /// Whether a put counts only when other stores have it too (`brokerRole` is `SYNC_MASTER`). Default false.
    pub replicates_sync: bool,
    /// What is kept how long.
    pub retention: Retention,
    /// The delays of the levels, from level 1 on (`messageDelayLevel`). Default Apache's 18 levels.
    pub delay_levels: DelayLevels,
    /// Messages for any time. Default none: what they say of a time means nothing, as before 5.0.
    pub timers: Option<TimerConfig>,
    /// Where a read beyond the end of a queue whose smallest offset is 0 is sent on to: its beginning, as 4.4 does,
    /// or its end, as later versions do. Default false, the end.
    pub overflow_restarts_at_zero: bool,
}

impl StoreConfig {
    /// The defaults for a store in memory.
    pub fn memory() -> Self {
        StoreConfig {
            commit_log_file_size: 64 << 20,
            index_slots: 100_000,
            index_entries: 2_000_000,
            retention: Retention { reserved_hours: None, ..Retention::default() },
            ..Self::disk()
        }
    }

    /// The defaults for a store in a directory.
    pub fn disk() -> Self {
        StoreConfig {
            commit_log_file_size: 1 << 30,
            consume_queue_file_entries: 300_000,
            queue_extensions: false,
            queue_extension_file_size: 48 << 20,
            index_slots: 5_000_000,
            index_entries: 20_000_000,
            max_message_size: 4 << 20,
            max_transfer_count: 32,
            max_transfer_bytes: 256 << 10,
            flush_interval_ms: 500,
            flush_least_pages: 4,
            flush_sync: false,
            replicates_sync: false,
            retention: Retention::default(),
            delay_levels: DelayLevels::default(),
            timers: None,
            overflow_restarts_at_zero: false,
        }
    }
}
