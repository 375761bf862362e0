//! Opens the log that a store left on disk: finds where its data ends and cuts off what is torn.
//!
//! A killed process loses nothing that was committed, because mapped pages belong to the operating system; only
//! the record being written can be torn. A power failure can lose what was not flushed, at most the last seconds.
//! So it is enough to look at the last files, and to dispatch again what is in them.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::path::Path;
use std::sync::mpsc;
use std::thread;

use rocketmq_wire::message::record::END_OF_FILE_SIZE;
use rocketmq_wire::message::stored::{LogEntry, RecordView};

use crate::store::error::StoreError;
use crate::store::file_sequence::{FileSequence, Layout, Listing, file_path};
use crate::store::platform;

/// How many of the last files are looked at after a store was not closed.
pub(super) const SUSPECT_FILES: usize = 3;
/// The log is read in pieces of this size.
const READ_AT_ONCE: usize = 512 << 10;
/// A size beyond this is no record, whatever follows it.
const LARGEST_RECORD: usize = 256 << 20;
/// More than this is not read to find out whether it is all zeros.
const MOST_TO_LOOK_AT: u64 = 64 << 10;

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
        let found = end_of_records(&file_path(directory, base), base, was_closed)?;
        (last, written) = (index, found.written);
        if !found.is_full {
            break;
        }
    }
    let path = file_path(directory, listing.bases[last]);
    let torn = File::open(&path).and_then(|file| has_data_after(&file, written as u64, was_closed));
    let torn = torn.map_err(StoreError::io("cannot read the commit log", &path))?;
    cut(directory, &listing, last, written, torn)?;
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
#[derive(Debug, Clone, Copy)]
struct EndOfRecords {
    written: usize,
    /// Whether a filler ends the file, so that the log goes on in the next one.
    is_full: bool,
}

/// Reads a log file record by record up to the first thing that is none. A large file is read by this thread and checked
/// by another.
///
/// Reads, not maps: on a full disk a hole in the file cannot be mapped in.
fn end_of_records(path: &Path, base: u64, was_closed: bool) -> Result<EndOfRecords, StoreError> {
    let read = || {
        let mut file = File::open(path)?;
        let size = file.metadata()?.len() as usize;
        let mut check = Check { base, size, was_closed, end: EndOfRecords { written: 0, is_full: false } };
        if size <= READ_AT_ONCE {
            walk(&mut file, size, &mut |piece| check.take(piece).then(Vec::new))?;
            return Ok(check.end);
        }
        thread::scope(|scope| {
            let (pieces, waiting) = mpsc::sync_channel::<Vec<u8>>(2);
            let (emptied, spare) = mpsc::channel();
            let checking = thread::Builder::new().spawn_scoped(scope, move || {
                for piece in waiting {
                    if !check.take(&piece) {
                        break;
                    }
                    // Nobody needs it when all is read.
                    let _ = emptied.send(piece);
                }
                check.end
            })?;
            let walked = walk(&mut file, size, &mut |piece| {
                pieces.send(std::mem::take(piece)).is_ok().then(|| spare.try_recv().unwrap_or_default())
            });
            drop(pieces);
            let end = checking.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            walked.map(|()| end)
        })
    };
    read().map_err(StoreError::io("cannot read the commit log", path))
}

/// Reads a log file from entry to entry, as their sizes tell, and hands over pieces of whole entries in order.
/// `hand_over` gives room for the next piece; none ends the reading.
fn walk(file: &mut File, size: usize, hand_over: &mut dyn FnMut(&mut Vec<u8>) -> Option<Vec<u8>>) -> io::Result<()> {
    let (mut at, mut bytes) = (0, Vec::new());
    loop {
        let mut whole = 0;
        let missing = loop {
            let (rest, left) = (&bytes[whole..], size - at - whole);
            if rest.len() < END_OF_FILE_SIZE.min(left) {
                break Some(END_OF_FILE_SIZE);
            }
            let length = rest.first_chunk::<4>().map_or(0, |length| i32::from_be_bytes(*length));
            let length = usize::try_from(length).unwrap_or(0);
            if length < END_OF_FILE_SIZE || length > left || length > LARGEST_RECORD {
                break None;
            }
            if length > rest.len() {
                break Some(length);
            }
            whole += length;
        };
        let rest = bytes.split_off(whole);
        let Some(mut next) = hand_over(&mut bytes) else { return Ok(()) };
        at += whole;
        let Some(missing) = missing else { return Ok(()) };
        next.clear();
        next.extend_from_slice(&rest);
        let more = missing.max(READ_AT_ONCE) - rest.len();
        next.reserve(more);
        if file.take(more as u64).read_to_end(&mut next)? == 0 {
            return Ok(());
        }
        bytes = next;
    }
}

