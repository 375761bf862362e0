//! What reaches handlers, and what becomes of what they return.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use rocketmq_wire::message::{Compression, properties};
use rocketmq_wire::{RequestCode, ResponseCode};
use tokio::sync::Semaphore;

use super::fake_broker::{RETRY_DELAY, Scripted, Stored};
use super::*;
use crate::error::ErrorKind;

const SOON: Duration = Duration::from_millis(100);

#[tokio::test]
async fn every_message_is_handled_once_and_the_first_at_once() {
    let fixture = Fixture::new(4);
    fixture.broker.append_numbered(TOPIC, 4, 0..500);
    let consumer = fixture.consumer().await;
    fixture.until(SOON, "all are handled", || fixture.handled.count() == 500).await;
    // One that comes while a pull is held.
    fixture.broker.append_numbered(TOPIC, 4, 500..501);
    fixture.until(SOON, "the next is handled", || fixture.handled.count() == 501).await;
    fixture.handled.assert_each_once(501);
    fixture.drive(consumer.shutdown()).await.expect("nothing is under way");
    for queue in 0..4 {
        let stored = 125 + i64::from(queue == 0);
        assert_eq!(fixture.broker.committed(GROUP, TOPIC, queue), Some(stored));
    }
    let stats = consumer.stats();
    assert_eq!((stats.received, stats.consumed, stats.failed, stats.unreadable), (501, 501, 0, 0));
}

#[tokio::test]
async fn an_error_and_a_panic_bring_the_message_again() {
    let fixture = Fixture::new(1);
    fixture.broker.append_numbered(TOPIC, 1, 0..20);
    let handled = fixture.handled.clone();
    let handler = move |message: MessageView| {
        handled.note(&message);
        async move {
            assert_eq!(message.topic(), TOPIC, "not the retry topic");
            match (message.queue_offset(), message.reconsume_times()) {
                (3, 0) => Err("not now"),
                (5, 0) => panic!("a bug"),
                _ => Ok(()),
            }
        }
    };
    let consumer = fixture.builder().await.start(handler).await.expect("the broker answers");
    fixture.until(SOON, "all are handled", || fixture.handled.count() == 20).await;
    fixture.until(SOON, "both went back", || consumer.stats().sent_back == 2).await;
    let request = fixture.broker.last(RequestCode::CONSUMER_SEND_MSG_BACK);
    let field = |name| request.field(name);
    assert_eq!((field("group"), field("delayLevel"), field("originTopic")), (Some(GROUP), Some("0"), Some(TOPIC)));
    assert_eq!((field("maxReconsumeTimes"), field("originMsgId")), (Some("16"), Some("5")));

    fixture.until(RETRY_DELAY + SOON, "both come again", || consumer.stats().consumed == 20).await;
    assert_eq!(fixture.handled.deliveries("3"), [0, 1]);
    assert_eq!(fixture.handled.deliveries("5"), [0, 1]);
    fixture.drive(consumer.shutdown()).await.expect("nothing is under way");
    assert_eq!(fixture.broker.committed(GROUP, TOPIC, 0), Some(20));
    assert_eq!(fixture.broker.committed(GROUP, "%RETRY%billing", 0), Some(2));
    assert_eq!((consumer.stats().failed, consumer.stats().panicked), (1, 1));
}

#[tokio::test]
async fn a_message_that_cannot_go_back_is_kept_and_handed_out_again() {
    let fixture = Fixture::new(1);
    fixture.broker.append_numbered(TOPIC, 1, 0..10);
    let refusals = || vec![Scripted::refusal(ResponseCode::SYSTEM_ERROR); 3];
    fixture.broker.script(RequestCode::CONSUMER_SEND_MSG_BACK, refusals());
    fixture.broker.script(RequestCode::SEND_MESSAGE_V2, refusals());
    let handled = fixture.handled.clone();
    let handler = move |message: MessageView| {
        handled.note(&message);
        let fails = message.queue_offset() == 4 && message.reconsume_times() < 3;
        async move { if fails { Err("not now") } else { Ok(()) } }
    };
    let consumer = fixture.builder().await.start(handler).await.expect("the broker answers");
    fixture.until(Duration::from_secs(14), "it was refused twice", || consumer.stats().failed_send_backs == 3).await;
    assert_eq!(fixture.handled.count(), 10);
    assert!(fixture.broker.committed(GROUP, TOPIC, 0) <= Some(4), "the offset passed a message that is not done");
    fixture.until(Duration::from_secs(6), "it is done", || consumer.stats().consumed == 10).await;
    assert_eq!(fixture.handled.deliveries("4"), [0, 1, 2, 3]);
    fixture
        .until(Duration::from_secs(6), "the offset is stored", || fixture.broker.committed(GROUP, TOPIC, 0) == Some(10))
        .await;
}

