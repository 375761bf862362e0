//! Tools for store directories.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rocketmq_mock_broker::files::{self, StoreFiles};
use rocketmq_mock_broker::{Compatibility, MessageView, MockBroker, Outgoing};
use serde::Deserialize;

use crate::{Failure, USAGE};

/// Between two looks for what is new.
const FOLLOW_INTERVAL: Duration = Duration::from_millis(200);

/// Prints what a store holds as JSON lines: messages in the order of the log, then offsets.
pub(crate) fn dump(directory: &Path, topic: Option<&str>, follow: bool) -> Result<(), Failure> {
    let failed = |error: std::io::Error| (1, error.to_string());
    let store = StoreFiles::open(directory).map_err(failed)?;
    let mut out = std::io::stdout().lock();
    let mut position = store.begin();
    let print = |position: &mut u64, out: &mut dyn Write| -> std::io::Result<()> {
        *position = store.messages(*position, &mut |message| {
            if topic.is_none_or(|topic| topic == message.topic) {
                writeln!(out, "{}", serde_json::json!({ "message": message }))?;
            }
            Ok(())
        })?;
        out.flush()
    };
    let printed = print(&mut position, &mut out).and_then(|()| {
        for (name, value) in store.settings()? {
            if topic.is_none() {
                writeln!(out, "{}", serde_json::json!({ name: value }))?;
            }
        }
        out.flush()?;
        if !follow {
            return Ok(());
        }
        loop {
            std::thread::sleep(FOLLOW_INTERVAL);
            print(&mut position, &mut out)?;
        }
    });
    match printed {
        // Whoever reads has read enough.
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        printed => printed.map_err(failed),
    }
}

/// Checks a store's files.
pub(crate) fn verify(directory: &Path) -> Result<(), Failure> {
    let report = files::verify(directory).map_err(|error| (1, error.to_string()))?;
    for finding in &report.findings {
        println!("{finding}");
    }
    println!("{} messages, {} queue entries, {} files", report.messages, report.queue_entries, report.files);
    match report.findings.len() {
        0 => Ok(()),
        count => Err((1, format!("{count} things are wrong in {}", directory.display()))),
    }
}

/// A line of a dump: messages are put, the rest is passed over.
#[derive(Deserialize)]
struct Line {
    message: Option<MessageView>,
}

/// Puts the messages of a file into a store.
pub(crate) fn load(file: &Path, store: PathBuf, compatibility: Compatibility) -> Result<(), Failure> {
    let failed = |error: String| (1, error);
    let input: Box<dyn Read> = if file == Path::new("-") {
        Box::new(std::io::stdin())
    } else {
        Box::new(std::fs::File::open(file).map_err(|error| (USAGE, format!("{}: {error}", file.display())))?)
    };
    let builder = MockBroker::builder().store_directory(store).compatibility(compatibility).journal(0);
    let broker = builder.start_blocking().map_err(|error| failed(error.to_string()))?;
    let mut count = 0;
    for (number, line) in (1..).zip(BufReader::new(input).lines()) {
        let line = line.map_err(|error| failed(error.to_string()))?;
        if line.trim().is_empty() {
            continue;
        }
        let line: Line = serde_json::from_str(&line).map_err(|error| failed(format!("line {number}: {error}")))?;
        let Some(message) = line.message.filter(files::is_of_clients) else { continue };
        broker.put(outgoing(message)).map_err(|error| failed(format!("line {number}: {error}")))?;
        count += 1;
    }
    broker.stop_blocking().map_err(|error| failed(error.to_string()))?;
    println!("{count} messages loaded");
    Ok(())
}

/// A message as it was stored, to be stored at once: its delay is over.
fn outgoing(mut message: MessageView) -> Outgoing {
    for name in ["DELAY", "TIMER_DELIVER_MS", "TIMER_DELAY_SEC", "TIMER_DELAY_MS", "REAL_TOPIC", "REAL_QID"] {
        message.properties.remove(name);
    }
    Outgoing {
        queue: Some(message.queue),
        body: message.body,
        properties: message.properties,
        flag: message.flag,
        topic: message.topic,
        ..Outgoing::default()
    }
}
