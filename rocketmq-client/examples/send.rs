//! Sends messages and prints where they went.
//!
//! `cargo run --example send -- 127.0.0.1:9876 orders 10`

use std::error::Error;

use rocketmq_native::{Client, Message};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let name_servers = arguments.next().unwrap_or_else(|| "127.0.0.1:9876".to_owned());
    let topic = arguments.next().unwrap_or_else(|| "orders".to_owned());
    let count: usize = arguments.next().map_or(Ok(1), |count| count.parse())?;

    let client = Client::builder(&name_servers).connect().await?;
    let producer = client.producer("send-example").start().await?;
    for number in 0..count {
        let message = Message::new(topic.as_str(), format!("hello {number}")).tag("greeting").key(number.to_string());
        let receipt = producer.send(message).await?;
        println!("{} is at offset {} of {}", receipt.message_id(), receipt.queue_offset(), receipt.queue());
    }
    producer.shutdown().await;
    client.close().await;
    Ok(())
}
