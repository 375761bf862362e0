//! Prints spans of sends, the trace that a message carries, and what becomes of connections.
//!
//! `cargo run --example telemetry -- 127.0.0.1:9876`, or with the client's settings in a file: `-- client.toml`

use std::error::Error;

use rocketmq_native::telemetry::{TRACE_PARENT, TraceParent};
use rocketmq_native::{Client, Message, Telemetry};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let argument = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:9876".to_owned());
    let builder = if argument.ends_with(".toml") { Client::from_file(&argument)? } else { Client::builder(&argument) };
    let client = builder
        .environment()? // `ROCKETMQ_...` variables win, `ROCKETMQ_SECRET_KEY_FILE` for one
        .telemetry(Telemetry::new()) // `.propagation(..)` joins the traces of OpenTelemetry or another library
        .connect()
        .await?;
    let mut events = client.connection_events();
    #[expect(clippy::disallowed_methods, reason = "an application starts tasks of its own")]
    let watching = tokio::spawn(async move {
        while let Some(event) = events.next().await {
            println!("{event:?}");
        }
    });
    let producer = client.producer("telemetry-example").start().await?;
    let parent = TraceParent { trace_id: 1, span_id: 2, sampled: true };
    let message = Message::new("orders", "traced").property(TRACE_PARENT, parent.to_string());
    println!("{} is in trace {:032x}", producer.send(message).await?.message_id(), parent.trace_id);
    for (address, stats) in client.connections() {
        println!("{address}: {} writes", stats.writes);
    }
    producer.shutdown().await;
    client.close().await;
    watching.abort();
    Ok(())
}
