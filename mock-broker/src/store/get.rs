//! Reads messages of a queue.

use bytes::Bytes;
use rocketmq_wire::message::RecordView;

use crate::store::Store;
use crate::store::commit_log::CommitLog;
use crate::store::consume_queue::{ConsumeQueue, ENTRY_SIZE};
use crate::store::queue_extension;

/// How a read went; the names are those of Apache's `GetMessageStatus`, which clients get as the answer's remark.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum GetStatus {
    /// Messages were found.
    Found,
    /// Messages were there, but the filter took none.
    NoMatchedMessage,
    /// The messages are gone from the log.
    MessageWasRemoving,
    /// The queue could not be read at this offset.
    OffsetFoundNull,
    /// The offset is beyond the end of the queue.
    OffsetOverflowBadly,
    /// The offset is the end of the queue.
    OffsetOverflowOne,
    /// The offset is before the beginning of the queue.
    OffsetTooSmall,
    /// The queue has no message.
    NoMessageInQueue,
}

impl GetStatus {
    /// Returns Apache's name.
    pub const fn name(self) -> &'static str {
        match self {
            GetStatus::Found => "FOUND",
            GetStatus::NoMatchedMessage => "NO_MATCHED_MESSAGE",
            GetStatus::MessageWasRemoving => "MESSAGE_WAS_REMOVING",
            GetStatus::OffsetFoundNull => "OFFSET_FOUND_NULL",
            GetStatus::OffsetOverflowBadly => "OFFSET_OVERFLOW_BADLY",
            GetStatus::OffsetOverflowOne => "OFFSET_OVERFLOW_ONE",
            GetStatus::OffsetTooSmall => "OFFSET_TOO_SMALL",
            GetStatus::NoMessageInQueue => "NO_MESSAGE_IN_QUEUE",
        }
    }
}

/// Decides which messages a read returns.
///
/// Implemented for closures over the tags code.
pub trait MessageFilter {
    /// Decides by what the queue's entry says, before the message is looked at.
    fn matches_tags_code(&self, tags_code: i64) -> bool;

    /// Decides by the message itself. By default every message passes.
    fn matches_record(&self, record: &[u8]) -> bool {
        let _ = record;
        true
    }
}

impl<F: Fn(i64) -> bool> MessageFilter for F {
    fn matches_tags_code(&self, tags_code: i64) -> bool {
        self(tags_code)
    }
}

/// What a read found.
#[derive(Debug, Clone)]
pub struct GetOutcome {
    /// How the read went.
    pub status: GetStatus,
    /// The offset to read from next.
    pub next_begin_offset: u64,
    /// The queue's smallest offset.
    pub min_offset: u64,
    /// The offset after the queue's newest message.
    pub max_offset: u64,
    /// The records as stored, slices of the log that were not copied. They keep their part of the log in memory.
    pub messages: Vec<Bytes>,
    /// Size of all records together in bytes.
    pub size: usize,
}

impl Store {
    /// Reads messages of a queue from `offset` on: at most `max_count`, and at most `max_bytes` unless the first is
    /// larger. Limits of the configuration hold as well, and at least 800 entries are looked at for the filter.
    pub fn get(
        &self,
        topic: &str,
        queue_id: i32,
        offset: u64,
        max_count: usize,
        max_bytes: usize,
        filter: &impl MessageFilter,
    ) -> GetOutcome {
        let Some(queue) = self.queues.queue(topic, queue_id) else {
            return empty(GetStatus::NoMessageInQueue, 0, 0, 0);
        };
        let (min, max) = (queue.min_offset(), queue.max_offset());
        if max == 0 {
            empty(GetStatus::NoMessageInQueue, 0, min, max)
        } else if offset < min {
            empty(GetStatus::OffsetTooSmall, min, min, max)
        } else if offset == max {
            empty(GetStatus::OffsetOverflowOne, offset, min, max)
        } else if offset > max {
            let restart = min == 0 && self.config.overflow_restarts_at_zero;
            empty(GetStatus::OffsetOverflowBadly, if restart { 0 } else { max }, min, max)
        } else {
            self.scan(queue, offset, max_count, max_bytes, filter)
        }
    }

