//! Spans, trace contexts and metrics, by OpenTelemetry's conventions for messaging.
//!
//! Nothing of it is there, nor costs anything, unless [`ClientBuilder::telemetry`](crate::ClientBuilder::telemetry) is
//! called. Spans are those of `tracing`; the application exports them.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tracing::{Instrument, Span, field};

use crate::cluster::Cluster;
use crate::consumer::MessageView;
use crate::env::Env;
use crate::error::{Error, Result};
use crate::message::Message;
use crate::producer::SendReceipt;

/// The property in which a message carries the context of its sender, as W3C's Trace Context writes it.
pub const TRACE_PARENT: &str = "traceparent";

/// What a client tells of its work. To be given to [`ClientBuilder::telemetry`](crate::ClientBuilder::telemetry).
///
/// With it each send (a batch and a one-way send too) is a `tracing` span `send`, each run of a handler a span `process`,
/// each delivery of a stream a span `process` that ends when it is decided, and each poll or pull a span `poll`, with the
/// fields of OpenTelemetry's conventions (`messaging.destination.name`, `messaging.message.id`, `error.type` and so on).
/// Messages carry the trace that they belong to in their property `traceparent`: what [`Propagation`] says, or a trace of
/// their own.
#[derive(Clone, Default)]
pub struct Telemetry {
    propagation: Option<Arc<dyn Propagation>>,
    #[cfg(feature = "metrics")]
    metrics: Option<Arc<dyn MetricsSink>>,
}

impl Telemetry {
    /// Spans and trace contexts.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes trace contexts from, and hands them to, the application's tracing library.
    #[must_use]
    pub fn propagation(mut self, propagation: impl Propagation + 'static) -> Self {
        self.propagation = Some(Arc::new(propagation));
        self
    }

    /// Counts and measures as well.
    #[cfg(feature = "metrics")]
    #[must_use]
    pub fn metrics(mut self, sink: impl MetricsSink + 'static) -> Self {
        self.metrics = Some(Arc::new(sink));
        self
    }
}

impl fmt::Debug for Telemetry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Telemetry").field("propagation", &self.propagation.is_some()).finish_non_exhaustive()
    }
}

/// Connects messages with the traces of the application's tracing library.
pub trait Propagation: Send + Sync {
    /// Names the properties that describe the context of the span that is current, which is that of a send.
    fn inject(&self, put: &mut dyn FnMut(&str, &str));

    /// Makes the span that is current, which is that of a message being handled, belong to the context that the message's
    /// properties describe.
    fn extract(&self, property: &dyn Fn(&str) -> Option<String>);
}

/// Takes counts and measurements. Called where the work is done: it must not block.
///
/// | instrument | name | unit | attributes |
/// |---|---|---|---|
/// | counter | `messaging.client.sent.messages` | messages | destination, and `error.type` for those that failed |
/// | histogram | `messaging.client.operation.duration` | seconds | operation (`send`, `poll`), destination, and `error.type` |
/// | counter | `messaging.client.consumed.messages` | messages | destination, consumer group, operation (`process`, `poll`) |
/// | histogram | `messaging.process.duration` | seconds | destination, consumer group, and `error.type` |
/// | gauge | `rocketmq.client.connections` | open connections | |
#[cfg(feature = "metrics")]
pub trait MetricsSink: Send + Sync {
    /// Adds to a counter.
    fn add(&self, counter: &'static str, value: u64, attributes: &[(&'static str, &str)]);
    /// Records a value in a histogram.
    fn record(&self, histogram: &'static str, value: f64, attributes: &[(&'static str, &str)]);
    /// Sets a gauge.
    fn set(&self, gauge: &'static str, value: f64, attributes: &[(&'static str, &str)]);
}

/// A trace and a span in it, as the property [`TRACE_PARENT`] writes them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TraceParent {
    /// The trace; not zero.
    pub trace_id: u128,
    /// The span; not zero.
    pub span_id: u64,
    /// Whether the trace is recorded.
    pub sampled: bool,
}

