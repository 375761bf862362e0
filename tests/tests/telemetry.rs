//! What a client tells of its work: spans, trace contexts in messages, metrics, connections, settings.

use std::{
    collections::BTreeMap,
    io,
    sync::{Arc, Mutex},
    time::Duration,
};

use rocketmq_mock_broker::MockBroker;
use rocketmq_native::{
    Client, ConnectionEvent, ConsumeFrom, Message, MessageQueue, SendOptions, Telemetry,
    telemetry::{MetricsSink, Propagation, TRACE_PARENT, TraceParent},
};
use tokio::sync::mpsc;
use tracing_subscriber::{
    Layer,
    filter::filter_fn,
    fmt::{self, MakeWriter, format::FmtSpan},
    layer::SubscriberExt,
};

/// Keeps what is logged.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    fn lines(&self, part: &str) -> Vec<String> {
        let text = String::from_utf8(self.0.lock().expect("whole").clone()).expect("text");
        text.lines().filter(|line| line.contains(part)).map(str::to_owned).collect()
    }
}

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("whole").extend_from_slice(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl MakeWriter<'_> for Log {
    type Writer = Self;
    fn make_writer(&self) -> Self {
        self.clone()
    }
}

const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

/// A tracing library with one context, which keeps what comes back.
#[derive(Clone, Default)]
struct Library(Arc<Mutex<Vec<Option<String>>>>);

impl Propagation for Library {
    fn inject(&self, put: &mut dyn FnMut(&str, &str)) {
        put(TRACE_PARENT, PARENT);
        put("tracestate", "vendor=1");
    }
    fn extract(&self, property: &dyn Fn(&str) -> Option<String>) {
        self.0.lock().expect("whole").extend([property(TRACE_PARENT), property("tracestate")]);
    }
}

#[derive(Clone, Default)]
struct Sink(Arc<Mutex<BTreeMap<String, Vec<f64>>>>);

impl Sink {
    fn note(&self, name: &str, value: f64, attributes: &[(&'static str, &str)]) {
        let error = attributes.iter().find(|(name, _)| *name == "error.type").map_or("", |(_, value)| value);
        let name = format!("{name} {error}");
        self.0.lock().expect("whole").entry(name.trim().to_owned()).or_default().push(value);
    }

    fn of(&self, name: &str) -> Vec<f64> {
        self.0.lock().expect("whole").get(name).cloned().unwrap_or_default()
    }
}

impl MetricsSink for Sink {
    fn add(&self, counter: &'static str, value: u64, attributes: &[(&'static str, &str)]) {
        self.note(counter, value as f64, attributes);
    }
    fn record(&self, histogram: &'static str, value: f64, attributes: &[(&'static str, &str)]) {
        self.note(histogram, value, attributes);
    }
    fn set(&self, gauge: &'static str, value: f64, attributes: &[(&'static str, &str)]) {
        self.note(gauge, value, attributes);
    }
}

/// Sends a message and hands it to a handler that fails once.
async fn send_and_consume(client: &Client, topic: &str, group: &str) -> Option<String> {
    let producer = client.producer("tellers").start().await.expect("the producer starts");
    producer.send(Message::new(topic, "body").tag("t").key("k")).await.expect("sent");
    let (deliver, mut delivered) = mpsc::unbounded_channel();
    let consumer = client
        .push_consumer(group)
        .subscribe(topic, "*")
        .consume_from(ConsumeFrom::First)
        .start(move |message| {
            deliver.send(message.property(TRACE_PARENT).map(str::to_owned)).expect("the test listens");
            let failed = message.reconsume_times() == 0;
            async move { if failed { Err("not yet") } else { Ok(()) } }
        })
        .await
        .expect("the consumer starts");
    let mut parents = Vec::new();
    for _ in 0..2 {
        let next = tokio::time::timeout(Duration::from_secs(60), delivered.recv()).await;
        parents.push(next.expect("within a minute").expect("the handler sends"));
    }
    consumer.shutdown().await.expect("the consumer shuts down");
    assert_eq!(parents[0], parents[1], "the context comes back with the message");
    parents.pop().flatten()
}

