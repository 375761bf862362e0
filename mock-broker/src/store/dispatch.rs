//! Dispatch (reput): carries what is new in the commit log into the consume queues.

use rocketmq_wire::message::properties;
use rocketmq_wire::message::stored::{LogEntry, RecordView};
use rocketmq_wire::message::{names, sys_flag};

use crate::store::commit_log::CommitLog;
use crate::store::consume_queue::Entry;
use crate::store::error::StoreError;
use crate::store::queues::{Queues, is_directory_name};
use crate::store::schedule::DelayLevels;

/// A message that can be consumed from now on.
#[derive(Debug, Clone, Copy)]
pub struct Arrival<'a> {
    /// The topic.
    pub topic: &'a str,
    /// The queue.
    pub queue_id: i32,
    /// The message's position in the queue.
    pub queue_offset: u64,
    /// What the queue's entry says for tag filters, see [`RecordView::tags_code`].
    pub tags_code: i64,
    /// The message as stored.
    pub record: RecordView<'a>,
}

/// How far the log has been carried into the queues.
#[derive(Debug)]
pub(super) struct Dispatch {
    /// Physical offset of the first byte that is not.
    position: u64,
    /// Store time of the last record that is, in milliseconds since 1970; 0 without one.
    last_time: i64,
}

impl Dispatch {
    /// Goes on at `position`.
    pub(super) fn from(position: u64) -> Self {
        Dispatch { position, last_time: 0 }
    }

    /// Returns the store time of the record dispatched last, in milliseconds since 1970; 0 without one.
    pub(super) fn last_time(&self) -> i64 {
        self.last_time
    }

    /// Returns the physical offset up to which the log is dispatched.
    pub(super) fn position(&self) -> u64 {
        self.position
    }

    /// Enters every whole record of the log that is new into its queue, and tells `on_arrival` about each.
    ///
    /// Records that the queue has already are passed over in silence, so that any position may be started from.
    ///
    /// # Errors
    ///
    /// When a queue cannot be extended or the log is damaged; the record is tried again by the next call.
    pub(super) fn run(
        &mut self,
        log: &CommitLog,
        queues: &mut Queues,
        levels: &DelayLevels,
        on_arrival: &mut dyn FnMut(Arrival<'_>),
    ) -> Result<(), StoreError> {
        while self.position < log.max_offset() {
            let Some(mut rest) = log.read_to_end(self.position) else {
                let position = self.position;
                return Err(StoreError::new(format!("the commit log has nothing at offset {position}")));
            };
            let next_file = log.next_file(self.position);
            while !rest.is_empty() {
                if is_cut_short(rest) {
                    // Replicated bytes may end within a record; only the last file can.
                    return Ok(());
                }
                let size = match LogEntry::parse(rest) {
                    Ok(LogEntry::Record(record)) => {
                        enter(record, queues, levels, on_arrival)?;
                        self.last_time = record.store_timestamp();
                        record.size()
                    }
                    Ok(LogEntry::EndOfFile { .. }) => {
                        self.position = next_file;
                        break;
                    }
                    Ok(LogEntry::Unwritten) => return Err(self.damaged("nothing was written there")),
                    Err(error) => return Err(self.damaged(error)),
                };
                self.position += size as u64;
                rest = &rest[size..];
            }
        }
        Ok(())
    }

    fn damaged(&self, why: impl std::fmt::Display) -> StoreError {
        StoreError::new(format!("the commit log is damaged at offset {}: {why}", self.position))
    }
}

/// Returns whether an entry begins here that is longer than the bytes.
fn is_cut_short(bytes: &[u8]) -> bool {
    match bytes.first_chunk::<4>() {
        Some(size) => usize::try_from(i32::from_be_bytes(*size)).is_ok_and(|size| size > bytes.len()),
        None => true,
    }
}

fn enter(
    record: RecordView<'_>,
    queues: &mut Queues,
    levels: &DelayLevels,
    on_arrival: &mut dyn FnMut(Arrival<'_>),
) -> Result<(), StoreError> {
    // Half messages and rollbacks in their own topic are not for consumers; commits are.
    let transaction = sys_flag::transaction(record.sys_flag());
    if transaction == sys_flag::TRANSACTION_PREPARED || transaction == sys_flag::TRANSACTION_ROLLBACK {
        return Ok(());
    }
    let (topic, queue_id) = (record.topic(), record.queue_id());
    let (Ok(queue_offset), Ok(physical_offset), true) = (
        u64::try_from(record.queue_offset()),
        u64::try_from(record.physical_offset()),
        queue_id >= 0 && is_directory_name(topic),
    ) else {
        let offset = record.physical_offset();
        tracing::error!(offset, topic, queue_id, "a record of the commit log can be in no queue; passed over");
        return Ok(());
    };
    let tags_code = tags_code(record, topic, levels);
    let entry = Entry { physical_offset, size: record.size() as u32, tags_code };
    if queues.queue_or_new(topic, queue_id).append(queue_offset, entry, record.store_timestamp())? {
        on_arrival(Arrival { topic, queue_id, queue_offset, tags_code, record });
    }
    Ok(())
}

/// What a queue's entry keeps of a record beside its place: the hash of the tag, or when a delayed message is due.
fn tags_code(record: RecordView<'_>, topic: &str, levels: &DelayLevels) -> i64 {
    if topic == names::SCHEDULE_TOPIC
        && let Some(level) = record.property(properties::DELAY)
    {
        return levels.due(level.parse().unwrap_or(0), record.store_timestamp());
    }
    record.tags_code()
}
