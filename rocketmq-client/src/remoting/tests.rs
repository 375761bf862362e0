//! Connections against a scripted peer over a pipe in memory, on manual time.

use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use rocketmq_wire::header::{RESPONSE_FLAG, SerializeType};
use rocketmq_wire::request::send::{SendMessageRequestV2, SendMessageResponse};
use rocketmq_wire::{Frame, LanguageCode, RemotingCommand, Version};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};

use super::*;
use crate::env::{Env, ManualClock, Task};
use crate::error::{Error, ErrorKind, Outcome, Result};
use crate::transport::{MemoryNetwork, Stream};

mod calls;
mod cancellation;
mod faults;
mod incoming;
mod limits;
mod pool;

const ADDRESS: &str = "broker:10911";
const TIMEOUT: Duration = Duration::from_secs(3);

/// The server's end: reads and writes what a test tells it to.
struct Script {
    stream: DuplexStream,
    buffer: BytesMut,
}

impl Script {
    fn new(stream: DuplexStream) -> Self {
        Self { stream, buffer: BytesMut::new() }
    }

    /// The next whole frame.
    async fn frame(&mut self) -> Frame {
        loop {
            if let Some(frame) = Frame::next(&mut self.buffer, usize::MAX).expect("a frame") {
                return frame;
            }
            assert_ne!(self.stream.read_buf(&mut self.buffer).await.expect("open"), 0, "the client hung up");
        }
    }

    async fn request(&mut self) -> RemotingCommand {
        let frame = self.frame().await;
        RemotingCommand::decode(&frame).expect("a request")
    }

    async fn write(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).await.expect("open");
    }

    async fn send(&mut self, command: &RemotingCommand) {
        self.write(&command.to_bytes().expect("fits a frame")).await;
    }

    /// Answers so many requests, in the order in which they come.
    async fn answer(&mut self, count: usize) {
        for _ in 0..count {
            let request = self.request().await;
            self.send(&stored(&request, request.opaque.into())).await;
        }
    }

    /// What the client sends until it hangs up.
    async fn rest(&mut self) -> Bytes {
        while self.stream.read_buf(&mut self.buffer).await.is_ok_and(|count| count > 0) {}
        self.buffer.split().freeze()
    }
}

/// The answer that a send was stored at an offset.
fn stored(request: &RemotingCommand, offset: i64) -> RemotingCommand {
    RemotingCommand {
        serialize_type: request.serialize_type,
        code: 0,
        language: LanguageCode::JAVA,
        version: Version::V5_3_3,
        opaque: request.opaque,
        flag: RESPONSE_FLAG,
        remark: None,
        fields: Some(vec![
            ("msgId".into(), "7F0000010000".into()),
            ("queueId".into(), "3".into()),
            ("queueOffset".into(), offset.to_string()),
        ]),
        body: Bytes::new(),
    }
}

static EMPTY: Bytes = Bytes::new();

static REQUEST: LazyLock<SendMessageRequestV2<'static>> = LazyLock::new(|| SendMessageRequestV2 {
    producer_group: "group".into(),
    topic: "topic".into(),
    default_topic: "TBW102".into(),
    default_topic_queue_nums: 4,
    queue_id: 3,
    properties: Some("KEYS\u{1}42\u{2}".into()),
    ..Default::default()
});

/// A connection with its task running, and the server's end.
struct Fixture {
    env: Env,
    clock: ManualClock,
    connection: Connection,
    driver: Task<Error>,
    script: Script,
}

/// With `buffer` bytes in flight in each direction.
fn fixture(buffer: usize, options: &ConnectionOptions) -> Fixture {
    let (env, clock) = Env::manual(1, Arc::new(MemoryNetwork::default())).expect("inside a runtime");
    let (ours, theirs) = tokio::io::duplex(buffer);
    let (connection, driver) = Connection::open(ADDRESS, Stream::Memory(ours), &env, options, None);
    let driver = env.spawn(driver);
    Fixture { env, clock, connection, driver, script: Script::new(theirs) }
}

impl Fixture {
    /// Starts a send with an empty body.
    fn spawn_send(&self) -> Task<Result<i64>> {
        let (connection, env) = (self.connection.clone(), self.env.clone());
        self.env.spawn(async move { send(&connection, &env, &EMPTY).await })
    }

    fn deadline(&self) -> Instant {
        self.env.now() + TIMEOUT
    }
}

async fn send(connection: &Connection, env: &Env, body: &Bytes) -> Result<i64> {
    let response = connection.call(&*REQUEST, body, env.now() + TIMEOUT).await?.success()?;
    let stored: SendMessageResponse<'_> = response.decode::<SendMessageRequestV2<'_>>()?;
    Ok(stored.queue_offset)
}

/// Nothing is left of any request.
fn assert_clean(connection: &Connection) {
    let stats = connection.stats();
    let expected = ConnectionStats {
        unexpected_answers: stats.unexpected_answers,
        writes: stats.writes,
        ..ConnectionStats::default()
    };
    assert_eq!(stats, expected);
}

/// Lets every other task run until none is ready.
async fn settle() {
    for _ in 0..64 {
        tokio::task::yield_now().await;
    }
}
