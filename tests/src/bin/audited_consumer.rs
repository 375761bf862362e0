//! A consumer that tells what it handles, to be killed, paused and stopped by a test: `audited_consumer NAME_SERVER GROUP
//! TOPIC ordered|free`. Prints `ready`, then a line for each message handled: the time in microseconds, the lane, the key
//! and how often it had come before. Ends in good order at the end of its standard input.

use std::{
    error::Error,
    io::Write,
    time::{Duration, SystemTime},
};

use rocketmq_native::{Client, ConsumeFrom, MessageView};
use tokio::io::AsyncReadExt;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [name_server, group, topic, order] = arguments.as_slice() else { return Err("four arguments".into()) };
    let client = Client::builder(name_server.as_str()).connect().await?;
    let builder = client
        .push_consumer(group)
        .subscribe(topic, "*")
        .consume_from(ConsumeFrom::First)
        .commit_interval(Duration::from_millis(500));
    let builder = if order == "ordered" { builder.ordered() } else { builder };
    let consumer = builder.start(async |message: MessageView| note(&message)).await?;
    println!("ready");
    tokio::io::stdin().read_to_end(&mut Vec::new()).await?;
    consumer.shutdown().await?;
    client.close().await;
    Ok(())
}

/// What is printed counts as handled, so it must be out before the handler returns.
fn note(message: &MessageView) -> std::io::Result<()> {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let (lane, key) = (message.property("lane").unwrap_or("-"), message.keys().next().unwrap_or("-").to_owned());
    let mut out = std::io::stdout().lock();
    writeln!(out, "{} {lane} {key} {}", now.as_micros(), message.reconsume_times())?;
    out.flush()
}
