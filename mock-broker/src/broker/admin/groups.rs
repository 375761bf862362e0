//! Consumer groups: codes 200, 201, 207, 225, 300, 343, 345 and 352.

use std::collections::BTreeSet;

use rocketmq_wire::header::DecodeFields;
use rocketmq_wire::model::{GroupList, SubscriptionGroupConfig, SubscriptionGroupList, TopicList};
use rocketmq_wire::request::admin::{
    DeleteGroupRequest, GroupConfigRequest, TopicConsumersRequest, TopicsOfGroupRequest,
};
use rocketmq_wire::{DecodeError, ResponseCode, fastjson};
use serde::Serialize;

use super::Handled;
use crate::broker::Broker;
use crate::broker::groups::describe;
use crate::clock::Now;
use crate::reply::{Command, Reply, ReplyFields};

impl Broker {
    /// Creates a group or changes it.
    pub(super) fn create_group<'a>(&mut self, now: Now, command: &Command<'a>) -> Handled<'a> {
        let config: SubscriptionGroupConfig = fastjson::from_slice("consumer group", command.body)?;
        self.groups.set(config, now.message_ms);
        Ok(Reply::success().into())
    }

    /// Creates or changes several groups.
    pub(super) fn create_groups<'a>(&mut self, now: Now, command: &Command<'a>) -> Handled<'a> {
        let list: SubscriptionGroupList = fastjson::from_slice("consumer groups", command.body)?;
        for config in list.group_config_list {
            self.groups.set(config, now.message_ms);
        }
        Ok(Reply::success().into())
    }

    /// Deletes a group, and its offsets if asked to.
    pub(super) fn delete_group<'a>(&mut self, now: Now, command: &Command<'a>) -> Handled<'a> {
        let request = DeleteGroupRequest::decode_fields(command.header.fields)?;
        self.groups.remove(&request.group_name, now.message_ms);
        if request.clean_offset == Some(true) || request.remove_offset == Some(true) {
            self.offsets.remove_group(&request.group_name);
        }
        Ok(Reply::success().into())
    }

    /// Describes all groups.
    pub(super) fn all_group_config<'a>(&self) -> Handled<'a> {
        let table = self.groups.to_table(self.compatibility);
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct Answer {
            data_version: serde_json::Value,
            #[serde(skip_serializing_if = "Option::is_none")]
            forbidden_table: Option<std::collections::BTreeMap<String, std::collections::BTreeMap<String, i32>>>,
            subscription_group_table: std::collections::BTreeMap<String, SubscriptionGroupConfig>,
        }
        let version = crate::json::data_version(self.compatibility, table.data_version);
        let answer = Answer {
            // It was just written as JSON.
            data_version: serde_json::from_str(&version).unwrap_or_default(),
            forbidden_table: table.forbidden_table,
            subscription_group_table: table.subscription_group_table,
        };
        Ok(Reply::success().body(crate::json::to_vec(&answer)).into())
    }

    /// Describes one group.
    pub(super) fn group_config<'a>(&self, command: &Command<'a>) -> Handled<'a> {
        let request = GroupConfigRequest::decode_fields(command.header.fields)?;
        let Some(mut config) = self.groups.get(&request.group).cloned() else {
            let refusal = Reply::new(ResponseCode::SUBSCRIPTION_GROUP_NOT_EXIST);
            return Ok(refusal.remark("No group in this broker").into());
        };
        describe(&mut config, self.compatibility);
        Ok(Reply::success().body(crate::json::to_vec(&config)).into())
    }

    /// Lists the groups that consume a topic, or have.
    pub(super) fn topic_consumers<'a>(&self, command: &Command<'a>) -> Handled<'a> {
        let request = TopicConsumersRequest::decode_fields(command.header.fields)?;
        let mut groups: BTreeSet<&str> = self.clients.groups_of_topic(&request.topic);
        groups.extend(self.offsets.groups_of(&request.topic));
        let list = GroupList { group_list: groups.into_iter().map(str::to_owned).collect() };
        Ok(Reply::success().body(crate::json::to_vec(&list)).into())
    }

    /// Lists the topics that a group has offsets for.
    pub(super) fn topics_of_group<'a>(&self, command: &Command<'a>) -> Handled<'a> {
        let request = TopicsOfGroupRequest::decode_fields(command.header.fields)?;
        let list = TopicList { broker_addr: None, topic_list: self.offsets.topics_of(&request.group) };
        Ok(Reply::success().body(crate::json::to_vec(&list)).into())
    }

    /// Says what a group subscribes to in a topic.
    pub(super) fn subscription_of_group<'a>(&self, command: &Command<'a>) -> Handled<'a> {
        let field = |name| command.header.fields.get(name).ok_or(DecodeError::MissingField(name));
        let (group, topic) = (field("group")?, field("topic")?);
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct Answer<'a> {
            group: &'a str,
            #[serde(skip_serializing_if = "Option::is_none")]
            subscription_data: Option<&'a rocketmq_wire::model::SubscriptionData>,
            topic: &'a str,
        }
        let online = self.clients.consumer_group(&group);
        let subscription_data = online.and_then(|online| online.subscription(&topic));
        let answer = Answer { group: &group, subscription_data, topic: &topic };
        Ok(Reply::success().fields(ReplyFields::Empty).body(crate::json::to_vec(&answer)).into())
    }
}
