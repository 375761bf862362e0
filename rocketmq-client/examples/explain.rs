//! Tells why messages come, or do not: prints what a consumer knows of itself every five seconds.
//!
//! ```text
//! cargo run --example explain -- 127.0.0.1:9876 orders my-group
//! ```

use std::error::Error;
use std::time::Duration;

use rocketmq_native::Client;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let name_server = arguments.next().unwrap_or_else(|| "127.0.0.1:9876".to_owned());
    let topic = arguments.next().unwrap_or_else(|| "orders".to_owned());
    let group = arguments.next().unwrap_or_else(|| "explain-example".to_owned());

    let client = Client::builder(name_server).connect().await?;
    let consumer = client
        .push_consumer(group)
        .subscribe(topic, "*")
        .on_queue_change(|change| println!("{}: {} queues", change.topic, change.owned.len()))
        .start(async |_| ())
        .await?;
    // What a readiness probe waits for.
    if let Err(error) = consumer.wait_ready(Duration::from_secs(10)).await {
        println!("{error}");
    }
    #[expect(clippy::disallowed_methods, reason = "an application has the system's time")]
    let mut every = tokio::time::interval(Duration::from_secs(5));
    loop {
        tokio::select! {
            _ = every.tick() => println!("{}{:?}", consumer.explain(), consumer.stats()),
            _ = tokio::signal::ctrl_c() => break,
        }
    }
    consumer.shutdown().await?;
    client.close().await;
    Ok(())
}
