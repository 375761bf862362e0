//! A consume queue: which records of the log belong to one queue of a topic, in order.
//!
//! An entry has 20 bytes: physical offset (8), size (4) and tags code (8), big-endian. Entry n of a queue is its
//! message with queue offset n. A queue whose beginning was lost starts with blank entries (offset 0, size
//! 0x7FFFFFFF, tags code 0) up to its first message.

use std::path::PathBuf;

use crate::store::error::StoreError;
use crate::store::file_sequence::FileSequence;
use crate::store::queue_extension::QueueExtension;

/// Size of an entry in bytes.
pub(super) const ENTRY_SIZE: usize = 20;

/// Where one message of a queue is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Entry {
    /// The record's physical offset.
    pub(super) physical_offset: u64,
    /// The record's size in bytes.
    pub(super) size: u32,
    /// Hash of the tag; in the queues of delayed messages the time of delivery in milliseconds since 1970.
    pub(super) tags_code: i64,
}

impl Entry {
    /// Stands for messages that were before the queue's first one.
    pub(super) const BLANK: Entry = Entry { physical_offset: 0, size: 0x7FFF_FFFF, tags_code: 0 };

    /// Returns whether the entry stands for no message.
    pub(super) fn is_blank(&self) -> bool {
        *self == Self::BLANK
    }

    pub(super) fn encode(&self) -> [u8; ENTRY_SIZE] {
        let mut bytes = [0; ENTRY_SIZE];
        bytes[..8].copy_from_slice(&self.physical_offset.to_be_bytes());
        bytes[8..12].copy_from_slice(&self.size.to_be_bytes());
        bytes[12..].copy_from_slice(&self.tags_code.to_be_bytes());
        bytes
    }

    pub(super) fn decode(bytes: &[u8; ENTRY_SIZE]) -> Entry {
        let [o0, o1, o2, o3, o4, o5, o6, o7, s0, s1, s2, s3, tags_code @ ..] = *bytes;
        Entry {
            physical_offset: u64::from_be_bytes([o0, o1, o2, o3, o4, o5, o6, o7]),
            size: u32::from_be_bytes([s0, s1, s2, s3]),
            tags_code: i64::from_be_bytes(tags_code),
        }
    }
}

/// One queue of a topic.
#[derive(Debug)]
pub(super) struct ConsumeQueue {
    files: FileSequence,
    /// Queue offset of the first entry that stands for a message.
    min_offset: u64,
    /// Queue offset of the next message to be put; ahead of the entries by what is not dispatched yet.
    next_offset: u64,
    extension: Option<Box<QueueExtension>>,
}

impl ConsumeQueue {
    /// A queue over `files`, whose first message is `min_offset`.
    pub(super) fn new(files: FileSequence, min_offset: u64) -> Self {
        let end = files.end() / ENTRY_SIZE as u64;
        ConsumeQueue { files, min_offset: min_offset.min(end), next_offset: end, extension: None }
    }

    /// Replaces the queue offset of the oldest message.
    pub(super) fn starting_at(self, min_offset: u64) -> Self {
        Self::new(self.files, min_offset)
    }

    /// Has further entries say more in an extension.
    pub(super) fn with_extension(self, extension: QueueExtension) -> Self {
        ConsumeQueue { extension: Some(Box::new(extension)), ..self }
    }

    /// Returns the queue offset of the oldest message.
    pub(super) fn min_offset(&self) -> u64 {
        self.min_offset
    }

    /// Returns the queue offset after the newest dispatched message.
    pub(super) fn max_offset(&self) -> u64 {
        self.files.end() / ENTRY_SIZE as u64
    }

    /// Returns the queue offset that the next message gets.
    pub(super) fn next_offset(&self) -> u64 {
        self.next_offset
    }

    /// Gives out the next `count` queue offsets.
    pub(super) fn advance(&mut self, count: u64) {
        self.next_offset += count;
    }

    /// Makes sure that `count` more messages can be entered without running out of space.
    ///
    /// # Errors
    ///
    /// As [`FileSequence::reserve`].
    pub(super) fn reserve(&mut self, count: usize) -> Result<(), StoreError> {
        let pending = usize::try_from(self.next_offset - self.max_offset()).unwrap_or(usize::MAX);
        self.files.reserve(pending.saturating_add(count).saturating_mul(ENTRY_SIZE))
    }

