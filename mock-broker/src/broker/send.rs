//! Sending messages: codes 10, 310 and 320.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use rand::RngExt;
use rocketmq_wire::header::DecodeFields;
use rocketmq_wire::message::batch::{self, BatchElement};
use rocketmq_wire::message::{OffsetMessageId, names, sys_flag};
use rocketmq_wire::model::{TopicConfig, perm};
use rocketmq_wire::request::send::{SendMessageRequest, SendMessageRequestV2};
use rocketmq_wire::{DecodeError, RequestCode, ResponseCode};

use super::Broker;
use super::stored_properties::{Added, Glance, write_batch_element, write_single};
use super::transactions::{self, enter_half};
use crate::clock::Now;
use crate::reply::{Command, Outcome, Peer, Reply, ReplyFields, SentFields, SentId, SentPlace};
use crate::store::{PutError, PutMessage};

/// Bit of a topic's system flag: it is used by units.
const TOPIC_OF_UNIT: i32 = 1;

/// Why a send is refused.
pub(super) struct Refusal {
    pub(super) code: ResponseCode,
    pub(super) remark: Cow<'static, str>,
}

impl Refusal {
    fn new(code: ResponseCode, remark: impl Into<Cow<'static, str>>) -> Self {
        Refusal { code, remark: remark.into() }
    }
}

/// What a send did.
struct Sent {
    place: SentPlace<'static>,
    transaction_id: Option<String>,
    recall_handle: Option<String>,
}

/// Where a message goes once the checks are through.
pub(super) struct Target {
    /// The topic instead of the one asked for.
    instead: Option<String>,
    pub(super) queue_id: i32,
    /// Put in place of the client's delay level.
    delay: Option<&'static str>,
}

