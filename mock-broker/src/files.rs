//! Store directories, ours or Apache's, looked at without opening them: nothing is changed, and a broker may run on them.

mod log;
mod verify;

use std::io;
use std::path::{Path, PathBuf};

use rocketmq_wire::message::{LogEntry, names};
use serde_json::Value;

pub use verify::{Finding, Report, verify};

use crate::content::MessageView;
use log::Log;

/// The files of a store.
#[derive(Debug)]
pub struct StoreFiles {
    directory: PathBuf,
}

impl StoreFiles {
    /// Looks at a directory.
    ///
    /// # Errors
    ///
    /// When it has no `commitlog`.
    pub fn open(directory: &Path) -> io::Result<Self> {
        let log = directory.join("commitlog");
        if !log.is_dir() {
            let text = format!("{} is no store: it has no commitlog", directory.display());
            return Err(io::Error::new(io::ErrorKind::NotFound, text));
        }
        Ok(StoreFiles { directory: directory.to_owned() })
    }

    /// Where the log begins.
    #[must_use]
    pub fn begin(&self) -> u64 {
        Log::open(&self.directory).map_or(0, |log| log.begin())
    }

    /// Hands every message from a position of the log on to `each`, and returns where the next one will be.
    ///
    /// # Errors
    ///
    /// Files that cannot be read, records that are none, and what `each` returns.
    pub fn messages(&self, from: u64, each: &mut dyn FnMut(MessageView) -> io::Result<()>) -> io::Result<u64> {
        let log = Log::open(&self.directory)?;
        let mut position = from.max(log.begin());
        let mut buffer = Vec::new();
        loop {
            match log.entry(position, &mut buffer)? {
                Some(Ok(LogEntry::Record(record))) => {
                    each(MessageView::new(&record))?;
                    position += record.size() as u64;
                }
                Some(Ok(LogEntry::EndOfFile { .. })) => position = log.next_file(position),
                Some(Ok(LogEntry::Unwritten)) | None => return Ok(position),
                Some(Err(error)) => {
                    let place = log.place(position);
                    return Err(io::Error::new(io::ErrorKind::InvalidData, format!("{place}: {error}")));
                }
            }
        }
    }

    /// The settings that a store keeps beside its messages, by name: topics, groups, offsets of consumers and of delays.
    ///
    /// # Errors
    ///
    /// Files that cannot be read, or are not what they should be.
    pub fn settings(&self) -> io::Result<Vec<(String, Value)>> {
        let files = ["topics", "subscriptionGroup", "consumerOffset", "delayOffset"];
        let mut settings = Vec::new();
        for name in files {
            let path = self.directory.join("config").join(format!("{name}.json"));
            match std::fs::read(&path) {
                Ok(bytes) => settings.push((name.to_owned(), json(&path, &bytes)?)),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        Ok(settings)
    }
}

/// Reads a file in the dialect of JSON that Apache writes.
fn json(path: &Path, bytes: &[u8]) -> io::Result<Value> {
    rocketmq_wire::fastjson::from_slice("the file", bytes)
        .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, format!("{}: {error}", path.display())))
}

/// Whether a client sent it, rather than the broker to itself.
#[must_use]
pub fn is_of_clients(message: &MessageView) -> bool {
    let topic = message.topic.as_str();
    !names::is_system_topic(topic) && !topic.starts_with(names::SYSTEM_TOPIC_PREFIX)
}
