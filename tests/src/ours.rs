//! Our client as one side of a scenario.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use rocketmq_native::{
    Client, ConsumeFrom, HeaderType, Message, MessageView, Producer, SendReceipt, SendStatus, consumer::PushConsumer,
};
use tokio::{sync::mpsc, task::JoinSet, time};

use crate::{
    party::{Outcome, Outgoing, Received, Sent, Subscription, sha1_hex},
    server::Server,
};

/// A client with one producer.
#[derive(Debug)]
pub struct OurSender {
    client: Client,
    producer: Producer,
}

impl OurSender {
    /// Connects and starts the producer.
    pub async fn start(server: &Server, header_type: HeaderType) -> Self {
        let client = connect(server, header_type).await;
        // Servers that share two cores with the rest of the tests may be silent for seconds.
        let builder = client.producer("interop-producer").send_timeout(Duration::from_secs(30));
        let producer = builder.start().await.expect("the producer starts");
        Self { client, producer }
    }

    /// Sends the messages, as many at once as asked for.
    pub async fn send(&self, outgoing: &Outgoing) -> Outcome {
        let next = Arc::new(AtomicUsize::new(0));
        let mut tasks = JoinSet::new();
        for _ in 0..outgoing.in_flight {
            let (producer, outgoing, next) = (self.producer.clone(), outgoing.clone(), Arc::clone(&next));
            tasks.spawn(async move {
                let mut outcome = Outcome::default();
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    if index >= outgoing.count {
                        return outcome;
                    }
                    match producer.send(message(&outgoing, index)).await {
                        Ok(receipt) => outcome.sent.push(sent(index, &receipt)),
                        Err(error) => outcome.failed.push(error.to_string()),
                    }
                }
            });
        }
        let mut whole = Outcome::default();
        for part in tasks.join_all().await {
            whole.sent.extend(part.sent);
            whole.failed.extend(part.failed);
        }
        whole
    }

    /// Shuts the producer down and closes the client.
    pub async fn shutdown(self) {
        self.producer.shutdown().await;
        self.client.close().await;
    }
}

/// A client with one push consumer.
#[derive(Debug)]
pub struct OurConsumption {
    client: Client,
    consumer: PushConsumer,
    deliveries: mpsc::UnboundedReceiver<Received>,
}

impl OurConsumption {
    /// Connects and starts the consumer.
    pub async fn start(server: &Server, header_type: HeaderType, subscription: &Subscription) -> Self {
        let client = connect(server, header_type).await;
        let (deliver, deliveries) = mpsc::unbounded_channel();
        let fail_first = subscription.fail_first;
        let consumer = client
            .push_consumer(&subscription.group)
            .subscribe(&subscription.topic, &subscription.expression)
            .consume_from(ConsumeFrom::First)
            .concurrency(8)
            .start(move |message| {
                let delivery = received(&message, fail_first);
                let outcome = if delivery.succeeded { Ok(()) } else { Err("not yet") };
                // A scenario that has failed listens no more.
                let _ = deliver.send(delivery);
                async move { outcome }
            })
            .await
            .expect("the consumer starts");
        Self { client, consumer, deliveries }
    }

    /// The next `count` deliveries.
    ///
    /// # Panics
    ///
    /// When the next does not come within a minute, saying how many did.
    pub async fn messages(&mut self, count: usize) -> Vec<Received> {
        let mut messages = Vec::with_capacity(count);
        while messages.len() < count {
            match time::timeout(Duration::from_secs(60), self.deliveries.recv()).await {
                Ok(Some(message)) => messages.push(message),
                Ok(None) => unreachable!("the consumer holds the sender"),
                Err(_) => panic!(
                    "{} of {count} messages, then none for a minute: {:?}",
                    messages.len(),
                    self.consumer.stats()
                ),
            }
        }
        messages
    }

    /// Shuts the consumer down and returns what was delivered but not asked for.
    pub async fn stop(mut self) -> Vec<Received> {
        self.consumer.shutdown().await.expect("the consumer shuts down");
        self.client.close().await;
        let mut rest = Vec::new();
        while let Ok(message) = self.deliveries.try_recv() {
            rest.push(message);
        }
        rest
    }
}

fn received(message: &MessageView, fail_first: u32) -> Received {
    let body = message.body();
    Received {
        succeeded: message.reconsume_times() >= fail_first,
        msg_id: message.message_id().into_owned(),
        topic: message.topic().to_owned(),
        queue_id: message.queue_id().try_into().expect("queues are counted from 0"),
        queue_offset: message.queue_offset().try_into().expect("offsets are counted from 0"),
        reconsume_times: message.reconsume_times(),
        size: body.len(),
        sha1: sha1_hex(&body),
        tag: message.tag().unwrap_or_default().to_owned(),
        keys: message.keys().collect::<Vec<_>>().join(" "),
        properties: message.properties().map(|(name, value)| (name.to_owned(), value.to_owned())).collect(),
    }
}

async fn connect(server: &Server, header_type: HeaderType) -> Client {
    Client::builder(server.name_server())
        .namespace(server.namespace())
        .header_type(header_type)
        .connect()
        .await
        .expect("the client connects")
}

fn message(outgoing: &Outgoing, index: usize) -> Message {
    let mut message = Message::new(outgoing.topic.as_str(), outgoing.body.make(index)).key(outgoing.key(index));
    if let Some(tag) = outgoing.tag(index) {
        message = message.tag(tag);
    }
    for (name, value) in &outgoing.properties {
        message = message.property(name, value);
    }
    message
}

fn sent(index: usize, receipt: &SendReceipt) -> Sent {
    assert_eq!(receipt.status(), SendStatus::Ok);
    Sent {
        index,
        msg_id: receipt.message_id().to_owned(),
        queue_id: receipt.queue().id().try_into().expect("a broker names a queue that exists"),
        queue_offset: receipt.queue_offset().try_into().expect("a broker says the offset"),
    }
}
