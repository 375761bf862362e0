//! Who is connected: codes 203, 204 and 328.

use rocketmq_wire::ResponseCode;
use rocketmq_wire::header::DecodeFields;
use rocketmq_wire::model::{Connection, ConsumerConnection, ProducerConnection, ProducerInfo, ProducerTable};
use rocketmq_wire::request::admin::{ConsumerConnectionRequest, ProducerConnectionRequest};

use super::Handled;
use crate::broker::Broker;
use crate::broker::clients::Member;
use crate::clock::Now;
use crate::reply::{Command, Reply};

impl Broker {
    /// Lists the members of a consumer group and what it subscribes to.
    pub(super) fn consumer_connections<'a>(&self, command: &Command<'a>) -> Handled<'a> {
        let request = ConsumerConnectionRequest::decode_fields(command.header.fields)?;
        let group: &str = &request.consumer_group;
        let Some(online) = self.clients.consumer_group(group) else {
            let remark = format!("the consumer group[{group}] not online");
            return Ok(Reply::new(ResponseCode::CONSUMER_NOT_ONLINE).remark(remark).into());
        };
        let answer = ConsumerConnection {
            connection_set: online.members().map(|(_, member)| connection(member)).collect(),
            consume_from_where: online.consume_from_where().to_owned(),
            consume_type: online.consume_type().to_owned(),
            message_model: online.message_model().to_owned(),
            subscription_table: online.subscriptions(),
        };
        Ok(Reply::success().body(crate::json::to_vec(&answer)).into())
    }

    /// Lists the members of a producer group.
    pub(super) fn producer_connections<'a>(&self, command: &Command<'a>) -> Handled<'a> {
        let request = ProducerConnectionRequest::decode_fields(command.header.fields)?;
        let group: &str = &request.producer_group;
        let Some(members) = self.clients.producer_group(group) else {
            let remark = format!("the producer group[{group}] not exist");
            return Ok(Reply::new(ResponseCode::SYSTEM_ERROR).remark(remark).into());
        };
        let answer = ProducerConnection { connection_set: members.map(connection).collect() };
        Ok(Reply::success().body(crate::json::to_vec(&answer)).into())
    }

    /// Lists all producers.
    pub(super) fn all_producers<'a>(&self, now: Now) -> Handled<'a> {
        let describe = |member: &Member| ProducerInfo {
            client_id: member.client_id.clone(),
            language: member.language.name().to_owned(),
            last_update_timestamp: now.message_ms - now.session.saturating_sub(member.last_seen).as_millis() as i64,
            remote_ip: format!("/{}", member.address),
            version: member.version.0,
        };
        let groups = self.clients.producer_groups().into_iter();
        let data = groups.map(|(group, members)| (group.to_owned(), members.into_iter().map(describe).collect()));
        Ok(Reply::success().body(crate::json::to_vec(&ProducerTable { data: data.collect() })).into())
    }
}

fn connection(member: &Member) -> Connection {
    Connection {
        client_addr: member.address.to_string(),
        client_id: member.client_id.clone(),
        language: member.language.name().to_owned(),
        version: member.version.0,
    }
}
