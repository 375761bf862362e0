//! A name server and broker that answer as fast as one thread can and keep nothing: the other end for measuring a
//! client. Written by itself, so that nothing of the client or the mock broker can be slow on both sides.

mod answer;
mod backlog;
mod request;

use std::{cell::RefCell, collections::HashMap, io, rc::Rc};

use answer::Digits;
use backlog::{Backlog, Holding};
use bytes::{Buf, BytesMut};
use request::Request;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    task::LocalSet,
    time::{self, Duration, Instant},
};

/// Queues of every topic.
const QUEUES: i32 = 4;

/// Free room kept in a connection's read buffer, in bytes.
const READ_ROOM: usize = 256 * 1024;
/// How long a pull without messages is held.
const HOLD: Duration = Duration::from_secs(1);

/// What asks how often the offset of each queue was stored.
pub(crate) const RUNTIME_INFO: u32 = 28;

const SUCCESS: i32 = 0;
const NOT_SUPPORTED: i32 = 3;
const PULL_NOT_FOUND: i32 = 19;
const QUERY_NOT_FOUND: i32 = 22;

/// What all connections share. One thread serves them, so nothing is locked.
#[derive(Debug)]
struct Stub {
    broker: String,
    message_id_prefix: String,
    backlog: Backlog,
    next_queue_offset: [i64; QUEUES as usize],
    physical_offset: i64,
    /// The offset of each group in each queue, and how often it was stored.
    committed: HashMap<(String, String, i64), (i64, u64)>,
    /// Clients, each with the number of its connection.
    clients: Vec<(u64, String)>,
    connections: u64,
}

/// What belongs to one connection.
#[derive(Debug)]
struct Session {
    number: u64,
    held: Vec<HeldPull>,
}

/// A pull that waits for messages that will not come.
#[derive(Debug)]
struct HeldPull {
    request: Request<'static>,
    offset: i64,
    max: i64,
    until: Instant,
}

impl Stub {
    /// A broker at `127.0.0.1:port`.
    fn new(port: u16) -> Self {
        Self {
            broker: format!("127.0.0.1:{port}"),
            message_id_prefix: format!("7F000001{port:08X}"),
            backlog: Backlog::default(),
            next_queue_offset: [0; QUEUES as usize],
            physical_offset: 0,
            committed: HashMap::new(),
            clients: Vec::new(),
            connections: 0,
        }
    }

    fn send(&mut self, out: &mut Vec<u8>, request: &Request<'_>) {
        let queue_id = match request.field(if request.code == 10 { "queueId" } else { "e" }) {
            Some("1") => 1,
            Some("2") => 2,
            Some("3") => 3,
            _ => 0usize,
        };
        let queue_offset = self.next_queue_offset[queue_id];
        self.next_queue_offset[queue_id] += 1;
        self.physical_offset += 300;
        let mut message_id = [0; 32];
        message_id[..16].copy_from_slice(self.message_id_prefix.as_bytes());
        for (index, digit) in message_id[16..].iter_mut().enumerate() {
            *digit = b"0123456789ABCDEF"[(self.physical_offset >> (60 - 4 * index)) as usize & 15];
        }
        let mut digits = Digits::default();
        let fields = [
            ("queueId", ["0", "1", "2", "3"][queue_id]),
            ("TRACE_ON", "true"),
            ("MSG_REGION", "DefaultRegion"),
            ("msgId", std::str::from_utf8(&message_id).unwrap_or_default()),
            ("queueOffset", digits.format(queue_offset)),
        ];
        answer::write(out, request, SUCCESS, &fields, &[]);
    }

    fn pull(&mut self, out: &mut Vec<u8>, request: &Request<'_>, held: &mut Vec<HeldPull>) {
        let offset = request.number("queueOffset").max(0);
        let topic = request.field("topic").unwrap_or_default();
        let Holding { body, messages: max } = Holding::of(topic);
        let next = (offset + request.number("maxMsgNums").clamp(1, 1024)).min(max);
        if next <= offset {
            held.push(HeldPull { request: request.without_fields(), offset, max, until: Instant::now() + HOLD });
            return;
        }
        let mut records = Vec::new();
        self.backlog.write(&mut records, topic, body, request.number("queueId") as i32, offset..next);
        pull_answer(out, request, SUCCESS, next, max, &records);
    }

