//! Sends many messages in few requests.
//!
//! `cargo run --example batch -- 127.0.0.1:9876 lines 1000`

use std::error::Error;

use rocketmq_native::producer::BatchProgress;
use rocketmq_native::{Client, Message};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let name_servers = arguments.next().unwrap_or_else(|| "127.0.0.1:9876".to_owned());
    let topic = arguments.next().unwrap_or_else(|| "lines".to_owned());
    let count: usize = arguments.next().map_or(Ok(1000), |count| count.parse())?;

    let client = Client::builder(&name_servers).connect().await?;
    let producer = client.producer("batch-example").start().await?;
    let messages =
        (0..count).map(|number| Message::new(topic.as_str(), format!("line {number}")).key(number.to_string()));

    // As many requests as it takes, each of at most 4 MiB.
    match producer.send_batch(messages).await {
        Ok(receipts) => {
            for receipt in receipts.iter().step_by(100) {
                println!("{} is at offset {} of {}", receipt.message_id(), receipt.queue_offset(), receipt.queue());
            }
        }
        Err(error) => println!("{} were stored, then: {error}", BatchProgress::of(&error).len()),
    }
    producer.shutdown().await;
    client.close().await;
    Ok(())
}
