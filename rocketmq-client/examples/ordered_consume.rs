//! Handles messages in the order in which they were stored: those with one key one after the other, different keys side by
//! side.
//!
//! ```text
//! cargo run --example ordered_consume -- 127.0.0.1:9876 orders
//! ```

use std::error::Error;
use std::time::Duration;

use rocketmq_native::{Client, ConsumeFrom, MessageView};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let name_server = arguments.next().unwrap_or_else(|| "127.0.0.1:9876".to_owned());
    let topic = arguments.next().unwrap_or_else(|| "orders".to_owned());

    let client = Client::builder(name_server).connect().await?;
    let consumer = client
        .push_consumer("ordered-example")
        .subscribe(topic, "*")
        .consume_from(ConsumeFrom::First)
        // `.ordered()` would make all messages of a queue wait for each other.
        .ordered_by(|message| message.keys().next().unwrap_or_default().to_owned())
        // A message that fails is handled again after this time, and holds up its key meanwhile ...
        .suspend_time(Duration::from_millis(500))
        // ... until it has failed too often, and goes to the dead letters.
        .max_reconsume_times(5)
        .start(handle)
        .await?;

    tokio::signal::ctrl_c().await?;
    consumer.shutdown().await?;
    client.close().await;
    Ok(())
}

async fn handle(message: MessageView) -> Result<(), std::str::Utf8Error> {
    let key = message.keys().next().unwrap_or("-").to_owned();
    println!(
        "{key} queue={} offset={}: {}",
        message.queue_id(),
        message.queue_offset(),
        std::str::from_utf8(&message.body())?
    );
    Ok(())
}
