//! Checks every file of a store.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use rocketmq_wire::message::{LogEntry, names};

use super::json;
use super::log::{Log, numbered};

/// Bytes of an entry of a consume queue.
const ENTRY: usize = 20;

/// Bytes of the head of an index file.
const INDEX_HEAD: usize = 40;

/// More findings than these are not listed one by one.
const MOST_FINDINGS: usize = 1000;

/// Something that is wrong in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The file.
    pub file: PathBuf,
    /// Where in the file, in bytes.
    pub offset: u64,
    /// What is wrong.
    pub what: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at offset {}: {}", self.file.display(), self.offset, self.what)
    }
}

/// What a check saw.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// Messages in the log.
    pub messages: u64,
    /// Entries in consume queues.
    pub queue_entries: u64,
    /// Files that were looked at.
    pub files: u64,
    /// What is wrong, the first 1000 of it.
    pub findings: Vec<Finding>,
}

impl Report {
    fn wrong(&mut self, file: &Path, offset: u64, what: impl Into<String>) {
        if self.findings.len() < MOST_FINDINGS {
            self.findings.push(Finding { file: file.to_owned(), offset, what: what.into() });
        }
    }
}

/// Checks a store directory, ours or Apache's: that every record of the log is whole and where it says it is, that every entry of
/// a queue leads to its message, and that indexes, checkpoint and settings can be read. Changes nothing.
///
/// # Errors
///
/// A directory that is no store, and files that cannot be read at all.
pub fn verify(directory: &Path) -> io::Result<Report> {
    super::StoreFiles::open(directory)?;
    let mut report = Report::default();
    let log = Log::open(directory)?;
    let end = check_log(directory, &log, &mut report)?;
    check_queues(directory, &log, end, &mut report)?;
    check_indexes(directory, end, &mut report)?;
    check_settings(directory, &mut report)?;
    Ok(report)
}

/// Walks the log and returns where it ends.
fn check_log(directory: &Path, log: &Log, report: &mut Report) -> io::Result<u64> {
    report.files += log.file_count() as u64;
    let files = numbered(&directory.join("commitlog"))?;
    for pair in files.windows(2) {
        if pair[0].0 + pair[0].1 != pair[1].0 {
            report.wrong(&pair[1].2, 0, format!("does not continue {}", pair[0].2.display()));
        }
    }
    let mut position = log.begin();
    let mut buffer = Vec::new();
    loop {
        let file = files.iter().find(|(base, length, _)| (*base..base + length).contains(&position));
        let Some((base, length, path)) = file else { return Ok(position) };
        let offset = position - base;
        match log.entry(position, &mut buffer)? {
            None => return Ok(position),
            Some(Ok(LogEntry::Unwritten)) => {
                if base + length < files.last().map_or(0, |(base, length, _)| base + length)
                    && !is_untouched(&files, base + length)?
                {
                    report.wrong(path, offset, "nothing is written here, but a later file has messages");
                }
                return Ok(position);
            }
            Some(Ok(LogEntry::EndOfFile { size })) => {
                if offset + size as u64 != *length {
                    report.wrong(path, offset, format!("a filler of {size} bytes that does not end with the file"));
                }
                position = base + length;
            }
            Some(Ok(LogEntry::Record(record))) => {
                report.messages += 1;
                if u64::try_from(record.physical_offset()) != Ok(position) {
                    report.wrong(path, offset, format!("a record that says it is at {}", record.physical_offset()));
                }
                if let Err(error) = record.verify_crc() {
                    report.wrong(path, offset, format!("message of `{}`: {error}", record.topic()));
                }
                position += record.size() as u64;
            }
            Some(Err(error)) => {
                report.wrong(path, offset, format!("no record: {error}; the log ends here"));
                return Ok(position);
            }
        }
    }
}

/// Whether files from a position on begin with zeros, as files do that were made ahead.
fn is_untouched(files: &[(u64, u64, PathBuf)], from: u64) -> io::Result<bool> {
    for (base, _, path) in files {
        if *base >= from {
            let mut head = [0; 8];
            let read = io::Read::read(&mut std::fs::File::open(path)?, &mut head)?;
            if head[..read].iter().any(|byte| *byte != 0) {
                return Ok(false);
            }
        }
    }
    Ok(true)
}

