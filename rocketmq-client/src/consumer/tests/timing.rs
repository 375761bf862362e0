//! The waits that Apache's clients keep, to the millisecond, on time that the tests turn.

use rocketmq_wire::{RequestCode, ResponseCode};
use tokio::sync::Semaphore;

use super::fake_broker::{RETRY_DELAY, Scripted};
use super::*;
use crate::consumer::ConsumeResult;

const SOON: Duration = Duration::from_millis(100);
const MINUTE: Duration = Duration::from_secs(60);

/// A handler that comes back only when it is let, for the message of this key.
fn stuck_handler(
    fixture: &Fixture,
    key: &'static str,
) -> (Arc<Semaphore>, impl Fn(MessageView) -> futures_util::future::BoxFuture<'static, ()> + Send + Sync + 'static) {
    let gate = Arc::new(Semaphore::new(0));
    let (handled, entrance) = (fixture.handled.clone(), Arc::clone(&gate));
    let handler = move |message: MessageView| -> futures_util::future::BoxFuture<'static, ()> {
        handled.note(&message);
        let gate = Arc::clone(&entrance);
        let is_stuck = message.keys().next() == Some(key) && message.reconsume_times() == 0;
        Box::pin(async move {
            if is_stuck {
                let _ = gate.acquire().await;
            }
        })
    };
    (gate, handler)
}

#[tokio::test]
async fn a_handler_that_never_returns_is_given_up_after_fifteen_minutes() {
    let fixture = Fixture::new(1);
    fixture.broker.append_numbered(TOPIC, 1, 0..3);
    let (_gate, handler) = stuck_handler(&fixture, "0");
    let consumer = fixture.builder().await.start(handler).await.expect("the broker answers");
    fixture.until(SOON, "all were begun", || fixture.handled.count() == 3).await;
    fixture.clock.advance(15 * MINUTE - Duration::from_secs(1)).await;
    assert_eq!(fixture.broker.count(RequestCode::CONSUMER_SEND_MSG_BACK), 0, "not before its time");
    assert_eq!(fixture.broker.committed(GROUP, TOPIC, 0), Some(0), "it holds the offset");
    fixture.until(4 * MINUTE, "it is handed back", || consumer.stats().given_up == 1).await;
    let request = fixture.broker.last(RequestCode::CONSUMER_SEND_MSG_BACK);
    assert_eq!(request.field("delayLevel"), Some("3"));
    fixture
        .until(Duration::from_secs(6), "the offset moves", || fixture.broker.committed(GROUP, TOPIC, 0) == Some(3))
        .await;
    fixture.until(RETRY_DELAY + SOON, "it comes again", || fixture.handled.deliveries("0") == [0, 1]).await;
}

#[tokio::test]
async fn a_message_that_cannot_be_handed_back_is_not_given_up() {
    let fixture = Fixture::new(1);
    fixture.broker.append_numbered(TOPIC, 1, 0..2);
    let (gate, handler) = stuck_handler(&fixture, "0");
    let builder = fixture.builder().await.consume_timeout(Duration::from_secs(2));
    let consumer = builder.start(handler).await.expect("the broker answers");
    fixture.until(SOON, "all were begun", || fixture.handled.count() == 2).await;
    let refusals = || vec![Scripted::refusal(ResponseCode::SYSTEM_ERROR); 100];
    fixture.broker.script(RequestCode::CONSUMER_SEND_MSG_BACK, refusals());
    fixture.broker.script(RequestCode::SEND_MESSAGE_V2, refusals());
    fixture.clock.advance(Duration::from_secs(5)).await;
    assert_eq!((consumer.stats().given_up, fixture.broker.committed(GROUP, TOPIC, 0)), (0, Some(0)));
    assert!(consumer.stats().failed_send_backs > 0);
    gate.add_permits(1);
    fixture
        .until(Duration::from_secs(6), "it is consumed", || fixture.broker.committed(GROUP, TOPIC, 0) == Some(2))
        .await;
    assert_eq!(fixture.handled.deliveries("0"), [0]);
}

#[tokio::test]
async fn the_sweep_comes_soon_after_the_timeout_and_can_be_put_off() {
    for (extended, earliest_ms, latest_ms) in [(false, 2000, 2500), (true, 10_000, 10_500)] {
        let fixture = Fixture::new(1);
        fixture.broker.append_numbered(TOPIC, 1, 0..1);
        let handler = move |message: MessageView| async move {
            if extended {
                message.extend(Duration::from_secs(8));
            }
            std::future::pending::<()>().await;
        };
        let builder = fixture.builder().await.consume_timeout(Duration::from_secs(2));
        let consumer = builder.start(handler).await.expect("the broker answers");
        let begun = fixture.env.now();
        fixture.until(Duration::from_secs(20), "it is given up", || consumer.stats().given_up == 1).await;
        let after = (fixture.env.now() - begun).as_millis();
        assert!((earliest_ms..=latest_ms + 100).contains(&after), "after {after} ms");
    }
}

