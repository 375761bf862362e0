//! Consumes the messages of a topic and prints them, until Ctrl-C.
//!
//! ```text
//! cargo run --example consume -- 127.0.0.1:9876 orders "created || paid"
//! ```

use std::error::Error;

use rocketmq_native::{Client, ConsumeFrom, MessageView};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let name_server = arguments.next().unwrap_or_else(|| "127.0.0.1:9876".to_owned());
    let topic = arguments.next().unwrap_or_else(|| "orders".to_owned());
    let expression = arguments.next().unwrap_or_else(|| "*".to_owned());

    let client = Client::builder(name_server).connect().await?;
    let consumer = client
        .push_consumer("consume-example")
        .subscribe(topic, expression)
        .consume_from(ConsumeFrom::First)
        .concurrency(16)
        .start(handle)
        .await?;

    tokio::signal::ctrl_c().await?;
    // Lets handlers end, stores the offsets and leaves the group.
    consumer.shutdown().await?;
    println!("{:?}", consumer.stats());
    client.close().await;
    Ok(())
}

/// `Err`, or a panic, means that the broker delivers the message again later.
async fn handle(message: MessageView) -> Result<(), std::str::Utf8Error> {
    let body = message.body();
    println!(
        "{} tag={} queue={} offset={} delivery={} {}",
        message.message_id(),
        message.tag().unwrap_or("-"),
        message.queue_id(),
        message.queue_offset(),
        message.reconsume_times() + 1,
        std::str::from_utf8(&body)?,
    );
    Ok(())
}
