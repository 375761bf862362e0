//! The peer under the load that `bench-client` puts on ours: the same arguments, the same line at the end.
//! `bench-peer-rust name_server=ADDRESS count=N [warm_up=N] [in_flight=32] [topic=bench] [size=128]`.

#![recursion_limit = "256"]

use std::{
    collections::HashMap,
    error::Error,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Instant,
};

use cpu_time::ProcessTime;
use rocketmq_client_rust::{ClientRuntime, ClientRuntimeConfig, DefaultMQProducer};
use rocketmq_model::common::message::message_single::Message;
use rocketmq_observability::TelemetryRuntimeGuard;
use rocketmq_runtime::RuntimeOwner;

/// How many were acknowledged, and how many failed.
#[derive(Default)]
struct Tally {
    sent: AtomicU64,
    failed: AtomicU64,
}

struct Load {
    producer: DefaultMQProducer,
    topic: String,
    body: Vec<u8>,
    in_flight: u64,
}

impl Load {
    /// Sends `count` messages from as many tasks as are to be in flight.
    async fn send(&self, count: u64) -> Arc<Tally> {
        let tally = Arc::new(Tally::default());
        let tasks = (0..self.in_flight).map(|index| {
            let share = count / self.in_flight + u64::from(index < count % self.in_flight);
            let (producer, tally) = (self.producer.clone(), Arc::clone(&tally));
            let (topic, body) = (self.topic.clone(), self.body.clone());
            tokio::spawn(async move {
                for _ in 0..share {
                    let message = Message::new(topic.as_str(), &body);
                    let counter = match producer.send(message).await {
                        Ok(Some(_)) => &tally.sent,
                        _ => &tally.failed,
                    };
                    counter.fetch_add(1, Ordering::Relaxed);
                }
            })
        });
        for task in tasks.collect::<Vec<_>>() {
            task.await.expect("the peer does not panic");
        }
        tally
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: HashMap<String, String> = std::env::args()
        .skip(1)
        .filter_map(|word| word.split_once('=').map(|(key, value)| (key.to_owned(), value.to_owned())))
        .collect();
    let text = |key: &str, otherwise: &str| arguments.get(key).map_or(otherwise.to_owned(), Clone::clone);
    let number = |key: &str, otherwise: u64| arguments.get(key).map_or(Ok(otherwise), |text| text.parse());
    let (count, warm_up) = (number("count", 1)?, number("warm_up", 0)?);
    let (in_flight, size) = (number("in_flight", 32)?, number("size", 128)?);

    let owner = RuntimeOwner::new()?;
    let telemetry = TelemetryRuntimeGuard::noop();
    let runtime = ClientRuntime::try_new(
        owner.root_context().component("bench"),
        ClientRuntimeConfig::default(),
        telemetry.handle(),
    )?;
    owner.block_on(async {
        let mut producer = DefaultMQProducer::builder(runtime.clone())
            .producer_group("bench-producer")
            .name_server_addr(text("name_server", "127.0.0.1:9876"))
            .build();
        producer.start().await?;
        let load =
            Load { producer, topic: text("topic", "bench"), body: vec![b'x'; size as usize], in_flight };
        load.send(warm_up).await;
        let (started, started_cpu) = (Instant::now(), ProcessTime::now());
        let tally = load.send(count).await;
        let (elapsed, cpu) = (started.elapsed(), started_cpu.elapsed());
        println!(
            "{{\"job\":0,\"event\":\"done\",\"sent\":{},\"failed\":{},\"elapsed_us\":{},\"cpu_us\":{}}}",
            tally.sent.load(Ordering::Relaxed),
            tally.failed.load(Ordering::Relaxed),
            elapsed.as_micros(),
            cpu.as_micros()
        );
        Ok::<_, Box<dyn Error>>(())
    })?;
    // What was asked for is printed; how the peer shuts down is not measured.
    std::process::exit(0);
}