    fn scan(
        &self,
        queue: &ConsumeQueue,
        offset: u64,
        max_count: usize,
        max_bytes: usize,
        filter: &impl MessageFilter,
    ) -> GetOutcome {
        let (min, max) = (queue.min_offset(), queue.max_offset());
        let mut outcome = empty(GetStatus::NoMatchedMessage, offset, min, max);
        // Apache looks at 16,000 bytes of the queue, or 20 for each message asked for.
        let look_at = max_count.max(16_000 / ENTRY_SIZE) as u64;
        let max_count = max_count.min(self.config.max_transfer_count);
        let max_bytes = max_bytes.min(self.config.max_transfer_bytes);
        let mut slicer = Slicer { log: &self.log, start: 0, shared: Bytes::new() };
        let mut entries = queue.entries(offset).peekable();
        if entries.peek().is_none() {
            outcome.status = GetStatus::OffsetFoundNull;
            outcome.next_begin_offset = queue.next_file(offset);
            return outcome;
        }
        for (queue_offset, entry) in entries {
            let size = entry.size as usize;
            let found = !outcome.messages.is_empty();
            if found && (outcome.messages.len() >= max_count || outcome.size + size > max_bytes) {
                break;
            }
            if queue_offset - offset > look_at {
                break;
            }
            outcome.next_begin_offset = queue_offset + 1;
            let is_extended = queue_extension::is_position(entry.tags_code);
            if entry.is_blank() || !(is_extended || filter.matches_tags_code(entry.tags_code)) {
                continue;
            }
            let Some(record) = slicer.record(entry.physical_offset, size) else {
                if !found {
                    outcome.status = GetStatus::MessageWasRemoving;
                }
                continue;
            };
            if is_extended {
                // The unit would say the same.
                let tags_code = RecordView::parse(&record).map_or(0, |record| record.tags_code());
                if !filter.matches_tags_code(tags_code) {
                    continue;
                }
            }
            if filter.matches_record(&record) {
                outcome.status = GetStatus::Found;
                outcome.size += size;
                outcome.messages.push(record);
            }
        }
        outcome
    }

    /// Returns the record at a physical offset, a slice of the log; none if there is no record there.
    pub fn message_at(&self, physical_offset: u64) -> Option<Bytes> {
        let size = self.log.read(physical_offset, 4)?.first_chunk::<4>()?;
        let size = usize::try_from(i32::from_be_bytes(*size)).ok()?;
        let bytes = self.log.read(physical_offset, size)?;
        let record = rocketmq_wire::message::RecordView::parse(bytes).ok()?;
        if record.physical_offset() != i64::try_from(physical_offset).ok()? {
            return None;
        }
        self.log.bytes(physical_offset, size)
    }
}

fn empty(status: GetStatus, next_begin_offset: u64, min_offset: u64, max_offset: u64) -> GetOutcome {
    GetOutcome { status, next_begin_offset, min_offset, max_offset, messages: Vec::new(), size: 0 }
}

/// Cuts the records of one read from the log: one shared range for each log file, not one for each record.
struct Slicer<'a> {
    log: &'a CommitLog,
    /// Physical offset of the first byte of `shared`.
    start: u64,
    /// From a record to the end of what its file holds.
    shared: Bytes,
}

impl Slicer<'_> {
    fn record(&mut self, offset: u64, size: usize) -> Option<Bytes> {
        if let Some(record) = self.cut(offset, size) {
            return Some(record);
        }
        self.shared = self.log.read_raw(offset, usize::MAX)?;
        self.start = offset;
        self.cut(offset, size)
    }

    fn cut(&self, offset: u64, size: usize) -> Option<Bytes> {
        let at = usize::try_from(offset.checked_sub(self.start)?).ok()?;
        let end = at.checked_add(size)?;
        (end <= self.shared.len()).then(|| self.shared.slice(at..end))
    }
}
