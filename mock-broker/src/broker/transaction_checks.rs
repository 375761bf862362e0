//! The check loop: asks producers for the outcome of half messages that nobody decided.
//!
//! How far half messages and op records are done is kept as the consumer offsets of a group of the system. Half
//! messages are walked in order; one that is checked is appended again, so that the walk can go on behind it.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use bytes::Bytes;
use rocketmq_wire::message::{MagicVersion, OffsetMessageId, Record, RecordView, names, properties};
use rocketmq_wire::model::perm;
use rocketmq_wire::request::reply::CheckTransactionStateRequest;

use super::Broker;
use super::stored_properties::replace;
use super::transactions::{QUEUE, prepared_offset};
use crate::clock::Now;
use crate::store::{PutError, PutMessage};

/// The group whose offsets say how far the checks are.
const GROUP: &str = "CID_RMQ_SYS_TRANS";

/// How many messages are read at once.
const READ: usize = 32;

/// An op record and the half messages that it says are decided.
pub(super) struct Op {
    offset: u64,
    pub(super) half_offsets: Vec<u64>,
}

/// What the walk does after a half message.
enum Walk {
    GoOn,
    /// The message and those behind it wait for the next run.
    Stop,
}

impl Broker {
    /// Whether half messages are there that the last run did not pass.
    pub(super) fn has_half_messages(&self) -> bool {
        self.done(names::HALF_TOPIC) < self.store.max_offset(names::HALF_TOPIC, QUEUE)
    }

    /// Up to where a queue of the transactions is done.
    fn done(&self, topic: &str) -> u64 {
        let saved = self.offsets.get(GROUP, topic, QUEUE).and_then(|offset| u64::try_from(offset).ok());
        saved.unwrap_or(0).clamp(self.store.min_offset(topic, QUEUE), self.store.max_offset(topic, QUEUE))
    }

