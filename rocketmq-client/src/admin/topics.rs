//! Topics: made, listed, deleted.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use futures_util::future::join_all;
use rocketmq_wire::message::names;
use rocketmq_wire::model::{TopicConfig, TopicConfigTable, TopicList, TopicStats, perm};
use rocketmq_wire::request::admin::{
    AllTopicConfigRequest, CreateTopicRequest, DeleteTopicRequest, TopicConsumersRequest, TopicStatsRequest,
};
use rocketmq_wire::request::name_server::DeleteTopicInNameServerRequest;
use rocketmq_wire::request::route::TopicListRequest;
use rocketmq_wire::{ResponseCode, fastjson::ObjectKey};

use super::{Admin, ask, body, call, sorted};
use crate::error::{Error, ErrorKind, Result};
use crate::message::MessageQueue;

/// How often a new topic is looked for at the name servers.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// What a topic is like on a broker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopicSettings {
    config: TopicConfig,
}

impl TopicSettings {
    /// A topic that may be written and read, with so many queues on each broker.
    pub fn new(topic: impl Into<String>, queues: u32) -> Self {
        let queues = i32::try_from(queues).unwrap_or(i32::MAX);
        Self {
            config: TopicConfig {
                topic_name: topic.into(),
                read_queue_nums: queues,
                write_queue_nums: queues,
                ..TopicConfig::default()
            },
        }
    }

    /// Sets how many queues are read. More than are written keeps the rest readable while a topic shrinks.
    #[must_use]
    pub fn read_queues(mut self, queues: u32) -> Self {
        self.config.read_queue_nums = i32::try_from(queues).unwrap_or(i32::MAX);
        self
    }

    /// Sets how many queues are written.
    #[must_use]
    pub fn write_queues(mut self, queues: u32) -> Self {
        self.config.write_queue_nums = i32::try_from(queues).unwrap_or(i32::MAX);
        self
    }

    /// Sets whether messages may be sent; true by default.
    #[must_use]
    pub fn writable(mut self, writable: bool) -> Self {
        self.set(perm::WRITE, writable);
        self
    }

    /// Sets whether messages may be consumed; true by default.
    #[must_use]
    pub fn readable(mut self, readable: bool) -> Self {
        self.set(perm::READ, readable);
        self
    }

    /// Sets an attribute, such as `message.type`; brokers since 5.0.
    #[must_use]
    pub fn attribute(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.config.attributes.insert(name.into(), value.into());
        self
    }

    fn set(&mut self, bit: i32, on: bool) {
        if on {
            self.config.perm |= bit;
        } else {
            self.config.perm &= !bit;
        }
    }

    /// The topic.
    pub fn topic(&self) -> &str {
        &self.config.topic_name
    }

    /// Queues that are read.
    pub fn read_queue_count(&self) -> u32 {
        u32::try_from(self.config.read_queue_nums).unwrap_or(0)
    }

    /// Queues that are written.
    pub fn write_queue_count(&self) -> u32 {
        u32::try_from(self.config.write_queue_nums).unwrap_or(0)
    }

    /// Whether messages may be sent.
    pub fn is_writable(&self) -> bool {
        self.config.perm & perm::WRITE != 0
    }

    /// Whether messages may be consumed.
    pub fn is_readable(&self) -> bool {
        self.config.perm & perm::READ != 0
    }

    /// The attributes.
    pub fn attributes(&self) -> &BTreeMap<String, String> {
        &self.config.attributes
    }
}

/// What a queue holds.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct QueueRange {
    /// The queue.
    pub queue: MessageQueue,
    /// The offset of its oldest message.
    pub begin: i64,
    /// The offset after its newest message.
    pub end: i64,
    /// When its newest message was stored, by the broker's clock; none if it has no message.
    pub last_stored: Option<SystemTime>,
}

impl Admin {
    /// Creates a topic with so many queues on each master, or gives it so many. It can be used when this returns.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidArgument`] for a name or number that brokers do not take; else when a broker does not answer or
    /// refuses.
    pub async fn create_topic(&self, topic: &str, queues: u32) -> Result<()> {
        self.set_topic(&TopicSettings::new(topic, queues)).await
    }

