//! Ordered consumption where it meets the broker.

use std::sync::Mutex;

use rocketmq_wire::{RequestCode, ResponseCode};

use super::fake_broker::Scripted;
use super::*;
use crate::consumer::ConsumeResult;

const SOON: Duration = Duration::from_millis(100);

#[tokio::test]
async fn the_offset_never_passes_a_message_that_failed() {
    let fixture = Fixture::new(1);
    fixture.broker.append_numbered(TOPIC, 1, 1..11);
    let order = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&order);
    let handler = move |message: MessageView| {
        let key = message.keys().next().expect("a key").to_owned();
        noted.lock().expect("no panic in here").push(key.clone());
        let fails = key == "3" && message.reconsume_times() < 2;
        async move { if fails { Err("not yet") } else { Ok(()) } }
    };
    let builder = fixture.builder().await.ordered().commit_interval(Duration::from_millis(100));
    let consumer = builder.start(handler).await.expect("the broker answers");
    let seen = || order.lock().expect("no panic in here").len();
    fixture.until(SOON, "the third failed", || seen() == 3).await;
    fixture.clock.advance(Duration::from_millis(500)).await;
    assert_eq!((seen(), fixture.broker.committed(GROUP, TOPIC, 0)), (3, Some(2)), "the queue waits");
    fixture.until(Duration::from_secs(3), "all are handled", || seen() == 12).await;
    let order = order.lock().expect("no panic in here").join(" ");
    assert_eq!(order, "1 2 3 3 3 4 5 6 7 8 9 10");
    fixture.drive(consumer.shutdown()).await.expect("nothing is under way");
    assert_eq!(fixture.broker.committed(GROUP, TOPIC, 0), Some(10));
}

#[tokio::test]
async fn a_dead_letter_that_no_broker_takes_stays_in_its_place() {
    let fixture = Fixture::new(1);
    fixture.broker.append_numbered(TOPIC, 1, 0..2);
    let handled = fixture.handled.clone();
    let handler = move |message: MessageView| {
        handled.note(&message);
        let fails = message.keys().next() == Some("0");
        async move { if fails { ConsumeResult::DeadLetter } else { ConsumeResult::Success } }
    };
    fixture.broker.script(RequestCode::SEND_MESSAGE_V2, vec![Scripted::refusal(ResponseCode::SYSTEM_ERROR); 2]);
    let consumer = fixture.builder().await.ordered().start(handler).await.expect("the broker answers");
    fixture.until(Duration::from_secs(5), "it was taken at last", || consumer.stats().sent_back == 1).await;
    fixture.until(SOON, "the second is handled", || fixture.handled.count() == 2).await;
    assert!(fixture.handled.deliveries("0").len() > 1);
    let request = fixture.broker.last(RequestCode::SEND_MESSAGE_V2);
    // Field j is how often it has failed, l is how often it may.
    let number = |name| request.field(name).and_then(|number| number.parse::<i32>().ok()).expect("a number");
    assert_eq!(request.field("b"), Some("%RETRY%billing"));
    assert!(number("j") > number("l"), "brokers put it among the dead letters: {request:?}");
}

#[tokio::test]
async fn queues_are_given_back_unlocked_and_only_when_handlers_have_ended() {
    let fixture = Fixture::new(2);
    fixture.broker.append_numbered(TOPIC, 2, 0..2);
    let gate = Arc::new(tokio::sync::Semaphore::new(0));
    let (handled, entrance) = (fixture.handled.clone(), Arc::clone(&gate));
    let handler = move |message: MessageView| {
        handled.note(&message);
        let gate = Arc::clone(&entrance);
        async move { drop(gate.acquire().await) }
    };
    let consumer = fixture.builder().await.ordered().start(handler).await.expect("the broker answers");
    fixture.until(SOON, "both are in work", || fixture.handled.count() == 2).await;
    let locks = |fixture: &Fixture| fixture.broker.state().locks.keys().filter(|key| key.1 == TOPIC).count();
    assert_eq!(locks(&fixture), 2);
    let shutdown = consumer.shutdown();
    tokio::pin!(shutdown);
    let early = fixture.drive(async {
        tokio::select! {
            _ = &mut shutdown => true,
            () = fixture.env.sleep(Duration::from_secs(1)) => false,
        }
    });
    assert!(!early.await, "handlers still run");
    assert_eq!(locks(&fixture), 2, "nobody else may begin");
    gate.add_permits(2);
    fixture.drive(shutdown).await.expect("handlers ended");
    assert_eq!(locks(&fixture), 0);
}
