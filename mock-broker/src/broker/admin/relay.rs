//! What consumers are asked through the broker: codes 223, 307 and 309.

use std::collections::BTreeMap;
use std::time::Duration;

use rocketmq_wire::header::{DecodeFields, SerializeType};
use rocketmq_wire::message::OffsetMessageId;
use rocketmq_wire::model::ConsumerStatus;
use rocketmq_wire::request::admin::{
    ConsumeDirectlyRequest, ConsumerRunningInfoRequest, ConsumerStatusFromClientRequest, ConsumerStatusRequest,
};
use rocketmq_wire::{ResponseCode, Version, fastjson};

use super::Handled;
use crate::broker::Broker;
use crate::broker::client_calls::{ClientAnswer, Purpose};
use crate::clock::Now;
use crate::reply::{Command, ConnectionId, Effect, Outcome, Peer, Reply, ReturnAddress};

/// How long a client may take to answer what is passed on to it.
const RELAY_LIMIT: Duration = Duration::from_secs(10);

/// How long each client may take to say where it is.
const STATUS_LIMIT: Duration = Duration::from_secs(5);

/// 3.1.8-SNAPSHOT, whose clients were the first to say what they do.
const OLDEST: Version = Version(62);

/// The remark of an answer whose handler set a code and nothing else.
const NO_REMARK: &str = "not set any response code";

/// A request that was passed on to a client.
#[derive(Debug)]
pub(in crate::broker) struct Relay {
    to: ReturnAddress,
    group: String,
    client_id: String,
}

/// Several clients that were asked where they are.
#[derive(Debug)]
struct Survey {
    to: ReturnAddress,
    /// Clients that have not answered.
    open: usize,
    found: ConsumerStatus,
}

/// The surveys under way.
#[derive(Debug, Default)]
pub(in crate::broker) struct Surveys {
    last: u64,
    open: BTreeMap<u64, Survey>,
}

impl Broker {
    /// Has a client say what it is doing.
    pub(super) fn running_info<'a>(&mut self, now: Now, peer: &Peer, command: &'a Command<'a>) -> Handled<'a> {
        let request = ConsumerRunningInfoRequest::decode_fields(command.header.fields)?;
        let (group, client_id) = (request.consumer_group.clone(), request.client_id.clone());
        let channel = match self.consumer_channel(&group, &client_id) {
            Ok(channel) => channel,
            Err(remark) => return Ok(Reply::new(ResponseCode::SYSTEM_ERROR).remark(remark).into()),
        };
        let relay =
            Relay { to: command.return_address(peer), group: group.into_owned(), client_id: client_id.into_owned() };
        self.ask_client(now, channel, (&request, &[]), RELAY_LIMIT, Purpose::Relay(relay));
        Ok(Outcome::Pending)
    }

    /// Has a client consume one message now.
    pub(super) fn consume_directly<'a>(&mut self, now: Now, peer: &Peer, command: &'a Command<'a>) -> Handled<'a> {
        let mut request = ConsumeDirectlyRequest::decode_fields(command.header.fields)?;
        let group = request.consumer_group.clone();
        let client_id = request.client_id.clone().unwrap_or_default();
        let channel = match self.consumer_channel(&group, &client_id) {
            Ok(channel) => channel,
            Err(remark) => return Ok(Reply::new(ResponseCode::SYSTEM_ERROR).remark(remark).into()),
        };
        let failed = |remark: String| Ok(Reply::new(ResponseCode::SYSTEM_ERROR).remark(remark).into());
        let text = request.message_id.as_deref().unwrap_or_default();
        let Ok(id) = text.parse::<OffsetMessageId>() else {
            return failed(format!("`{text}` is no message id of this broker"));
        };
        let found = u64::try_from(id.physical_offset).ok().and_then(|offset| self.store.message_at(offset));
        let Some(record) = found else {
            return failed(format!("can not find message by the offset, {}", id.physical_offset));
        };
        request.broker_name = Some(self.settings.broker_name.clone().into());
        let flag = self.compatibility.pull_answers_flags().then_some(0);
        (request.topic_sys_flag, request.group_sys_flag) = (flag, flag);
        let relay =
            Relay { to: command.return_address(peer), group: group.into_owned(), client_id: client_id.into_owned() };
        self.ask_client(now, channel, (&request, &record), RELAY_LIMIT, Purpose::Relay(relay));
        Ok(Outcome::Pending)
    }

