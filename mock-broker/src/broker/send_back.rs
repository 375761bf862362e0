//! Messages that could not be consumed: code 36 puts them into the retry topic of the group, later or as dead letters.

use std::borrow::Cow;

use rand::RngExt;
use rocketmq_wire::header::DecodeFields;
use rocketmq_wire::message::{RecordView, names, properties};
use rocketmq_wire::model::perm;
use rocketmq_wire::request::send::ConsumerSendMessageBackRequest;
use rocketmq_wire::{DecodeError, ResponseCode, Version};

use super::Broker;
use super::stored_properties::replace;
use crate::clock::Now;
use crate::reply::{Command, Outcome, Reply};
use crate::store::PutMessage;

/// The delay level of the first redelivery; each further one has one more.
const FIRST_RETRY_LEVEL: i32 = 3;

impl Broker {
    /// Stores a copy of a message for redelivery.
    pub(super) fn send_back<'a>(&mut self, now: Now, command: &'a Command<'a>) -> Result<Outcome<'a>, DecodeError> {
        let request = ConsumerSendMessageBackRequest::decode_fields(command.header.fields)?;
        let group: &str = &request.group;
        let Some(config) = self.groups.get_or_create(group, now.message_ms) else {
            let remark = format!("subscription group not exist, {group} {}", self.compatibility.further_details());
            return Ok(Reply::new(ResponseCode::SUBSCRIPTION_GROUP_NOT_EXIST).remark(remark).into());
        };
        let (retry_queues, group_limit) = (config.retry_queue_nums, config.retry_max_times);
        if self.settings.permission & perm::WRITE == 0 {
            let remark = format!("the broker[{}] sending message is forbidden", self.store_host.ip());
            return Ok(Reply::new(ResponseCode::NO_PERMISSION).remark(remark).into());
        }
        if retry_queues <= 0 {
            // As Apache: the message is dropped without a word.
            return Ok(Reply::success().into());
        }
        let retry_topic = names::retry_topic(group);
        let retry = self.topics.get_or_create(&retry_topic, retry_queues, perm::READ | perm::WRITE, now.message_ms);
        if retry.perm & perm::WRITE == 0 {
            let remark = format!("the topic[{retry_topic}] sending message is forbidden");
            return Ok(Reply::new(ResponseCode::NO_PERMISSION).remark(remark).into());
        }
        let found = u64::try_from(request.offset).ok().and_then(|offset| self.store.message_at(offset));
        let Some(bytes) = found else {
            let remark = format!("look message by offset failed, {}", request.offset);
            return Ok(Reply::new(ResponseCode::SYSTEM_ERROR).remark(remark).into());
        };
        let record = RecordView::parse(&bytes)?;

        let knows_limit = command.header.head.version >= Version::V3_4_9;
        let limit = match request.max_reconsume_times {
            Some(limit) if knows_limit => limit,
            None if knows_limit && self.compatibility.send_back_needs_limit() => {
                return Err(DecodeError::MissingField("maxReconsumeTimes"));
            }
            _ => group_limit,
        };
        let is_dead = record.reconsume_times() >= limit || request.delay_level < 0;
        let (topic, queue_id, level) = if is_dead {
            let topic = names::dead_letter_topic(group);
            self.topics.get_or_create(&topic, 1, self.compatibility.dead_letter_perm(), now.message_ms);
            (topic, 0, 0)
        } else {
            let level = match request.delay_level {
                0 => FIRST_RETRY_LEVEL.saturating_add(record.reconsume_times()),
                level => level,
            };
            (retry_topic, self.random.random_range(0..retry_queues), level)
        };
        let stored = retry_properties(&record, level);
        let message = PutMessage {
            topic: &topic,
            queue_id,
            flag: record.flag(),
            sys_flag: record.sys_flag(),
            born_timestamp: record.born_timestamp(),
            born_host: record.born_host(),
            store_host: self.store_host,
            reconsume_times: record.reconsume_times().saturating_add(1),
            prepared_transaction_offset: 0,
            body: record.body(),
            properties: &stored,
        };
        Ok(match self.store.put(now.message_ms, &message) {
            Ok(_) => Reply::success(),
            Err(error) => {
                tracing::warn!(%error, group, "message sent back not stored");
                Reply::new(ResponseCode::SYSTEM_ERROR).remark(error.to_string())
            }
        }
        .into())
    }
}

/// The properties of the copy: they name where the message was first, and the delay.
fn retry_properties(record: &RecordView<'_>, level: i32) -> Vec<u8> {
    let mut changes = vec![(properties::WAIT, Cow::Borrowed("false")), (properties::DELAY, level.to_string().into())];
    if record.property(properties::RETRY_TOPIC).is_none() {
        changes.push((properties::RETRY_TOPIC, record.topic().into()));
    }
    if record.property(properties::ORIGIN_MESSAGE_ID).is_none() {
        changes.push((properties::ORIGIN_MESSAGE_ID, record.offset_message_id().to_string().into()));
    }
    replace(record.properties().as_bytes(), &changes)
}
