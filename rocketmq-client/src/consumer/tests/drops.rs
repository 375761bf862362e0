//! Every future of the consumers may be dropped at any await: it leaves no member, no request, no byte and no task behind,
//! and no message is lost. A consumer cut off keeps its locks at the broker, as after a crash, until they expire there: its
//! handlers may have been at work.

use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::SystemTime;

use super::*;
use crate::consumer::{ConsumeFrom, FilterExpression, PullConsumer};
use crate::error::Result;
use crate::message::MessageQueue;

/// More polls than any future here needs.
const POLLS: usize = 2000;
const STEP: Duration = Duration::from_millis(5);

/// Polls a future so many times, lets everything else go on in between, and drops it. Its output, if it was ready by then.
async fn poll_times<F: Future>(fixture: &Fixture, polls: usize, future: F) -> Option<F::Output> {
    let mut future = Box::pin(future);
    for _ in 0..polls {
        if let Poll::Ready(output) = Pin::new(&mut future).poll(&mut Context::from_waker(Waker::noop())) {
            return Some(output);
        }
        fixture.clock.advance(STEP).await;
    }
    None
}

/// Drops a future after none, one, two polls and so on, up to the poll that ends it; `check` looks at what each left.
async fn drop_at_every_await<F: Future>(
    fixture: &Fixture,
    mut make: impl FnMut(usize) -> F,
    mut check: impl AsyncFnMut(),
) -> F::Output {
    for polls in 0..POLLS {
        let output = poll_times(fixture, polls, make(polls)).await;
        check().await;
        if let Some(output) = output {
            return output;
        }
    }
    panic!("{POLLS} polls are more than enough");
}

fn alive_tasks() -> usize {
    tokio::runtime::Handle::current().metrics().num_alive_tasks()
}

/// What is there while no consumer is, to be compared with.
struct Baseline {
    client: Client,
    tasks: usize,
}

impl Baseline {
    async fn of(fixture: &Fixture) -> Self {
        let client = fixture.client().await;
        // Whatever comes with the first consumer and stays: connections.
        let consumer = start(&client, fixture).await.expect("the broker answers");
        fixture.drive(consumer.shutdown()).await.expect("nothing is under way");
        drop(consumer);
        fixture.clock.advance(Duration::from_secs(40)).await;
        Self { client, tasks: alive_tasks() }
    }

    /// No consumer is left at the broker, once it was told in the background.
    async fn nobody_is_left(&self, fixture: &Fixture) {
        fixture.clock.advance(Duration::from_millis(50)).await;
        assert!(fixture.broker.state().members.values().all(BTreeMap::is_empty));
    }

    /// Of all rounds together nothing is under way on any connection, and nobody works any more.
    async fn is_restored(&self, fixture: &Fixture) {
        self.nobody_is_left(fixture).await;
        // Pulls that nobody waits for any more are answered within their time.
        fixture.clock.advance(Duration::from_secs(20)).await;
        self.is_idle();
        assert!(alive_tasks() <= self.tasks, "{} tasks, and {} before", alive_tasks(), self.tasks);
    }

    /// Nothing is under way on any connection.
    fn is_idle(&self) {
        for (address, stats) in self.client.cluster().pool().stats() {
            let counts = (stats.in_flight, stats.in_flight_bytes, stats.unwritten_bytes, stats.waiting, stats.occupied);
            assert_eq!(counts, (0, 0, 0, 0, 0), "{address}");
        }
    }
}

fn start<'a>(client: &'a Client, fixture: &'a Fixture) -> impl Future<Output = Result<PushConsumer>> + 'a {
    let handled = fixture.handled.clone();
    let handler = move |message: MessageView| {
        handled.note(&message);
        async {}
    };
    client.push_consumer(GROUP).subscribe(TOPIC, "*").consume_from(ConsumeFrom::First).start(handler)
}

fn start_pull(client: &Client) -> impl Future<Output = Result<PullConsumer>> + use<> {
    client.pull_consumer(GROUP).subscribe(TOPIC, "*").consume_from(ConsumeFrom::First).start()
}

