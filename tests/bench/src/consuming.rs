//! Our push consumer under load: it takes a backlog as fast as it comes, and counts.

use std::{
    error::Error,
    hint::black_box,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use rocketmq_native::{Client, ConsumeFrom, MessageView};
use rocketmq_tests::raw;
use rocketmq_wire::message::stored::StoredMessage;
use tokio::{
    sync::Notify,
    time::{self, Instant},
};

use crate::{
    arguments::Arguments,
    memory,
    outcome::{Outcome, Stopwatch},
    stub,
    workload::{connect, runtime},
};

/// What the handlers came to, all together.
#[derive(Debug)]
struct Tally {
    wanted: u64,
    began: Instant,
    /// Until then handlers keep what they have.
    hold: Duration,
    /// How far apart records lie in an answer, where bodies are to be looked for there.
    record_length: Option<usize>,
    consumed: AtomicU64,
    calls: AtomicU64,
    copied: AtomicU64,
    first: OnceLock<(Duration, Stopwatch)>,
    done: OnceLock<Outcome>,
    enough: Notify,
}

impl Tally {
    async fn take(&self, messages: &[MessageView]) {
        let (_, stopwatch) = self.first.get_or_init(|| (self.began.elapsed(), Stopwatch::start()));
        if !self.hold.is_zero() {
            time::sleep_until(self.began + self.hold).await;
        }
        self.calls.fetch_add(1, Ordering::Relaxed);
        if let Some(length) = self.record_length {
            self.copied.fetch_add(copied(messages, length), Ordering::Relaxed);
        }
        let count = messages.len() as u64;
        let consumed = self.consumed.fetch_add(count, Ordering::Relaxed) + count;
        if consumed >= self.wanted {
            self.done.get_or_init(|| stopwatch.outcome(consumed, 0));
            self.enough.notify_one();
        }
    }
}

/// Bytes of bodies that do not lie where they were received: there the body before or behind is a record's length away.
fn copied(messages: &[MessageView], record_length: usize) -> u64 {
    let bodies: Vec<_> = messages.iter().map(MessageView::body).collect();
    let follows = |index: usize| {
        let neighbours = bodies.get(index).zip(bodies.get(index + 1));
        neighbours.is_some_and(|(a, b)| (b.as_ptr() as usize).wrapping_sub(a.as_ptr() as usize) == record_length)
    };
    let is_copied = |index: usize| bodies.len() > 1 && !follows(index) && !(index > 0 && follows(index - 1));
    bodies.iter().enumerate().filter(|(index, _)| is_copied(*index)).map(|(_, body)| body.len() as u64).sum()
}

/// Consumes what the arguments describe and prints the outcome, measured from the first message on.
///
/// `name_server=ADDRESS topic=NAME count=N [group=NAME] [listener=batch|single] [concurrency=20]
/// [header=auto|binary|json] [runtime=current|multi] [tls=no|yes] [cached_bytes=N] [commit_ms=5000] [hold_ms=0]
/// [body=N] [stub=ADDRESS]`
///
/// With `hold_ms` handlers keep what they have for so long at first, and with `cached_bytes` no other limit but that one
/// counts. With `body`, the size of the bodies of the stub's backlog, those are counted that were copied. `stub` is
/// asked how often an offset was stored.
///
/// Counts `calls` of the handler, `copied_bytes`, `first_us` from start to the first message, `grown_bytes` of memory at
/// most, and of the queue whose offset was stored most often `commits` within `running_us`.
///
/// # Errors
///
/// When the consumer cannot be started.
pub fn run(arguments: &Arguments) -> Result<(), Box<dyn Error>> {
    runtime(arguments)?.block_on(measure(arguments))
}

async fn measure(arguments: &Arguments) -> Result<(), Box<dyn Error>> {
    let idle = memory::resident("self")?;
    let client = connect(arguments).await?;
    let topic = arguments.required("topic");
    let body: usize = arguments.number("body", 0);
    let tally = Arc::new(Tally {
        wanted: arguments.number("count", 1),
        began: Instant::now(),
        hold: Duration::from_millis(arguments.number("hold_ms", 0)),
        record_length: (body > 0).then(|| stub::record_length(topic, body)),
        consumed: AtomicU64::new(0),
        calls: AtomicU64::new(0),
        copied: AtomicU64::new(0),
        first: OnceLock::new(),
        done: OnceLock::new(),
        enough: Notify::new(),
    });
    let consumer = start(&client, arguments, &tally).await?;
    tally.enough.notified().await;
    let running = tally.began.elapsed();
    let mut outcome = tally.done.get().cloned().ok_or("no message was consumed")?;
    if let Some(address) = arguments.optional("stub") {
        outcome.add("commits", commits(address)?);
        outcome.add("running_us", running.as_micros() as u64);
    }
    outcome.add("calls", tally.calls.load(Ordering::Relaxed));
    outcome.add("copied_bytes", tally.copied.load(Ordering::Relaxed));
    outcome.add("grown_bytes", memory::peak("self")?.saturating_sub(idle));
    outcome.add("first_us", tally.first.get().map_or(0, |(after, _)| after.as_micros() as u64));
    consumer.shutdown().await?;
    client.close().await;
    outcome.print();
    Ok(())
}

async fn start(
    client: &Client,
    arguments: &Arguments,
    tally: &Arc<Tally>,
) -> rocketmq_native::Result<rocketmq_native::PushConsumer> {
    // A group that was here before would find its offsets at the end.
    let group = arguments.optional("group").map_or_else(|| format!("bench-{}", std::process::id()), str::to_owned);
    let mut builder = client
        .push_consumer(group)
        .subscribe(arguments.required("topic"), "*")
        .consume_from(ConsumeFrom::First)
        .concurrency(arguments.number("concurrency", 20))
        .commit_interval(Duration::from_millis(arguments.number("commit_ms", 5000)));
    let cached_bytes = arguments.number("cached_bytes", 0);
    if cached_bytes > 0 {
        builder = builder.max_cached_bytes(cached_bytes).max_cached_messages(usize::MAX).max_span(i32::MAX as u32);
    }
    let tally = Arc::clone(tally);
    match arguments.text("listener", "batch") {
        "single" => {
            let handler = move |message: MessageView| {
                let tally = Arc::clone(&tally);
                async move { tally.take(&[message]).await }
            };
            builder.start(handler).await
        }
        _ => {
            let handler = move |messages: Vec<MessageView>| {
                let tally = Arc::clone(&tally);
                async move { tally.take(&messages).await }
            };
            builder.start_batch(handler).await
        }
    }
}

/// How often the offset of one queue was stored, of the one with the most.
fn commits(stub: &str) -> Result<u64, String> {
    let answer = raw::ask(stub, stub::RUNTIME_INFO, &[], &[]).map_err(|error| format!("asking the stub: {error}"))?;
    let commits = serde_json::from_slice::<serde_json::Value>(&answer.body).ok().and_then(|body| {
        let counts = body["table"].as_object()?;
        counts.values().filter_map(|count| count.as_str()?.parse().ok()).max()
    });
    commits.ok_or_else(|| "no offset was stored".to_owned())
}

/// Reads the answer to a pull of 32 messages as a consumer does, again and again: `count=N [size=128]`.
///
/// # Errors
///
/// When a record cannot be read.
pub fn decode(arguments: &Arguments) -> Result<(), Box<dyn Error>> {
    let answer = Bytes::from(stub::answer("bench", arguments.number("size", 128), 32));
    let count: u64 = arguments.number("count", 32);
    let stopwatch = Stopwatch::start();
    let mut decoded = 0;
    while decoded < count {
        let mut rest = answer.clone();
        while let Some(size) = rest.first_chunk().map(|size| u32::from_be_bytes(*size) as usize) {
            let (message, _) = StoredMessage::parse(rest.split_to(size))?;
            black_box((message.queue_offset(), message.sys_flag()));
            decoded += 1;
        }
    }
    stopwatch.outcome(decoded, 0).print();
    Ok(())
}