/// Looks at the entries of a log file one after the other.
struct Check {
    /// Physical offset of the file.
    base: u64,
    size: usize,
    was_closed: bool,
    /// Where the good entries end so far.
    end: EndOfRecords,
}

impl Check {
    /// Looks at the next piece, and returns whether all of it is good and more may follow.
    fn take(&mut self, piece: &[u8]) -> bool {
        let mut rest = piece;
        while !rest.is_empty() {
            let at = self.end.written;
            match LogEntry::parse(rest) {
                Ok(LogEntry::EndOfFile { size }) if at + size == self.size => {
                    self.end = EndOfRecords { written: self.size, is_full: true };
                    return false;
                }
                Ok(LogEntry::Record(found))
                    if u64::try_from(found.physical_offset()) == Ok(self.base + at as u64)
                        && found.verify_crc().is_ok()
                        && (self.was_closed || is_whole(&found)) =>
                {
                    self.end.written += found.size();
                    rest = &rest[found.size()..];
                }
                _ => return false,
            }
        }
        true
    }
}

/// Returns whether topic and properties, which no checksum covers, look like they were written to disk: a page that was not
/// reads as zeros.
fn is_whole(record: &RecordView<'_>) -> bool {
    let properties = record.properties().as_bytes();
    let ends = [properties.first(), properties.last()];
    !record.topic().contains('\0') && !ends.into_iter().flatten().any(|&byte| byte == 0)
}

/// Removes the files after `last`; if that one is torn, everything after its first `written` bytes is cleared.
///
/// # Errors
///
/// Whatever the file system says.
pub(super) fn cut(
    directory: &Path,
    listing: &Listing,
    last: usize,
    written: usize,
    torn: bool,
) -> Result<(), StoreError> {
    for &base in &listing.bases[last + 1..] {
        let path = file_path(directory, base);
        tracing::warn!(path = %path.display(), "a file after the end of the store's data is removed");
        fs::remove_file(&path).map_err(StoreError::io("cannot remove a file after the end of the data", &path))?;
    }
    if !torn {
        return Ok(());
    }
    let path = file_path(directory, listing.bases[last]);
    let clear = || {
        // Shortened and grown again the file reads as zeros there.
        let file = OpenOptions::new().write(true).open(&path)?;
        file.set_len(written as u64)?;
        file.set_len(listing.file_size as u64)
    };
    clear().map_err(StoreError::io("cannot cut off torn data", &path))
}

/// Returns whether anything but zeros may come after `position`. In a store that was closed only what comes directly
/// after it counts. After a crash it is anything to the end of the file, or a record that is cut off now could come to
/// life again behind a new one of the same size; where there is much to look at the answer is yes.
///
/// # Errors
///
/// Whatever the file system says.
pub(super) fn has_data_after(file: &File, position: u64, was_closed: bool) -> io::Result<bool> {
    let read = |position: u64, limit: u64| {
        let (mut file, mut bytes) = (file, Vec::new());
        file.seek(SeekFrom::Start(position))?;
        file.take(limit).read_to_end(&mut bytes)?;
        io::Result::Ok(bytes)
    };
    let is_written = |bytes: &[u8]| bytes.iter().any(|&byte| byte != 0);
    if was_closed {
        return Ok(is_written(&read(position, 4096)?));
    }
    let (mut at, mut looked_at) = (position, 0);
    while let Some(data) = platform::next_data(file, at)? {
        let bytes = read(data, 4096)?;
        if bytes.is_empty() {
            break;
        }
        looked_at += bytes.len() as u64;
        if is_written(&bytes) || looked_at > MOST_TO_LOOK_AT {
            return Ok(true);
        }
        at = data + bytes.len() as u64;
    }
    Ok(false)
}

/// The size of files that exist wins over the configured one.
pub(super) fn adopt_size(layout: &mut Layout, listing: &Listing, directory: &Path) {
    if layout.file_size != listing.file_size {
        let (configured, found) = (layout.file_size, listing.file_size);
        tracing::info!(directory = %directory.display(), configured, found, "the size of existing files is kept");
        layout.file_size = listing.file_size;
    }
}