    /// Asks for the outcome of half messages that are old enough, and drops those that were asked for too often.
    pub(super) fn check_transactions(&mut self, now: Now) {
        let ops = self.read_ops();
        let mut decided: HashSet<u64> = ops.iter().flat_map(|op| op.half_offsets.iter().copied()).collect();
        let (begin, end) = (self.done(names::HALF_TOPIC), self.store.max_offset(names::HALF_TOPIC, QUEUE));
        if !std::mem::replace(&mut self.knows_half_copies, true) {
            self.pass_over_copies(begin, end, &mut decided);
        }
        // Copies made during immunity are decided by the offset of the first.
        let mut oldest_needed = u64::MAX;
        let mut next = begin;
        'run: while next < end {
            let before = next;
            let found = self.store.get(names::HALF_TOPIC, QUEUE, next, READ, usize::MAX, &|_| true);
            for bytes in found.messages {
                let Ok(half) = RecordView::parse(&bytes) else { continue };
                let offset = u64::try_from(half.queue_offset()).unwrap_or(next);
                let first = prepared_offset(&half);
                if !decided.contains(&offset) && !first.is_some_and(|first| decided.contains(&first)) {
                    match self.check_half(now, &half) {
                        Ok(Walk::GoOn) => oldest_needed = oldest_needed.min(first.unwrap_or(u64::MAX)),
                        Ok(Walk::Stop) => break 'run,
                        Err(error) => {
                            tracing::error!(%error, offset, "a half message cannot be stored again yet");
                            break 'run;
                        }
                    }
                }
                next = offset + 1;
            }
            if found.next_begin_offset <= next && next == before {
                break;
            }
            // Messages that are gone from the log leave a gap.
            next = next.max(found.next_begin_offset);
        }
        self.offsets.set(GROUP, names::HALF_TOPIC, QUEUE, next as i64);
        let needed = oldest_needed.min(next);
        let done = ops.iter().find(|op| op.half_offsets.iter().any(|offset| *offset >= needed));
        let done = done.map_or_else(|| self.store.max_offset(names::HALF_OP_TOPIC, QUEUE), |op| op.offset);
        self.offsets.set(GROUP, names::HALF_OP_TOPIC, QUEUE, done as i64);
        if next != begin {
            // At once: after a kill every copy that was passed would be asked for again.
            self.offsets.save();
        }
        self.settle(now);
    }

    /// Enters those half messages as decided of which a later copy is there, or another copy that is decided. They lie
    /// together when a broker was killed that had not saved how far it was, and each would be asked for.
    fn pass_over_copies(&self, begin: u64, end: u64, decided: &mut HashSet<u64>) {
        let mut copies = HashMap::<String, Vec<u64>>::new();
        let mut next = begin;
        while next < end {
            let found = self.store.get(names::HALF_TOPIC, QUEUE, next, READ, usize::MAX, &|_| true);
            for bytes in &found.messages {
                let Ok(half) = RecordView::parse(bytes) else { continue };
                let (Some(id), Ok(offset)) = (half.property(properties::UNIQUE_ID), u64::try_from(half.queue_offset()))
                else {
                    continue;
                };
                copies.entry(id.to_owned()).or_default().push(offset);
            }
            if found.next_begin_offset <= next {
                break;
            }
            next = found.next_begin_offset;
        }
        for mut offsets in copies.into_values().filter(|offsets| offsets.len() > 1) {
            if !offsets.iter().any(|offset| decided.contains(offset)) {
                offsets.pop();
            }
            decided.extend(offsets);
        }
    }

    /// The op records that may still be of use. A body lists offsets, one or, since 5.1, several.
    pub(super) fn read_ops(&self) -> Vec<Op> {
        let (mut next, end) = (self.done(names::HALF_OP_TOPIC), self.store.max_offset(names::HALF_OP_TOPIC, QUEUE));
        let mut ops = Vec::new();
        while next < end {
            let found = self.store.get(names::HALF_OP_TOPIC, QUEUE, next, READ, usize::MAX, &|_| true);
            for bytes in &found.messages {
                let Ok(record) = RecordView::parse(bytes) else { continue };
                let Ok(offset) = u64::try_from(record.queue_offset()) else { continue };
                let body = String::from_utf8_lossy(record.body());
                let half_offsets = body.split(',').filter_map(|offset| offset.trim().parse().ok()).collect();
                ops.push(Op { offset, half_offsets });
            }
            if found.next_begin_offset <= next {
                break;
            }
            next = found.next_begin_offset;
        }
        ops
    }

    fn check_half(&mut self, now: Now, half: &RecordView<'_>) -> Result<Walk, PutError> {
        let checks = half.property(properties::TRANSACTION_CHECK_TIMES).and_then(|text| text.parse::<u32>().ok());
        let checks = checks.unwrap_or(0);
        let age = now.message_ms.saturating_sub(self.first_stored(half));
        if checks >= self.settings.transaction_check_max || age > self.settings.transaction_reserved_ms() {
            self.discard(now, half)?;
            return Ok(Walk::GoOn);
        }
        if half.store_timestamp() >= now.message_ms {
            return Ok(Walk::Stop);
        }
        // What was checked once is beyond its time, whatever the clocks of clients say.
        if checks == 0 && age <= self.time_before_check(half) {
            if half.property(properties::CHECK_IMMUNITY_TIME_IN_SECONDS).is_none() {
                return Ok(Walk::Stop);
            }
            let first = prepared_offset(half).map_or(half.queue_offset(), |first| first as i64);
            let change = (properties::TRANSACTION_PREPARED_QUEUE_OFFSET, Cow::Owned(first.to_string()));
            self.append_half(now, half, change)?;
            return Ok(Walk::GoOn);
        }
        self.ask_for_outcome(now, half, checks + 1)?;
        Ok(Walk::GoOn)
    }

    /// Stores a half message once more at the end of its topic; returns where.
    fn append_half(
        &mut self,
        now: Now,
        half: &RecordView<'_>,
        change: (&str, Cow<'_, str>),
    ) -> Result<(crate::store::PutOutcome, Vec<u8>), PutError> {
        let properties = replace(half.properties().as_bytes(), &[change]);
        let message = PutMessage { properties: &properties, ..self.copy_of(half) };
        let outcome = self.store.put(now.message_ms, &message)?;
        Ok((outcome, properties))
    }

    fn discard(&mut self, now: Now, half: &RecordView<'_>) -> Result<(), PutError> {
        let topic = names::TRANSACTION_CHECK_MAX_TIME_TOPIC;
        tracing::warn!(offset = half.queue_offset(), "nobody decided a half message; it is not asked for any more");
        if !self.compatibility.keeps_discarded_half_messages() {
            return Ok(());
        }
        self.topics.get_or_create(topic, 1, perm::READ | perm::WRITE, now.message_ms);
        let message = PutMessage { topic, queue_id: 0, ..self.copy_of(half) };
        self.store.put(now.message_ms, &message).map(drop)
    }

    /// Appends the half message again, so that the answer has something to refer to, and asks a producer of its group.
    fn ask_for_outcome(&mut self, now: Now, half: &RecordView<'_>, checks: u32) -> Result<(), PutError> {
        let change = (properties::TRANSACTION_CHECK_TIMES, Cow::Owned(checks.to_string()));
        let (place, stored_properties) = self.append_half(now, half, change)?;
        let group = half.property(properties::PRODUCER_GROUP).unwrap_or_default();
        self.next_checked_producer = self.next_checked_producer.wrapping_add(1);
        let Some((connection, serialize_type)) = self.clients.producer_of(group, self.next_checked_producer) else {
            tracing::warn!(group, "nobody of the producer group is online to be asked for a transaction's outcome");
            return Ok(());
        };
        let id = half.property(properties::UNIQUE_ID);
        let of_5 = self.compatibility.checks_name_broker();
        let offset_id =
            OffsetMessageId { store_host: half.store_host(), physical_offset: place.physical_offset as i64 };
        let request = CheckTransactionStateRequest {
            topic: of_5.then_some(names::HALF_TOPIC.into()),
            tran_state_table_offset: place.queue_offset as i64,
            commit_log_offset: place.physical_offset as i64,
            message_id: id.map(|id| id.to_owned().into()),
            transaction_id: id.map(|id| id.to_owned().into()),
            offset_message_id: Some(offset_id.to_string().into()),
            broker_name: of_5.then(|| self.settings.broker_name.clone().into()),
        };
        let body = encoded(half, &place, &stored_properties);
        self.push(connection, serialize_type, &request, &body);
        Ok(())
    }
}