#[tokio::test]
async fn starts() {
    let fixture = Fixture::new(2);
    let baseline = Baseline::of(&fixture).await;
    let check = async || baseline.nobody_is_left(&fixture).await;
    for round in 0..4 {
        let make = |_| async {
            let client = &baseline.client;
            match round {
                0 => drop(start(client, &fixture).await.expect("the broker answers")),
                1 => drop(start_pull(client).await.expect("the broker answers")),
                2 => {
                    drop(client.push_consumer(GROUP).subscribe(TOPIC, "*").ordered().stream().await.expect("a stream"))
                }
                _ => {
                    let queues = [MessageQueue::new(TOPIC, fake_broker::BROKER_NAME, 1)];
                    drop(client.pull_consumer(GROUP).assign(queues).start().await.expect("queues"));
                }
            }
        };
        drop_at_every_await(&fixture, make, check).await;
        baseline.is_restored(&fixture).await;
    }
}

#[tokio::test]
async fn ends() {
    let fixture = Fixture::new(2);
    let baseline = Baseline::of(&fixture).await;
    for is_stream in [false, true] {
        for polls in 0..POLLS {
            // For the stream of this round.
            fixture.broker.append_numbered(TOPIC, 2, 0..2);
            let ended = if is_stream {
                let builder = baseline.client.push_consumer(GROUP).subscribe(TOPIC, "*").ordered();
                let stream = builder.consume_from(ConsumeFrom::First).stream();
                let mut stream = fixture.drive(stream).await.expect("a stream");
                // Held while the end is under way.
                let delivery = fixture.drive(stream.next()).await.expect("a message");
                let shutdown = async {
                    delivery.ack();
                    stream.shutdown().await
                };
                poll_times(&fixture, polls, shutdown).await
            } else {
                let consumer = fixture.drive(start(&baseline.client, &fixture)).await.expect("the broker answers");
                poll_times(&fixture, polls, consumer.shutdown()).await
            };
            baseline.nobody_is_left(&fixture).await;
            if let Some(ended) = ended {
                ended.expect("handlers are done");
                assert!(fixture.broker.state().locks.is_empty(), "an end in good order gives locks back");
                break;
            }
        }
    }
    for polls in 0..POLLS {
        let consumer = fixture.drive(start_pull(&baseline.client)).await.expect("the broker answers");
        let ended = poll_times(&fixture, polls, consumer.shutdown()).await;
        drop(consumer);
        baseline.nobody_is_left(&fixture).await;
        if ended.is_some() {
            break;
        }
    }
    baseline.is_restored(&fixture).await;
}

#[tokio::test]
async fn changes_and_questions_of_a_push_consumer() {
    let fixture = Fixture::new(2);
    fixture.broker.create_topic("more", 1);
    let client = fixture.client().await;
    let consumer = start(&client, &fixture).await.expect("the broker answers");
    let idle = async || fixture.clock.advance(Duration::from_millis(100)).await;
    for _ in 0..2 {
        let subscribe = |_| async {
            consumer.subscribe("more", "a || b").await?;
            consumer.unsubscribe("more").await
        };
        // Dropped after the first half, the topic stays subscribed, which the next round changes.
        drop_at_every_await(&fixture, subscribe, idle).await.expect("subscribed and not any more");
    }
    drop_at_every_await(&fixture, |_| consumer.wait_ready(MINUTE), idle).await.expect("ready");
    fixture.broker.append_numbered(TOPIC, 2, 0..10);
    fixture.until(MINUTE, "all are handled", || fixture.handled.count() == 10).await;
    fixture.drive(consumer.shutdown()).await.expect("nothing is under way");
    fixture.handled.assert_each_once(10);
    assert_eq!([0, 1].map(|queue| fixture.broker.committed(GROUP, TOPIC, queue)), [Some(5), Some(5)]);
}

const MINUTE: Duration = Duration::from_secs(60);

/// Waits for the next message that are given up lose none.
#[tokio::test]
async fn waits_for_the_next_of_a_stream() {
    let fixture = Fixture::new(1);
    fixture.broker.append_numbered(TOPIC, 1, 0..200);
    let mut stream = fixture.builder().await.stream().await.expect("a stream");
    let mut seen = Vec::new();
    for polls in (0..).map(|number| number % 4) {
        if let Some(delivery) = poll_times(&fixture, polls, stream.next()).await {
            let delivery = delivery.expect("it goes on");
            seen.push(delivery.queue_offset());
            delivery.ack();
        }
        if seen.len() == 200 {
            break;
        }
    }
    assert!(seen.iter().copied().eq(0..200), "{seen:?}");
    fixture.drive(stream.shutdown()).await.expect("all are decided");
    assert_eq!(fixture.broker.committed(GROUP, TOPIC, 0), Some(200));
}

