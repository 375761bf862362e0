//! Puts messages into the log.

use std::net::SocketAddr;

use rocketmq_wire::EncodeError;
use rocketmq_wire::message::batch::BatchElement;
use rocketmq_wire::message::properties::{self, Properties};
use rocketmq_wire::message::{MagicVersion, Record, names, sys_flag};

use crate::store::Store;
use crate::store::error::PutError;
use crate::store::queues::is_directory_name;
use crate::store::schedule;
use crate::store::timer;

/// How much larger than a body a whole record or batch may be, in bytes.
const OVERHEAD: usize = 64 << 10;

/// A message to be stored. The properties are final but for delay levels, which [`Store::put`] acts on.
#[derive(Debug, Clone, Copy)]
pub struct PutMessage<'a> {
    /// The topic.
    pub topic: &'a str,
    /// The queue, not negative.
    pub queue_id: i32,
    /// The user's flag.
    pub flag: i32,
    /// The system flag; its host bits are set by the store.
    pub sys_flag: i32,
    /// When the producer made the message, in milliseconds since 1970.
    pub born_timestamp: i64,
    /// The producer's address.
    pub born_host: SocketAddr,
    /// The broker's address.
    pub store_host: SocketAddr,
    /// How often the message was sent back.
    pub reconsume_times: i32,
    /// Physical offset of the half message that this one commits, else 0.
    pub prepared_transaction_offset: i64,
    /// The body as it is to be stored.
    pub body: &'a [u8],
    /// The property string.
    pub properties: &'a [u8],
}

/// Where a message went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PutOutcome {
    /// Its physical offset, which with the store host makes its offset message id.
    pub physical_offset: u64,
    /// Its position in the queue it was put into; a delayed message is in the queue of its level.
    pub queue_offset: u64,
    /// The record's size in bytes.
    pub size: usize,
    /// When it was stored, in milliseconds since 1970.
    pub store_timestamp: i64,
    /// The slot of time that it waits in, in milliseconds since 1970, if it is for a time.
    pub timer_out_ms: Option<i64>,
}

/// Where the messages of a batch went. They are neighbours in the log and in the queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BatchOutcome {
    /// The physical offset of each, in order.
    pub physical_offsets: Vec<u64>,
    /// Queue offset of the first; the others follow.
    pub queue_offset: u64,
    /// Size of all records together in bytes.
    pub size: usize,
    /// When they were stored, in milliseconds since 1970.
    pub store_timestamp: i64,
}

impl Store {
    /// Stores a message at time `now` (milliseconds since 1970) and says where. It can be read after the next
    /// [`dispatch`](Store::dispatch).
    ///
    /// A message with property `DELAY` above 0 that is no undecided transaction goes to the queue of its level
    /// instead, its topic and queue kept in `REAL_TOPIC` and `REAL_QID`, until
    /// [`deliver_scheduled`](Store::deliver_scheduled) brings it back. One that names a time
    /// ([`StoreConfig::timers`](crate::store::StoreConfig::timers)) goes to the timer topic until
    /// [`deliver_timed`](Store::deliver_timed) brings it.
    ///
    /// # Errors
    ///
    /// [`PutError`]; the message is not stored then, and no queue offset is used up.
    pub fn put(&mut self, now: i64, message: &PutMessage<'_>) -> Result<PutOutcome, PutError> {
        // Most messages are not delayed, which this finds out many bytes at a time: the names of all delays have it.
        if memchr::memmem::find(message.properties, b"DEL").is_some() {
            return self.put_delayed(now, message);
        }
        self.append(now, message)
    }

    /// Stores a message that may name a delay.
    fn put_delayed(&mut self, now: i64, message: &PutMessage<'_>) -> Result<PutOutcome, PutError> {
        let transaction = sys_flag::transaction(message.sys_flag);
        if transaction == sys_flag::TRANSACTION_PREPARED || transaction == sys_flag::TRANSACTION_ROLLBACK {
            return self.append(now, message);
        }
        if let Some(level) = self.delay_level(message) {
            // The message must fit where it goes in the end.
            check_destination(message)?;
            let properties = schedule::enter(Properties::new(message.properties), message, level);
            let scheduled =
                PutMessage { topic: names::SCHEDULE_TOPIC, queue_id: level - 1, properties: &properties, ..*message };
            return self.append(now, &scheduled);
        }
        if let Some(timers) = &self.timers
            && let Some(timed) = timer::enter(timers.config(), now, message)?
        {
            check_destination(message)?;
            let waiting =
                PutMessage { topic: names::TIMER_TOPIC, queue_id: 0, properties: &timed.properties, ..*message };
            let outcome = self.append(now, &waiting)?;
            return Ok(PutOutcome { timer_out_ms: Some(timed.out_ms), ..outcome });
        }
        self.append(now, message)
    }

    /// Returns the level that delays a message, at most the highest there is.
    fn delay_level(&self, message: &PutMessage<'_>) -> Option<i32> {
        let level: i32 = Properties::new(message.properties).value(properties::DELAY)?.parse().ok()?;
        (level > 0).then(|| level.min(self.schedule.levels().highest()))
    }