/// The half message as its producer sent it, at its new place.
fn encoded(half: &RecordView<'_>, place: &crate::store::PutOutcome, stored_properties: &[u8]) -> Bytes {
    let topic = half.property(properties::REAL_TOPIC).unwrap_or_default();
    let queue_id = half.property(properties::REAL_QUEUE_ID).and_then(|id| id.parse().ok()).unwrap_or(0);
    let record = Record {
        version: MagicVersion::for_topic_length(topic.len()),
        queue_id,
        flag: half.flag(),
        queue_offset: place.queue_offset as i64,
        physical_offset: place.physical_offset as i64,
        sys_flag: half.sys_flag(),
        born_timestamp: half.born_timestamp(),
        born_host: half.born_host(),
        store_timestamp: half.store_timestamp(),
        store_host: half.store_host(),
        reconsume_times: half.reconsume_times(),
        prepared_transaction_offset: half.prepared_transaction_offset(),
        body: half.body(),
        topic,
        properties: stored_properties,
    };
    // It was stored a moment ago with a longer topic or one as long; if not, the question goes without it.
    let Ok(length) = record.encoded_len() else { return Bytes::new() };
    let mut bytes = vec![0; length];
    if record.encode(&mut bytes).is_ok() { bytes.into() } else { Bytes::new() }
}
