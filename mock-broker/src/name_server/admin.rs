//! What administrators ask of a name server: the key-value configuration (codes 100, 101, 102 and 219), lists of topics
//! (224, 304, 311, 312, 313), permissions (205, 327), deletion (216) and the name server's own properties (318, 319).

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use rocketmq_wire::header::DecodeFields;
use rocketmq_wire::model::{KeyValueTable, TopicList};
use rocketmq_wire::request::name_server::{
    AddWritePermRequest, DeleteKvConfigRequest, DeleteTopicInNameServerRequest, KvConfigRequest, KvListRequest,
    PutKvConfigRequest, TopicsByClusterRequest, WipeWritePermRequest,
};
use rocketmq_wire::{DecodeError, RequestCode, ResponseCode};

use super::NameServer;
use crate::reply::{Command, Reply, ReplyFields};

/// The namespace of the topics whose queues are fixed, so that messages stay in order.
pub(super) const ORDERED_TOPICS: &str = "ORDER_TOPIC_CONFIG";

/// Properties that an administrator must not set.
const PROTECTED: [&str; 3] = ["configBlackList", "configStorePath", "kvConfigPath"];

/// Bits of a topic's system flag.
const UNIT: i32 = 1;
const UNIT_SUBSCRIPTION: i32 = 2;

/// Values by namespace and key; in memory, as all of this name server is.
#[derive(Debug, Clone, Default)]
pub(super) struct KeyValues(BTreeMap<String, BTreeMap<String, String>>);

impl KeyValues {
    pub(super) fn value(&self, namespace: &str, key: &str) -> Option<&str> {
        self.0.get(namespace)?.get(key).map(String::as_str)
    }

    /// All values of a namespace as JSON; none if nothing was ever put there.
    pub(super) fn list(&self, namespace: &str) -> Option<Vec<u8>> {
        let table = self.0.get(namespace)?.clone();
        Some(crate::json::to_vec(&KeyValueTable { table }))
    }
}

type Handled<'a> = Result<Reply<'a>, DecodeError>;