    /// Enters a message that was stored at `store_timestamp`, unless the queue has its offset already, and returns whether
    /// it did.
    ///
    /// The first message of an empty queue may have any offset; later ones must follow each other.
    ///
    /// # Errors
    ///
    /// When a file cannot be extended or created, when messages before this one are missing, or when the queue has
    /// another message at the offset.
    pub(super) fn append(
        &mut self,
        queue_offset: u64,
        mut entry: Entry,
        store_timestamp: i64,
    ) -> Result<bool, StoreError> {
        let expected = self.max_offset();
        if queue_offset < expected {
            let place = |entry: Entry| (entry.physical_offset, entry.size);
            return match self.entry(queue_offset).filter(|known| !known.is_blank()) {
                Some(known) if place(known) != place(entry) => {
                    let at = known.physical_offset;
                    Err(StoreError::new(format!("queue offset {queue_offset} is taken by the record at offset {at}")))
                }
                _ => Ok(false),
            };
        }
        if queue_offset > expected {
            self.start_at(queue_offset)?;
        }
        if let Some(extension) = &mut self.extension {
            match extension.append(entry.tags_code, store_timestamp) {
                Ok(position) => entry.tags_code = position,
                // The entry can do without.
                Err(error) => tracing::warn!(%error, "an entry of a consume queue is not extended"),
            }
        }
        self.push(entry)?;
        self.next_offset = self.next_offset.max(queue_offset + 1);
        Ok(true)
    }

    /// Lets an empty queue begin at `queue_offset`: its file is filled with blank entries up to there.
    fn start_at(&mut self, queue_offset: u64) -> Result<(), StoreError> {
        let at = queue_offset.checked_mul(ENTRY_SIZE as u64).filter(|&at| i64::try_from(at).is_ok());
        let (Some(at), true) = (at, self.files.is_empty()) else {
            let expected = self.max_offset();
            return Err(StoreError::new(format!("queue offset {queue_offset} does not follow {expected}")));
        };
        self.files.start_at(at);
        while self.files.end() < at {
            self.push(Entry::BLANK)?;
        }
        self.min_offset = queue_offset;
        Ok(())
    }

    fn push(&mut self, entry: Entry) -> Result<(), StoreError> {
        if self.files.remaining() == 0 {
            self.files.roll()?;
        }
        self.files.append(ENTRY_SIZE, |_, bytes| bytes.copy_from_slice(&entry.encode()))?;
        Ok(())
    }

    /// Forgets what was before the physical offset `log_start`, and returns the files in which nothing is left.
    pub(super) fn clean(&mut self, log_start: u64) -> Vec<PathBuf> {
        self.min_offset = self.first_from(self.min_offset, log_start);
        let entries = (self.files.file_size() / ENTRY_SIZE) as u64;
        let first = self.files.start() / ENTRY_SIZE as u64;
        let gone = (self.min_offset - self.min_offset.min(first)) / entries;
        let oldest = self.entry(self.min_offset);
        let mut removed = self.files.remove_first(usize::try_from(gone).unwrap_or(usize::MAX));
        if let (Some(extension), Some(oldest)) = (&mut self.extension, oldest) {
            removed.extend(extension.clean(oldest.tags_code));
        }
        removed
    }

    /// Returns the queue offset of the first message from `from` on that is at the physical offset `log_start` or
    /// later; entries go from the oldest record on.
    pub(super) fn first_from(&self, from: u64, log_start: u64) -> u64 {
        let gone = |entry: Entry| entry.is_blank() || entry.physical_offset < log_start;
        let (mut low, mut high) = (from, self.max_offset());
        if self.entry(low).is_none_or(|entry| !gone(entry)) {
            return low;
        }
        while low < high {
            let middle = low + (high - low) / 2;
            if self.entry(middle).is_none_or(gone) { low = middle + 1 } else { high = middle }
        }
        low
    }

    /// Returns the entry of a message; none if the queue does not have it.
    pub(super) fn entry(&self, queue_offset: u64) -> Option<Entry> {
        let bytes = self.files.read(queue_offset.checked_mul(ENTRY_SIZE as u64)?, ENTRY_SIZE)?;
        Some(Entry::decode(bytes.first_chunk()?))
    }

    /// Returns the queue offset of the first entry in the file after the one of `queue_offset`.
    pub(super) fn next_file(&self, queue_offset: u64) -> u64 {
        let entries = (self.files.file_size() / ENTRY_SIZE) as u64;
        queue_offset - queue_offset % entries + entries
    }

    /// Walks the entries from `queue_offset` on.
    pub(super) fn entries(&self, queue_offset: u64) -> Entries<'_> {
        Entries { queue: self, next: queue_offset, chunk: &[] }
    }
}

/// The entries of a queue in order, with their queue offsets.
#[derive(Debug)]
pub(super) struct Entries<'a> {
    queue: &'a ConsumeQueue,
    next: u64,
    /// What is left of the file being read.
    chunk: &'a [u8],
}

impl Iterator for Entries<'_> {
    type Item = (u64, Entry);

    fn next(&mut self) -> Option<Self::Item> {
        if self.chunk.is_empty() {
            self.chunk = self.queue.files.read_to_end(self.next.checked_mul(ENTRY_SIZE as u64)?)?;
        }
        let (entry, rest) = self.chunk.split_first_chunk::<ENTRY_SIZE>()?;
        self.chunk = rest;
        let offset = self.next;
        self.next += 1;
        Some((offset, Entry::decode(entry)))
    }
}
