//! The name server: which brokers there are, and where each topic is.

mod admin;
mod answers;
mod compressed_registration;
mod members;
mod route_table;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::time::Duration;

use rocketmq_wire::header::DecodeFields;
use rocketmq_wire::model::{DataVersion, RegisterBrokerBody, TopicConfigTable};
use rocketmq_wire::request::registration::{
    QueryDataVersionRequest, QueryDataVersionResponse, RegisterBrokerRequest, RegisterBrokerResponse,
    UnregisterBrokerRequest,
};
use rocketmq_wire::request::route::TopicRouteRequest;
use rocketmq_wire::{DecodeError, RequestCode, ResponseCode, fastjson};

use crate::compatibility::Compatibility;
use crate::reply::{Command, ConnectionId, Outcome, Peer, Reply, ReplyFields};
use admin::KeyValues;
pub(crate) use route_table::{BrokerIdentity, Lifetime, RouteTable};

/// How long a registration lasts without another one.
const REGISTRATION_LIFETIME: Duration = Duration::from_secs(120);

/// A name server in memory, as Apache's is.
#[derive(Debug, Clone)]
pub(crate) struct NameServer {
    compatibility: Compatibility,
    routes: RouteTable,
    key_values: KeyValues,
    /// Whether routes say which topics have fixed queues (`orderMessageEnable`).
    serves_ordered_topics: bool,
}

impl NameServer {
    pub(crate) fn new(compatibility: Compatibility) -> Self {
        NameServer {
            compatibility,
            routes: RouteTable::default(),
            key_values: KeyValues::default(),
            serves_ordered_topics: false,
        }
    }

    /// The routes, for the broker in the same process to register in.
    pub(crate) fn routes_mut(&mut self) -> &mut RouteTable {
        &mut self.routes
    }