impl TraceParent {
    /// Reads the form of version 00, or the beginning of that of a later version, which is compatible.
    pub fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split('-');
        let mut part = |length: usize| {
            let part = parts.next().filter(|part| part.len() == length)?;
            let is_hex = part.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
            is_hex.then_some(part)
        };
        let (version, trace_id, span_id, flags) = (part(2)?, part(32)?, part(16)?, part(2)?);
        let has_more = parts.next().is_some();
        if version == "ff" || (version == "00" && has_more) {
            return None;
        }
        let trace_id = u128::from_str_radix(trace_id, 16).ok().filter(|id| *id != 0)?;
        let span_id = u64::from_str_radix(span_id, 16).ok().filter(|id| *id != 0)?;
        let flags = u8::from_str_radix(flags, 16).ok()?;
        Some(Self { trace_id, span_id, sampled: flags & 1 == 1 })
    }

    fn random(env: &Env) -> Self {
        let trace_id = (u128::from(env.random()) << 64) | u128::from(env.random()).max(1);
        Self { trace_id, span_id: env.random().max(1), sampled: true }
    }
}

impl fmt::Display for TraceParent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "00-{:032x}-{:016x}-{:02x}", self.trace_id, self.span_id, u8::from(self.sampled))
    }
}

/// What a send of any kind ends with.
pub(crate) trait Receipts {
    /// The receipt of the first message, if there is one.
    fn first(&self) -> Option<&SendReceipt>;
}

impl Receipts for SendReceipt {
    fn first(&self) -> Option<&SendReceipt> {
        Some(self)
    }
}

impl Receipts for Vec<SendReceipt> {
    fn first(&self) -> Option<&SendReceipt> {
        self.as_slice().first()
    }
}

/// One-way sends have none.
impl Receipts for () {
    fn first(&self) -> Option<&SendReceipt> {
        None
    }
}

/// Messages at work, from when they are handed out to when they are decided.
pub(crate) struct Processing {
    span: Span,
    began: Instant,
    topic: String,
    count: usize,
}

impl Telemetry {
    /// Sends messages of one topic inside a span, each with its trace in a property; whatever comes of it is told.
    pub(crate) async fn send<M, T, F>(
        &self,
        cluster: &Cluster,
        group: &str,
        mut messages: M,
        send: impl FnOnce(M) -> F,
    ) -> Result<T>
    where
        M: AsMut<[Message]>,
        T: Receipts,
        F: Future<Output = Result<T>>,
    {
        let Some(first) = messages.as_mut().first() else { return send(messages).await };
        let topic = Arc::clone(first.shared_topic());
        let (tag, keys) = (first.value("TAGS").map(str::to_owned), first.value("KEYS").map(str::to_owned));
        let count = messages.as_mut().len();
        let span = tracing::info_span!(
            "send",
            otel.name = format_args!("send {topic}"),
            otel.kind = "producer",
            messaging.system = "rocketmq",
            messaging.operation.name = "send",
            messaging.operation.r#type = "send",
            messaging.destination.name = &*topic,
            messaging.client.id = &**cluster.client_id(),
            messaging.rocketmq.producer_group = group,
            messaging.rocketmq.message.tag = tag,
            messaging.rocketmq.message.keys = keys,
            messaging.message.body.size = messages.as_mut().iter().map(|message| message.body().len()).sum::<usize>(),
            messaging.batch.message_count = (count > 1).then_some(count),
            messaging.message.id = field::Empty,
            messaging.destination.partition.id = field::Empty,
            trace_id = field::Empty,
            error.r#type = field::Empty,
        );
        span.in_scope(|| messages.as_mut().iter_mut().for_each(|message| self.inject(cluster.env(), message)));
        let parent = messages.as_mut().first().and_then(|message| message.value(TRACE_PARENT));
        if let Some(parent) = parent.and_then(TraceParent::parse) {
            span.record("trace_id", format_args!("{:032x}", parent.trace_id));
        }
        let began = cluster.env().now();
        let sent = send(messages).instrument(span.clone()).await;
        match &sent {
            Ok(receipts) => {
                if let Some(receipt) = receipts.first() {
                    span.record("messaging.message.id", receipt.message_id());
                    span.record("messaging.destination.partition.id", field::display(receipt.queue().id()));
                }
            }
            Err(error) => {
                span.record("error.type", error_type(error));
            }
        }
        let took = cluster.env().now().saturating_duration_since(began);
        self.measure_send(&topic, count, took, sent.as_ref().err());
        sent
    }

