//! Lists the dead letters of a group and sends them again to the topics that they came from. Stop it and run it again: it
//! goes on where it was.
//!
//! ```text
//! cargo run --example dead_letters -- 127.0.0.1:9876 billing
//! ```

use std::error::Error;

use rocketmq_native::Client;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let name_server = arguments.next().unwrap_or_else(|| "127.0.0.1:9876".to_owned());
    let group = arguments.next().unwrap_or_else(|| "billing".to_owned());
    let client = Client::builder(name_server).connect().await?;
    let letters = client.admin().dead_letters(&group);

    println!("{} has {} dead letters", letters.topic(), letters.count().await?);
    for letter in letters.list(10).await? {
        println!("{} of {:?}: {:?}", letter.message_id(), letters.original_topic(&letter), letter.body());
    }

    let producer = client.producer("dead-letters-example").start().await?;
    let mut replay = letters.replay(&producer).await?;
    println!("{} are still to be sent again", replay.remaining());
    while let Some(step) = replay.next().await? {
        println!(
            "{}/{}: {} is now {}",
            step.done,
            step.total,
            step.dead_letter.message_id(),
            step.receipt.message_id()
        );
    }
    producer.shutdown().await;
    client.close().await;
    Ok(())
}