impl NameServer {
    /// Serves a request of an administrator; none if this name server, or the version it behaves like, has no such
    /// request.
    pub(super) fn admin<'a>(&mut self, command: &Command<'a>) -> Option<Handled<'a>> {
        Some(match command.code() {
            RequestCode::PUT_KV_CONFIG => self.put(command),
            RequestCode::GET_KV_CONFIG => self.value(command),
            RequestCode::DELETE_KV_CONFIG => self.delete(command),
            RequestCode::GET_KVLIST_BY_NAMESPACE => self.list(command),
            RequestCode::DELETE_TOPIC_IN_NAMESRV => self.delete_topic(command),
            RequestCode::WIPE_WRITE_PERM_OF_BROKER => self.wipe_write_perm(command),
            RequestCode::ADD_WRITE_PERM_OF_BROKER if self.compatibility.has_requests_of_4_9() => {
                self.add_write_perm(command)
            }
            RequestCode::GET_TOPICS_BY_CLUSTER => self.topics_of_cluster(command),
            RequestCode::GET_SYSTEM_TOPIC_LIST_FROM_NS => Ok(self.system_topics()),
            RequestCode::GET_UNIT_TOPIC_LIST => Ok(self.topics_with_flag(|flag| flag & UNIT != 0)),
            RequestCode::GET_HAS_UNIT_SUB_TOPIC_LIST => Ok(self.topics_with_flag(|flag| flag & UNIT_SUBSCRIPTION != 0)),
            RequestCode::GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST => {
                Ok(self.topics_with_flag(|flag| flag & (UNIT | UNIT_SUBSCRIPTION) == UNIT_SUBSCRIPTION))
            }
            RequestCode::UPDATE_NAMESRV_CONFIG => Ok(self.update_config(command.body)),
            RequestCode::GET_NAMESRV_CONFIG => Ok(self.config()),
            _ => return None,
        })
    }

    fn put<'a>(&mut self, command: &Command<'a>) -> Handled<'a> {
        let request = PutKvConfigRequest::decode_fields(command.header.fields)?;
        let namespace = self.key_values.0.entry(request.namespace.into_owned()).or_default();
        namespace.insert(request.key.into_owned(), request.value.into_owned());
        Ok(Reply::success())
    }

    fn value<'a>(&self, command: &Command<'a>) -> Handled<'a> {
        let request = KvConfigRequest::decode_fields(command.header.fields)?;
        Ok(match self.key_values.value(&request.namespace, &request.key) {
            Some(value) => Reply::success().fields(ReplyFields::Text("value", value.to_owned().into())),
            None => {
                let remark = format!("No config item, Namespace: {} Key: {}", request.namespace, request.key);
                Reply::new(ResponseCode::QUERY_NOT_FOUND).remark(remark).fields(ReplyFields::Empty)
            }
        })
    }

    fn delete<'a>(&mut self, command: &Command<'a>) -> Handled<'a> {
        let request = DeleteKvConfigRequest::decode_fields(command.header.fields)?;
        if let Some(namespace) = self.key_values.0.get_mut(&*request.namespace) {
            namespace.remove(&*request.key);
        }
        Ok(Reply::success())
    }

    fn list<'a>(&self, command: &Command<'a>) -> Handled<'a> {
        let request = KvListRequest::decode_fields(command.header.fields)?;
        Ok(match self.key_values.list(&request.namespace) {
            Some(body) => Reply::success().body(body),
            None => {
                let remark = format!("No config item, Namespace: {}", request.namespace);
                Reply::new(ResponseCode::QUERY_NOT_FOUND).remark(remark)
            }
        })
    }

    fn delete_topic<'a>(&mut self, command: &Command<'a>) -> Handled<'a> {
        let request = DeleteTopicInNameServerRequest::decode_fields(command.header.fields)?;
        // 4.4 does not read the cluster.
        let cluster = request.cluster_name.as_deref().filter(|_| self.compatibility.has_requests_of_4_9());
        self.routes.delete_topic(&request.topic, cluster);
        Ok(Reply::success())
    }

    fn wipe_write_perm<'a>(&mut self, command: &Command<'a>) -> Handled<'a> {
        let request = WipeWritePermRequest::decode_fields(command.header.fields)?;
        let count = self.routes.set_writable(&request.broker_name, false);
        Ok(Reply::success().fields(ReplyFields::Number("wipeTopicCount", count)))
    }

    fn add_write_perm<'a>(&mut self, command: &Command<'a>) -> Handled<'a> {
        let request = AddWritePermRequest::decode_fields(command.header.fields)?;
        let count = self.routes.set_writable(&request.broker_name, true);
        Ok(Reply::success().fields(ReplyFields::Number("addTopicCount", count)))
    }

    fn topics_of_cluster<'a>(&self, command: &Command<'a>) -> Handled<'a> {
        let request = TopicsByClusterRequest::decode_fields(command.header.fields)?;
        Ok(topic_list(self.routes.topics_of_cluster(&request.cluster), None))
    }

    /// The topics named like clusters and brokers, and the address of a broker.
    fn system_topics(&self) -> Reply<'static> {
        let brokers = self.routes.brokers();
        let mut topics: BTreeSet<&str> = brokers.values().map(|group| group.cluster.as_str()).collect();
        topics.extend(brokers.keys().map(String::as_str));
        let address = brokers.values().find_map(|group| group.addresses().next()).map(|(_, address)| address);
        topic_list(topics.into_iter(), address)
    }

    fn topics_with_flag(&self, wanted: impl Fn(i32) -> bool) -> Reply<'static> {
        let has_flag = |topic: &&str| {
            let mut queues = self.routes.queues(topic).into_iter().flatten();
            queues.any(|(_, queues)| wanted(queues.topic_sys_flag))
        };
        topic_list(self.routes.topics().filter(has_flag), None)
    }

    fn update_config(&mut self, body: &[u8]) -> Reply<'static> {
        let Ok(text) = std::str::from_utf8(body) else {
            return Reply::new(ResponseCode::SYSTEM_ERROR).remark("string2Properties error");
        };
        let properties = text.lines().filter_map(|line| line.split_once('='));
        let properties: Vec<_> = properties.map(|(key, value)| (key.trim(), value.trim())).collect();
        if self.compatibility.protects_properties() && properties.iter().any(|(key, _)| PROTECTED.contains(key)) {
            return Reply::new(ResponseCode::NO_PERMISSION).remark("Can not update config in black list.");
        }
        // What is not honoured is ignored, as by Apache's name server.
        for (key, value) in properties {
            if key == "orderMessageEnable" {
                self.serves_ordered_topics = value == "true";
            }
        }
        Reply::success()
    }

    fn config(&self) -> Reply<'static> {
        let mut out = String::new();
        // Writing to a string cannot fail.
        let _ = writeln!(out, "orderMessageEnable={}", self.serves_ordered_topics);
        out.push_str("returnOrderTopicConfigToBroker=true\n");
        Reply::success().body(out)
    }
}

fn topic_list<'a>(topics: impl Iterator<Item = &'a str>, broker: Option<&str>) -> Reply<'static> {
    let list = TopicList { broker_addr: broker.map(str::to_owned), topic_list: topics.map(str::to_owned).collect() };
    Reply::success().body(crate::json::to_vec(&list))
}
