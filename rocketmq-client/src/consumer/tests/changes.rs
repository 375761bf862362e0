//! What users change while a consumer runs, and what it tells them.

use std::sync::Mutex;

use rocketmq_wire::{RequestCode, ResponseCode};

use super::fake_broker::Scripted;
use super::*;
use crate::consumer::{FilterExpression, Paused, QueueChange};
use crate::error::ErrorKind;

const SOON: Duration = Duration::from_millis(100);

#[tokio::test]
async fn handlers_may_become_more_and_fewer() {
    let fixture = Fixture::new(1);
    fixture.broker.append_numbered(TOPIC, 1, 0..30);
    let gate = Arc::new(tokio::sync::Semaphore::new(0));
    let (handled, entrance) = (fixture.handled.clone(), Arc::clone(&gate));
    let handler = move |message: MessageView| {
        handled.note(&message);
        let gate = Arc::clone(&entrance);
        async move { gate.acquire().await.expect("open").forget() }
    };
    let consumer = fixture.builder().await.concurrency(2).start(handler).await.expect("the broker answers");
    fixture.until(SOON, "two run", || fixture.handled.count() == 2).await;
    consumer.set_concurrency(5).expect("a number");
    fixture.until(SOON, "five run", || fixture.handled.count() == 5).await;
    consumer.set_concurrency(1).expect("a number");
    // Five end, and one begins.
    gate.add_permits(5);
    fixture.until(SOON, "one more runs", || fixture.handled.count() == 6).await;
    fixture.clock.advance(SOON).await;
    assert_eq!(fixture.handled.count(), 6);
    gate.add_permits(30);
    fixture.until(SOON, "all are handled", || consumer.stats().consumed == 30).await;
    assert_eq!(consumer.set_concurrency(0).expect_err("none").kind(), ErrorKind::InvalidArgument);
}

#[tokio::test]
async fn a_paused_queue_is_told_and_resumed() {
    let fixture = Fixture::new(2);
    let consumer = fixture.consumer().await;
    fixture.until(SOON, "it reads", || consumer.is_ready()).await;
    let queue = consumer.explain().queues.iter().find(|queue| queue.queue.id() == 1).expect("owned").queue.clone();
    assert!(consumer.pause_queue(&queue));
    // The pull under way is still answered.
    fixture.clock.advance(Duration::from_secs(16)).await;
    fixture.broker.append_numbered(TOPIC, 2, 0..10);
    fixture.until(SOON, "the other queue goes on", || fixture.handled.count() == 5).await;
    let paused = consumer.explain().queues.into_iter().find(|explained| explained.queue == queue).expect("owned");
    assert_eq!(paused.paused, Some(Paused::ByUser));
    assert!(consumer.resume_queue(&queue));
    fixture.until(SOON, "all are handled", || fixture.handled.count() == 10).await;
    assert!(!consumer.pause_queue(&crate::MessageQueue::new("t", "b", 9)));
}

#[tokio::test]
async fn why_nothing_arrives_is_told_apart() {
    // No such topic.
    let fixture = Fixture::new(1);
    let builder = fixture.client().await.push_consumer(GROUP).subscribe("nowhere", "*");
    let consumer = builder.start(async |_| ()).await.expect("a missing topic is no error");
    let is_told = || consumer.explain().reasons().join("; ").contains("no name server knows the topic");
    fixture.until(SOON, "it is told", is_told).await;
    assert!(!consumer.is_ready());
    drop(consumer);

    // Pulls fail.
    let fixture = Fixture::new(1);
    fixture.broker.append_numbered(TOPIC, 1, 0..5);
    fixture.broker.script(RequestCode::PULL_MESSAGE, vec![Scripted::refusal(ResponseCode::NO_PERMISSION); 100]);
    let consumer = fixture.consumer().await;
    fixture.until(SOON, "it is told", || consumer.explain().reasons().join(" ").contains("a pull failed")).await;
    drop(consumer);

    // The offset is not known.
    let fixture = Fixture::new(1);
    fixture.broker.script(RequestCode::QUERY_CONSUMER_OFFSET, vec![Scripted::refusal(ResponseCode::SYSTEM_BUSY); 100]);
    let consumer = fixture.consumer().await;
    fixture
        .until(SOON, "it is told", || consumer.explain().to_string().contains("not known yet where it begins"))
        .await;
    let error = fixture.drive(consumer.wait_ready(Duration::from_secs(1))).await.expect_err("it is not");
    assert_eq!(error.kind(), ErrorKind::Timeout);
    drop(consumer);

    // Handlers are busy.
    let fixture = Fixture::new(1);
    fixture.broker.append_numbered(TOPIC, 1, 0..100);
    let builder = fixture.builder().await.max_cached_messages(10);
    let consumer = builder.start(async |_| std::future::pending::<()>().await).await.expect("the broker answers");
    fixture.until(SOON, "it is told", || consumer.explain().reasons().join(" ").contains("max_cached_messages")).await;
    assert_eq!(consumer.lag(), 100);
    drop(consumer);

    // Another member subscribes otherwise.
    let fixture = Fixture::new(1);
    fixture.broker.state().members.entry(GROUP.to_owned()).or_default().insert("zz".to_owned(), 99);
    fixture.broker.state().subscriptions_of_others.insert(TOPIC.to_owned(), "paid".to_owned());
    let consumer = fixture.consumer().await;
    fixture.until(SOON, "it is told", || consumer.explain().reasons().join(" ").contains("another to `paid`")).await;
    assert!(consumer.explain().reasons().join(" ").contains("this one to `*`"));
}

