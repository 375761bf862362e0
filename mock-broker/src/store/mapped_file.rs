//! One mapped range of bytes that grows at its end: a file, or anonymous memory with the same layout.
//!
//! The owner appends; everybody else reads slices below the committed position, which are never written again. A
//! range is reserved before it is written, so that a full disk is an error and not a signal.
//!
//! This is the only file of the crate with `unsafe` code. What makes it sound:
//!
//! * Bytes at and above `written` are touched by [`MappedFile::append`] alone, which takes `&mut self`.
//! * Bytes below `written` are never changed again, so shared slices of them may be handed out freely; each slice
//!   covers only bytes that were committed when it was made, and keeps the mapping alive.
//! * The length of the mapping is fixed, and every range is checked against it.
//! * Files of a store are locked against other stores. As with every mapped file, a third process that shortens or
//!   rewrites them while they are mapped breaks all bets.
#![expect(unsafe_code, reason = "memory mapping")]

use std::fs::{File, OpenOptions};
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use memmap2::{MmapMut, MmapOptions, MmapRaw};

use crate::store::platform;

/// Pages are at least this large; only used to round steps.
const PAGE: usize = 4096;

/// How a mapped file takes its space, in bytes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reservation {
    /// The first step; each further one is as large as all before it together.
    pub(super) first: usize,
    /// The largest step.
    pub(super) largest: usize,
    /// Whether reserved pages are brought into memory at once.
    pub(super) prefault: bool,
}

/// The mapping itself, shared by the owner, the slices handed out and the thread that flushes.
#[derive(Debug)]
pub(super) struct Mapping {
    raw: MmapRaw,
    /// Where the bytes are on disk; none for anonymous memory.
    path: Option<PathBuf>,
    reservation: Reservation,
    /// Everything below may be written without a fault that nothing can serve.
    reserved: AtomicUsize,
    /// Held while `reserved` grows: owner and second thread must not reserve the same range at once.
    growing: Mutex<()>,
    /// Everything below is final.
    written: AtomicUsize,
    /// Everything below is on disk.
    flushed: AtomicUsize,
}

impl Mapping {
    /// Makes sure that the bytes below `end` can be written.
    fn reserve(&self, end: usize) -> io::Result<()> {
        if end <= self.reserved.load(Ordering::Acquire) { Ok(()) } else { self.reserve_step(end) }
    }

    #[cold]
    fn reserve_step(&self, end: usize) -> io::Result<()> {
        let Reservation { first, largest, prefault } = self.reservation;
        let growing = self.growing.lock().unwrap_or_else(PoisonError::into_inner);
        let reserved = self.reserved.load(Ordering::Acquire);
        if end <= reserved {
            return Ok(());
        }
        let step = reserved.clamp(first, largest);
        let mut target = end.max(reserved.saturating_add(step)).next_multiple_of(PAGE).min(self.raw.len());
        if let Some(path) = &self.path {
            // Opened for each step: thousands of queues must not hold a descriptor each.
            let file = OpenOptions::new().write(true).open(path)?;
            match platform::reserve(&file, reserved as u64, (target - reserved) as u64) {
                // The next bytes may fit even if the whole step does not.
                Err(error) if error.kind() == io::ErrorKind::StorageFull && target > end => {
                    platform::reserve(&file, reserved as u64, (end - reserved) as u64)?;
                    target = end;
                }
                other => other?,
            }
        }
        self.reserved.store(target, Ordering::Release);
        drop(growing);
        if prefault {
            // Pages begin below `reserved` if that is not aligned; those were touched before.
            let start = reserved & !(PAGE - 1);
            platform::prefault(&self.raw, start, target - start)?;
        }
        Ok(())
    }

    /// Where pages are not prefaulted, keeps the kernel from reading ahead into what nobody has written: with thousands of
    /// queues that costs more than all else.
    fn expect_appends(&self) {
        if !self.reservation.prefault {
            platform::expect_no_order(&self.raw);
        }
    }

    /// Reserves up to `end` ahead of the owner; called by the second thread.
    ///
    /// # Errors
    ///
    /// As [`MappedFile::append`]; the owner will meet the same error when it gets there.
    pub(super) fn reserve_ahead(&self, end: usize) -> io::Result<()> {
        self.reserve(end.min(self.raw.len()))
    }

