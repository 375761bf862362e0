//! Setting the offsets of a group: code 222. A broker 5.x sets them itself; older ones tell the group's members, which
//! set them.

use rocketmq_wire::fastjson::ObjectKey;
use rocketmq_wire::header::DecodeFields;
use rocketmq_wire::model::QueueOffsets;
use rocketmq_wire::request::admin::{ResetConsumerOffsetRequest, ResetOffsetRequest};
use rocketmq_wire::{LanguageCode, ResponseCode};

use super::Handled;
use crate::broker::Broker;
use crate::reply::{Command, Reply};

impl Broker {
    /// Sets the offsets of a group in a topic to those of a time.
    pub(super) fn reset_offset<'a>(&mut self, command: &Command<'a>) -> Handled<'a> {
        let request = ResetOffsetRequest::decode_fields(command.header.fields)?;
        let reply = if self.compatibility.can_reset_on_server() && self.settings.server_side_reset {
            self.reset_here(&request)
        } else {
            self.reset_by_members(&request, command.header.head.language)
        };
        Ok(reply.into())
    }

    fn reset_here(&mut self, request: &ResetOffsetRequest<'_>) -> Reply<'static> {
        let (group, topic): (&str, &str) = (&request.group, &request.topic);
        let Some(config) = self.topics.get(topic) else {
            return Reply::new(ResponseCode::TOPIC_NOT_EXIST).remark(format!("Topic {topic} does not exist"));
        };
        if self.groups.get(group).is_none() {
            return Reply::new(ResponseCode::SUBSCRIPTION_GROUP_NOT_EXIST)
                .remark(format!("Group {group} does not exist"));
        }
        let queues = match request.queue_id.filter(|queue_id| *queue_id >= 0) {
            Some(queue_id) => queue_id..queue_id + 1,
            None => 0..config.read_queue_nums,
        };
        let mut offsets = QueueOffsets::default();
        for queue_id in queues {
            let (min, max) = (self.store.min_offset(topic, queue_id), self.store.max_offset(topic, queue_id));
            let (min, max) = (min as i64, max as i64);
            let target = match request.offset.filter(|offset| *offset >= 0) {
                Some(offset) if (min..=max + 1).contains(&offset) => offset,
                Some(offset) => {
                    let remark = format!("Target offset {offset} not in consume queue range [{min}-{max}]");
                    return Reply::new(ResponseCode::SYSTEM_ERROR).remark(remark);
                }
                None if request.timestamp < 0 => max,
                None => self.offset_at(topic, queue_id, request.timestamp),
            };
            offsets.offset_table.insert(ObjectKey(self.message_queue(topic, queue_id)), target);
        }
        for (ObjectKey(queue), offset) in &offsets.offset_table {
            self.offsets.reset(group, topic, queue.queue_id, *offset);
        }
        Reply::success().body(crate::json::to_dialect(&offsets))
    }

    fn offset_at(&self, topic: &str, queue_id: i32, timestamp: i64) -> i64 {
        let boundary = self.compatibility.search_boundary(false);
        self.store.offset_by_time(topic, queue_id, timestamp, boundary) as i64
    }

    fn reset_by_members(&mut self, request: &ResetOffsetRequest<'_>, asker: LanguageCode) -> Reply<'static> {
        let (group, topic): (&str, &str) = (&request.group, &request.topic);
        let failed = |remark: String| Reply::new(ResponseCode::SYSTEM_ERROR).remark(remark);
        let Some(config) = self.topics.get(topic) else {
            return failed(format!("[reset-offset] reset offset failed, no topic in this broker. topic={topic}"));
        };
        let mut offsets = QueueOffsets::default();
        for queue_id in 0..config.write_queue_nums {
            let Some(consumed) = self.offsets.get(group, topic, queue_id).filter(|offset| *offset >= 0) else {
                return failed(format!("THe consumer group <{group}> not exist"));
            };
            let at_time = if request.timestamp == -1 {
                self.store.max_offset(topic, queue_id) as i64
            } else {
                self.offset_at(topic, queue_id, request.timestamp)
            };
            let target = if request.is_force || at_time < consumed { at_time } else { consumed };
            offsets.offset_table.insert(ObjectKey(self.message_queue(topic, queue_id)), target);
        }
        let Some(online) = self.clients.consumer_group(group) else {
            let remark = format!(
                "Consumer not online, so can not reset offset, Group: {group} Topic: {topic} Timestamp: {}",
                request.timestamp
            );
            return Reply::new(ResponseCode::CONSUMER_NOT_ONLINE).remark(remark);
        };
        let members: Vec<_> = online.connections().collect();
        let notice = ResetConsumerOffsetRequest {
            topic: topic.to_owned().into(),
            group: group.to_owned().into(),
            queue_id: self.compatibility.can_reset_on_server().then_some(-1),
            timestamp: request.timestamp,
            is_force: false,
        };
        let body = if asker == LanguageCode::CPP { as_list(&offsets) } else { crate::json::to_dialect(&offsets) };
        for (connection, serialize_type) in members {
            self.push(connection, serialize_type, &notice, &body);
        }
        // As Apache: a success whose remark says that there is none.
        Reply::success().remark("not set any response code").body(crate::json::to_dialect(&offsets))
    }
}

/// The form that clients in C++ read.
fn as_list(offsets: &QueueOffsets) -> Vec<u8> {
    let entries: Vec<_> = offsets
        .offset_table
        .iter()
        .map(|(ObjectKey(queue), offset)| {
            serde_json::json!({
                "brokerName": queue.broker_name, "offset": offset, "queueId": queue.queue_id, "topic": queue.topic,
            })
        })
        .collect();
    crate::json::to_vec(&serde_json::json!({ "offsetTable": entries }))
}
