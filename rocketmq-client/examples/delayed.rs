//! Sends reminders for later, and takes one back.
//!
//! `cargo run --example delayed -- 127.0.0.1:9876 reminders`

use std::error::Error;
use std::time::{Duration, SystemTime};

use rocketmq_native::{Client, Delay, Message};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let name_servers = arguments.next().unwrap_or_else(|| "127.0.0.1:9876".to_owned());
    let topic = arguments.next().unwrap_or_else(|| "reminders".to_owned());
    let client = Client::builder(&name_servers).connect().await?;
    let producer = client.producer("delayed-example").start().await?;

    let in_a_minute = Message::new(topic.as_str(), "in a minute").deliver_after(Duration::from_secs(60));
    #[expect(clippy::disallowed_methods, reason = "an application has the system's clock")]
    let tomorrow = SystemTime::now() + Duration::from_secs(24 * 3600);
    let tomorrow = Message::new(topic.as_str(), "tomorrow").deliver_at(tomorrow);
    for message in [in_a_minute, tomorrow] {
        match producer.send(message).await {
            Ok(receipt) => {
                match receipt.delay() {
                    Some(Delay::Timer) => println!("{} comes to the second", receipt.message_id()),
                    other => println!("{} comes by {other:?}", receipt.message_id()),
                }
                // Brokers since 5.3.2 take a timed message back, if they are configured to.
                if let Some(handle) = receipt.recall_handle() {
                    println!("recalled: {:?}", producer.recall(&topic, handle).await);
                }
            }
            // Brokers before 5.0 hold messages back for 2 hours at most.
            Err(error) => println!("{error}"),
        }
    }
    producer.shutdown().await;
    client.close().await;
    Ok(())
}