#[tokio::test]
async fn everything_of_a_pull_consumer() {
    let fixture = Fixture::new(1);
    fixture.broker.append_numbered(TOPIC, 1, 0..100);
    let baseline = Baseline::of(&fixture).await;
    fixture.broker.state().offsets.clear();
    let client = &baseline.client;
    let consumer = start_pull(client).await.expect("the broker answers");
    let idle = async || fixture.clock.advance(Duration::from_millis(20)).await;
    let mut seen = Vec::new();
    while seen.len() < 100 {
        let poll = |_| consumer.poll(MINUTE);
        let messages = drop_at_every_await(&fixture, poll, idle).await.expect("messages");
        seen.extend(messages.iter().map(MessageView::queue_offset));
    }
    assert!(seen.iter().copied().eq(0..100), "{seen:?}");
    drop_at_every_await(&fixture, |_| consumer.commit(), idle).await.expect("stored");
    assert_eq!(fixture.broker.committed(GROUP, TOPIC, 0), Some(100));
    let queue = &consumer.assignment()[0];
    drop_at_every_await(&fixture, |_| consumer.commit_offset(queue, 50), idle).await.expect("stored");
    assert_eq!(drop_at_every_await(&fixture, |_| consumer.committed(queue), idle).await.expect("told"), Some(50));
    drop_at_every_await(&fixture, |_| consumer.seek(queue, 70), idle).await.expect("sought");
    drop_at_every_await(&fixture, |_| consumer.seek_to_end(queue), idle).await.expect("sought");
    drop_at_every_await(&fixture, |_| consumer.seek_to_begin(queue), idle).await.expect("sought");
    let lag = drop_at_every_await(&fixture, |_| consumer.lag(), idle).await.expect("told");
    assert_eq!(lag, [(queue.clone(), 100)]);
    fixture.drive(consumer.shutdown()).await.expect("committed");
    drop(consumer);
    baseline.is_restored(&fixture).await;

    let assigned = client.pull_consumer(GROUP).assign([queue_of_topic()]).start().await.expect("queues");
    for count in [0, 1] {
        let assign = |_| assigned.assign((0..count).map(|_| queue_of_topic()));
        drop_at_every_await(&fixture, assign, idle).await.expect("assigned");
        assert_eq!(assigned.assignment().len(), count);
    }
    drop(assigned);
    baseline.is_restored(&fixture).await;
}

fn queue_of_topic() -> MessageQueue {
    MessageQueue::new(TOPIC, fake_broker::BROKER_NAME, 0)
}

#[tokio::test]
async fn everything_of_a_reader() {
    let fixture = Fixture::new(1);
    fixture.broker.append_numbered(TOPIC, 1, 0..10);
    let baseline = Baseline::of(&fixture).await;
    let reader = baseline.client.queue_reader("readers");
    let idle = async || {
        fixture.clock.advance(Duration::from_secs(1)).await;
        baseline.is_idle();
    };
    let queues = drop_at_every_await(&fixture, |_| reader.queues(TOPIC), idle).await.expect("told");
    let queue = &queues[0];
    assert_eq!(drop_at_every_await(&fixture, |_| reader.begin(queue), idle).await.expect("told"), 0);
    assert_eq!(drop_at_every_await(&fixture, |_| reader.end(queue), idle).await.expect("told"), 10);
    let by_time = |_| reader.offset_at(queue, SystemTime::UNIX_EPOCH);
    // This broker does not know the request, which is an answer too.
    drop_at_every_await(&fixture, by_time, idle).await.expect_err("not served");
    drop_at_every_await(&fixture, |_| reader.commit(queue, 4), idle).await.expect("stored");
    assert_eq!(drop_at_every_await(&fixture, |_| reader.committed(queue), idle).await.expect("told"), Some(4));
    let pulled = drop_at_every_await(&fixture, |_| reader.pull(queue, 4, 3), idle).await.expect("messages");
    assert_eq!((pulled.messages.len(), pulled.next_offset), (3, 7));
    let wait = Duration::from_millis(100);
    let matching = |_| reader.pull_matching(queue, 10, 3, FilterExpression::all(), wait);
    let pulled = drop_at_every_await(&fixture, matching, idle).await.expect("an answer");
    assert!(pulled.messages.is_empty());
    drop(reader);
    baseline.is_restored(&fixture).await;
}
