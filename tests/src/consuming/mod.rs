//! What our consumer must do on any broker, beside plain consumption.

mod members;
mod mixed;
mod order;
mod requests;
mod results;
mod subscriptions;

pub use members::*;
pub use mixed::*;
pub use order::*;
pub use requests::*;
pub use results::*;
pub use subscriptions::*;

use std::{collections::BTreeMap, time::Duration};

use rocketmq_native::{
    Client, ConsumeFrom, Message, MessageView, PushConsumer, PushConsumerBuilder, SendOptions, consumer::ConsumeResult,
};
use tokio::{sync::mpsc, time};

use crate::{
    scene::{LIMIT, connect, eventually, shut_down, topic, within},
    server::Server,
};

/// A consumer that begins at the first message.
fn consumer(client: &Client, group: &str, topic: &str) -> PushConsumerBuilder {
    client.push_consumer(group).subscribe(topic, "*").consume_from(ConsumeFrom::First)
}

/// Sends messages with keys `<prefix>0` and so on, all messages of one of `lanes` to the queue of that lane.
async fn send(client: &Client, topic: &str, prefix: &str, count: usize, lanes: usize) {
    let producer = client.producer("consuming-sender").send_timeout(LIMIT).start().await.expect("the producer starts");
    for index in 0..count {
        let lane = format!("lane-{}", index % lanes);
        let message = Message::new(topic, format!("{prefix}{index}")).key(format!("{prefix}{index}"));
        let message = message.property("lane", lane.as_str());
        producer.send_with(message, SendOptions::new().key(lane)).await.expect("the broker stores it");
    }
    producer.shutdown().await;
}

fn key(message: &MessageView) -> String {
    message.keys().next().unwrap_or_default().to_owned()
}

/// One call of a handler: the key, the lane, and how often the message had come before.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Call {
    key: String,
    lane: String,
    times: u32,
    broker_queue: i32,
    offset: i64,
}

impl Call {
    fn of(message: &MessageView) -> Self {
        Self {
            key: key(message),
            lane: message.property("lane").unwrap_or_default().to_owned(),
            times: message.reconsume_times(),
            broker_queue: message.queue_id(),
            offset: message.queue_offset(),
        }
    }
}

/// Calls of handlers, in their order.
#[derive(Clone)]
struct Calls(mpsc::UnboundedSender<Call>);

struct Seen(mpsc::UnboundedReceiver<Call>);

fn calls() -> (Calls, Seen) {
    let (sender, receiver) = mpsc::unbounded_channel();
    (Calls(sender), Seen(receiver))
}

impl Calls {
    fn note(&self, message: &MessageView) -> Call {
        let call = Call::of(message);
        // The test may have seen enough.
        let _ = self.0.send(call.clone());
        call
    }

    /// A handler that notes each call and does what a function says.
    fn handler(
        &self,
        decide: impl Fn(&Call) -> ConsumeResult + Send + Sync + 'static,
    ) -> impl Fn(MessageView) -> std::future::Ready<ConsumeResult> + Send + Sync + 'static {
        let calls = self.clone();
        move |message| std::future::ready(decide(&calls.note(&message)))
    }
}

impl Seen {
    async fn next(&mut self) -> Call {
        within("a message", self.0.recv()).await.expect("the handler lives")
    }

    async fn take(&mut self, count: usize) -> Vec<Call> {
        let mut seen = Vec::with_capacity(count);
        while seen.len() < count {
            match time::timeout(LIMIT, self.0.recv()).await {
                Ok(call) => seen.push(call.expect("the handler lives")),
                Err(_) => panic!("{} of {count} calls, then none for {LIMIT:?}: {seen:?}", seen.len()),
            }
        }
        seen
    }

    fn rest(&mut self) -> Vec<Call> {
        std::iter::from_fn(|| self.0.try_recv().ok()).collect()
    }
}

fn by_lane(calls: &[Call]) -> BTreeMap<&str, Vec<&Call>> {
    let mut lanes: BTreeMap<&str, Vec<&Call>> = BTreeMap::new();
    for call in calls {
        lanes.entry(&call.lane).or_default().push(call);
    }
    lanes
}
