//! Opens what a store left on disk: finds where its data ends, cuts off what is torn, and brings the queues up to date.
//!
//! A killed process loses nothing that was committed, because mapped pages belong to the operating system; only
//! the record being written can be torn. A power failure can lose what was not flushed, at most the last seconds.
//! So it is enough to look at the last files, and to dispatch again what is in them.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::path::Path;

use rocketmq_wire::message::record::END_OF_FILE_SIZE;
use rocketmq_wire::message::stored::{LogEntry, RecordView};

use crate::store::consume_queue::{ConsumeQueue, ENTRY_SIZE, Entry};
use crate::store::error::StoreError;
use crate::store::file_sequence::{FileSequence, Layout, Listing, file_path};
use crate::store::queues::Queues;

/// How many of the last files are looked at after a store was not closed.
const SUSPECT_FILES: usize = 3;
/// The log is read in pieces of this size.
const READ_AT_ONCE: usize = 512 << 10;
/// A size beyond this is no record, whatever follows it.
const LARGEST_RECORD: usize = 256 << 20;

/// The commit log as it was found.
#[derive(Debug)]
pub(super) struct FoundLog {
    pub(super) files: FileSequence,
    /// Where the files begin that were looked at, which are the ones to dispatch again if the store was not closed.
    pub(super) suspect_from: u64,
}

/// Opens the log's files: those in which it ends are read, and everything from the first byte that is no record on is
/// cut off. After a crash these are the files with messages stored since `suspect_since` (milliseconds since 1970), at
/// least the last three; it is none if the store was closed.
///
/// # Errors
///
/// When files cannot be read or cut, or do not make a sequence.
pub(super) fn open_log(
    mut layout: Layout,
    directory: &Path,
    suspect_since: Option<i64>,
) -> Result<FoundLog, StoreError> {
    let listing = Listing::read(directory)?;
    let Some(&first) = listing.bases.first() else {
        return Ok(FoundLog { files: FileSequence::new(layout, 0), suspect_from: 0 });
    };
    adopt_size(&mut layout, &listing, directory);
    let was_closed = suspect_since.is_none();
    let suspects = if was_closed { 1 } else { SUSPECT_FILES };
    let mut suspect = listing.bases.len().saturating_sub(suspects);
    if let Some(since) = suspect_since {
        while suspect > 0
            && first_store_time(&file_path(directory, listing.bases[suspect]))?.is_none_or(|time| time > since)
        {
            suspect -= 1;
        }
    }
    let mut last = suspect;
    let mut written = 0;
    for (index, &base) in listing.bases.iter().enumerate().skip(suspect) {
        let found = end_of_records(&file_path(directory, base), base)?;
        (last, written) = (index, found.written);
        if !found.is_full {
            break;
        }
    }
    cut(directory, &listing, last, written, was_closed)?;
    let files = FileSequence::existing(layout, first, last + 1, written);
    Ok(FoundLog { files, suspect_from: listing.bases[suspect] })
}

/// Returns when the first message of a log file was stored; none if it does not begin with one.
fn first_store_time(path: &Path) -> Result<Option<i64>, StoreError> {
    let read = || {
        let mut reader = BufReader::new(File::open(path)?);
        let mut record = Vec::new();
        reader.by_ref().take(4).read_to_end(&mut record)?;
        let length = record.first_chunk().map_or(0, |length| i32::from_be_bytes(*length));
        let length = usize::try_from(length).unwrap_or(0).min(LARGEST_RECORD);
        reader.take(length.saturating_sub(record.len()) as u64).read_to_end(&mut record)?;
        Ok(RecordView::parse(&record).ok().map(|record| record.store_timestamp()))
    };
    read().map_err(StoreError::io("cannot read the commit log", path))
}

/// Where the records of one file end.
struct EndOfRecords {
    written: usize,
    /// Whether a filler ends the file, so that the log goes on in the next one.
    is_full: bool,
}

