//! Transactions: half messages on their way in, and their outcome (code 37).
//!
//! A half message waits in a topic of its own. Its commit stores it once more, in its real topic; commit and rollback
//! both write the half message's offset to the op topic, so that it is not checked any more. Both topics are ordinary
//! log data: what was decided survives the process, however it ends.

use rocketmq_wire::header::DecodeFields;
use rocketmq_wire::message::{OffsetMessageId, RecordView, names, properties, sys_flag};
use rocketmq_wire::request::reply::EndTransactionRequest;
use rocketmq_wire::{DecodeError, ResponseCode};

use super::Broker;
use super::stored_properties::{push, replace};
use crate::clock::Now;
use crate::compatibility::Compatibility;
use crate::reply::{Command, Outcome, Reply};
use crate::store::{PutError, PutMessage};

/// The queue of half messages, and that of their outcomes.
pub(super) const QUEUE: i32 = 0;

/// The tag of op records.
const OP_TAG: &str = "d";

/// Turns the properties of a message into those of a half message: they remember where it belongs. `wait` is the
/// client's, which a half message keeps in every version.
pub(super) fn enter_half(
    stored: &mut Vec<u8>,
    compatibility: Compatibility,
    (topic, queue_id): (&str, i32),
    unique_id: Option<&str>,
    wait: Option<&str>,
) {
    if stored.last().is_some_and(|last| *last != properties::PROPERTY_SEPARATOR as u8) {
        stored.push(properties::PROPERTY_SEPARATOR as u8);
    }
    if let Some(wait) = wait.filter(|_| compatibility.drops_wait()) {
        push(stored, properties::WAIT, wait);
    }
    if let Some(id) = unique_id.filter(|_| compatibility.names_transaction_of_half_message()) {
        push(stored, properties::TRANSACTION_ID, id);
    }
    push(stored, properties::REAL_TOPIC, topic);
    push(stored, properties::REAL_QUEUE_ID, &queue_id.to_string());
    if !compatibility.ends_properties_with_separator() {
        stored.pop();
    }
}

