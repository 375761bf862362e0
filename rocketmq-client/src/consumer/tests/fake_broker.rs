//! A name server and broker in memory that do what a test tells them to: as little of a broker as a consumer needs.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use rocketmq_wire::header::{ONE_WAY_FLAG, RESPONSE_FLAG, SerializeType};
use rocketmq_wire::message::{PropertiesWriter, Record, StoredMessage, properties};
use rocketmq_wire::model::{HeartbeatData, LockBatch, LockedQueues};
use rocketmq_wire::{Frame, LanguageCode, RemotingCommand, RequestCode, ResponseCode, Version};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::sync::{mpsc, watch};

use crate::env::{Env, Task};
use crate::transport::{MemoryListener, MemoryNetwork};

pub(super) const NAME_SERVER: &str = "127.0.0.1:9876";
pub(super) const BROKER: &str = "127.0.0.1:10911";
pub(super) const BROKER_NAME: &str = "broker-a";
/// Its other replica, which is in routes when a test says so.
pub(super) const SLAVE: &str = "127.0.0.1:10921";

/// The delay before a message that was sent back comes again.
pub(super) const RETRY_DELAY: Duration = Duration::from_secs(10);

/// A broker whose insides a test may look at and change.
#[derive(Clone)]
pub(super) struct FakeBroker(Arc<Shared>);

struct Shared {
    env: Env,
    state: Mutex<State>,
    /// Counts what may end a long poll.
    appended: watch::Sender<u64>,
    tasks: Mutex<Vec<Task>>,
}

#[derive(Default)]
pub(super) struct State {
    pub(super) topics: BTreeMap<String, i32>,
    queues: BTreeMap<(String, i32), Queue>,
    /// By group, topic and queue.
    pub(super) offsets: BTreeMap<(String, String, i32), i64>,
    /// By group: client ids, and the connection each came over.
    pub(super) members: BTreeMap<String, BTreeMap<String, u64>>,
    connections: BTreeMap<u64, mpsc::UnboundedSender<Bytes>>,
    next_connection: u64,
    next_physical_offset: i64,
    /// What was asked, in order.
    pub(super) requests: Vec<Asked>,
    /// Answers that replace the next ones to a request.
    script: Vec<(RequestCode, VecDeque<Scripted>)>,
    keeps_retry_topics_away: bool,
    /// Whether pulls that find nothing are answered and not held.
    pub(super) answers_empty_pulls_at_once: bool,
    /// Who has which queue locked: client ids by group, topic and queue.
    pub(super) locks: BTreeMap<(String, String, i32), String>,
    /// What others of the group subscribe to, by topic.
    pub(super) subscriptions_of_others: BTreeMap<String, String>,
    /// What the client answered to requests of the broker.
    pub(super) answered: Vec<RemotingCommand>,
    /// Whether there is a slave.
    pub(super) has_slave: bool,
    /// The replica that pulls are to be sent to.
    pub(super) suggested: i64,
    /// Whether the master hangs up whatever is asked.
    pub(super) master_is_away: bool,
    /// Whether name server and master hang up.
    pub(super) all_are_away: bool,
    /// Whether the master is at the slave's address.
    pub(super) has_moved: bool,
    /// Where messages sent back or sent to a retry topic went, with their properties.
    pub(super) sent: Vec<RemotingCommand>,
}

#[derive(Default)]
struct Queue {
    min: i64,
    records: Vec<Bytes>,
}

/// A request that the broker got.
pub(super) struct Asked {
    pub(super) request: RemotingCommand,
    /// Whether the slave was asked.
    pub(super) of_slave: bool,
}

impl Asked {
    pub(super) fn code(&self) -> RequestCode {
        RequestCode(self.request.code)
    }
}

/// An answer that a test wants to be given.
#[derive(Clone)]
pub(super) enum Scripted {
    /// This code, these fields, this body.
    Answer(ResponseCode, Option<&'static str>, Vec<(&'static str, String)>, Bytes),
    /// The connection ends instead.
    HangUp,
    /// No answer ever.
    Silence,
    /// As without a script.
    AsUsual,
}

impl Scripted {
    pub(super) fn refusal(code: ResponseCode) -> Self {
        Self::Answer(code, Some("scripted"), Vec::new(), Bytes::new())
    }