#[tokio::test]
async fn spans_contexts_metrics_and_connections() {
    let log = Log::default();
    let spans = fmt::layer().with_writer(log.clone()).with_ansi(false).with_span_events(FmtSpan::CLOSE);
    let ours = filter_fn(|metadata| metadata.target().starts_with("rocketmq_native::telemetry"));
    let subscriber = tracing_subscriber::registry().with(spans.with_filter(ours));
    tracing::subscriber::set_global_default(subscriber).expect("the only one of this binary");

    let broker = MockBroker::builder().set("messageDelayLevel", "1s 1s 1s 1s").expect("a property").start().await;
    let broker = broker.expect("the broker starts");
    let (library, sink) = (Library::default(), Sink::default());
    let telemetry = Telemetry::new().propagation(library.clone()).metrics(sink.clone());
    let client = Client::builder(broker.name_server()).telemetry(telemetry).connect().await.expect("connected");
    let mut events = client.connection_events();

    assert_eq!(send_and_consume(&client, "told", "listeners").await.as_deref(), Some(PARENT));
    let seen = library.0.lock().expect("whole").clone();
    assert_eq!(seen[..2], [Some(PARENT.to_owned()), Some("vendor=1".to_owned())]);
    let producer = client.producer("tellers").start().await.expect("the producer starts");
    let nowhere = SendOptions::new().queue(MessageQueue::new("told", "no-such-broker", 0));
    producer.send_with(Message::new("told", "body"), nowhere).await.expect_err("no such broker");

    // Other tests log here too.
    let of_topic = |part: &str| -> Vec<String> {
        log.lines(part).into_iter().filter(|line| line.contains("messaging.destination.name=\"told\"")).collect()
    };
    let sends = of_topic("messaging.operation.name=\"send\"");
    assert_eq!(sends.len(), 2, "{sends:?}");
    for part in [
        "otel.kind=\"producer\"",
        "messaging.system=\"rocketmq\"",
        "messaging.destination.name=\"told\"",
        "messaging.rocketmq.message.keys=\"k\"",
        "trace_id=4bf92f3577b34da6a3ce929d0e0e4736",
        "messaging.message.id=",
    ] {
        assert!(sends[0].contains(part), "{part} in {}", sends[0]);
    }
    assert!(sends[1].contains("no_route"), "{}", sends[1]);
    let processed = of_topic("messaging.operation.name=\"process\"");
    assert_eq!(processed.len(), 2, "{processed:?}");
    assert!(processed[0].contains("parent_span_id=00f067aa0ba902b7"), "{}", processed[0]);
    assert!(processed[0].contains("error.type=\"handler\"") && !processed[1].contains("error.type"), "{processed:?}");

    assert_eq!(sink.of("messaging.client.sent.messages"), [1.0]);
    assert_eq!(sink.of("messaging.client.sent.messages no_route"), [1.0]);
    assert_eq!(sink.of("messaging.client.consumed.messages"), [1.0, 1.0]);
    assert_eq!(
        (sink.of("messaging.process.duration").len(), sink.of("messaging.process.duration handler").len()),
        (1, 1)
    );
    assert_eq!(sink.of("rocketmq.client.connections").last(), Some(&2.0));

    assert!(
        matches!(events.next().await, Some(ConnectionEvent::Opened(address)) if *address == *broker.broker_address())
    );
    assert_eq!(client.connections().len(), 2);
    client.close().await;

    // Without a library each message has a trace of its own.
    let client = Client::builder(broker.name_server()).telemetry(Telemetry::new()).connect().await.expect("connected");
    let parent = send_and_consume(&client, "told-alone", "listeners").await.expect("a context");
    assert!(TraceParent::parse(&parent).is_some_and(|parent| parent.sampled), "{parent}");
    client.close().await;

    // And without telemetry there is none.
    let client = Client::builder(broker.name_server()).connect().await.expect("connected");
    assert_eq!(send_and_consume(&client, "untold", "listeners").await, None);
    client.close().await;
    assert_eq!(log.lines("told-alone").len(), 3);
    assert_eq!(log.lines("untold").len(), 0);
}

/// Waits for a poll or a delivery.
async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(150), future).await.unwrap_or_else(|_| panic!("no {what} within 150 s"))
}

