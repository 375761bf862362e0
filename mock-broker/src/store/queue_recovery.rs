//! Opens the consume queues that a store left on disk: cut where they end or point beyond the log.
//!
//! A broker may have tens of thousands of them, so each costs few calls, no mapping, and several threads share them.

use std::fs::{self, File};
use std::io::{self, Read};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::thread;

use crate::store::consume_queue::{ConsumeQueue, ENTRY_SIZE, Entry};
use crate::store::error::StoreError;
use crate::store::file_sequence::{FileSequence, Listing, file_path};
use crate::store::queues::Queues;
use crate::store::recovery::{SUSPECT_FILES, adopt_size, cut, has_data_after};

/// A queue's file is read in pieces of this size; most are not larger.
const READ_AT_ONCE: usize = 8192;
/// Fewer topics are not worth a thread.
const LEAST_TOPICS: usize = 64;
/// More threads do not make a disk faster.
const MOST_THREADS: usize = 4;

/// One queue as it was found.
struct Found {
    queue_id: i32,
    path: PathBuf,
    listing: Listing,
    /// How many of the files are left, and how much the last of them holds.
    files: usize,
    written: usize,
    /// Physical offset after the last record that the queue has.
    dispatched: u64,
    /// Whether the first entry is that of a message which the log still has.
    begins_in_log: bool,
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
    log: Range<u64>,
    was_closed: bool,
) -> Result<u64, StoreError> {
    let topics = directories(directory)?;
    let threads = thread::available_parallelism().map_or(1, usize::from).min(MOST_THREADS);
    let share = topics.len().div_ceil(threads).max(LEAST_TOPICS);
    let look = |topics: &[(String, PathBuf)]| -> Result<Vec<Vec<Found>>, StoreError> {
        topics.iter().map(|(_, path)| queues_of_topic(path, &log, was_closed)).collect()
    };
    let found: Vec<Result<Vec<Vec<Found>>, StoreError>> = thread::scope(|scope| {
        let (first, others) = topics.split_at(share.min(topics.len()));
        let looking: Vec<_> = others
            .chunks(share)
            .map(|topics| thread::Builder::new().spawn_scoped(scope, move || look(topics)))
            .collect();
        let mut found = vec![look(first)];
        for (started, topics) in looking.into_iter().zip(others.chunks(share)) {
            found.push(match started {
                Ok(thread) => thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
                Err(_) => look(topics),
            });
        }
        found
    });
    let mut dispatched = log.start;
    let mut names = topics.iter();
    for share in found {
        for (found, (topic, _)) in share?.into_iter().zip(&mut names) {
            for found in found {
                dispatched = dispatched.max(found.dispatched);
                insert(queues, topic, found, log.start);
            }
        }
    }
    Ok(dispatched)
}

fn insert(queues: &mut Queues, topic: &str, found: Found, log_start: u64) {
    let Found { queue_id, path, listing, files, written, begins_in_log, .. } = found;
    let Some(&first) = listing.bases.first().filter(|_| files > 0) else { return };
    let mut layout = queues.layout(topic, queue_id);
    adopt_size(&mut layout, &listing, &path);
    let queue = ConsumeQueue::new(FileSequence::existing(layout, first, files, written), 0);
    let begin = first / ENTRY_SIZE as u64;
    let min = if begins_in_log { begin } else { queue.first_from(begin, log_start) };
    queues.insert(topic, queue_id, queue.starting_at(min));
}

fn queues_of_topic(path: &Path, log: &Range<u64>, was_closed: bool) -> Result<Vec<Found>, StoreError> {
    let mut found = Vec::new();
    for (name, path) in directories(path)? {
        if let Ok(queue_id) = name.parse::<i32>()
            && let Some(queue) = look_at(queue_id, path, log, was_closed)?
        {
            found.push(queue);
        }
    }
    Ok(found)
}

