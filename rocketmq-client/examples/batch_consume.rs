//! Handles several messages at once, and says of each what becomes of it.
//!
//! ```text
//! cargo run --example batch_consume -- 127.0.0.1:9876 orders
//! ```

use std::error::Error;

use rocketmq_native::consumer::{BatchResult, ConsumeResult};
use rocketmq_native::{Client, ConsumeFrom, MessageView};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let name_server = arguments.next().unwrap_or_else(|| "127.0.0.1:9876".to_owned());
    let topic = arguments.next().unwrap_or_else(|| "orders".to_owned());

    let client = Client::builder(name_server).connect().await?;
    let consumer = client
        .push_consumer("batch-example")
        .subscribe(topic, "*")
        .consume_from(ConsumeFrom::First)
        .batch_size(64)
        .before_dead_letter(|message| async move { eprintln!("given up: {}", message.message_id()) })
        .start_batch(store)
        .await?;

    tokio::signal::ctrl_c().await?;
    consumer.shutdown().await?;
    client.close().await;
    Ok(())
}

/// As into a database: rows that can never be stored are given up, the others are done.
async fn store(messages: Vec<MessageView>) -> BatchResult {
    println!("{} rows", messages.len());
    BatchResult::each(messages.iter().map(|message| match std::str::from_utf8(&message.body()) {
        Ok(_) => ConsumeResult::Success,
        Err(_) => ConsumeResult::DeadLetter,
    }))
}
