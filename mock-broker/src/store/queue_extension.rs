//! The extension of a consume queue (`consumequeue_ext`): what 20 bytes an entry have no room for.
//!
//! A unit has its size (2), the tags code (8), the store time (8) and the length of a bit map (2), big-endian; the bit maps
//! of expressions, which only spare some evaluations, are left out. An entry names its unit by a tags code below any hash:
//! the unit's position less 2^63. Where a unit does not fit, the rest of the file is left, marked by a size of -1.
//!
//! Nothing depends on a unit: what it says is in the record as well, and is taken from there.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};

use crate::store::error::StoreError;
use crate::store::file_sequence::{FileSequence, Layout, Listing, file_path};

/// Size of a unit without a bit map in bytes.
const UNIT_SIZE: usize = 20;
/// Kept free behind each unit for the mark of the end.
const END_SIZE: usize = 4;

/// Returns whether an entry's tags code is the position of a unit.
pub(super) fn is_position(tags_code: i64) -> bool {
    tags_code < i64::from(i32::MIN)
}

/// The units of one queue.
#[derive(Debug)]
pub(super) struct QueueExtension {
    layout: Layout,
    /// Opened when something is written or removed.
    files: Option<FileSequence>,
}

impl QueueExtension {
    pub(super) fn new(layout: Layout) -> Self {
        QueueExtension { layout, files: None }
    }

    /// Adds a unit and returns what its entry says instead of the tags code.
    ///
    /// # Errors
    ///
    /// When a file cannot be read, created or extended.
    pub(super) fn append(&mut self, tags_code: i64, store_timestamp: i64) -> Result<i64, StoreError> {
        let files = self.files()?;
        let left = files.remaining();
        if left < UNIT_SIZE + END_SIZE {
            if left > 0 {
                files.append(left, |_, bytes| {
                    bytes.fill(0);
                    bytes[..left.min(2)].fill(0xFF);
                })?;
            }
            files.roll()?;
        }
        let position = files.append(UNIT_SIZE, |_, bytes| {
            bytes[..2].copy_from_slice(&(UNIT_SIZE as u16).to_be_bytes());
            bytes[2..10].copy_from_slice(&tags_code.to_be_bytes());
            bytes[10..18].copy_from_slice(&store_timestamp.to_be_bytes());
            bytes[18..].fill(0);
        })?;
        Ok((position as i64).wrapping_add(i64::MIN))
    }

    /// Forgets the files whose units are all before that of an entry, and returns where they are.
    pub(super) fn clean(&mut self, tags_code: i64) -> Vec<PathBuf> {
        if !is_position(tags_code) {
            return Vec::new();
        }
        let position = tags_code.wrapping_sub(i64::MIN) as u64;
        match self.files() {
            Ok(files) => {
                let gone = position.saturating_sub(files.start()) / files.file_size() as u64;
                files.remove_first(usize::try_from(gone).unwrap_or(usize::MAX))
            }
            Err(error) => {
                tracing::warn!(%error, "an extension of a consume queue is not cleaned");
                Vec::new()
            }
        }
    }

    fn files(&mut self) -> Result<&mut FileSequence, StoreError> {
        let files = match self.files.take() {
            Some(files) => files,
            None => self.open()?,
        };
        Ok(self.files.insert(files))
    }

    fn open(&self) -> Result<FileSequence, StoreError> {
        let mut layout = self.layout.clone();
        let Some(directory) = layout.directory.clone() else { return Ok(FileSequence::new(layout, 0)) };
        let listing = Listing::read(&directory)?;
        let (Some(&first), Some(&last)) = (listing.bases.first(), listing.bases.last()) else {
            return Ok(FileSequence::new(layout, 0));
        };
        layout.file_size = listing.file_size;
        let path = file_path(&directory, last);
        let written = end_of_units(&path, listing.file_size)
            .map_err(StoreError::io("cannot read an extension of a consume queue", &path))?;
        Ok(FileSequence::existing(layout, first, listing.bases.len(), written))
    }
}

/// Returns where the units of a file end.
fn end_of_units(path: &Path, file_size: usize) -> io::Result<usize> {
    let mut reader = BufReader::new(File::open(path)?);
    let mut end = 0;
    while end + 2 <= file_size {
        let mut size = [0; 2];
        reader.read_exact(&mut size)?;
        match usize::try_from(i16::from_be_bytes(size)) {
            Ok(size) if size >= UNIT_SIZE && end + size <= file_size => {
                reader.seek_relative(size as i64 - 2)?;
                end += size;
            }
            // What was filled up is full.
            Err(_) => return Ok(file_size),
            Ok(_) => break,
        }
    }
    Ok(end)
}