/// Finds the end of a queue and cuts it there; none without files.
fn look_at(queue_id: i32, path: PathBuf, log: &Range<u64>, was_closed: bool) -> Result<Option<Found>, StoreError> {
    let listing = Listing::read(&path)?;
    let Some(&first) = listing.bases.first() else { return Ok(None) };
    if listing.file_size % ENTRY_SIZE != 0 {
        return Err(StoreError::at("files of a consume queue do not hold whole entries of 20 bytes", &path));
    }
    let suspects = if was_closed { 1 } else { SUSPECT_FILES };
    let suspect = listing.bases.len().saturating_sub(suspects);
    let mut found =
        Found { queue_id, path, listing, files: suspect + 1, written: 0, dispatched: 0, begins_in_log: false };
    let mut torn = false;
    for index in suspect..found.listing.bases.len() {
        let file = file_path(&found.path, found.listing.bases[index]);
        let end = end_of_entries(&file, log.end, found.listing.file_size, was_closed)
            .map_err(StoreError::io("cannot read a consume queue", &file))?;
        (found.files, found.written, torn) = (index + 1, end.written, end.torn);
        found.dispatched = found.dispatched.max(end.dispatched);
        if index == 0 {
            found.begins_in_log = end.first.is_some_and(|offset| offset >= log.start);
        }
        if end.written < found.listing.file_size {
            break;
        }
    }
    cut(&found.path, &found.listing, found.files - 1, found.written, torn)?;
    if found.files == 1 && found.written == 0 {
        // A file made ahead for a message that did not come: the queue may begin anywhere.
        let path = file_path(&found.path, first);
        fs::remove_file(&path).map_err(StoreError::io("cannot remove an empty file of the store", &path))?;
        return Ok(None);
    }
    Ok(Some(found))
}

struct EndOfEntries {
    written: usize,
    /// Physical offset after the last record entered.
    dispatched: u64,
    /// Physical offset of the first entry's record; none if that is none.
    first: Option<u64>,
    /// Whether more than zeros may come after the entries.
    torn: bool,
}

/// Reads a queue's file entry by entry up to the first that is none, or that points beyond the log.
fn end_of_entries(path: &Path, log_end: u64, size: usize, was_closed: bool) -> io::Result<EndOfEntries> {
    let mut file = File::open(path)?;
    let mut end = EndOfEntries { written: 0, dispatched: 0, first: None, torn: false };
    let mut bytes = Vec::new();
    'file: loop {
        let missing = READ_AT_ONCE - bytes.len();
        let more = (&mut file).take(missing as u64).read_to_end(&mut bytes)?;
        let (entries, rest) = bytes.as_chunks::<ENTRY_SIZE>();
        let rest = rest.len();
        for entry in entries.iter().map(Entry::decode) {
            if !entry.is_blank() {
                match entry.physical_offset.checked_add(u64::from(entry.size)) {
                    Some(after) if entry.size > 0 && after <= log_end && after > end.dispatched => {
                        end.dispatched = after;
                    }
                    _ => break 'file,
                }
            }
            if end.written == 0 && !entry.is_blank() {
                end.first = Some(entry.physical_offset);
            }
            end.written += ENTRY_SIZE;
        }
        if more < missing {
            break;
        }
        bytes.drain(..bytes.len() - rest);
    }
    end.torn = end.written < size && has_data_after(&file, end.written as u64, was_closed)?;
    Ok(end)
}

/// Lists the sub-directories whose names are text, in order.
fn directories(path: &Path) -> Result<Vec<(String, PathBuf)>, StoreError> {
    let entries = match fs::read_dir(path) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(StoreError::io("cannot list a directory of the store", path)(error)),
    };
    let mut found = Vec::new();
    for entry in entries {
        let entry = entry.map_err(StoreError::io("cannot list a directory of the store", path))?;
        // A link is followed.
        let is_directory = match entry.file_type() {
            Ok(kind) if !kind.is_symlink() => kind.is_dir(),
            _ => entry.path().is_dir(),
        };
        if is_directory && let Ok(name) = entry.file_name().into_string() {
            found.push((name, entry.path()));
        }
    }
    found.sort_unstable();
    Ok(found)
}
