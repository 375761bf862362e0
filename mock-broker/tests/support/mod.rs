//! A client of nothing but frames, so that tests see what goes over the socket.
#![allow(dead_code, reason = "not every test uses all of it")]

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use rocketmq_wire::frame::DEFAULT_MAX_FRAME_LENGTH;
use rocketmq_wire::header::{ONE_WAY_FLAG, SerializeType};
use rocketmq_wire::{Frame, LanguageCode, RemotingCommand, RequestCode, Version};

/// Longer than anything takes that works; a test that hangs fails after it.
const TIMEOUT: Duration = Duration::from_secs(20);

/// A connection that sends and receives whole commands.
pub(crate) struct Peer {
    stream: TcpStream,
    received: BytesMut,
    opaque: i32,
}

impl Peer {
    pub(crate) fn connect(address: &str) -> Self {
        let stream = TcpStream::connect(address).expect("the broker accepts connections");
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        stream.set_nodelay(true).unwrap();
        Peer { stream, received: BytesMut::new(), opaque: 0 }
    }

    /// Sends bytes as they are.
    pub(crate) fn send_raw(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).expect("the broker takes bytes");
    }

    pub(crate) fn send(&mut self, command: &RemotingCommand) {
        self.send_raw(&command.to_bytes().expect("a command that can be written"));
    }

    /// Sends a command; false if the connection is gone.
    pub(crate) fn try_send(&mut self, command: &RemotingCommand) -> bool {
        self.stream.write_all(&command.to_bytes().expect("a command that can be written")).is_ok()
    }

    /// The next command, whatever it is.
    pub(crate) fn receive(&mut self) -> RemotingCommand {
        self.try_receive().expect("a command before the connection ends")
    }

    /// The next command; none if the broker closes the connection.
    pub(crate) fn try_receive(&mut self) -> Option<RemotingCommand> {
        loop {
            if let Some(frame) = Frame::next(&mut self.received, DEFAULT_MAX_FRAME_LENGTH).expect("a whole frame") {
                return Some(RemotingCommand::decode(&frame).expect("a readable header"));
            }
            let mut chunk = [0; 64 << 10];
            match self.stream.read(&mut chunk) {
                Ok(0) => return None,
                Ok(count) => self.received.extend_from_slice(&chunk[..count]),
                Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => return None,
                Err(error) => panic!("nothing came from the broker: {error}"),
            }
        }
    }

    /// Sends a request and waits for its answer; what the broker pushes meanwhile is passed over.
    pub(crate) fn ask(&mut self, command: &RemotingCommand) -> RemotingCommand {
        self.send(command);
        self.answer_to(command.opaque)
    }

    pub(crate) fn answer_to(&mut self, opaque: i32) -> RemotingCommand {
        loop {
            let command = self.receive();
            if command.flag & 1 == 1 {
                assert_eq!(command.opaque, opaque, "{command:?}");
                return command;
            }
        }
    }

    /// The next answer, whatever it answers; what the broker pushes meanwhile is passed over.
    pub(crate) fn next_answer(&mut self) -> RemotingCommand {
        loop {
            let command = self.receive();
            if command.flag & 1 == 1 {
                return command;
            }
        }
    }

    /// Sends a request made of its parts and waits for the answer.
    pub(crate) fn request(
        &mut self,
        code: RequestCode,
        fields: &[(&str, &str)],
        body: impl Into<Bytes>,
    ) -> RemotingCommand {
        let command = self.command(code, fields, body);
        self.ask(&command)
    }

    /// A request of this connection, not sent yet.
    pub(crate) fn command(
        &mut self,
        code: RequestCode,
        fields: &[(&str, &str)],
        body: impl Into<Bytes>,
    ) -> RemotingCommand {
        self.opaque += 1;
        RemotingCommand {
            serialize_type: SerializeType::Json,
            code: code.0,
            language: LanguageCode::JAVA,
            version: Version::V5_3_3,
            opaque: self.opaque,
            flag: 0,
            remark: None,
            fields: Some(fields.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()),
            body: body.into(),
        }
    }
}

/// Makes a request one-way.
pub(crate) fn one_way(mut command: RemotingCommand) -> RemotingCommand {
    command.flag |= ONE_WAY_FLAG;
    command
}

/// The fields of a send in the short form.
pub(crate) fn send_fields<'a>(topic: &'a str, queue_id: &'a str, properties: &'a str) -> Vec<(&'a str, &'a str)> {
    vec![
        ("a", "producers"),
        ("b", topic),
        ("c", "TBW102"),
        ("d", "4"),
        ("e", queue_id),
        ("f", "0"),
        ("g", "1700000000000"),
        ("h", "0"),
        ("i", properties),
        ("j", "0"),
        ("k", "false"),
        ("m", "false"),
    ]
}

/// The fields of a pull that brings its subscription.
pub(crate) fn pull_fields<'a>(
    group: &'a str,
    topic: &'a str,
    queue_id: &'a str,
    offset: &'a str,
    expression: &'a str,
    suspend_ms: &'a str,
) -> Vec<(&'a str, &'a str)> {
    vec![
        ("consumerGroup", group),
        ("topic", topic),
        ("queueId", queue_id),
        ("queueOffset", offset),
        ("maxMsgNums", "32"),
        ("sysFlag", if suspend_ms == "0" { "4" } else { "6" }),
        ("commitOffset", "0"),
        ("suspendTimeoutMillis", suspend_ms),
        ("subscription", expression),
        ("subVersion", "0"),
        ("expressionType", "TAG"),
    ]
}

/// The body of a heartbeat with one consumer group.
pub(crate) fn heartbeat(client_id: &str, group: &str, topic: &str, expression: &str, sub_version: i64) -> String {
    use rocketmq_wire::filter::TagExpression;
    use rocketmq_wire::model::{ConsumerData, HeartbeatData, SubscriptionData, consume_from, consume_type, model};
    let tags = TagExpression::parse(expression).unwrap();
    let subscription = SubscriptionData {
        topic: topic.to_owned(),
        sub_string: expression.to_owned(),
        expression_type: "TAG".to_owned(),
        code_set: tags.codes().to_vec(),
        tags_set: tags.tags().to_vec(),
        sub_version,
        class_filter_mode: false,
    };
    let consumer = ConsumerData {
        group_name: group.to_owned(),
        consume_type: consume_type::PASSIVELY.to_owned(),
        message_model: model::CLUSTERING.to_owned(),
        consume_from_where: consume_from::LAST_OFFSET.to_owned(),
        subscription_data_set: vec![subscription],
        unit_mode: false,
    };
    let data = HeartbeatData {
        client_id: client_id.to_owned(),
        consumer_data_set: vec![consumer],
        ..HeartbeatData::default()
    };
    serde_json::to_string(&data).unwrap()
}
