//! `checkpoint`: up to which store times log, queues and index are known to be on disk.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;

use crate::store::error::StoreError;

/// Size of the file in bytes; what follows the three times belongs to others and is left alone.
const FILE_SIZE: u64 = 4096;
/// Messages may be stored in another order than their times tell, so recovery begins this much earlier.
const MARGIN_MS: i64 = 3000;

/// The times in milliseconds since 1970, 0 if nothing is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Checkpoint {
    /// Messages stored until then are in the log on disk.
    pub(super) log: i64,
    /// Messages stored until then are in their queues on disk.
    pub(super) queues: i64,
    /// Index files with no later message are on disk.
    pub(super) index: i64,
}

impl Checkpoint {
    /// Reads the file; without it nothing is known.
    ///
    /// # Errors
    ///
    /// Whatever the file system says.
    pub(super) fn read(path: &Path) -> Result<Checkpoint, StoreError> {
        let mut bytes = Vec::new();
        match File::open(path).and_then(|file| file.take(24).read_to_end(&mut bytes)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Checkpoint::default()),
            other => other.map_err(StoreError::io("cannot read the checkpoint", path))?,
        };
        let time = |index: usize| {
            let bytes = bytes.get(8 * index..).and_then(|bytes| bytes.first_chunk());
            bytes.map_or(0, |bytes| i64::from_be_bytes(*bytes))
        };
        Ok(Checkpoint { log: time(0), queues: time(1), index: time(2) })
    }

    /// Writes the file and waits until it is on disk.
    ///
    /// # Errors
    ///
    /// Whatever the file system says.
    pub(super) fn write(&self, path: &Path) -> Result<(), StoreError> {
        let write = || {
            let mut file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)?;
            if file.metadata()?.len() != FILE_SIZE {
                file.set_len(FILE_SIZE)?;
            }
            let mut bytes = [0; 24];
            for (bytes, time) in bytes.chunks_exact_mut(8).zip([self.log, self.queues, self.index]) {
                bytes.copy_from_slice(&time.to_be_bytes());
            }
            file.seek(SeekFrom::Start(0))?;
            file.write_all(&bytes)?;
            file.sync_data()
        };
        write().map_err(StoreError::io("cannot write the checkpoint", path))
    }

    /// Returns the time from which on messages may be missing on disk after a crash.
    pub(super) fn recover_from(&self) -> i64 {
        self.log.min(self.queues).saturating_sub(MARGIN_MS).max(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_read_and_the_rest_stays() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("checkpoint");
        assert_eq!(Checkpoint::read(&path).unwrap(), Checkpoint::default());
        let mut bytes = vec![0; 4096];
        bytes[24..40].fill(7);
        std::fs::write(&path, &bytes).unwrap();
        let checkpoint = Checkpoint { log: 5000, queues: 1 << 40, index: -1 };
        checkpoint.write(&path).unwrap();
        assert_eq!(Checkpoint::read(&path).unwrap(), checkpoint);
        assert_eq!(checkpoint.recover_from(), 2000);
        bytes[..24].copy_from_slice(&std::fs::read(&path).unwrap()[..24]);
        assert!(std::fs::read(&path).unwrap() == bytes);
    }
}
