//! How much one producer may have under way.

use std::time::Instant;

use tokio::sync::{Semaphore, SemaphorePermit};

use crate::env::Env;
use crate::error::{Error, ErrorKind, Result};

/// Room for messages under way, by number and by bytes of their bodies. First come, first served.
#[derive(Debug)]
pub(super) struct Limits {
    messages: Option<Semaphore>,
    bytes: Option<(Semaphore, u32)>,
}

/// Room taken by one send; free again when dropped.
#[derive(Debug, Default)]
pub(super) struct Room<'a> {
    _message: Option<SemaphorePermit<'a>>,
    _bytes: Option<SemaphorePermit<'a>>,
}

impl Limits {
    pub(super) fn new(messages: Option<usize>, bytes: Option<usize>) -> Self {
        let messages = messages.map(|messages| Semaphore::new(messages.clamp(1, Semaphore::MAX_PERMITS)));
        let bytes = bytes.map(|bytes| u32::try_from(bytes).unwrap_or(u32::MAX).max(1));
        Self { messages, bytes: bytes.map(|bytes| (Semaphore::new(bytes as usize), bytes)) }
    }

    /// Waits for room until the deadline. A body larger than the limit takes all of it.
    ///
    /// Dropping the future takes none.
    pub(super) async fn room(&self, bytes: usize, env: &Env, deadline: Instant) -> Result<Room<'_>> {
        if let Some(room) = self.room_now(bytes) {
            return Ok(room);
        }
        let room = async {
            Room {
                _message: match &self.messages {
                    // The semaphores are never closed.
                    Some(messages) => messages.acquire().await.ok(),
                    None => None,
                },
                _bytes: match &self.bytes {
                    Some((room, limit)) => room.acquire_many(share(bytes, *limit)).await.ok(),
                    None => None,
                },
            }
        };
        env.within(deadline, room).await.ok_or_else(|| {
            Error::new(
                ErrorKind::Timeout,
                "the time for the message was over before the producer's limits had room for it: send less at a time, or \
                 raise `max_in_flight` and `max_in_flight_bytes`",
            )
        })
    }

    /// Room if there is some now, and nobody waits for it.
    pub(super) fn room_now(&self, bytes: usize) -> Option<Room<'_>> {
        Some(Room {
            _message: match &self.messages {
                Some(messages) => Some(messages.try_acquire().ok()?),
                None => None,
            },
            _bytes: match &self.bytes {
                Some((room, limit)) => Some(room.try_acquire_many(share(bytes, *limit)).ok()?),
                None => None,
            },
        })
    }

    /// Whether nobody has taken any room.
    #[cfg(test)]
    pub(super) fn is_unused(&self, messages: usize, bytes: usize) -> bool {
        self.messages.as_ref().is_none_or(|room| room.available_permits() == messages)
            && self.bytes.as_ref().is_none_or(|(room, _)| room.available_permits() == bytes)
    }
}

fn share(bytes: usize, limit: u32) -> u32 {
    u32::try_from(bytes).unwrap_or(u32::MAX).clamp(1, limit)
}
