//! A sequence of mapped files of one size: bytes numbered from 0 on, of which the oldest files may be gone.
//!
//! A file is named after the offset of its first byte, in 20 digits.

use std::cell::OnceCell;
use std::collections::VecDeque;
use std::io;
use std::path::{Path, PathBuf};

use bytes::Bytes;

use crate::store::error::StoreError;
use crate::store::flush::Registry;
use crate::store::mapped_file::{MappedFile, Reservation};

/// How the files of a sequence are made.
#[derive(Debug, Clone)]
pub(super) struct Layout {
    /// Where the files are; none for anonymous memory.
    pub(super) directory: Option<PathBuf>,
    /// Size of each file in bytes.
    pub(super) file_size: usize,
    /// How space is taken.
    pub(super) reservation: Reservation,
    /// Whom to tell about new mappings, so that they are flushed.
    pub(super) registry: Option<Registry>,
}

/// A file of the sequence, mapped when it is first used.
#[derive(Debug)]
struct Slot {
    /// Bytes that hold data, as long as the file is not mapped.
    written: usize,
    mapped: OnceCell<MappedFile>,
}

impl Slot {
    fn written(&self) -> usize {
        self.mapped.get().map_or(self.written, MappedFile::written)
    }
}

/// The files, oldest first, without gaps.
#[derive(Debug)]
pub(super) struct FileSequence {
    layout: Layout,
    /// Offset of the first byte of the first file, or of the file to be created next.
    base: u64,
    slots: VecDeque<Slot>,
    /// The files after the last one that were made ahead.
    spares: VecDeque<MappedFile>,
}

impl FileSequence {
    /// An empty sequence; its first file will begin at `base`.
    pub(super) fn new(layout: Layout, base: u64) -> Self {
        FileSequence { layout, base, slots: VecDeque::new(), spares: VecDeque::new() }
    }

    /// A sequence of files that exist from `base` on, full but for the last one, which holds `written` bytes.
    pub(super) fn existing(layout: Layout, base: u64, files: usize, written: usize) -> Self {
        let size = layout.file_size;
        let slot = |index| Slot { written: if index + 1 == files { written } else { size }, mapped: OnceCell::new() };
        FileSequence { layout, base, slots: (0..files).map(slot).collect(), spares: VecDeque::new() }
    }

    /// Returns the size of each file in bytes.
    pub(super) fn file_size(&self) -> usize {
        self.layout.file_size
    }

    /// Returns whether there is no file.
    pub(super) fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// Returns the offset of the first byte that is kept.
    pub(super) fn start(&self) -> u64 {
        self.base
    }

    /// Returns the offset after the last byte.
    pub(super) fn end(&self) -> u64 {
        match self.slots.back() {
            Some(last) => self.base_of(self.slots.len() - 1) + last.written() as u64,
            None => self.base,
        }
    }

    /// Returns how many bytes the last file has left, 0 without one.
    pub(super) fn remaining(&self) -> usize {
        self.slots.back().map_or(0, |last| self.layout.file_size - last.written())
    }

    /// Moves the beginning of a sequence without files, so that its first file holds `offset`.
    pub(super) fn start_at(&mut self, offset: u64) {
        debug_assert!(self.slots.is_empty(), "files cannot be renumbered");
        // Made ahead for another beginning.
        for index in 0..self.spares.len() {
            if let Some(path) = self.path(index) {
                let _ = std::fs::remove_file(path);
            }
        }
        self.spares.clear();
        self.base = offset - offset % self.layout.file_size as u64;
    }

    /// Returns the offset of the first byte of a file, counted from the first one; none if there is no such file.
    pub(super) fn start_of(&self, index: usize) -> Option<u64> {
        (index < self.slots.len()).then(|| self.base_of(index))
    }

    /// Forgets the first files, all but the last one at most, and returns where they are. Slices of them stay valid.
    pub(super) fn remove_first(&mut self, count: usize) -> Vec<PathBuf> {
        let count = count.min(self.slots.len().saturating_sub(1));
        let paths = (0..count).filter_map(|index| self.path(index)).collect();
        self.base = self.base_of(count);
        self.slots.drain(..count);
        paths
    }

    fn base_of(&self, index: usize) -> u64 {
        self.base + (index * self.layout.file_size) as u64
    }