    /// Returns how many bytes are committed but not on disk.
    pub(super) fn unflushed(&self) -> usize {
        self.written.load(Ordering::Acquire) - self.flushed.load(Ordering::Acquire)
    }

    /// Writes what is committed to disk and waits for it; nothing to do for anonymous memory.
    ///
    /// # Errors
    ///
    /// Whatever the file system says.
    pub(super) fn flush(&self) -> io::Result<()> {
        let written = self.written.load(Ordering::Acquire);
        let flushed = self.flushed.load(Ordering::Acquire);
        if flushed < written {
            if self.path.is_some() {
                self.raw.flush_range(flushed, written - flushed)?;
            }
            self.flushed.fetch_max(written, Ordering::AcqRel);
        }
        Ok(())
    }

    /// Borrows committed bytes; none if the range is not committed.
    fn slice(&self, range: Range<usize>) -> Option<&[u8]> {
        if range.start > range.end || range.end > self.written.load(Ordering::Acquire) {
            return None;
        }
        // SAFETY: `written` never exceeds the mapping's length, so the range lies in the mapping, which lives as long
        // as `self`. Bytes below `written` are initialised and never written again.
        Some(unsafe { std::slice::from_raw_parts(self.raw.as_ptr().add(range.start), range.len()) })
    }
}

/// A range of committed bytes that keeps its mapping alive.
struct Committed {
    mapping: Arc<Mapping>,
    range: Range<usize>,
}

impl AsRef<[u8]> for Committed {
    fn as_ref(&self) -> &[u8] {
        // `written` never shrinks, so a range that was committed once stays so.
        self.mapping.slice(self.range.clone()).unwrap_or_default()
    }
}

/// The owner's side of a mapping: appends and reads.
#[derive(Debug)]
pub(super) struct MappedFile {
    mapping: Arc<Mapping>,
    written: usize,
    /// The reserved position for which the second thread was last asked to go on.
    asked_ahead: usize,
}

impl MappedFile {
    /// Maps `size` bytes of anonymous memory, which take no room before they are touched.
    ///
    /// # Errors
    ///
    /// Whatever the operating system says when it maps.
    pub(super) fn anonymous(size: usize, reservation: Reservation) -> io::Result<MappedFile> {
        let map = MmapOptions::new().len(size).no_reserve_swap().map_anon()?;
        Ok(Self::new(MmapRaw::from(map), None, reservation, 0, 0))
    }

    /// Creates the file `path` of `size` bytes, reserves its first step and maps it.
    ///
    /// # Errors
    ///
    /// Whatever the file system says; the file is removed again if it has no room.
    pub(super) fn create(path: &Path, size: usize, reservation: Reservation) -> io::Result<MappedFile> {
        let file = OpenOptions::new().read(true).write(true).create_new(true).open(path)?;
        let created = (|| {
            file.set_len(size as u64)?;
            let raw = MmapOptions::new().len(size).map_raw(&file)?;
            let created = Self::new(raw, Some(path.to_owned()), reservation, 0, 0);
            created.mapping.expect_appends();
            created.mapping.reserve(1)?;
            Ok(created)
        })();
        if created.is_err() {
            let _ = std::fs::remove_file(path);
        }
        created
    }

