//! Taking timed messages back: code 370.
//!
//! Whoever sent a message for a time got a handle for it. A recall puts a second message for the same time next to it,
//! which makes the first one vanish when the time has come.

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::{URL_SAFE, URL_SAFE_NO_PAD};
use rocketmq_wire::header::DecodeFields;
use rocketmq_wire::message::{names, properties};
use rocketmq_wire::request::send::RecallMessageRequest;
use rocketmq_wire::{DecodeError, ResponseCode};

use super::Broker;
use super::stored_properties::push;
use crate::clock::Now;
use crate::reply::{Command, Outcome, Peer, Reply, ReplyFields};
use crate::store::PutMessage;

/// What handles begin with.
const HANDLE_VERSION: &str = "v1";

/// The tag of recalls.
const RECALL_TAG: &str = "_RECALL_TAG_";

/// What a handle says.
#[derive(Debug, PartialEq, Eq)]
struct Handle {
    topic: String,
    broker: String,
    /// A time within the slot of the message, in milliseconds since 1970.
    timestamp: i64,
    unique_id: String,
}

/// The handle for a message of a topic that waits in the slot of `out_ms`; none for one that is redelivered.
pub(super) fn handle(topic: &str, broker: &str, out_ms: i64, unique_id: &str) -> Option<String> {
    // The slot is over one millisecond later at the earliest, so that this finds it again.
    let timestamp = out_ms + 1;
    let text = || URL_SAFE.encode(format!("{HANDLE_VERSION} {topic} {broker} {timestamp} {unique_id}"));
    (!names::is_retry_topic(topic)).then(text)
}

fn parse(handle: &str) -> Option<Handle> {
    let bytes = URL_SAFE_NO_PAD.decode(handle.trim_end_matches('=')).ok()?;
    let text = String::from_utf8(bytes).ok()?;
    let parts: Vec<&str> = text.split(' ').collect();
    let [HANDLE_VERSION, topic, broker, timestamp, unique_id] = parts[..] else { return None };
    Some(Handle {
        topic: topic.to_owned(),
        broker: broker.to_owned(),
        timestamp: timestamp.parse().unwrap_or(-1),
        unique_id: unique_id.to_owned(),
    })
}

impl Broker {
    /// Takes a message back that waits for its time.
    pub(super) fn recall<'a>(
        &mut self,
        now: Now,
        peer: &Peer,
        command: &'a Command<'a>,
    ) -> Result<Outcome<'a>, DecodeError> {
        let request = RecallMessageRequest::decode_fields(command.header.fields)?;
        let answer = |code, remark: String, message_id| {
            let fields = ReplyFields::Recalled { message_id, region: Arc::clone(&self.region) };
            Ok(Reply::new(code).remark(remark).fields(fields).into())
        };
        let refused = |code, remark: &str| answer(code, format!("recall failed, {remark}"), None);
        if !self.settings.recall_messages {
            return refused(ResponseCode::NO_PERMISSION, "operation is forbidden");
        }
        let topic: &str = &request.topic;
        if self.topics.get(topic).is_none() {
            return refused(ResponseCode::TOPIC_NOT_EXIST, &format!("the topic[{topic}] not exist"));
        }
        let Some(handle) = parse(&request.recall_handle) else {
            return answer(ResponseCode::ILLEGAL_OPERATION, "recall handle is invalid".to_owned(), None);
        };
        if handle.topic != topic {
            return refused(ResponseCode::ILLEGAL_OPERATION, "topic not match");
        }
        if handle.broker != self.settings.broker_name {
            return refused(ResponseCode::ILLEGAL_OPERATION, "broker service not available");
        }
        let left = handle.timestamp.saturating_sub(now.message_ms);
        if left <= 0 || left >= self.settings.timers.max_delay_ms {
            return refused(ResponseCode::ILLEGAL_OPERATION, "timestamp invalid");
        }
        let mut stored = Vec::new();
        push(&mut stored, properties::TAGS, RECALL_TAG);
        push(&mut stored, properties::TIMER_DEL_UNIQUE_ID, &format!("{topic}+{}", handle.unique_id));
        push(&mut stored, properties::UNIQUE_ID, &handle.unique_id);
        push(&mut stored, properties::TIMER_DELIVER_MS, &handle.timestamp.to_string());
        push(&mut stored, properties::BORN_TIMESTAMP, &now.message_ms.to_string());
        push(&mut stored, properties::PRODUCER_GROUP, &request.producer_group);
        let message = PutMessage {
            topic,
            queue_id: 0,
            flag: 0,
            sys_flag: 0,
            born_timestamp: now.message_ms,
            born_host: peer.address,
            store_host: self.store_host,
            reconsume_times: 0,
            prepared_transaction_offset: 0,
            body: b"0",
            properties: &stored,
        };
        if let Err(error) = self.store.put(now.message_ms, &message) {
            tracing::warn!(%error, topic, "a recall is not stored");
            return refused(ResponseCode::SYSTEM_ERROR, "execute error");
        }
        answer(ResponseCode::SUCCESS, "not set any response code".to_owned(), Some(handle.unique_id))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handles_say_what_apache_s_say() {
        let recorded = "djEgR29sZGVuRGVsYXk1IGJyb2tlci1hIDE3OTU5NTg4MDkwMDEgRkQwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwM\
                        DI0NUQ3NEUwRTJGMkE5MzE0NkM1OTAwMkI=";
        let id = "FD00000000000000000000000000000245D74E0E2F2A93146C59002B";
        assert_eq!(handle("GoldenDelay5", "broker-a", 1_795_958_809_000, id).as_deref(), Some(recorded));
        let parsed = parse(recorded).unwrap();
        assert_eq!((parsed.topic.as_str(), parsed.timestamp), ("GoldenDelay5", 1_795_958_809_001));
        assert_eq!((parsed.broker.as_str(), parsed.unique_id.as_str()), ("broker-a", id));
        assert_eq!(parse(recorded.trim_end_matches('=')), parse(recorded));
        assert_eq!(handle("%RETRY%g", "b", 0, "u"), None);
        for broken in ["", "!", "djE=", "djIgYSBiIDEgdQ=="] {
            assert_eq!(parse(broken), None, "{broken}");
        }
    }
}
