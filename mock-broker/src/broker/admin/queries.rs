//! Messages by key and by place, and entries of queues: codes 12, 33 and 321.

use rocketmq_wire::ResponseCode;
use rocketmq_wire::header::DecodeFields;
use rocketmq_wire::message::RecordView;
use rocketmq_wire::model::{ConsumeQueueEntry, ConsumeQueuePage};
use rocketmq_wire::request::admin::QueryConsumeQueueRequest;
use rocketmq_wire::request::query::{QueryMessageRequest, QueryMessageResponse, ViewMessageRequest};

use super::Handled;
use crate::broker::Broker;
use crate::clock::Now;
use crate::reply::{Command, Reply, ReplyBody, ReplyFields};

/// Entries that one answer shows at most.
const MOST_ENTRIES: i32 = 10_000;

/// The remark of an answer whose handler set a code and nothing else.
const NO_REMARK: &str = "not set any response code";

/// Messages that a question for an id may bring (`defaultQueryMaxNum`).
const MOST_OF_ONE_ID: usize = 32;

impl Broker {
    /// Finds messages by one of their keys, or by the id that their producer gave them.
    pub(super) fn query_message<'a>(&mut self, now: Now, command: &Command<'a>) -> Handled<'a> {
        let request = QueryMessageRequest::decode_fields(command.header.fields)?;
        // What was put before on the same connection must be found.
        self.settle(now);
        let max_count = match request.is_unique_key {
            Some(true) => MOST_OF_ONE_ID,
            _ => usize::try_from(request.max_count).unwrap_or(0),
        };
        let times = request.begin_timestamp..=request.end_timestamp;
        let found = self.store.query(&request.topic, &request.key, max_count, times);
        let nothing = found.messages.is_empty();
        let fields = QueryMessageResponse {
            index_last_update_timestamp: if nothing { 0 } else { found.index_last_update_timestamp },
            index_last_update_offset: if nothing { 0 } else { found.index_last_update_offset },
        };
        let mut reply = if nothing {
            Reply::new(ResponseCode::QUERY_NOT_FOUND).remark("can not find message, maybe time range not correct")
        } else {
            Reply::success()
        };
        if !nothing {
            reply.body = ReplyBody::Records(found.messages);
        }
        Ok(reply.fields(ReplyFields::Queried(fields)).into())
    }

    /// Returns the message at a place in the log.
    pub(super) fn view_message<'a>(&self, command: &Command<'a>) -> Handled<'a> {
        let request = ViewMessageRequest::decode_fields(command.header.fields)?;
        let found = u64::try_from(request.offset).ok().and_then(|offset| self.store.message_at(offset));
        let Some(record) = found else {
            let remark = format!("can not find message by the offset, {}", request.offset);
            return Ok(Reply::new(ResponseCode::SYSTEM_ERROR).remark(remark).into());
        };
        let mut reply = Reply::success();
        reply.body = ReplyBody::Records(vec![record]);
        Ok(reply.into())
    }

    /// Shows entries of a queue.
    pub(super) fn query_consume_queue<'a>(&self, command: &Command<'a>) -> Handled<'a> {
        let request = QueryConsumeQueueRequest::decode_fields(command.header.fields)?;
        let (topic, queue_id): (&str, i32) = (&request.topic, request.queue_id);
        if !self.store.queue_ids(topic).any(|known| known == queue_id) {
            let remark = format!("{queue_id}@{topic} is not exist!");
            return Ok(Reply::new(ResponseCode::SYSTEM_ERROR).remark(remark).into());
        }
        let mut page = ConsumeQueuePage::default();
        if self.compatibility.shows_consume_queues() {
            page.max_queue_index = self.store.max_offset(topic, queue_id) as i64;
            page.min_queue_index = self.store.min_offset(topic, queue_id) as i64;
            page.queue_data = Some(self.entries(topic, queue_id, request.index, request.count));
            let group = request.consumer_group.as_deref().filter(|group| !group.is_empty());
            let online = group.and_then(|group| self.clients.consumer_group(group));
            page.subscription_data = online.and_then(|online| online.subscription(topic)).cloned();
            // Tags need no filter data, and without it Apache does not try the filter either.
            page.filter_data = page.subscription_data.is_some().then(|| "null".to_owned());
        }
        Ok(Reply::success().remark(NO_REMARK).body(crate::json::to_vec(&page)).into())
    }

    fn entries(&self, topic: &str, queue_id: i32, index: i64, count: i32) -> Vec<ConsumeQueueEntry> {
        let mut offset = u64::try_from(index).unwrap_or(0).max(self.store.min_offset(topic, queue_id));
        let wanted = usize::try_from(count.clamp(0, MOST_ENTRIES)).unwrap_or(0);
        let mut entries = Vec::new();
        while entries.len() < wanted {
            let left = wanted - entries.len();
            let found = self.store.get(topic, queue_id, offset, left, usize::MAX, &|_| true);
            let records = found.messages.iter().filter_map(|bytes| RecordView::parse(bytes).ok());
            entries.extend(records.map(|record| ConsumeQueueEntry {
                bit_map: None,
                eval: false,
                extend_data_json: None,
                physic_offset: record.physical_offset(),
                physic_size: record.size() as i32,
                tags_code: record.tags_code(),
            }));
            if found.next_begin_offset <= offset {
                break;
            }
            offset = found.next_begin_offset;
        }
        entries.truncate(wanted);
        entries
    }
}
