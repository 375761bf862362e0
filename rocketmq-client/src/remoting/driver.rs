//! The task of a connection: reads, writes when a caller could not, ends what is overdue.

use std::fmt;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use rocketmq_wire::frame::{Frame, FrameLayout, PREFIX_LENGTH, announced_length};
use rocketmq_wire::{DecodeError, ResponseCode};
use tokio::io::AsyncReadExt;
use tokio::sync::mpsc;

use super::connection::{Connection, Shared, Written, lock};
use super::incoming::{self, Incoming};
use super::pending::SWEEP_INTERVAL;
use super::response::{Answered, Place};
use crate::env::{Env, Sleep};
use crate::error::{Error, ErrorKind, Outcome};
use crate::transport::ReadHalf;

/// Memory for one read; twice and four times as much while reads fill it.
const SMALLEST_READ: usize = 64 * 1024;
const LARGEST_READ: usize = 256 * 1024;

/// A read into less room than this is not worth its system call.
const LEAST_ROOM: usize = 4 * 1024;

/// Reads in a row before writing and timers have their turn.
const READS_PER_TURN: usize = 16;

/// How often claims to write are looked at while there are any.
const WATCH_INTERVAL: Duration = Duration::from_millis(20);

/// Runs a [`Connection`]: to be spawned, once for each.
///
/// Dropping it, before or after it has ended, ends the connection.
#[must_use = "a connection whose driver does not run reads nothing"]
pub struct Driver {
    shared: Arc<Shared>,
    env: Env,
    read: ReadHalf,
    buffer: BytesMut,
    read_size: usize,
    max_frame: usize,
    inbox: incoming::Inbox,
    answers: Vec<(i32, Answered)>,
    wake: Vec<Waker>,
    timer: Option<(Instant, Sleep)>,
    swept_at: Option<Instant>,
    watch_at: Option<Instant>,
    seen_claims: u64,
}

impl Driver {
    pub(super) fn new(
        shared: Arc<Shared>,
        read: ReadHalf,
        env: Env,
        max_frame: usize,
        incoming: Option<mpsc::Sender<Incoming>>,
    ) -> Self {
        Self {
            shared,
            env,
            read,
            buffer: BytesMut::new(),
            read_size: SMALLEST_READ,
            max_frame,
            inbox: incoming::Inbox::new(incoming),
            answers: Vec::new(),
            wake: Vec::new(),
            timer: None,
            swept_at: None,
            watch_at: None,
            seen_claims: 0,
        }
    }

    fn turn(&mut self, cx: &mut Context<'_>) -> Poll<Error> {
        self.shared.driver.register(cx.waker());
        // Before reading, to make room; after, to be told when there is room for what came.
        self.inbox.poll_deliver(cx);
        if let Poll::Ready(cause) = self.poll_read(cx) {
            self.shared.close(&cause);
        }
        self.inbox.poll_deliver(cx);
        self.write(cx);
        self.poll_timers(cx);
        self.ended().map_or(Poll::Pending, Poll::Ready)
    }

    /// The cause for which the connection is closed; one that is only to be finished closes when all is written.
    fn ended(&self) -> Option<Error> {
        let exchange = lock(&self.shared.exchange);
        if let Some(cause) = exchange.pending.closed() {
            return Some(cause.clone());
        }
        let finished = exchange.pending.finished().filter(|_| exchange.output.is_idle())?.clone();
        drop(exchange);
        self.shared.close(&finished);
        Some(finished)
    }

