//! Brokers that refuse, hang up, or say nothing useful.

use std::time::Duration;

use rocketmq_wire::{RequestCode, ResponseCode};

use super::fake_broker::Scripted;
use super::*;
use crate::error::ErrorKind;

const SOON: Duration = Duration::from_millis(100);

#[tokio::test]
async fn pulls_that_fail_are_repeated_with_growing_waits() {
    let fixture = Fixture::new(1);
    fixture.broker.append_numbered(TOPIC, 1, 0..10);
    fixture.broker.script(RequestCode::PULL_MESSAGE, vec![Scripted::refusal(ResponseCode::SYSTEM_ERROR); 20]);
    let consumer = fixture.consumer().await;
    fixture.clock.advance(Duration::from_secs(15)).await;
    // Two queues; about four while the waits double, then one in two to three seconds each.
    let pulls = fixture.broker.count(RequestCode::PULL_MESSAGE);
    assert!((12..=20).contains(&pulls), "{pulls} pulls in 15 s");
    assert_eq!(consumer.stats().failed_pulls, pulls as u64);
    fixture.broker.clear_script();
    fixture.until(Duration::from_secs(4), "all are handled", || fixture.handled.count() == 10).await;
}

#[tokio::test]
async fn connections_that_end_are_made_again() {
    let fixture = Fixture::new(2);
    fixture.broker.append_numbered(TOPIC, 2, 0..10);
    let consumer = fixture.consumer().await;
    fixture.until(SOON, "all are handled", || fixture.handled.count() == 10).await;
    for round in 1..=5 {
        fixture.broker.script(RequestCode::UPDATE_CONSUMER_OFFSET, [Scripted::HangUp]);
        fixture.broker.append_numbered(TOPIC, 2, round * 10..(round + 1) * 10);
        fixture.clock.advance(Duration::from_secs(6)).await;
        let count = (round + 1) as usize * 10;
        fixture.until(Duration::from_secs(4), "all are handled", || fixture.handled.count() == count).await;
    }
    fixture.handled.assert_each_once(60);
    fixture.drive(consumer.shutdown()).await.expect("nothing is under way");
    assert_eq!(fixture.broker.committed(GROUP, TOPIC, 0), Some(30));
}

#[tokio::test]
async fn a_broker_that_does_not_know_the_subscription_is_told_at_once() {
    for code in [ResponseCode::SUBSCRIPTION_NOT_EXIST, ResponseCode::SUBSCRIPTION_NOT_LATEST] {
        let fixture = Fixture::new(1);
        fixture.broker.append_numbered(TOPIC, 1, 0..10);
        fixture.broker.script(RequestCode::PULL_MESSAGE, vec![Scripted::refusal(code); 2]);
        let _consumer = fixture.consumer().await;
        let before = fixture.broker.count(RequestCode::HEART_BEAT);
        fixture.until(Duration::from_millis(400), "all are handled", || fixture.handled.count() == 10).await;
        assert!(fixture.broker.count(RequestCode::HEART_BEAT) > before);
    }
}

#[tokio::test]
async fn an_idle_consumer_is_idle() {
    let fixture = Fixture::new(4);
    let _consumer = fixture.consumer().await;
    fixture.clock.advance(Duration::from_secs(60)).await;
    // Held for 15 s each: five a minute on each of five queues.
    let pulls = fixture.broker.count(RequestCode::PULL_MESSAGE);
    assert!(pulls <= 5 * 5, "{pulls} pulls in an idle minute");
    let state = fixture.broker.state();
    let total = state.requests.iter().filter(|asked| asked.code() != RequestCode::PULL_MESSAGE).count();
    assert!(total <= 60, "{total} other requests in an idle minute");
}

#[tokio::test]
async fn a_broker_that_holds_no_pulls_is_not_flooded() {
    let fixture = Fixture::new(1);
    fixture.broker.state().answers_empty_pulls_at_once = true;
    let _consumer = fixture.consumer().await;
    fixture.clock.advance(Duration::from_secs(60)).await;
    let pulls = fixture.broker.count(RequestCode::PULL_MESSAGE);
    assert!((100..=300).contains(&pulls), "{pulls} pulls of two queues in a minute");
    fixture.broker.append_numbered(TOPIC, 1, 0..100);
    fixture.until(Duration::from_millis(1100), "all are handled", || fixture.handled.count() == 100).await;
}

#[tokio::test]
async fn the_brokers_flow_control_is_a_short_wait() {
    let fixture = Fixture::new(1);
    fixture.broker.append_numbered(TOPIC, 1, 0..10);
    fixture.broker.script(RequestCode::PULL_MESSAGE, vec![Scripted::refusal(ResponseCode::FLOW_CONTROL); 20]);
    let _consumer = fixture.consumer().await;
    fixture.until(Duration::from_millis(600), "all are handled", || fixture.handled.count() == 10).await;
}

#[tokio::test]
async fn what_makes_no_sense_is_refused_before_anything_is_sent() {
    let fixture = Fixture::new(1);
    let client = fixture.client().await;
    let before = fixture.broker.state().requests.len();
    let builder = |group: &str| client.push_consumer(group).subscribe(TOPIC, "*");
    for builder in [
        builder("bad group"),
        builder("").subscribe(TOPIC, "*"),
        builder(GROUP).subscribe("no topic", "*"),
        builder(GROUP).subscribe(TOPIC, "||"),
        client.push_consumer(GROUP),
        builder(GROUP).concurrency(0),
        builder(GROUP).pull_batch_size(1025),
        builder(GROUP).max_cached_messages(0),
        builder(GROUP).max_cached_bytes(0),
        builder(GROUP).max_span(0),
        builder(GROUP).commit_interval(Duration::ZERO),
        builder(GROUP).drain_timeout(Duration::MAX),
    ] {
        let error = builder.start(|_| async {}).await.expect_err("it makes no sense");
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    }
    assert_eq!(fixture.broker.state().requests.len(), before);
}

