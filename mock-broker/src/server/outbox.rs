//! What waits to be written to one connection.

use std::collections::VecDeque;
use std::io::{self, IoSlice};

use bytes::{Buf, Bytes, BytesMut};
use rocketmq_wire::{EncodeError, Version};
use tokio::net::TcpStream;

use crate::reply::{Reply, ReplyBody, ReturnAddress};

/// Bodies below this are copied behind their header, larger ones are sent from where they lie.
const COPY_BELOW: usize = 2048;

/// Slices handed to one system call.
const SLICES: usize = 64;

/// A buffer that grew beyond this is given back once it is empty.
const KEEP_CAPACITY: usize = 256 << 10;

/// Answers and pushed requests in the order in which they are written; all that is there goes out in one system call.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    segments: VecDeque<Bytes>,
    /// Behind the segments.
    tail: BytesMut,
}

impl Outbox {
    pub(super) fn is_empty(&self) -> bool {
        self.tail.is_empty() && self.segments.is_empty()
    }

    /// Appends an answer.
    ///
    /// # Errors
    ///
    /// An answer that does not fit a frame; nothing is appended then.
    pub(super) fn push(&mut self, reply: Reply<'_>, to: &ReturnAddress, version: Version) -> Result<(), EncodeError> {
        reply.encode(&mut self.tail, to, version)?;
        self.push_body(reply.body);
        Ok(())
    }

    /// Appends an answer whose frame is encoded up to its body.
    pub(super) fn push_encoded(&mut self, head: &[u8], body: ReplyBody) {
        self.tail.extend_from_slice(head);
        self.push_body(body);
    }

    #[inline]
    fn push_body(&mut self, body: ReplyBody) {
        match body {
            ReplyBody::None => {}
            ReplyBody::Bytes(bytes) => self.push_bytes(bytes),
            ReplyBody::Records(records) => records.into_iter().for_each(|record| self.push_bytes(record)),
        }
    }

    /// Appends bytes of whole frames.
    pub(super) fn push_bytes(&mut self, bytes: Bytes) {
        if bytes.len() < COPY_BELOW {
            self.tail.extend_from_slice(&bytes);
            return;
        }
        if !self.tail.is_empty() {
            self.segments.push_back(self.tail.split().freeze());
        }
        self.segments.push_back(bytes);
    }

    /// Takes all that is there, in its order.
    pub(super) fn take(&mut self) -> Vec<Bytes> {
        let mut pieces: Vec<_> = self.segments.drain(..).collect();
        if !self.tail.is_empty() {
            pieces.push(self.tail.split().freeze());
        }
        pieces
    }

    /// Writes as much as the socket takes.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::WouldBlock`] if the socket takes no more and something is left, else what the socket says.
    pub(super) fn write_to(&mut self, stream: &TcpStream) -> io::Result<()> {
        while !self.is_empty() {
            let written = if self.segments.is_empty() {
                stream.try_write(&self.tail)?
            } else {
                let mut slices = [IoSlice::new(&[]); SLICES];
                let chunks = self.segments.iter().map(|segment| &segment[..]).chain([&self.tail[..]]);
                let mut count = 0;
                for (slice, chunk) in slices.iter_mut().zip(chunks) {
                    *slice = IoSlice::new(chunk);
                    count += 1;
                }
                stream.try_write_vectored(&slices[..count])?
            };
            if written == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
            self.advance(written);
        }
        if self.tail.capacity() > KEEP_CAPACITY {
            self.tail = BytesMut::new();
        }
        Ok(())
    }

    fn advance(&mut self, mut written: usize) {
        while let Some(first) = self.segments.front_mut() {
            if written < first.len() {
                first.advance(written);
                return;
            }
            written -= first.len();
            self.segments.pop_front();
        }
        if written == self.tail.len() {
            self.tail.clear();
        } else {
            self.tail.advance(written);
        }
    }
}
