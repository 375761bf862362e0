//! Who is online: the members of consumer groups and of producer groups, by what their heartbeats said.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::SocketAddr;
use std::time::Duration;

use rocketmq_wire::header::SerializeType;
use rocketmq_wire::model::{ConsumerData, SubscriptionData, model};
use rocketmq_wire::{LanguageCode, Version};

use crate::reply::ConnectionId;

/// A client that is silent for longer is dropped and its connection closed.
const LIFETIME: Duration = Duration::from_secs(120);

/// A connection that is a member of a group.
#[derive(Debug, Clone)]
pub(crate) struct Member {
    pub(crate) client_id: String,
    pub(crate) serialize_type: SerializeType,
    pub(crate) address: SocketAddr,
    pub(crate) language: LanguageCode,
    pub(crate) version: Version,
    /// Session time of the latest heartbeat.
    pub(crate) last_seen: Duration,
}

/// A consumer group that somebody is online of.
#[derive(Debug, Default)]
pub(crate) struct ConsumerGroup {
    members: BTreeMap<ConnectionId, Member>,
    subscriptions: HashMap<String, SubscriptionData>,
    message_model: String,
    consume_type: String,
    consume_from_where: String,
}

impl ConsumerGroup {
    /// The members, in the order in which they came.
    pub(crate) fn members(&self) -> impl Iterator<Item = (ConnectionId, &Member)> {
        self.members.iter().map(|(&connection, member)| (connection, member))
    }

    /// All subscriptions, by topic.
    pub(crate) fn subscriptions(&self) -> BTreeMap<String, SubscriptionData> {
        self.subscriptions.iter().map(|(topic, data)| (topic.clone(), data.clone())).collect()
    }

    /// Whether the group subscribes to something, but not to that topic.
    pub(crate) fn ignores(&self, topic: &str) -> bool {
        !self.subscriptions.is_empty() && !self.subscriptions.contains_key(topic)
    }

    pub(crate) fn message_model(&self) -> &str {
        &self.message_model
    }

    pub(crate) fn consume_type(&self) -> &str {
        &self.consume_type
    }

    pub(crate) fn consume_from_where(&self) -> &str {
        &self.consume_from_where
    }

    pub(crate) fn subscription(&self, topic: &str) -> Option<&SubscriptionData> {
        self.subscriptions.get(topic)
    }

    pub(crate) fn is_broadcasting(&self) -> bool {
        self.message_model == model::BROADCASTING
    }

    /// The ids of the members, in the order in which they came.
    pub(crate) fn client_ids(&self) -> impl Iterator<Item = &str> {
        self.members.values().map(|member| member.client_id.as_str())
    }

    /// The connections of the members.
    pub(crate) fn connections(&self) -> impl Iterator<Item = (ConnectionId, SerializeType)> {
        self.members.iter().map(|(&connection, member)| (connection, member.serialize_type))
    }

    /// Takes over the subscriptions of a heartbeat, newer ones only, and drops topics that it does not name. Returns
    /// whether the topics changed.
    fn update_subscriptions(&mut self, subscriptions: Vec<SubscriptionData>) -> bool {
        let before = self.subscriptions.len();
        self.subscriptions.retain(|topic, _| subscriptions.iter().any(|new| new.topic == *topic));
        let mut changed = self.subscriptions.len() != before;
        for new in subscriptions {
            match self.subscriptions.get_mut(&new.topic) {
                Some(known) if known.sub_version < new.sub_version => *known = new,
                Some(_) => {}
                None => {
                    changed = true;
                    self.subscriptions.insert(new.topic.clone(), new);
                }
            }
        }
        changed
    }
}

/// All clients that are online.
#[derive(Debug, Default)]
pub(crate) struct Clients {
    consumers: HashMap<String, ConsumerGroup>,
    producers: HashMap<String, BTreeMap<ConnectionId, Member>>,
}

impl Clients {
    /// Enters a member of a consumer group, or renews it. Returns whether members have to be told: a new one came, or
    /// the topics changed.
    pub(crate) fn register_consumer(&mut self, connection: ConnectionId, member: Member, data: ConsumerData) -> bool {
        let group = self.consumers.entry(data.group_name).or_default();
        group.message_model = data.message_model;
        group.consume_type = data.consume_type;
        group.consume_from_where = data.consume_from_where;
        let is_new = group.members.insert(connection, member).is_none();
        group.update_subscriptions(data.subscription_data_set) || is_new
    }

