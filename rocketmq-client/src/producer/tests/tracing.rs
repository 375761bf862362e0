//! Message trace.

use super::*;
use rocketmq_wire::RemotingCommand;

const TOPIC: &str = "RMQ_SYS_TRACE_TOPIC";

fn region(request: &RemotingCommand, trace_on: &str) -> Reaction {
    let fields = [
        ("msgId", "0A00000200002A9F000000000000002A"),
        ("queueId", "0"),
        ("queueOffset", "7"),
        ("MSG_REGION", "here"),
        ("TRACE_ON", trace_on),
    ];
    Reaction::Answer(scripted::success(request, &fields))
}

/// The traces that were sent so far: keys, and the records as lists of fields.
async fn traces(scripted: &Scripted, topic: &str) -> Vec<(String, Vec<Vec<String>>)> {
    scripted.clock.advance(Duration::from_secs(1)).await;
    let sends = scripted.brokers[0].requests(RequestCode::SEND_MESSAGE_V2);
    let of_topic = sends.iter().filter(|send| send.field("b") == Some(topic));
    let read = of_topic.map(|send| {
        let keys = Properties::from(send.field("i").expect("properties")).value("KEYS").unwrap_or_default().to_owned();
        let body = String::from_utf8(send.body.to_vec()).expect("text");
        let records = body.split_terminator('\u{2}');
        (keys, records.map(|record| record.split('\u{1}').map(str::to_owned).collect()).collect())
    });
    read.collect()
}

#[tokio::test]
async fn sends_are_traced_together_by_topic() {
    let scripted = Scripted::start(1);
    scripted.set_topic(TOPIC, 1);
    scripted.set_topic("u", 1);
    scripted.on_send(0, |request| region(request, "true"));
    let client = scripted.client().await;
    let producer = client.producer("g").trace().start().await.expect("a good group");
    let first = producer.send(message().key("k1").key("k2")).await.expect("stored");
    let second = producer.send(message().delay_level(3)).await.expect("stored");
    producer.send(Message::new("u", "body")).await.expect("stored");
    producer.send_one_way(message()).await.expect("handed over");
    let traces = traces(&scripted, TOPIC).await;
    assert_eq!(traces.len(), 2, "{traces:?}");
    let (keys, records) = &traces[0];
    assert_eq!(*keys, format!("{} k1 k2 {}", first.message_id(), second.message_id()));
    let (now, address) = (scripted.env.wall_clock_ms() - 1000, scripted.brokers[0].address.to_string());
    let record = |id: &str, keys: &str, kind: &str| {
        let offset_id = "0A00000200002A9F000000000000002A";
        let now = now.to_string();
        let fields = ["Pub", &now, "here", "g", "t", id, "x", keys, &address, "4", "0", kind, offset_id, "true"];
        fields.map(str::to_owned).to_vec()
    };
    assert_eq!(records[0], record(first.message_id(), "k1 k2", "0"));
    assert_eq!(records[1], record(second.message_id(), "", "3"));
    assert_eq!(traces[1].1[0][4], "u");
}

#[tokio::test]
async fn brokers_may_want_no_trace_and_topics_may_be_others() {
    let scripted = Scripted::start(1);
    scripted.set_topic("traces", 1);
    scripted.on_send(0, |request| region(request, "false"));
    let client = scripted.client().await;
    let producer = client.producer("g").trace_topic("traces").start().await.expect("a good group");
    producer.send(message()).await.expect("stored");
    assert_eq!(traces(&scripted, "traces").await, []);
    scripted.on_send(0, |request| region(request, "true"));
    producer.send(message()).await.expect("stored");
    // What waits is sent at the end.
    producer.shutdown().await;
    assert_eq!(traces(&scripted, "traces").await.len(), 1);
    let started = client.producer("g").trace_topic("no/topic").start().await;
    assert_eq!(started.expect_err("no topic").kind(), ErrorKind::InvalidArgument);
}

#[tokio::test]
async fn what_cannot_be_traced_is_counted_and_holds_nothing_up() {
    let scripted = Scripted::start(1);
    scripted.set_topic(TOPIC, 1);
    scripted.on_send(0, |request| match request.field("b") {
        Some(TOPIC) => answer(request, ResponseCode::MESSAGE_ILLEGAL),
        _ => region(request, "true"),
    });
    let client = scripted.client().await;
    let producer = client.producer("g").trace().start().await.expect("a good group");
    for _ in 0..3 {
        producer.send(message()).await.expect("stored");
    }
    scripted.clock.advance(Duration::from_secs(2)).await;
    assert_eq!(producer.stats().dropped_traces, 3);
    // Nobody answers for the trace: it waits, and what comes meanwhile fills the queue.
    scripted.on_send(0, |request| match request.field("b") {
        Some(TOPIC) => Reaction::Silence,
        _ => region(request, "true"),
    });
    for _ in 0..2048 + 512 {
        producer.send(message()).await.expect("stored");
    }
    assert!(producer.stats().dropped_traces > 3, "{:?}", producer.stats());
}

#[tokio::test]
async fn ends_of_transactions_are_traced() {
    let scripted = Scripted::start(1);
    scripted.set_topic(TOPIC, 1);
    scripted.on_send(0, |request| region(request, "true"));
    let checker = |_: crate::MessageView| async { crate::TransactionResolution::Unknown };
    let builder = scripted.client().await.transaction_producer("g", checker);
    let producer = builder.with(ProducerBuilder::trace).start().await.expect("a good group");
    producer.begin(message().key("k")).await.expect("stored").commit().await.expect("confirmed");
    let traces = traces(&scripted, TOPIC).await;
    let (_, records) = &traces[0];
    assert_eq!((records[0][0].as_str(), records[0][11].as_str()), ("Pub", "1"));
    let id = records[0][5].as_str();
    let fields: Vec<_> = records[1].iter().map(String::as_str).collect();
    assert_eq!((fields[0], fields[4], fields[5]), ("EndTransaction", "t", id));
    assert_eq!(fields[6..8], ["x", "k"]);
    assert_eq!(fields[9..], ["2", id, "COMMIT_MESSAGE", "false"]);
}