    pub(super) fn pull(code: ResponseCode, remark: &'static str, next: i64, body: Bytes) -> Self {
        let fields = vec![
            ("suggestWhichBrokerId", "0".to_owned()),
            ("nextBeginOffset", next.to_string()),
            ("minOffset", "0".to_owned()),
            ("maxOffset", "1000".to_owned()),
        ];
        Self::Answer(code, Some(remark), fields, body)
    }
}

/// A message to be put into a queue.
#[derive(Clone, Default)]
pub(super) struct Stored<'a> {
    pub(super) topic: &'a str,
    pub(super) body: &'a [u8],
    pub(super) properties: &'a [(&'a str, &'a str)],
    pub(super) reconsume_times: i32,
    pub(super) sys_flag: i32,
}

impl FakeBroker {
    pub(super) fn start(env: &Env, network: &MemoryNetwork) -> Self {
        let (appended, _) = watch::channel(0);
        let state = Mutex::new(State { next_physical_offset: 1000, ..Default::default() });
        let this = Self(Arc::new(Shared { env: env.clone(), state, appended, tasks: Mutex::default() }));
        for address in [NAME_SERVER, BROKER, SLAVE] {
            let listener = network.listen(address.parse().expect("an address"), 64 * 1024);
            let serving = env.spawn(this.clone().accept(listener, address));
            this.own(serving);
        }
        this
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().expect("no test thread panicked in here")
    }

    fn own(&self, task: Task) {
        self.0.tasks.lock().expect("no test thread panicked in here").push(task);
    }

    pub(super) fn create_topic(&self, topic: &str, queues: i32) {
        self.state().topics.insert(topic.to_owned(), queues);
    }

    /// Makes no retry topics, so that consumers read nothing but what they subscribe to.
    pub(super) fn keep_retry_topics_away(&self) {
        self.state().keeps_retry_topics_away = true;
    }

    /// Answers the next requests of that code as scripted, one after the other.
    pub(super) fn script(&self, code: RequestCode, answers: impl IntoIterator<Item = Scripted>) {
        let mut state = self.state();
        match state.script.iter_mut().find(|(scripted, _)| *scripted == code) {
            Some((_, script)) => script.extend(answers),
            None => state.script.push((code, answers.into_iter().collect())),
        }
    }

    pub(super) fn clear_script(&self) {
        self.state().script.clear();
    }

    /// Stores a message, and returns its offset.
    pub(super) fn append(&self, queue_id: i32, message: &Stored<'_>) -> i64 {
        let mut state = self.state();
        let key = (message.topic.to_owned(), queue_id);
        let physical_offset = state.next_physical_offset;
        let queue = state.queues.entry(key).or_default();
        let offset = queue.min + queue.records.len() as i64;
        let record = encode(queue_id, offset, physical_offset, message);
        queue.records.push(record.clone());
        state.next_physical_offset += record.len() as i64;
        drop(state);
        self.0.appended.send_modify(|count| *count += 1);
        offset
    }

    /// Stores messages `from..to` of a topic, one queue after the other; their keys are their numbers.
    pub(super) fn append_numbered(&self, topic: &str, queues: i32, numbers: std::ops::Range<i32>) {
        for number in numbers {
            let key = number.to_string();
            let properties = [(properties::KEYS, key.as_str()), (properties::UNIQUE_ID, key.as_str())];
            let body = key.as_bytes();
            self.append(number % queues, &Stored { topic, body, properties: &properties, ..Default::default() });
        }
    }

    /// Forgets what lies below an offset.
    pub(super) fn expire(&self, topic: &str, queue_id: i32, min: i64) {
        let mut state = self.state();
        let queue = state.queues.get_mut(&(topic.to_owned(), queue_id)).expect("a queue with messages");
        queue.records.drain(..(min - queue.min) as usize);
        queue.min = min;
    }

    pub(super) fn records(&self, topic: &str, queue_id: i32) -> Vec<Bytes> {
        self.state().queues[&(topic.to_owned(), queue_id)].records.clone()
    }