    /// Renews a member of a consumer group whose heartbeat left out its subscriptions. Returns whether it was known.
    pub(crate) fn renew_consumer(&mut self, connection: ConnectionId, group: &str, now: Duration) -> bool {
        let member = self.consumers.get_mut(group).and_then(|group| group.members.get_mut(&connection));
        member.map(|member| member.last_seen = now).is_some()
    }

    /// Enters a member of a producer group, or renews it.
    pub(crate) fn register_producer(&mut self, connection: ConnectionId, member: Member, group: String) {
        self.producers.entry(group).or_default().insert(connection, member);
    }

    /// A consumer group, if somebody is online of it.
    pub(crate) fn consumer_group(&self, group: &str) -> Option<&ConsumerGroup> {
        self.consumers.get(group)
    }

    /// The consumer groups that somebody is online of.
    pub(crate) fn consumer_names(&self) -> impl Iterator<Item = &str> {
        self.consumers.keys().map(String::as_str)
    }

    /// A member of a producer group: the one whose turn it is when members are asked one after the other.
    pub(crate) fn producer_of(&self, group: &str, turn: usize) -> Option<(ConnectionId, SerializeType)> {
        let members = self.producers.get(group).filter(|members| !members.is_empty())?;
        members.iter().nth(turn % members.len()).map(|(&connection, member)| (connection, member.serialize_type))
    }

    /// The connection of a producer by its client id, whatever its group.
    pub(crate) fn producer_client(&self, client_id: &str) -> Option<(ConnectionId, SerializeType)> {
        let mut members = self.producers.values().flatten().filter(|(_, member)| member.client_id == client_id);
        members.next().map(|(&connection, member)| (connection, member.serialize_type))
    }

    /// The id of the client at the other end of a connection, if it has sent a heartbeat.
    pub(crate) fn client_id(&self, connection: ConnectionId) -> Option<&str> {
        let consumers = self.consumers.values().map(|group| &group.members);
        let member = consumers.chain(self.producers.values()).find_map(|members| members.get(&connection));
        member.map(|member| member.client_id.as_str())
    }

    /// The members of a producer group, if somebody is online of it.
    pub(crate) fn producer_group(&self, group: &str) -> Option<impl Iterator<Item = &Member>> {
        self.producers.get(group).map(BTreeMap::values)
    }

    /// All producer groups with their members, by name.
    pub(crate) fn producer_groups(&self) -> BTreeMap<&str, Vec<&Member>> {
        self.producers.iter().map(|(group, members)| (group.as_str(), members.values().collect())).collect()
    }

    /// The consumer groups that subscribe to a topic, by name.
    pub(crate) fn groups_of_topic(&self, topic: &str) -> BTreeSet<&str> {
        let groups = self.consumers.iter().filter(|(_, group)| group.subscriptions.contains_key(topic));
        groups.map(|(name, _)| name.as_str()).collect()
    }

    /// Takes a connection out of a producer group.
    pub(crate) fn unregister_producer(&mut self, connection: ConnectionId, group: &str) {
        if let Some(members) = self.producers.get_mut(group) {
            members.remove(&connection);
            if members.is_empty() {
                self.producers.remove(group);
            }
        }
    }

    /// Takes a connection out of a consumer group. Returns whether it was in it.
    pub(crate) fn unregister_consumer(&mut self, connection: ConnectionId, group: &str) -> bool {
        let Some(members) = self.consumers.get_mut(group) else { return false };
        let removed = members.members.remove(&connection).is_some();
        if members.members.is_empty() {
            self.consumers.remove(group);
        }
        removed
    }

    /// Takes a connection out of all groups. Returns the consumer groups that it was in, in alphabetical order.
    pub(crate) fn remove_connection(&mut self, connection: ConnectionId) -> Vec<String> {
        self.producers.retain(|_, members| {
            members.remove(&connection);
            !members.is_empty()
        });
        let mut groups: Vec<String> = self
            .consumers
            .iter()
            .filter(|(_, group)| group.members.contains_key(&connection))
            .map(|(name, _)| name.clone())
            .collect();
        groups.sort_unstable();
        for group in &groups {
            self.unregister_consumer(connection, group);
        }
        groups
    }

