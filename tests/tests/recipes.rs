//! Recipes for applications, run against the embedded broker: how to end on SIGTERM without doing work twice, how to handle
//! each key once, how to carry JSON.

use std::{
    collections::BTreeMap,
    process::Command,
    sync::{Arc, Mutex},
    time::Duration,
};

use rocketmq_mock_broker::MockBroker;
use rocketmq_native::{Client, ConsumeFrom, Message, MessageView};
use serde_json::{Value, json};
use tokio::{
    signal::unix::{SignalKind, signal},
    sync::mpsc,
    time::{sleep, timeout},
};

const LIMIT: Duration = Duration::from_secs(30);

async fn send(client: &Client, messages: impl IntoIterator<Item = Message>) {
    let producer = client.producer("recipes").start().await.expect("the producer starts");
    for message in messages {
        producer.send(message).await.expect("stored");
    }
    producer.shutdown().await;
}

/// A deployment ends a process by SIGTERM: what has begun is finished, and the next process gets none of it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn drain_on_sigterm() {
    let broker = MockBroker::start().await.expect("the broker starts");
    let client = Client::builder(broker.name_server()).connect().await.expect("it answers");
    send(&client, (0..40).map(|number| Message::new("jobs", "x").key(number.to_string()))).await;
    let done = Arc::new(Mutex::new(BTreeMap::<String, usize>::new()));
    let (begun, mut begins) = mpsc::unbounded_channel();
    let worker = |client: Client| {
        let (done, begun) = (Arc::clone(&done), begun.clone());
        let handler = move |message: MessageView| {
            let (done, begun) = (Arc::clone(&done), begun.clone());
            async move {
                // Whoever counts may have seen enough.
                let _ = begun.send(());
                sleep(Duration::from_millis(50)).await;
                let key = message.keys().next().expect("a key").to_owned();
                *done.lock().expect("no panic in here").entry(key).or_default() += 1;
            }
        };
        let builder = client.push_consumer("workers").subscribe("jobs", "*").consume_from(ConsumeFrom::First);
        async move { builder.concurrency(4).start(handler).await.expect("it starts") }
    };

    // The application: it works until it is told to end.
    let mut terminated = signal(SignalKind::terminate()).expect("a handler of the signal");
    let consumer = worker(client.clone()).await;
    for _ in 0..6 {
        timeout(LIMIT, begins.recv()).await.expect("it works").expect("it works");
    }
    let terminate = format!("kill -TERM {}", std::process::id());
    assert!(Command::new("sh").args(["-c", &terminate]).status().expect("a shell").success());
    terminated.recv().await;
    consumer.shutdown().await.expect("handlers end in time");
    let first = done.lock().expect("no panic in here").len();
    assert!((6..40).contains(&first), "{first}");

    // The next one.
    let other = Client::builder(broker.name_server()).connect().await.expect("it answers");
    let consumer = worker(other).await;
    let all = async {
        while done.lock().expect("no panic in here").len() < 40 {
            sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(LIMIT, all).await.expect("the rest is done");
    consumer.shutdown().await.expect("handlers end in time");
    assert!(done.lock().expect("no panic in here").values().all(|times| *times == 1), "something was done twice");
}

/// Messages come at least once. A store that knows which keys are done, asked and told in one step with the work itself,
/// makes it once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn handle_each_key_once() {
    let broker = MockBroker::start().await.expect("the broker starts");
    let client = Client::builder(broker.name_server()).connect().await.expect("it answers");
    // Each was sent twice, as by a producer that had no answer to the first.
    let keys = || (0..20).chain(0..20).map(|number| number.to_string());
    send(&client, keys().map(|key| Message::new("payments", "10").key(key))).await;

    /// In an application, a table with the key as its primary key, written in the transaction that does the work.
    #[derive(Default)]
    struct Ledger {
        booked: BTreeMap<String, u64>,
    }
    let ledger = Arc::new(Mutex::new(Ledger::default()));
    let (handled, mut handlings) = mpsc::unbounded_channel();
    let book = Arc::clone(&ledger);
    let handler = move |message: MessageView| {
        let (book, handled) = (Arc::clone(&book), handled.clone());
        async move {
            let key = message.keys().next().ok_or("a payment has a key")?.to_owned();
            let amount: u64 =
                std::str::from_utf8(&message.body()).ok().and_then(|text| text.parse().ok()).ok_or("no amount")?;
            // Already there: it was booked before, and there is nothing to do.
            book.lock().expect("no panic in here").booked.entry(key).or_insert(amount);
            let _ = handled.send(());
            Ok::<_, &str>(())
        }
    };
    let builder = client.push_consumer("bookkeeping").subscribe("payments", "*").consume_from(ConsumeFrom::First);
    let consumer = builder.start(handler).await.expect("it starts");
    for _ in keys() {
        timeout(LIMIT, handlings.recv()).await.expect("it works").expect("it works");
    }
    consumer.shutdown().await.expect("handlers end in time");
    assert_eq!(ledger.lock().expect("no panic in here").booked.values().sum::<u64>(), 200);
}

/// Bodies are bytes: JSON goes in and comes out by serde. What cannot be read goes to the dead letters at once, since it
/// could not be read the next time either.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn carry_json() {
    use rocketmq_native::ConsumeResult;

    let broker = MockBroker::start().await.expect("the broker starts");
    let client = Client::builder(broker.name_server()).connect().await.expect("it answers");
    let body = serde_json::to_vec(&json!({ "order": 42, "items": ["pen", "paper"] })).expect("plain data");
    send(&client, [Message::new("orders", "{ not JSON"), Message::new("orders", body)]).await;
    let (read, mut reads) = mpsc::unbounded_channel();
    let handler = move |message: MessageView| {
        let result = match serde_json::from_slice::<Value>(&message.body()) {
            Ok(order) => {
                let _ = read.send(order);
                ConsumeResult::Success
            }
            Err(_) => ConsumeResult::DeadLetter,
        };
        async move { result }
    };
    let builder = client.push_consumer("shipping").subscribe("orders", "*").consume_from(ConsumeFrom::First);
    let consumer = builder.start(handler).await.expect("it starts");
    let order = timeout(LIMIT, reads.recv()).await.expect("it works").expect("it works");
    assert_eq!((&order["order"], &order["items"][1]), (&json!(42), &json!("paper")));
    let dead = async {
        while broker.messages("%DLQ%shipping").is_empty() {
            sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(LIMIT, dead).await.expect("the other is given up");
    consumer.shutdown().await.expect("handlers end in time");
}