    pub(super) fn committed(&self, group: &str, topic: &str, queue_id: i32) -> Option<i64> {
        self.state().offsets.get(&(group.to_owned(), topic.to_owned(), queue_id)).copied()
    }

    pub(super) fn count(&self, code: RequestCode) -> usize {
        self.state().requests.iter().filter(|asked| asked.code() == code).count()
    }

    pub(super) fn last(&self, code: RequestCode) -> RemotingCommand {
        let state = self.state();
        let asked = state.requests.iter().rev().find(|asked| asked.code() == code);
        asked.map(|asked| asked.request.clone()).expect("asked before")
    }

    /// Tells all members that their group changed.
    pub(super) fn notify(&self, group: &str) {
        let state = self.state();
        let command = command(
            RequestCode::NOTIFY_CONSUMER_IDS_CHANGED.0,
            0,
            ONE_WAY_FLAG,
            None,
            vec![("consumerGroup", group.to_owned())],
        );
        let connections: BTreeSet<_> = state.members.get(group).into_iter().flat_map(BTreeMap::values).collect();
        for connection in connections {
            if let Some(sender) = state.connections.get(connection) {
                let _ = sender.send(command.to_bytes().expect("fits a frame"));
            }
        }
    }

    async fn accept(self, mut listener: MemoryListener, address: &'static str) {
        loop {
            let stream = listener.accept().await;
            let serving = self.0.env.spawn(self.clone().serve(stream, address));
            self.own(serving);
        }
    }

    async fn serve(self, stream: DuplexStream, address: &'static str) {
        let (mut reader, mut writer) = tokio::io::split(stream);
        let (answers, mut to_write) = mpsc::unbounded_channel::<Bytes>();
        let id = {
            let mut state = self.state();
            state.next_connection += 1;
            let id = state.next_connection;
            state.connections.insert(id, answers.clone());
            id
        };
        let hang_up = tokio_util::sync::CancellationToken::new();
        let read = async {
            let mut buffer = BytesMut::new();
            loop {
                while let Some(frame) = Frame::next(&mut buffer, usize::MAX).expect("the client sends frames") {
                    let request = RemotingCommand::decode(&frame).expect("the client sends requests");
                    if request.flag & RESPONSE_FLAG != 0 {
                        self.state().answered.push(request);
                        continue;
                    }
                    let answering = self.clone().answer(id, address, request, answers.clone(), hang_up.clone());
                    let answering = self.0.env.spawn(answering);
                    self.own(answering);
                }
                if reader.read_buf(&mut buffer).await.unwrap_or(0) == 0 {
                    return;
                }
            }
        };
        let write = async {
            while let Some(bytes) = to_write.recv().await {
                if writer.write_all(&bytes).await.is_err() {
                    return;
                }
            }
        };
        tokio::select! {
            () = read => {}
            () = write => {}
            () = hang_up.cancelled() => {}
        }
        self.disconnected(id);
    }

    fn disconnected(&self, id: u64) {
        let mut changed = Vec::new();
        {
            let mut state = self.state();
            state.connections.remove(&id);
            for (group, members) in &mut state.members {
                let before = members.len();
                members.retain(|_, connection| *connection != id);
                if members.len() != before {
                    changed.push(group.clone());
                }
            }
        }
        for group in changed {
            self.notify(&group);
        }
    }

    async fn answer(
        self,
        connection: u64,
        address: &'static str,
        request: RemotingCommand,
        answers: mpsc::UnboundedSender<Bytes>,
        hang_up: tokio_util::sync::CancellationToken,
    ) {
        let code = RequestCode(request.code);
        let scripted = {
            let mut state = self.state();
            state.requests.push(Asked { request: request.clone(), of_slave: address == SLAVE });
            if (address == BROKER && state.master_is_away) || (address != SLAVE && state.all_are_away) {
                drop(state);
                return hang_up.cancel();
            }
            let script = state.script.iter_mut().find(|(scripted, _)| *scripted == code);
            script.and_then(|(_, script)| script.pop_front())
        };
        let answer = match scripted {
            Some(Scripted::HangUp) => return hang_up.cancel(),
            Some(Scripted::Silence) => return,
            Some(Scripted::Answer(code, remark, fields, body)) => {
                RemotingCommand { body, ..command(code.0, request.opaque, RESPONSE_FLAG, remark, fields) }
            }
            Some(Scripted::AsUsual) | None => self.answer_as_usual(connection, code, &request).await,
        };
        if request.flag & ONE_WAY_FLAG == 0 {
            let answer = RemotingCommand { opaque: request.opaque, ..answer };
            let _ = answers.send(answer.to_bytes().expect("fits a frame"));
        }
    }