#[tokio::test]
async fn a_broker_that_does_not_take_it_back_has_others_to_send_it_to() {
    let fixture = Fixture::new(1);
    let properties = [("KEYS", "k"), ("TAGS", "paid"), ("UNIQ_KEY", "unique"), ("TRAN_MSG", "true"), ("own", "value")];
    let body = Compression::Zlib.compress(b"some body", 5).expect("zlib is built in");
    let sys_flag = Compression::Zlib.sys_flag_bits();
    let message = Stored { topic: TOPIC, body: &body, properties: &properties, sys_flag, ..Default::default() };
    fixture.broker.append(0, &message);
    fixture.broker.script(RequestCode::CONSUMER_SEND_MSG_BACK, [Scripted::HangUp]);
    let handler = |message: MessageView| async move {
        assert_eq!(&message.body()[..], b"some body");
        Err::<(), _>("not now")
    };
    let consumer = fixture.builder().await.start(handler).await.expect("the broker answers");
    fixture.until(Duration::from_secs(2), "it was sent", || consumer.stats().sent_back == 1).await;
    let sent = fixture.broker.last(RequestCode::SEND_MESSAGE_V2);
    let field = |name| sent.field(name);
    assert_eq!((field("a"), field("b")), (Some("CLIENT_INNER_PRODUCER"), Some("%RETRY%billing")));
    assert_eq!((field("j"), field("l"), &sent.body[..]), (Some("1"), Some("16"), &body[..]));
    assert_eq!(field("f"), Some(sys_flag.to_string().as_str()));
    let properties = rocketmq_wire::message::Properties::from(field("i").expect("properties"));
    for (name, value) in [
        (properties::RETRY_TOPIC, Some(TOPIC)),
        (properties::DELAY, Some("3")),
        (properties::UNIQUE_ID, Some("unique")),
        (properties::TAGS, Some("paid")),
        (properties::TRANSACTION_PREPARED, None),
        ("own", Some("value")),
    ] {
        assert_eq!(properties.value(name), value, "{name}");
    }
    assert_eq!(properties.value(properties::ORIGIN_MESSAGE_ID).map(str::len), Some(32));
}

#[tokio::test]
async fn tags_are_compared_again_and_bodies_are_made_plain() {
    let fixture = Fixture::new(1);
    // "Aa" and "BB" have one hash, so a broker lets both pass.
    for (key, tag) in [("1", "Aa"), ("2", "BB"), ("3", "Aa")] {
        let properties = [("KEYS", key), ("TAGS", tag)];
        fixture.broker.append(0, &Stored { topic: TOPIC, body: b"x", properties: &properties, ..Default::default() });
    }
    fixture.broker.append(0, &Stored { topic: TOPIC, body: b"no tag", properties: &[], ..Default::default() });
    let handled = fixture.handled.clone();
    let handler = move |message: MessageView| {
        handled.note(&message);
        async {}
    };
    let consumer = fixture.builder().await.subscribe(TOPIC, "Aa").start(handler).await.expect("the broker answers");
    fixture.until(SOON, "two are handled", || consumer.stats().consumed == 2).await;
    assert_eq!(fixture.handled.lock().keys().collect::<Vec<_>>(), ["1", "3"]);
    assert_eq!(consumer.stats().filtered, 2);
    fixture.drive(consumer.shutdown()).await.expect("nothing is under way");
    assert_eq!(fixture.broker.committed(GROUP, TOPIC, 0), Some(4));
    let heartbeat: serde_json::Value =
        serde_json::from_slice(&fixture.broker.last(RequestCode::HEART_BEAT).body).expect("JSON");
    let subscriptions = &heartbeat["consumerDataSet"][0]["subscriptionDataSet"];
    assert_eq!(subscriptions[1]["tagsSet"][0], "Aa");
}

#[tokio::test]
async fn a_body_that_grows_beyond_the_limit_is_not_handed_out() {
    let fixture = Fixture::new(1);
    let bomb = Compression::Zlib.compress(&vec![0; 1 << 20], 9).expect("zlib is built in");
    let sys_flag = Compression::Zlib.sys_flag_bits();
    for body in [&bomb[..], b"not zlib"] {
        fixture.broker.append(0, &Stored { topic: TOPIC, body, sys_flag, ..Default::default() });
    }
    let handler = |_: MessageView| async { Ok::<_, String>(()) };
    let builder = fixture.builder().await.max_body_bytes((1 << 20) - 1);
    let consumer = builder.start(handler).await.expect("the broker answers");
    fixture.until(SOON, "both went back", || consumer.stats().sent_back == 2).await;
    assert_eq!((consumer.stats().failed, consumer.stats().consumed), (2, 0));
}

