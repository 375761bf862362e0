//! Clients that come, stay and go: codes 34, 35, 38 and 46.

use rocketmq_wire::filter::SqlExpression;
use rocketmq_wire::header::DecodeFields;
use rocketmq_wire::message::names;
use rocketmq_wire::model::{CheckClient, ConsumerList, HeartbeatData, perm};
use rocketmq_wire::request::group::{ConsumerListRequest, HeartbeatResponse, UnregisterClientRequest};
use rocketmq_wire::{DecodeError, ResponseCode, fastjson};

use super::Broker;
use super::clients::Member;
use crate::clock::Now;
use crate::filter::is_tag_type;
use crate::reply::{Command, Outcome, Peer, Reply, ReplyFields};

impl Broker {
    /// Enters a client and its groups, or renews them. Retry topics of consumer groups come into being here.
    pub(super) fn heartbeat<'a>(
        &mut self,
        now: Now,
        peer: &Peer,
        command: &Command<'a>,
    ) -> Result<Outcome<'a>, DecodeError> {
        let data: HeartbeatData = fastjson::from_slice("heartbeat", command.body)?;
        let member = Member {
            client_id: data.client_id,
            serialize_type: command.serialize_type,
            address: peer.address,
            language: command.header.head.language,
            version: command.header.head.version,
            last_seen: now.session,
        };
        // A heartbeat without subscriptions is enough for a client that is known with them.
        let short = data.without_sub && self.compatibility.understands_short_heartbeats();
        let mut wants_subscriptions = !short;
        for consumer in data.consumer_data_set {
            if short {
                let known = self.clients.renew_consumer(peer.connection, &consumer.group_name, now.session);
                wants_subscriptions |= !known;
                continue;
            }
            let group = consumer.group_name.clone();
            let Some(config) = self.groups.get_or_create(&group, now.message_ms) else {
                tracing::warn!(group, "heartbeat of a group that does not exist and may not be created");
                continue;
            };
            let queues = config.retry_queue_nums;
            if queues > 0 {
                let retry = names::retry_topic(&group);
                self.topics.get_or_create(&retry, queues, perm::READ | perm::WRITE, now.message_ms);
            }
            let dialect = self.compatibility.sql_dialect();
            self.sql_filters.register(&group, &consumer.subscription_data_set, dialect, now.message_ms);
            if self.clients.register_consumer(peer.connection, member.clone(), consumer) {
                self.notify_members(&group);
            }
        }
        for producer in data.producer_data_set {
            self.clients.register_producer(peer.connection, member.clone(), producer.group_name);
        }
        let reply = Reply::success();
        if !self.compatibility.understands_short_heartbeats() {
            return Ok(reply.into());
        }
        let fields = HeartbeatResponse { supports_v2: Some(true), subscription_changed: Some(wants_subscriptions) };
        Ok(reply.fields(ReplyFields::Heartbeat(fields)).into())
    }

    /// Takes the connection that asks out of a group; the client id it names does not matter.
    pub(super) fn unregister_client<'a>(
        &mut self,
        peer: &Peer,
        command: &Command<'a>,
    ) -> Result<Outcome<'a>, DecodeError> {
        let request = UnregisterClientRequest::decode_fields(command.header.fields)?;
        if let Some(group) = &request.producer_group {
            self.clients.unregister_producer(peer.connection, group);
        }
        if let Some(group) = &request.consumer_group
            && self.clients.unregister_consumer(peer.connection, group)
        {
            self.notify_members(group);
        }
        Ok(Reply::success().fields(ReplyFields::Empty).into())
    }

    /// Lists the members of a group.
    pub(super) fn consumer_list<'a>(&mut self, command: &Command<'a>) -> Result<Outcome<'a>, DecodeError> {
        let request = ConsumerListRequest::decode_fields(command.header.fields)?;
        let group = &request.consumer_group;
        let reply = match self.clients.consumer_group(group) {
            Some(online) => {
                let consumer_id_list = online.client_ids().map(str::to_owned).collect();
                Reply::success().body(crate::json::to_vec(&ConsumerList { consumer_id_list }))
            }
            None => Reply::new(ResponseCode::SYSTEM_ERROR).remark(format!("no consumer for this group, {group}")),
        };
        Ok(reply.fields(ReplyFields::Empty).into())
    }

    /// Says whether the broker understands a subscription.
    pub(super) fn check_client<'a>(&mut self, command: &Command<'a>) -> Result<Outcome<'a>, DecodeError> {
        let check: CheckClient = fastjson::from_slice("subscription to be checked", command.body)?;
        let subscription = &check.subscription_data;
        if is_tag_type(Some(&subscription.expression_type)) {
            return Ok(Reply::success().into());
        }
        if !self.settings.filters_by_property {
            let remark = "The broker does not support consumer to filter message by SQL92";
            return Ok(Reply::new(ResponseCode::SYSTEM_ERROR).remark(remark).into());
        }
        Ok(match SqlExpression::parse(&subscription.sub_string, self.compatibility.sql_dialect()) {
            Ok(_) => Reply::success(),
            Err(error) => Reply::new(ResponseCode::SUBSCRIPTION_PARSE_FAILED).remark(error.to_string()),
        }
        .into())
    }
}
