//! Name servers and brokers that do what a test tells them, on a network in memory and on manual time.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::{Bytes, BytesMut};
use rocketmq_wire::header::{ONE_WAY_FLAG, RESPONSE_FLAG};
use rocketmq_wire::{Frame, LanguageCode, RemotingCommand, RequestCode, ResponseCode, Version};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::sync::mpsc;

use crate::client::{Client, ClientBuilder};
use crate::env::{Env, ManualClock, Task};
use crate::transport::MemoryNetwork;

/// Bytes in flight in each direction of a connection.
const PIPE: usize = 64 * 1024;

/// What a server does about a request.
pub(crate) enum Reaction {
    /// Answers.
    Answer(RemotingCommand),
    /// Answers with so many of the answer's bytes, and ends the connection.
    Cut(RemotingCommand, usize),
    /// Answers when [`Server::release`] is called.
    Held(RemotingCommand),
    /// Never answers.
    Silence,
    /// Ends the connection.
    HangUp,
}

/// A good answer to `request`, with these fields.
pub(crate) fn success(request: &RemotingCommand, fields: &[(&str, &str)]) -> RemotingCommand {
    RemotingCommand {
        serialize_type: request.serialize_type,
        code: ResponseCode::SUCCESS.0,
        language: LanguageCode::JAVA,
        version: Version::V5_3_3,
        opaque: request.opaque,
        flag: RESPONSE_FLAG,
        remark: None,
        fields: Some(fields.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())).collect()),
        body: Bytes::new(),
    }
}

/// An answer to `request` with this code.
pub(crate) fn answer(request: &RemotingCommand, code: ResponseCode) -> Reaction {
    Reaction::Answer(RemotingCommand { code: code.0, remark: Some("scripted".to_owned()), ..success(request, &[]) })
}

/// The answer that a message was stored, at the offset that its commit log had.
pub(crate) fn stored(request: &RemotingCommand, code: ResponseCode) -> Reaction {
    let queue = request.field("e").expect("a send names its queue");
    let fields = [
        ("msgId", "0A00000200002A9F000000000000002A"),
        ("queueId", queue),
        ("queueOffset", "7"),
        ("transactionId", ""),
    ];
    Reaction::Answer(RemotingCommand { code: code.0, ..success(request, &fields) })
}

type Script = dyn Fn(&RemotingCommand) -> Reaction + Send + Sync;

/// A server and its connections; they end when it is dropped.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    shared: Arc<Shared>,
    _accepting: Task,
}

