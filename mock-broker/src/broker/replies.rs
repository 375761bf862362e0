//! Replies to requests: codes 324 and 325. A reply is stored, and handed to the client that waits for it (326).

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use rocketmq_wire::header::DecodeFields;
use rocketmq_wire::message::OffsetMessageId;
use rocketmq_wire::message::properties::{self, Properties};
use rocketmq_wire::request::reply::PushReplyMessageRequest;
use rocketmq_wire::request::send::{SendMessageRequest, SendMessageRequestV2};
use rocketmq_wire::{DecodeError, RequestCode, ResponseCode};

use super::Broker;
use super::client_calls::{ClientAnswer, Purpose};
use super::stored_properties::{push, replace};
use crate::clock::Now;
use crate::reply::{Command, Effect, Outcome, Peer, Reply, ReplyFields, ReturnAddress, SentFields, SentId, SentPlace};

/// How long the client that waits for a reply may take to acknowledge it.
const PUSH_LIMIT: Duration = Duration::from_secs(10);

/// A reply that was handed on and not acknowledged yet.
#[derive(Debug)]
pub(super) struct PushedReply {
    to: ReturnAddress,
    client_id: String,
    queue_id: i32,
    /// Where it is stored, if it is.
    stored: Option<SentPlace<'static>>,
}

impl Broker {
    /// Stores a reply and hands it to the client that waits for it; answered once that client has it.
    pub(super) fn send_reply<'a>(
        &mut self,
        now: Now,
        peer: &Peer,
        command: &'a Command<'a>,
    ) -> Result<Outcome<'a>, DecodeError> {
        let request: SendMessageRequestV2<'_> = if command.code() == RequestCode::SEND_REPLY_MESSAGE {
            SendMessageRequest::decode_fields(command.header.fields)?.into()
        } else {
            SendMessageRequestV2::decode_fields(command.header.fields)?
        };
        let queue_id = match self.check(now, peer, &request) {
            Ok(target) => target.queue_id,
            Err(refusal) => {
                let fields = self.reply_fields(None);
                return Ok(Reply::new(refusal.code).remark(refusal.remark).fields(fields).into());
            }
        };
        let given = request.properties.as_deref().unwrap_or_default().as_bytes();
        let properties = self.reply_properties(given);
        let stored = self.store_reply(now, peer, &request, (queue_id, command.body, &properties));
        let Some(client_id) = Properties::new(given).value(properties::REPLY_TO_CLIENT) else {
            let remark = "reply message properties[REPLY_TO_CLIENT] is null";
            let fields = self.reply_fields(stored);
            return Ok(Reply::new(ResponseCode::SYSTEM_ERROR).remark(remark).fields(fields).into());
        };
        let Some(channel) = self.clients.producer_client(client_id) else {
            let remark = format!("push reply message fail, channel of <{client_id}> not found.");
            let fields = self.reply_fields(stored);
            return Ok(Reply::new(ResponseCode::SYSTEM_ERROR).remark(remark).fields(fields).into());
        };
        let pushed_at = (properties::PUSH_REPLY_TIME, Cow::Owned(now.message_ms.to_string()));
        let mut pushed_properties = replace(&properties, &[pushed_at]);
        if !self.compatibility.ends_properties_with_separator() {
            pushed_properties.pop();
        }
        let push = PushReplyMessageRequest {
            properties: Some(String::from_utf8_lossy(&pushed_properties)),
            born_host: peer.address.to_string().into(),
            store_host: self.store_host.to_string().into(),
            store_timestamp: now.message_ms,
            producer_group: request.producer_group,
            topic: request.topic,
            default_topic: request.default_topic,
            default_topic_queue_nums: request.default_topic_queue_nums,
            queue_id: request.queue_id,
            sys_flag: request.sys_flag,
            born_timestamp: request.born_timestamp,
            flag: request.flag,
            reconsume_times: request.reconsume_times,
            unit_mode: Some(request.unit_mode.unwrap_or(false)),
        };
        let pushed =
            PushedReply { to: command.return_address(peer), client_id: client_id.to_owned(), queue_id, stored };
        self.ask_client(now, channel, (&push, command.body), PUSH_LIMIT, Purpose::Reply(pushed));
        Ok(Outcome::Pending)
    }

    /// Answers a reply that was handed on.
    pub(super) fn reply_pushed(&mut self, pushed: PushedReply, answer: &ClientAnswer) {
        let reply = if matches!(answer, ClientAnswer::Answered { code: 0, .. }) {
            let unstored =
                SentPlace { message_id: SentId::Batch("0".into()), queue_id: pushed.queue_id, queue_offset: 0 };
            Reply::success().fields(self.reply_fields(Some(pushed.stored.unwrap_or(unstored))))
        } else {
            let remark = if let ClientAnswer::Answered { remark, .. } = answer { remark.as_deref() } else { None };
            tracing::warn!(
                client = pushed.client_id,
                ?answer,
                remark,
                "a reply did not reach the client waiting for it"
            );
            let remark = format!("push reply message to {}fail.", pushed.client_id);
            Reply::new(ResponseCode::SYSTEM_ERROR).remark(remark).fields(self.reply_fields(pushed.stored))
        };
        self.effects.push(Effect::Answer(pushed.to, reply));
    }

    /// What a reply carries: what its sender gave, and what this version adds.
    fn reply_properties(&self, given: &[u8]) -> Vec<u8> {
        let mut stored = given.to_vec();
        if self.compatibility.added_properties().contains(&properties::MSG_REGION) {
            if stored.last().is_some_and(|last| *last != properties::PROPERTY_SEPARATOR as u8) {
                stored.push(properties::PROPERTY_SEPARATOR as u8);
            }
            push(&mut stored, properties::MSG_REGION, &self.region);
            push(&mut stored, properties::TRACE_ON, if self.settings.trace_on { "true" } else { "false" });
        }
        stored
    }

    /// Stores a reply; one that cannot be stored is handed on nevertheless.
    fn store_reply(
        &mut self,
        now: Now,
        peer: &Peer,
        request: &SendMessageRequestV2<'_>,
        (queue_id, body, properties): (i32, &[u8], &[u8]),
    ) -> Option<SentPlace<'static>> {
        if !self.settings.store_replies {
            return None;
        }
        let message = self.message(peer, request, &request.topic, queue_id, body, properties);
        match self.store.put(now.message_ms, &message) {
            Ok(outcome) => {
                let id =
                    OffsetMessageId { store_host: self.store_host, physical_offset: outcome.physical_offset as i64 };
                let queue_offset = outcome.queue_offset as i64;
                Some(SentPlace { message_id: SentId::One(id), queue_id, queue_offset })
            }
            Err(error) => {
                tracing::warn!(%error, "a reply is not stored");
                None
            }
        }
    }

    fn reply_fields(&self, stored: Option<SentPlace<'static>>) -> ReplyFields<'static> {
        ReplyFields::Sent(SentFields {
            stored,
            transaction_id: None,
            recall_handle: None,
            region: Arc::clone(&self.region),
            trace_on: self.settings.trace_on,
        })
    }
}
