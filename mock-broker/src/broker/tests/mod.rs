//! The broker without sockets, on a clock that tests turn.

mod administration;
mod durability;
mod members;
mod offsets;
mod pulls;
mod replication;
mod replies;
mod retries;
mod sends;
mod transactions;

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use rocketmq_wire::header::{Header, SerializeType};
use rocketmq_wire::message::StoredMessage;
use rocketmq_wire::{Frame, LanguageCode, RemotingCommand, RequestCode, Version};

use super::Broker;
use crate::clock::Now;
use crate::compatibility::Compatibility;
use crate::reply::{Command, ConnectionId, Effect, Outcome, Peer, Reply, ReplyBody, ReturnAddress};
use crate::settings::Settings;

/// What clients of a test are called.
const A: ConnectionId = ConnectionId(1);
const B: ConnectionId = ConnectionId(2);

const ALL: [Compatibility; 3] = [Compatibility::V4_4, Compatibility::V4_9, Compatibility::V5_3];

/// An answer to a pending request, and the connection that it goes to.
type Answer = (ConnectionId, RemotingCommand);
/// A group, and the connections that are told that it changed.
type Notice = (String, Vec<ConnectionId>);

/// A broker, what time it is, and who asks.
struct Bench {
    broker: Broker,
    now: Now,
}

impl Bench {
    fn new(compatibility: Compatibility) -> Self {
        Self::with(|settings| settings.compatibility = compatibility)
    }

    fn with(change: impl FnOnce(&mut Settings)) -> Self {
        let mut settings = Settings::default();
        settings.topics.push(("orders".to_owned(), 2));
        change(&mut settings);
        let now = Now { message_ms: 1_700_000_000_000, session: Duration::ZERO };
        let broker = Broker::open(settings, ([127, 0, 0, 1], 10911).into(), now, 7).expect("a broker in memory");
        Bench { broker, now }
    }

    /// Lets both times go on, and does what is due.
    fn pass(&mut self, time: Duration) {
        self.now.session += time;
        self.now.message_ms += time.as_millis() as i64;
        self.broker.tick(self.now);
    }

    fn try_ask(
        &mut self,
        from: ConnectionId,
        code: RequestCode,
        fields: &[(&str, &str)],
        body: &[u8],
    ) -> Option<RemotingCommand> {
        let answer = self.handle(from, code, fields, body);
        self.broker.settle(self.now);
        answer
    }

    /// Hands a request to the broker, as the first of several that came together.
    fn handle(
        &mut self,
        from: ConnectionId,
        code: RequestCode,
        fields: &[(&str, &str)],
        body: &[u8],
    ) -> Option<RemotingCommand> {
        let request = RemotingCommand {
            serialize_type: SerializeType::Json,
            code: code.0,
            language: LanguageCode::JAVA,
            version: Version::V5_3_3,
            opaque: 9,
            flag: 0,
            remark: None,
            fields: Some(fields.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()),
            body: Bytes::copy_from_slice(body),
        };
        let frame = Frame::parse(request.to_bytes().unwrap()).unwrap();
        let header = Header::decode(frame.serialize_type, &frame.header).unwrap();
        let command = Command { header, serialize_type: frame.serialize_type, body: &frame.body };
        let peer = Peer { connection: from, address: ([10, 0, 0, from.0 as u8], 4711).into() };
        match self.broker.handle(self.now, &peer, &command) {
            Outcome::Reply(reply) => Some(decoded(reply, &command.return_address(&peer))),
            Outcome::Pending | Outcome::Silent => None,
        }
    }

    fn ask(&mut self, from: ConnectionId, code: RequestCode, fields: &[(&str, &str)], body: &[u8]) -> RemotingCommand {
        self.try_ask(from, code, fields, body).expect("an answer at once")
    }

    /// A client answers a request of the broker.
    fn answer(&mut self, from: ConnectionId, opaque: i32, code: i32) {
        let mut answer = RemotingCommand {
            serialize_type: SerializeType::Json,
            code,
            language: LanguageCode::JAVA,
            version: Version::V5_3_3,
            opaque,
            flag: 1,
            remark: None,
            fields: None,
            body: Bytes::new(),
        };
        answer.remark = (code != 0).then(|| "cannot".to_owned());
        let frame = Frame::parse(answer.to_bytes().unwrap()).unwrap();
        let header = Header::decode(frame.serialize_type, &frame.header).unwrap();
        let command = Command { header, serialize_type: frame.serialize_type, body: &frame.body };
        let peer = Peer { connection: from, address: ([10, 0, 0, from.0 as u8], 4711).into() };
        self.broker.client_answered(&peer, &command);
    }

