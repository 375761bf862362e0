//! What waits for its time, on disk, in Apache's format: `timerwheel` (slots of 32 bytes, each with the last entry of its
//! chain), `timerlog` (entries of 52 bytes, each with the one before it) and `config/timercheck` (how far all is done).
//!
//! Everything is written where it belongs at once, so that it survives the process; a power failure may cost entries,
//! which are then made again from the timer topic.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use crate::store::error::StoreError;
use crate::store::timer::wheel::{Chain, Waiting, is_magic};

/// Seconds of a week: the wheel has twice as many slots, whatever their length.
const SLOTS: i64 = 2 * 7 * 24 * 3600;

/// Size of a slot: time, first and last entry, how many, reserved.
const SLOT_SIZE: usize = 32;

/// Size of an entry: its size, the one before, what it is, when it was entered, how much later it is due, where its
/// message is, the message's size, hash of its topic, reserved.
const ENTRY_SIZE: usize = 52;

/// The rest of a file that has no room for an entry begins with this many bytes, the last four [`BLANK`].
const BLANK_SIZE: usize = 16;
const BLANK: i32 = 0xBBCC_DDEE_u32 as i32 ^ (1_880_681_586 + 8);

/// Size of `timercheck`, of which 56 bytes are used.
const CHECKPOINT_SIZE: usize = 4096;

/// No entry.
const NONE: i64 = -1;

/// How far timers are done.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Checkpoint {
    /// Slots before this time are delivered.
    pub(super) read_ms: i64,
    /// Where the timer log ends.
    pub(super) log_end: i64,
    /// Messages of the timer topic before this offset are entered.
    pub(super) queue_offset: i64,
    pub(super) version_timestamp: i64,
    pub(super) version_counter: i64,
}

impl Checkpoint {
    /// As it is stored, for a log that ends at `log_end`.
    pub(super) fn to_bytes(self, log_end: i64) -> [u8; 56] {
        let fields = [
            self.read_ms,
            log_end,
            self.queue_offset,
            // What a slave takes over from its master; a master's own.
            self.queue_offset,
            0,
            self.version_timestamp,
            self.version_counter,
        ];
        let mut bytes = [0; 56];
        for (place, field) in bytes.chunks_exact_mut(8).zip(fields) {
            place.copy_from_slice(&field.to_be_bytes());
        }
        bytes
    }
}

/// A slot as it is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Slot {
    pub(super) first: i64,
    pub(super) last: i64,
    pub(super) count: i32,
}

/// The three of a directory.
#[derive(Debug)]
pub(super) struct TimerFiles {
    precision_ms: i64,
    wheel: File,
    wheel_path: PathBuf,
    log: TimerLog,
    checkpoint: File,
    checkpoint_path: PathBuf,
}

/// What was found in a directory.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) files: TimerFiles,
    pub(super) checkpoint: Checkpoint,
    /// What waits, by the time of its slot.
    pub(super) slots: BTreeMap<i64, Chain>,
    /// Where in the commit log the message of the last entry is.
    pub(super) last_entry: Option<Waiting>,
}

impl TimerFiles {
    /// Opens the files of a store, or makes them.
    ///
    /// # Errors
    ///
    /// When they cannot be read or written, or were made for another length of slots.
    pub(super) fn open(
        wheel_path: PathBuf,
        log_directory: PathBuf,
        checkpoint_path: PathBuf,
        precision_ms: i64,
        log_file_size: u64,
    ) -> Result<Found, StoreError> {
        let wheel_size = SLOTS as u64 * SLOT_SIZE as u64;
        let wheel = open_sized(&wheel_path, wheel_size)?;
        let checkpoint_file = open_sized(&checkpoint_path, CHECKPOINT_SIZE as u64)?;
        let checkpoint = read_checkpoint(&checkpoint_file)
            .map_err(StoreError::io("cannot read the timers' checkpoint", &checkpoint_path))?;
        let (log, entries_from) = TimerLog::open(log_directory, log_file_size)?;
        let mut files =
            TimerFiles { precision_ms, wheel, wheel_path, log, checkpoint: checkpoint_file, checkpoint_path };
        let mut stored = files.read_wheel()?;
        let mut last_entry = None;
        // Apache's broker writes the wheel behind the log: entries may be missing in it.
        for (position, time_ms, entry) in files.log.scan(entries_from)? {
            let slot = stored.entry(time_ms).or_insert(Slot { first: position, last: NONE, count: 0 });
            if position > slot.last {
                slot.last = position;
            }
            last_entry = Some(entry);
        }
        stored.retain(|time_ms, slot| *time_ms >= checkpoint.read_ms && slot.last < files.log.end as i64);
        let mut slots = BTreeMap::new();
        for (time_ms, slot) in stored {
            slots.insert(time_ms, files.log.chain(slot)?);
        }
        Ok(Found { files, checkpoint, slots, last_entry })
    }

