//! Where consumers begin, what they store, and how they follow a broker that moves them.

use std::time::{Duration, SystemTime};

use bytes::Bytes;
use rocketmq_wire::{RequestCode, ResponseCode};

use super::fake_broker::{Asked, Scripted, Stored, encode};
use super::*;
use crate::consumer::ConsumeFrom;

const SOON: Duration = Duration::from_millis(100);

async fn start(fixture: &Fixture, from: ConsumeFrom) -> PushConsumer {
    let handled = fixture.handled.clone();
    let handler = move |message: MessageView| {
        handled.note(&message);
        async {}
    };
    fixture.builder().await.consume_from(from).start(handler).await.expect("the broker answers")
}

#[tokio::test]
async fn a_new_group_begins_at_the_end_and_keeps_its_place() {
    let fixture = Fixture::new(1);
    fixture.broker.append_numbered(TOPIC, 1, 0..10);
    let consumer = start(&fixture, ConsumeFrom::Last).await;
    fixture.clock.advance(SOON).await;
    // It is stopped before it has got anything; what comes meanwhile is still its.
    fixture.drive(consumer.shutdown()).await.expect("nothing is under way");
    assert_eq!(fixture.broker.committed(GROUP, TOPIC, 0), Some(10));
    fixture.broker.append_numbered(TOPIC, 1, 10..12);
    let _consumer = start(&fixture, ConsumeFrom::Last).await;
    fixture.until(SOON, "the new ones are handled", || fixture.handled.count() == 2).await;
    assert!(fixture.handled.deliveries("9").is_empty());
}

#[tokio::test]
async fn a_new_group_begins_at_a_time() {
    let fixture = Fixture::new(1);
    fixture.broker.append_numbered(TOPIC, 1, 0..10);
    let offset = vec![("offset", "7".to_owned())];
    let answer = Scripted::Answer(ResponseCode::SUCCESS, None, offset, Bytes::new());
    fixture.broker.script(RequestCode::SEARCH_OFFSET_BY_TIMESTAMP, [answer]);
    let time = SystemTime::UNIX_EPOCH + Duration::from_millis(1_700_000_000_123);
    let _consumer = start(&fixture, ConsumeFrom::Timestamp(time)).await;
    fixture.until(SOON, "three are handled", || fixture.handled.count() == 3).await;
    let asked = fixture.broker.last(RequestCode::SEARCH_OFFSET_BY_TIMESTAMP);
    assert_eq!(asked.field("timestamp"), Some("1700000000123"));
}

#[tokio::test]
async fn an_error_is_not_the_answer_that_there_is_no_offset() {
    let fixture = Fixture::new(1);
    fixture.broker.append_numbered(TOPIC, 1, 0..10);
    fixture.broker.state().offsets.insert((GROUP.into(), TOPIC.into(), 0), 4);
    let troubles = [
        Scripted::refusal(ResponseCode::SYSTEM_ERROR),
        Scripted::HangUp,
        Scripted::refusal(ResponseCode::SYSTEM_BUSY),
        Scripted::Silence,
    ];
    // Two queues ask, the topic's and the retry topic's, and either may get an answer.
    let troubles: Vec<_> = troubles.iter().flat_map(|trouble| [trouble.clone(), trouble.clone()]).collect();
    fixture.broker.script(RequestCode::QUERY_CONSUMER_OFFSET, troubles);
    let _consumer = start(&fixture, ConsumeFrom::Last).await;
    fixture.until(Duration::from_secs(30), "it goes on at 4", || fixture.handled.count() == 6).await;
    assert!(fixture.handled.deliveries("3").is_empty());
    assert!(fixture.broker.committed(GROUP, TOPIC, 0) >= Some(4));
}