    /// A client reports as a producer of a group.
    fn join_producers(&mut self, from: ConnectionId, client_id: &str, group: &str) {
        let body = format!(r#"{{"clientID":"{client_id}","producerDataSet":[{{"groupName":"{group}"}}]}}"#);
        assert_eq!(self.ask(from, RequestCode::HEART_BEAT, &[], body.as_bytes()).code, 0);
    }

    fn send(&mut self, topic: &str, properties: &str, body: &[u8]) -> RemotingCommand {
        self.ask(A, RequestCode::SEND_MESSAGE_V2, &send_fields(topic, properties), body)
    }

    /// Answers to pending requests, and who is told of which group.
    fn effects(&mut self) -> (Vec<Answer>, Vec<Notice>) {
        let (mut answers, mut notified) = (Vec::new(), Vec::new());
        for effect in self.broker.take_effects() {
            match effect {
                Effect::Answer(to, reply) => answers.push((to.connection, decoded(reply, &to))),
                Effect::NotifyMembers { group, members } => {
                    notified.push((group, members.into_iter().map(|(id, _)| id).collect()));
                }
                Effect::Push(id, frame) => {
                    answers.push((id, RemotingCommand::decode(&Frame::parse(frame).unwrap()).unwrap()))
                }
                Effect::Close(id) => notified.push(("closed".to_owned(), vec![id])),
            }
        }
        (answers, notified)
    }
}

fn decoded(reply: Reply<'_>, to: &ReturnAddress) -> RemotingCommand {
    let mut out = BytesMut::new();
    reply.encode(&mut out, to, Version::V5_3_3).unwrap();
    match reply.body {
        ReplyBody::None => {}
        ReplyBody::Bytes(bytes) => out.extend_from_slice(&bytes),
        ReplyBody::Records(records) => records.iter().for_each(|record| out.extend_from_slice(record)),
    }
    RemotingCommand::decode(&Frame::parse(out.freeze()).unwrap()).unwrap()
}

fn send_fields<'a>(topic: &'a str, properties: &'a str) -> Vec<(&'a str, &'a str)> {
    vec![
        ("a", "producers"),
        ("b", topic),
        ("c", "TBW102"),
        ("d", "4"),
        ("e", "0"),
        ("f", "0"),
        ("g", "17"),
        ("h", "0"),
        ("i", properties),
        ("m", "false"),
    ]
}

/// Fields with some of them set to another value, or added.
fn with<'a>(mut fields: Vec<(&'a str, &'a str)>, changes: &[(&'a str, &'a str)]) -> Vec<(&'a str, &'a str)> {
    for (name, value) in changes {
        fields.retain(|(known, _)| known != name);
        fields.push((name, value));
    }
    fields
}

fn messages(answer: &RemotingCommand) -> Vec<StoredMessage> {
    StoredMessage::records(answer.body.clone()).map(Result::unwrap).collect()
}

#[test]
fn unknown_codes_are_answered_or_ignored_as_the_version_does() {
    for (compatibility, code, answered) in [
        (Compatibility::V4_4, 9999, false),
        (Compatibility::V4_4, 361, false),
        (Compatibility::V4_4, 40, true),
        (Compatibility::V4_9, 9999, true),
        (Compatibility::V5_3, 9999, true),
        (Compatibility::V5_3, 200_050, true),
    ] {
        let answer = Bench::new(compatibility).try_ask(A, RequestCode(code), &[], b"");
        assert_eq!(answer.map(|answer| answer.code), answered.then_some(3), "{compatibility:?} {code}");
    }
    let mut bench = Bench::new(Compatibility::V5_3);
    assert_eq!(bench.ask(A, RequestCode(9999), &[], b"").remark.as_deref(), Some(" request type 9999 not supported"));
}

#[test]
fn requests_that_cannot_be_read_are_answered_1() {
    let mut bench = Bench::new(Compatibility::V5_3);
    let missing = bench.ask(A, RequestCode::SEND_MESSAGE_V2, &[("a", "g")], b"x");
    assert_eq!((missing.code, missing.fields), (1, None));
    let bad = bench.ask(A, RequestCode::GET_MAX_OFFSET, &[("topic", "orders"), ("queueId", "many")], b"");
    assert_eq!(bad.code, 1);
    assert_eq!(bench.ask(A, RequestCode::HEART_BEAT, &[], b"{").code, 1);
    assert_eq!(bench.ask(A, RequestCode::LOCK_BATCH_MQ, &[], b"7").code, 1);
}
