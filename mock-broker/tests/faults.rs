//! Each fault as it is seen at the socket.

mod support;

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use rocketmq_mock_broker::{Family, Fault, MockBroker, Port, RequestPattern};
use rocketmq_wire::{RemotingCommand, RequestCode, ResponseCode};
use support::{Peer, heartbeat, pull_fields, send_fields};

const SEND: RequestCode = RequestCode::SEND_MESSAGE_V2;

fn broker() -> MockBroker {
    MockBroker::builder().topic("orders", 2).topic("payments", 1).start_blocking().unwrap()
}

fn send(peer: &mut Peer, topic: &str) -> RemotingCommand {
    peer.request(SEND, &send_fields(topic, "0", ""), "x")
}

/// A connection whose bytes are looked at as they are.
fn raw_send(broker: &MockBroker) -> TcpStream {
    let mut stream = TcpStream::connect(broker.broker_address()).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let command = Peer::connect(broker.broker_address()).command(SEND, &send_fields("orders", "0", ""), "x");
    stream.write_all(&command.to_bytes().unwrap()).unwrap();
    stream
}

/// Reads to the end, and says how it ended.
fn read_all(mut stream: TcpStream) -> (Vec<u8>, Option<ErrorKind>) {
    let mut bytes = Vec::new();
    let error = stream.read_to_end(&mut bytes).err().map(|error| error.kind());
    (bytes, error)
}

#[test]
fn answers_with_a_code_are_counted_matched_in_order_and_removed_by_the_guard() {
    let broker = broker();
    let mut peer = Peer::connect(broker.broker_address());
    broker.fail_next(Family::Send, ResponseCode::SYSTEM_BUSY, 1);
    let guard = broker.fault(Fault::answer(ResponseCode::NO_PERMISSION, "not here").on(Family::Send).topic("pay*"));
    let answers: Vec<(i32, Option<String>)> = ["orders", "orders", "payments", "payments"]
        .map(|topic| send(&mut peer, topic))
        .into_iter()
        .map(|answer| (answer.code, answer.remark))
        .collect();
    let not_here = (16, Some("not here".to_owned()));
    assert_eq!(answers, [(2, Some("fault of a test".to_owned())), (0, None), not_here.clone(), not_here]);
    assert_eq!(guard.hits(), 2);
    let left: Vec<_> = broker.faults().iter().map(|status| (status.hits, status.left)).collect();
    assert_eq!(left, [(1, Some(0)), (2, None)]);
    guard.remove();
    assert_eq!(send(&mut peer, "payments").code, 0);
    assert_eq!((broker.messages("orders").len(), broker.messages("payments").len()), (1, 1));
}

#[test]
fn an_answer_after_the_fact_leaves_the_message_stored() {
    let broker = broker();
    let mut peer = Peer::connect(broker.broker_address());
    let faults = [
        (Fault::answer_after(ResponseCode::SYSTEM_ERROR, "lost"), ResponseCode::SYSTEM_ERROR),
        (Fault::flush_timeout(), ResponseCode::FLUSH_DISK_TIMEOUT),
    ];
    for (fault, expected) in faults {
        let _guard = broker.fault(fault.times(1));
        assert_eq!(send(&mut peer, "orders").code, expected.0);
    }
    assert_eq!(broker.messages("orders").len(), 2);
    let _guard = broker.fault(Fault::disk_full());
    assert_eq!(send(&mut peer, "orders").code, ResponseCode::SERVICE_NOT_AVAILABLE.0);
    assert_eq!(broker.messages("orders").len(), 2);
    assert_eq!(peer.request(RequestCode::GET_MAX_OFFSET, &[("topic", "orders"), ("queueId", "0")], "").code, 0);
}

#[test]
fn delayed_answers_leave_when_session_time_is_turned() {
    let broker = broker();
    let mut peer = Peer::connect(broker.broker_address());
    let _late = broker.fault(Fault::delay(Duration::from_secs(3600)).on(Family::Send).times(1));
    let late = peer.command(SEND, &send_fields("orders", "0", ""), "late");
    peer.send(&late);
    let next = peer.command(SEND, &send_fields("orders", "0", ""), "next");
    peer.send(&next);
    assert_eq!(peer.next_answer().opaque, next.opaque);
    assert_eq!(broker.messages("orders").len(), 2);
    // Too long a silence would end the connection, so the hour passes in pieces.
    let mut answers = Vec::new();
    for _ in 0..60 {
        broker.advance_sessions_blocking(Duration::from_secs(60));
        let word = peer.command(RequestCode::GET_MAX_OFFSET, &[("topic", "orders"), ("queueId", "0")], "");
        peer.send(&word);
        answers.push(peer.next_answer().opaque);
    }
    answers.push(peer.next_answer().opaque);
    assert_eq!(answers.iter().filter(|opaque| **opaque == late.opaque).count(), 1);
}

