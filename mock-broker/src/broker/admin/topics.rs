//! Topics: codes 18, 21, 202, 215 and 305.

use std::collections::BTreeMap;
use std::fmt::Write;

use rocketmq_wire::fastjson::{self, ObjectKey};
use rocketmq_wire::header::DecodeFields;
use rocketmq_wire::message::names;
use rocketmq_wire::model::{QueueBounds, TopicConfigList, TopicList, TopicStats};
use rocketmq_wire::request::admin::{DeleteTopicRequest, TopicStatsRequest};

use super::{Handled, no_such_topic};
use crate::broker::Broker;
use crate::broker::topic_requests::to_text;
use crate::clock::Now;
use crate::reply::{Command, Reply, ReplyFields};

impl Broker {
    /// Creates or changes several topics; none of them if one of the names is not valid.
    pub(super) fn create_topics<'a>(&mut self, now: Now, command: &Command<'a>) -> Handled<'a> {
        let list: TopicConfigList = fastjson::from_slice("topics to create", command.body)?;
        for config in &list.topic_config_list {
            if let Some(refusal) = self.refuse_topic_name(&config.topic_name) {
                return Ok(refusal.into());
            }
        }
        for config in list.topic_config_list {
            self.topics.set(config, now.message_ms);
        }
        let mut reply = Reply::success();
        reply.remark = self.compatibility.create_topic_remark().map(Into::into);
        Ok(reply.into())
    }

    /// Deletes a topic with its queues and the offsets of all groups in it.
    pub(super) fn delete_topic<'a>(&mut self, now: Now, command: &Command<'a>) -> Handled<'a> {
        let request = DeleteTopicRequest::decode_fields(command.header.fields)?;
        let topic: &str = &request.topic;
        let invalid = |remark: String| Ok(Reply::new(self.compatibility.invalid_argument()).remark(remark).into());
        if self.compatibility.checks_topic_names() && topic.trim().is_empty() {
            return invalid("The specified topic is blank.".to_owned());
        }
        if self.compatibility.protects_system_topics() && self.is_system_topic(topic) {
            return invalid(format!("The topic[{topic}] is conflict with system topic."));
        }
        self.topics.remove(topic, now.message_ms);
        self.offsets.remove_topic(topic);
        self.counters.remove_topic(topic);
        // Pulls that wait for other topics must be woken by what is dispatched here.
        self.settle(now);
        if let Err(error) = self.store.delete_topic(topic) {
            tracing::error!(%error, topic, "the queues of a deleted topic are still there");
        }
        Ok(Reply::success().into())
    }

    /// Describes all topics.
    pub(super) fn all_topic_config<'a>(&self) -> Handled<'a> {
        let table = self.topics.to_table();
        let version = crate::json::data_version(self.compatibility, table.data_version);
        let mut out = format!("{{\"dataVersion\":{version},");
        if self.compatibility.topics_have_attributes() {
            // Of static topics, which there are none of.
            let version = crate::json::data_version(self.compatibility, Default::default());
            let _ = write!(out, "\"mappingDataVersion\":{version},");
        }
        out.push_str("\"topicConfigTable\":{");
        for (index, (name, config)) in table.topic_config_table.iter().enumerate() {
            if index > 0 {
                out.push(',');
            }
            crate::json::text(&mut out, name);
            out.push(':');
            out.push_str(&to_text(config, self.compatibility));
        }
        out.push('}');
        if self.compatibility.topics_have_attributes() {
            out.push_str(",\"topicQueueMappingDetailMap\":{},\"topicQueueMappingInfoMap\":{}");
        }
        out.push('}');
        Ok(Reply::success().fields(ReplyFields::Empty).body(out).into())
    }

    /// Says where the queues of a topic begin and end.
    pub(super) fn topic_stats<'a>(&self, command: &Command<'a>) -> Handled<'a> {
        let request = TopicStatsRequest::decode_fields(command.header.fields)?;
        let topic: &str = &request.topic;
        let Some(config) = self.topics.get(topic) else { return no_such_topic(topic) };
        let mut offset_table = BTreeMap::new();
        for queue_id in 0..config.read_queue_nums.max(config.write_queue_nums) {
            let max = self.store.max_offset(topic, queue_id);
            let newest = max.checked_sub(1).and_then(|newest| self.store.store_time_at(topic, queue_id, newest));
            let bounds = QueueBounds {
                last_update_timestamp: newest.unwrap_or(0),
                max_offset: max as i64,
                min_offset: self.store.min_offset(topic, queue_id) as i64,
            };
            offset_table.insert(ObjectKey(self.message_queue(topic, queue_id)), bounds);
        }
        let topic_put_tps = self
            .compatibility
            .counts_what_is_in_flight()
            .then(|| self.counters.topic_puts(topic).map_or(0.0, |stats| stats.stats_minute.tps));
        let stats = TopicStats { offset_table, topic_put_tps };
        Ok(Reply::success().body(crate::json::to_dialect(&stats)).into())
    }

    /// Lists the topics that belong to the system.
    pub(super) fn system_topics<'a>(&self) -> Handled<'a> {
        let compatibility = self.compatibility;
        let settings = &self.settings;
        let mut topics = vec![
            names::SELF_TEST_TOPIC.to_owned(),
            names::DEFAULT_TOPIC.to_owned(),
            names::BENCHMARK_TOPIC.to_owned(),
            settings.cluster.clone(),
            settings.broker_name.clone(),
            names::OFFSET_MOVED_EVENT_TOPIC.to_owned(),
        ];
        if compatibility.has_reply_topic() {
            topics.push(names::reply_topic(&settings.cluster));
        }
        if compatibility.lists_store_topics() {
            let store = [
                names::SCHEDULE_TOPIC,
                names::HALF_TOPIC,
                names::HALF_OP_TOPIC,
                names::TRANSACTION_CHECK_MAX_TIME_TOPIC,
                names::TRACE_TOPIC,
            ];
            topics.extend(store.map(str::to_owned));
        }
        if compatibility.has_topics_of_5() {
            topics.push(names::CHECKPOINT_TOPIC.to_owned());
            topics.push(names::TIMER_TOPIC.to_owned());
            topics.push(format!("rmq_sys_REVIVE_LOG_{}", settings.cluster));
            topics.push(format!("rmq_sys_SYNC_BROKER_MEMBER_{}", settings.broker_name));
        }
        topics.sort_unstable();
        let list = TopicList { broker_addr: None, topic_list: topics };
        Ok(Reply::success().body(crate::json::to_vec(&list)).into())
    }
}