    fn route(&self, out: &mut Vec<u8>, request: &Request<'_>) {
        let body = format!(
            "{{\"brokerDatas\":[{{\"brokerAddrs\":{{\"0\":\"{}\"}},\"brokerName\":\"stub\",\"cluster\":\"StubCluster\",\
             \"enableActingMaster\":false}}],\"filterServerTable\":{{}},\"queueDatas\":[{{\"brokerName\":\"stub\",\
             \"perm\":6,\"readQueueNums\":{QUEUES},\"topicSysFlag\":0,\"writeQueueNums\":{QUEUES}}}]}}",
            self.broker
        );
        answer::write(out, request, SUCCESS, &[], body.as_bytes());
    }

    fn heartbeat(&mut self, out: &mut Vec<u8>, request: &Request<'_>, connection: u64) {
        let body = String::from_utf8_lossy(request.body);
        if let Some((_, rest)) = body.split_once("\"clientID\":\"")
            && let Some((client, _)) = rest.split_once('"')
            && !self.clients.iter().any(|(_, known)| known == client)
        {
            self.clients.push((connection, client.to_owned()));
        }
        let fields = [("IS_SUB_CHANGE", "true"), ("IS_SUPPORT_HEART_BEAT_V2", "true")];
        answer::write(out, request, SUCCESS, &fields, &[]);
    }

    fn consumer_list(&self, out: &mut Vec<u8>, request: &Request<'_>) {
        let clients: Vec<_> = self.clients.iter().map(|(_, client)| client).collect();
        let body = serde_json::json!({ "consumerIdList": clients }).to_string();
        answer::write(out, request, SUCCESS, &[], body.as_bytes());
    }

    fn query_offset(&self, out: &mut Vec<u8>, request: &Request<'_>) {
        match self.committed.get(&queue_key(request)) {
            Some((offset, _)) => offset_answer(out, request, *offset),
            None => answer::write(out, request, QUERY_NOT_FOUND, &[], &[]),
        }
    }

    fn update_offset(&mut self, out: &mut Vec<u8>, request: &Request<'_>) {
        let (offset, times) = self.committed.entry(queue_key(request)).or_default();
        *offset = request.number("commitOffset");
        *times += 1;
        answer::write(out, request, SUCCESS, &[], &[]);
    }

    fn runtime_info(&self, out: &mut Vec<u8>, request: &Request<'_>) {
        let times = self.committed.iter();
        let table: serde_json::Map<_, _> = times
            .map(|((group, topic, queue), (_, times))| (format!("{group} {topic} {queue}"), times.to_string().into()))
            .collect();
        let body = serde_json::json!({ "table": table }).to_string();
        answer::write(out, request, SUCCESS, &[], body.as_bytes());
    }

    /// Answers one request at the end of `out`.
    fn handle(&mut self, out: &mut Vec<u8>, request: &Request<'_>, session: &mut Session) {
        let start = out.len();
        match request.code {
            310 | 10 | 320 => self.send(out, request),
            11 => self.pull(out, request, &mut session.held),
            105 => self.route(out, request),
            34 => self.heartbeat(out, request, session.number),
            38 => self.consumer_list(out, request),
            14 => self.query_offset(out, request),
            15 => self.update_offset(out, request),
            28 => self.runtime_info(out, request),
            30 => {
                let held = Holding::of(request.field("topic").unwrap_or_default());
                offset_answer(out, request, held.messages);
            }
            29 | 31 => offset_answer(out, request, 0),
            17 | 35 | 36 | 37 => answer::write(out, request, SUCCESS, &[], &[]),
            _ => answer::write(out, request, NOT_SUPPORTED, &[], &[]),
        }
        if request.one_way {
            out.truncate(start);
        }
    }
}

