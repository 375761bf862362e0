//! One file of the index: a hash table of keys over chains of entries, in Apache's layout.
//!
//! ```text
//! header 40 bytes | slots of 4 bytes | entries of 20 bytes
//! header: begin and end timestamp (8 + 8), begin and end physical offset (8 + 8), used slots (4), next entry (4)
//! entry:  key hash (4), physical offset (8), seconds since the begin timestamp (4), entry before it in its slot (4)
//! ```
//!
//! Entries are numbered from 1; a slot holds the number of its newest one. Everything is big-endian.

use std::fs::{File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use memmap2::MmapMut;

use crate::store::error::StoreError;
use crate::store::flush::Registry;
use crate::store::{mapped_file, platform};

const HEADER_SIZE: usize = 40;
const SLOT_SIZE: usize = 4;
const ENTRY_SIZE: usize = 20;

const BEGIN_TIMESTAMP: usize = 0;
const END_TIMESTAMP: usize = 8;
const BEGIN_OFFSET: usize = 16;
const END_OFFSET: usize = 24;
const USED_SLOTS: usize = 32;
const NEXT_ENTRY: usize = 36;

/// Space for entries is taken in steps of this many bytes.
const STEP: usize = 1 << 20;

/// How large a file is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Shape {
    /// Hash slots, at least one.
    pub(super) slots: u32,
    /// Entries, of which number 0 is never used.
    pub(super) entries: u32,
}

impl Shape {
    /// Returns the size of a file in bytes.
    pub(super) fn file_size(self) -> usize {
        self.first_entry() + self.entries as usize * ENTRY_SIZE
    }

    /// Returns where the entries begin.
    fn first_entry(self) -> usize {
        HEADER_SIZE + self.slots as usize * SLOT_SIZE
    }
}

/// What one entry says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) key_hash: i32,
    pub(super) physical_offset: i64,
    pub(super) seconds: i32,
    /// Number of the entry before it in its slot, 0 without one.
    pub(super) previous: u32,
}

/// A file of the index.
#[derive(Debug)]
pub(super) struct IndexFile {
    /// Where it is; none in memory.
    path: Option<PathBuf>,
    map: MmapMut,
    shape: Shape,
    /// Bytes that may be written without running out of disk space.
    reserved: usize,
    /// Set when there is something to write to disk.
    dirty: Arc<AtomicBool>,
}

impl IndexFile {
    /// A new file in memory.
    ///
    /// # Errors
    ///
    /// When the memory cannot be mapped.
    pub(super) fn in_memory(shape: Shape) -> Result<IndexFile, StoreError> {
        let size = shape.file_size();
        let map = mapped_file::map_memory_in_place(size)
            .map_err(|error| StoreError::new(format!("cannot map {size} bytes of memory for the index: {error}")))?;
        let mut file = IndexFile { path: None, map, shape, reserved: size, dirty: Arc::default() };
        file.set_u32(NEXT_ENTRY, 1);
        Ok(file)
    }

    /// Creates a file, with disk space for its header and slots.
    ///
    /// # Errors
    ///
    /// Whatever the file system says; the file is removed again then.
    pub(super) fn create(path: &Path, shape: Shape) -> Result<IndexFile, StoreError> {
        let create = || {
            let file = OpenOptions::new().read(true).write(true).create_new(true).open(path)?;
            let created = (|| {
                file.set_len(shape.file_size() as u64)?;
                platform::reserve(&file, 0, shape.first_entry() as u64)?;
                mapped_file::map_in_place(&file, shape.file_size())
            })();
            created.inspect_err(|_| {
                let _ = std::fs::remove_file(path);
            })
        };
        let map = create().map_err(StoreError::io("cannot create an index file", path))?;
        let reserved = shape.first_entry();
        let mut file = IndexFile { path: Some(path.to_owned()), map, shape, reserved, dirty: Arc::default() };
        file.set_u32(NEXT_ENTRY, 1);
        Ok(file)
    }

    /// Opens a file; none if it does not have the shape, or a header that cannot be.
    ///
    /// # Errors
    ///
    /// Whatever the file system says.
    pub(super) fn open(path: &Path, shape: Shape) -> Result<Option<IndexFile>, StoreError> {
        let open = || {
            let file = OpenOptions::new().read(true).write(true).open(path)?;
            if file.metadata()?.len() != shape.file_size() as u64 {
                return Ok(None);
            }
            platform::fill_holes(&file, 0, shape.first_entry() as u64)?;
            Ok(Some(mapped_file::map_in_place(&file, shape.file_size())?))
        };
        let Some(map) = open().map_err(StoreError::io("cannot open an index file", path))? else { return Ok(None) };
        let reserved = shape.first_entry();
        let mut file = IndexFile { path: Some(path.to_owned()), map, shape, reserved, dirty: Arc::default() };
        if file.next_entry() == 0 {
            // As Apache makes them.
            file.set_u32(NEXT_ENTRY, 1);
        }
        file.reserved = file.entry_at(file.next_entry().min(shape.entries));
        let in_order = file.begin_timestamp() <= file.end_timestamp()
            && 0 <= file.begin_offset()
            && file.begin_offset() <= file.end_offset();
        Ok((in_order && file.next_entry() <= shape.entries).then_some(file))
    }

    /// Has the file written to disk from now on.
    pub(super) fn register(&self, registry: &Registry) {
        if let Some(path) = &self.path {
            registry.add_file(path, &self.dirty);
        }
    }

    pub(super) fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// Store time of the first message.
    pub(super) fn begin_timestamp(&self) -> i64 {
        self.i64_at(BEGIN_TIMESTAMP)
    }