/// Reads a log file record by record up to the first thing that is none.
///
/// Reads, not maps: on a full disk a hole in the file cannot be mapped in.
fn end_of_records(path: &Path, base: u64) -> Result<EndOfRecords, StoreError> {
    let read = || {
        let mut file = File::open(path)?;
        let size = file.metadata()?.len() as usize;
        let mut window = Window { bytes: Vec::new(), from: 0 };
        let mut at = 0;
        while at < size {
            let head = window.at_least(&mut file, END_OF_FILE_SIZE)?;
            let length = head.first_chunk::<4>().map_or(0, |length| i32::from_be_bytes(*length));
            let length = usize::try_from(length).unwrap_or(0);
            if length < END_OF_FILE_SIZE || length > size - at || length > LARGEST_RECORD {
                break;
            }
            let entry = window.at_least(&mut file, length)?;
            match entry.get(..length).map(LogEntry::parse) {
                Some(Ok(LogEntry::EndOfFile { size: filler })) if at + filler == size => {
                    return Ok(EndOfRecords { written: size, is_full: true });
                }
                Some(Ok(LogEntry::Record(found)))
                    if u64::try_from(found.physical_offset()) == Ok(base + at as u64) && found.verify_crc().is_ok() => {
                }
                _ => break,
            }
            window.from += length;
            at += length;
        }
        Ok(EndOfRecords { written: at, is_full: false })
    };
    read().map_err(StoreError::io("cannot read the commit log", path))
}

/// What has been read of a file and not been looked at yet.
struct Window {
    bytes: Vec<u8>,
    /// Where that begins.
    from: usize,
}

impl Window {
    /// Returns at least so many bytes, or all that the file still has; reads many at a time.
    fn at_least(&mut self, file: &mut File, count: usize) -> io::Result<&[u8]> {
        if self.bytes.len() - self.from < count {
            self.bytes.drain(..self.from);
            self.from = 0;
            let missing = count.max(READ_AT_ONCE) - self.bytes.len();
            self.bytes.reserve(missing);
            file.take(missing as u64).read_to_end(&mut self.bytes)?;
        }
        Ok(&self.bytes[self.from..])
    }
}

/// Opens all queues, cut where they point beyond the log's end, and returns the physical offset that follows the last
/// record that any of them has.
///
/// # Errors
///
/// When files cannot be read or cut, or do not make a sequence.
pub(super) fn open_queues(
    queues: &mut Queues,
    directory: &Path,
    log: std::ops::Range<u64>,
    was_closed: bool,
) -> Result<u64, StoreError> {
    let mut dispatched = log.start;
    for (topic, path) in directories(directory)? {
        for (queue_id, path) in directories(&path)? {
            let Ok(queue_id) = queue_id.parse::<i32>() else { continue };
            let mut layout = queues.layout(&topic, queue_id);
            let listing = Listing::read(&path)?;
            let Some(&first) = listing.bases.first() else { continue };
            if listing.file_size % ENTRY_SIZE != 0 {
                return Err(StoreError::at("files of a consume queue do not hold whole entries of 20 bytes", &path));
            }
            adopt_size(&mut layout, &listing, &path);
            let suspects = if was_closed { 1 } else { SUSPECT_FILES };
            let suspect = listing.bases.len().saturating_sub(suspects);
            let (mut last, mut written) = (suspect, 0);
            for (index, &base) in listing.bases.iter().enumerate().skip(suspect) {
                let end = end_of_entries(&file_path(&path, base), log.end)?;
                (last, written) = (index, end.written);
                dispatched = dispatched.max(end.dispatched);
                if end.written < listing.file_size {
                    break;
                }
            }
            cut(&path, &listing, last, written, was_closed)?;
            if last == 0 && written == 0 {
                // A file made ahead for a message that did not come: the queue may begin anywhere.
                let path = file_path(&path, first);
                fs::remove_file(&path).map_err(StoreError::io("cannot remove an empty file of the store", &path))?;
                continue;
            }
            let files = FileSequence::existing(layout, first, last + 1, written);
            let queue = ConsumeQueue::new(files, 0);
            let min = queue.first_from(first / ENTRY_SIZE as u64, log.start);
            queues.insert(&topic, queue_id, queue.starting_at(min));
        }
    }
    Ok(dispatched)
}

