//! What is to be written: frames laid one after another by whoever has one, and who may write them.
//!
//! Callers encode into the open [`Chunk`] under a short lock. One of them leads: it takes the whole chunk, leaving an
//! empty one in its place, and writes it without the lock. The bytes and the position belong to the connection; leading
//! is only leave to write.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes, BytesMut};
use rocketmq_wire::EncodeError;
use rocketmq_wire::header::{EncodeFields, Head, SerializeType, encode};
use tokio::io::AsyncWrite;

/// Bodies from this size on are written from where they are instead of being copied into the chunk.
const SEPARATE_BODY: usize = 32 * 1024;

/// A caller that finds this much behind a leader that has not begun writes it itself.
const IMPATIENT: usize = 256 * 1024;

/// Memory kept for the next chunk, as much as one round of writing takes; what a burst needed beyond it is given back.
const KEPT_CAPACITY: usize = 1024 * 1024;

/// How many pieces go into one vectored write.
const SLICES: usize = 32;

/// Bytes in order: a buffer, with large bodies interposed that are not copied into it.
#[derive(Debug, Default)]
pub(super) struct Chunk {
    buffer: BytesMut,
    /// How much of `buffer` has been written.
    at: usize,
    /// Bodies with the position in `buffer` that each stands before.
    bodies: VecDeque<(usize, Bytes)>,
    /// What the requests in it were let through with.
    admitted: usize,
}

impl Chunk {
    /// Appends one frame; `admitted` is what it was let through with.
    pub(super) fn frame<F: EncodeFields>(
        &mut self,
        serialize_type: SerializeType,
        head: &Head<'_>,
        fields: &F,
        body: &Bytes,
        admitted: usize,
    ) -> Result<(), EncodeError> {
        encode(&mut self.buffer, serialize_type, head, fields, body.len())?;
        if body.len() < SEPARATE_BODY {
            self.buffer.extend_from_slice(body);
        } else {
            self.bodies.push_back((self.buffer.len(), body.clone()));
        }
        self.admitted += admitted;
        Ok(())
    }

    fn is_empty(&self) -> bool {
        self.at == self.buffer.len() && self.bodies.is_empty()
    }

    /// The next bytes to write, at most `most` of them; returns how many slices they make.
    fn slices<'a>(&'a self, slices: &mut [IoSlice<'a>; SLICES], most: usize) -> usize {
        let (mut left, mut count) = (most, 0);
        let mut push = |bytes: &'a [u8]| {
            let bytes = &bytes[..bytes.len().min(left)];
            if !bytes.is_empty() && count < SLICES {
                slices[count] = IoSlice::new(bytes);
                count += 1;
                left -= bytes.len();
            }
        };
        let mut at = self.at;
        // Each body brings at most two slices; more than fit are left to the next write.
        for (position, body) in self.bodies.iter().take(SLICES / 2) {
            push(&self.buffer[at..*position]);
            push(body);
            at = *position;
        }
        if self.bodies.len() < SLICES / 2 {
            push(&self.buffer[at..]);
        }
        count
    }

    /// Moves on past bytes that have been written.
    fn advance(&mut self, mut written: usize) {
        while let Some((position, body)) = self.bodies.front_mut() {
            let before = written.min(*position - self.at);
            self.at += before;
            written -= before;
            let part = written.min(body.len());
            body.advance(part);
            written -= part;
            if self.at < *position || !body.is_empty() {
                return;
            }
            self.bodies.pop_front();
        }
        self.at += written;
    }

    /// Makes an empty chunk of a written one.
    fn reset(&mut self) {
        self.at = 0;
        self.buffer.clear();
        if self.buffer.capacity() > KEPT_CAPACITY {
            self.buffer = BytesMut::new();
        }
    }
}

/// The open chunk and whose turn it is to write.
#[derive(Debug)]
pub(super) struct Output {
    open: Chunk,
    lead: Lead,
    claims: u64,
    /// Whether the connection's task looks from time to time if a claim is left standing.
    watched: bool,
}

/// Who writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Lead {
    /// Nobody; there is nothing to write.
    Idle,
    /// A caller that lets others add their frames first; the number tells its claim from others.
    Claimed(u64),
    /// Somebody is writing now.
    Writing,
    /// The connection's own task, as soon as it is polled.
    Driver,
}

/// What a caller has to do about writing, having added its frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Turn {
    /// Nothing: somebody else writes it.
    Follow,
    /// Let others run once, then write if the claim still stands.
    Claim(u64),
    /// Write.
    Write,
}

impl Output {
    pub(super) fn new() -> Self {
        Self { open: Chunk::default(), lead: Lead::Idle, claims: 0, watched: false }
    }

    /// The chunk that takes the next frame; [`turn`](Self::turn) must follow under the same lock.
    pub(super) fn open(&mut self) -> &mut Chunk {
        &mut self.open
    }