    /// The connection of a member of a group, or why it cannot be asked.
    fn consumer_channel(&self, group: &str, client_id: &str) -> Result<(ConnectionId, SerializeType), String> {
        let mut members = self.clients.consumer_group(group).into_iter().flat_map(|online| online.members());
        let Some((connection, member)) = members.find(|(_, member)| member.client_id == client_id) else {
            return Err(format!("The Consumer <{group}> <{client_id}> not online"));
        };
        if member.version < OLDEST {
            return Err(format!(
                "The Consumer <{client_id}> Version <{}> too low to finish, please upgrade it to V3_1_8_SNAPSHOT",
                member.version.0
            ));
        }
        Ok((connection, member.serialize_type))
    }

    /// Passes a client's answer back as it is.
    pub(in crate::broker) fn relay_answered(&mut self, relay: Relay, answer: ClientAnswer) {
        let Relay { to, group, client_id } = relay;
        let reply = match answer {
            ClientAnswer::Answered { code, remark, body } => {
                let mut reply = Reply::new(ResponseCode(code));
                reply.remark = remark.map(Into::into);
                if body.is_empty() { reply } else { reply.body(body) }
            }
            ClientAnswer::TimedOut => Reply::new(ResponseCode::CONSUME_MSG_TIMEOUT)
                .remark(format!("consumer <{group}> <{client_id}> Timeout: it did not answer within {RELAY_LIMIT:?}")),
            ClientAnswer::Gone => Reply::new(ResponseCode::SYSTEM_ERROR)
                .remark(format!("invoke consumer <{group}> <{client_id}> Exception: its connection was closed")),
        };
        self.effects.push(Effect::Answer(to, reply));
    }

    /// Has the members of a group, or one of them, say where they are.
    pub(super) fn consumer_status<'a>(&mut self, now: Now, peer: &Peer, command: &'a Command<'a>) -> Handled<'a> {
        let request = ConsumerStatusRequest::decode_fields(command.header.fields)?;
        let group: &str = &request.group;
        let wanted = request.client_address.as_deref().filter(|wanted| !wanted.trim().is_empty());
        let members: Vec<_> = self
            .clients
            .consumer_group(group)
            .into_iter()
            .flat_map(|online| online.members())
            .map(|(connection, member)| (connection, member.serialize_type, member.client_id.clone()))
            .collect();
        if members.is_empty() {
            let remark = format!("No Any Consumer online in the consumer group: [{group}]");
            return Ok(Reply::new(ResponseCode::SYSTEM_ERROR).remark(remark).into());
        }
        let asked: Vec<_> =
            members.into_iter().filter(|(.., client_id)| wanted.is_none_or(|wanted| wanted == client_id)).collect();
        self.surveys.last += 1;
        let number = self.surveys.last;
        let survey =
            Survey { to: command.return_address(peer), open: asked.len().max(1), found: ConsumerStatus::default() };
        self.surveys.open.insert(number, survey);
        if asked.is_empty() {
            self.status_answered(number, String::new(), ClientAnswer::Gone);
        }
        let question = ConsumerStatusFromClientRequest {
            topic: request.topic.as_ref().into(),
            group: request.group.as_ref().into(),
        };
        for (connection, serialize_type, client_id) in asked {
            let purpose = Purpose::Status { survey: number, client_id };
            self.ask_client(now, (connection, serialize_type), (&question, &[]), STATUS_LIMIT, purpose);
        }
        Ok(Outcome::Pending)
    }

    /// Takes a client's place into a survey, and ends the survey with the last of them. Clients that do not say where
    /// they are, are left out.
    pub(in crate::broker) fn status_answered(&mut self, number: u64, client_id: String, answer: ClientAnswer) {
        let Some(survey) = self.surveys.open.get_mut(&number) else { return };
        if let ClientAnswer::Answered { code: 0, body, .. } = answer {
            match fastjson::from_slice::<ConsumerStatus>("where a consumer is", &body) {
                Ok(status) => {
                    survey.found.consumer_table.insert(client_id, status.message_queue_table);
                }
                Err(error) => tracing::warn!(%error, client_id, "a consumer's answer cannot be read"),
            }
        }
        survey.open -= 1;
        if survey.open == 0
            && let Some(survey) = self.surveys.open.remove(&number)
        {
            let reply = Reply::success().remark(NO_REMARK).body(crate::json::to_dialect(&survey.found));
            self.effects.push(Effect::Answer(survey.to, reply));
        }
    }
}
