//! What can go wrong in the store.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// A store that could not be opened, read or written.
///
/// Says what was done to which file; the cause is its [`source`](std::error::Error::source).
#[derive(Debug)]
pub struct StoreError {
    what: String,
    path: Option<PathBuf>,
    source: Option<io::Error>,
}

impl StoreError {
    pub(crate) fn new(what: impl Into<String>) -> Self {
        StoreError { what: what.into(), path: None, source: None }
    }

    pub(super) fn at(what: impl Into<String>, path: &Path) -> Self {
        StoreError { what: what.into(), path: Some(path.to_owned()), source: None }
    }

    /// For `map_err` after a file system call on `path`.
    pub(super) fn io(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| StoreError { what: what.to_owned(), path: Some(path.to_owned()), source: Some(source) }
    }

    /// The cause's kind, [`io::ErrorKind::Other`] if the operating system had no part in it.
    pub fn io_kind(&self) -> io::ErrorKind {
        self.source.as_ref().map_or(io::ErrorKind::Other, io::Error::kind)
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)?;
        if let Some(path) = &self.path {
            write!(f, ": {}", path.display())?;
        }
        if let Some(source) = &self.source {
            write!(f, ": {source}")?;
        }
        Ok(())
    }
}

impl std::error::Error for StoreError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_ref().map(|source| source as _)
    }
}

/// Why a message was not stored; nothing of it is in the log then.
#[derive(Debug)]
#[non_exhaustive]
pub enum PutError {
    /// The message breaks a limit of the store or of its format (`MESSAGE_ILLEGAL`).
    Illegal {
        /// The part that breaks it.
        what: &'static str,
        /// Its length in bytes.
        length: usize,
        /// The limit in bytes.
        limit: usize,
    },
    /// The topic cannot be the name of a directory, or the queue id is negative (`MESSAGE_ILLEGAL`).
    IllegalTopic,
    /// The property string is longer than 32,767 bytes (`PROPERTIES_SIZE_EXCEEDED`).
    PropertiesTooLong {
        /// Its length in bytes.
        length: usize,
    },
    /// A batch with a delay level or a transaction flag, or without messages (`MESSAGE_ILLEGAL`).
    IllegalBatch(&'static str),
    /// A message for a time that is no time, or too far ahead (`WHEEL_TIMER_MSG_ILLEGAL`).
    TimerIllegal {
        /// How far ahead it may be, in milliseconds.
        max_delay_ms: i64,
    },
    /// A message for a time, which are not taken (`WHEEL_TIMER_NOT_ENABLE`).
    TimerDisabled,
    /// The machine is said to be busy with its page cache (`OS_PAGE_CACHE_BUSY`), see
    /// [`set_page_cache_busy`](crate::store::Store::set_page_cache_busy).
    Busy,
    /// No space is left for the log or a queue (`SERVICE_NOT_AVAILABLE`). Reads go on; the put may be tried again
    /// when there is space.
    NoSpace(StoreError),
    /// A file could not be created or extended for another reason (`CREATE_MAPPED_FILE_FAILED`).
    Failed(StoreError),
    /// Replicated bytes do not continue the log.
    NotContiguous {
        /// Where the bytes belong.
        offset: u64,
        /// Where the log ends.
        expected: u64,
    },
}

impl From<StoreError> for PutError {
    fn from(error: StoreError) -> Self {
        match error.io_kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge => {
                PutError::NoSpace(error)
            }
            _ => PutError::Failed(error),
        }
    }
}

impl fmt::Display for PutError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PutError::Illegal { what, length, limit } => {
                write!(f, "{what} of {length} bytes exceeds the limit of {limit}")
            }
            PutError::IllegalTopic => {
                f.write_str("the topic cannot be the name of a directory, or the queue id is negative")
            }
            PutError::PropertiesTooLong { length } => {
                write!(f, "properties of {length} bytes exceed the limit of 32767")
            }
            PutError::IllegalBatch(why) => write!(f, "the batch cannot be stored: {why}"),
            PutError::TimerIllegal { max_delay_ms } => {
                write!(f, "the time for the message is none, or more than {max_delay_ms} ms ahead")
            }
            PutError::TimerDisabled => f.write_str("messages for a time are not taken: timerWheelEnable is false"),
            PutError::Busy => f.write_str("the page cache is busy"),
            PutError::NoSpace(error) => write!(f, "no space is left to store the message: {error}"),
            PutError::Failed(error) => write!(f, "the message could not be stored: {error}"),
            PutError::NotContiguous { offset, expected } => {
                write!(f, "bytes for offset {offset} do not continue the log, which ends at {expected}")
            }
        }
    }
}

impl std::error::Error for PutError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            PutError::NoSpace(error) | PutError::Failed(error) => Some(error),
            _ => None,
        }
    }
}