    async fn answer_as_usual(&self, connection: u64, code: RequestCode, request: &RemotingCommand) -> RemotingCommand {
        let field = |name: &str| request.field(name).unwrap_or_default().to_owned();
        let number = |name: &str| request.field(name).and_then(|value| value.parse::<i64>().ok()).unwrap_or_default();
        let key = || (field("consumerGroup"), field("topic"), number("queueId") as i32);
        match code {
            RequestCode::GET_ROUTEINFO_BY_TOPIC => self.route(&field("topic")),
            RequestCode::HEART_BEAT => {
                self.heartbeat(connection, &serde_json::from_slice(&request.body).expect("a heartbeat"));
                success(Vec::new())
            }
            RequestCode::UNREGISTER_CLIENT => {
                let group = field("consumerGroup");
                if let Some(members) = self.state().members.get_mut(&group) {
                    members.remove(&field("clientID"));
                }
                self.notify(&group);
                success(Vec::new())
            }
            RequestCode::GET_CONSUMER_LIST_BY_GROUP => {
                let state = self.state();
                match state.members.get(&field("consumerGroup")).filter(|members| !members.is_empty()) {
                    Some(members) => {
                        let ids: Vec<_> = members.keys().collect();
                        let body = serde_json::json!({ "consumerIdList": ids }).to_string().into();
                        RemotingCommand { body, ..success(Vec::new()) }
                    }
                    None => refusal(ResponseCode::SYSTEM_ERROR),
                }
            }
            RequestCode::QUERY_CONSUMER_OFFSET => match self.state().offsets.get(&key()) {
                Some(offset) => success(vec![("offset", offset.to_string())]),
                None => refusal(ResponseCode::QUERY_NOT_FOUND),
            },
            RequestCode::UPDATE_CONSUMER_OFFSET => {
                self.state().offsets.insert(key(), number("commitOffset"));
                success(Vec::new())
            }
            RequestCode::GET_MIN_OFFSET => {
                let (min, _) = self.bounds(&field("topic"), number("queueId") as i32);
                success(vec![("offset", min.to_string())])
            }
            RequestCode::GET_MAX_OFFSET => {
                let (_, max) = self.bounds(&field("topic"), number("queueId") as i32);
                success(vec![("offset", max.to_string())])
            }
            RequestCode::LOCK_BATCH_MQ => self.lock(request),
            RequestCode::UNLOCK_BATCH_MQ => {
                let batch: LockBatch = serde_json::from_slice(&request.body).expect("queues to unlock");
                self.state().locks.retain(|(group, topic, id), owner| {
                    let is_meant = *group == batch.consumer_group && *owner == batch.client_id;
                    !is_meant || !batch.mq_set.iter().any(|queue| queue.topic == *topic && queue.queue_id == *id)
                });
                success(Vec::new())
            }
            RequestCode::CHECK_CLIENT_CONFIG => success(Vec::new()),
            RequestCode::GET_CONSUMER_CONNECTION_LIST => {
                let table: serde_json::Map<_, _> = self
                    .state()
                    .subscriptions_of_others
                    .iter()
                    .map(|(topic, text)| (topic.clone(), serde_json::json!({ "topic": topic, "subString": text })))
                    .collect();
                let body = serde_json::json!({ "subscriptionTable": table }).to_string().into();
                RemotingCommand { body, ..success(Vec::new()) }
            }
            RequestCode::PULL_MESSAGE => self.pull(request).await,
            RequestCode::CONSUMER_SEND_MSG_BACK => {
                self.state().sent.push(request.clone());
                self.take_back(&field("group"), number("offset"), &field("originTopic"))
            }
            RequestCode::SEND_MESSAGE_V2 => {
                self.state().sent.push(request.clone());
                success(vec![("msgId", "0".into()), ("queueId", "0".into()), ("queueOffset", "0".into())])
            }
            _ => refusal(ResponseCode::REQUEST_CODE_NOT_SUPPORTED),
        }
    }