/// One-way sends and batches, those that fail too; streams; polls.
#[tokio::test]
async fn every_way_of_sending_and_receiving_is_measured() {
    let broker = MockBroker::builder().topic("ways", 1).start().await.expect("the broker starts");
    let (library, sink) = (Library::default(), Sink::default());
    let telemetry = Telemetry::new().propagation(library.clone()).metrics(sink.clone());
    let client = Client::builder(broker.name_server()).telemetry(telemetry).connect().await.expect("connected");
    let producer = client.producer("tellers").start().await.expect("the producer starts");
    producer.send_one_way(Message::new("ways", "one way")).await.expect("handed over");
    producer.flush().await;
    producer.send_batch([Message::new("ways", "first"), Message::new("ways", "second")]).await.expect("stored");
    let nowhere = || SendOptions::new().queue(MessageQueue::new("ways", "no-such-broker", 0));
    producer.send_one_way_with(Message::new("ways", "body"), nowhere()).await.expect_err("no such broker");
    producer
        .send_batch_with([Message::new("ways", "body"), Message::new("ways", "body")], nowhere())
        .await
        .expect_err("no");
    producer.send(Message::new("ways", vec![0; 5 << 20])).await.expect_err("too large");
    assert_eq!(sink.of("messaging.client.sent.messages"), [1.0, 2.0]);
    assert_eq!(sink.of("messaging.client.sent.messages no_route"), [1.0, 2.0]);
    assert_eq!(sink.of("messaging.client.sent.messages message_too_large"), [1.0]);
    assert_eq!(sink.of("messaging.client.operation.duration").len(), 2);

    let stream = client.push_consumer("streams").subscribe("ways", "*").consume_from(ConsumeFrom::First).stream();
    let mut stream = stream.await.expect("a stream");
    for number in 0..3 {
        let delivery = soon("delivery", stream.next()).await.expect("a message");
        assert_eq!(delivery.property(TRACE_PARENT), Some(PARENT), "{number}");
        if number == 1 { delivery.nack(None) } else { delivery.ack() }
    }
    stream.shutdown().await.expect("all are decided");
    assert_eq!(sink.of("messaging.client.consumed.messages"), [1.0; 3]);
    let durations =
        ["messaging.process.duration", "messaging.process.duration handler"].map(|name| sink.of(name).len());
    assert_eq!(durations, [2, 1]);
    assert_eq!(library.0.lock().expect("whole").len(), 6, "each delivery belongs to the trace of its message");

    let consumer = client.pull_consumer("polls").subscribe("ways", "*").consume_from(ConsumeFrom::First).start();
    let consumer = consumer.await.expect("a consumer");
    let mut polled = 0;
    while polled < 3 {
        polled += soon("poll", consumer.poll(Duration::from_secs(5))).await.expect("messages").len();
    }
    consumer.shutdown().await.expect("committed");
    consumer.poll(Duration::ZERO).await.expect_err("it has ended");
    assert_eq!(sink.of("messaging.client.consumed.messages")[3..].iter().sum::<f64>(), 3.0);
    assert_eq!(sink.of("messaging.client.operation.duration closed").len(), 1);
    client.close().await;
}

#[tokio::test]
async fn settings_of_a_file_make_a_client() {
    let broker = MockBroker::start().await.expect("the broker starts");
    let folder = tempfile::TempDir::new().expect("a folder");
    let path = folder.path().join("client.toml");
    let text = format!(
        "name_servers = \"name-server.test:1\"\ninstance_name = \"fixed\"\nunit_name = \"north\"\nvip_channel = true\n\
         [address_map]\n\"name-server.test:1\" = \"{}\"\n",
        broker.name_server()
    );
    std::fs::write(&path, text).expect("written");
    let client = Client::from_file(&path).expect("good settings").connect().await.expect("connected");
    assert!(client.client_id().ends_with("@fixed@north"), "{}", client.client_id());
    let producer = client.producer("settings").start().await.expect("the producer starts");
    producer.send(Message::new("settled", "body")).await.expect("sent");
    let (host, port) = broker.broker_address().rsplit_once(':').expect("host and port");
    let vip = format!("{host}:{}", port.parse::<u16>().expect("a port") - 2);
    assert!(client.connections().contains_key(&vip), "{:?}", client.connections());
    client.close().await;
}
