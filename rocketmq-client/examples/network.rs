//! Reaches brokers over TLS, through a proxy, and at other addresses than those that they register with.
//!
//! `cargo run --example network -- broker.example.com:9876 ca.pem`

use std::error::Error;

use rocketmq_native::{Client, Message, Socks5, Tls};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let name_servers = arguments.next().unwrap_or_else(|| "127.0.0.1:9876".to_owned());
    let mut builder = Client::builder(&name_servers)
        // Brokers in containers register with addresses that only containers can reach.
        .map_address("172.17.0.2:10911", "127.0.0.1:10911")
        .map_addresses(|stated| {
            stated.strip_prefix("broker-0.internal").map(|port| format!("gateway.example.com{port}"))
        });
    if let Some(authority) = arguments.next() {
        // Without `ca_file` the authorities of the operating system are trusted.
        builder = builder.tls(Tls::new().ca_file(authority).server_name("brokers.example.com"));
    }
    if let Ok(proxy) = std::env::var("SOCKS_PROXY") {
        builder = builder.socks5(Socks5::new(proxy).only_for("10.0.0.0/8"));
    }
    let client = builder.connect().await?;
    let producer = client.producer("network-example").start().await?;
    let receipt = producer.send(Message::new("orders", "from afar")).await?;
    println!("{} is at offset {}", receipt.message_id(), receipt.queue_offset());
    producer.shutdown().await;
    client.close().await;
    Ok(())
}