impl Broker {
    /// Stores a message or a batch of messages.
    pub(super) fn send<'a>(
        &mut self,
        now: Now,
        peer: &Peer,
        command: &'a Command<'a>,
    ) -> Result<Outcome<'a>, DecodeError> {
        let request = if command.code() == RequestCode::SEND_MESSAGE {
            SendMessageRequest::decode_fields(command.header.fields)?.into()
        } else {
            SendMessageRequestV2::decode_fields(command.header.fields)?
        };
        let result = if request.batch == Some(true) {
            self.put_batch(now, peer, &request, command.body)
        } else {
            self.put_single(now, peer, &request, command.body)
        };
        let (code, remark, sent) = match result {
            Ok(sent) => (ResponseCode::SUCCESS, None, Some(sent)),
            Err(Refusal { code, remark }) => (code, Some(remark), None),
        };
        let (stored, transaction_id, recall_handle) =
            sent.map_or((None, None, None), |sent| (Some(sent.place), sent.transaction_id, sent.recall_handle));
        let fields = SentFields {
            stored,
            transaction_id: transaction_id.map(Cow::Owned),
            recall_handle,
            region: Arc::clone(&self.region),
            trace_on: self.settings.trace_on,
        };
        let mut reply = Reply::new(code).fields(ReplyFields::Sent(fields));
        reply.remark = remark;
        Ok(reply.into())
    }

    fn put_single(
        &mut self,
        now: Now,
        peer: &Peer,
        request: &SendMessageRequestV2<'_>,
        body: &[u8],
    ) -> Result<Sent, Refusal> {
        let properties = request.properties.as_deref().unwrap_or_default();
        let seen = Glance::over(properties, self.compatibility);
        let target = self.check(now, peer, request)?;
        if body.is_empty() && !self.compatibility.takes_empty_bodies() {
            return Err(Refusal::new(ResponseCode::SYSTEM_ERROR, "the message body is empty"));
        }
        // What was consumed before and is delayed is no half message any more, whatever it says.
        let is_half = seen.is_transaction && !(request.reconsume_times.unwrap_or(0) > 0 && seen.has_delay_level);
        if seen.is_transaction && self.settings.reject_transactions {
            let remark = format!("the broker[{}] sending transaction message is forbidden", self.store_host.ip());
            return Err(Refusal::new(ResponseCode::NO_PERMISSION, remark));
        }
        let new_id = match seen.unique_id {
            Some(_) => None,
            None => {
                self.unique_id_counter = self.unique_id_counter.wrapping_add(1);
                Some(self.unique_ids.id(now.message_ms, self.unique_id_counter))
            }
        };
        let added = Added {
            region: &self.region,
            cluster: &self.settings.cluster,
            trace_on: self.settings.trace_on,
            unique_id: new_id.as_ref().map(|id| id.as_str()),
        };
        let mut stored = std::mem::take(&mut self.scratch);
        stored.clear();
        write_single(&mut stored, self.compatibility, properties, &added, target.delay, !seen.needs_rewriting);
        let topic = target.instead.as_deref().unwrap_or(&request.topic);
        let mut place = (topic, target.queue_id);
        if is_half {
            let unique_id = seen.unique_id.or(added.unique_id);
            enter_half(&mut stored, self.compatibility, place, unique_id, seen.wait);
            place = (names::HALF_TOPIC, transactions::QUEUE);
        }
        let mut message = self.message(peer, request, place.0, place.1, body, &stored);
        if is_half {
            message.sys_flag = sys_flag::with_transaction(message.sys_flag, sys_flag::TRANSACTION_NONE);
        }
        let result = self.store.put(now.message_ms, &message);
        self.forget_unless_waiting(seen.wait);
        let transaction_id = self
            .compatibility
            .send_answers_transaction_id()
            .then(|| seen.unique_id.or(new_id.as_ref().map(|id| id.as_str())))
            .flatten()
            .map(str::to_owned);
        let unique_id = transaction_id.as_deref();
        let recall_handle = result.as_ref().ok().and_then(|outcome| outcome.timer_out_ms).and_then(|out_ms| {
            super::recall::handle(topic, &self.settings.broker_name, out_ms, unique_id.unwrap_or_default())
        });
        self.scratch = stored;

        let outcome = result.map_err(|error| self.refused_by_store(&error))?;
        let id = OffsetMessageId { store_host: self.store_host, physical_offset: outcome.physical_offset as i64 };
        let place = SentPlace {
            message_id: SentId::One(id),
            queue_id: target.queue_id,
            queue_offset: outcome.queue_offset as i64,
        };
        Ok(Sent { place, transaction_id, recall_handle })
    }

    fn put_batch(
        &mut self,
        now: Now,
        peer: &Peer,
        request: &SendMessageRequestV2<'_>,
        body: &[u8],
    ) -> Result<Sent, Refusal> {
        if request.topic.len() > names::MAX_TOPIC_LENGTH {
            let remark = format!("message topic length too long {}", request.topic.len());
            return Err(Refusal::new(ResponseCode::MESSAGE_ILLEGAL, remark));
        }
        if names::is_retry_topic(&request.topic) {
            let remark = format!("batch request does not support retry group {}", request.topic);
            return Err(Refusal::new(ResponseCode::MESSAGE_ILLEGAL, remark));
        }
        let target = self.check(now, peer, request)?;
        let seen = Glance::over(request.properties.as_deref().unwrap_or_default(), self.compatibility);
        let added = Added {
            region: &self.region,
            cluster: &self.settings.cluster,
            trace_on: self.settings.trace_on,
            unique_id: seen.unique_id,
        };
        let mut stored = std::mem::take(&mut self.scratch);
        stored.clear();
        let mut elements: Vec<(BatchElement<'_>, Range<usize>)> = Vec::new();
        let mut broken = None;
        for element in batch::elements(body) {
            match element {
                Ok(element) => {
                    let start = stored.len();
                    write_batch_element(&mut stored, self.compatibility, element.properties, &added, seen.wait);
                    elements.push((element, start..stored.len()));
                }
                Err(error) => broken = Some(error),
            }
        }
        let message = self.message(peer, request, &request.topic, target.queue_id, b"", b"");
        let result = match broken {
            Some(error) => Err(Refusal::new(ResponseCode::SYSTEM_ERROR, format!("the batch cannot be read: {error}"))),
            None => {
                let with_properties = elements
                    .iter()
                    .map(|(element, range)| BatchElement { properties: &stored[range.clone()], ..*element });
                let result = self.store.put_batch(now.message_ms, &message, with_properties);
                self.forget_unless_waiting(seen.wait);
                result.map_err(|error| self.refused_by_store(&error))
            }
        };
        self.scratch = stored;
        let outcome = result?;

        let mut ids = String::with_capacity(33 * outcome.physical_offsets.len());
        for offset in &outcome.physical_offsets {
            if !ids.is_empty() {
                ids.push(',');
            }
            let id = OffsetMessageId { store_host: self.store_host, physical_offset: *offset as i64 };
            ids.push_str(&id.to_string());
        }
        let place = SentPlace {
            message_id: SentId::Batch(ids.into()),
            queue_id: target.queue_id,
            queue_offset: outcome.queue_offset as i64,
        };
        let answers_id = self.compatibility.send_answers_transaction_id();
        let transaction_id = seen.unique_id.filter(|_| answers_id).map(str::to_owned);
        Ok(Sent { place, transaction_id, recall_handle: None })
    }

    pub(super) fn message<'m>(
        &self,
        peer: &Peer,
        request: &SendMessageRequestV2<'_>,
        topic: &'m str,
        queue_id: i32,
        body: &'m [u8],
        properties: &'m [u8],
    ) -> PutMessage<'m> {
        PutMessage {
            topic,
            queue_id,
            flag: request.flag,
            sys_flag: request.sys_flag,
            born_timestamp: request.born_timestamp,
            born_host: peer.address,
            store_host: self.store_host,
            reconsume_times: request.reconsume_times.unwrap_or(0),
            prepared_transaction_offset: 0,
            body,
            properties,
        }
    }

    /// Checks the topic and the queue, creates the topic if that is allowed, and chooses the queue.
    pub(super) fn check(
        &mut self,
        now: Now,
        peer: &Peer,
        request: &SendMessageRequestV2<'_>,
    ) -> Result<Target, Refusal> {
        let topic: &str = &request.topic;
        if self.settings.permission & perm::WRITE == 0 && self.topics.get(topic).is_some_and(|config| config.order) {
            let remark = format!("the broker[{}] sending message is forbidden", self.store_host.ip());
            return Err(Refusal::new(ResponseCode::NO_PERMISSION, remark));
        }
        self.check_system_topic(topic)?;
        if self.topics.get(topic).is_none() {
            self.check_topic_name(topic)?;
            self.create_topic_of_send(now, request)?;
        }
        let Some(config) = self.topics.get(topic) else { return Err(self.unknown_topic(topic)) };
        let queues = config.write_queue_nums;
        if request.queue_id >= queues.max(config.read_queue_nums) {
            let remark = format!(
                "request queueId[{}] is illegal, {} Producer: {}",
                request.queue_id,
                self.describe(config),
                peer.address
            );
            return Err(Refusal::new(self.compatibility.invalid_argument(), remark));
        }
        let queue_id = if request.queue_id < 0 { self.random.random_range(0..queues.max(1)) } else { request.queue_id };
        match names::group_of_retry_topic(topic) {
            Some(group) => self.check_retry(now, group, request, queue_id),
            None => Ok(Target { instead: None, queue_id, delay: None }),
        }
    }

    /// Checks the name of a topic that does not exist yet.
    fn check_topic_name(&self, topic: &str) -> Result<(), Refusal> {
        if self.compatibility.checks_topic_names()
            && let Err(remark) = super::topic_requests::check_sent_topic(topic)
        {
            return Err(Refusal::new(self.compatibility.invalid_argument(), remark));
        }
        Ok(())
    }

    fn check_system_topic(&self, topic: &str) -> Result<(), Refusal> {
        if self.compatibility.reserves_default_topic() && topic == names::DEFAULT_TOPIC {
            let remark = format!("the topic[{topic}] is conflict with system reserved words.");
            return Err(Refusal::new(ResponseCode::SYSTEM_ERROR, remark));
        }
        if self.compatibility.protects_system_topics() && !names::is_sendable(topic) {
            let remark = format!("Sending message to topic[{topic}] is forbidden.");
            return Err(Refusal::new(ResponseCode::NO_PERMISSION, remark));
        }
        Ok(())
    }

    fn create_topic_of_send(&mut self, now: Now, request: &SendMessageRequestV2<'_>) -> Result<(), Refusal> {
        let topic: &str = &request.topic;
        if topic.is_empty() || topic.len() > names::MAX_RETRY_TOPIC_LENGTH {
            // Only 4.4 comes here with such a name, and cannot store it.
            return Err(self.illegal_message());
        }
        let sys_flag = if request.unit_mode == Some(true) { TOPIC_OF_UNIT } else { 0 };
        let queues = request.default_topic_queue_nums;
        let created =
            self.topics.create_by_default(topic, &request.default_topic, queues, sys_flag, now.message_ms).is_some();
        if created {
            Ok(())
        } else if names::is_retry_topic(topic) {
            self.topics.get_or_create(topic, 1, perm::READ | perm::WRITE, now.message_ms);
            Ok(())
        } else {
            Err(self.unknown_topic(topic))
        }
    }

    /// A message that a client sends to a retry topic itself becomes a dead letter if it was consumed too often, or if
    /// its group consumes in order and so has no use for a retry topic.
    fn check_retry(
        &mut self,
        now: Now,
        group: &str,
        request: &SendMessageRequestV2<'_>,
        queue_id: i32,
    ) -> Result<Target, Refusal> {
        let further_details = self.compatibility.further_details();
        let Some(config) = self.groups.get_or_create(group, now.message_ms) else {
            let remark = format!("subscription group not exist, {group} {further_details}");
            return Err(Refusal::new(ResponseCode::SUBSCRIPTION_GROUP_NOT_EXIST, remark));
        };
        let limit = request.max_reconsume_times.unwrap_or(config.retry_max_times);
        let exhausted = request.reconsume_times.unwrap_or(0) > limit;
        if !exhausted && !self.locks.is_any_locked(now.session, group) {
            return Ok(Target { instead: None, queue_id, delay: None });
        }
        let dead_letters = names::dead_letter_topic(group);
        self.topics.get_or_create(&dead_letters, 1, self.compatibility.dead_letter_perm(), now.message_ms);
        let delay = self.compatibility.delay_of_exhausted_retry();
        Ok(Target { instead: Some(dead_letters), queue_id: 0, delay })
    }

    fn unknown_topic(&self, topic: &str) -> Refusal {
        let details = self.compatibility.further_details();
        Refusal::new(ResponseCode::TOPIC_NOT_EXIST, format!("topic[{topic}] not exist, apply first please!{details}"))
    }

    fn illegal_message(&self) -> Refusal {
        let remark = format!(
            "the message is illegal, maybe msg body or properties length not matched. msg body length limit {}B, msg \
             properties length limit 32KB.",
            self.settings.max_message_size
        );
        Refusal::new(ResponseCode::MESSAGE_ILLEGAL, remark)
    }

    pub(super) fn refused_by_store(&self, error: &PutError) -> Refusal {
        tracing::warn!(%error, "message not stored");
        match error {
            PutError::TimerIllegal { max_delay_ms } => Refusal::new(
                ResponseCode::MESSAGE_ILLEGAL,
                format!(
                    "timer message illegal, the delay time should not be bigger than the max delay {max_delay_ms}ms; \
                     or if set del msg, the delay time should be bigger than the current time"
                ),
            ),
            PutError::TimerDisabled => Refusal::new(
                ResponseCode::SYSTEM_ERROR,
                "accurate timer message is not enabled, timerWheelEnable is false",
            ),
            PutError::Busy => {
                Refusal::new(ResponseCode::SYSTEM_BUSY, "[PC_SYNCHRONIZED]broker busy, start flow control for a while")
            }
            PutError::NoSpace(_) => Refusal::new(
                ResponseCode::SERVICE_NOT_AVAILABLE,
                format!("service not available now: the broker's disk is full. {error}"),
            ),
            PutError::Failed(_) | PutError::NotContiguous { .. } => Refusal::new(
                ResponseCode::SYSTEM_ERROR,
                format!("create mapped file failed, server is busy or broken. {error}"),
            ),
            _ => self.illegal_message(),
        }
    }

    /// A topic as Java prints it.
    fn describe(&self, config: &TopicConfig) -> String {
        let bit = |bit, letter| if config.perm & bit == 0 { '-' } else { letter };
        let attributes = if self.compatibility.topics_have_attributes() { ", attributes={}" } else { "" };
        format!(
            "TopicConfig [topicName={}, readQueueNums={}, writeQueueNums={}, perm={}{}{}, topicFilterType={}, \
             topicSysFlag={}, order={}{attributes}]",
            config.topic_name,
            config.read_queue_nums,
            config.write_queue_nums,
            bit(perm::READ, 'R'),
            bit(perm::WRITE, 'W'),
            bit(perm::INHERIT, 'X'),
            config.topic_filter_type,
            config.topic_sys_flag,
            config.order
        )
    }
}