struct Shared {
    script: Mutex<Arc<Script>>,
    journal: Mutex<Vec<RemotingCommand>>,
    answers: Mutex<Vec<RemotingCommand>>,
    held: Mutex<Vec<RemotingCommand>>,
    /// Ends each connection when dropped, and sends it requests.
    connections: Mutex<Vec<(mpsc::Sender<RemotingCommand>, Task)>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Server {
    pub(crate) fn start(
        env: &Env,
        network: &MemoryNetwork,
        address: &str,
        script: impl Fn(&RemotingCommand) -> Reaction + Send + Sync + 'static,
    ) -> Self {
        let address = address.parse().expect("an address");
        let mut listener = network.listen(address, PIPE);
        let shared = Arc::new(Shared {
            script: Mutex::new(Arc::new(script)),
            journal: Mutex::default(),
            answers: Mutex::default(),
            held: Mutex::default(),
            connections: Mutex::default(),
        });
        let (accepting, spawner) = (Arc::clone(&shared), env.clone());
        let accepting = env.spawn(async move {
            loop {
                let stream = listener.accept().await;
                let (requests, outgoing) = mpsc::channel(16);
                let serving = spawner.spawn(serve(stream, Arc::clone(&accepting), outgoing));
                lock(&accepting.connections).push((requests, serving));
            }
        });
        Self { address, shared, _accepting: accepting }
    }

    /// Changes what the server does from now on.
    pub(crate) fn react(&self, script: impl Fn(&RemotingCommand) -> Reaction + Send + Sync + 'static) {
        *lock(&self.shared.script) = Arc::new(script);
    }

    /// The requests of one kind so far.
    pub(crate) fn requests(&self, code: RequestCode) -> Vec<RemotingCommand> {
        lock(&self.shared.journal).iter().filter(|request| request.code == code.0).cloned().collect()
    }

    /// Sends a one-way request over every connection.
    pub(crate) async fn tell(&self, code: RequestCode, fields: &[(&str, &str)]) {
        self.push(code, ONE_WAY_FLAG, fields, Bytes::new()).await;
    }

    /// Sends a request over every connection. Its answers are in [`answers`](Self::answers).
    pub(crate) async fn push(&self, code: RequestCode, flag: i32, fields: &[(&str, &str)], body: Bytes) {
        let connections: Vec<_> = lock(&self.shared.connections).iter().map(|(requests, _)| requests.clone()).collect();
        for requests in connections {
            let like = RemotingCommand {
                serialize_type: Default::default(),
                code: 0,
                language: LanguageCode::JAVA,
                version: Version::V5_3_3,
                opaque: 0,
                flag: 0,
                remark: None,
                fields: None,
                body: Bytes::new(),
            };
            let request = RemotingCommand { code: code.0, flag, body: body.clone(), ..success(&like, fields) };
            // A connection that ended is not told.
            let _ = requests.send(request).await;
        }
    }

    /// Sends the answers that are held, over every connection.
    pub(crate) async fn release(&self) {
        let held = std::mem::take(&mut *lock(&self.shared.held));
        let connections: Vec<_> = lock(&self.shared.connections).iter().map(|(requests, _)| requests.clone()).collect();
        for (answer, connection) in held.iter().flat_map(|answer| connections.iter().map(move |one| (answer, one))) {
            // A connection that ended gets none.
            let _ = connection.send(answer.clone()).await;
        }
    }

    /// The client's answers to what was asked of it so far.
    pub(crate) fn answers(&self) -> Vec<RemotingCommand> {
        lock(&self.shared.answers).clone()
    }

    /// Connections that neither side has ended.
    pub(crate) fn open_connections(&self) -> usize {
        lock(&self.shared.connections).iter().filter(|(_, serving)| !serving.is_finished()).count()
    }

    /// Ends all connections; new ones are accepted.
    pub(crate) fn hang_up(&self) {
        lock(&self.shared.connections).clear();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // The tasks hold what is shared, and would otherwise go on.
        self.hang_up();
    }
}

async fn serve(mut stream: DuplexStream, shared: Arc<Shared>, mut outgoing: mpsc::Receiver<RemotingCommand>) {
    let mut buffer = BytesMut::new();
    loop {
        while let Some(frame) = Frame::next(&mut buffer, usize::MAX).expect("a frame") {
            let request = RemotingCommand::decode(&frame).expect("a request");
            if request.flag & RESPONSE_FLAG != 0 {
                lock(&shared.answers).push(request);
                continue;
            }
            lock(&shared.journal).push(request.clone());
            let script = Arc::clone(&lock(&shared.script));
            match script(&request) {
                Reaction::Answer(answer) if request.flag & ONE_WAY_FLAG == 0 => {
                    if stream.write_all(&answer.to_bytes().expect("fits a frame")).await.is_err() {
                        return;
                    }
                }
                Reaction::Cut(answer, length) => {
                    let bytes = answer.to_bytes().expect("fits a frame");
                    // The client may have gone already.
                    let _ = stream.write_all(&bytes[..length.min(bytes.len())]).await;
                    return;
                }
                Reaction::Held(answer) => lock(&shared.held).push(answer),
                Reaction::Answer(_) | Reaction::Silence => {}
                Reaction::HangUp => return,
            }
        }
        tokio::select! {
            read = stream.read_buf(&mut buffer) => if !read.is_ok_and(|count| count > 0) { return },
            Some(request) = outgoing.recv() => {
                if stream.write_all(&request.to_bytes().expect("fits a frame")).await.is_err() {
                    return;
                }
            }
        }
    }
}

/// Topics that a scripted name server knows, as the JSON of their routes.
pub(crate) type Topics = Arc<Mutex<BTreeMap<String, String>>>;

/// A cluster of one name server and brokers `a`, `b` and so on, each with two queues of the topic `t` and eight of the
/// default topic.
pub(crate) struct Scripted {
    pub(crate) env: Env,
    pub(crate) clock: ManualClock,
    pub(crate) network: MemoryNetwork,
    pub(crate) topics: Topics,
    pub(crate) name_server: Server,
    pub(crate) brokers: Vec<Server>,
}

pub(crate) const NAME_SERVER: &str = "10.0.0.1:9876";

impl Scripted {
    pub(crate) fn start(brokers: usize) -> Self {
        let network = MemoryNetwork::default();
        let (env, clock) = Env::manual(1, Arc::new(network.clone())).expect("inside a runtime");
        let topics = Topics::default();
        let name_server = Server::start(&env, &network, NAME_SERVER, name_server(&topics));
        let servers: Vec<_> =
            (0..brokers).map(|index| Server::start(&env, &network, &format!("10.0.1.{index}:10911"), broker)).collect();
        let scripted = Self { env, clock, network, topics, name_server, brokers: servers };
        scripted.set_topic("t", 2);
        scripted.set_topic("TBW102", 8);
        scripted
    }

