//! Marks and counts every message on its way, limits what is under way, and traces what was sent.
//!
//! `cargo run --example intercepted -- 127.0.0.1:9876 orders`

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rocketmq_native::producer::{SendInterceptor, Sent};
use rocketmq_native::{Client, ErrorKind, Message};

/// Names the sender in every message, and counts what came of them.
#[derive(Default)]
struct Census {
    stored: AtomicUsize,
    failed: AtomicUsize,
}

struct Marker(Arc<Census>);

impl SendInterceptor for Marker {
    fn before(&self, message: Message) -> rocketmq_native::Result<Message> {
        Ok(message.property("sender", "intercepted-example"))
    }

    fn after(&self, sent: &Sent<'_>) {
        let count = if sent.error().is_none() { &self.0.stored } else { &self.0.failed };
        count.fetch_add(1, Ordering::Relaxed);
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let name_servers = arguments.next().unwrap_or_else(|| "127.0.0.1:9876".to_owned());
    let topic = arguments.next().unwrap_or_else(|| "orders".to_owned());
    let client = Client::builder(&name_servers).connect().await?;
    let census = Arc::new(Census::default());
    let producer = client
        .producer("intercepted-example")
        .interceptor(Marker(Arc::clone(&census)))
        .max_in_flight(100)
        // To be read by `mqadmin queryMsgTraceById -i ID`.
        .trace()
        .start()
        .await?;
    for number in 0..10 {
        // Fails at once where `send` would wait for one of the hundred to be answered.
        match producer.try_send(Message::new(topic.as_str(), format!("order {number}"))).await {
            Ok(receipt) => println!("{}", receipt.message_id()),
            Err(error) if error.kind() == ErrorKind::WouldBlock => println!("later"),
            Err(error) => println!("{error}"),
        }
    }
    producer.shutdown().await;
    println!("{} stored, {} failed", census.stored.load(Ordering::Relaxed), census.failed.load(Ordering::Relaxed));
    client.close().await;
    Ok(())
}
