//! Has the broker filter by properties. It needs `enablePropertyFilter=true`.
//!
//! ```text
//! cargo run --example sql_filter -- 127.0.0.1:9876 orders "amount > 100 AND region IN ('north', 'west')"
//! ```

use std::error::Error;

use rocketmq_native::{Client, FilterExpression, MessageView};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let name_server = arguments.next().unwrap_or_else(|| "127.0.0.1:9876".to_owned());
    let topic = arguments.next().unwrap_or_else(|| "orders".to_owned());
    let condition = arguments.next().unwrap_or_else(|| "amount > 100".to_owned());

    let client = Client::builder(name_server).connect().await?;
    let consumer = client
        .push_consumer("sql-example")
        // A mistake is told with its place before anything is sent; the broker checks it once more.
        .subscribe(topic.as_str(), FilterExpression::sql92(condition))
        // What SQL cannot say.
        .filter(|message| message.body().len() < 10_000)
        .start(handle)
        .await?;

    tokio::signal::ctrl_c().await?;
    consumer.shutdown().await?;
    client.close().await;
    Ok(())
}

async fn handle(message: MessageView) {
    println!("{} {:?}", message.message_id(), message.properties().collect::<Vec<_>>());
}