    /// Adds an entry to the chain of its slot and returns its position.
    ///
    /// # Errors
    ///
    /// When there is no space; nothing is changed then.
    pub(super) fn append(
        &mut self,
        time_ms: i64,
        entry: &Waiting,
        topic_hash: i32,
        chain: &Chain,
    ) -> Result<u64, StoreError> {
        let position = self.log.append(time_ms, entry, topic_hash, chain.last().map_or(NONE, |at| at as i64))?;
        let first = chain.first().map_or(position, |first| first);
        let slot = Slot { first: first as i64, last: position as i64, count: chain.count() + entry.counts() };
        let mut bytes = [0; SLOT_SIZE];
        bytes[..8].copy_from_slice(&(time_ms / self.precision_ms).to_be_bytes());
        bytes[8..16].copy_from_slice(&slot.first.to_be_bytes());
        bytes[16..24].copy_from_slice(&slot.last.to_be_bytes());
        bytes[24..28].copy_from_slice(&slot.count.to_be_bytes());
        let index = (time_ms / self.precision_ms).rem_euclid(SLOTS) as u64;
        let written = self.wheel.write_all_at(&bytes, index * SLOT_SIZE as u64);
        written.map_err(StoreError::io("cannot write the timer wheel", &self.wheel_path))?;
        Ok(position)
    }

    /// Writes how far timers are done.
    ///
    /// # Errors
    ///
    /// When the file cannot be written.
    pub(super) fn write_checkpoint(&self, checkpoint: Checkpoint) -> Result<(), StoreError> {
        let written = self.checkpoint.write_all_at(&checkpoint.to_bytes(self.ends_at()), 0);
        written.map_err(StoreError::io("cannot write the timers' checkpoint", &self.checkpoint_path))
    }

    /// Where the timer log ends.
    pub(super) fn ends_at(&self) -> i64 {
        self.log.end as i64
    }

    /// Removes the files of the log before `position`.
    pub(super) fn remove_before(&mut self, position: u64) {
        self.log.remove_before(position);
    }

    fn read_wheel(&self) -> Result<BTreeMap<i64, Slot>, StoreError> {
        let mut slots = BTreeMap::new();
        // One minute of slots at a time: most of the file was never written, and holes are read fast.
        let mut bytes = vec![0; 64 << 10];
        for start in (0..SLOTS as u64 * SLOT_SIZE as u64).step_by(bytes.len()) {
            let length = bytes.len().min((SLOTS as u64 * SLOT_SIZE as u64 - start) as usize);
            let read = self.wheel.read_exact_at(&mut bytes[..length], start);
            read.map_err(StoreError::io("cannot read the timer wheel", &self.wheel_path))?;
            for slot in bytes[..length].chunks_exact(SLOT_SIZE) {
                let time_ms = long(slot, 0).saturating_mul(self.precision_ms);
                if time_ms != 0 {
                    slots.insert(time_ms, Slot { first: long(slot, 8), last: long(slot, 16), count: int(slot, 24) });
                }
            }
        }
        Ok(slots)
    }
}

/// The entries, in files named by the position of their first byte.
#[derive(Debug)]
struct TimerLog {
    directory: PathBuf,
    file_size: u64,
    /// By the position of their first byte.
    files: BTreeMap<u64, File>,
    /// Where the next entry goes.
    end: u64,
}