    /// Answers a request at session time `now`.
    pub(crate) fn handle<'a>(&mut self, now: Duration, peer: &Peer, command: &Command<'a>) -> Outcome<'a> {
        let answer = match command.code() {
            RequestCode::GET_ROUTEINFO_BY_TOPIC => self.route(command),
            RequestCode::GET_BROKER_CLUSTER_INFO => {
                Ok(Reply::success().body(answers::cluster(self.compatibility, &self.routes)))
            }
            RequestCode::GET_ALL_TOPIC_LIST_FROM_NAMESERVER => {
                Ok(Reply::success().body(answers::topic_list(&self.routes)))
            }
            RequestCode::REGISTER_BROKER => self.register(now, peer, command),
            RequestCode::UNREGISTER_BROKER => self.unregister(command),
            RequestCode::QUERY_DATA_VERSION => self.query_data_version(now, command),
            code => {
                if let Some(answer) = self.admin(command).or_else(|| self.member_request(now, command)) {
                    return answer.unwrap_or_else(|error| Reply::undecodable(&error)).into();
                }
                tracing::warn!(%code, peer = %peer.address, "request to the name server that is not served");
                if self.compatibility.name_server_ignores(code) {
                    return Outcome::Silent;
                }
                Ok(Reply::not_supported(code))
            }
        };
        answer.unwrap_or_else(|error| Reply::undecodable(&error)).into()
    }

    /// Drops what belongs to a connection that is gone.
    pub(crate) fn connection_closed(&mut self, connection: ConnectionId) {
        self.routes.remove_connection(connection);
    }

    /// Drops registrations that were not renewed in time. To be called every five seconds.
    pub(crate) fn expire(&mut self, now: Duration) {
        self.routes.expire(now);
    }

    fn route<'a>(&self, command: &Command<'a>) -> Result<Reply<'a>, DecodeError> {
        // A request without a topic is answered like one for a topic of the name `null`.
        let topic = command.header.fields.get("topic").unwrap_or(Cow::Borrowed("null"));
        let standard_only = match TopicRouteRequest::decode_fields(command.header.fields) {
            Ok(request) => request.accept_standard_json_only.unwrap_or(false),
            Err(DecodeError::MissingField(_)) => false,
            Err(error) => return Err(error),
        };
        let quoted = self.compatibility.quotes_route_keys(command.header.head.version, standard_only);
        let fixed = self.key_values.value(admin::ORDERED_TOPICS, &topic).filter(|_| self.serves_ordered_topics);
        Ok(match answers::route(self.compatibility, &self.routes, &topic, fixed, quoted) {
            Some(body) => Reply::success().body(body),
            None => Reply::new(ResponseCode::TOPIC_NOT_EXIST).remark(format!(
                "No topic route info in name server for the topic: {topic}{}",
                self.compatibility.further_details()
            )),
        })
    }

    fn register<'a>(&mut self, now: Duration, peer: &Peer, command: &Command<'a>) -> Result<Reply<'a>, DecodeError> {
        let request = RegisterBrokerRequest::decode_fields(command.header.fields)?;
        let expected = request.body_crc32.unwrap_or(0);
        if expected != 0 && expected != i64::from(rocketmq_wire::message::record::body_crc(command.body)) {
            return Ok(Reply::new(ResponseCode::SYSTEM_ERROR).remark("crc32 not match").fields(ReplyFields::Empty));
        }
        let topics = if command.body.is_empty() {
            TopicConfigTable::default()
        } else if request.compressed == Some(true) {
            compressed_registration::read(command.body)?
        } else {
            let body: RegisterBrokerBody = fastjson::from_slice("registration of a broker", command.body)?;
            body.topic_config_serialize_wrapper
        };
        let broker = BrokerIdentity {
            cluster: request.cluster_name.into_owned(),
            name: request.broker_name.into_owned(),
            id: request.broker_id,
            address: request.broker_address.into_owned(),
            ha_address: request.ha_server_address.into_owned(),
        };
        let is_update = self.compatibility.refuses_update_as_first_registration()
            && topics.topic_config_table.len() == 1
            && !self.routes.is_registered(&broker.address);
        let is_replaced = self.routes.is_replaced(&broker, topics.data_version.state_version);
        if is_update || is_replaced {
            let refused = Reply::new(ResponseCode::SYSTEM_ERROR).remark("register broker failed");
            return Ok(refused.fields(ReplyFields::Empty));
        }
        let lifetime = Lifetime::Session {
            connection: peer.connection,
            last_seen: now,
            lasts: request
                .heartbeat_timeout_millis
                .and_then(|millis| u64::try_from(millis).ok())
                .map_or(REGISTRATION_LIFETIME, Duration::from_millis),
        };
        let acting = request.enable_acting_master.unwrap_or(false);
        let master = self.routes.register(&broker, lifetime, acting, topics);
        let fields = match master {
            Some((address, ha_address)) => RegisterBrokerResponse {
                ha_server_address: Some(ha_address.into()),
                master_address: Some(address.into()),
            },
            None => RegisterBrokerResponse::default(),
        };
        let reply = Reply::success().fields(ReplyFields::Registered(fields));
        Ok(match self.key_values.list(admin::ORDERED_TOPICS) {
            Some(ordered) => reply.body(ordered),
            None => reply,
        })
    }

    fn unregister<'a>(&mut self, command: &Command<'a>) -> Result<Reply<'a>, DecodeError> {
        let request = UnregisterBrokerRequest::decode_fields(command.header.fields)?;
        self.routes.unregister(&request.broker_name, request.broker_id, &request.broker_address);
        Ok(Reply::success())
    }

    fn query_data_version<'a>(&mut self, now: Duration, command: &Command<'a>) -> Result<Reply<'a>, DecodeError> {
        let request = QueryDataVersionRequest::decode_fields(command.header.fields)?;
        let asked: DataVersion = fastjson::from_slice("data version", command.body)?;
        let recorded = self.routes.data_version(&request.broker_address);
        let changed = recorded != Some(asked);
        if !changed {
            self.routes.renew(&request.broker_address, now);
        }
        let reply = Reply::success().fields(ReplyFields::DataVersion(QueryDataVersionResponse { changed }));
        Ok(match recorded {
            Some(version) => reply.body(crate::json::data_version(self.compatibility, version)),
            None => reply,
        })
    }
}
