//! What the broker holds, for tests and people who look at it.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use rocketmq_wire::header::{EncodedFields, Fields, Head, Header, SerializeType};
use rocketmq_wire::message::{RecordView, names, properties};
use rocketmq_wire::request::send::SendMessageRequestV2;
use rocketmq_wire::{LanguageCode, RequestCode, ResponseCode};

use super::Broker;
use crate::clock::Now;
use crate::content::{GroupView, MemberView, MessageView, Outgoing, ProgressView, QueueView, TopicView};
use crate::reply::{Command, ConnectionId, Outcome, Peer};

/// How many messages are read at once.
const READ: usize = 64;

/// No connection: what is put without a client comes from it.
const NOBODY: ConnectionId = ConnectionId(0);

impl Broker {
    /// Walks the messages of a queue from an offset on, until `each` says to stop.
    fn walk(&self, topic: &str, queue_id: i32, from: u64, each: &mut dyn FnMut(&RecordView<'_>) -> bool) {
        let (mut next, end) =
            (from.max(self.store.min_offset(topic, queue_id)), self.store.max_offset(topic, queue_id));
        while next < end {
            let found = self.store.get(topic, queue_id, next, READ, usize::MAX, &|_| true);
            for bytes in &found.messages {
                let Ok(record) = RecordView::parse(bytes) else { continue };
                if !each(&record) {
                    return;
                }
            }
            if found.next_begin_offset <= next {
                return;
            }
            next = found.next_begin_offset;
        }
    }

    /// The latest messages of a topic that a filter accepts, the latest first, at most `limit`.
    pub(crate) fn latest_messages(
        &self,
        topic: &str,
        limit: usize,
        accepts: &dyn Fn(&RecordView<'_>) -> bool,
    ) -> Vec<MessageView> {
        // Newest of all queues first: the queues are walked from their ends, a stretch at a time.
        let mut ends: Vec<(i32, u64)> =
            self.store.queue_ids(topic).map(|queue_id| (queue_id, self.store.max_offset(topic, queue_id))).collect();
        let mut found = Vec::new();
        // What is looked through at most, so that a filter which accepts nothing does not hold up the broker.
        let mut budget = 100_000_usize;
        while let Some(place) = (0..ends.len())
            .filter(|place| ends[*place].1 > self.store.min_offset(topic, ends[*place].0))
            .max_by_key(|place| self.store.store_time_at(topic, ends[*place].0, ends[*place].1 - 1))
        {
            let (queue_id, end) = ends[place];
            ends[place].1 = end - 1;
            let got = self.store.get(topic, queue_id, end - 1, 1, usize::MAX, &|_| true);
            if let Some(record) = got.messages.first().and_then(|bytes| RecordView::parse(bytes).ok())
                && record.queue_offset() == (end - 1) as i64
                && accepts(&record)
            {
                found.push(MessageView::new(&record));
            }
            budget -= 1;
            if found.len() >= limit || budget == 0 {
                break;
            }
        }
        found
    }

    /// Messages of a queue from an offset on.
    pub(crate) fn messages_from(&self, topic: &str, queue_id: i32, offset: u64, limit: usize) -> Vec<MessageView> {
        let mut found = Vec::new();
        self.walk(topic, queue_id, offset, &mut |record| {
            found.push(MessageView::new(record));
            found.len() < limit
        });
        found.truncate(limit);
        found
    }

    /// What a group has committed in a queue.
    pub(crate) fn committed(&self, group: &str, topic: &str, queue_id: i32) -> Option<i64> {
        self.offsets.get(group, topic, queue_id)
    }

    /// Messages that wait for their time, the next one first.
    pub(crate) fn delayed_messages(&self, now: Now) -> Vec<MessageView> {
        let mut waiting = Vec::new();
        let progress = self.store.delivery_progress();
        for queue_id in self.store.queue_ids(names::SCHEDULE_TOPIC) {
            let from = usize::try_from(queue_id).ok().and_then(|index| progress.get(index)).copied().unwrap_or(0);
            self.walk(names::SCHEDULE_TOPIC, queue_id, from, &mut |record| {
                let due = self.store.config().delay_levels.due(queue_id + 1, record.store_timestamp());
                waiting.push(MessageView::waiting(record, Some(due)));
                true
            });
        }
        for queue_id in self.store.queue_ids(names::TIMER_TOPIC) {
            self.walk(names::TIMER_TOPIC, queue_id, 0, &mut |record| {
                let due = record.property(properties::TIMER_OUT_MS).and_then(|text| text.parse().ok());
                // One that takes another back is no message.
                let takes_back = record.property(properties::TIMER_DEL_UNIQUE_ID).is_some();
                if due.is_some_and(|due: i64| due > now.message_ms) && !takes_back {
                    waiting.push(MessageView::waiting(record, due));
                }
                true
            });
        }
        waiting.sort_by_key(|message| (message.due_ms, message.physical_offset));
        waiting
    }

    /// Half messages that nobody has decided.
    pub(crate) fn half_messages(&self) -> Vec<MessageView> {
        let decided: BTreeSet<u64> = self.read_ops().into_iter().flat_map(|op| op.half_offsets).collect();
        // A half message that was checked was appended again: the latest of its kind stands for all.
        let mut halves = BTreeMap::<String, MessageView>::new();
        let mut done = BTreeSet::new();
        self.walk(names::HALF_TOPIC, super::transactions::QUEUE, 0, &mut |record| {
            let view = MessageView::waiting(record, None);
            let id = view.unique_id.clone().unwrap_or_else(|| view.message_id.clone());
            if u64::try_from(view.offset).is_ok_and(|offset| decided.contains(&offset)) {
                halves.remove(&id);
                done.insert(id);
            } else if !done.contains(&id) {
                halves.insert(id, view);
            }
            true
        });
        let mut halves: Vec<MessageView> = halves.into_values().collect();
        halves.sort_by_key(|half| half.physical_offset);
        halves
    }

    /// Whether nothing is kept on disk.
    pub(crate) fn is_in_memory(&self) -> bool {
        self.settings.store.is_none()
    }

    /// All topics by name.
    pub(crate) fn topic_views(&self) -> Vec<TopicView> {
        let table = self.topics.to_table().topic_config_table;
        let view = |topic: String| {
            let config = self.topics.get(&topic);
            let queue = |queue| {
                let (min, max) = (self.store.min_offset(&topic, queue), self.store.max_offset(&topic, queue));
                QueueView { queue, min, max }
            };
            let mut queues: Vec<QueueView> = self.store.queue_ids(&topic).map(queue).collect();
            queues.sort_by_key(|view| view.queue);
            TopicView {
                is_system: self.is_system_topic(&topic)
                    || topic.starts_with(names::SYSTEM_TOPIC_PREFIX)
                    || [&self.settings.cluster, &self.settings.broker_name].contains(&&topic),
                perm: config.map_or(0, |config| config.perm),
                read_queues: config.map_or(0, |config| config.read_queue_nums),
                write_queues: config.map_or(0, |config| config.write_queue_nums),
                messages: queues.iter().map(|view| view.max - view.min).sum(),
                queues,
                topic,
            }
        };
        let stored = self.store.topics().into_iter().map(str::to_owned);
        let all: BTreeSet<String> = table.into_keys().chain(stored).collect();
        all.into_iter().map(view).collect()
    }

    /// All consumer groups that are online, have committed or are configured, by name.
    pub(crate) fn group_names(&self) -> BTreeSet<String> {
        let known = self.groups.names().map(str::to_owned);
        let committed = self.offsets.topics_by_group().into_keys().map(str::to_owned);
        let online = self.clients.consumer_names().map(str::to_owned);
        known.chain(committed).chain(online).filter(|group| !names::is_system_group(group)).collect()
    }

    /// A consumer group.
    pub(crate) fn group_view(&self, now: Now, group: &str) -> GroupView {
        let online = self.clients.consumer_group(group);
        let member = |(connection, member): (ConnectionId, &super::clients::Member)| MemberView {
            client: member.client_id.clone(),
            address: member.address,
            language: member.language.name().to_owned(),
            version: member.version.0,
            connection: connection.0,
        };
        let members: Vec<MemberView> = online.map(|online| online.members().map(member).collect()).unwrap_or_default();
        let subscriptions: BTreeMap<String, String> = online
            .map(|online| online.subscriptions().into_iter().map(|(topic, data)| (topic, data.sub_string)).collect())
            .unwrap_or_default();
        let topics: BTreeSet<String> =
            self.offsets.topics_of(group).into_iter().chain(subscriptions.keys().cloned()).collect();
        let mut queues = Vec::new();
        for topic in topics {
            let count = self.topics.get(&topic).map_or(0, |config| config.read_queue_nums);
            for queue in 0..count {
                let committed = self.offsets.get(group, &topic, queue).unwrap_or(-1);
                let max = self.store.max_offset(&topic, queue) as i64;
                let begin = committed.max(self.store.min_offset(&topic, queue) as i64);
                let owner = self.locks.holder(now.session, group, &topic, queue).map(str::to_owned).or_else(|| {
                    let connection = self.held.connection_of(group, &topic, queue)?;
                    members.iter().find(|member| member.connection == connection.0).map(|member| member.client.clone())
                });
                queues.push(ProgressView {
                    topic: topic.clone(),
                    queue,
                    committed,
                    max,
                    lag: (max - begin).max(0),
                    owner,
                });
            }
        }
        GroupView {
            group: group.to_owned(),
            model: online.map_or("", |online| online.message_model()).to_owned(),
            members,
            subscriptions,
            lag: queues.iter().map(|queue| queue.lag).sum(),
            queues,
        }
    }

    /// How many messages of a topic can be read.
    pub(crate) fn count(&self, topic: &str) -> u64 {
        let queues = self.store.queue_ids(topic);
        queues.map(|queue| self.store.max_offset(topic, queue) - self.store.min_offset(topic, queue)).sum()
    }

    /// How many messages of a topic a group has committed.
    pub(crate) fn consumed(&self, group: &str, topic: &str) -> u64 {
        let queues = self.offsets.of_topic(group, topic).into_iter().flatten();
        let committed = |(&queue, &offset): (&i32, &i64)| {
            u64::try_from(offset).unwrap_or(0).saturating_sub(self.store.min_offset(topic, queue))
        };
        queues.map(committed).sum()
    }

    /// Stores a message as if a client had sent it.
    ///
    /// # Errors
    ///
    /// What a client would be answered.
    pub(crate) fn put_outgoing(&mut self, now: Now, message: &Outgoing) -> Result<(), String> {
        let request = SendMessageRequestV2 {
            producer_group: "CONSOLE".into(),
            topic: message.topic.as_str().into(),
            default_topic: names::DEFAULT_TOPIC.into(),
            default_topic_queue_nums: self.settings.default_topic_queues,
            queue_id: message.queue.unwrap_or(-1),
            born_timestamp: now.message_ms,
            flag: message.flag,
            properties: Some(message.encoded_properties()?.into()),
            ..SendMessageRequestV2::default()
        };
        let fields: Bytes = EncodedFields::new(&request).into_bytes(SerializeType::Binary);
        let command = Command {
            header: Header {
                head: Head {
                    code: RequestCode::SEND_MESSAGE_V2.0,
                    language: LanguageCode::OTHER,
                    version: self.compatibility.version(),
                    opaque: 0,
                    flag: 0,
                    remark: None,
                },
                fields: Fields::from_bytes(SerializeType::Binary, &fields).map_err(|error| error.to_string())?,
            },
            serialize_type: SerializeType::Binary,
            body: &message.body,
        };
        let peer = Peer { connection: NOBODY, address: self.store_host };
        let result = match self.handle(now, &peer, &command) {
            Outcome::Reply(reply) if reply.code != ResponseCode::SUCCESS => {
                let remark = reply.remark.map(std::borrow::Cow::into_owned).unwrap_or_default();
                Err(format!("the broker answers {}: {remark}", reply.code))
            }
            // One that waits for the disk or slaves is stored.
            _ => Ok(()),
        };
        self.settle(now);
        result
    }
}
