//! The files of a log, read piece by piece.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use rocketmq_wire::DecodeError;
use rocketmq_wire::message::LogEntry;

/// Read at once, if the record is not larger.
const WINDOW: u64 = 64 << 10;

/// No record is larger.
const LARGEST: u64 = 32 << 20;

#[derive(Debug)]
struct LogFile {
    base: u64,
    length: u64,
    path: PathBuf,
}

/// The files of `commitlog`, in their order.
#[derive(Debug)]
pub(super) struct Log {
    files: Vec<LogFile>,
}

/// The files of a directory whose names are offsets, in their order, with their lengths.
pub(super) fn numbered(directory: &Path) -> io::Result<Vec<(u64, u64, PathBuf)>> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(directory)? {
        let entry = entry?;
        let name = entry.file_name();
        let Some(base) = name.to_str().and_then(|name| name.parse().ok()) else { continue };
        files.push((base, entry.metadata()?.len(), entry.path()));
    }
    files.sort();
    Ok(files)
}

impl Log {
    pub(super) fn open(directory: &Path) -> io::Result<Self> {
        let files = numbered(&directory.join("commitlog"))?;
        let files = files.into_iter().map(|(base, length, path)| LogFile { base, length, path }).collect();
        Ok(Log { files })
    }

    /// Where it begins.
    pub(super) fn begin(&self) -> u64 {
        self.files.first().map_or(0, |file| file.base)
    }

    /// How many files it has.
    pub(super) fn file_count(&self) -> usize {
        self.files.len()
    }

    fn file(&self, position: u64) -> Option<&LogFile> {
        self.files.iter().find(|file| (file.base..file.base + file.length).contains(&position))
    }

    /// The beginning of the file behind the one with that position.
    pub(super) fn next_file(&self, position: u64) -> u64 {
        self.file(position).map_or(position, |file| file.base + file.length)
    }

    /// A position as file and offset.
    pub(super) fn place(&self, position: u64) -> String {
        match self.file(position) {
            Some(file) => format!("{} at offset {}", file.path.display(), position - file.base),
            None => format!("the log at {position}"),
        }
    }

    /// What stands at a position; none behind the last file.
    pub(super) fn entry<'b>(
        &self,
        position: u64,
        buffer: &'b mut Vec<u8>,
    ) -> io::Result<Option<Result<LogEntry<'b>, DecodeError>>> {
        let Some(file) = self.file(position) else { return Ok(None) };
        let left = file.base + file.length - position;
        let mut open = File::open(&file.path)?;
        let mut read = |length: u64, buffer: &mut Vec<u8>| -> io::Result<()> {
            buffer.clear();
            open.seek(SeekFrom::Start(position - file.base))?;
            (&mut open).take(length.min(left)).read_to_end(buffer).map(drop)
        };
        read(WINDOW, buffer)?;
        let size = buffer.first_chunk::<4>().map_or(0, |size| u64::from(u32::from_be_bytes(*size)));
        if size > WINDOW && size <= LARGEST {
            read(size, buffer)?;
        }
        Ok(Some(LogEntry::parse(buffer)))
    }
}