#[tokio::test]
async fn changed_queues_are_told() {
    let fixture = Fixture::new(4);
    let changes = Arc::new(Mutex::new(Vec::<QueueChange>::new()));
    let noted = Arc::clone(&changes);
    let listener = move |change: &QueueChange| {
        if change.topic == TOPIC {
            noted.lock().expect("no panic in here").push(change.clone());
        }
    };
    let consumer = fixture.builder().await.on_queue_change(listener).start(async |_| ()).await.expect("it starts");
    let count = || changes.lock().expect("no panic in here").len();
    fixture.until(SOON, "the first is told", || count() == 1).await;
    let other = fixture.consumer().await;
    fixture.until(Duration::from_secs(1), "the second is told", || count() == 2).await;
    let changes = changes.lock().expect("no panic in here").clone();
    assert_eq!((changes[0].assigned.len(), changes[0].revoked.len(), changes[0].owned.len()), (4, 0, 4));
    assert_eq!((changes[1].assigned.len(), changes[1].revoked.len(), changes[1].owned.len()), (0, 2, 2));
    drop((consumer, other));
}

#[tokio::test]
async fn a_condition_is_checked_by_a_broker_and_sent_with_every_pull() {
    let fixture = Fixture::new(1);
    let condition = || FilterExpression::sql92("a > 5");
    let builder = async || fixture.client().await.push_consumer(GROUP).subscribe(TOPIC, condition());
    fixture.broker.script(RequestCode::CHECK_CLIENT_CONFIG, [Scripted::refusal(ResponseCode::SYSTEM_ERROR)]);
    let error = builder().await.start(async |_| ()).await.expect_err("the broker refuses");
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.to_string().contains("enablePropertyFilter"), "{error}");
    let consumer = builder().await.start(async |_| ()).await.expect("the broker takes it");
    fixture
        .until(SOON, "it reads", || consumer.is_ready() && fixture.broker.count(RequestCode::PULL_MESSAGE) > 1)
        .await;
    let state = fixture.broker.state();
    let pulls = state.requests.iter().filter(|asked| asked.code() == RequestCode::PULL_MESSAGE);
    let of_topic: Vec<_> = pulls.filter(|asked| asked.request.field("topic") == Some(TOPIC)).collect();
    assert!(of_topic.iter().all(|asked| asked.request.field("expressionType") == Some("SQL92")), "{}", of_topic.len());
    assert!(!of_topic.is_empty());
}

#[tokio::test]
async fn offsets_that_a_broker_has_not_read_yet_are_remembered() {
    let fixture = Fixture::new(1);
    fixture.broker.append_numbered(TOPIC, 1, 0..10);
    let builder = fixture.builder().await.commit_interval(Duration::from_millis(50));
    let handled = fixture.handled.clone();
    let handler = move |message: MessageView| {
        handled.note(&message);
        async {}
    };
    let consumer = builder.start(handler).await.expect("the broker answers");
    fixture.until(SOON * 2, "all are stored", || fixture.broker.committed(GROUP, TOPIC, 0) == Some(10)).await;
    // The broker starts again without its table, and the queue is taken again.
    fixture.broker.state().offsets.clear();
    fixture.drive(consumer.unsubscribe(TOPIC)).await.expect_err("it is the last one");
    fixture.broker.create_topic("other", 1);
    fixture.drive(consumer.subscribe("other", "*")).await.expect("told");
    fixture.drive(consumer.unsubscribe(TOPIC)).await.expect("told");
    fixture
        .until(Duration::from_secs(1), "it is let go", || {
            consumer.explain().queues.iter().all(|queue| queue.queue.topic() != TOPIC)
        })
        .await;
    fixture.broker.state().offsets.clear();
    fixture.drive(consumer.subscribe(TOPIC, "*")).await.expect("told");
    fixture.broker.append_numbered(TOPIC, 1, 10..12);
    fixture.until(Duration::from_secs(2), "it goes on", || fixture.handled.count() == 12).await;
    fixture.handled.assert_each_once(12);
}
