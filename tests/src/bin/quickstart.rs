//! The main job in one page: a broker inside this process, a message sent and consumed, and a delayed one that arrives
//! at once because the broker's clock is turned.

use std::error::Error;
use std::time::Duration;

use rocketmq_mock_broker::MockBroker;
use rocketmq_native::{Client, Message};
use tokio::sync::mpsc;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let broker = MockBroker::start().await?;
    println!("broker    ready, name server {}", broker.name_server());

    let client = Client::builder(broker.name_server()).connect().await?;
    let producer = client.producer("orders-service").start().await?;
    let receipt = producer.send(Message::new("orders", "hi").tag("created").key("42")).await?;
    println!("sent      orders: \"hi\" is in queue {} at offset {}", receipt.queue().id(), receipt.queue_offset());

    let (arrived, mut arrivals) = mpsc::channel(16);
    let consumer = client
        .push_consumer("billing")
        .subscribe("orders", "created || paid")
        .start(move |message| {
            let arrived = arrived.clone();
            async move { arrived.send((message.tag().map(str::to_owned), message.body())).await }
        })
        .await?;
    let (tag, body) = arrivals.recv().await.ok_or("the consumer stopped")?;
    println!("consumed  {:?}, tag {:?}", String::from_utf8_lossy(&body), tag.unwrap_or_default());

    let delayed = Message::new("orders", "two hours later").tag("paid").delay_level(18);
    producer.send(delayed).await?;
    println!("sent      \"two hours later\" at delay level 18, two hours");
    broker.advance(Duration::from_secs(2 * 60 * 60)).await;
    println!("clock     turned by two hours");
    let (tag, body) = arrivals.recv().await.ok_or("the consumer stopped")?;
    println!("consumed  {:?}, tag {:?}", String::from_utf8_lossy(&body), tag.unwrap_or_default());

    consumer.shutdown().await?;
    producer.shutdown().await;
    client.close().await;
    println!("stopped   consumer, producer, client and broker");
    Ok(())
}
