//! Breaks a broker on purpose, sees what a client does about it, and turns the clock.
//!
//! `cargo run -p rocketmq-tests --example broker_in_a_box`

use std::error::Error;
use std::time::Duration;

use rocketmq_mock_broker::{Family, Fault, MockBroker, RequestPattern};
use rocketmq_native::{Client, Message};
use rocketmq_wire::ResponseCode;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let broker = MockBroker::builder().topic("orders", 4).start().await?;
    let client = Client::builder(broker.name_server()).connect().await?;
    let producer = client.producer("orders-service").start().await?;

    // The broker is busy twice, and loses one answer. The client tries again.
    broker.fail_next(Family::Send, ResponseCode::SYSTEM_BUSY, 2);
    let busy = producer.send(Message::new("orders", "first")).await?;
    println!("stored in spite of a busy broker: {}", busy.message_id());
    let lost = broker.fault(Fault::close().on(Family::Send).topic("orders").times(1));
    producer.send(Message::new("orders", "second")).await?;
    println!("stored in spite of {} lost connection", lost.hits());
    drop(lost);

    // What the client did about it is in the journal.
    for entry in broker.requests(RequestPattern::of(Family::Send)) {
        println!("{entry}");
    }
    broker.wait_for(RequestPattern::of(Family::Send).topic("orders"), 5).await?;

    // Two hours pass in a moment.
    producer.send(Message::new("orders", "later").delay_level(18)).await?;
    println!("{} message waits", broker.delayed().len());
    broker.advance(Duration::from_secs(7200)).await;
    let later = broker.expect_sent("orders", |message| message.text() == "later").await?;
    println!("`{}` came to queue {}", later.text(), later.queue);

    producer.shutdown().await;
    client.close().await;
    Ok(())
}
