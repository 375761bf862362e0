//! Creates a topic and a group, shows how far the group is, sends it back to the beginning, finds a message by its key.
//!
//! ```text
//! cargo run --example admin -- 127.0.0.1:9876
//! ```

use std::error::Error;

use rocketmq_native::admin::{GroupSettings, OffsetTarget};
use rocketmq_native::{Client, Message};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let name_server = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:9876".to_owned());
    let client = Client::builder(name_server).connect().await?;
    let admin = client.admin();

    for broker in admin.brokers().await?.into_iter().filter(|broker| broker.is_master()) {
        let status = admin.broker_status(&broker.address).await?;
        println!("{} at {}: {}", broker.name, broker.address, status.version());
    }
    admin.create_topic("admin-example", 4).await?;
    admin.set_group(&GroupSettings::new("admin-example-group").max_reconsume_times(5)).await?;
    println!("topics: {:?}", admin.topics().await?);

    let producer = client.producer("admin-example").start().await?;
    let receipt = producer.send(Message::new("admin-example", "hi").key("42")).await?;
    let found = admin.message("admin-example", &receipt.offset_message_id().expect("one message").to_string()).await?;
    println!("{:?} has the keys {:?}", found.body(), found.keys().collect::<Vec<_>>());

    // Nobody of the group has to be online.
    for (queue, offset) in admin.reset_offsets("admin-example-group", "admin-example", OffsetTarget::Begin).await? {
        println!("{queue} goes on at {offset}");
    }
    let progress = admin.progress("admin-example-group").await?;
    println!("the group is {} messages behind", progress.lag());

    admin.delete_group("admin-example-group").await?;
    admin.delete_topic("admin-example").await?;
    client.close().await;
    Ok(())
}