    /// Decides who writes, after a frame was added. A caller with nothing else in flight writes `at_once`.
    pub(super) fn turn(&mut self, at_once: bool) -> Turn {
        match self.lead {
            Lead::Idle if !at_once => {
                self.claims += 1;
                self.lead = Lead::Claimed(self.claims);
                Turn::Claim(self.claims)
            }
            Lead::Claimed(_) if !at_once && self.open.buffer.len() < IMPATIENT && self.open.bodies.is_empty() => {
                Turn::Follow
            }
            Lead::Idle | Lead::Claimed(_) => {
                self.lead = Lead::Writing;
                Turn::Write
            }
            Lead::Writing | Lead::Driver => Turn::Follow,
        }
    }

    /// Begins to write under a claim, unless somebody else has taken over.
    pub(super) fn begin(&mut self, claim: u64) -> bool {
        let stands = self.lead == Lead::Claimed(claim);
        if stands {
            self.lead = Lead::Writing;
        }
        stands
    }

    /// Leaves the rest to the connection's task.
    pub(super) fn hand_over(&mut self) {
        self.lead = Lead::Driver;
    }

    /// Whether the connection's task is to write.
    pub(super) fn is_drivers_turn(&self) -> bool {
        self.lead == Lead::Driver
    }

    /// The claim that stands, if there is one.
    pub(super) fn claim(&self) -> Option<u64> {
        match self.lead {
            Lead::Claimed(claim) => Some(claim),
            _ => None,
        }
    }

    /// Begins to watch over claims; `false` when somebody does already.
    pub(super) fn watch(&mut self) -> bool {
        !std::mem::replace(&mut self.watched, true)
    }

    /// Whether claims are watched over.
    pub(super) fn is_watched(&self) -> bool {
        self.watched
    }

    /// One look at the claims: what the last look saw is compared with what there is now. A claim that still stands is
    /// taken from its holder, who is not being polled; when there was no new claim at all, watching ends.
    pub(super) fn look(&mut self, seen: &mut u64) {
        match self.lead {
            Lead::Claimed(claim) if claim == *seen => self.lead = Lead::Driver,
            Lead::Claimed(_) => {}
            _ => self.watched = self.claims != *seen,
        }
        *seen = self.claims;
    }

    /// The number of claims so far, without the one that stands: a claim made before the watch began is not yet old.
    pub(super) fn claims_before(&self) -> u64 {
        self.claims - u64::from(self.claim().is_some())
    }

    /// Forgets what was to be written.
    pub(super) fn clear(&mut self) {
        self.open = Chunk::default();
    }

    /// Whether there is nothing to write and nobody writing.
    pub(super) fn is_idle(&self) -> bool {
        self.lead == Lead::Idle
    }
}

/// The writing end of the stream and the chunk that is being written.
#[derive(Debug)]
pub(super) struct Writer<W> {
    /// `None` once the connection is closed.
    stream: Option<W>,
    chunk: Chunk,
    writes: u64,
}

/// How far a round of writing got.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Progress {
    /// The chunk is written; these many admitted bytes went with it.
    Written(usize),
    /// As much was written as one round may.
    Paused,
}

impl<W: AsyncWrite + Unpin> Writer<W> {
    pub(super) fn new(stream: W) -> Self {
        Self { stream: Some(stream), chunk: Chunk::default(), writes: 0 }
    }

    /// Takes the open chunk; `false`, and the lead given up, when it is empty. Only for who leads, with the last chunk
    /// written.
    pub(super) fn take(&mut self, output: &mut Output) -> bool {
        debug_assert!(self.chunk.is_empty(), "a chunk was left unwritten");
        if output.open.is_empty() {
            output.lead = Lead::Idle;
            return false;
        }
        self.chunk.reset();
        std::mem::swap(&mut self.chunk, &mut output.open);
        true
    }

    /// Whether a chunk is under way.
    pub(super) fn is_busy(&self) -> bool {
        !self.chunk.is_empty()
    }

    /// Writes the chunk, at most `budget` bytes of it.
    pub(super) fn poll_write(&mut self, cx: &mut Context<'_>, budget: &mut usize) -> Poll<io::Result<Progress>> {
        while !self.chunk.is_empty() {
            if *budget == 0 {
                return Poll::Ready(Ok(Progress::Paused));
            }
            let Some(stream) = &mut self.stream else { return Poll::Ready(Err(io::ErrorKind::NotConnected.into())) };
            let written = if self.chunk.bodies.is_empty() {
                let bytes = &self.chunk.buffer[self.chunk.at..];
                ready!(Pin::new(stream).poll_write(cx, &bytes[..bytes.len().min(*budget)]))?
            } else {
                let mut slices = [IoSlice::new(&[]); SLICES];
                let count = self.chunk.slices(&mut slices, *budget);
                ready!(Pin::new(stream).poll_write_vectored(cx, &slices[..count]))?
            };
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.chunk.advance(written);
            self.writes += 1;
            *budget -= written;
        }
        Poll::Ready(Ok(Progress::Written(std::mem::take(&mut self.chunk.admitted))))
    }

    /// How many writes the stream has taken.
    pub(super) fn writes(&self) -> u64 {
        self.writes
    }

    /// Closes the writing end and forgets what was not written.
    pub(super) fn close(&mut self) {
        self.stream = None;
        self.chunk = Chunk::default();
    }
}

#[cfg(test)]
mod tests;