#[test]
fn a_latency_delays_every_answer_and_loses_none() {
    let broker = broker();
    let mut peer = Peer::connect(broker.broker_address());
    let guard = broker.fault(Fault::latency(Duration::from_millis(2), Duration::from_millis(8), 7).on(Family::Send));
    for _ in 0..10 {
        assert_eq!(send(&mut peer, "orders").code, 0);
    }
    assert_eq!(guard.hits(), 10);
}

#[test]
fn lost_requests_are_not_acted_on_and_lost_answers_are() {
    let broker = broker();
    let mut peer = Peer::connect(broker.broker_address());
    broker.fault(Fault::drop_request().on(Family::Send).times(1)).keep();
    broker.fault(Fault::drop_answer().on(Family::Send).times(1)).keep();
    for body in ["lost", "answer lost"] {
        let command = peer.command(SEND, &send_fields("orders", "0", ""), body);
        peer.send(&command);
    }
    assert_eq!(send(&mut peer, "orders").field("queueOffset"), Some("1"));
    assert_eq!(&broker.messages("orders")[0].body()[..], b"answer lost");
}

#[test]
fn connections_are_closed_and_reset_before_the_request_is_acted_on() {
    let broker = broker();
    broker.fault(Fault::close().on(Family::Send).times(1)).keep();
    broker.fault(Fault::reset().on(Family::Send).times(1)).keep();
    assert_eq!(read_all(raw_send(&broker)), (Vec::new(), None));
    assert_eq!(read_all(raw_send(&broker)), (Vec::new(), Some(ErrorKind::ConnectionReset)));
    assert!(broker.messages("orders").is_empty());
}

#[test]
fn an_answer_breaks_off_at_a_byte() {
    let broker = broker();
    for (fault, length, error) in [
        (Fault::truncate(0), 0, None),
        (Fault::truncate(11), 11, None),
        (Fault::reset_after(11), 11, Some(ErrorKind::ConnectionReset)),
    ] {
        let _guard = broker.fault(fault.on(Family::Send).times(1));
        let (bytes, ended) = read_all(raw_send(&broker));
        assert_eq!((bytes.len(), ended), (length, error));
    }
    assert_eq!(broker.messages("orders").len(), 3);
}

#[test]
fn an_answer_is_changed_doubled_or_slow() {
    let broker = broker();
    let answer = |fault: Fault| {
        let _guard = broker.fault(fault.on(Family::Send));
        let mut stream = raw_send(&broker);
        let mut prefix = [0; 4];
        stream.read_exact(&mut prefix).unwrap();
        let mut rest = vec![0; u32::from_be_bytes(prefix) as usize];
        stream.read_exact(&mut rest).unwrap();
        (stream, [&prefix[..], &rest].concat())
    };
    let (_, plain) = answer(Fault::delay(Duration::ZERO));
    let (_, changed) = answer(Fault::corrupt(8));
    assert_eq!((plain[8], changed[8]), (b'{', b'{' ^ 0xFF));
    let (mut stream, first) = answer(Fault::duplicate());
    let mut again = vec![0; first.len()];
    stream.read_exact(&mut again).unwrap();
    assert_eq!(first, again);
    let (_, dripped) = answer(Fault::drip(16, Duration::from_millis(1)));
    assert_eq!(dripped.len(), plain.len());
}

#[test]
fn a_half_open_connection_takes_everything_and_says_nothing() {
    let broker = broker();
    let mut silent = Peer::connect(broker.broker_address());
    let mut other = Peer::connect(broker.broker_address());
    let guard = broker.fault(Fault::half_open().on(Family::Send).times(1));
    let command = silent.command(SEND, &send_fields("orders", "0", ""), "x");
    silent.send(&command);
    silent.send(&command);
    while guard.hits() == 0 {
        assert_eq!(other.request(RequestCode::GET_MAX_OFFSET, &[("topic", "orders"), ("queueId", "0")], "").code, 0);
    }
    assert_eq!(send(&mut other, "orders").field("queueOffset"), Some("0"));
    // The broker gives it up as it does all silent ones.
    broker.advance_sessions_blocking(Duration::from_secs(200));
    assert!(silent.try_receive().is_none());
}

