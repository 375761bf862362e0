//! Requests and replies.

use bytes::Bytes;
use rocketmq_wire::message::{Compression, Record, StoredMessage};

use super::*;
use crate::MessageView;

/// Fields of a pushed reply with these properties and flag.
fn reply_fields<'a>(properties: &'a str, sys_flag: &'a str) -> Vec<(&'a str, &'a str)> {
    vec![
        ("producerGroup", "replier"),
        ("topic", "c_REPLY_TOPIC"),
        ("defaultTopic", "TBW102"),
        ("defaultTopicQueueNums", "4"),
        ("queueId", "2"),
        ("sysFlag", sys_flag),
        ("bornTimestamp", "5"),
        ("flag", "3"),
        ("properties", properties),
        ("bornHost", "10.0.9.9:4"),
        ("storeHost", "/10.0.0.2:10911"),
        ("storeTimestamp", "6"),
    ]
}

async fn push_reply(scripted: &Scripted, fields: &[(&str, &str)], body: &'static [u8]) {
    scripted.brokers[0].push(RequestCode::PUSH_REPLY_MESSAGE_TO_CLIENT, 0, fields, Bytes::from_static(body)).await;
    scripted.clock.advance(Duration::ZERO).await;
}

/// The property of the last request sent.
fn property(scripted: &Scripted, name: &str) -> String {
    let sends = scripted.brokers[0].requests(RequestCode::SEND_MESSAGE_V2);
    let properties = Properties::from(sends.last().and_then(|send| send.field("i")).expect("a send"));
    properties.value(name).unwrap_or_default().to_owned()
}

#[tokio::test]
async fn a_request_says_who_asks_and_gets_its_reply() {
    let scripted = Scripted::start(1);
    let client = scripted.client().await;
    let producer = client.producer("g").start().await.expect("a good group");
    let asking = scripted.env.spawn({
        let producer = producer.clone();
        async move { producer.request(message(), Duration::from_millis(4500)).await }
    });
    scripted.clock.advance(Duration::ZERO).await;
    // Brokers know the client before they may have a reply for it.
    assert!(!scripted.brokers[0].requests(RequestCode::HEART_BEAT).is_empty());
    assert_eq!(
        (property(&scripted, "TTL"), property(&scripted, "REPLY_TO_CLIENT").as_str()),
        ("4500".into(), client.client_id())
    );
    let id = property(&scripted, "CORRELATION_ID");
    assert_eq!(producer.stats().waiting_requests, 1);

    let properties = format!("CORRELATION_ID\u{1}{id}\u{2}MSG_TYPE\u{1}reply\u{2}colour\u{1}red");
    push_reply(&scripted, &reply_fields(&properties, "0"), b"the reply").await;
    let reply = asking.await.expect("not cancelled").expect("a reply");
    assert_eq!((&reply.body()[..], reply.property("colour"), reply.flag()), (&b"the reply"[..], Some("red"), 3));
    assert_eq!(reply.property("ARRIVE_TIME"), Some(scripted.env.wall_clock_ms().to_string().as_str()));
    assert_eq!(reply.born_host().to_string(), "10.0.9.9:4");
    assert_eq!(reply.store_host().to_string(), "10.0.0.2:10911");
    let answers = scripted.brokers[0].answers();
    assert_eq!(answers.iter().map(|answer| answer.code).collect::<Vec<_>>(), [0]);
    assert_eq!((producer.stats().waiting_requests, producer.stats().unknown_replies), (0, 0));

    // A second one for the same request is confirmed to the broker, dropped and counted; one of no sense is refused.
    push_reply(&scripted, &reply_fields(&properties, "0"), b"again").await;
    push_reply(&scripted, &reply_fields("no id", "0"), b"whose").await;
    push_reply(&scripted, &reply_fields(&properties, "0")[1..], b"broken").await;
    let answers = scripted.brokers[0].answers();
    assert_eq!(answers.iter().map(|answer| answer.code).collect::<Vec<_>>(), [0, 0, 0, 1]);
    assert_eq!(producer.stats().unknown_replies, 2);
}

#[tokio::test]
async fn a_compressed_reply_is_plain_and_a_damaged_one_an_error() {
    let scripted = Scripted::start(1);
    let producer = producer(&scripted).await;
    let flag = Compression::Zlib.sys_flag_bits().to_string();
    let packed: &'static [u8] = Compression::Zlib.compress(b"plain again", 5).expect("a body").leak();
    for (body, expected) in [(packed, Ok(&b"plain again"[..])), (&b"damaged"[..], Err(ErrorKind::Protocol))] {
        let asking = scripted.env.spawn({
            let producer = producer.clone();
            async move { producer.request(message(), Duration::from_secs(3)).await }
        });
        scripted.clock.advance(Duration::ZERO).await;
        let properties = format!("CORRELATION_ID\u{1}{}\u{2}", property(&scripted, "CORRELATION_ID"));
        push_reply(&scripted, &reply_fields(&properties, &flag), body).await;
        let reply = asking.await.expect("not cancelled");
        assert_eq!(reply.as_ref().map(MessageView::body).map_err(Error::kind), expected.map(Bytes::from_static));
    }
}

