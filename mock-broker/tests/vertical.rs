//! A message goes in and comes out, over sockets.

mod support;

use std::time::Duration;

use rocketmq_mock_broker::{Compatibility, MockBroker};
use rocketmq_wire::header::SerializeType;
use rocketmq_wire::message::StoredMessage;
use rocketmq_wire::{RequestCode, ResponseCode};
use support::{Peer, heartbeat, one_way, pull_fields, send_fields};

fn code(answer: &rocketmq_wire::RemotingCommand) -> ResponseCode {
    ResponseCode(answer.code)
}

#[test]
fn a_sent_message_is_pulled_and_its_offset_kept() {
    let broker = MockBroker::start_blocking().unwrap();
    let mut names = Peer::connect(broker.name_server());
    let missing = names.request(RequestCode::GET_ROUTEINFO_BY_TOPIC, &[("topic", "orders")], "");
    assert_eq!(code(&missing), ResponseCode::TOPIC_NOT_EXIST);

    let mut peer = Peer::connect(broker.broker_address());
    let sent = peer.request(
        RequestCode::SEND_MESSAGE_V2,
        &send_fields("orders", "1", "TAGS\u{1}created\u{2}KEYS\u{1}42\u{2}"),
        "hi",
    );
    assert_eq!(code(&sent), ResponseCode::SUCCESS, "{sent:?}");
    assert_eq!((sent.field("queueId"), sent.field("queueOffset")), (Some("1"), Some("0")));
    assert_eq!(sent.field("msgId").map(str::len), Some(32));

    let route = names.request(RequestCode::GET_ROUTEINFO_BY_TOPIC, &[("topic", "orders")], "");
    let text = String::from_utf8(route.body.to_vec()).unwrap();
    assert!(text.contains(&format!("{{\"0\":\"{}\"}}", broker.broker_address())), "{text}");
    assert!(text.contains("\"writeQueueNums\":4"), "{text}");

    let pulled =
        peer.request(RequestCode::PULL_MESSAGE, &pull_fields("g", "orders", "1", "0", "created || x", "0"), "");
    assert_eq!((code(&pulled), pulled.remark.as_deref()), (ResponseCode::SUCCESS, Some("FOUND")));
    let messages: Vec<_> = StoredMessage::records(pulled.body.clone()).map(Result::unwrap).collect();
    assert_eq!((messages.len(), &messages[0].body()[..]), (1, &b"hi"[..]));
    assert_eq!((messages[0].topic(), messages[0].tags()), ("orders", Some("created")));
    assert_eq!(messages[0].offset_message_id().to_string(), sent.field("msgId").unwrap());

    let none = peer.request(RequestCode::PULL_MESSAGE, &pull_fields("g", "orders", "1", "0", "paid", "0"), "");
    assert_eq!(code(&none), ResponseCode::PULL_RETRY_IMMEDIATELY);
    assert_eq!(none.field("nextBeginOffset"), Some("1"));

    let offset = [("consumerGroup", "g"), ("topic", "orders"), ("queueId", "1"), ("commitOffset", "1")];
    let update = peer.command(RequestCode::UPDATE_CONSUMER_OFFSET, &offset, "");
    peer.send(&one_way(update));
    let stored = peer.request(RequestCode::QUERY_CONSUMER_OFFSET, &offset[..3], "");
    assert_eq!(stored.field("offset"), Some("1"));
    assert_eq!(broker.messages("orders").len(), 1);
}