    fn lock(&self, request: &RemotingCommand) -> RemotingCommand {
        let batch: LockBatch = serde_json::from_slice(&request.body).expect("queues to lock");
        let mut state = self.state();
        let mut locked = Vec::new();
        for queue in batch.mq_set {
            let key = (batch.consumer_group.clone(), queue.topic.clone(), queue.queue_id);
            let owner = state.locks.entry(key).or_insert_with(|| batch.client_id.clone());
            if *owner == batch.client_id {
                locked.push(queue);
            }
        }
        let body = serde_json::to_vec(&LockedQueues { locked }).expect("plain data").into();
        RemotingCommand { body, ..success(Vec::new()) }
    }

    /// Asks the member of a group something, as brokers do for administrators. The answer is not looked at.
    pub(super) fn ask_member(&self, code: RequestCode, group: &str, fields: Vec<(&'static str, String)>, body: Bytes) {
        let state = self.state();
        let request = RemotingCommand { body, ..command(code.0, 77, 0, None, fields) };
        let connections: BTreeSet<_> = state.members.get(group).into_iter().flat_map(BTreeMap::values).collect();
        for connection in connections {
            if let Some(sender) = state.connections.get(connection) {
                let _ = sender.send(request.to_bytes().expect("fits a frame"));
            }
        }
    }

    fn route(&self, topic: &str) -> RemotingCommand {
        let Some(queues) = self.state().topics.get(topic).copied() else {
            return refusal(ResponseCode::TOPIC_NOT_EXIST);
        };
        let master = if self.state().has_moved { SLAVE } else { BROKER };
        let slave = if self.state().has_slave { format!(r#",1:"{SLAVE}""#) } else { String::new() };
        let body = format!(
            r#"{{"brokerDatas":[{{"brokerAddrs":{{0:"{master}"{slave}}},"brokerName":"{BROKER_NAME}","cluster":"c"}}],
                "queueDatas":[{{"brokerName":"{BROKER_NAME}","perm":6,"readQueueNums":{queues},"writeQueueNums":{queues}}}]}}"#
        );
        RemotingCommand { body: body.into(), ..success(Vec::new()) }
    }

    fn heartbeat(&self, connection: u64, heartbeat: &HeartbeatData) {
        for consumer in &heartbeat.consumer_data_set {
            let is_new = {
                let mut state = self.state();
                if !state.keeps_retry_topics_away {
                    state.topics.entry(format!("%RETRY%{}", consumer.group_name)).or_insert(1);
                }
                let members = state.members.entry(consumer.group_name.clone()).or_default();
                members.insert(heartbeat.client_id.clone(), connection) != Some(connection)
            };
            if is_new {
                self.notify(&consumer.group_name);
            }
        }
    }

    fn bounds(&self, topic: &str, queue_id: i32) -> (i64, i64) {
        let state = self.state();
        let queue = state.queues.get(&(topic.to_owned(), queue_id));
        queue.map_or((0, 0), |queue| (queue.min, queue.min + queue.records.len() as i64))
    }

    async fn pull(&self, request: &RemotingCommand) -> RemotingCommand {
        let number = |name: &str| request.field(name).and_then(|value| value.parse::<i64>().ok()).expect(name);
        let (topic, queue_id) = (request.field("topic").expect("a topic"), number("queueId") as i32);
        let group = request.field("consumerGroup").expect("a group");
        if number("sysFlag") & 1 != 0 {
            let key = (group.to_owned(), topic.to_owned(), queue_id);
            self.state().offsets.insert(key, number("commitOffset"));
        }
        let offset = number("queueOffset");
        let held_until = self.0.env.now() + Duration::from_millis(number("suspendTimeoutMillis") as u64);
        let mut appended = self.0.appended.subscribe();
        loop {
            appended.borrow_and_update();
            let (min, max) = self.bounds(topic, queue_id);
            let suggested = self.state().suggested;
            let answer = |code: ResponseCode, next: i64| {
                let fields = vec![
                    ("suggestWhichBrokerId", suggested.to_string()),
                    ("nextBeginOffset", next.to_string()),
                    ("minOffset", min.to_string()),
                    ("maxOffset", max.to_string()),
                ];
                command(code.0, 0, RESPONSE_FLAG, None, fields)
            };
            if offset < min || offset > max {
                return answer(ResponseCode::PULL_OFFSET_MOVED, offset.clamp(min, max));
            }
            if offset < max {
                let state = self.state();
                let records = &state.queues[&(topic.to_owned(), queue_id)].records[(offset - min) as usize..];
                let records = &records[..records.len().min(number("maxMsgNums") as usize)];
                let body = records.concat().into();
                return RemotingCommand { body, ..answer(ResponseCode::SUCCESS, offset + records.len() as i64) };
            }
            let is_held = !self.state().answers_empty_pulls_at_once
                && self.0.env.within(held_until, appended.changed()).await.is_some();
            if !is_held {
                return answer(ResponseCode::PULL_NOT_FOUND, offset);
            }
        }
    }

    /// Delivers the message at a commit log offset again after a while, over the group's retry topic.
    fn take_back(&self, group: &str, physical_offset: i64, origin_topic: &str) -> RemotingCommand {
        let stored = self.state().queues.values().flat_map(|queue| &queue.records).find_map(|record| {
            let (stored, _) = StoredMessage::parse(record.clone()).ok()?;
            (stored.physical_offset() == physical_offset).then_some(stored)
        });
        let Some(stored) = stored else { return refusal(ResponseCode::SYSTEM_ERROR) };
        let (this, topic) = (self.clone(), format!("%RETRY%{group}"));
        let origin_topic = stored.property(properties::RETRY_TOPIC).unwrap_or(origin_topic).to_owned();
        let later = self.0.env.spawn(async move {
            this.0.env.sleep(RETRY_DELAY).await;
            let kept = stored.properties().iter().filter(|(name, _)| *name != properties::RETRY_TOPIC);
            let all: Vec<_> = kept.chain([(properties::RETRY_TOPIC, origin_topic.as_str())]).collect();
            this.append(
                0,
                &Stored {
                    topic: &topic,
                    body: stored.view().body(),
                    properties: &all,
                    reconsume_times: stored.reconsume_times() + 1,
                    sys_flag: stored.sys_flag(),
                },
            );
        });
        self.own(later);
        success(Vec::new())
    }
}

pub(super) fn encode(queue_id: i32, queue_offset: i64, physical_offset: i64, message: &Stored<'_>) -> Bytes {
    let mut text = PropertiesWriter::new();
    for (name, value) in message.properties {
        text.push(name, value).expect("no separators");
    }
    let text = text.finish();
    let host = BROKER.parse().expect("an address");
    let record = Record {
        version: Default::default(),
        queue_id,
        flag: 0,
        queue_offset,
        physical_offset,
        sys_flag: message.sys_flag,
        born_timestamp: 1_700_000_000_000,
        born_host: host,
        store_timestamp: 1_700_000_000_001,
        store_host: host,
        reconsume_times: message.reconsume_times,
        prepared_transaction_offset: 0,
        body: message.body,
        topic: message.topic,
        properties: text.as_bytes(),
    };
    let mut bytes = BytesMut::new();
    bytes.put_bytes(0, record.encoded_len().expect("small"));
    record.encode(&mut bytes).expect("there is room");
    bytes.freeze()
}

fn success(fields: Vec<(&'static str, String)>) -> RemotingCommand {
    command(ResponseCode::SUCCESS.0, 0, RESPONSE_FLAG, None, fields)
}

fn refusal(code: ResponseCode) -> RemotingCommand {
    command(code.0, 0, RESPONSE_FLAG, Some("as the broker does"), Vec::new())
}

fn command(
    code: i32,
    opaque: i32,
    flag: i32,
    remark: Option<&str>,
    fields: Vec<(&'static str, String)>,
) -> RemotingCommand {
    RemotingCommand {
        serialize_type: SerializeType::Json,
        code,
        language: LanguageCode::JAVA,
        version: Version::V5_3_3,
        opaque,
        flag,
        remark: remark.map(str::to_owned),
        fields: Some(fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()),
        body: Bytes::new(),
    }
}
