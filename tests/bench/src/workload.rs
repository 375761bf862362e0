//! Our client under load: a number of callers, each of which sends its share of the messages one after another.

use std::{
    error::Error,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use bytes::Bytes;
use rocketmq_native::{Client, Message, Producer, remoting::HeaderType};

use crate::{arguments::Arguments, outcome::Stopwatch};

/// How many were acknowledged, and how many failed.
#[derive(Debug, Default)]
struct Tally {
    sent: AtomicU64,
    failed: AtomicU64,
}

/// Runs the load that the arguments describe and prints its outcome. `allocations` tells how many there were so far in
/// this process.
///
/// `name_server=ADDRESS count=N [warm_up=N] [in_flight=32] [header=auto|binary|json] [runtime=current|multi]
/// [topic=bench] [size=128]`
///
/// # Errors
///
/// When the client cannot be started.
pub fn run(arguments: &Arguments, allocations: Option<fn() -> u64>) -> Result<(), Box<dyn Error>> {
    let mut runtime = match arguments.text("runtime", "multi") {
        "current" => tokio::runtime::Builder::new_current_thread(),
        _ => tokio::runtime::Builder::new_multi_thread(),
    };
    runtime.enable_all().build()?.block_on(measure(arguments, allocations))
}

async fn measure(arguments: &Arguments, allocations: Option<fn() -> u64>) -> Result<(), Box<dyn Error>> {
    let header_type = match arguments.text("header", "auto") {
        "json" => HeaderType::Json,
        "binary" => HeaderType::Binary,
        _ => HeaderType::Auto,
    };
    let client = Client::builder(arguments.required("name_server")).header_type(header_type).connect().await?;
    let load = Load {
        producer: client.producer("bench-producer").start().await?,
        topic: arguments.text("topic", "bench").into(),
        // As a literal would be: sharing it costs nothing, and it lives as long as the program anyway.
        body: Bytes::from_static(vec![b'x'; arguments.number("size", 128)].leak()),
        in_flight: arguments.number("in_flight", 32),
    };
    load.send(arguments.number("warm_up", 0)).await;
    let allocated_before = allocations.map(|count| count());
    let stopwatch = Stopwatch::start();
    let tally = load.send(arguments.number("count", 1)).await;
    let mut outcome = stopwatch.outcome(tally.sent.load(Ordering::Relaxed), tally.failed.load(Ordering::Relaxed));
    outcome.allocations = allocations.zip(allocated_before).map(|(count, before)| count() - before);
    outcome.print();
    Ok(())
}

struct Load {
    producer: Producer,
    topic: Arc<str>,
    body: Bytes,
    in_flight: u64,
}

impl Load {
    async fn send(&self, count: u64) -> Arc<Tally> {
        let tally = Arc::new(Tally::default());
        let callers = (0..self.in_flight).map(|index| {
            let share = count / self.in_flight + u64::from(index < count % self.in_flight);
            let caller =
                Caller { producer: self.producer.clone(), topic: Arc::clone(&self.topic), body: self.body.clone() };
            tokio::spawn(caller.send(share, Arc::clone(&tally)))
        });
        for caller in callers.collect::<Vec<_>>() {
            caller.await.expect("a caller does not panic");
        }
        tally
    }
}

struct Caller {
    producer: Producer,
    topic: Arc<str>,
    body: Bytes,
}

impl Caller {
    async fn send(self, count: u64, tally: Arc<Tally>) {
        let mut failed = 0;
        for _ in 0..count {
            let message = Message::new(Arc::clone(&self.topic), self.body.clone());
            if let Err(error) = self.producer.send(message).await {
                if failed == 0 {
                    eprintln!("a send failed: {error}");
                }
                failed += 1;
            }
        }
        tally.sent.fetch_add(count - failed, Ordering::Relaxed);
        tally.failed.fetch_add(failed, Ordering::Relaxed);
    }
}