    /// The connections of clients that were silent for too long at session time `now`, each once.
    pub(crate) fn silent(&self, now: Duration) -> Vec<ConnectionId> {
        let consumers = self.consumers.values().flat_map(|group| &group.members);
        let mut silent: Vec<ConnectionId> = consumers
            .chain(self.producers.values().flatten())
            .filter(|(_, member)| now > member.last_seen + LIFETIME)
            .map(|(&connection, _)| connection)
            .collect();
        silent.sort_unstable();
        silent.dedup();
        silent
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: ConnectionId = ConnectionId(1);
    const B: ConnectionId = ConnectionId(2);

    fn member(client_id: &str, seconds: u64) -> Member {
        Member {
            client_id: client_id.to_owned(),
            serialize_type: SerializeType::Json,
            address: ([127, 0, 0, 1], 4711).into(),
            language: LanguageCode::JAVA,
            version: Version::V5_3_3,
            last_seen: Duration::from_secs(seconds),
        }
    }

    fn group(topics: &[(&str, i64)]) -> ConsumerData {
        let subscription = |&(topic, sub_version): &(&str, i64)| SubscriptionData {
            topic: topic.to_owned(),
            sub_version,
            ..SubscriptionData::default()
        };
        ConsumerData {
            group_name: "g".to_owned(),
            subscription_data_set: topics.iter().map(subscription).collect(),
            ..ConsumerData::default()
        }
    }

    #[test]
    fn members_are_told_of_new_members_and_topics_only() {
        let mut clients = Clients::default();
        assert!(clients.register_consumer(A, member("a", 0), group(&[("t", 1)])));
        assert!(!clients.register_consumer(A, member("a", 1), group(&[("t", 1)])));
        assert!(clients.register_consumer(B, member("b", 1), group(&[("t", 1)])));
        assert!(clients.register_consumer(A, member("a", 2), group(&[("t", 1), ("u", 1)])));
        assert!(clients.register_consumer(A, member("a", 2), group(&[("t", 1)])));
        assert!(!clients.register_consumer(A, member("a", 2), group(&[("t", 5)])));
        let known = clients.consumer_group("g").unwrap();
        assert_eq!(known.subscription("t").unwrap().sub_version, 5);
        assert!(known.subscription("u").is_none());
        assert_eq!(known.client_ids().collect::<Vec<_>>(), ["a", "b"]);
    }

    #[test]
    fn older_subscriptions_do_not_replace_newer_ones() {
        let mut clients = Clients::default();
        clients.register_consumer(A, member("a", 0), group(&[("t", 5)]));
        clients.register_consumer(B, member("b", 0), group(&[("t", 4)]));
        assert_eq!(clients.consumer_group("g").unwrap().subscription("t").unwrap().sub_version, 5);
    }

    #[test]
    fn a_closed_connection_leaves_all_its_groups() {
        let mut clients = Clients::default();
        clients.register_consumer(A, member("a", 0), group(&[]));
        clients.register_producer(A, member("a", 0), "p".to_owned());
        clients.register_consumer(B, member("b", 0), group(&[]));
        assert_eq!(clients.remove_connection(A), ["g"]);
        assert_eq!(clients.consumer_group("g").unwrap().client_ids().collect::<Vec<_>>(), ["b"]);
        assert!(clients.remove_connection(A).is_empty());
        assert!(clients.unregister_consumer(B, "g"));
        assert!(clients.consumer_group("g").is_none());
    }

    #[test]
    fn silence_is_noticed_after_two_minutes() {
        let mut clients = Clients::default();
        clients.register_consumer(A, member("a", 0), group(&[]));
        clients.register_producer(A, member("a", 0), "p".to_owned());
        assert!(clients.silent(Duration::from_secs(120)).is_empty());
        assert_eq!(clients.silent(Duration::from_secs(121)), [A]);
        assert!(clients.renew_consumer(A, "g", Duration::from_secs(121)));
        assert!(!clients.renew_consumer(B, "g", Duration::from_secs(121)));
    }
}
