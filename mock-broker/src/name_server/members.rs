//! What brokers of 5.x ask besides: to be believed for longer (904), who is in their group (901), and to enter one
//! topic (217).

use std::borrow::Cow;
use std::fmt::Write;

use rocketmq_wire::model::TopicRoute;
use rocketmq_wire::{DecodeError, RequestCode, fastjson};

use super::NameServer;
use crate::reply::{Command, Reply, ReplyFields};

type Handled<'a> = Result<Reply<'a>, DecodeError>;

impl NameServer {
    /// Serves a request that only brokers of 5.x send; none if it is another one, or this version has no such request.
    pub(super) fn member_request<'a>(
        &mut self,
        now: std::time::Duration,
        command: &Command<'a>,
    ) -> Option<Handled<'a>> {
        if !self.compatibility.has_acting_masters() {
            return None;
        }
        match command.code() {
            RequestCode::BROKER_HEARTBEAT => Some(self.heartbeat(now, command)),
            RequestCode::GET_BROKER_MEMBER_GROUP => Some(self.member_group(command)),
            RequestCode::REGISTER_TOPIC_IN_NAMESRV => Some(self.register_topic(command)),
            _ => None,
        }
    }

    /// A heartbeat renews a registration; it does not make one.
    fn heartbeat<'a>(&mut self, now: std::time::Duration, command: &Command<'a>) -> Handled<'a> {
        self.routes.renew(&required(command, "brokerAddr")?, now);
        Ok(Reply::success())
    }

    fn member_group<'a>(&self, command: &Command<'a>) -> Handled<'a> {
        let (cluster, name) = (required(command, "clusterName")?, required(command, "brokerName")?);
        let mut out = String::from("{\"brokerMemberGroup\":{\"brokerAddrs\":{");
        let members = self.routes.brokers().get(&*name).into_iter().flat_map(|group| group.addresses());
        for (index, (id, address)) in members.enumerate() {
            // Writing to a string cannot fail. Apache's dialect has bare numbers as keys.
            let _ = write!(out, "{}{id}:", if index == 0 { "" } else { "," });
            crate::json::text(&mut out, address);
        }
        out.push_str("},\"brokerName\":");
        crate::json::text(&mut out, &name);
        out.push_str(",\"cluster\":");
        crate::json::text(&mut out, &cluster);
        out.push_str("}}");
        Ok(Reply::success().fields(ReplyFields::Empty).body(out))
    }

    /// Enters a topic of brokers that are registered.
    fn register_topic<'a>(&mut self, command: &Command<'a>) -> Handled<'a> {
        let topic = required(command, "topic")?;
        let route: TopicRoute = fastjson::from_slice("route of a topic", command.body)?;
        for queues in route.queue_datas {
            self.routes.set_queues(&topic, queues);
        }
        Ok(Reply::success())
    }
}

fn required<'a>(command: &Command<'a>, name: &'static str) -> Result<Cow<'a, str>, DecodeError> {
    command.header.fields.get(name).ok_or(DecodeError::MissingField(name))
}