    /// Stores a message as it is, whatever delay it names.
    pub(super) fn append(&mut self, now: i64, message: &PutMessage<'_>) -> Result<PutOutcome, PutError> {
        self.cleaning.check()?;
        check_destination(message)?;
        if message.body.len() > self.config.max_message_size {
            let (length, limit) = (message.body.len(), self.config.max_message_size);
            return Err(PutError::Illegal { what: "the body", length, limit });
        }
        let mut record = record(now, message);
        let size = record.encoded_len().map_err(illegal)?;
        self.check_size("the record", size)?;

        // Half messages and rollbacks are in no queue.
        let transaction = sys_flag::transaction(message.sys_flag);
        let queued = transaction != sys_flag::TRANSACTION_PREPARED && transaction != sys_flag::TRANSACTION_ROLLBACK;
        let mut queue = queued.then(|| self.queues.queue_or_new(message.topic, message.queue_id));
        let mut queue_offset = 0;
        if let Some(queue) = &mut queue {
            // First, so that what is in the log can always be dispatched.
            queue.reserve(1)?;
            queue_offset = queue.next_offset();
            record.queue_offset = queue_offset as i64;
        }
        let physical_offset = self.log.append(size, |offset, bytes| {
            record.physical_offset = offset as i64;
            encode(&record, bytes);
        })?;
        if let Some(queue) = queue {
            queue.advance(1);
        }
        self.note_awaited(message.properties);
        Ok(PutOutcome { physical_offset, queue_offset, size, store_timestamp: now, timer_out_ms: None })
    }

    /// Stores the messages of a batch, all or none, as neighbours in one queue. `message` gives what they share; its
    /// body and properties are not used.
    ///
    /// # Errors
    ///
    /// [`PutError`]; [`PutError::IllegalBatch`] if an element names a delay level or the batch is part of a
    /// transaction, neither of which can be done for it.
    pub fn put_batch<'a>(
        &mut self,
        now: i64,
        message: &PutMessage<'_>,
        elements: impl Iterator<Item = BatchElement<'a>> + Clone,
    ) -> Result<BatchOutcome, PutError> {
        self.cleaning.check()?;
        check_destination(message)?;
        if sys_flag::transaction(message.sys_flag) != sys_flag::TRANSACTION_NONE {
            return Err(PutError::IllegalBatch("a batch cannot be part of a transaction"));
        }
        let shared = record(now, message);
        let (mut count, mut size) = (0, 0);
        let mut first_properties = [].as_slice();
        for element in elements.clone() {
            if count == 0 {
                first_properties = element.properties;
            }
            if delays(&element) {
                return Err(PutError::IllegalBatch("a batch cannot be delayed"));
            }
            size += element_record(&shared, &element).encoded_len().map_err(illegal)?;
            count += 1;
            self.check_size("the batch", size)?;
        }
        if count == 0 {
            return Err(PutError::IllegalBatch("it has no messages"));
        }

        let queue = self.queues.queue_or_new(message.topic, message.queue_id);
        queue.reserve(count)?;
        let queue_offset = queue.next_offset();
        let mut physical_offsets = Vec::with_capacity(count);
        self.log.append(size, |first, bytes| {
            let mut at = 0;
            for (index, element) in elements.enumerate() {
                let mut record = element_record(&shared, &element);
                record.queue_offset = (queue_offset + index as u64) as i64;
                record.physical_offset = (first + at as u64) as i64;
                physical_offsets.push(first + at as u64);
                at += encode(&record, &mut bytes[at..]);
            }
        })?;
        queue.advance(count as u64);
        self.note_awaited(first_properties);
        Ok(BatchOutcome { physical_offsets, queue_offset, size, store_timestamp: now })
    }

    /// Remembers where the message that was just put ends, if whoever put it waits until it is safe. A batch has one will,
    /// which the broker writes into each of its messages.
    fn note_awaited(&mut self, properties: &[u8]) {
        if self.config.flush_sync || self.config.replicates_sync {
            let waits = Properties::new(properties).value(properties::WAIT) != Some("false");
            self.awaited = waits.then(|| self.log.max_offset());
        }
    }

    fn check_size(&self, what: &'static str, length: usize) -> Result<(), PutError> {
        let limit = self.log.largest_record().min(self.config.max_message_size.saturating_add(OVERHEAD));
        if length > limit { Err(PutError::Illegal { what, length, limit }) } else { Ok(()) }
    }
}

fn check_destination(message: &PutMessage<'_>) -> Result<(), PutError> {
    if message.queue_id < 0 || !is_directory_name(message.topic) { Err(PutError::IllegalTopic) } else { Ok(()) }
}

fn record<'a>(now: i64, message: &PutMessage<'a>) -> Record<'a> {
    Record {
        version: MagicVersion::for_topic_length(message.topic.len()),
        queue_id: message.queue_id,
        flag: message.flag,
        queue_offset: 0,
        physical_offset: 0,
        sys_flag: message.sys_flag,
        born_timestamp: message.born_timestamp,
        born_host: message.born_host,
        store_timestamp: now,
        store_host: message.store_host,
        reconsume_times: message.reconsume_times,
        prepared_transaction_offset: message.prepared_transaction_offset,
        body: message.body,
        topic: message.topic,
        properties: message.properties,
    }
}

fn element_record<'a>(shared: &Record<'a>, element: &BatchElement<'a>) -> Record<'a> {
    Record { flag: element.flag, body: element.body, properties: element.properties, ..*shared }
}

fn delays(element: &BatchElement<'_>) -> bool {
    let level = element.properties().value(properties::DELAY).and_then(|level| level.parse::<i32>().ok());
    level.is_some_and(|level| level > 0)
}

/// Writes a record into room that was made for it.
fn encode(record: &Record<'_>, bytes: &mut [u8]) -> usize {
    // The room has the size that `encoded_len` gave for the same values.
    record.encode(bytes).expect("the record was measured before")
}

fn illegal(error: EncodeError) -> PutError {
    match error {
        EncodeError::TooLarge { what: "the properties", length, .. } => PutError::PropertiesTooLong { length },
        EncodeError::TooLarge { what, length, limit } => PutError::Illegal { what, length, limit },
        // Measuring finds nothing else.
        _ => PutError::Illegal { what: "the record", length: usize::MAX, limit: i32::MAX as usize },
    }
}