    /// Creates a topic on each master or changes it. It can be used when this returns.
    ///
    /// # Errors
    ///
    /// As [`create_topic`](Self::create_topic).
    pub async fn set_topic(&self, settings: &TopicSettings) -> Result<()> {
        let name = |error: Error| error.with_operation("create a topic");
        let deadline = self.deadline();
        check(settings).map_err(name)?;
        let config = &settings.config;
        let attributes: Vec<String> = config.attributes.iter().map(|(key, value)| format!("+{key}={value}")).collect();
        let request = CreateTopicRequest {
            topic: config.topic_name.as_str().into(),
            default_topic: names::DEFAULT_TOPIC.into(),
            read_queue_nums: config.read_queue_nums,
            write_queue_nums: config.write_queue_nums,
            perm: config.perm,
            topic_filter_type: config.topic_filter_type.as_str().into(),
            topic_sys_flag: Some(config.topic_sys_flag),
            order: Some(config.order),
            attributes: Some(attributes.join(",").into()),
            force: Some(false),
        };
        let create = async {
            let masters = self.masters(deadline).await?;
            let request = &request;
            self.at_all(&masters, |master| async move { call(&master.peer, request, deadline).await }).await?;
            self.wait_for_route(&config.topic_name, deadline).await
        };
        create.await.map_err(name)
    }

    /// Brokers tell name servers of a new topic after they have answered.
    async fn wait_for_route(&self, topic: &str, deadline: std::time::Instant) -> Result<()> {
        let routes = self.cluster.routes();
        let topic = routes.topic(&topic.into());
        loop {
            let known = routes.look_up(&topic, deadline).await?;
            if known.route.is_some() {
                return Ok(());
            }
            let env = self.cluster.env();
            if env.now() + LOOK_AGAIN >= deadline {
                let message = format!(
                    "brokers have created the topic `{}` and name servers do not know it yet: it may take up to 30 s",
                    topic.name()
                );
                return Err(Error::new(ErrorKind::Timeout, message));
            }
            env.sleep(LOOK_AGAIN).await;
        }
    }

    /// Lists the topics that users made, in alphabetical order: without those of the system, and without retry and dead
    /// letter topics of groups.
    ///
    /// # Errors
    ///
    /// When no name server answers.
    pub async fn topics(&self) -> Result<Vec<String>> {
        let deadline = self.deadline();
        let name = |error: Error| error.with_operation("list topics");
        let info = self.cluster_info(deadline).await.map_err(name)?;
        let mut topics = self.all_topics().await?;
        topics.retain(|topic| {
            let of_cluster =
                info.cluster_addr_table.keys().any(|cluster| topic == cluster || *topic == names::reply_topic(cluster));
            let of_group = names::is_retry_topic(topic) || names::is_dead_letter_topic(topic);
            !(of_cluster || of_group || info.broker_addr_table.contains_key(topic) || names::is_system_topic(topic))
        });
        Ok(topics)
    }

    /// Lists all topics that name servers know, in alphabetical order; of a client with a namespace, those in it.
    ///
    /// # Errors
    ///
    /// When no name server answers.
    pub async fn all_topics(&self) -> Result<Vec<String>> {
        let name_servers = self.cluster.routes().name_servers();
        let answer = name_servers.ask(&TopicListRequest, &[ResponseCode::SUCCESS], self.deadline()).await;
        let list: Result<TopicList> = answer.and_then(|answer| body(&answer, "topics"));
        let list = list.map_err(|error| error.with_operation("list topics"))?.topic_list;
        let mut topics: Vec<String> = list.iter().filter_map(|topic| self.own(topic)).collect();
        topics.sort_unstable();
        topics.dedup();
        Ok(topics)
    }

    /// Reads what a topic is like, by the name of each broker that has it.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::NoRoute`] for a topic that does not exist; else when a broker does not answer.
    pub async fn topic(&self, topic: &str) -> Result<BTreeMap<String, TopicSettings>> {
        let deadline = self.deadline();
        let read = async {
            let masters = self.masters_of(topic, deadline).await?;
            self.at_all(&masters, |master| async move {
                // Brokers before 5.0 tell of all topics at once only.
                let mut table: TopicConfigTable =
                    ask(&master.peer, &AllTopicConfigRequest, "topics of a broker", deadline).await?;
                Ok((master.name.to_string(), table.topic_config_table.remove(&self.wrap(topic))))
            })
            .await
        };
        let found = read.await.map_err(|error: Error| error.with_operation("read a topic"))?;
        Ok(found
            .into_iter()
            .filter_map(|(name, config)| {
                let config = TopicConfig { topic_name: topic.to_owned(), ..config? };
                Some((name, TopicSettings { config }))
            })
            .collect())
    }