fn queue_key(request: &Request<'_>) -> (String, String, i64) {
    let text = |name| request.field(name).unwrap_or_default().to_owned();
    (text("consumerGroup"), text("topic"), request.number("queueId"))
}

fn offset_answer(out: &mut Vec<u8>, request: &Request<'_>, offset: i64) {
    let mut digits = Digits::default();
    answer::write(out, request, SUCCESS, &[("offset", digits.format(offset))], &[]);
}

fn pull_answer(out: &mut Vec<u8>, request: &Request<'_>, code: i32, next: i64, max: i64, body: &[u8]) {
    let (mut next_digits, mut max_digits) = (Digits::default(), Digits::default());
    let fields = [
        ("suggestWhichBrokerId", "0"),
        ("nextBeginOffset", next_digits.format(next)),
        ("minOffset", "0"),
        ("maxOffset", max_digits.format(max)),
    ];
    answer::write(out, request, code, &fields, body);
}

/// Serves one connection until the peer closes it. Whatever one read brings is answered by one write.
async fn serve(stub: &RefCell<Stub>, mut stream: TcpStream, session: &mut Session) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut input = BytesMut::with_capacity(READ_ROOM);
    let mut out = Vec::with_capacity(READ_ROOM);
    loop {
        let release = session.held.first().map(|pull| pull.until);
        tokio::select! {
            read = stream.read_buf(&mut input) => if read? == 0 { return Ok(()) },
            () = time::sleep_until(release.unwrap_or_else(Instant::now)), if release.is_some() => {
                let due = session.held.partition_point(|pull| pull.until <= Instant::now());
                for pull in session.held.drain(..due) {
                    pull_answer(&mut out, &pull.request, PULL_NOT_FOUND, pull.offset, pull.max, &[]);
                }
            }
        }
        while let Some((request, length)) = Request::read(&input).map_err(io::Error::other)? {
            stub.borrow_mut().handle(&mut out, &request, session);
            input.advance(length);
        }
        input.reserve(READ_ROOM / 2);
        if !out.is_empty() {
            stream.write_all(&out).await?;
            out.clear();
        }
    }
}

/// How far apart the records of a topic lie in an answer.
pub(crate) fn record_length(topic: &str, body: usize) -> usize {
    backlog::record(topic, body).len()
}

/// The records of an answer with `count` messages.
pub(crate) fn answer(topic: &str, body: usize, count: i64) -> Vec<u8> {
    let mut records = Vec::new();
    Backlog::default().write(&mut records, topic, body, 0, 0..count);
    records
}

/// Serves until standard input ends, having printed where. Topics called `backlog-BODY-MESSAGES` have in each queue so
/// many messages with bodies of so many bytes.
///
/// # Errors
///
/// When no port can be listened on.
pub fn run() -> io::Result<()> {
    std::thread::spawn(|| {
        // Its end, or the failure to read it, means that whoever started this is gone.
        let _ = io::copy(&mut io::stdin(), &mut io::sink());
        std::process::exit(0);
    });
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    LocalSet::new().block_on(&runtime, listen())
}

async fn listen() -> io::Result<()> {
    let name_server = TcpListener::bind("127.0.0.1:0").await?;
    let broker = TcpListener::bind("127.0.0.1:0").await?;
    println!("ready name_server={} broker={}", name_server.local_addr()?, broker.local_addr()?);
    let stub = Rc::new(RefCell::new(Stub::new(broker.local_addr()?.port())));
    loop {
        let (stream, _) = tokio::select! {
            accepted = name_server.accept() => accepted?,
            accepted = broker.accept() => accepted?,
        };
        tokio::task::spawn_local(connection(Rc::clone(&stub), stream));
    }
}

async fn connection(stub: Rc<RefCell<Stub>>, stream: TcpStream) {
    let number = {
        let mut stub = stub.borrow_mut();
        stub.connections += 1;
        stub.connections
    };
    if let Err(error) = serve(&stub, stream, &mut Session { number, held: Vec::new() }).await {
        eprintln!("connection closed: {error}");
    }
    stub.borrow_mut().clients.retain(|(connection, _)| *connection != number);
}