impl TimerLog {
    /// Opens the files that exist; returns also from where on entries have to be looked at.
    fn open(directory: PathBuf, file_size: u64) -> Result<(Self, u64), StoreError> {
        fs::create_dir_all(&directory).map_err(StoreError::io("cannot create the timer log", &directory))?;
        let mut log = TimerLog { directory, file_size, files: BTreeMap::new(), end: 0 };
        let listed =
            fs::read_dir(&log.directory).map_err(StoreError::io("cannot read the timer log", &log.directory))?;
        for file in listed.filter_map(Result::ok) {
            let Some(start) = file.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
            let path = file.path();
            let opened = OpenOptions::new().read(true).write(true).open(&path);
            let opened = opened.map_err(StoreError::io("cannot open a file of the timer log", &path))?;
            let size = opened.metadata().map_err(StoreError::io("cannot read a file of the timer log", &path))?.len();
            if size >= (ENTRY_SIZE + BLANK_SIZE) as u64 {
                log.file_size = size;
                log.files.insert(start, opened);
            }
        }
        // The last file but one is looked at as well, as Apache's broker does.
        let from = log.files.keys().rev().nth(1).or(log.files.keys().next()).copied().unwrap_or(0);
        log.end = log.files.keys().next_back().copied().unwrap_or(0);
        Ok((log, from))
    }

    /// Reads the entries from a file's start on, and finds out where they end.
    fn scan(&mut self, from: u64) -> Result<Vec<(i64, i64, Waiting)>, StoreError> {
        let mut entries = Vec::new();
        let starts: Vec<u64> = self.files.range(from..).map(|(start, _)| *start).collect();
        for start in starts {
            self.end = start;
            while self.end + (ENTRY_SIZE as u64) <= start + self.file_size {
                let bytes = self.read(self.end)?;
                if int(&bytes, 0) != ENTRY_SIZE as i32 || !is_magic(int(&bytes, 12)) {
                    if int(&bytes, 12) == BLANK {
                        self.end = start + self.file_size;
                    }
                    break;
                }
                let entry = parse(&bytes, self.end);
                entries.push((self.end as i64, entry.time_ms(&bytes), entry));
                self.end += ENTRY_SIZE as u64;
            }
        }
        Ok(entries)
    }

    /// Reads the entries of a slot, the first entered first. A chain that leads nowhere ends there.
    fn chain(&self, slot: Slot) -> Result<Chain, StoreError> {
        let mut entries = Vec::new();
        let mut at = slot.last;
        while let Ok(position) = u64::try_from(at) {
            if position + ENTRY_SIZE as u64 > self.end || self.file_of(position).is_none() {
                break;
            }
            let bytes = self.read(position)?;
            if int(&bytes, 0) != ENTRY_SIZE as i32 || !is_magic(int(&bytes, 12)) {
                break;
            }
            entries.push(parse(&bytes, position));
            let before = long(&bytes, 4);
            if before >= at {
                break;
            }
            at = before;
        }
        entries.reverse();
        Ok(Chain::of(entries))
    }

    fn file_of(&self, position: u64) -> Option<(u64, &File)> {
        let (start, file) = self.files.range(..=position).next_back()?;
        (position < start + self.file_size).then_some((*start, file))
    }

    fn read(&self, position: u64) -> Result<[u8; ENTRY_SIZE], StoreError> {
        let mut bytes = [0; ENTRY_SIZE];
        let Some((start, file)) = self.file_of(position) else { return Ok(bytes) };
        let read = file.read_exact_at(&mut bytes, position - start);
        read.map_err(StoreError::io("cannot read the timer log", &self.directory))?;
        Ok(bytes)
    }

