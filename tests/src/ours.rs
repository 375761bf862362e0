//! Our client as one side of a scenario.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use rocketmq_native::{Client, HeaderType, Message, Producer, SendReceipt, SendStatus};
use tokio::task::JoinSet;

use crate::party::{Outcome, Outgoing, Sent};

/// A client with one producer.
#[derive(Debug)]
pub struct OurSender {
    client: Client,
    producer: Producer,
}

impl OurSender {
    /// Connects and starts the producer.
    pub async fn start(name_server: &str, header_type: HeaderType) -> Self {
        let client = connect(name_server, header_type).await;
        let producer = client.producer("interop-producer").start().await.expect("the producer starts");
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

async fn connect(name_server: &str, header_type: HeaderType) -> Client {
    Client::builder(name_server).header_type(header_type).connect().await.expect("the client connects")
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