    /// Deletes a topic with its messages, and the offsets of all groups in it. Nothing to do if it does not exist.
    ///
    /// Where sends create topics by themselves, the next send creates it anew.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidArgument`] for a topic of the system; else when a broker or name server does not answer.
    pub async fn delete_topic(&self, topic: &str) -> Result<()> {
        let deadline = self.deadline();
        let delete = async {
            let info = self.cluster_info(deadline).await?;
            let request = DeleteTopicRequest { topic: topic.into() };
            let replicas = info.broker_addr_table.values().flat_map(|broker| broker.broker_addrs.values());
            let deleted = replicas.map(|address| {
                let (peer, request) = (self.cluster.peer(address), &request);
                async move { call(&peer, request, deadline).await.map(drop) }
            });
            join_all(deleted).await.into_iter().collect::<Result<()>>()?;
            // Each name server has its own table. Without a cluster the topic goes from all.
            let request = DeleteTopicInNameServerRequest { topic: topic.into(), cluster_name: None };
            let addresses = self.cluster.routes().name_servers().addresses();
            let deleted = addresses.iter().map(|address| {
                let (peer, request) = (self.cluster.peer(address), &request);
                async move { call(&peer, request, deadline).await.map(drop) }
            });
            join_all(deleted).await.into_iter().collect::<Result<()>>()
        };
        delete.await.map_err(|error: Error| error.with_operation("delete a topic"))
    }

    /// Reads where each queue of a topic begins and ends.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::NoRoute`] for a topic that does not exist; else when a broker does not answer.
    pub async fn topic_ranges(&self, topic: &str) -> Result<Vec<QueueRange>> {
        let deadline = self.deadline();
        let request = TopicStatsRequest { topic: topic.into() };
        let read = async {
            let masters = self.masters_of(topic, deadline).await?;
            let request = &request;
            self.at_all(&masters, |master| async move {
                ask::<_, TopicStats>(&master.peer, request, "offsets of a topic", deadline).await
            })
            .await
        };
        let stats = read.await.map_err(|error: Error| error.with_operation("read the offsets of a topic"))?;
        let table = stats.into_iter().flat_map(|stats| stats.offset_table);
        let table = sorted(table.map(|(ObjectKey(wire), bounds)| (self.queue(&wire), bounds)));
        let range = |(queue, bounds): (MessageQueue, rocketmq_wire::model::QueueBounds)| QueueRange {
            queue,
            begin: bounds.min_offset,
            end: bounds.max_offset,
            last_stored: time(bounds.last_update_timestamp),
        };
        Ok(table.into_iter().map(range).collect())
    }

    /// Lists the groups that consume a topic now, or have offsets in it.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::NoRoute`] for a topic that does not exist; else when a broker does not answer.
    pub async fn groups_of_topic(&self, topic: &str) -> Result<Vec<String>> {
        let deadline = self.deadline();
        let request = TopicConsumersRequest { topic: topic.into() };
        let read = async {
            let masters = self.masters_of(topic, deadline).await?;
            let request = &request;
            self.at_all(&masters, |master| async move {
                let list: rocketmq_wire::model::GroupList =
                    ask(&master.peer, request, "groups of a topic", deadline).await?;
                Ok(list.group_list)
            })
            .await
        };
        let lists = read.await.map_err(|error: Error| error.with_operation("list the groups of a topic"))?;
        let groups: std::collections::BTreeSet<_> =
            lists.iter().flatten().filter_map(|group| self.own(group)).collect();
        Ok(groups.into_iter().collect())
    }
}

/// A time that brokers tell; 0 and less stand for none.
pub(super) fn time(milliseconds: i64) -> Option<SystemTime> {
    let milliseconds = u64::try_from(milliseconds).ok().filter(|milliseconds| *milliseconds > 0)?;
    Some(SystemTime::UNIX_EPOCH + Duration::from_millis(milliseconds))
}

fn check(settings: &TopicSettings) -> Result<()> {
    let invalid = |message: String| Error::new(ErrorKind::InvalidArgument, message);
    let topic = settings.topic();
    let limit = if names::is_retry_topic(topic) || names::is_dead_letter_topic(topic) {
        names::MAX_RETRY_TOPIC_LENGTH
    } else {
        names::MAX_TOPIC_LENGTH
    };
    names::check(topic, limit)
        .map_err(|error| invalid(format!("the topic `{}` is not valid: {error}", topic.escape_debug())))?;
    if settings.read_queue_count() == 0 && settings.write_queue_count() == 0 {
        return Err(invalid(format!("the topic `{topic}` would have no queue: give it at least one")));
    }
    let bad = |text: &String| text.contains([',', '=', '+']) || text.is_empty();
    if let Some((name, _)) = settings.attributes().iter().find(|(name, value)| bad(name) || bad(value)) {
        let name = name.escape_debug();
        return Err(invalid(format!("the attribute `{name}` or its value is empty or holds one of , = +")));
    }
    Ok(())
}
