//! Members that share queues, come and go.

use std::collections::BTreeSet;
use std::time::Duration;

use rocketmq_wire::{RequestCode, ResponseCode};

use super::fake_broker::Scripted;
use super::*;
use crate::error::ErrorKind;

const SOON: Duration = Duration::from_millis(100);

#[tokio::test]
async fn two_members_share_the_queues_and_one_takes_over() {
    let fixture = Fixture::new(4);
    fixture.broker.append_numbered(TOPIC, 4, 0..400);
    let first = fixture.consumer().await;
    fixture.until(SOON, "the first handles all", || first.stats().consumed == 400).await;

    let second = fixture.consumer().await;
    fixture.clock.advance(Duration::from_secs(1)).await;
    fixture.broker.append_numbered(TOPIC, 4, 400..800);
    fixture.until(SOON, "all are handled", || fixture.handled.count() == 800).await;
    assert_eq!((first.stats().consumed, second.stats().consumed), (600, 200));
    assert!(first.stats().queues_released >= 2);

    fixture.broker.append_numbered(TOPIC, 4, 800..1000);
    fixture.drive(first.shutdown()).await.expect("nothing is under way");
    fixture.broker.append_numbered(TOPIC, 4, 1000..1200);
    fixture.until(Duration::from_secs(1), "the second handles all", || fixture.handled.count() == 1200).await;
    fixture.handled.assert_each_once(1200);
    fixture.drive(second.shutdown()).await.expect("nothing is under way");
}

#[tokio::test]
async fn a_member_that_dies_is_replaced() {
    let fixture = Fixture::new(4);
    let (first, second) = (fixture.consumer().await, fixture.consumer().await);
    fixture.clock.advance(Duration::from_secs(2)).await;
    drop(first);
    fixture.broker.append_numbered(TOPIC, 4, 0..400);
    fixture.until(Duration::from_secs(1), "the second handles all", || fixture.handled.count() == 400).await;
    assert_eq!(second.stats().consumed, 400);
}

#[tokio::test]
async fn a_queue_is_given_away_when_its_running_handlers_have_ended() {
    let fixture = Fixture::new(2);
    fixture.broker.append_numbered(TOPIC, 2, 0..2);
    let (handled, env) = (fixture.handled.clone(), fixture.env.clone());
    let handler = move |message: MessageView| {
        let (handled, env) = (handled.clone(), env.clone());
        async move {
            env.sleep(Duration::from_millis(400)).await;
            handled.note(&message);
        }
    };
    let first = fixture.builder().await.start(handler).await.expect("the broker answers");
    fixture.until(SOON, "both are in work", || first.stats().received == 2).await;
    let second = fixture.consumer().await;
    fixture.clock.advance(Duration::from_secs(5)).await;
    fixture.handled.assert_each_once(2);
    assert_eq!((first.stats().consumed, second.stats().consumed), (2, 0));
}

#[tokio::test]
async fn a_thousand_notices_are_one() {
    let fixture = Fixture::new(4);
    let consumer = fixture.consumer().await;
    fixture.clock.advance(Duration::from_secs(1)).await;
    let before = fixture.broker.count(RequestCode::GET_CONSUMER_LIST_BY_GROUP);
    for _ in 0..100 {
        for _ in 0..10 {
            fixture.broker.notify(GROUP);
        }
        fixture.clock.advance(Duration::from_millis(10)).await;
    }
    // Five times two topics in a second.
    let asked = fixture.broker.count(RequestCode::GET_CONSUMER_LIST_BY_GROUP) - before;
    assert!((2..=12).contains(&asked), "{asked} queries");
    fixture.broker.append_numbered(TOPIC, 4, 0..40);
    fixture.until(SOON, "all are handled", || consumer.stats().consumed == 40).await;
}

#[tokio::test]
async fn queues_stay_while_members_cannot_be_listed() {
    let fixture = Fixture::new(4);
    let consumer = fixture.consumer().await;
    fixture.clock.advance(Duration::from_secs(1)).await;
    let taken = consumer.stats().queues_taken;
    let troubles = [Scripted::refusal(ResponseCode::SYSTEM_ERROR), Scripted::Silence];
    let troubles: Vec<_> = (0..20).map(|index| troubles[index % 2].clone()).collect();
    fixture.broker.script(RequestCode::GET_CONSUMER_LIST_BY_GROUP, troubles);
    fixture.clock.advance(Duration::from_secs(60)).await;
    fixture.broker.append_numbered(TOPIC, 4, 0..40);
    fixture.until(SOON, "all are handled", || consumer.stats().consumed == 40).await;
    assert_eq!((consumer.stats().queues_taken, consumer.stats().queues_released), (taken, 0));
}

#[tokio::test]
async fn a_member_that_brokers_have_forgotten_says_that_it_lives() {
    let fixture = Fixture::new(4);
    let consumer = fixture.consumer().await;
    fixture.clock.advance(Duration::from_secs(1)).await;
    fixture.broker.state().members.entry(GROUP.into()).or_default().clear();
    fixture.broker.state().members.entry(GROUP.into()).or_default().insert("another".into(), 0);
    fixture.clock.advance(Duration::from_secs(25)).await;
    let members: BTreeSet<_> = fixture.broker.state().members[GROUP].keys().cloned().collect();
    assert_eq!(members.len(), 2);
    assert!(consumer.stats().queues_released >= 2, "the other has them");
}

#[tokio::test]
async fn a_topic_made_later_is_read_soon_and_new_queues_too() {
    let fixture = Fixture::new(1);
    let handled = fixture.handled.clone();
    let handler = move |message: MessageView| {
        handled.note(&message);
        async {}
    };
    let builder = fixture.builder().await.subscribe("later", "*");
    let consumer = builder.start(handler).await.expect("a topic may be missing");
    fixture.clock.advance(Duration::from_secs(5)).await;
    fixture.broker.create_topic("later", 2);
    fixture.broker.append_numbered("later", 2, 0..10);
    fixture.until(Duration::from_secs(20), "it is read", || consumer.stats().consumed == 10).await;
    fixture.broker.create_topic("later", 4);
    fixture.broker.append_numbered("later", 4, 10..30);
    fixture.until(Duration::from_secs(31), "all of it is read", || consumer.stats().consumed == 30).await;
    fixture.handled.assert_each_once(30);
}

#[tokio::test]
async fn one_client_is_in_a_group_once() {
    let fixture = Fixture::new(1);
    let client = fixture.client().await;
    let builder = || client.push_consumer(GROUP).subscribe(TOPIC, "*");
    let consumer = builder().start(|_| async {}).await.expect("the broker answers");
    let error = builder().start(|_| async {}).await.expect_err("it is in the group");
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    fixture.drive(consumer.shutdown()).await.expect("nothing is under way");
    let _again = builder().start(|_| async {}).await.expect("it has left the group");
}