#[tokio::test]
async fn requests_without_a_reply_time_out_and_those_not_sent_say_why() {
    let scripted = Scripted::start(1);
    let producer = producer(&scripted).await;
    let asking = scripted.env.spawn({
        let producer = producer.clone();
        async move { producer.request(message(), Duration::from_secs(2)).await }
    });
    scripted.clock.advance(Duration::from_millis(1900)).await;
    assert!(!asking.is_finished());
    scripted.clock.advance(Duration::from_millis(200)).await;
    let error = asking.await.expect("not cancelled").expect_err("no reply");
    assert_eq!((error.kind(), error.outcome()), (ErrorKind::Timeout, Outcome::Unknown));
    assert_eq!(error.operation(), Some("request"));

    refuse_first(&scripted, usize::MAX, ResponseCode::MESSAGE_ILLEGAL);
    let error = producer.request(message(), Duration::from_secs(2)).await.expect_err("refused");
    assert_eq!((error.kind(), error.response_code()), (ErrorKind::InvalidArgument, Some(13)));
    assert_eq!(producer.stats().waiting_requests, 0);
    let error = producer.request(Message::new("a/b", "x"), Duration::from_secs(2)).await.expect_err("no topic");
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
}

/// A request as a consumer gets it from a broker.
fn received(properties: &str, broker: &str) -> MessageView {
    let host = "10.0.0.2:10911".parse().expect("an address");
    let record = Record {
        version: Default::default(),
        queue_id: 1,
        flag: 0,
        queue_offset: 5,
        physical_offset: 4242,
        sys_flag: 0,
        born_timestamp: 1,
        born_host: host,
        store_timestamp: 2,
        store_host: host,
        reconsume_times: 0,
        prepared_transaction_offset: 0,
        body: b"question",
        topic: "t",
        properties: properties.as_bytes(),
    };
    let mut bytes = vec![0; record.encoded_len().expect("small")];
    record.encode(&mut bytes).expect("there is room");
    MessageView::of(StoredMessage::parse(bytes.into()).expect("a record").0, broker, &Default::default())
}

const REQUEST: &str = "CORRELATION_ID\u{1}id-1\u{2}REPLY_TO_CLIENT\u{1}asker@1\u{2}TTL\u{1}700\u{2}CLUSTER\u{1}c\u{2}";

#[tokio::test]
async fn a_reply_goes_by_the_broker_that_delivered_the_request() {
    let scripted = Scripted::start(2);
    scripted.set_topic("c_REPLY_TOPIC", 1);
    let reply_to = |request: &rocketmq_wire::RemotingCommand| match RequestCode(request.code) {
        RequestCode::SEND_REPLY_MESSAGE_V2 => stored(request, ResponseCode::SUCCESS),
        _ => scripted::broker(request),
    };
    scripted.brokers.iter().for_each(|broker| broker.react(reply_to));
    let producer = producer(&scripted).await;
    let replies = |index: usize| scripted.brokers[index].requests(RequestCode::SEND_REPLY_MESSAGE_V2);
    for _ in 0..3 {
        producer.reply(&received(REQUEST, "b"), "answer").await.expect("passed on");
    }
    assert_eq!((replies(0).len(), replies(1).len(), scripted.sends()), (0, 3, vec![0, 0]));
    let reply = &replies(1)[0];
    assert_eq!((reply.field("b"), &reply.body[..]), (Some("c_REPLY_TOPIC"), &b"answer"[..]));
    let properties = Properties::from(reply.field("i").expect("properties"));
    assert_eq!(
        ["MSG_TYPE", "CORRELATION_ID", "REPLY_TO_CLIENT", "TTL", "CLUSTER"].map(|name| properties.value(name)),
        [Some("reply"), Some("id-1"), Some("asker@1"), Some("700"), None]
    );
    // Of a broker that refuses, the other one is tried.
    scripted.brokers[1].react(|request| match RequestCode(request.code) {
        RequestCode::SEND_REPLY_MESSAGE_V2 => answer(request, ResponseCode::SYSTEM_ERROR),
        _ => scripted::broker(request),
    });
    let receipt = producer.reply(&received(REQUEST, "b"), "answer").await.expect("passed on");
    assert_eq!((receipt.queue().broker(), replies(0).len()), ("a", 1));

    for missing in ["CORRELATION_ID", "REPLY_TO_CLIENT", "CLUSTER"] {
        let request = received(&REQUEST.replace(missing, "x"), "b");
        let error = producer.reply(&request, "answer").await.expect_err("no request");
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        assert!(error.to_string().contains(missing), "{error}");
    }
    let reply = Message::reply_to(&received(REQUEST, "b"), "answer").expect("a request");
    assert_eq!(producer.send_one_way(reply).await.expect_err("acknowledged").kind(), ErrorKind::InvalidArgument);
}

#[tokio::test]
async fn a_request_may_be_dropped_at_any_await() {
    let scripted = Scripted::start(2);
    let producer = producer(&scripted).await;
    let make = |round: usize| {
        let topic = format!("fresh-{round}");
        scripted.set_topic(&topic, 1);
        refuse_first(&scripted, usize::MAX, ResponseCode::SYSTEM_ERROR);
        producer.request(Message::new(topic, "body"), Duration::from_secs(3))
    };
    drop_at_every_await(&scripted, &producer, make).await.expect_err("refused three times");
}