#[test]
fn a_port_refuses_and_a_server_is_off_until_the_fault_is_removed() {
    let broker = broker();
    let mut before = Peer::connect(broker.broker_address());
    assert_eq!(send(&mut before, "orders").code, 0);
    let connect = |address: &str| TcpStream::connect(address).map_err(|error| error.kind());
    let refuses = broker.fault(Fault::refuse(Port::Broker));
    assert_eq!(connect(broker.broker_address()).unwrap_err(), ErrorKind::ConnectionRefused);
    assert_eq!(send(&mut before, "orders").code, 0);
    assert!(connect(broker.name_server()).is_ok());
    refuses.remove();
    assert_eq!(send(&mut Peer::connect(broker.broker_address()), "orders").code, 0);

    let off = broker.fault(Fault::off(Port::Broker));
    assert!(before.try_receive().is_none());
    assert_eq!(connect(broker.broker_address()).unwrap_err(), ErrorKind::ConnectionRefused);
    let mut names = Peer::connect(broker.name_server());
    let route = names.request(RequestCode::GET_ROUTEINFO_BY_TOPIC, &[("topic", "orders")], "");
    assert_eq!(route.code, 0);
    off.remove();
    assert_eq!(send(&mut Peer::connect(broker.broker_address()), "orders").field("queueOffset"), Some("3"));

    let off = broker.fault(Fault::off(Port::NameServer));
    assert!(names.try_receive().is_none());
    assert_eq!(connect(broker.name_server()).unwrap_err(), ErrorKind::ConnectionRefused);
    off.remove();
    assert!(connect(broker.name_server()).is_ok());
}

#[tokio::test]
async fn a_name_server_is_out_of_date_or_knows_nothing() {
    let broker = MockBroker::builder().topic("orders", 1).start().await.unwrap();
    let mut names = Peer::connect(broker.name_server());
    let mut route = |topic: &str| names.request(RequestCode::GET_ROUTEINFO_BY_TOPIC, &[("topic", topic)], "");
    let stale = broker.fault(Fault::stale_routes());
    broker.create_topic("orders", 4).await;
    broker.create_topic("later", 1).await;
    assert!(String::from_utf8_lossy(&route("orders").body).contains("\"writeQueueNums\":1"));
    assert_eq!(route("later").code, ResponseCode::TOPIC_NOT_EXIST.0);
    let empty = broker.fault(Fault::no_routes());
    stale.remove();
    assert_eq!(route("orders").code, ResponseCode::TOPIC_NOT_EXIST.0);
    empty.remove();
    assert!(String::from_utf8_lossy(&route("orders").body).contains("\"writeQueueNums\":4"));
    assert_eq!(route("later").code, 0);
}

#[test]
fn clients_groups_queues_and_connections_are_told_apart() {
    let broker = broker();
    let mut first = Peer::connect(broker.broker_address());
    let mut second = Peer::connect(broker.broker_address());
    first.request(RequestCode::HEART_BEAT, &[], heartbeat("first@1", "billing", "orders", "*", 1));
    second.request(RequestCode::HEART_BEAT, &[], heartbeat("second@1", "audit", "orders", "*", 1));
    let busy = || Fault::answer(ResponseCode::SYSTEM_BUSY, "busy");
    for fault in [
        busy().on(Family::Pull).client("first@*"),
        busy().on(Family::Pull).group("billing"),
        busy().on(RequestCode::PULL_MESSAGE).queue(1),
        busy().matching(RequestPattern::of(Family::Pull).connection(1)),
    ] {
        let _guard = broker.fault(fault.clone());
        let met = first.request(RequestCode::PULL_MESSAGE, &pull_fields("billing", "orders", "1", "0", "*", "0"), "");
        let not = second.request(RequestCode::PULL_MESSAGE, &pull_fields("audit", "orders", "0", "0", "*", "0"), "");
        assert_eq!((met.code, not.code), (2, 19), "{fault:?}");
    }
}

#[test]
fn faults_wait_for_a_broker_that_is_stopped() {
    let broker = broker();
    let off = broker.fault(Fault::off(Port::NameServer));
    broker.fail_next(Family::Send, ResponseCode::SYSTEM_BUSY, 1);
    broker.stop_blocking().unwrap();
    broker.restart_blocking().unwrap();
    assert!(TcpStream::connect(broker.name_server()).is_err());
    assert_eq!(send(&mut Peer::connect(broker.broker_address()), "orders").code, 2);
    off.remove();
    assert!(TcpStream::connect(broker.name_server()).is_ok());
    broker.clear_faults();
    assert!(broker.faults().is_empty());
}

#[test]
fn guards_may_outlive_the_broker() {
    let broker = broker();
    let guard = broker.fault(Fault::close());
    drop(broker);
    assert_eq!(guard.hits(), 0);
}