    /// Reads what there is, hands answers to their waiters; ready when the connection is lost.
    fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<Error> {
        for _ in 0..READS_PER_TURN {
            if self.inbox.is_full() {
                // The one thing that stops reading: see `Inbox`.
                return Poll::Pending;
            }
            self.make_room();
            let room = self.buffer.capacity() - self.buffer.len();
            let read = pin!(self.read.read_buf(&mut self.buffer));
            match std::task::ready!(read.poll(cx)) {
                Ok(0) => return Poll::Ready(self.end_of_stream()),
                Ok(count) => {
                    self.read_size = if count == room { LARGEST_READ.min(self.read_size * 2) } else { SMALLEST_READ };
                }
                Err(error) => {
                    return Poll::Ready(
                        Error::new(ErrorKind::Connection, "the connection was lost while reading").with_source(error),
                    );
                }
            }
            if let Err(error) = self.cut_frames() {
                return Poll::Ready(
                    Error::new(
                        ErrorKind::Protocol,
                        format!(
                            "what the peer sent is not the RocketMQ protocol ({error}): check that the address is the \
                             remoting port of a name server or broker"
                        ),
                    )
                    .with_source(error),
                );
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Provides memory to read into: for the rest of a frame that has begun and proved to be long, else one read's.
    fn make_room(&mut self) {
        let room = self.buffer.capacity() - self.buffer.len();
        // The announced length has been checked against the cap when the prefix was looked at.
        let missing = match announced_length(&self.buffer) {
            Some(length) if self.buffer.len() >= SMALLEST_READ => length.min(self.max_frame) - self.buffer.len(),
            _ => 0,
        };
        if room < LEAST_ROOM.max(missing) {
            self.buffer.reserve(self.read_size.max(missing));
        }
    }

    fn cut_frames(&mut self) -> Result<(), DecodeError> {
        let mut result = Ok(());
        loop {
            match FrameLayout::peek(&self.buffer, self.max_frame) {
                Ok(Some(layout)) => {
                    let frame = self.buffer.split_to(layout.frame_length).freeze();
                    if let Err(error) = self.sort(frame, layout) {
                        result = Err(error);
                        break;
                    }
                }
                Ok(None) => break,
                Err(error) => {
                    result = Err(error);
                    break;
                }
            }
        }
        // What came before the damage is good.
        let mut exchange = lock(&self.shared.exchange);
        exchange.pending.received();
        for (opaque, answer) in self.answers.drain(..) {
            exchange.pending.complete(opaque, answer, &mut self.wake);
        }
        drop(exchange);
        self.wake.drain(..).for_each(Waker::wake);
        result
    }

    fn sort(&mut self, frame: Bytes, layout: FrameLayout) -> Result<(), DecodeError> {
        let header = &frame[PREFIX_LENGTH..PREFIX_LENGTH + layout.header_length];
        let place = Place::of(layout.serialize_type, header)?;
        if place.is_response {
            if place.version.0 > 0 && self.shared.peer_version.load(Ordering::Relaxed) != place.version.0 {
                self.shared.peer_version.store(place.version.0, Ordering::Relaxed);
            }
            self.answers.push((place.opaque, Answered::new(frame, layout, &place)));
            return Ok(());
        }
        let request = Incoming::new(Frame::cut(frame, layout), place, Connection(Arc::clone(&self.shared)));
        if !incoming::is_served(request.code()) || !self.inbox.is_open() {
            request.refuse(ResponseCode::REQUEST_CODE_NOT_SUPPORTED, "this client does not serve such requests");
        } else {
            self.inbox.push(request);
        }
        Ok(())
    }

    fn end_of_stream(&self) -> Error {
        let message = if self.buffer.is_empty() {
            "the server closed the connection"
        } else {
            "the server closed the connection in the middle of a frame"
        };
        Error::new(ErrorKind::Connection, message)
    }

    fn write(&mut self, cx: &mut Context<'_>) {
        let exchange = lock(&self.shared.exchange);
        let output = &exchange.output;
        if output.is_watched() && self.watch_at.is_none() {
            self.watch_at = Some(self.env.now() + WATCH_INTERVAL);
            self.seen_claims = output.claims_before();
        }
        let mine = output.is_drivers_turn();
        drop(exchange);
        if mine && self.shared.write(cx) == Written::Paused {
            cx.waker().wake_by_ref();
        }
    }

    /// Sweeps and watches when it is time to, and sets the timer for the next time.
    fn poll_timers(&mut self, cx: &mut Context<'_>) {
        loop {
            let sweep_at = lock(&self.shared.exchange).pending.earliest().map(|earliest| match self.swept_at {
                // Deadlines that lie close together are found by one sweep.
                Some(swept) => earliest.max(swept + SWEEP_INTERVAL),
                None => earliest,
            });
            let Some(at) = sweep_at.into_iter().chain(self.watch_at).min() else {
                self.timer = None;
                return;
            };
            // One that is set too early is harmless, and cheaper than a new one.
            if self.timer.as_ref().is_none_or(|(set, _)| *set > at) {
                self.timer = Some((at, self.env.sleep_until(at)));
            }
            if let Some((_, sleep)) = &mut self.timer
                && Pin::new(sleep).poll(cx).is_pending()
            {
                return;
            }
            self.timer = None;
            let now = self.env.now();
            if sweep_at.is_some_and(|at| at <= now) {
                self.sweep(now);
            }
            if self.watch_at.is_some_and(|at| at <= now) {
                self.watch(cx, now);
            }
        }
    }

    fn sweep(&mut self, now: Instant) {
        self.swept_at = Some(now);
        let silent = lock(&self.shared.exchange).pending.sweep(now, &mut self.wake);
        self.wake.drain(..).for_each(Waker::wake);
        if silent {
            let cause = Error::new(
                ErrorKind::Connection,
                "the server has stopped answering: two requests in a row ended without a byte from it",
            );
            self.shared.close(&cause.with_outcome(Outcome::Unknown));
        }
    }

    fn watch(&mut self, cx: &mut Context<'_>, now: Instant) {
        let mut exchange = lock(&self.shared.exchange);
        exchange.output.look(&mut self.seen_claims);
        self.watch_at = exchange.output.is_watched().then(|| now + WATCH_INTERVAL);
        drop(exchange);
        self.write(cx);
    }
}

impl Future for Driver {
    /// Why the connection ended.
    type Output = Error;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Error> {
        self.turn(cx)
    }
}

impl fmt::Debug for Driver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Driver").field("address", &self.shared.address).finish_non_exhaustive()
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        self.shared.close(&Error::new(ErrorKind::Closed, "the connection was closed"));
        lock(&self.shared.writer).close();
        lock(&self.shared.exchange).output.clear();
    }
}