    /// Store time of the last message.
    pub(super) fn end_timestamp(&self) -> i64 {
        self.i64_at(END_TIMESTAMP)
    }

    /// Physical offset of the first message.
    pub(super) fn begin_offset(&self) -> i64 {
        self.i64_at(BEGIN_OFFSET)
    }

    /// Physical offset of the last message.
    pub(super) fn end_offset(&self) -> i64 {
        self.i64_at(END_OFFSET)
    }

    /// Number of the entry to be written next.
    fn next_entry(&self) -> u32 {
        self.u32_at(NEXT_ENTRY)
    }

    /// Whether there is no entry.
    pub(super) fn is_empty(&self) -> bool {
        self.next_entry() <= 1
    }

    /// Whether there is no room for an entry.
    pub(super) fn is_full(&self) -> bool {
        self.next_entry() >= self.shape.entries
    }

    /// Counts the last entries that belong to the last message.
    pub(super) fn keys_of_last_message(&self) -> usize {
        let last = self.end_offset();
        (1..self.next_entry()).rev().take_while(|&number| self.entry(number).physical_offset == last).count()
    }

    /// Enters a key. The file must not be [full](Self::is_full).
    ///
    /// # Errors
    ///
    /// When the disk has no room; nothing is entered then.
    pub(super) fn put(&mut self, key_hash: i32, physical_offset: i64, store_timestamp: i64) -> Result<(), StoreError> {
        let number = self.next_entry();
        let at = self.entry_at(number);
        self.reserve(at + ENTRY_SIZE)?;
        let begin = self.begin_timestamp();
        let seconds =
            if begin <= 0 { 0 } else { (store_timestamp.saturating_sub(begin) / 1000).clamp(0, i64::from(i32::MAX)) };
        let slot = self.slot_at(key_hash);
        let previous = self.newest(slot);
        let entry = &mut self.map[at..at + ENTRY_SIZE];
        entry[..4].copy_from_slice(&key_hash.to_be_bytes());
        entry[4..12].copy_from_slice(&physical_offset.to_be_bytes());
        entry[12..16].copy_from_slice(&(seconds as i32).to_be_bytes());
        entry[16..].copy_from_slice(&previous.to_be_bytes());
        self.set_u32(slot, number);
        if number <= 1 {
            self.set_i64(BEGIN_OFFSET, physical_offset);
            self.set_i64(BEGIN_TIMESTAMP, store_timestamp);
        }
        if previous == 0 {
            self.set_u32(USED_SLOTS, self.u32_at(USED_SLOTS).wrapping_add(1));
        }
        self.set_i64(END_OFFSET, physical_offset);
        self.set_i64(END_TIMESTAMP, store_timestamp);
        self.set_u32(NEXT_ENTRY, number + 1);
        self.dirty.store(true, Ordering::Release);
        Ok(())
    }

    /// Walks the entries in the slot of a key's hash, newest first; other keys share the slot.
    pub(super) fn chain(&self, key_hash: i32) -> impl Iterator<Item = Entry> {
        let mut number = self.newest(self.slot_at(key_hash));
        std::iter::from_fn(move || {
            if number == 0 {
                return None;
            }
            let entry = self.entry(number);
            // Chains go backwards; anything else is damage, and would not end.
            number = if entry.previous < number { entry.previous } else { 0 };
            Some(entry)
        })
    }

    /// The newest entry of a slot, 0 if it has none that was written.
    fn newest(&self, slot: usize) -> u32 {
        let number = self.u32_at(slot);
        if number < self.next_entry() { number } else { 0 }
    }

    fn slot_at(&self, key_hash: i32) -> usize {
        HEADER_SIZE + (key_hash.unsigned_abs() % self.shape.slots) as usize * SLOT_SIZE
    }

    fn entry_at(&self, number: u32) -> usize {
        self.shape.first_entry() + number as usize * ENTRY_SIZE
    }

    fn entry(&self, number: u32) -> Entry {
        let at = self.entry_at(number);
        Entry {
            key_hash: self.u32_at(at) as i32,
            physical_offset: self.i64_at(at + 4),
            seconds: self.u32_at(at + 12) as i32,
            previous: self.u32_at(at + 16),
        }
    }

    fn reserve(&mut self, end: usize) -> Result<(), StoreError> {
        let Some(path) = self.path.as_deref().filter(|_| end > self.reserved) else { return Ok(()) };
        let reserve = || -> io::Result<usize> {
            let file = File::options().write(true).open(path)?;
            let target = (self.reserved + STEP).max(end).min(self.map.len());
            match platform::reserve(&file, self.reserved as u64, (target - self.reserved) as u64) {
                Err(error) if error.kind() == io::ErrorKind::StorageFull => {
                    platform::reserve(&file, self.reserved as u64, (end - self.reserved) as u64)?;
                    Ok(end)
                }
                other => other.map(|()| target),
            }
        };
        self.reserved = reserve().map_err(StoreError::io("cannot extend an index file", path))?;
        Ok(())
    }

    fn u32_at(&self, at: usize) -> u32 {
        self.map[at..].first_chunk().map_or(0, |bytes| u32::from_be_bytes(*bytes))
    }

    fn i64_at(&self, at: usize) -> i64 {
        self.map[at..].first_chunk().map_or(0, |bytes| i64::from_be_bytes(*bytes))
    }

    fn set_u32(&mut self, at: usize, value: u32) {
        self.map[at..at + 4].copy_from_slice(&value.to_be_bytes());
    }

    fn set_i64(&mut self, at: usize, value: i64) {
        self.map[at..at + 8].copy_from_slice(&value.to_be_bytes());
    }
}