impl Broker {
    /// Commits a half message or rolls it back. Saying neither is not answered: the broker asks later.
    pub(super) fn end_transaction<'a>(
        &mut self,
        now: Now,
        command: &'a Command<'a>,
    ) -> Result<Outcome<'a>, DecodeError> {
        let request = EndTransactionRequest::decode_fields(command.header.fields)?;
        let commits = match request.commit_or_rollback {
            sys_flag::TRANSACTION_COMMIT => true,
            sys_flag::TRANSACTION_ROLLBACK => false,
            _ => return Ok(Outcome::Silent),
        };
        let refused = |remark: &'static str| Ok(Reply::new(ResponseCode::SYSTEM_ERROR).remark(remark).into());
        let found = u64::try_from(request.commit_log_offset).ok().and_then(|offset| self.store.message_at(offset));
        let Some(bytes) = found else { return refused("Find prepared transaction message failed") };
        let half = RecordView::parse(&bytes)?;
        if half.property(properties::PRODUCER_GROUP) != Some(&*request.producer_group) {
            return refused("The producer group wrong");
        }
        if half.queue_offset() != request.tran_state_table_offset {
            return refused("The transaction state table offset wrong");
        }
        if self.compatibility.refuses_outcome_after_immunity()
            && request.from_transaction_check != Some(true)
            && half.property(properties::CHECK_IMMUNITY_TIME_IN_SECONDS).is_some()
            && now.message_ms - self.first_stored(&half) > self.time_before_check(&half)
        {
            let reply = Reply::new(ResponseCode::ILLEGAL_OPERATION).remark("not set any response code");
            return Ok(reply.into());
        }
        let result = if commits { self.commit(now, &half) } else { Ok(()) };
        let result = result.and_then(|()| self.put_op(now, half.queue_offset()));
        Ok(match result {
            Ok(()) => Reply::success(),
            Err(PutError::Busy) => {
                Reply::new(ResponseCode::SYSTEM_ERROR).remark("OS page cache busy, please try another machine")
            }
            Err(error) => {
                let refusal = self.refused_by_store(&error);
                Reply::new(refusal.code).remark(refusal.remark)
            }
        }
        .into())
    }

    /// Stores a half message in its real topic. Its properties stay as they are, so that consumers find the
    /// transaction's id.
    fn commit(&mut self, now: Now, half: &RecordView<'_>) -> Result<(), PutError> {
        let queue_id = half.property(properties::REAL_QUEUE_ID).and_then(|id| id.parse().ok());
        let message = PutMessage {
            topic: half.property(properties::REAL_TOPIC).unwrap_or_default(),
            queue_id: queue_id.unwrap_or(-1),
            sys_flag: sys_flag::with_transaction(half.sys_flag(), sys_flag::TRANSACTION_COMMIT),
            prepared_transaction_offset: half.physical_offset(),
            ..self.copy_of(half)
        };
        self.store.put(now.message_ms, &message).map(drop)
    }

    /// Notes that a half message is decided. Written at once, so that no outcome is lost with the process.
    fn put_op(&mut self, now: Now, half_offset: i64) -> Result<(), PutError> {
        let separator = if self.compatibility.lists_offsets_in_ops() { "," } else { "" };
        let body = format!("{half_offset}{separator}");
        let mut properties = Vec::new();
        push(&mut properties, properties::WAIT, "true");
        push(&mut properties, properties::TAGS, OP_TAG);
        if !self.compatibility.ends_properties_with_separator() {
            properties.pop();
        }
        let message = PutMessage {
            topic: names::HALF_OP_TOPIC,
            queue_id: QUEUE,
            flag: 0,
            sys_flag: 0,
            born_timestamp: now.message_ms,
            born_host: self.store_host,
            store_host: self.store_host,
            reconsume_times: 0,
            prepared_transaction_offset: 0,
            body: body.as_bytes(),
            properties: &properties,
        };
        self.store.put(now.message_ms, &message).map(drop)
    }

    /// Has a half message checked again that was given up: a copy of it goes back to the half messages (code 323).
    pub(super) fn resume_checks<'a>(&mut self, now: Now, command: &'a Command<'a>) -> Result<Outcome<'a>, DecodeError> {
        let id = command.header.fields.get("msgId").and_then(|id| id.parse::<OffsetMessageId>().ok());
        let found = id.and_then(|id| self.store.message_at(u64::try_from(id.physical_offset).ok()?));
        let stored = found.as_deref().and_then(|bytes| RecordView::parse(bytes).ok()).map(|given_up| {
            let change = (properties::TRANSACTION_CHECK_TIMES, "0".into());
            let properties = replace(given_up.properties().as_bytes(), &[change]);
            let copy = self.copy_of(&given_up);
            let half = PutMessage { topic: names::HALF_TOPIC, queue_id: QUEUE, properties: &properties, ..copy };
            self.store.put(now.message_ms, &half)
        });
        Ok(match stored {
            Some(Ok(_)) => Reply::success(),
            _ => Reply::new(ResponseCode::SYSTEM_ERROR).remark("Put message back to RMQ_SYS_TRANS_HALF_TOPIC failed."),
        }
        .into())
    }

    /// A message like a stored one, to be stored again.
    pub(super) fn copy_of<'m>(&self, record: &RecordView<'m>) -> PutMessage<'m> {
        PutMessage {
            topic: record.topic(),
            queue_id: record.queue_id(),
            flag: record.flag(),
            sys_flag: record.sys_flag(),
            born_timestamp: record.born_timestamp(),
            born_host: record.born_host(),
            store_host: self.store_host,
            reconsume_times: record.reconsume_times(),
            prepared_transaction_offset: 0,
            body: record.body(),
            properties: record.properties().as_bytes(),
        }
    }

    /// When the first copy of a half message was stored; copies made during its immunity say where that one is.
    pub(super) fn first_stored(&self, half: &RecordView<'_>) -> i64 {
        let first = prepared_offset(half).and_then(|offset| self.half_message(offset));
        let first = first.as_deref().and_then(|bytes| RecordView::parse(bytes).ok());
        first.as_ref().unwrap_or(half).store_timestamp()
    }

    /// How long a half message is left alone, in milliseconds.
    pub(super) fn time_before_check(&self, half: &RecordView<'_>) -> i64 {
        let own = half.property(properties::CHECK_IMMUNITY_TIME_IN_SECONDS).and_then(|text| text.parse::<i64>().ok());
        match own {
            Some(seconds) if seconds != -1 => seconds.saturating_mul(1000),
            _ => self.settings.transaction_timeout_ms,
        }
    }

    fn half_message(&self, offset: u64) -> Option<bytes::Bytes> {
        self.store.get(names::HALF_TOPIC, QUEUE, offset, 1, usize::MAX, &|_| true).messages.into_iter().next()
    }
}

/// The offset of the first copy of a half message.
pub(super) fn prepared_offset(half: &RecordView<'_>) -> Option<u64> {
    half.property(properties::TRANSACTION_PREPARED_QUEUE_OFFSET)?.parse().ok()
}
