//! Brokers, their topics, and how long both are believed.

use std::collections::BTreeMap;
use std::time::Duration;

use rocketmq_wire::model::{DataVersion, QueueData, TopicConfig, TopicConfigTable, perm};

use crate::reply::ConnectionId;

/// Which broker something is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BrokerIdentity {
    pub(crate) cluster: String,
    pub(crate) name: String,
    /// 0 for the master.
    pub(crate) id: i64,
    pub(crate) address: String,
    pub(crate) ha_address: String,
}

/// How long a registration is believed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lifetime {
    /// As long as the broker, which runs in this process.
    Process,
    /// As long as its connection lives and it is renewed.
    Session { connection: ConnectionId, last_seen: Duration, lasts: Duration },
}

/// One broker process.
#[derive(Debug, Clone)]
struct Member {
    address: String,
    ha_address: String,
    data_version: DataVersion,
    lifetime: Lifetime,
}

/// The brokers of one name: a master and its slaves.
#[derive(Debug, Clone)]
pub(super) struct BrokerGroup {
    pub(super) cluster: String,
    pub(super) enable_acting_master: bool,
    members: BTreeMap<i64, Member>,
}

impl BrokerGroup {
    /// Ids and addresses, the master first.
    pub(super) fn addresses(&self) -> impl Iterator<Item = (i64, &str)> {
        self.members.iter().map(|(&id, member)| (id, member.address.as_str()))
    }
}

/// What the name server knows.
#[derive(Debug, Clone, Default)]
pub(crate) struct RouteTable {
    brokers: BTreeMap<String, BrokerGroup>,
    /// Topic to broker name to queues.
    topics: BTreeMap<String, BTreeMap<String, QueueData>>,
}

impl RouteTable {
    /// Enters a broker and its topics. Topics are taken from masters only, and only if they changed.
    ///
    /// Returns the address and the replication address of the master if the broker is a slave of one.
    pub(crate) fn register(
        &mut self,
        broker: &BrokerIdentity,
        lifetime: Lifetime,
        enable_acting_master: bool,
        topics: TopicConfigTable,
    ) -> Option<(String, String)> {
        let group = self.brokers.entry(broker.name.clone()).or_insert_with(|| BrokerGroup {
            cluster: broker.cluster.clone(),
            enable_acting_master,
            members: BTreeMap::new(),
        });
        group.cluster.clone_from(&broker.cluster);
        group.enable_acting_master = enable_acting_master;
        // A broker whose id changed, such as a slave that became master, has one entry.
        group.members.retain(|&id, member| id == broker.id || member.address != broker.address);
        let known = group.members.get(&broker.id).map(|member| member.data_version);
        group.members.insert(
            broker.id,
            Member {
                address: broker.address.clone(),
                ha_address: broker.ha_address.clone(),
                data_version: topics.data_version,
                lifetime,
            },
        );
        if broker.id != 0 {
            let master = group.members.get(&0)?;
            return Some((master.address.clone(), master.ha_address.clone()));
        }
        let changed = known != Some(topics.data_version);
        for (topic, config) in topics.topic_config_table {
            if changed || !self.topics.contains_key(&topic) {
                self.set_topic(&broker.name, &topic, &config);
            }
        }
        None
    }

    /// Enters or changes one topic of a broker that is registered.
    pub(crate) fn set_topic(&mut self, broker_name: &str, topic: &str, config: &TopicConfig) {
        let queues = QueueData {
            broker_name: broker_name.to_owned(),
            perm: config.perm,
            read_queue_nums: config.read_queue_nums,
            topic_sys_flag: config.topic_sys_flag,
            write_queue_nums: config.write_queue_nums,
        };
        self.topics.entry(topic.to_owned()).or_default().insert(broker_name.to_owned(), queues);
    }

    /// Enters or changes one topic of a broker, if that is registered.
    pub(super) fn set_queues(&mut self, topic: &str, queues: QueueData) {
        if self.brokers.contains_key(&queues.broker_name) {
            self.topics.entry(topic.to_owned()).or_default().insert(queues.broker_name.clone(), queues);
        }
    }

    /// Whether a broker of that name and id is registered from another address in a later term: a master that was
    /// replaced does not come back.
    pub(super) fn is_replaced(&self, broker: &BrokerIdentity, state_version: i64) -> bool {
        let known = self.brokers.get(&broker.name).and_then(|group| group.members.get(&broker.id));
        known.is_some_and(|known| known.address != broker.address && known.data_version.state_version > state_version)
    }

