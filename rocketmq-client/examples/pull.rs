//! Asks for the messages of a topic from its beginning on, ten times, and commits what it has printed.
//!
//! ```text
//! cargo run --example pull -- 127.0.0.1:9876 orders
//! ```

use std::error::Error;
use std::time::Duration;

use rocketmq_native::{Client, ConsumeFrom};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let name_server = arguments.next().unwrap_or_else(|| "127.0.0.1:9876".to_owned());
    let topic = arguments.next().unwrap_or_else(|| "orders".to_owned());
    let client = Client::builder(name_server).connect().await?;
    let consumer = client
        .pull_consumer("pull-example")
        .subscribe(&topic, "*")
        .consume_from(ConsumeFrom::First)
        .auto_commit(false)
        .start()
        .await?;

    for _ in 0..10 {
        for message in consumer.poll(Duration::from_secs(2)).await? {
            println!("{} {}: {:?}", message.queue_id(), message.queue_offset(), message.body());
        }
        consumer.commit().await?;
    }
    for (queue, lag) in consumer.lag().await? {
        println!("{queue}: at {:?}, {lag} behind", consumer.position(&queue));
    }

    // Any queue from any offset, without a group to share it with.
    let reader = consumer.reader();
    for queue in reader.queues(&topic).await? {
        let pulled = reader.pull(&queue, reader.begin(&queue).await?, 1).await?;
        println!("{queue} begins at {} with {} message(s)", pulled.begin, pulled.messages.len());
    }
    consumer.shutdown().await?;
    client.close().await;
    Ok(())
}
