//! Takes messages out of a stream and decides each: consumed, again later, or given up.
//!
//! ```text
//! cargo run --example stream -- 127.0.0.1:9876 orders
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
    let mut stream =
        client.push_consumer("stream-example").subscribe(topic, "*").consume_from(ConsumeFrom::First).stream().await?;
    loop {
        let delivery = tokio::select! {
            delivery = stream.next() => delivery,
            _ = tokio::signal::ctrl_c() => break,
        };
        let Some(delivery) = delivery else { break };
        println!("{} {:?}", delivery.message_id(), delivery.body());
        match delivery.tag() {
            Some("later") => delivery.nack(Some(Duration::from_secs(10))),
            Some("bad") => delivery.dead_letter(),
            // A delivery that is dropped undecided, as by an early return, comes again.
            _ => delivery.ack(),
        }
    }
    stream.shutdown().await?;
    client.close().await;
    Ok(())
}
