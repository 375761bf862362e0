//! Gets all messages of a topic, whoever else does; goes on where it was when it is started again.
//!
//! ```text
//! cargo run --example broadcast -- 127.0.0.1:9876 prices cache-1
//! ```

use std::error::Error;

use rocketmq_native::{Client, MessageView};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let name_server = arguments.next().unwrap_or_else(|| "127.0.0.1:9876".to_owned());
    let topic = arguments.next().unwrap_or_else(|| "prices".to_owned());
    // Names the file of offsets: each member has its own.
    let instance = arguments.next().unwrap_or_else(|| "cache-1".to_owned());

    let client = Client::builder(name_server).instance_name(instance).connect().await?;
    let consumer = client.push_consumer("broadcast-example").subscribe(topic, "*").broadcasting().start(handle).await?;

    tokio::signal::ctrl_c().await?;
    consumer.shutdown().await?;
    client.close().await;
    Ok(())
}

async fn handle(message: MessageView) {
    println!("{} {:?}", message.message_id(), message.body());
}
