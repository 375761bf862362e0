//! What a test sees of a broker's contents and clock.

mod support;

use std::time::Duration;

use rocketmq_mock_broker::{GroupView, MessageView, MockBroker, Outgoing};
use rocketmq_wire::RequestCode;
use support::{Peer, heartbeat, pull_fields, send_fields};

const START: i64 = 1_700_000_000_000;
const MINUTE: i64 = 60_000;

async fn broker() -> MockBroker {
    MockBroker::builder().topic("orders", 2).manual_time_at(START).start().await.unwrap()
}

#[tokio::test]
async fn messages_are_put_without_a_client_and_seen_decoded() {
    let broker = broker().await;
    let message = Outgoing::new("orders", "hi").queue(1).tag("created").key("42").key("43").property("trace", "7");
    broker.put(message).unwrap();
    broker.put(Outgoing::new("made", vec![0xFF, 0x00])).unwrap();
    let found = broker.expect_sent("orders", |message| message.keys.contains(&"43".to_owned())).await.unwrap();
    assert_eq!((found.queue, found.offset, found.tag.as_deref(), found.text().as_str()), (1, 0, Some("created"), "hi"));
    assert_eq!((found.properties["trace"].as_str(), found.stored_ms, found.born_ms), ("7", START, START));
    let other = broker.wait_for_messages("made", 1).await.unwrap().remove(0);
    let json = serde_json::to_string(&other).unwrap();
    assert!(json.contains(r#""body":{"base64":"/wA="}"#), "{json}");
    assert_eq!(serde_json::from_str::<MessageView>(&json).unwrap(), other);
    let topics = broker.topics();
    let orders = topics.iter().find(|topic| topic.topic == "orders").unwrap();
    assert_eq!((orders.messages, orders.write_queues, orders.is_system), (1, 2, false));
    assert!(topics.iter().any(|topic| topic.is_system));
    // The name server knows what was made.
    let mut names = Peer::connect(broker.name_server());
    assert_eq!(names.request(RequestCode::GET_ROUTEINFO_BY_TOPIC, &[("topic", "made")], "").code, 0);
    let refused = broker.put(Outgoing::new("SCHEDULE_TOPIC_XXXX", "x")).unwrap_err().to_string();
    assert!(refused.contains("forbidden"), "{refused}");
    let separator = Outgoing::new("orders", "x").property("a", "b\u{2}c");
    assert!(broker.put(separator).is_err());
}

#[tokio::test]
async fn what_waits_is_listed_with_the_time_at_which_it_is_due() {
    let broker = broker().await;
    broker.put(Outgoing::new("orders", "in two hours").delay_level(18)).unwrap();
    broker.put(Outgoing::new("orders", "in a minute").delay_level(5)).unwrap();
    broker.put(Outgoing::new("orders", "at a time").deliver_at_ms(START + 30 * MINUTE)).unwrap();
    let delayed = broker.delayed();
    let seen: Vec<_> = delayed.iter().map(|m| (m.text(), m.topic.as_str(), m.due_ms.unwrap() - START)).collect();
    let expected = [("in a minute", MINUTE), ("at a time", 30 * MINUTE), ("in two hours", 120 * MINUTE)];
    assert_eq!(seen.len(), 3);
    for ((text, topic, due), (expected_text, expected_due)) in seen.into_iter().zip(expected) {
        assert_eq!((text.as_str(), topic), (expected_text, "orders"));
        assert!((expected_due - 1000..=expected_due + 1000).contains(&due), "{text}: {due}");
    }
    assert!(broker.clock().next_due_ms.unwrap() <= START + MINUTE);
    broker.set_time(START + 31 * MINUTE).await;
    assert_eq!(broker.messages("orders").len(), 2);
    broker.set_time(START).await;
    assert_eq!(broker.clock().message_ms, START + 31 * MINUTE);
    assert_eq!(broker.delayed().len(), 1);
    broker.advance(Duration::from_secs(7200)).await;
    assert!(broker.delayed().is_empty());
}

#[tokio::test]
async fn half_messages_are_there_until_they_are_decided() {
    let broker = broker().await;
    let mut peer = Peer::connect(broker.broker_address());
    let properties = "TRAN_MSG\u{1}true\u{2}PGROUP\u{1}p\u{2}UNIQ_KEY\u{1}AAAA\u{2}";
    let mut fields = send_fields("orders", "0", properties);
    fields.iter_mut().find(|(name, _)| *name == "f").unwrap().1 = "4";
    let sent = peer.request(RequestCode::SEND_MESSAGE_V2, &fields, "half");
    assert_eq!(sent.code, 0);
    let halves = broker.half_messages();
    assert_eq!((halves.len(), halves[0].topic.as_str(), halves[0].text().as_str()), (1, "orders", "half"));
    let offset = i64::from_str_radix(&sent.field("msgId").unwrap()[16..], 16).unwrap().to_string();
    let end = [
        ("producerGroup", "p"),
        ("tranStateTableOffset", sent.field("queueOffset").unwrap()),
        ("commitLogOffset", offset.as_str()),
        ("commitOrRollback", "8"),
        ("fromTransactionCheck", "false"),
        ("msgId", "AAAA"),
        ("transactionId", "AAAA"),
    ];
    let ended = peer.request(RequestCode::END_TRANSACTION, &end, "");
    assert_eq!(ended.code, 0, "{ended:?}");
    assert!(broker.half_messages().is_empty());
    assert_eq!(broker.messages("orders").len(), 1);
}

#[tokio::test]
async fn a_group_shows_its_members_what_they_read_and_how_far_they_are() {
    let broker = broker().await;
    for body in ["a", "b", "c"] {
        broker.put(Outgoing::new("orders", body).queue(0)).unwrap();
    }
    let mut peer = Peer::connect(broker.broker_address());
    peer.request(RequestCode::HEART_BEAT, &[], heartbeat("c@1", "billing", "orders", "created", 1));
    let commit = [("consumerGroup", "billing"), ("topic", "orders"), ("queueId", "0"), ("commitOffset", "2")];
    peer.request(RequestCode::UPDATE_CONSUMER_OFFSET, &commit, "");
    let held = peer.command(RequestCode::PULL_MESSAGE, &pull_fields("billing", "orders", "1", "0", "*", "20000"), "");
    peer.send(&held);
    peer.request(RequestCode::GET_MAX_OFFSET, &[("topic", "orders"), ("queueId", "0")], "");
    broker.wait_for_consumed("billing", "orders", 2).await.unwrap();
    let group = broker.group("billing");
    assert_eq!((group.members.len(), group.members[0].client.as_str(), group.lag), (1, "c@1", 1));
    assert_eq!((group.model.as_str(), group.subscriptions["orders"].as_str()), ("CLUSTERING", "created"));
    let queue = |queue: i32| group.queues.iter().find(|view| view.topic == "orders" && view.queue == queue).unwrap();
    assert_eq!((queue(0).committed, queue(0).max, queue(0).lag), (2, 3, 1));
    assert_eq!((queue(1).committed, queue(1).owner.as_deref()), (-1, Some("c@1")));
    assert!(broker.groups().contains(&"billing".to_owned()));
    let nobody: GroupView = broker.group("nobody");
    assert!(nobody.members.is_empty() && nobody.queues.is_empty());
    broker.put(Outgoing::new("%DLQ%billing", "dead")).unwrap();
    assert_eq!(broker.dead_letters("billing")[0].text(), "dead");
}

#[tokio::test]
async fn time_skips_to_what_is_due_when_nobody_asks_for_anything() {
    let broker = MockBroker::builder().topic("orders", 1).manual_time_at(START).skip_time().start().await.unwrap();
    broker.put(Outgoing::new("orders", "late").delay_level(18)).unwrap();
    broker.put(Outgoing::new("orders", "early").delay_level(17)).unwrap();
    let messages = broker.wait_for_messages("orders", 2).await.unwrap();
    assert_eq!(messages.iter().map(MessageView::text).collect::<Vec<_>>(), ["early", "late"]);
    assert_eq!(broker.clock().message_ms, START + 120 * MINUTE);
    broker.skip_time(false).await;
    broker.put(Outgoing::new("orders", "never").delay_level(1)).unwrap();
    assert!(!broker.clock().skipping);
    broker.freeze_time(false).await;
    assert!(!broker.clock().manual);
}
