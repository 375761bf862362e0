//! Each fault of the broker as our client sees it, and the clock.

use std::time::Duration;

use rocketmq_mock_broker::{Family, Fault, MockBroker, Port, RequestPattern};
use rocketmq_native::{Client, ConsumeFrom, ErrorKind, Message, Producer};
use rocketmq_wire::{RequestCode, ResponseCode};
use tokio::sync::mpsc;
use tokio::time::timeout;

const LIMIT: Duration = Duration::from_secs(60);

async fn started() -> (MockBroker, Client, Producer) {
    let broker = MockBroker::builder().topic("orders", 2).start().await.expect("the broker starts");
    let client = Client::builder(broker.name_server()).connect().await.expect("it answers");
    let producer = client.producer("p").send_timeout(Duration::from_secs(20));
    let producer = producer.attempt_timeout(Duration::from_secs(2)).start().await.expect("it starts");
    producer.send(Message::new("orders", "warm")).await.expect("stored");
    (broker, client, producer)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_send_survives_what_passes() {
    let (broker, client, producer) = started().await;
    let faults = [
        Fault::answer(ResponseCode::SYSTEM_BUSY, "busy"),
        Fault::delay(Duration::from_millis(30)),
        Fault::latency(Duration::from_millis(5), Duration::from_millis(20), 3),
        Fault::drop_request(),
        Fault::drop_answer(),
        Fault::close(),
        Fault::reset(),
        Fault::reset_after(9),
        Fault::half_open(),
        Fault::truncate(9),
        // The kind of the header: nobody can read the rest.
        Fault::corrupt(4),
        Fault::duplicate(),
        Fault::drip(7, Duration::from_millis(1)),
        Fault::disk_full(),
    ];
    for fault in faults {
        let name = format!("{:?}", fault.action);
        let guard = broker.fault(fault.on(Family::Send).times(1));
        producer.send(Message::new("orders", name.clone())).await.unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(guard.hits(), 1, "{name}");
        // Also when the first attempt was stored and only its answer lost.
        broker.expect_sent("orders", |message| message.text() == name).await.expect("it is there");
    }
    client.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_send_says_what_stays_wrong() {
    let (broker, client, _) = started().await;
    let producer = client.producer("q").send_timeout(Duration::from_millis(400)).start().await.expect("it starts");
    for (fault, kind) in [
        (Fault::answer(ResponseCode::NO_PERMISSION, "no"), ErrorKind::NotPermitted),
        (Fault::answer(ResponseCode::SYSTEM_BUSY, "busy"), ErrorKind::Busy),
        (Fault::disk_full(), ErrorKind::Busy),
        (Fault::drop_answer(), ErrorKind::Timeout),
        (Fault::drop_request(), ErrorKind::Timeout),
    ] {
        let name = format!("{:?}", fault.action);
        let _guard = broker.fault(fault.on(Family::Send));
        let error = producer.send(Message::new("orders", "x")).await.expect_err("it cannot be sent");
        assert_eq!(error.kind(), kind, "{name}: {error}");
    }
    let _guard = broker.fault(Fault::no_routes());
    let error = producer.send(Message::new("unheard-of", "x")).await.expect_err("nobody serves it");
    assert_eq!(error.kind(), ErrorKind::NoRoute, "{error}");
    client.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_broker_that_was_off_is_found_again() {
    let (broker, client, producer) = started().await;
    let off = broker.fault(Fault::off(Port::Broker));
    let error = producer.send(Message::new("orders", "x")).await.expect_err("the broker is off");
    assert!(matches!(error.kind(), ErrorKind::Connection | ErrorKind::Timeout), "{error}");
    off.remove();
    let sent = async { while producer.send(Message::new("orders", "again")).await.is_err() {} };
    timeout(LIMIT, sent).await.expect("it is found again");
    client.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_consumer_gets_everything_in_spite_of_faults() {
    let (broker, client, producer) = started().await;
    for fault in [
        Fault::close().on(Family::Pull).times(1),
        Fault::reset_after(20).on(Family::Pull).times(1),
        Fault::truncate(40).on(Family::Pull).times(1),
        Fault::answer(ResponseCode::SYSTEM_ERROR, "no").on(Family::Pull).times(3),
        Fault::answer(ResponseCode::SYSTEM_ERROR, "no").on(RequestCode::QUERY_CONSUMER_OFFSET).times(1),
        Fault::drop_answer().on(Family::Heartbeat).times(1),
        Fault::delay(Duration::from_millis(20)).on(Family::Pull),
    ] {
        broker.fault(fault).keep();
    }
    let (arrived, mut arrivals) = mpsc::unbounded_channel();
    let handler = move |message: rocketmq_native::MessageView| {
        let arrived = arrived.clone();
        async move { arrived.send(String::from_utf8_lossy(&message.body()).into_owned()) }
    };
    let consumer = client.push_consumer("g").subscribe("orders", "*").consume_from(ConsumeFrom::First);
    let consumer = consumer.start(handler).await.expect("it starts");
    for number in 0..20 {
        producer.send(Message::new("orders", number.to_string())).await.expect("stored");
    }
    let mut missing: std::collections::BTreeSet<String> = (0..20).map(|number| number.to_string()).collect();
    while !missing.is_empty() {
        let body = timeout(LIMIT, arrivals.recv()).await.unwrap_or_else(|_| panic!("{missing:?} did not come"));
        missing.remove(&body.expect("the consumer runs"));
    }
    consumer.shutdown().await.expect("it ends");
    broker.wait_for_consumed("g", "orders", 20).await.expect("committed");
    client.close().await;
}

/// A week passes in a moment: nobody is dropped, and what was due comes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_stays_connected_through_a_week() {
    let (broker, client, producer) = started().await;
    let (arrived, mut arrivals) = mpsc::unbounded_channel();
    let handler = move |message: rocketmq_native::MessageView| {
        let arrived = arrived.clone();
        async move { arrived.send(String::from_utf8_lossy(&message.body()).into_owned()) }
    };
    let consumer = client.push_consumer("g").subscribe("later", "*").consume_from(ConsumeFrom::First);
    let consumer = consumer.start(handler).await.expect("it starts");
    producer.send(Message::new("later", "in two hours").delay_level(18)).await.expect("stored");
    broker.wait_for(RequestPattern::of(Family::Heartbeat).group("g"), 1).await.expect("it is online");
    let connections = |broker: &MockBroker| {
        let mut ids: Vec<u64> = broker.journal().iter().map(|entry| entry.connection).collect();
        ids.sort_unstable();
        ids.dedup();
        ids
    };
    broker.advance(Duration::from_secs(7 * 86_400)).await;
    let before = connections(&broker);
    assert_eq!(timeout(LIMIT, arrivals.recv()).await.expect("it comes").as_deref(), Some("in two hours"));
    producer.send(Message::new("later", "after")).await.expect("stored");
    assert_eq!(timeout(LIMIT, arrivals.recv()).await.expect("it comes").as_deref(), Some("after"));
    assert_eq!(broker.group("g").members.len(), 1);
    assert_eq!(connections(&broker), before, "nobody had to connect again");
    consumer.shutdown().await.expect("it ends");
    client.close().await;
}
