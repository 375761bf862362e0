//! Asks a question by a message, and answers it in a consumer.
//!
//! `cargo run --example request_reply -- 127.0.0.1:9876 questions`

use std::error::Error;
use std::time::Duration;

use rocketmq_native::{Client, ConsumeFrom, Message, MessageView};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let name_servers = arguments.next().unwrap_or_else(|| "127.0.0.1:9876".to_owned());
    let topic = arguments.next().unwrap_or_else(|| "questions".to_owned());

    // The side that answers: any consumer may, with any producer.
    let answering = Client::builder(&name_servers).connect().await?;
    let replier = answering.producer("repliers").start().await?;
    let consumer = answering
        .push_consumer("answers")
        .subscribe(&topic, "*")
        .consume_from(ConsumeFrom::First)
        .start(move |request: MessageView| {
            let replier = replier.clone();
            async move { replier.reply(&request, format!("{} bytes", request.body().len())).await.map(drop) }
        })
        .await?;

    // The side that asks.
    let asking = Client::builder(&name_servers).connect().await?;
    let producer = asking.producer("askers").start().await?;
    let reply = producer.request(Message::new(topic, "how long is this?"), Duration::from_secs(30)).await?;
    println!("{}", String::from_utf8_lossy(&reply.body()));

    producer.shutdown().await;
    asking.close().await;
    consumer.shutdown().await?;
    answering.close().await;
    Ok(())
}