fn directories(path: &Path) -> io::Result<Vec<(String, PathBuf)>> {
    let mut found = Vec::new();
    if path.is_dir() {
        for entry in std::fs::read_dir(path)? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                found.push((entry.file_name().to_string_lossy().into_owned(), entry.path()));
            }
        }
    }
    found.sort();
    Ok(found)
}

fn check_queues(directory: &Path, log: &Log, end: u64, report: &mut Report) -> io::Result<()> {
    let mut buffer = Vec::new();
    for (topic, path) in directories(&directory.join("consumequeue"))? {
        for (queue, path) in directories(&path)? {
            let Ok(queue) = queue.parse::<i32>() else { continue };
            for (base, _, path) in numbered(&path)? {
                report.files += 1;
                let bytes = std::fs::read(&path)?;
                for (index, entry) in bytes.chunks_exact(ENTRY).enumerate() {
                    let number = |from: usize, length: usize| {
                        entry[from..from + length].iter().fold(0_u64, |number, byte| (number << 8) | u64::from(*byte))
                    };
                    let (position, size, tags_code) = (number(0, 8), number(8, 4), number(12, 8) as i64);
                    let offset = (index * ENTRY) as u64;
                    // Nothing yet, or a filler before the first message.
                    if size == 0 || size == i32::MAX as u64 {
                        continue;
                    }
                    report.queue_entries += 1;
                    if position < log.begin() {
                        continue;
                    }
                    if position >= end {
                        report.wrong(&path, offset, format!("leads to {position}, but the log ends at {end}"));
                        continue;
                    }
                    let Some(Ok(LogEntry::Record(record))) = log.entry(position, &mut buffer)? else {
                        report.wrong(&path, offset, format!("leads to {position}, where no message is"));
                        continue;
                    };
                    let queue_offset = (base + offset) / ENTRY as u64;
                    let is = (record.topic(), record.queue_id(), record.queue_offset(), record.size() as u64);
                    let wanted = (topic.as_str(), queue, queue_offset as i64, size);
                    if is != wanted {
                        let text = format!("leads to message {is:?}, wants topic, queue, offset, size {wanted:?}");
                        report.wrong(&path, offset, text);
                    } else if record.tags_code() != tags_code && topic != names::SCHEDULE_TOPIC {
                        report.wrong(
                            &path,
                            offset,
                            format!("tag hash {tags_code}, the message's is {}", record.tags_code()),
                        );
                    }
                }
            }
        }
    }
    Ok(())
}

fn check_indexes(directory: &Path, end: u64, report: &mut Report) -> io::Result<()> {
    let path = directory.join("index");
    if !path.is_dir() {
        return Ok(());
    }
    for (_, length, path) in numbered(&path)? {
        report.files += 1;
        let mut head = [0; INDEX_HEAD];
        if length < INDEX_HEAD as u64 {
            report.wrong(&path, 0, format!("an index of {length} bytes has no head"));
            continue;
        }
        io::Read::read_exact(&mut std::fs::File::open(&path)?, &mut head)?;
        let number =
            |from: usize| head[from..from + 8].iter().fold(0_u64, |number, byte| (number << 8) | u64::from(*byte));
        let (first, last) = (number(16), number(24));
        let count = u32::from_be_bytes([head[36], head[37], head[38], head[39]]);
        if first > last {
            report.wrong(&path, 16, format!("an index from {first} to {last}"));
        }
        if last > end {
            report.wrong(&path, 24, format!("an index up to {last}, but the log ends at {end}"));
        }
        if u64::from(count) * 20 > length {
            report.wrong(&path, 36, format!("{count} entries do not fit {length} bytes"));
        }
    }
    Ok(())
}

fn check_settings(directory: &Path, report: &mut Report) -> io::Result<()> {
    let checkpoint = directory.join("checkpoint");
    if let Ok(bytes) = std::fs::read(&checkpoint) {
        report.files += 1;
        if bytes.len() < 24 {
            report.wrong(&checkpoint, 0, format!("{} bytes are no checkpoint", bytes.len()));
        }
    }
    let path = directory.join("config");
    if path.is_dir() {
        for entry in std::fs::read_dir(path)? {
            let path = entry?.path();
            if path.extension().is_some_and(|extension| extension == "json") {
                report.files += 1;
                if let Err(error) = json(&path, &std::fs::read(&path)?) {
                    report.wrong(&path, 0, error.to_string());
                }
            }
        }
    }
    Ok(())
}
