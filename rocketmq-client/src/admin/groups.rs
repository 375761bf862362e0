//! Consumer groups: made, listed, deleted; who is in them, and how far they are.

use std::collections::BTreeMap;
use std::time::SystemTime;

use rocketmq_wire::ResponseCode;
use rocketmq_wire::fastjson::ObjectKey;
use rocketmq_wire::message::names;
use rocketmq_wire::model::{
    Connection, ConsumeStats, ConsumerConnection, ProducerConnection, SubscriptionGroupConfig, SubscriptionGroupTable,
};
use rocketmq_wire::request::admin::{
    AllGroupConfigRequest, ConsumeStatsRequest, ConsumerConnectionRequest, CreateGroupRequest, DeleteGroupRequest,
    ProducerConnectionRequest,
};

use super::topics::time;
use super::{Admin, ask, call, sorted};
use crate::error::{Error, ErrorKind, Result};
use crate::message::MessageQueue;

/// Groups that exist on every broker.
const PREDEFINED: [&str; 9] = [
    "TOOLS_CONSUMER",
    "FILTERSRV_CONSUMER",
    "SELF_TEST_C_GROUP",
    "SELF_TEST_P_GROUP",
    "CID_ONS-HTTP-PROXY",
    "CID_ONSAPI_PULL",
    "CID_ONSAPI_PERMISSION",
    "CID_ONSAPI_OWNER",
    "CID_RMQ_SYS_TRANS",
];

/// What a consumer group is like on a broker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupSettings {
    config: SubscriptionGroupConfig,
}

impl GroupSettings {
    /// A group as a broker makes it when it is first used: 16 redeliveries, one retry queue.
    pub fn new(group: impl Into<String>) -> Self {
        Self { config: SubscriptionGroupConfig { group_name: group.into(), ..SubscriptionGroupConfig::default() } }
    }

    /// Sets how often a message is delivered again before it goes to the group's dead letters; 16 by default. Consumers
    /// that say how often themselves, as this crate's and Java's do, win.
    #[must_use]
    pub fn max_reconsume_times(mut self, times: u32) -> Self {
        self.config.retry_max_times = i32::try_from(times).unwrap_or(i32::MAX);
        self
    }

    /// Sets whether the group may consume; true by default.
    #[must_use]
    pub fn enabled(mut self, enabled: bool) -> Self {
        self.config.consume_enable = enabled;
        self
    }

    /// Sets whether every member may read every queue; true by default.
    #[must_use]
    pub fn broadcasting(mut self, allowed: bool) -> Self {
        self.config.consume_broadcast_enable = allowed;
        self
    }

    /// Sets how many queues the group's retry topic has; 1 by default. Without any, brokers drop messages that could not be
    /// consumed.
    #[must_use]
    pub fn retry_queues(mut self, queues: u32) -> Self {
        self.config.retry_queue_nums = i32::try_from(queues).unwrap_or(i32::MAX);
        self
    }

    /// The group.
    pub fn group(&self) -> &str {
        &self.config.group_name
    }

    /// How often a message is delivered again before it goes to the dead letters.
    pub fn max_redeliveries(&self) -> u32 {
        u32::try_from(self.config.retry_max_times).unwrap_or(0)
    }

    /// Whether the group may consume.
    pub fn is_enabled(&self) -> bool {
        self.config.consume_enable
    }
}

/// A client in a group.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub struct GroupMember {
    /// Its id.
    pub client_id: String,
    /// The address that it is connected from.
    pub address: String,
    /// The language that it is written in, such as `JAVA`.
    pub language: String,
    /// Its version, as a position in Apache's list of releases.
    pub version: i32,
}

/// Who is in a consumer group, and what it subscribes to.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct GroupMembers {
    /// The members, by client id; empty when nobody is online.
    pub members: Vec<GroupMember>,
    /// What they subscribe to: topic to expression, the group's own retry topic included.
    pub subscriptions: BTreeMap<String, String>,
    /// Whether every member reads every queue.
    pub broadcasting: bool,
}

/// How far a group is in one queue.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct QueueProgress {
    /// The queue.
    pub queue: MessageQueue,
    /// The offset that the group has committed.
    pub committed: i64,
    /// The offset after the queue's newest message.
    pub end: i64,
    /// When the last message that it has consumed was stored, by the broker's clock; none if that message is gone.
    pub last_consumed: Option<SystemTime>,
}

impl QueueProgress {
    /// Messages that the group has not consumed yet.
    pub fn lag(&self) -> u64 {
        u64::try_from(self.end.saturating_sub(self.committed)).unwrap_or(0)
    }
}