#[tokio::test]
async fn a_round_gives_up_sixteen_messages_of_a_queue() {
    let fixture = Fixture::new(1);
    fixture.broker.append_numbered(TOPIC, 1, 0..20);
    let handler = async |_| std::future::pending::<()>().await;
    let builder = fixture.builder().await.consume_timeout(4 * MINUTE).concurrency(40);
    let consumer = builder.start(handler).await.expect("the broker answers");
    fixture.until(5 * MINUTE, "some are given up", || consumer.stats().given_up > 0).await;
    fixture.clock.advance(SOON).await;
    assert_eq!(consumer.stats().given_up, 16);
    fixture.until(MINUTE + SOON, "the others are", || consumer.stats().given_up == 20).await;
}

#[tokio::test]
async fn locks_are_renewed_every_20_s_and_expire_after_30() {
    let fixture = Fixture::new(1);
    let handled = fixture.handled.clone();
    let handler = move |message: MessageView| {
        handled.note(&message);
        async {}
    };
    let consumer = fixture.builder().await.ordered().start(handler).await.expect("the broker answers");
    fixture.broker.append_numbered(TOPIC, 1, 0..1);
    fixture.until(SOON, "the first is handled", || fixture.handled.count() == 1).await;
    let locks = || fixture.broker.count(RequestCode::LOCK_BATCH_MQ);
    let before = locks();
    fixture.clock.advance(Duration::from_millis(19_800)).await;
    assert_eq!(locks(), before);
    fixture.clock.advance(Duration::from_millis(400)).await;
    // The topic's queue and that of the retry topic.
    assert_eq!(locks(), before + 2);

    // From now on the broker does not answer: the lock lasts 30 s from the last renewal.
    fixture.broker.script(RequestCode::LOCK_BATCH_MQ, vec![Scripted::Silence; 100]);
    fixture.clock.advance(Duration::from_millis(29_000)).await;
    fixture.broker.append_numbered(TOPIC, 1, 1..2);
    fixture.until(SOON, "it is handled", || fixture.handled.count() == 2).await;
    fixture.clock.advance(Duration::from_millis(1500)).await;
    fixture.broker.append_numbered(TOPIC, 1, 2..3);
    fixture.clock.advance(Duration::from_secs(10)).await;
    assert_eq!(fixture.handled.count(), 2, "nothing is handled without the lock");
    let reasons = consumer.explain().reasons();
    assert!(reasons.iter().any(|reason| reason.contains("lock")), "{reasons:?}");

    fixture.broker.clear_script();
    fixture.until(Duration::from_secs(8), "it is handled with the lock", || fixture.handled.count() == 3).await;
    fixture.handled.assert_each_once(3);
    fixture.drive(consumer.shutdown()).await.expect("nothing is under way");
    assert!(fixture.broker.state().locks.is_empty(), "locks are given back");
}

#[tokio::test]
async fn a_lock_that_another_member_got_is_waited_for_and_its_offset_followed() {
    let fixture = Fixture::new(1);
    fixture.broker.keep_retry_topics_away();
    let handled = fixture.handled.clone();
    let handler = move |message: MessageView| {
        handled.note(&message);
        async {}
    };
    let consumer = fixture.builder().await.ordered().start(handler).await.expect("the broker answers");
    fixture.broker.append_numbered(TOPIC, 1, 0..2);
    fixture.until(SOON, "both are handled", || fixture.handled.count() == 2).await;
    let key = (GROUP.to_owned(), TOPIC.to_owned(), 0);
    fixture.broker.state().locks.insert(key.clone(), "another".to_owned());
    fixture.clock.advance(Duration::from_secs(21)).await;
    // It handles two more and commits them.
    fixture.broker.append_numbered(TOPIC, 1, 2..5);
    fixture.broker.state().offsets.insert(key.clone(), 4);
    fixture.clock.advance(Duration::from_secs(6)).await;
    assert_eq!((fixture.handled.count(), fixture.broker.committed(GROUP, TOPIC, 0)), (2, Some(4)));
    fixture.broker.state().locks.remove(&key);
    fixture.until(Duration::from_secs(2), "the rest is handled", || fixture.handled.deliveries("4") == [0]).await;
    assert_eq!(fixture.handled.count(), 3, "what the other did is not done again");
    drop(consumer);
}

#[tokio::test]
async fn a_failed_message_waits_for_the_suspend_time_within_its_bounds() {
    for (asked_ms, waits_ms) in [(1, 10), (1000, 1000), (3_600_000, 30_000)] {
        let fixture = Fixture::new(1);
        fixture.broker.append_numbered(TOPIC, 1, 0..2);
        let handled = fixture.handled.clone();
        let handler = move |message: MessageView| {
            handled.note(&message);
            let fails = message.keys().next() == Some("0") && message.reconsume_times() == 0;
            let wait = Duration::from_millis(asked_ms);
            async move { if fails { ConsumeResult::RetryAfter(wait) } else { ConsumeResult::Success } }
        };
        let _consumer = fixture.builder().await.ordered().start(handler).await.expect("the broker answers");
        fixture.until(SOON, "the first failed", || fixture.handled.count() > 0).await;
        if waits_ms > 100 {
            fixture.clock.advance(Duration::from_millis(waits_ms - 100)).await;
            assert_eq!(fixture.handled.count(), 1, "the second waits for the first");
        }
        fixture.until(Duration::from_millis(200), "both are handled", || fixture.handled.count() == 2).await;
        assert_eq!(fixture.handled.deliveries("0"), [0, 1]);
    }
}
