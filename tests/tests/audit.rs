//! Numbered messages are consumed by processes that are killed, paused, stopped and cut off, from a broker that is killed,
//! paused and started again: none may be missing, in order none may come before one that lies before it, and no more may
//! come twice than can have been uncommitted.
//!
//! The schedule follows from a seed. `FULL=1` makes it ten times as long.

use std::{
    collections::{BTreeMap, BTreeSet},
    process::Command,
    sync::{Arc, Mutex},
    time::Duration,
};

use rocketmq_native::{Client, Message, SendOptions};
use rocketmq_tests::{
    cache,
    mock_process::MockProcess,
    process::Process,
    proxy::Proxy,
    scenario::{is_full, scaled},
};
use tokio::{
    task::JoinSet,
    time::{sleep, timeout},
};

const LANES: usize = 4;

/// What a consumer has in memory of a queue at most, which is what may come again after a fault.
const UNCOMMITTED: usize = 2000;

/// The way of some consumers to name server and broker, which can be cut.
struct Line {
    name_server: Proxy,
    broker: Proxy,
}

impl Line {
    async fn start(name_server: &str, broker: &str) -> Self {
        let to_broker = Proxy::start(broker).await;
        let texts = vec![(broker.to_owned(), to_broker.address())];
        Self { name_server: Proxy::rewriting(name_server, texts).await, broker: to_broker }
    }

    async fn cut_for(&self, time: Duration) {
        self.name_server.cut();
        self.broker.cut();
        sleep(time).await;
        self.name_server.mend();
        self.broker.mend();
    }
}

/// One message handled: when, in which lane, and its number.
type Handled = (u128, String, usize);

/// Consumers, by number, and what they all have told.
struct Audit {
    /// Consumers take turns.
    lines: Vec<Line>,
    group: String,
    order: &'static str,
    told: Arc<Mutex<Vec<Handled>>>,
    consumers: BTreeMap<usize, Process>,
    next: usize,
}

impl Audit {
    fn join(&mut self) {
        let number = self.next;
        self.next += 1;
        let directory = cache::run_directory(&format!("audit-{number}"));
        let mut command = Command::new(env!("CARGO_BIN_EXE_audited_consumer"));
        let name_server = self.lines[number % self.lines.len()].name_server.address();
        command.args([&name_server, &self.group, "audit", self.order]);
        let told = Arc::clone(&self.told);
        let name = format!("consumer {number}");
        let process = Process::start(&name, &mut command, &directory.join("consumer.log"), move |line| {
            let mut words = line.split(' ');
            let (Some(time), Some(lane), Some(key)) = (words.next(), words.next(), words.next()) else { return };
            // A line that a killed process has not finished tells nothing.
            if let (Ok(time), Ok(number)) = (time.parse(), key.parse()) {
                told.lock().expect("no panic in here").push((time, lane.to_owned(), number));
            }
        });
        self.consumers.insert(number, process);
    }

    fn any(&mut self, draw: usize) -> usize {
        *self.consumers.keys().nth(draw % self.consumers.len()).expect("there are some")
    }
}

fn signal(process: u32, signal: &str) {
    let status = Command::new("sh").args(["-c", &format!("kill -{signal} {process}")]).status();
    assert!(status.expect("a system has a shell").success(), "process {process} runs no more");
}

/// Sends all messages, those of a lane one after the other, each until it is acknowledged; a message may be stored twice
/// then, which counts as once.
async fn send_all(name_server: String, count: usize) {
    let client = Client::builder(name_server.as_str()).connect().await.expect("the client connects");
    let producer = client.producer("audit-sender").start().await.expect("the producer starts");
    let mut lanes = JoinSet::new();
    for lane in 0..LANES {
        let producer = producer.clone();
        lanes.spawn(async move {
            let name = format!("lane-{lane}");
            for number in (lane..count).step_by(LANES) {
                let message = Message::new("audit", "x").key(number.to_string()).property("lane", name.as_str());
                while producer.send_with(message.clone(), SendOptions::new().key(&name)).await.is_err() {
                    sleep(Duration::from_millis(100)).await;
                }
            }
        });
    }
    lanes.join_all().await;
    producer.shutdown().await;
    client.close().await;
}

