//! Offsets of groups and of queues: codes 14, 15, 29, 30, 31 and 32.

use rocketmq_wire::header::DecodeFields;
use rocketmq_wire::request::offset::{
    EarliestStoreTimeRequest, MaxOffsetRequest, MinOffsetRequest, OffsetResponse, QueryConsumerOffsetRequest,
    SearchOffsetByTimestampRequest, StoreTimeResponse, UpdateConsumerOffsetRequest,
};
use rocketmq_wire::{DecodeError, ResponseCode};

use super::Broker;
use crate::reply::{Command, Outcome, Reply, ReplyFields};

impl Broker {
    /// Stores how far a group has consumed a queue.
    pub(super) fn update_consumer_offset<'a>(&mut self, command: &Command<'a>) -> Result<Outcome<'a>, DecodeError> {
        let request = UpdateConsumerOffsetRequest::decode_fields(command.header.fields)?;
        let (group, topic) = (&request.consumer_group, &request.topic);
        if self.compatibility.checks_before_storing_offset() {
            let refusal = if self.groups.get(group).is_none() {
                Some((ResponseCode::SUBSCRIPTION_GROUP_NOT_EXIST, format!("Group {group} not exist!")))
            } else if self.topics.get(topic).is_none() {
                Some((ResponseCode::TOPIC_NOT_EXIST, format!("Topic {topic} not exist!")))
            } else {
                None
            };
            if let Some((code, remark)) = refusal {
                return Ok(Reply::new(code).remark(remark).fields(ReplyFields::Empty).into());
            }
        }
        if self.offsets.is_reset(group, topic, request.queue_id) {
            // What a consumer has done before it was sent elsewhere no longer counts.
            let ignored = Reply::success().remark("Offset has been previously reset");
            return Ok(ignored.fields(ReplyFields::Empty).into());
        }
        self.offsets.set(group, topic, request.queue_id, request.commit_offset);
        Ok(Reply::success().fields(ReplyFields::Empty).into())
    }

    /// Says how far a group has consumed a queue. A new group is sent to the beginning of a queue that still has its
    /// first message, whatever it asks to begin with.
    pub(super) fn query_consumer_offset<'a>(&mut self, command: &Command<'a>) -> Result<Outcome<'a>, DecodeError> {
        let request = QueryConsumerOffsetRequest::decode_fields(command.header.fields)?;
        let (group, topic, queue_id) = (&request.consumer_group, &request.topic, request.queue_id);
        if let Some(offset) = self.offsets.get(group, topic, queue_id).filter(|offset| *offset >= 0) {
            return Ok(offset_reply(offset).into());
        }
        let wants_zero = request.set_zero_if_not_found != Some(false);
        if !wants_zero && self.compatibility.reads_set_zero_if_not_found() {
            return Ok(not_found("Not found, do not set to zero, maybe this group boot first").into());
        }
        let has_first = self.store.min_offset(topic, queue_id) == 0 && self.store.max_offset(topic, queue_id) > 0;
        let is_empty = self.store.max_offset(topic, queue_id) == 0;
        if has_first || (is_empty && self.compatibility.new_group_starts_empty_queue_at_zero()) {
            return Ok(offset_reply(0).into());
        }
        Ok(not_found("Not found, V3_0_6_SNAPSHOT maybe this group consumer boot first").into())
    }

    /// The offset after the newest message of a queue.
    pub(super) fn max_offset<'a>(&mut self, command: &Command<'a>) -> Result<Outcome<'a>, DecodeError> {
        let request = MaxOffsetRequest::decode_fields(command.header.fields)?;
        Ok(offset_reply(self.store.max_offset(&request.topic, request.queue_id) as i64).into())
    }

    /// The offset of the oldest message of a queue.
    pub(super) fn min_offset<'a>(&mut self, command: &Command<'a>) -> Result<Outcome<'a>, DecodeError> {
        let request = MinOffsetRequest::decode_fields(command.header.fields)?;
        let mut reply = offset_reply(self.store.min_offset(&request.topic, request.queue_id) as i64);
        reply.remark = self.compatibility.min_offset_remark().map(Into::into);
        Ok(reply.into())
    }

    /// The offset in a queue at a time.
    pub(super) fn search_offset<'a>(&mut self, command: &Command<'a>) -> Result<Outcome<'a>, DecodeError> {
        let request = SearchOffsetByTimestampRequest::decode_fields(command.header.fields)?;
        let upper = request.boundary_type.is_some_and(|boundary| boundary.eq_ignore_ascii_case("upper"));
        let boundary = self.compatibility.search_boundary(upper);
        let offset = self.store.offset_by_time(&request.topic, request.queue_id, request.timestamp, boundary);
        Ok(offset_reply(offset as i64).into())
    }

    /// When the oldest message of a queue was stored.
    pub(super) fn earliest_store_time<'a>(&mut self, command: &Command<'a>) -> Result<Outcome<'a>, DecodeError> {
        let request = EarliestStoreTimeRequest::decode_fields(command.header.fields)?;
        let timestamp = self.store.earliest_store_time(&request.topic, request.queue_id).unwrap_or(-1);
        Ok(Reply::success().fields(ReplyFields::StoreTime(StoreTimeResponse { timestamp })).into())
    }
}

fn offset_reply(offset: i64) -> Reply<'static> {
    Reply::success().fields(ReplyFields::Offset(OffsetResponse { offset }))
}

fn not_found(remark: &'static str) -> Reply<'static> {
    Reply::new(ResponseCode::QUERY_NOT_FOUND).remark(remark).fields(ReplyFields::Empty)
}