#[tokio::test]
async fn each_queue_is_committed_once_an_interval_at_most() {
    let fixture = Fixture::new(4);
    let consumer = fixture.consumer().await;
    // Less than a minute, so that nothing is stored again.
    for round in 0..9 {
        fixture.broker.append_numbered(TOPIC, 4, round * 400..(round + 1) * 400);
        fixture.clock.advance(Duration::from_secs(5)).await;
    }
    let commits = fixture.broker.count(RequestCode::UPDATE_CONSUMER_OFFSET);
    assert_eq!(fixture.handled.count(), 3600);
    assert!((4 * 8..=4 * 9 + 1).contains(&commits), "{commits} commits in nine intervals of four queues");
    // Pulls carry the offset too: the next one after those that are held now.
    fixture.clock.advance(Duration::from_secs(16)).await;
    let state = fixture.broker.state();
    let is_full = |asked: &&Asked| {
        asked.code() == RequestCode::PULL_MESSAGE && asked.request.field("commitOffset") == Some("900")
    };
    let pull = state.requests.iter().rev().find(is_full).expect("pulls after the last round");
    assert_eq!((pull.request.field("sysFlag"), pull.request.field("queueOffset")), (Some("3"), Some("900")));
    drop(state);
    drop(consumer);
}

#[tokio::test]
async fn offsets_that_do_not_change_are_stored_again_now_and_then() {
    let fixture = Fixture::new(1);
    fixture.broker.append_numbered(TOPIC, 1, 0..3);
    let _consumer = fixture.consumer().await;
    fixture.clock.advance(Duration::from_secs(6)).await;
    let before = fixture.broker.count(RequestCode::UPDATE_CONSUMER_OFFSET);
    fixture.clock.advance(Duration::from_secs(50)).await;
    assert_eq!(fixture.broker.count(RequestCode::UPDATE_CONSUMER_OFFSET), before);
    // As if the broker had lost it.
    fixture.broker.state().offsets.clear();
    fixture.clock.advance(Duration::from_secs(12)).await;
    assert_eq!(fixture.broker.committed(GROUP, TOPIC, 0), Some(3));
}

#[tokio::test]
async fn a_consumer_that_fell_behind_goes_on_at_the_oldest_message() {
    let fixture = Fixture::new(1);
    fixture.broker.append_numbered(TOPIC, 1, 0..20);
    fixture.broker.state().offsets.insert((GROUP.into(), TOPIC.into(), 0), 3);
    fixture.broker.expire(TOPIC, 0, 15);
    let consumer = fixture.consumer().await;
    fixture.until(SOON, "the rest is handled", || fixture.handled.count() == 5).await;
    assert_eq!(consumer.stats().offset_corrections, 1);
    fixture.drive(consumer.shutdown()).await.expect("nothing is under way");
    assert_eq!(fixture.broker.committed(GROUP, TOPIC, 0), Some(20));
}

#[tokio::test]
async fn a_move_backwards_is_believed_when_it_is_said_twice() {
    let fixture = Fixture::new(1);
    fixture.broker.append_numbered(TOPIC, 1, 0..10);
    fixture.broker.state().offsets.insert((GROUP.into(), TOPIC.into(), 0), 10);
    // As a broker that is just loading its queues.
    let moved = |remark| Scripted::pull(ResponseCode::PULL_OFFSET_MOVED, remark, 0, Bytes::new());
    fixture.broker.script(RequestCode::PULL_MESSAGE, [Scripted::AsUsual, moved("NO_MESSAGE_IN_QUEUE")]);
    let consumer = fixture.consumer().await;
    fixture.clock.advance(Duration::from_secs(20)).await;
    assert_eq!((fixture.handled.count(), consumer.stats().offset_corrections), (0, 0));
    // The log ends earlier than it did: asked again, the broker stays with it.
    fixture.broker.clear_script();
    fixture.broker.script(RequestCode::PULL_MESSAGE, vec![moved("OFFSET_OVERFLOW_BADLY"); 6]);
    fixture.broker.append_numbered(TOPIC, 1, 10..11);
    fixture.until(Duration::from_secs(40), "all came again", || fixture.handled.count() == 11).await;
    assert!(consumer.stats().offset_corrections >= 1);
}

#[tokio::test]
async fn a_reset_by_an_administrator_is_followed_at_once() {
    let fixture = Fixture::new(1);
    fixture.broker.append_numbered(TOPIC, 1, 0..10);
    let consumer = fixture.consumer().await;
    fixture.until(SOON, "all are handled", || fixture.handled.count() == 10).await;
    let reset = Scripted::pull(ResponseCode::PULL_OFFSET_MOVED, "OFFSET_RESET", 6, Bytes::new());
    // Both queues that are read pull; the retry topic's cannot go back to 6 and stays.
    fixture.broker.script(RequestCode::PULL_MESSAGE, [reset.clone(), reset]);
    fixture.broker.append_numbered(TOPIC, 1, 10..11);
    fixture.until(Duration::from_secs(16), "four came again", || consumer.stats().consumed == 10 + 4 + 2).await;
    assert_eq!(fixture.handled.deliveries("5").len(), 1);
    assert_eq!(fixture.handled.deliveries("6").len(), 2);
}

