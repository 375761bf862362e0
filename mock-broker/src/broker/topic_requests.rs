//! Topics as an administrator sets and reads them: codes 17 and 351.

use std::fmt::Write;

use rocketmq_wire::header::DecodeFields;
use rocketmq_wire::message::names::{self, NameError};
use rocketmq_wire::model::TopicConfig;
use rocketmq_wire::request::admin::CreateTopicRequest;
use rocketmq_wire::{DecodeError, ResponseCode};

use super::Broker;
use crate::clock::Now;
use crate::compatibility::Compatibility;
use crate::reply::{Command, Outcome, Reply};

impl Broker {
    /// Creates a topic or changes it.
    pub(super) fn create_topic<'a>(&mut self, now: Now, command: &Command<'a>) -> Result<Outcome<'a>, DecodeError> {
        let request = CreateTopicRequest::decode_fields(command.header.fields)?;
        let topic: &str = &request.topic;
        if let Some(refusal) = self.refuse_topic_name(topic) {
            return Ok(refusal.into());
        }
        let mut attributes = self.topics.get(topic).map(|known| known.attributes.clone()).unwrap_or_default();
        for change in request.attributes.as_deref().unwrap_or_default().split(',') {
            match (change.strip_prefix('+').and_then(|rest| rest.split_once('=')), change.strip_prefix('-')) {
                (Some((key, value)), _) => {
                    attributes.insert(key.to_owned(), value.to_owned());
                }
                (None, Some(key)) => {
                    attributes.remove(key);
                }
                (None, None) => {}
            }
        }
        let config = TopicConfig {
            attributes,
            order: request.order.unwrap_or(false),
            perm: request.perm,
            read_queue_nums: request.read_queue_nums,
            topic_filter_type: request.topic_filter_type.into_owned(),
            topic_name: request.topic.into_owned(),
            topic_sys_flag: request.topic_sys_flag.unwrap_or(0),
            write_queue_nums: request.write_queue_nums,
        };
        self.topics.set(config, now.message_ms);
        let mut reply = Reply::success();
        reply.remark = self.compatibility.create_topic_remark().map(Into::into);
        Ok(reply.into())
    }

    /// Why an administrator may not set a topic of that name, if that is so.
    pub(super) fn refuse_topic_name(&self, topic: &str) -> Option<Reply<'static>> {
        let invalid = |remark: String| Some(Reply::new(self.compatibility.invalid_argument()).remark(remark));
        if self.compatibility.checks_topic_names()
            && let Err(remark) = check_topic(topic, names::MAX_TOPIC_LENGTH)
        {
            return invalid(remark);
        }
        if self.compatibility.protects_system_topics() && self.is_system_topic(topic) {
            return invalid(format!("The topic[{topic}] is conflict with system topic."));
        }
        None
    }

    /// Whether a topic belongs to the system or to this broker.
    pub(super) fn is_system_topic(&self, topic: &str) -> bool {
        names::is_system_topic(topic) || topic == names::reply_topic(&self.settings.cluster)
    }

    /// Says what the settings of a topic are.
    pub(super) fn topic_config<'a>(&mut self, command: &Command<'a>) -> Result<Outcome<'a>, DecodeError> {
        let topic = command.header.fields.get("topic").ok_or(DecodeError::MissingField("topic"))?;
        Ok(match self.topics.get(&topic) {
            Some(config) => Reply::success().body(to_text(config, self.compatibility)),
            None => {
                let remark = format!("No topic in this broker. topic: {topic}");
                Reply::new(ResponseCode::TOPIC_NOT_EXIST).remark(remark)
            }
        }
        .into())
    }
}

/// The settings of a topic; 5.x writes attributes first even if there are none.
pub(super) fn to_text(config: &TopicConfig, compatibility: Compatibility) -> String {
    let mut out = String::from("{");
    if compatibility.topics_have_attributes() {
        out.push_str("\"attributes\":{");
        for (index, (key, value)) in config.attributes.iter().enumerate() {
            if index > 0 {
                out.push(',');
            }
            crate::json::text(&mut out, key);
            out.push(':');
            crate::json::text(&mut out, value);
        }
        out.push_str("},");
    }
    // Writing to a string cannot fail.
    let _ = write!(
        out,
        "\"order\":{},\"perm\":{},\"readQueueNums\":{},\"topicFilterType\":",
        config.order, config.perm, config.read_queue_nums
    );
    crate::json::text(&mut out, &config.topic_filter_type);
    out.push_str(",\"topicName\":");
    crate::json::text(&mut out, &config.topic_name);
    let _ = write!(out, ",\"topicSysFlag\":{},\"writeQueueNums\":{}}}", config.topic_sys_flag, config.write_queue_nums);
    out
}

/// Checks the name of a topic that is sent to. Retry and dead letter topics may be longer.
pub(super) fn check_sent_topic(topic: &str) -> Result<(), String> {
    let made_from_group = names::is_retry_topic(topic) || names::is_dead_letter_topic(topic);
    check_topic(topic, if made_from_group { names::MAX_RETRY_TOPIC_LENGTH } else { names::MAX_TOPIC_LENGTH })
}

pub(super) fn check_topic(topic: &str, limit: usize) -> Result<(), String> {
    names::check(topic, limit).map_err(|error| match error {
        NameError::Blank => "The specified topic is blank.".to_owned(),
        NameError::IllegalCharacter(_) => {
            "The specified topic contains illegal characters, allowing only ^[%|a-zA-Z0-9_-]+$".to_owned()
        }
        _ => format!("The specified topic is longer than topic max length {limit}."),
    })
}