    fn inject(&self, env: &Env, message: &mut Message) {
        // A message that belongs to a trace already stays in it.
        if message.value(TRACE_PARENT).is_some() {
            return;
        }
        let mut properties = Vec::new();
        match &self.propagation {
            None => properties.push((TRACE_PARENT.to_owned(), TraceParent::random(env).to_string())),
            Some(propagation) => {
                propagation.inject(&mut |name, value| properties.push((name.to_owned(), value.to_owned())));
            }
        }
        for (name, value) in properties {
            *message = message.clone().property(name, value);
        }
    }

    /// Runs a handler inside a span that belongs to the trace of its first message; `succeeded` looks at what comes of it.
    pub(crate) async fn process<T>(
        &self,
        cluster: &Cluster,
        group: &str,
        messages: &[MessageView],
        handler: impl Future<Output = T>,
        succeeded: impl FnOnce(&T) -> bool,
    ) -> T {
        let Some(processing) = self.begin_processing(cluster, group, messages) else { return handler.await };
        let result = handler.instrument(processing.span.clone()).await;
        self.end_processing(cluster, group, processing, succeeded(&result));
        result
    }

    /// Begins the span of messages that are handed out; none without a message.
    pub(crate) fn begin_processing(
        &self,
        cluster: &Cluster,
        group: &str,
        messages: &[MessageView],
    ) -> Option<Processing> {
        let first = messages.first()?;
        let (topic, count) = (first.topic().to_owned(), messages.len());
        let parent = first.property(TRACE_PARENT).and_then(TraceParent::parse);
        let span = tracing::info_span!(
            "process",
            otel.name = format_args!("process {topic}"),
            otel.kind = "consumer",
            messaging.system = "rocketmq",
            messaging.operation.name = "process",
            messaging.operation.r#type = "process",
            messaging.destination.name = topic,
            messaging.consumer.group.name = group,
            messaging.client.id = &**cluster.client_id(),
            messaging.message.id = &*first.message_id(),
            messaging.destination.partition.id = first.queue_id(),
            messaging.batch.message_count = count,
            messaging.rocketmq.message.tag = first.tag(),
            messaging.rocketmq.message.reconsume_times = first.reconsume_times(),
            trace_id = parent.map(|parent| field::display(format!("{:032x}", parent.trace_id))),
            parent_span_id = parent.map(|parent| field::display(format!("{:016x}", parent.span_id))),
            error.r#type = field::Empty,
        );
        if let Some(propagation) = &self.propagation {
            span.in_scope(|| propagation.extract(&|name| first.property(name).map(str::to_owned)));
        }
        Some(Processing { span, began: cluster.env().now(), topic, count })
    }

    /// Ends the span of messages that are decided.
    pub(crate) fn end_processing(&self, cluster: &Cluster, group: &str, processing: Processing, succeeded: bool) {
        let Processing { span, began, topic, count } = processing;
        if !succeeded {
            span.record("error.type", "handler");
        }
        let took = cluster.env().now().saturating_duration_since(began);
        self.measure_process(&topic, group, count, took, succeeded);
    }

    /// Receives messages inside a span; `messages` finds them in what was received.
    pub(crate) async fn poll<T>(
        &self,
        cluster: &Cluster,
        group: &str,
        receive: impl Future<Output = Result<T>>,
        messages: impl FnOnce(&T) -> &[MessageView],
    ) -> Result<T> {
        let span = tracing::info_span!(
            "poll",
            otel.name = "poll",
            otel.kind = "client",
            messaging.system = "rocketmq",
            messaging.operation.name = "poll",
            messaging.operation.r#type = "receive",
            messaging.destination.name = field::Empty,
            messaging.consumer.group.name = group,
            messaging.client.id = &**cluster.client_id(),
            messaging.batch.message_count = field::Empty,
            error.r#type = field::Empty,
        );
        let began = cluster.env().now();
        let received = receive.instrument(span.clone()).await;
        let (mut topic, mut count) = (None, 0);
        match &received {
            Ok(received) => {
                let messages = messages(received);
                topic = messages.first().map(MessageView::topic);
                count = messages.len();
                span.record("messaging.batch.message_count", count);
                if let Some(topic) = topic {
                    span.record("messaging.destination.name", topic);
                }
            }
            Err(error) => {
                span.record("error.type", error_type(error));
            }
        }
        let took = cluster.env().now().saturating_duration_since(began);
        self.measure_poll(topic, group, count, took, received.as_ref().err());
        received
    }