struct EndOfEntries {
    written: usize,
    /// Physical offset after the last record entered.
    dispatched: u64,
}

/// Reads a queue's file entry by entry up to the first that is none, or that points beyond the log.
fn end_of_entries(path: &Path, log_end: u64) -> Result<EndOfEntries, StoreError> {
    let read = || {
        let mut reader = BufReader::with_capacity(64 << 10, File::open(path)?);
        let mut bytes = [0; ENTRY_SIZE];
        let mut end = EndOfEntries { written: 0, dispatched: 0 };
        loop {
            match reader.read_exact(&mut bytes) {
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(end),
                other => other?,
            }
            let entry = Entry::decode(&bytes);
            if !entry.is_blank() {
                let after = entry.physical_offset.checked_add(u64::from(entry.size));
                match after {
                    Some(after) if entry.size > 0 && after <= log_end && after > end.dispatched => {
                        end.dispatched = after;
                    }
                    _ => return Ok(end),
                }
            }
            end.written += ENTRY_SIZE;
        }
    };
    read().map_err(StoreError::io("cannot read a consume queue", path))
}

/// Removes the files after `last`, and everything after the first `written` bytes of that one.
fn cut(directory: &Path, listing: &Listing, last: usize, written: usize, was_closed: bool) -> Result<(), StoreError> {
    for &base in &listing.bases[last + 1..] {
        let path = file_path(directory, base);
        tracing::warn!(path = %path.display(), "a file after the end of the store's data is removed");
        fs::remove_file(&path).map_err(StoreError::io("cannot remove a file after the end of the data", &path))?;
    }
    let path = file_path(directory, listing.bases[last]);
    let clear = || {
        let mut file = OpenOptions::new().read(true).write(true).open(&path)?;
        // Looking at every byte to come would take long. After a crash they are cleared without a look, or a record
        // that is cut off now could come to life again behind a new one of the same size.
        if !was_closed || has_data(&mut file, written as u64)? {
            // Shortened and grown again the file reads as zeros there.
            file.set_len(written as u64)?;
            file.set_len(listing.file_size as u64)?;
        }
        Ok(())
    };
    clear().map_err(StoreError::io("cannot cut off torn data", &path))
}

/// Returns whether anything but zeros comes directly after `position`.
fn has_data(file: &mut File, position: u64) -> io::Result<bool> {
    let mut next = Vec::new();
    file.seek(SeekFrom::Start(position))?;
    file.take(4096).read_to_end(&mut next)?;
    Ok(next.iter().any(|&byte| byte != 0))
}

/// The size of files that exist wins over the configured one.
fn adopt_size(layout: &mut Layout, listing: &Listing, directory: &Path) {
    if layout.file_size != listing.file_size {
        let (configured, found) = (layout.file_size, listing.file_size);
        tracing::info!(directory = %directory.display(), configured, found, "the size of existing files is kept");
        layout.file_size = listing.file_size;
    }
}

/// Lists the sub-directories whose names are text, in order.
fn directories(path: &Path) -> Result<Vec<(String, std::path::PathBuf)>, StoreError> {
    let entries = match fs::read_dir(path) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(StoreError::io("cannot list a directory of the store", path)(error)),
    };
    let mut found = Vec::new();
    for entry in entries {
        let entry = entry.map_err(StoreError::io("cannot list a directory of the store", path))?;
        if let Ok(name) = entry.file_name().into_string()
            && entry.path().is_dir()
        {
            found.push((name, entry.path()));
        }
    }
    found.sort_unstable();
    Ok(found)
}