#[test]
fn a_held_pull_is_answered_by_the_message_it_waits_for() {
    let broker = MockBroker::builder().topic("orders", 1).start_blocking().unwrap();
    let mut consumer = Peer::connect(broker.broker_address());
    let beat = heartbeat("c1", "g", "orders", "a", 1);
    assert_eq!(code(&consumer.request(RequestCode::HEART_BEAT, &[], beat)), ResponseCode::SUCCESS);
    let pull = consumer.command(RequestCode::PULL_MESSAGE, &pull_fields("g", "orders", "0", "0", "a", "15000"), "");
    consumer.send(&pull);
    // The pull is held once the request behind it is answered.
    let list = consumer.request(RequestCode::GET_CONSUMER_LIST_BY_GROUP, &[("consumerGroup", "g")], "");
    assert_eq!(&list.body[..], br#"{"consumerIdList":["c1"]}"#);

    let mut producer = Peer::connect(broker.broker_address());
    producer.request(RequestCode::SEND_MESSAGE_V2, &send_fields("orders", "0", "TAGS\u{1}b\u{2}"), "other");
    producer.request(RequestCode::SEND_MESSAGE_V2, &send_fields("orders", "0", "TAGS\u{1}a\u{2}"), "wanted");
    let answer = consumer.answer_to(pull.opaque);
    assert_eq!(code(&answer), ResponseCode::SUCCESS);
    assert_eq!(answer.field("nextBeginOffset"), Some("2"));
    assert_eq!(StoredMessage::records(answer.body).count(), 1);
}

#[test]
fn a_binary_request_gets_a_binary_answer_and_unknown_codes_are_answered() {
    let broker = MockBroker::start_blocking().unwrap();
    for address in [broker.name_server(), broker.broker_address()] {
        let mut peer = Peer::connect(address);
        for serialize_type in [SerializeType::Json, SerializeType::Binary] {
            let mut unknown = peer.command(RequestCode(9999), &[], "");
            unknown.serialize_type = serialize_type;
            let answer = peer.ask(&unknown);
            assert_eq!(code(&answer), ResponseCode::REQUEST_CODE_NOT_SUPPORTED);
            assert_eq!(answer.remark.as_deref(), Some(" request type 9999 not supported"));
            assert_eq!(answer.serialize_type, serialize_type);
        }
    }
}

#[tokio::test]
async fn a_delayed_message_comes_when_time_is_turned() {
    let broker = MockBroker::builder().topic("orders", 1).manual_time().start().await.unwrap();
    let mut peer = Peer::connect(broker.broker_address());
    let sent =
        peer.request(RequestCode::SEND_MESSAGE_V2, &send_fields("orders", "0", "DELAY\u{1}18\u{2}"), "in two hours");
    assert_eq!(code(&sent), ResponseCode::SUCCESS);
    broker.advance(Duration::from_secs(7199)).await;
    assert!(broker.messages("orders").is_empty());
    broker.advance(Duration::from_secs(1)).await;
    assert_eq!(broker.messages("orders").len(), 1);
}

#[test]
fn each_version_serves_the_port_two_below() {
    for compatibility in [Compatibility::V4_4, Compatibility::V4_9, Compatibility::V5_3] {
        let broker = MockBroker::builder().compatibility(compatibility).start_blocking().unwrap();
        let (host, port) = broker.broker_address().rsplit_once(':').unwrap();
        let mut peer = Peer::connect(&format!("{host}:{}", port.parse::<u16>().unwrap() - 2));
        let sent = peer.request(RequestCode::SEND_MESSAGE_V2, &send_fields("t", "0", ""), "x");
        assert_eq!(code(&sent), ResponseCode::SUCCESS, "{compatibility:?}");
    }
}

#[test]
fn a_stopped_broker_comes_back_on_its_ports_with_its_messages() {
    let directory = tempfile::tempdir().unwrap();
    for builder in [MockBroker::builder(), MockBroker::builder().store_directory(directory.path())] {
        let broker = builder.topic("orders", 1).start_blocking().unwrap();
        let address = broker.broker_address().to_owned();
        let mut peer = Peer::connect(&address);
        peer.request(RequestCode::SEND_MESSAGE_V2, &send_fields("orders", "0", ""), "kept");
        broker.stop_blocking().unwrap();
        assert!(peer.try_receive().is_none());
        assert!(std::net::TcpStream::connect(&address).is_err());
        broker.restart_blocking().unwrap();
        assert_eq!(broker.messages("orders").len(), 1);
        let mut peer = Peer::connect(&address);
        let sent = peer.request(RequestCode::SEND_MESSAGE_V2, &send_fields("orders", "0", ""), "more");
        assert_eq!(sent.field("queueOffset"), Some("1"));
    }
}

#[test]
fn nothing_is_left_when_a_broker_is_dropped() {
    let broker = MockBroker::start_blocking().unwrap();
    let address = broker.broker_address().to_owned();
    drop(broker);
    assert!(std::net::TcpStream::connect(address).is_err());
}