#[tokio::test]
async fn as_many_handlers_run_as_asked_for_and_no_more_is_pulled_than_allowed() {
    let fixture = Fixture::new(2);
    fixture.broker.append_numbered(TOPIC, 2, 0..1000);
    let (gate, running) = (Arc::new(Semaphore::new(0)), Arc::new(AtomicUsize::new(0)));
    let (handled, opened, counted) = (fixture.handled.clone(), Arc::clone(&gate), Arc::clone(&running));
    let handler = move |message: MessageView| {
        let (handled, gate, running) = (handled.clone(), Arc::clone(&opened), Arc::clone(&counted));
        async move {
            running.fetch_add(1, Ordering::Relaxed);
            gate.acquire().await.expect("open").forget();
            running.fetch_sub(1, Ordering::Relaxed);
            handled.note(&message);
        }
    };
    let builder = fixture.builder().await.concurrency(3).max_cached_messages(40);
    let consumer = builder.start(handler).await.expect("the broker answers");
    fixture.clock.advance(Duration::from_secs(60)).await;
    assert_eq!(running.load(Ordering::Relaxed), 3);
    // 64 messages in each queue: two batches of 32, the first of which did not reach the limit.
    let stats = consumer.stats();
    assert_eq!((stats.received, stats.paused_by_messages, stats.consumed), (128, 2, 0));
    let pulls = fixture.broker.count(RequestCode::PULL_MESSAGE);
    assert!(pulls <= 2 * 2 + 5, "{pulls} pulls in a minute in which nothing could be taken");
    gate.add_permits(1000);
    fixture.until(SOON, "all are handled", || fixture.handled.count() == 1000).await;
    fixture.handled.assert_each_once(1000);
}

#[tokio::test]
async fn one_message_that_takes_long_stops_a_queue_only_at_the_span() {
    let fixture = Fixture::new(1);
    fixture.broker.append_numbered(TOPIC, 1, 0..400);
    let handled = fixture.handled.clone();
    let handler = move |message: MessageView| {
        let handled = handled.clone();
        async move {
            if message.queue_offset() == 0 {
                std::future::pending::<()>().await;
            }
            handled.note(&message);
        }
    };
    let consumer = fixture.builder().await.max_span(100).start(handler).await.expect("the broker answers");
    fixture.until(SOON, "what the span allows is handled", || fixture.handled.count() >= 101).await;
    fixture.clock.advance(Duration::from_secs(30)).await;
    assert!(fixture.handled.count() <= 100 + 32, "{} are handled", fixture.handled.count());
    assert_eq!((consumer.stats().paused_by_span, fixture.broker.committed(GROUP, TOPIC, 0)), (1, Some(0)));
}

#[tokio::test]
async fn shutdown_waits_for_handlers_and_stores_what_they_did() {
    let fixture = Fixture::new(1);
    fixture.broker.append_numbered(TOPIC, 1, 0..100);
    let handled = fixture.handled.clone();
    let env = fixture.env.clone();
    let handler = move |message: MessageView| {
        let (handled, env) = (handled.clone(), env.clone());
        async move {
            env.sleep(Duration::from_millis(500)).await;
            handled.note(&message);
        }
    };
    let consumer = fixture.builder().await.concurrency(8).start(handler).await.expect("the broker answers");
    fixture.clock.advance(Duration::from_millis(700)).await;
    assert_eq!(fixture.handled.count(), 8);
    let both = async { tokio::join!(consumer.shutdown(), consumer.shutdown()) };
    let (first, second) = fixture.drive(both).await;
    first.expect("handlers end in time");
    second.expect("it waited for the first");
    assert_eq!((fixture.handled.count(), fixture.broker.committed(GROUP, TOPIC, 0)), (16, Some(16)));
    assert!(fixture.broker.state().members[GROUP].is_empty(), "it has left the group");

    // The next member goes on where this one ended.
    let next = fixture.consumer().await;
    fixture.until(SOON, "the rest is handled", || fixture.handled.count() == 100).await;
    fixture.handled.assert_each_once(100);
    drop(next);
}

#[tokio::test]
async fn shutdown_cuts_off_handlers_that_take_too_long() {
    let fixture = Fixture::new(1);
    fixture.broker.append_numbered(TOPIC, 1, 0..3);
    let handler = |message: MessageView| async move {
        if message.queue_offset() == 1 {
            std::future::pending::<()>().await;
        }
    };
    let builder = fixture.builder().await.drain_timeout(Duration::from_secs(2));
    let consumer = builder.start(handler).await.expect("the broker answers");
    fixture.until(SOON, "the others are done", || consumer.stats().consumed == 2).await;
    let started = fixture.env.now();
    let error = fixture.drive(consumer.shutdown()).await.expect_err("one handler never ends");
    assert_eq!(error.kind(), ErrorKind::Timeout);
    assert!(fixture.env.now() - started < Duration::from_secs(3));
    assert_eq!(fixture.broker.committed(GROUP, TOPIC, 0), Some(1));
}

#[tokio::test]
async fn a_consumer_that_is_dropped_loses_nothing() {
    let fixture = Fixture::new(1);
    fixture.broker.append_numbered(TOPIC, 1, 0..50);
    let stuck = |_: MessageView| std::future::pending::<()>();
    let consumer = fixture.builder().await.start(stuck).await.expect("the broker answers");
    fixture.until(SOON, "messages have come", || consumer.stats().received == 50).await;
    drop(consumer);
    fixture.clock.advance(SOON).await;
    assert!(fixture.broker.state().members[GROUP].is_empty(), "it has left the group");
    let _next = fixture.consumer().await;
    fixture.until(SOON, "all are handled", || fixture.handled.count() == 50).await;
}
