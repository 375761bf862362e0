//! Why a broker does not start.

use std::fmt;
use std::io;

use crate::server::ListenError;
use crate::store::StoreError;

/// A broker that could not be started, stopped or started again. The text says what failed and what to do.
#[derive(Debug)]
pub struct StartError(pub(super) Cause);

#[derive(Debug)]
pub(super) enum Cause {
    Listen(ListenError),
    Store(StoreError),
    Io(io::Error),
    Address(String),
    Gone,
}

impl StartError {
    /// Whether the arguments are at fault, rather than the machine or the store.
    #[must_use]
    pub fn is_argument(&self) -> bool {
        matches!(self.0, Cause::Address(_))
    }
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Cause::Listen(error) => error.fmt(f),
            Cause::Store(error) => error.fmt(f),
            Cause::Io(error) => write!(f, "the broker cannot be started: {error}"),
            Cause::Address(text) => f.write_str(text),
            Cause::Gone => f.write_str("the broker's thread has ended; its log says why"),
        }
    }
}

impl std::error::Error for StartError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.0 {
            Cause::Listen(error) => Some(error),
            Cause::Store(error) => Some(error),
            Cause::Io(error) => Some(error),
            Cause::Address(_) | Cause::Gone => None,
        }
    }
}

impl From<ListenError> for StartError {
    fn from(error: ListenError) -> Self {
        StartError(Cause::Listen(error))
    }
}

impl From<StoreError> for StartError {
    fn from(error: StoreError) -> Self {
        StartError(Cause::Store(error))
    }
}

impl From<io::Error> for StartError {
    fn from(error: io::Error) -> Self {
        StartError(Cause::Io(error))
    }
}