#[tokio::test]
async fn closing_the_client_ends_its_consumers() {
    let fixture = Fixture::new(2);
    let client = fixture.client().await;
    let consumer = client.push_consumer(GROUP).subscribe(TOPIC, "*").start(|_| async {}).await;
    let consumer = consumer.expect("the broker answers");
    fixture.clock.advance(Duration::from_secs(1)).await;
    fixture.drive(client.close()).await;
    let pulls = fixture.broker.count(RequestCode::PULL_MESSAGE);
    fixture.clock.advance(Duration::from_secs(60)).await;
    assert_eq!(fixture.broker.count(RequestCode::PULL_MESSAGE), pulls);
    fixture.drive(consumer.shutdown()).await.expect("it has ended");
}

#[tokio::test]
async fn a_break_of_two_minutes_is_survived() {
    let fixture = Fixture::new(2);
    fixture.broker.append_numbered(TOPIC, 2, 0..10);
    let consumer = fixture.consumer().await;
    fixture.until(SOON, "all are handled", || fixture.handled.count() == 10).await;
    fixture.broker.state().all_are_away = true;
    fixture.clock.advance(Duration::from_secs(130)).await;
    fixture.broker.append_numbered(TOPIC, 2, 10..20);
    fixture.broker.state().all_are_away = false;
    fixture.until(Duration::from_secs(20), "the rest is handled", || fixture.handled.count() == 20).await;
    fixture.until(Duration::from_secs(20), "it is ready", || consumer.is_ready()).await;
}

#[tokio::test]
async fn a_broker_that_comes_back_elsewhere_is_found() {
    let fixture = Fixture::new(2);
    fixture.broker.append_numbered(TOPIC, 2, 0..10);
    let _consumer = fixture.consumer().await;
    fixture.until(SOON, "all are handled", || fixture.handled.count() == 10).await;
    fixture.broker.state().has_moved = true;
    fixture.broker.state().master_is_away = true;
    fixture.clock.advance(Duration::from_secs(16)).await;
    fixture.broker.append_numbered(TOPIC, 2, 10..20);
    fixture.until(Duration::from_secs(20), "the rest is handled", || fixture.handled.count() == 20).await;
}

#[tokio::test]
async fn members_that_are_listed_as_nothing_are_asked_for_again() {
    for body in ["", "null", "{}", r#"{"consumerIdList":null}"#, r#"{"consumerIdList":[]}"#] {
        let fixture = Fixture::new(1);
        fixture.broker.append_numbered(TOPIC, 1, 0..5);
        let empty = Scripted::Answer(ResponseCode::SUCCESS, None, Vec::new(), body.into());
        fixture.broker.script(RequestCode::GET_CONSUMER_LIST_BY_GROUP, [empty]);
        let _consumer = fixture.consumer().await;
        fixture.until(Duration::from_secs(3), "all are handled", || fixture.handled.count() == 5).await;
    }
}

#[tokio::test]
async fn consumers_that_come_and_go_leave_nothing_behind() {
    let fixture = Fixture::new(2);
    let cycle = async || {
        let consumer = fixture.consumer().await;
        fixture.drive(consumer.shutdown()).await.expect("nothing is under way");
        drop(consumer);
        fixture.clock.advance(SOON).await;
    };
    let alive = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
    for _ in 0..3 {
        cycle().await;
    }
    let before = alive();
    for _ in 0..30 {
        cycle().await;
    }
    // The broker's own tasks: one for each request that it may still be answering.
    let served = fixture.broker.count(RequestCode::PULL_MESSAGE);
    assert!(alive() <= before + 4, "{} tasks, and {before} before; {served} pulls", alive());
    assert!(fixture.broker.state().members.values().all(|members| members.is_empty()));
}

#[tokio::test]
async fn messages_that_the_users_filter_refuses_count_as_consumed() {
    let fixture = Fixture::new(1);
    fixture.broker.append_numbered(TOPIC, 1, 0..20);
    let handled = fixture.handled.clone();
    let handler = move |message: MessageView| {
        handled.note(&message);
        async {}
    };
    let builder = fixture.builder().await.filter(|message| message.queue_offset() % 4 == 0);
    let consumer = builder.start(handler).await.expect("the broker answers");
    fixture.until(SOON, "all are handled", || fixture.handled.count() == 5).await;
    fixture.drive(consumer.shutdown()).await.expect("nothing is under way");
    assert_eq!((consumer.stats().filtered, fixture.broker.committed(GROUP, TOPIC, 0)), (15, Some(20)));
}

#[tokio::test]
async fn a_strict_start_is_asked_for() {
    for is_strict in [false, true] {
        let fixture = Fixture::new(1);
        let builder = fixture.builder().await;
        let builder = if is_strict { builder.strict_start() } else { builder };
        let _consumer = builder.start(async |_| ()).await.expect("the broker answers");
        let asked = || fixture.broker.count(RequestCode::QUERY_CONSUMER_OFFSET) > 0;
        fixture.until(SOON, "the offset is asked for", asked).await;
        let request = fixture.broker.last(RequestCode::QUERY_CONSUMER_OFFSET);
        assert_eq!(request.field("setZeroIfNotFound"), is_strict.then_some("false"));
    }
}