    /// Finds the file that holds `offset`, and the position in it.
    fn locate(&self, offset: u64) -> Option<(usize, usize)> {
        let distance = offset.checked_sub(self.base)?;
        let size = self.layout.file_size as u64;
        let index = usize::try_from(distance / size).ok()?;
        (index < self.slots.len()).then_some((index, (distance % size) as usize))
    }

    fn path(&self, index: usize) -> Option<PathBuf> {
        self.layout.directory.as_deref().map(|directory| file_path(directory, self.base_of(index)))
    }

    /// Returns a file, mapping it if it is not.
    fn mapped(&self, index: usize) -> Result<&MappedFile, StoreError> {
        let slot = &self.slots[index];
        if let Some(mapped) = slot.mapped.get() {
            return Ok(mapped);
        }
        // Files in memory are mapped when they are made, so this one has a path.
        let path = self.path(index).ok_or_else(|| StoreError::new("a file in memory is not mapped"))?;
        let mapped = MappedFile::open(&path, slot.written, self.layout.reservation)
            .map_err(StoreError::io("cannot map a file of the store", &path))?;
        self.register(&mapped);
        Ok(slot.mapped.get_or_init(|| mapped))
    }

    fn register(&self, mapped: &MappedFile) {
        if let Some(registry) = &self.layout.registry {
            registry.add(mapped.mapping());
        }
    }

    /// Adds a file at the end; the last one must be full.
    ///
    /// # Errors
    ///
    /// When the file cannot be created or has no room.
    pub(super) fn roll(&mut self) -> Result<(), StoreError> {
        debug_assert_eq!(self.remaining(), 0, "only the last file may be partly filled");
        let mapped = match self.spares.pop_front() {
            Some(spare) => spare,
            None => self.create(self.slots.len())?,
        };
        self.slots.push_back(Slot { written: 0, mapped: OnceCell::from(mapped) });
        Ok(())
    }

    /// Makes the file with this position.
    fn create(&self, index: usize) -> Result<MappedFile, StoreError> {
        let Layout { file_size, reservation, .. } = self.layout;
        let mapped = match self.path(index) {
            None => MappedFile::anonymous(file_size, reservation)
                .map_err(|error| StoreError::new(format!("cannot map {file_size} bytes of memory: {error}")))?,
            Some(path) => {
                if index == 0 {
                    let directory = path.parent().unwrap_or(&path);
                    std::fs::create_dir_all(directory)
                        .map_err(StoreError::io("cannot create a directory of the store", directory))?;
                }
                MappedFile::create(&path, file_size, reservation)
                    .map_err(StoreError::io("cannot create a file of the store", &path))?
            }
        };
        self.register(&mapped);
        Ok(mapped)
    }

    /// Returns the last file for appending, mapping it if it is not; none without a file.
    pub(super) fn last(&mut self) -> Result<Option<&mut MappedFile>, StoreError> {
        let Some(index) = self.slots.len().checked_sub(1) else { return Ok(None) };
        self.mapped(index)?;
        Ok(self.slots[index].mapped.get_mut())
    }

    /// Appends to the last file, which must have room for `length` bytes, and returns the offset of the first.
    ///
    /// # Errors
    ///
    /// As [`MappedFile::append`]; nothing is appended then.
    pub(super) fn append(&mut self, length: usize, fill: impl FnOnce(u64, &mut [u8])) -> Result<u64, StoreError> {
        let index = self.slots.len().saturating_sub(1);
        let base = self.base_of(index);
        let Some(last) = self.last()? else {
            return Err(StoreError::new("there is no file to append to"));
        };
        let offset = base + last.written() as u64;
        let appended = last.append(length, |bytes| fill(offset, bytes));
        let ahead = last.ahead_wanted();
        match appended {
            Ok(_) => {
                if let (Some(end), Some(registry)) = (ahead, &self.layout.registry)
                    && let Some(last) = self.slots[index].mapped.get()
                {
                    registry.reserve_ahead(last.mapping(), end);
                }
                Ok(offset)
            }
            Err(source) => Err(self.append_error(index, source)),
        }
    }

    #[cold]
    fn append_error(&self, index: usize, source: io::Error) -> StoreError {
        let path = self.path(index).unwrap_or_default();
        StoreError::io("cannot extend a file of the store", &path)(source)
    }

