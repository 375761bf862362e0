//! The commit log: every message of every topic, one after the other.
//!
//! A record lies in one file. Where the next one does not fit, a filler (END_OF_FILE) takes the rest of the file.

use std::path::PathBuf;

use bytes::Bytes;
use rocketmq_wire::message::record::{END_OF_FILE_SIZE, encode_end_of_file};

use crate::store::error::{PutError, StoreError};
use crate::store::file_sequence::FileSequence;

/// The log's files.
#[derive(Debug)]
pub(super) struct CommitLog {
    files: FileSequence,
}

impl CommitLog {
    pub(super) fn new(files: FileSequence) -> Self {
        CommitLog { files }
    }

    /// Returns the physical offset of the oldest byte.
    pub(super) fn min_offset(&self) -> u64 {
        self.files.start()
    }

    /// Returns the physical offset after the newest byte.
    pub(super) fn max_offset(&self) -> u64 {
        self.files.end()
    }

    /// Returns the size of each file in bytes.
    pub(super) fn file_size(&self) -> u64 {
        self.files.file_size() as u64
    }

    /// Returns the size of the largest record that fits a file beside its filler.
    pub(super) fn largest_record(&self) -> usize {
        self.files.file_size() - END_OF_FILE_SIZE
    }

    /// Returns the offset of the first byte of the file after the one that holds `offset`.
    pub(super) fn next_file(&self, offset: u64) -> u64 {
        let size = self.files.file_size() as u64;
        offset - offset % size + size
    }

    /// Returns the offset of the first byte of a file, counted from the first one; none if there is no such file.
    pub(super) fn start_of_file(&self, index: usize) -> Option<u64> {
        self.files.start_of(index)
    }

    /// Forgets the first files and returns where they are.
    pub(super) fn remove_first(&mut self, count: usize) -> Vec<PathBuf> {
        self.files.remove_first(count)
    }

    /// Lends room for `length` bytes of whole records to `encode`, together with their physical offset, and returns
    /// that. The bytes become part of the log when `encode` returns.
    ///
    /// `length` is at most [`largest_record`](Self::largest_record).
    ///
    /// # Errors
    ///
    /// When the file cannot be extended, or the next one not be created. Nothing but a filler is appended then.
    pub(super) fn append(&mut self, length: usize, encode: impl FnOnce(u64, &mut [u8])) -> Result<u64, StoreError> {
        self.make_room(length)?;
        self.files.append(length, encode)
    }

    /// Ends the last file with a filler and adds a new one, if `length` bytes and a filler do not fit.
    fn make_room(&mut self, length: usize) -> Result<(), StoreError> {
        let remaining = self.files.remaining();
        if length + END_OF_FILE_SIZE > remaining {
            if remaining > 0 {
                // Every append leaves room for a filler, and a file is smaller than its length field can say.
                self.files.append(remaining, |_, bytes| {
                    let written = encode_end_of_file(bytes);
                    debug_assert!(written.is_ok(), "{written:?}");
                })?;
            }
            self.files.roll()?;
        }
        Ok(())
    }

    /// Appends bytes as another log has them, fillers included, and returns the new end of the log.
    ///
    /// A log without a file begins where the bytes belong, which must then be the beginning of a file. The bytes may
    /// end within a record; that one takes part once its rest has come.
    ///
    /// # Errors
    ///
    /// [`PutError::NotContiguous`] if `offset` is not where the log ends, else as [`append`](Self::append), with the
    /// files before the failing one appended.
    pub(super) fn append_raw(&mut self, offset: u64, mut bytes: &[u8]) -> Result<u64, PutError> {
        if self.files.is_empty() && offset.is_multiple_of(self.files.file_size() as u64) {
            self.files.start_at(offset);
        }
        let expected = self.max_offset();
        if offset != expected {
            return Err(PutError::NotContiguous { offset, expected });
        }
        while !bytes.is_empty() {
            if self.files.remaining() == 0 {
                self.files.roll()?;
            }
            let (head, rest) = bytes.split_at(bytes.len().min(self.files.remaining()));
            self.files.append(head.len(), |_, room| room.copy_from_slice(head))?;
            bytes = rest;
        }
        Ok(self.max_offset())
    }

    /// Borrows `size` bytes at a physical offset; none if they are not there.
    pub(super) fn read(&self, offset: u64, size: usize) -> Option<&[u8]> {
        self.files.read(offset, size)
    }

    /// Borrows all bytes from a physical offset to the end of what its file holds.
    pub(super) fn read_to_end(&self, offset: u64) -> Option<&[u8]> {
        self.files.read_to_end(offset)
    }

    /// Shares `size` bytes at a physical offset without copying; none if they are not there.
    pub(super) fn bytes(&self, offset: u64, size: usize) -> Option<Bytes> {
        self.files.bytes(offset, size)
    }

    /// Shares at most `limit` bytes from a physical offset on, as many as its file holds; none if there are none.
    pub(super) fn read_raw(&self, offset: u64, limit: usize) -> Option<Bytes> {
        let available = self.files.read_to_end(offset)?.len();
        let size = available.min(limit);
        if size == 0 { None } else { self.files.bytes(offset, size) }
    }
}
