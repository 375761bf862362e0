//! Sends many messages at the same time, with and without automatic batching, and says how long each took.
//!
//! `cargo run --release --example lingering -- 127.0.0.1:9876 measurements 100000`

use std::error::Error;
use std::time::{Duration, Instant};

use rocketmq_native::{Client, Message, Producer};
use tokio::task::JoinSet;

/// How many sends are under way.
const CALLERS: usize = 1024;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let name_servers = arguments.next().unwrap_or_else(|| "127.0.0.1:9876".to_owned());
    let topic = arguments.next().unwrap_or_else(|| "measurements".to_owned());
    let count: usize = arguments.next().map_or(Ok(10_000), |count| count.parse())?;

    let client = Client::builder(&name_servers).connect().await?;
    let plain = client.producer("plain-example").topic(&topic).start().await?;
    println!("each by itself: {:?}", send(&plain, &topic, count).await?);
    let builder = client.producer("lingering-example").topic(&topic);
    // A message waits at most 2 ms for others that go to the same queue.
    let lingering = builder.linger(Duration::from_millis(2)).max_batch_bytes(64 * 1024).start().await?;
    println!("in batches: {:?}", send(&lingering, &topic, count).await?);
    lingering.shutdown().await;
    plain.shutdown().await;
    client.close().await;
    Ok(())
}

async fn send(producer: &Producer, topic: &str, count: usize) -> Result<Duration, rocketmq_native::Error> {
    #[expect(clippy::disallowed_methods, reason = "an application has the system's clock")]
    let now = Instant::now;
    let (began, mut callers) = (now(), JoinSet::new());
    for caller in 0..CALLERS {
        let (producer, topic) = (producer.clone(), topic.to_owned());
        callers.spawn(async move {
            for number in (caller..count).step_by(CALLERS) {
                producer.send(Message::new(topic.as_str(), format!("measured {number}"))).await?;
            }
            Ok(())
        });
    }
    callers.join_all().await.into_iter().collect::<Result<(), rocketmq_native::Error>>()?;
    Ok(now() - began)
}