#[tokio::test]
async fn a_record_that_cannot_be_read_takes_no_other_with_it() {
    let fixture = Fixture::new(1);
    fixture.broker.append_numbered(TOPIC, 1, 0..5);
    let records = fixture.broker.records(TOPIC, 0);
    let mut body = records.concat();
    // The magic number of the third.
    body[records[0].len() + records[1].len() + 4] ^= 0xFF;
    let answer = Scripted::pull(ResponseCode::SUCCESS, "FOUND", 5, body.into());
    fixture.broker.script(RequestCode::PULL_MESSAGE, [answer]);
    let consumer = start_alone(&fixture).await;
    fixture.until(SOON, "four are handled", || fixture.handled.count() == 4).await;
    assert!(fixture.handled.deliveries("2").is_empty());
    assert_eq!(consumer.stats().unreadable, 1);
    fixture.drive(consumer.shutdown()).await.expect("nothing is under way");
    assert_eq!(fixture.broker.committed(GROUP, TOPIC, 0), Some(5));
}

#[tokio::test]
async fn an_answer_that_breaks_off_is_pulled_again_from_there() {
    let fixture = Fixture::new(1);
    fixture.broker.append_numbered(TOPIC, 1, 0..5);
    let records = fixture.broker.records(TOPIC, 0);
    let mut body = records.concat();
    body[records[0].len()..][..4].copy_from_slice(&i32::MAX.to_be_bytes());
    let cut = Scripted::pull(ResponseCode::SUCCESS, "FOUND", 5, body.into());
    let garbage = Scripted::pull(ResponseCode::SUCCESS, "FOUND", 5, Bytes::from_static(b"\0\0\0\0garbage"));
    fixture.broker.script(RequestCode::PULL_MESSAGE, [cut, garbage]);
    let consumer = start_alone(&fixture).await;
    fixture.until(Duration::from_secs(5), "all are handled", || fixture.handled.count() == 5).await;
    fixture.handled.assert_each_once(5);
    assert_eq!((consumer.stats().failed_pulls, consumer.stats().unreadable), (2, 0));
}

#[tokio::test]
async fn offsets_out_of_place_are_left_out() {
    let fixture = Fixture::new(1);
    fixture.broker.append_numbered(TOPIC, 1, 0..5);
    let mut body = fixture.broker.records(TOPIC, 0).concat();
    let stray = Stored { topic: TOPIC, body: b"x", properties: &[("KEYS", "stray")], ..Default::default() };
    for offset in [2, -1, 1_000_000, i64::MAX] {
        body.extend_from_slice(&encode(0, offset, 0, &stray));
    }
    let answer = Scripted::pull(ResponseCode::SUCCESS, "FOUND", 5, body.into());
    fixture.broker.script(RequestCode::PULL_MESSAGE, [answer]);
    let consumer = start_alone(&fixture).await;
    fixture.until(SOON, "all are handled", || fixture.handled.count() == 5).await;
    fixture.handled.assert_each_once(5);
    assert_eq!(consumer.stats().repeated, 4);
    fixture.drive(consumer.shutdown()).await.expect("nothing is under way");
    assert_eq!(fixture.broker.committed(GROUP, TOPIC, 0), Some(5));
}

/// A consumer whose first scripted pulls are the topic's: the retry topic cannot be read yet.
async fn start_alone(fixture: &Fixture) -> PushConsumer {
    fixture.broker.state().offsets.insert((GROUP.into(), TOPIC.into(), 0), 0);
    let handled = fixture.handled.clone();
    let handler = move |message: MessageView| {
        handled.note(&message);
        async {}
    };
    fixture.broker.keep_retry_topics_away();
    fixture.builder().await.start(handler).await.expect("the broker answers")
}