    #[cfg(feature = "metrics")]
    fn measure_send(&self, topic: &str, count: usize, took: Duration, error: Option<&Error>) {
        let Some(metrics) = &self.metrics else { return };
        let mut attributes = vec![
            ("messaging.system", "rocketmq"),
            ("messaging.operation.name", "send"),
            ("messaging.destination.name", topic),
        ];
        attributes.extend(error.map(|error| ("error.type", error_type(error))));
        metrics.add("messaging.client.sent.messages", count as u64, &attributes);
        metrics.record("messaging.client.operation.duration", took.as_secs_f64(), &attributes);
    }

    #[cfg(not(feature = "metrics"))]
    fn measure_send(&self, _topic: &str, _count: usize, _took: Duration, _error: Option<&Error>) {}

    #[cfg(feature = "metrics")]
    fn measure_process(&self, topic: &str, group: &str, count: usize, took: Duration, succeeded: bool) {
        let Some(metrics) = &self.metrics else { return };
        let mut attributes = vec![
            ("messaging.system", "rocketmq"),
            ("messaging.operation.name", "process"),
            ("messaging.destination.name", topic),
            ("messaging.consumer.group.name", group),
        ];
        metrics.add("messaging.client.consumed.messages", count as u64, &attributes);
        attributes.extend((!succeeded).then_some(("error.type", "handler")));
        metrics.record("messaging.process.duration", took.as_secs_f64(), &attributes);
    }

    #[cfg(not(feature = "metrics"))]
    fn measure_process(&self, _topic: &str, _group: &str, _count: usize, _took: Duration, _succeeded: bool) {}

    #[cfg(feature = "metrics")]
    fn measure_poll(&self, topic: Option<&str>, group: &str, count: usize, took: Duration, error: Option<&Error>) {
        let Some(metrics) = &self.metrics else { return };
        let mut attributes = vec![
            ("messaging.system", "rocketmq"),
            ("messaging.operation.name", "poll"),
            ("messaging.consumer.group.name", group),
        ];
        attributes.extend(topic.map(|topic| ("messaging.destination.name", topic)));
        if count > 0 {
            metrics.add("messaging.client.consumed.messages", count as u64, &attributes);
        }
        attributes.extend(error.map(|error| ("error.type", error_type(error))));
        metrics.record("messaging.client.operation.duration", took.as_secs_f64(), &attributes);
    }

    #[cfg(not(feature = "metrics"))]
    fn measure_poll(&self, _topic: Option<&str>, _group: &str, _count: usize, _took: Duration, _error: Option<&Error>) {
    }

    /// Keeps the gauge of open connections, until dropped. `None` without a sink.
    #[cfg(feature = "metrics")]
    pub(crate) fn count_connections(
        &self,
        mut events: tokio::sync::broadcast::Receiver<crate::remoting::ConnectionEvent>,
        open: usize,
    ) -> Option<impl Future<Output = ()> + Send + 'static> {
        use crate::remoting::ConnectionEvent;
        use tokio::sync::broadcast::error::RecvError;

        let metrics = Arc::clone(self.metrics.as_ref()?);
        let mut open = open;
        Some(async move {
            loop {
                metrics.set("rocketmq.client.connections", open as f64, &[("messaging.system", "rocketmq")]);
                match events.recv().await {
                    Ok(ConnectionEvent::Opened(_)) => open += 1,
                    Ok(ConnectionEvent::Lost(..)) => open = open.saturating_sub(1),
                    Ok(ConnectionEvent::Failed(..)) | Err(RecvError::Lagged(_)) => {}
                    Err(RecvError::Closed) => return,
                }
            }
        })
    }
}

/// The kind of an error, as an attribute: a few words, never a text.
fn error_type(error: &Error) -> &'static str {
    error.kind().name()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trace_parents_come_back_and_broken_ones_do_not() {
        let text = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        let parent = TraceParent::parse(text).expect("a context");
        assert_eq!((parent.to_string().as_str(), parent.sampled), (text, true));
        assert!(TraceParent::parse(&text.replacen("00", "01", 1)).is_some());
        assert!(TraceParent::parse(&(text.replacen("00", "01", 1) + "-more")).is_some());
        for broken in [
            "",
            "00",
            &text[..54],
            &text.replacen("00", "ff", 1),
            &text.replace('f', "F"),
            &format!("{text}-more"),
            "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
        ] {
            assert_eq!(TraceParent::parse(broken), None, "{broken}");
        }
    }
}
