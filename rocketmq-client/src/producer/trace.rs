//! Message trace: a record of each send, by way of messages to a topic of its own.
//!
//! Records are collected by a task and sent together. When they come faster than they can be sent, the rest is dropped
//! and counted: tracing must not hold up what it traces.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rocketmq_wire::message::{names, properties, sys_flag};
use tokio::sync::mpsc;

use super::{Inner, Producer, ProducerBuilder, SendReceipt};
use crate::cluster::Cluster;
use crate::env::{Env, Task};
use crate::error::Result;
use crate::message::{Form, Message};
use crate::trace_topic::{MessageType, Subject, Trace};

/// Records that may wait: as many as in the Java client.
const MOST_WAITING: usize = 2048;
/// How long a record may wait for others.
const LONGEST_WAIT: Duration = Duration::from_secs(1);
/// What one message of trace may hold.
const MOST_RECORDS: usize = 256;
const MOST_BYTES: usize = 128_000;
/// Half of what a message's properties may take.
const MOST_KEY_BYTES: usize = 16_000;

/// Traces the sends of one producer.
#[derive(Debug)]
pub(super) struct Tracer {
    queue: Mutex<Option<mpsc::Sender<Trace>>>,
    dropped: Arc<AtomicU64>,
    task: Mutex<Option<Task>>,
}

/// What an answer says of the region that it comes from, when the broker does not say.
const DEFAULT_REGION: &str = "DefaultRegion";

impl Tracer {
    /// Starts tracing to a topic, as a producer of a group of its own.
    pub(super) async fn start(cluster: &Cluster, group: &str, topic: Option<String>) -> Result<Self> {
        let topic: Arc<str> = topic.unwrap_or_else(|| names::TRACE_TOPIC.to_owned()).into();
        let group = format!("_INNER_TRACE_PRODUCER-{group}-PRODUCE");
        let builder = ProducerBuilder::new(cluster.clone(), group).send_timeout(Duration::from_secs(5));
        let producer = Box::pin(builder.start()).await?;
        let (queue, records) = mpsc::channel(MOST_WAITING);
        let dropped = Arc::default();
        let env = cluster.env().clone();
        let task = env.clone().spawn(run(env, producer, topic, records, Arc::clone(&dropped)));
        Ok(Self { queue: Mutex::new(Some(queue)), dropped, task: Mutex::new(Some(task)) })
    }

    /// Records that were dropped: because too many waited, or because no broker took them.
    pub(super) fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    /// Sends what waits, and ends. Dropping the future leaves what waits untold.
    pub(super) async fn end(&self) {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner).take();
        let task = self.task.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(task) = task {
            // An error says that the runtime ends.
            let _ = task.await;
        }
    }

    fn push(&self, trace: Trace) {
        let queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if queue.is_none_or(|queue| queue.try_send(trace).is_err()) {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Traces a message that a broker took; unless the broker does not want that, or it is itself for a trace.
    pub(super) fn sent(
        &self,
        producer: &Inner,
        message: &Message,
        receipt: &SendReceipt,
        born_ms: i64,
        elapsed: Duration,
    ) {
        let more = receipt.more();
        if more.is_some_and(|more| more.is_untraced) || message.topic().starts_with(names::TRACE_TOPIC) {
            return;
        }
        let is_delayed = message.form() == Form::Timed || message.value(properties::DELAY).is_some();
        let message_type = match sys_flag::transaction(message.sys_flag()) {
            _ if is_delayed => MessageType::Delay,
            sys_flag::TRANSACTION_PREPARED => MessageType::Half,
            _ => MessageType::Normal,
        };
        let master = producer.cluster.master(receipt.queue().broker());
        let subject = Subject {
            timestamp_ms: born_ms,
            region: more.and_then(|more| more.region.as_deref()).unwrap_or(DEFAULT_REGION),
            group: &producer.group,
            topic: message.topic(),
            message_id: receipt.message_id(),
            tags: message.value(properties::TAGS).unwrap_or_default(),
            keys: message.value(properties::KEYS).unwrap_or_default(),
            store_host: master.as_ref().map_or("", |master| master.address()),
            message_type,
        };
        let offset_id = receipt.offset_message_id().map(|id| id.to_string()).unwrap_or_default();
        self.push(Trace::published(&subject, message.body().len(), elapsed.as_millis(), &offset_id));
    }

    /// Traces the end of a transaction.
    pub(super) fn transaction_ended(&self, subject: &Subject<'_>, transaction_id: &str, state: &str, from_check: bool) {
        let subject = Subject { region: DEFAULT_REGION, message_type: MessageType::Commit, ..subject.clone() };
        self.push(Trace::transaction_ended(&subject, transaction_id, state, from_check));
    }
}

/// Records of one topic on their way into one message.
#[derive(Default)]
struct Parcel {
    body: String,
    keys: String,
    records: u64,
}

/// Collects records and sends them, until there will be no more.
async fn run(
    env: Env,
    producer: Producer,
    topic: Arc<str>,
    mut records: mpsc::Receiver<Trace>,
    dropped: Arc<AtomicU64>,
) {
    while let Some(first) = records.recv().await {
        let until = env.now() + LONGEST_WAIT;
        let mut parcels: BTreeMap<String, Parcel> = BTreeMap::new();
        let mut next = Some(first);
        let mut count = 0;
        while let Some(trace) = next.take() {
            let parcel = parcels.entry(trace.topic).or_default();
            parcel.body.push_str(&trace.record);
            if !parcel.keys.is_empty() {
                parcel.keys.push(' ');
            }
            parcel.keys.push_str(&trace.keys);
            parcel.records += 1;
            count += 1;
            let is_full =
                count >= MOST_RECORDS || parcel.body.len() >= MOST_BYTES || parcel.keys.len() >= MOST_KEY_BYTES;
            if !is_full {
                next = env.within(until, records.recv()).await.flatten();
            }
        }
        for parcel in parcels.into_values() {
            let count = parcel.records;
            let message = Message::new(Arc::clone(&topic), parcel.body).keys(parcel.keys.split(' '));
            if let Err(error) = producer.send(message).await {
                dropped.fetch_add(count, Ordering::Relaxed);
                tracing::debug!(%error, "a message of trace could not be sent");
            }
        }
    }
    producer.shutdown().await;
}