/// How far a group is in all queues that it has offsets for.
#[derive(Debug, Clone, PartialEq, Default)]
#[non_exhaustive]
pub struct GroupProgress {
    /// The queues, by topic, broker and number; those of the group's retry topic included.
    pub queues: Vec<QueueProgress>,
    /// Messages consumed a second, as brokers count them.
    pub consumed_per_second: f64,
}

impl GroupProgress {
    /// Messages that the group has not consumed yet, in all queues.
    pub fn lag(&self) -> u64 {
        self.queues.iter().map(QueueProgress::lag).sum()
    }

    /// Messages of one topic that the group has not consumed yet.
    pub fn lag_of(&self, topic: &str) -> u64 {
        self.queues.iter().filter(|queue| queue.queue.topic() == topic).map(QueueProgress::lag).sum()
    }
}

impl Admin {
    /// Creates a consumer group on each master, or sets it back to what a new group is like.
    ///
    /// # Errors
    ///
    /// As [`set_group`](Self::set_group).
    pub async fn create_group(&self, group: &str) -> Result<()> {
        self.set_group(&GroupSettings::new(group)).await
    }

    /// Creates a consumer group on each master or changes it.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidArgument`] for a name that is not valid; else when a broker does not answer or refuses.
    pub async fn set_group(&self, settings: &GroupSettings) -> Result<()> {
        let deadline = self.deadline();
        let set = async {
            names::check_group(settings.group()).map_err(|error| {
                let group = settings.group().escape_debug();
                Error::new(ErrorKind::InvalidArgument, format!("the group `{group}` is not valid: {error}"))
            })?;
            let config = SubscriptionGroupConfig { group_name: self.wrap(settings.group()), ..settings.config.clone() };
            let text = serde_json::to_vec(&config).map_err(|error| {
                Error::new(ErrorKind::InvalidArgument, "the group cannot be written as JSON").with_source(error)
            })?;
            let body = &bytes::Bytes::from(text);
            let masters = self.masters(deadline).await?;
            self.at_all(&masters, |master| async move {
                master.peer.call(&CreateGroupRequest, body, deadline).await?.success().map(drop)
            })
            .await
        };
        set.await.map(drop).map_err(|error| error.with_operation("create a group"))
    }

    /// Lists the consumer groups that users made, or that came into being by being used, in alphabetical order.
    ///
    /// # Errors
    ///
    /// When a broker does not answer.
    pub async fn groups(&self) -> Result<Vec<String>> {
        let tables = self.group_tables().await.map_err(|error| error.with_operation("list groups"))?;
        let groups = tables.iter().flat_map(|(_, table)| table.subscription_group_table.keys());
        let of_users = groups.filter(|group| !PREDEFINED.contains(&group.as_str()));
        let of_users: std::collections::BTreeSet<_> = of_users.filter_map(|group| self.own(group)).collect();
        Ok(of_users.into_iter().collect())
    }

    /// Reads what a group is like, by the name of each broker that has it; empty if none has.
    ///
    /// # Errors
    ///
    /// When a broker does not answer.
    pub async fn group(&self, group: &str) -> Result<BTreeMap<String, GroupSettings>> {
        let tables = self.group_tables().await.map_err(|error| error.with_operation("read a group"))?;
        let of_broker = |(broker, mut table): (String, SubscriptionGroupTable)| {
            let found = table.subscription_group_table.remove(&self.wrap(group))?;
            let config = SubscriptionGroupConfig { group_name: group.to_owned(), ..found };
            Some((broker, GroupSettings { config }))
        };
        Ok(tables.into_iter().filter_map(of_broker).collect())
    }

    async fn group_tables(&self) -> Result<Vec<(String, SubscriptionGroupTable)>> {
        let deadline = self.deadline();
        let masters = self.masters(deadline).await?;
        self.at_all(&masters, |master| async move {
            let table = ask(&master.peer, &AllGroupConfigRequest, "groups of a broker", deadline).await?;
            Ok((master.name.to_string(), table))
        })
        .await
    }