async fn audit(order: &'static str, seed: u64, count: usize, faults: usize) {
    let mut broker = MockProcess::start(&[]);
    let name_server = broker.addresses().name_server.clone();
    rocketmq_tests::apache::create_topic(&name_server, &broker.addresses().broker, "audit", LANES as u32);
    let mut random = seed;
    let mut draw = move || {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) as usize
    };
    let told = Arc::new(Mutex::new(Vec::new()));
    let group = format!("audit-{order}");
    let mut lines = Vec::new();
    for _ in 0..2 {
        lines.push(Line::start(&name_server, &broker.addresses().broker).await);
    }
    let mut audit = Audit { lines, group, order, told: Arc::clone(&told), consumers: BTreeMap::new(), next: 0 };
    (0..3).for_each(|_| audit.join());
    let sending = tokio::spawn(send_all(name_server, count));
    for fault in 0..faults {
        sleep(Duration::from_millis(400 + draw() as u64 % 800)).await;
        // Every kind once, then as drawn.
        match if fault < 6 { fault } else { draw() % 6 } {
            0 => {
                let number = audit.any(draw());
                audit.consumers.remove(&number).expect("it runs").kill();
                audit.join();
            }
            1 => {
                let number = audit.any(draw());
                let process = audit.consumers[&number].id();
                signal(process, "STOP");
                sleep(Duration::from_secs(2)).await;
                signal(process, "CONT");
            }
            2 => {
                let number = audit.any(draw());
                let mut leaving = audit.consumers.remove(&number).expect("it runs");
                let status = tokio::task::block_in_place(|| leaving.finish(Duration::from_secs(60)));
                assert!(status.success(), "it leaves in good order: {status}\n{}", leaving.log_tail());
                audit.join();
            }
            3 => {
                let process = broker.id().expect("it runs");
                signal(process, "STOP");
                sleep(Duration::from_secs(2)).await;
                signal(process, "CONT");
            }
            4 => audit.lines[draw() % 2].cut_for(Duration::from_millis(1000 + draw() as u64 % 4000)).await,
            _ => tokio::task::block_in_place(|| {
                broker.kill();
                broker.start_again();
            }),
        }
    }
    let limit = Duration::from_secs(if is_full() { 1800 } else { 300 });
    timeout(limit, sending).await.expect("all are sent in time").expect("the sender ends");
    let missing = || {
        let told = told.lock().expect("no panic in here");
        let seen: BTreeSet<usize> = told.iter().map(|(.., number)| *number).collect();
        (0..count).filter(|number| !seen.contains(number)).collect::<Vec<_>>()
    };
    let all = async {
        while !missing().is_empty() {
            sleep(Duration::from_millis(100)).await;
        }
    };
    let arrived = timeout(limit, all).await;
    assert!(arrived.is_ok(), "{order}, seed {seed}: these are missing: {:?}", missing());
    for (_, mut consumer) in audit.consumers {
        let status = tokio::task::block_in_place(|| consumer.finish(Duration::from_secs(60)));
        assert!(status.success(), "{status}\n{}", consumer.log_tail());
    }
    let mut told = told.lock().expect("no panic in here").clone();
    told.sort();
    let again = told.len() - count;
    println!("{order}: {count} messages, {faults} faults, {again} deliveries more than messages");
    assert!(again <= faults * LANES * UNCOMMITTED, "{again} came again after {faults} faults");
    if order == "ordered" {
        let mut newest = BTreeMap::<String, usize>::new();
        let mut seen = BTreeSet::new();
        for (_, lane, number) in told.into_iter().filter(|(.., number)| seen.insert(*number)) {
            let before = newest.insert(lane.clone(), number);
            assert!(before.is_none_or(|before| before < number), "{lane}: {number} came first after {before:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_lost_whatever_fails() {
    audit("free", 11, scaled(20_000), scaled(8)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn order_is_kept_whatever_fails() {
    audit("ordered", 12, scaled(8_000), scaled(6)).await;
}