    /// Makes sure that `length` bytes can be appended without an error, in the last file and in further ones, which
    /// are made ahead if they are needed.
    ///
    /// # Errors
    ///
    /// As [`MappedFile::reserve`] and [`roll`](Self::roll).
    pub(super) fn reserve(&mut self, length: usize) -> Result<(), StoreError> {
        let index = self.slots.len().saturating_sub(1);
        if let Some(last) = self.last()? {
            let reserved = last.reserve(length);
            reserved.map_err(|source| self.append_error(index, source))?;
        }
        let mut beyond = length.saturating_sub(self.remaining());
        for ahead in 0.. {
            if beyond == 0 {
                break;
            }
            let index = self.slots.len() + ahead;
            if ahead == self.spares.len() {
                self.spares.push_back(self.create(index)?);
            }
            let part = beyond.min(self.layout.file_size);
            self.spares[ahead].reserve(part).map_err(|source| self.append_error(index, source))?;
            beyond -= part;
        }
        Ok(())
    }

    /// Borrows bytes that lie in one file; none if they are not there.
    pub(super) fn read(&self, offset: u64, length: usize) -> Option<&[u8]> {
        let (index, at) = self.locate(offset)?;
        self.usable(index)?.read(at..at.checked_add(length)?)
    }

    /// Borrows all bytes from `offset` to the end of what its file holds; none if the offset is not there.
    pub(super) fn read_to_end(&self, offset: u64) -> Option<&[u8]> {
        let (index, at) = self.locate(offset)?;
        let file = self.usable(index)?;
        file.read(at..file.written())
    }

    /// Shares bytes that lie in one file without copying; none if they are not there.
    pub(super) fn bytes(&self, offset: u64, length: usize) -> Option<Bytes> {
        let (index, at) = self.locate(offset)?;
        self.usable(index)?.bytes(at..at.checked_add(length)?)
    }

    /// A file that cannot be mapped reads like one that is not there; the log says why.
    fn usable(&self, index: usize) -> Option<&MappedFile> {
        match self.mapped(index) {
            Ok(mapped) => Some(mapped),
            Err(error) => {
                tracing::error!(%error, "a file of the store cannot be read");
                None
            }
        }
    }
}

/// Returns the path of the file whose first byte has this offset.
pub(super) fn file_path(directory: &Path, offset: u64) -> PathBuf {
    directory.join(format!("{offset:020}"))
}

/// The files found in a directory.
#[derive(Debug, Default)]
pub(super) struct Listing {
    /// Offset of each file's first byte, ascending.
    pub(super) bases: Vec<u64>,
    /// Size of each file in bytes, 0 without one.
    pub(super) file_size: usize,
}

impl Listing {
    /// Lists the files of a sequence. Without the directory there are none; empty files at the end are removed.
    ///
    /// # Errors
    ///
    /// When the directory cannot be read, or when sizes or numbers do not make a sequence.
    pub(super) fn read(directory: &Path) -> Result<Listing, StoreError> {
        let entries = match std::fs::read_dir(directory) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Listing::default()),
            Err(error) => return Err(StoreError::io("cannot list a directory of the store", directory)(error)),
        };
        let mut files = Vec::new();
        for entry in entries {
            let entry = entry.map_err(StoreError::io("cannot list a directory of the store", directory))?;
            let name = entry.file_name();
            let Some(name) = name.to_str().filter(|name| name.len() == 20) else { continue };
            let Ok(base) = name.parse::<u64>() else { continue };
            let path = entry.path();
            let length = entry.metadata().map_err(StoreError::io("cannot look at a file of the store", &path))?.len();
            files.push((base, length));
        }
        files.sort_unstable();
        // A crash between creating a file and giving it its size leaves it empty.
        while let Some(&(base, 0)) = files.last() {
            let path = file_path(directory, base);
            std::fs::remove_file(&path).map_err(StoreError::io("cannot remove an empty file of the store", &path))?;
            files.pop();
        }
        let Some(&(first, size)) = files.first() else { return Ok(Listing::default()) };
        for (index, &(base, length)) in files.iter().enumerate() {
            if length != size || size == 0 || base.checked_sub(first) != size.checked_mul(index as u64) {
                let what = format!("a file of {length} bytes does not continue files of {size} bytes from {first} on");
                return Err(StoreError::at(what, &file_path(directory, base)));
            }
        }
        let file_size = usize::try_from(size).map_err(|_| StoreError::at("files are too large to map", directory))?;
        Ok(Listing { bases: files.into_iter().map(|(base, _)| base).collect(), file_size })
    }
}