    fn append(&mut self, time_ms: i64, entry: &Waiting, topic_hash: i32, before: i64) -> Result<u64, StoreError> {
        let write_failed = || StoreError::io("cannot write the timer log", &self.directory);
        let room = self.file_of(self.end).map_or(0, |(start, _)| start + self.file_size - self.end);
        if room < (ENTRY_SIZE + BLANK_SIZE) as u64 {
            if let Some((start, file)) = self.file_of(self.end) {
                let mut blank = [0; BLANK_SIZE];
                blank[..4].copy_from_slice(&(room as i32).to_be_bytes());
                blank[12..].copy_from_slice(&BLANK.to_be_bytes());
                let length = BLANK_SIZE.min(room as usize);
                file.write_all_at(&blank[..length], self.end - start).map_err(write_failed())?;
            }
            let start = self.end + room;
            let path = self.directory.join(format!("{start:020}"));
            let file = open_sized(&path, self.file_size)?;
            self.files.insert(start, file);
            self.end = start;
        }
        let mut bytes = [0; ENTRY_SIZE];
        bytes[..4].copy_from_slice(&(ENTRY_SIZE as i32).to_be_bytes());
        bytes[4..12].copy_from_slice(&before.to_be_bytes());
        bytes[12..16].copy_from_slice(&entry.magic.to_be_bytes());
        bytes[16..24].copy_from_slice(&entry.entered_ms.to_be_bytes());
        bytes[24..28].copy_from_slice(&((time_ms - entry.entered_ms) as i32).to_be_bytes());
        bytes[28..36].copy_from_slice(&(entry.physical_offset as i64).to_be_bytes());
        bytes[36..40].copy_from_slice(&(entry.size as i32).to_be_bytes());
        bytes[40..44].copy_from_slice(&topic_hash.to_be_bytes());
        let position = self.end;
        if let Some((start, file)) = self.file_of(position) {
            file.write_all_at(&bytes, position - start).map_err(write_failed())?;
        }
        self.end += ENTRY_SIZE as u64;
        Ok(position)
    }

    fn remove_before(&mut self, position: u64) {
        let last = self.files.keys().next_back().copied().unwrap_or(0);
        let starts: Vec<u64> = self.files.keys().copied().collect();
        for start in starts {
            if start + self.file_size <= position && start != last {
                self.files.remove(&start);
                let path = self.directory.join(format!("{start:020}"));
                if let Err(error) = fs::remove_file(&path) {
                    tracing::warn!(%error, path = %path.display(), "a file of the timer log cannot be removed");
                }
            }
        }
    }
}

fn parse(bytes: &[u8; ENTRY_SIZE], position: u64) -> Waiting {
    Waiting {
        position,
        magic: int(bytes, 12),
        entered_ms: long(bytes, 16),
        physical_offset: u64::try_from(long(bytes, 28)).unwrap_or(u64::MAX),
        size: u32::try_from(int(bytes, 36)).unwrap_or(0),
    }
}

impl Waiting {
    /// The slot that an entry says it is in.
    fn time_ms(&self, bytes: &[u8; ENTRY_SIZE]) -> i64 {
        self.entered_ms.saturating_add(i64::from(int(bytes, 24)))
    }
}

fn read_checkpoint(file: &File) -> io::Result<Checkpoint> {
    let mut bytes = [0; 56];
    file.read_exact_at(&mut bytes, 0)?;
    Ok(Checkpoint {
        read_ms: long(&bytes, 0),
        log_end: long(&bytes, 8),
        queue_offset: long(&bytes, 16).min(long(&bytes, 24)),
        version_timestamp: long(&bytes, 40),
        version_counter: long(&bytes, 48),
    })
}

/// Opens a file, which is created, and gets its size if it is empty; blocks that are not written take no room.
fn open_sized(path: &Path, size: u64) -> Result<File, StoreError> {
    if let Some(directory) = path.parent() {
        fs::create_dir_all(directory).map_err(StoreError::io("cannot create a directory of the store", directory))?;
    }
    let open = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path);
    let file = open.map_err(StoreError::io("cannot open a file of the timers", path))?;
    let found = file.metadata().map_err(StoreError::io("cannot read a file of the timers", path))?.len();
    if found == 0 {
        file.set_len(size).map_err(StoreError::io("cannot create a file of the timers", path))?;
    } else if found < size {
        return Err(StoreError::at(format!("the file has {found} bytes, {size} are expected"), path));
    }
    Ok(file)
}

fn long(bytes: &[u8], at: usize) -> i64 {
    bytes[at..].first_chunk().map_or(0, |bytes| i64::from_be_bytes(*bytes))
}

fn int(bytes: &[u8], at: usize) -> i32 {
    bytes[at..].first_chunk().map_or(0, |bytes| i32::from_be_bytes(*bytes))
}