    /// Deletes a group: its settings, its offsets (on brokers since 4.9), and the messages that wait for redelivery.
    ///
    /// Its dead letters stay, in the topic `%DLQ%group`; [`delete_topic`](Self::delete_topic) deletes that. Nothing to do if
    /// the group does not exist. A group whose members are online comes into being again with their next heartbeat.
    ///
    /// # Errors
    ///
    /// When a broker does not answer.
    pub async fn delete_group(&self, group: &str) -> Result<()> {
        let deadline = self.deadline();
        let delete = async {
            let request = DeleteGroupRequest {
                group_name: group.into(),
                // The same, as 5.x and as 4.9 call it.
                clean_offset: Some(true),
                remove_offset: Some(true),
            };
            let masters = self.masters(deadline).await?;
            let request = &request;
            self.at_all(&masters, |master| async move { call(&master.peer, request, deadline).await.map(drop) }).await
        };
        delete.await.map_err(|error: Error| error.with_operation("delete a group"))?;
        self.delete_topic(&names::retry_topic(group)).await
    }

    /// Lists who is in a consumer group, and what it subscribes to.
    ///
    /// # Errors
    ///
    /// When a broker does not answer.
    pub async fn members(&self, group: &str) -> Result<GroupMembers> {
        let deadline = self.deadline();
        let request = ConsumerConnectionRequest { consumer_group: group.into() };
        let read = async {
            let masters = self.masters(deadline).await?;
            let request = &request;
            self.at_all(&masters, |master| async move {
                let online = ask::<_, ConsumerConnection>(&master.peer, request, "members of a group", deadline).await;
                or_nobody(online, ResponseCode::CONSUMER_NOT_ONLINE)
            })
            .await
        };
        let found = read.await.map_err(|error: Error| error.with_operation("list the members of a group"))?;
        let mut all = GroupMembers::default();
        let mut members = BTreeMap::new();
        for online in found.into_iter().flatten() {
            members.extend(online.connection_set.into_iter().map(member));
            let subscriptions = online.subscription_table.into_iter();
            all.subscriptions.extend(
                subscriptions
                    .map(|(topic, data)| (self.cluster.namespace().unwrap(&topic).into_owned(), data.sub_string)),
            );
            all.broadcasting |= online.message_model == rocketmq_wire::model::model::BROADCASTING;
        }
        all.members = members.into_values().collect();
        Ok(all)
    }

    /// Lists the producers of a group that are online at the brokers of a topic.
    ///
    /// # Errors
    ///
    /// When a broker does not answer.
    pub async fn producers(&self, group: &str) -> Result<Vec<GroupMember>> {
        let deadline = self.deadline();
        let request = ProducerConnectionRequest { producer_group: group.into() };
        let read = async {
            let masters = self.masters(deadline).await?;
            let request = &request;
            self.at_all(&masters, |master| async move {
                let online =
                    ask::<_, ProducerConnection>(&master.peer, request, "producers of a group", deadline).await;
                or_nobody(online, ResponseCode::SYSTEM_ERROR)
            })
            .await
        };
        let found = read.await.map_err(|error: Error| error.with_operation("list the producers of a group"))?;
        let members: BTreeMap<_, _> =
            found.into_iter().flatten().flat_map(|online| online.connection_set).map(member).collect();
        Ok(members.into_values().collect())
    }

    /// Reads how far a group is: committed offsets, ends of queues, and the lag between them. Needs nobody online.
    ///
    /// # Errors
    ///
    /// When a broker does not answer.
    pub async fn progress(&self, group: &str) -> Result<GroupProgress> {
        let deadline = self.deadline();
        let request = ConsumeStatsRequest { consumer_group: group.into(), topic: None };
        let read = async {
            let masters = self.masters(deadline).await?;
            let request = &request;
            self.at_all(&masters, |master| async move {
                ask::<_, ConsumeStats>(&master.peer, request, "progress of a group", deadline).await
            })
            .await
        };
        let stats = read.await.map_err(|error: Error| error.with_operation("read the progress of a group"))?;
        let consumed_per_second = stats.iter().map(|stats| stats.consume_tps).sum();
        let table = stats.into_iter().flat_map(|stats| stats.offset_table);
        let table = sorted(table.map(|(ObjectKey(wire), progress)| (self.queue(&wire), progress)));
        let queues = table.into_iter().map(|(queue, progress)| QueueProgress {
            queue,
            committed: progress.consumer_offset,
            end: progress.broker_offset,
            last_consumed: time(progress.last_timestamp),
        });
        Ok(GroupProgress { queues: queues.collect(), consumed_per_second })
    }
}

fn member(connection: Connection) -> (String, GroupMember) {
    let Connection { client_addr, client_id, language, version } = connection;
    (client_id.clone(), GroupMember { client_id, address: client_addr, language, version })
}

/// Takes the code by which brokers say that nobody is online for what it says.
fn or_nobody<T>(found: Result<T>, code: ResponseCode) -> Result<Option<T>> {
    match found {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.response_code() == Some(code.0) => Ok(None),
        Err(error) => Err(error),
    }
}