    /// Maps an existing file, of which the first `written` bytes hold data.
    ///
    /// # Errors
    ///
    /// Whatever the file system says; [`io::ErrorKind::InvalidData`] if the file is shorter than `written`.
    pub(super) fn open(path: &Path, written: usize, reservation: Reservation) -> io::Result<MappedFile> {
        let file = OpenOptions::new().read(true).write(true).open(path)?;
        let size = mappable_length(&file)?;
        if written > size {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "the file is shorter than its data"));
        }
        let raw = MmapOptions::new().len(size).map_raw(&file)?;
        let opened = Self::new(raw, Some(path.to_owned()), reservation, written, written);
        if written < size {
            opened.mapping.expect_appends();
        }
        Ok(opened)
    }

    fn new(raw: MmapRaw, path: Option<PathBuf>, reservation: Reservation, written: usize, flushed: usize) -> Self {
        let mapping = Mapping {
            raw,
            path,
            reservation,
            reserved: AtomicUsize::new(written),
            growing: Mutex::new(()),
            written: AtomicUsize::new(written),
            flushed: AtomicUsize::new(flushed),
        };
        MappedFile { mapping: Arc::new(mapping), written, asked_ahead: 0 }
    }

    /// Returns the mapping for the thread that flushes.
    pub(super) fn mapping(&self) -> &Arc<Mapping> {
        &self.mapping
    }

    /// Returns how many bytes hold data.
    pub(super) fn written(&self) -> usize {
        self.written
    }

    /// Returns how many bytes the file can hold.
    pub(super) fn size(&self) -> usize {
        self.mapping.raw.len()
    }

    /// Returns how many bytes are left.
    pub(super) fn remaining(&self) -> usize {
        self.size() - self.written
    }

    /// Makes sure that the next `length` bytes, or all that are left, can be appended without an error.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::StorageFull`] when the disk has no room, else whatever the file system says.
    pub(super) fn reserve(&self, length: usize) -> io::Result<()> {
        self.mapping.reserve(self.written.saturating_add(length).min(self.size()))
    }

    /// Lends the next `length` bytes to `fill`, commits them when it returns, and returns where they begin.
    ///
    /// The bytes may hold anything before. If `fill` panics nothing is committed.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::StorageFull`] when the disk has no room, [`io::ErrorKind::InvalidInput`] when `length`
    /// exceeds [`remaining`](Self::remaining), else whatever the file system says. Nothing is committed then.
    pub(super) fn append(&mut self, length: usize, fill: impl FnOnce(&mut [u8])) -> io::Result<usize> {
        if length > self.remaining() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "more bytes than the file has left"));
        }
        let start = self.written;
        self.mapping.reserve(start + length)?;
        // SAFETY: the range was checked to lie in the mapping. It is above `written`, so no slice of it was handed out,
        // and `&mut self` keeps a second writer away. Mapped bytes are always initialised.
        fill(unsafe { std::slice::from_raw_parts_mut(self.mapping.raw.as_mut_ptr().add(start), length) });
        self.written = start + length;
        self.mapping.written.store(self.written, Ordering::Release);
        Ok(start)
    }

    /// Borrows committed bytes; none if the range is not committed.
    pub(super) fn read(&self, range: Range<usize>) -> Option<&[u8]> {
        self.mapping.slice(range)
    }

    /// Shares committed bytes without copying; none if the range is not committed.
    ///
    /// The mapping lives as long as the slice does, even if the file is removed.
    pub(super) fn bytes(&self, range: Range<usize>) -> Option<Bytes> {
        self.mapping.slice(range.clone())?;
        Some(Bytes::from_owner(Committed { mapping: Arc::clone(&self.mapping), range }))
    }

    /// Returns up to where the second thread should reserve next, once for each step; none while enough is reserved.
    pub(super) fn ahead_wanted(&mut self) -> Option<usize> {
        let reserved = self.mapping.reserved.load(Ordering::Relaxed);
        let step = self.mapping.reservation.largest;
        let wanted = reserved < self.size() && reserved - self.written < step / 2 && reserved != self.asked_ahead;
        wanted.then(|| {
            self.asked_ahead = reserved;
            reserved + 1
        })
    }
}

/// Maps a file whose bytes are changed where they lie, such as an index. Whoever holds the mapping is the only one to
/// read or write it; to put it on disk, sync the file.
///
/// # Errors
///
/// Whatever the operating system says when it maps.
pub(super) fn map_in_place(file: &File, size: usize) -> io::Result<MmapMut> {
    // SAFETY: files of a store are locked against other stores, and this crate maps each of them once. As above, a
    // third process that shortens or rewrites them breaks all bets.
    unsafe { MmapOptions::new().len(size).map_mut(file) }
}

/// Maps memory that is changed where it lies; it takes no room before it is touched.
///
/// # Errors
///
/// Whatever the operating system says when it maps.
pub(super) fn map_memory_in_place(size: usize) -> io::Result<MmapMut> {
    MmapOptions::new().len(size).no_reserve_swap().map_anon()
}

fn mappable_length(file: &File) -> io::Result<usize> {
    let length = usize::try_from(file.metadata()?.len())
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "the file is too large to map"))?;
    if length == 0 {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "the file is empty"));
    }
    Ok(length)
}
