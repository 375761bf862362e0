//! Sends the steps of several orders so that those of one order keep their order: to one queue.
//!
//! `cargo run --example ordered_sends -- 127.0.0.1:9876 steps`

use std::error::Error;

use rocketmq_native::{Client, Message, SendOptions};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let name_servers = arguments.next().unwrap_or_else(|| "127.0.0.1:9876".to_owned());
    let topic = arguments.next().unwrap_or_else(|| "steps".to_owned());
    let client = Client::builder(&name_servers).connect().await?;
    let producer = client.producer("ordered-example").start().await?;

    for step in ["created", "paid", "shipped"] {
        for order in ["order-1", "order-2", "order-3"] {
            let message = Message::new(topic.as_str(), step).tag(step).key(order);
            // The queue that the Java client's SelectMessageQueueByHash picks for the same text.
            let receipt = producer.send_with(message, SendOptions::new().key(order)).await?;
            println!("{order} {step}: {}", receipt.queue());
        }
    }

    // Or as the application likes: here all to the first queue.
    let options = SendOptions::new().selector(|_queues, _message| 0);
    let receipt = producer.send_with(Message::new(topic, "audit"), options).await?;
    println!("audit: {}", receipt.queue());
    producer.shutdown().await;
    client.close().await;
    Ok(())
}