    /// Gives a topic so many queues on each broker.
    pub(crate) fn set_topic(&self, topic: &str, queues: i32) {
        let brokers: Vec<_> = self.brokers.iter().enumerate().map(|(index, server)| (name(index), server)).collect();
        let brokers: Vec<_> = brokers.iter().map(|(name, server)| (name.as_str(), server.address)).collect();
        lock(&self.topics).insert(topic.to_owned(), route(&brokers, queues));
    }

    pub(crate) fn remove_topic(&self, topic: &str) {
        lock(&self.topics).remove(topic);
    }

    pub(crate) fn builder(&self) -> ClientBuilder {
        Client::builder(NAME_SERVER).env(self.env.clone())
    }

    pub(crate) async fn client(&self) -> Client {
        self.builder().connect().await.expect("the name server answers")
    }

    /// Makes broker `index` do something else about sends.
    pub(crate) fn on_send(
        &self,
        index: usize,
        reaction: impl Fn(&RemotingCommand) -> Reaction + Send + Sync + 'static,
    ) {
        self.brokers[index].react(move |request| {
            if request.code == RequestCode::SEND_MESSAGE_V2.0 { reaction(request) } else { broker(request) }
        });
    }

    /// Sends that reached each broker.
    pub(crate) fn sends(&self) -> Vec<usize> {
        self.brokers.iter().map(|broker| broker.requests(RequestCode::SEND_MESSAGE_V2).len()).collect()
    }
}

fn name(index: usize) -> String {
    char::from(b'a' + index as u8).to_string()
}

/// A route with so many queues on each of these brokers, in the dialect with bare keys.
pub(crate) fn route(brokers: &[(&str, SocketAddr)], queues: i32) -> String {
    let mut datas = String::new();
    let mut queue_datas = String::new();
    for (position, (name, address)) in brokers.iter().enumerate() {
        let comma = if position == 0 { "" } else { "," };
        let _ = write!(datas, r#"{comma}{{"brokerAddrs":{{0:"{address}"}},"brokerName":"{name}","cluster":"c"}}"#);
        let _ = write!(
            queue_datas,
            r#"{comma}{{"brokerName":"{name}","perm":6,"readQueueNums":{queues},"topicSysFlag":0,"writeQueueNums":{queues}}}"#
        );
    }
    format!(r#"{{"brokerDatas":[{datas}],"filterServerTable":{{}},"queueDatas":[{queue_datas}]}}"#)
}

/// Answers route requests by a table.
pub(crate) fn name_server(topics: &Topics) -> impl Fn(&RemotingCommand) -> Reaction + Send + Sync + 'static {
    let topics = Arc::clone(topics);
    move |request| {
        let route = request.field("topic").and_then(|topic| lock(&topics).get(topic).cloned());
        match route {
            Some(route) => Reaction::Answer(RemotingCommand { body: route.into(), ..success(request, &[]) }),
            None => answer(request, ResponseCode::TOPIC_NOT_EXIST),
        }
    }
}

/// Stores what is sent, and agrees to everything else.
pub(crate) fn broker(request: &RemotingCommand) -> Reaction {
    match RequestCode(request.code) {
        RequestCode::SEND_MESSAGE_V2 => stored(request, ResponseCode::SUCCESS),
        _ => Reaction::Answer(success(request, &[])),
    }
}
