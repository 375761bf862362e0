//! What the journal tells of requests and answers.

mod support;

use rocketmq_mock_broker::{EntryKind, Family, Fault, JournalEntry, MockBroker, Port, RequestPattern};
use rocketmq_wire::{RequestCode, ResponseCode};
use support::{Peer, heartbeat, one_way, send_fields};

const SEND: RequestCode = RequestCode::SEND_MESSAGE_V2;

#[test]
fn requests_answers_and_pushes_are_entered_and_linked() {
    let broker = MockBroker::builder().topic("orders", 2).start_blocking().unwrap();
    let mut peer = Peer::connect(broker.broker_address());
    peer.request(RequestCode::HEART_BEAT, &[], heartbeat("c@1", "billing", "orders", "*", 1));
    peer.request(SEND, &send_fields("orders", "1", "KEYS\u{1}k\u{2}"), "hello");
    let command = one_way(peer.command(SEND, &send_fields("orders", "0", ""), vec![0xFF, 0]));
    peer.send(&command);
    Peer::connect(broker.name_server()).request(RequestCode::GET_ROUTEINFO_BY_TOPIC, &[("topic", "none")], "");

    let sends = broker.wait_for_blocking(RequestPattern::of(Family::Send).client("c@1"), 2).unwrap();
    let first = &sends[0];
    assert_eq!((first.topic.as_deref(), first.queue, first.groups[0].as_str()), (Some("orders"), Some(1), "producers"));
    assert_eq!((&first.body[..], first.response, first.port), (&b"hello"[..], Some(0), Port::Broker));
    assert_eq!(first.fields["i"], "KEYS\u{1}k\u{2}");
    assert!(sends[1].one_way && sends[1].response.is_none());
    let answer = |entry: &JournalEntry| entry.kind == EntryKind::Answer && entry.answers == Some(first.sequence);
    let answers = broker.expect(answer, 1).unwrap();
    assert_eq!(answers[0].fields["queueOffset"], "0");
    assert_eq!(answers[0].request, SEND.0);
    broker.expect(|entry: &JournalEntry| entry.kind == EntryKind::Push && entry.request == 40, 1).unwrap();
    let route = broker.expect(RequestPattern::of(Family::Route).port(Port::NameServer), 1).unwrap();
    assert_eq!(route[0].response, Some(ResponseCode::TOPIC_NOT_EXIST.0));

    for entry in broker.journal() {
        let json = serde_json::to_string(&entry).unwrap();
        assert_eq!(serde_json::from_str::<JournalEntry>(&json).unwrap(), entry, "{json}");
    }
}

#[test]
fn an_expectation_that_is_not_met_shows_what_was_there() {
    let broker = MockBroker::builder().topic("orders", 2).topic("payments", 1).start_blocking().unwrap();
    let mut peer = Peer::connect(broker.broker_address());
    let fault = broker.fault(Fault::answer(ResponseCode::SYSTEM_BUSY, "busy").topic("payments"));
    peer.request(SEND, &send_fields("payments", "0", ""), "x");
    peer.request(RequestCode::GET_MAX_OFFSET, &[("topic", "orders"), ("queueId", "0")], "");
    let unmet = broker.expect(RequestPattern::of(Family::Send).topic("orders"), 1).unwrap_err().to_string();
    let lines: Vec<&str> = unmet.lines().collect();
    assert_eq!(lines[0], "expected 1 requests with request=send,topic=orders, saw 0");
    assert!(lines.iter().any(|line| line.contains("topic is `payments`, not `orders`")), "{unmet}");
    assert!(lines.iter().any(|line| line.contains(&format!("(fault {})", fault.id()))), "{unmet}");
    assert!(lines.iter().any(|line| line.contains("request is `30 (GET_MAX_OFFSET)`, not `send`")), "{unmet}");
}

#[test]
fn it_is_bounded_can_be_cleared_and_switched_off() {
    let broker = MockBroker::builder().journal(4).start_blocking().unwrap();
    let mut peer = Peer::connect(broker.broker_address());
    for _ in 0..10 {
        peer.request(SEND, &send_fields("orders", "0", ""), "x");
    }
    let sequences: Vec<u64> = broker.journal().iter().map(|entry| entry.sequence).collect();
    assert_eq!(sequences, [17, 18, 19, 20]);
    broker.clear_journal();
    assert!(broker.journal().is_empty());

    let broker = MockBroker::builder().journal(0).start_blocking().unwrap();
    Peer::connect(broker.broker_address()).request(SEND, &send_fields("orders", "0", ""), "x");
    assert!(broker.journal().is_empty());
}

#[tokio::test]
async fn waiting_sees_what_comes_later() {
    let broker = MockBroker::start().await.unwrap();
    let address = broker.broker_address().to_owned();
    let sender = async {
        let mut peer = Peer::connect(&address);
        for _ in 0..5 {
            // Whoever waits looks in between.
            tokio::task::yield_now().await;
            peer.request(SEND, &send_fields("orders", "0", ""), "x");
        }
    };
    let (entries, ()) = tokio::join!(broker.wait_for(RequestPattern::of(Family::Send).topic("orders"), 5), sender);
    assert_eq!(entries.unwrap().len(), 5);
}