    /// Takes a broker out; with the last of its name go the topics that only it had.
    pub(crate) fn unregister(&mut self, name: &str, id: i64, address: &str) {
        if let Some(group) = self.brokers.get_mut(name) {
            group.members.retain(|&known, member| known != id || member.address != address);
            self.drop_empty_groups();
        }
    }

    /// Takes out the brokers that registered over a connection.
    pub(super) fn remove_connection(&mut self, gone: ConnectionId) {
        self.retain(|lifetime| !matches!(lifetime, Lifetime::Session { connection, .. } if *connection == gone));
    }

    /// Takes out the brokers that were silent for too long at session time `now`.
    pub(super) fn expire(&mut self, now: Duration) {
        self.retain(|lifetime| match lifetime {
            Lifetime::Process => true,
            Lifetime::Session { last_seen, lasts, .. } => now <= last_seen.saturating_add(*lasts),
        });
    }

    fn retain(&mut self, keep: impl Fn(&Lifetime) -> bool) {
        for (name, group) in &mut self.brokers {
            group.members.retain(|id, member| {
                let kept = keep(&member.lifetime);
                if !kept {
                    tracing::info!(broker = name, id, address = member.address, "the broker is gone");
                }
                kept
            });
        }
        self.drop_empty_groups();
    }

    fn drop_empty_groups(&mut self) {
        let before = self.brokers.len();
        self.brokers.retain(|_, group| !group.members.is_empty());
        if self.brokers.len() == before {
            return;
        }
        let brokers = &self.brokers;
        self.topics.retain(|_, queues| {
            queues.retain(|name, _| brokers.contains_key(name));
            !queues.is_empty()
        });
    }

    pub(super) fn is_registered(&self, address: &str) -> bool {
        self.member(address).is_some()
    }

    /// The state of the topics of the broker at that address, as it was registered.
    pub(super) fn data_version(&self, address: &str) -> Option<DataVersion> {
        self.member(address).map(|member| member.data_version)
    }

    /// Believes in a registration for another period from `now`.
    pub(super) fn renew(&mut self, address: &str, now: Duration) {
        for member in self.brokers.values_mut().flat_map(|group| group.members.values_mut()) {
            if let Lifetime::Session { last_seen, .. } = &mut member.lifetime
                && member.address == address
            {
                *last_seen = now;
            }
        }
    }

    fn member(&self, address: &str) -> Option<&Member> {
        self.brokers.values().flat_map(|group| group.members.values()).find(|member| member.address == address)
    }

    /// All brokers by name.
    pub(super) fn brokers(&self) -> &BTreeMap<String, BrokerGroup> {
        &self.brokers
    }

    /// The queues of a topic by broker name.
    pub(super) fn queues(&self, topic: &str) -> Option<&BTreeMap<String, QueueData>> {
        self.topics.get(topic)
    }

    /// Deletes a topic, of all brokers or of those of one cluster.
    pub(super) fn delete_topic(&mut self, topic: &str, cluster: Option<&str>) {
        let brokers = &self.brokers;
        let Some(queues) = self.topics.get_mut(topic) else { return };
        queues.retain(|name, _| {
            cluster.is_some_and(|cluster| brokers.get(name).is_none_or(|group| group.cluster != cluster))
        });
        if queues.is_empty() {
            self.topics.remove(topic);
        }
    }

    /// Takes the permission to write away from every topic of a broker, or gives it. Returns how many there are.
    pub(super) fn set_writable(&mut self, broker_name: &str, writable: bool) -> i64 {
        let mut count = 0;
        for queues in self.topics.values_mut().filter_map(|queues| queues.get_mut(broker_name)) {
            // As Apache: giving it back makes every topic a normal one.
            queues.perm = if writable { perm::READ | perm::WRITE } else { queues.perm & !perm::WRITE };
            count += 1;
        }
        count
    }

    /// The topics that a broker of the cluster has, in alphabetical order.
    pub(super) fn topics_of_cluster(&self, cluster: &str) -> impl Iterator<Item = &str> {
        let of_cluster = move |name: &String| self.brokers.get(name).is_some_and(|group| group.cluster == cluster);
        self.topics.iter().filter(move |(_, queues)| queues.keys().any(of_cluster)).map(|(topic, _)| topic.as_str())
    }

    /// The names of all topics.
    pub(super) fn topics(&self) -> impl Iterator<Item = &str> {
        self.topics.keys().map(String::as_str)
    }
}
