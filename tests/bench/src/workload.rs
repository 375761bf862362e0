//! Our client under load: a number of callers, each of which sends its share of the messages one after another.

use std::{
    error::Error,
    io,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use bytes::Bytes;
use rocketmq_native::{Client, Message, Producer, Tls, remoting::HeaderType};
use tokio::runtime::Runtime;

use crate::{arguments::Arguments, memory, outcome::Stopwatch};

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
/// [topic=bench] [size=128] [linger_ms=0] [max_batch_bytes=65536] [producers=1] [small=0] [tls=no|yes]`
///
/// Bodies are text that compresses as text does. With `small`, so many small messages are sent one after another beside
/// the load, and the outcome tells how long the slowest hundredth of them took.
///
/// # Errors
///
/// When the client cannot be started.
pub fn run(arguments: &Arguments, allocations: Option<fn() -> u64>) -> Result<(), Box<dyn Error>> {
    runtime(arguments)?.block_on(measure(arguments, allocations))
}

/// The runtime that the arguments ask for.
pub(crate) fn runtime(arguments: &Arguments) -> io::Result<Runtime> {
    let mut runtime = match arguments.text("runtime", "multi") {
        "current" => tokio::runtime::Builder::new_current_thread(),
        _ => tokio::runtime::Builder::new_multi_thread(),
    };
    runtime.enable_all().build()
}

/// The client that the arguments ask for. Encrypted connections take any certificate: a broker of the bench makes its own.
pub(crate) async fn connect(arguments: &Arguments) -> rocketmq_native::Result<Client> {
    let header_type = match arguments.text("header", "auto") {
        "json" => HeaderType::Json,
        "binary" => HeaderType::Binary,
        _ => HeaderType::Auto,
    };
    let mut builder = Client::builder(arguments.required("name_server")).header_type(header_type);
    if arguments.text("tls", "no") == "yes" {
        builder = builder.tls(Tls::new().danger_accept_any_server());
    }
    builder.connect().await
}

async fn measure(arguments: &Arguments, allocations: Option<fn() -> u64>) -> Result<(), Box<dyn Error>> {
    let idle = memory::resident("self")?;
    let client = connect(arguments).await?;
    let mut producers = Vec::new();
    for _ in 0..arguments.number("producers", 1).max(1) {
        let builder = client.producer("bench-producer").linger(Duration::from_millis(arguments.number("linger_ms", 0)));
        producers.push(builder.max_batch_bytes(arguments.number("max_batch_bytes", 64 * 1024)).start().await?);
    }
    let load = Load {
        producers,
        topic: arguments.text("topic", "bench").into(),
        // As a literal would be: sharing it costs nothing, and it lives as long as the program anyway.
        body: Bytes::from_static(text(arguments.number("size", 128)).leak()),
        in_flight: arguments.number("in_flight", 32),
    };
    load.send(arguments.number("warm_up", 0)).await;
    let allocated_before = allocations.map(|count| count());
    let stopwatch = Stopwatch::start();
    let small = tokio::spawn(probe(load.producers[0].clone(), Arc::clone(&load.topic), arguments.number("small", 0)));
    let tally = load.send(arguments.number("count", 1)).await;
    let slowest = small.await?;
    let mut outcome = stopwatch.outcome(tally.sent.load(Ordering::Relaxed), tally.failed.load(Ordering::Relaxed));
    outcome.add("grown_bytes", memory::peak("self")?.saturating_sub(idle));
    if let Some((count, before)) = allocations.zip(allocated_before) {
        outcome.add("allocations", count() - before);
    }
    if let Some(slowest) = slowest {
        outcome.add("slowest_hundredth_us", slowest.as_micros() as u64);
    }
    outcome.print();
    Ok(())
}

/// Words over and over, with numbers between them.
fn text(size: usize) -> Vec<u8> {
    (0u32..).flat_map(|line| format!("line {line} of what is sent; ").into_bytes()).take(size).collect()
}

/// Sends small messages one after another, and tells how long all but the slowest hundredth of them took at most.
async fn probe(producer: Producer, topic: Arc<str>, count: usize) -> Option<Duration> {
    let mut times = Vec::with_capacity(count);
    for _ in 0..count {
        let began = Instant::now();
        producer.send(Message::new(Arc::clone(&topic), "small")).await.ok()?;
        times.push(began.elapsed());
    }
    times.sort_unstable();
    times.get(count * 99 / 100).copied()
}

struct Load {
    producers: Vec<Producer>,
    topic: Arc<str>,
    body: Bytes,
    in_flight: u64,
}

impl Load {
    async fn send(&self, count: u64) -> Arc<Tally> {
        let tally = Arc::new(Tally::default());
        let callers = (0..self.in_flight).map(|index| {
            let share = count / self.in_flight + u64::from(index < count % self.in_flight);
            let producer = self.producers[index as usize % self.producers.len()].clone();
            let caller = Caller { producer, topic: Arc::clone(&self.topic), body: self.body.clone() };
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
