//! Takes orders in a local transaction, so that each message is delivered exactly when its order was taken.
//!
//! `cargo run --example transactions -- 127.0.0.1:9876 orders`

use std::collections::BTreeMap;
use std::error::Error;
use std::sync::Arc;

use rocketmq_native::{Client, Message, MessageView, TransactionResolution};
use tokio::sync::Mutex;

/// Stands for a database: whether each order was taken.
type Orders = Arc<Mutex<BTreeMap<String, bool>>>;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let name_servers = arguments.next().unwrap_or_else(|| "127.0.0.1:9876".to_owned());
    let topic = arguments.next().unwrap_or_else(|| "orders".to_owned());
    let client = Client::builder(&name_servers).connect().await?;

    // Brokers ask it about messages that were not decided, because of a crash or a lost connection.
    let orders = Orders::default();
    let known = Arc::clone(&orders);
    let checker = move |message: MessageView| {
        let known = Arc::clone(&known);
        async move {
            match known.lock().await.get(message.keys().next().unwrap_or_default()) {
                Some(true) => TransactionResolution::Commit,
                Some(false) => TransactionResolution::Rollback,
                None => TransactionResolution::Unknown,
            }
        }
    };
    let producer = client.transaction_producer("orders-service", checker).start().await?;

    for (order, books) in [("order-1", 2), ("order-2", 0)] {
        let message = Message::new(topic.as_str(), format!("{books} books")).key(order);
        // Runs when a broker has the message; `Ok` has it delivered, an error takes it back.
        let receipt = producer.transact(message, |_| take_order(&orders, order, books)).await?;
        println!("{order}: {:?}", receipt.resolution());
    }

    // The same in steps. Dropped before it is decided, it is left to the checker.
    let transaction = producer.begin(Message::new(topic.as_str(), "3 books").key("order-3")).await?;
    match take_order(&orders, "order-3", 3).await {
        Ok(()) => transaction.commit().await?,
        Err(_) => transaction.rollback().await?,
    }
    producer.shutdown().await;
    client.close().await;
    Ok(())
}

async fn take_order(orders: &Orders, order: &str, books: u32) -> Result<(), String> {
    orders.lock().await.insert(order.to_owned(), books > 0);
    if books > 0 { Ok(()) } else { Err("an order of nothing".to_owned()) }
}
