//! One connection: a handle for callers, and what they share with its task.

use std::fmt;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use bytes::Bytes;
use futures_util::task::AtomicWaker;
use rocketmq_wire::header::{EncodeFields, Head, ONE_WAY_FLAG, OwnedFields, SerializeType};
use rocketmq_wire::request::Request;
use rocketmq_wire::{EncodeError, LanguageCode, Version};
use tokio::sync::mpsc;

use super::call::{Claim, Handed, Handing, InFlight};
use super::driver::Driver;
use super::incoming::Incoming;
use super::options::{ConnectionOptions, ConnectionStats, HeaderType};
use super::output::{Output, Progress, Turn, Writer};
use super::pending::{Admitted, Ended, Kind, Limits, Pending};
use super::response::{Answered, Response};
use crate::env::Env;
use crate::error::{Error, ErrorKind, Outcome, Result};
use crate::transport::{Stream, WriteHalf};

/// What a request counts against the byte limit besides its body.
const HEADER_ALLOWANCE: usize = 256;

/// One round of writing ends after this much, so that no caller pays for all others.
const LONGEST_WRITE: usize = 1024 * 1024;

/// A handle on one connection; clones are the same connection.
///
/// When the connection is lost, everything under way on it fails at once with the same cause, as does everything that
/// is called later.
#[derive(Clone)]
pub struct Connection(pub(super) Arc<Shared>);

/// What callers and the connection's task share. The locks are short and never held over an await; only `writer` is held
/// over a system call, and only by who leads.
pub(super) struct Shared {
    pub(super) address: Arc<str>,
    pub(super) options: ConnectionOptions,
    pub(super) exchange: Mutex<Exchange>,
    pub(super) writer: Mutex<Writer<WriteHalf>>,
    /// Wakes the connection's task.
    pub(super) driver: AtomicWaker,
    /// The version the peer last stated; 0 before it has answered.
    pub(super) peer_version: AtomicI32,
}

/// What goes out and what is to come in. Under one lock: a request takes a slot and lays its frame in one go.
pub(super) struct Exchange {
    pub(super) pending: Pending<Answered>,
    pub(super) output: Output,
}

/// Takes a lock. What it guards is changed in steps that cannot panic half way, so a poisoned one is as good.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// How a round of writing ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Written {
    /// Everything is written.
    All,
    /// The socket is full; the waker given is woken when it is not, if it was the connection's task's.
    Blocked,
    /// There is more, but one round may not write more.
    Paused,
    /// The connection is lost.
    Failed,
}

impl Connection {
    /// Makes a connection of an open stream.
    ///
    /// Nothing is read, and nothing ends in time, unless the [`Driver`] returned runs; it ends when the connection does,
    /// and the connection ends when it is dropped. `incoming` takes the requests that the server sends; without it they are
    /// answered as not supported.
    pub fn open(
        address: impl Into<Arc<str>>,
        stream: Stream,
        env: &Env,
        options: &ConnectionOptions,
        incoming: Option<mpsc::Sender<Incoming>>,
    ) -> (Self, Driver) {
        let (read, write) = stream.into_split();
        let limits = Limits { requests: options.max_in_flight, bytes: options.max_in_flight_bytes };
        let shared = Arc::new(Shared {
            address: address.into(),
            options: options.clone(),
            exchange: Mutex::new(Exchange { pending: Pending::new(limits), output: Output::new() }),
            writer: Mutex::new(Writer::new(write)),
            driver: AtomicWaker::new(),
            peer_version: AtomicI32::new(0),
        });
        let driver = Driver::new(Arc::clone(&shared), read, env.clone(), options.max_frame_bytes, incoming);
        (Self(shared), driver)
    }

    /// Sends a request and awaits its answer, whatever its response code.
    ///
    /// While a limit is reached the call waits, within its deadline. The deadline is kept to 50 ms.
    /// Dropping the future gives the request up; see the [module](super) for what has been sent by then.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Timeout`] at the deadline, [`ErrorKind::Connection`] or [`ErrorKind::Protocol`] when the connection is
    /// lost, [`ErrorKind::Closed`] when it was closed, [`ErrorKind::InvalidArgument`] for a request that no frame can hold.
    pub async fn call<R: Request>(&self, request: &R, body: &Bytes, deadline: Instant) -> Result<Response> {
        let handing = Handing { shared: &self.0, ticket: None, kind: Kind::Call, request, body, deadline };
        let (admitted, turn) = handing.await?;
        let answered = InFlight::new(self, Handed { admitted, turn }).await?;
        Ok(Response::new(answered, Arc::clone(&self.0.address)))
    }

    /// Sends a request if that needs no waiting: the first half of [`call`](Self::call), to be called while polled.
    /// `None` while a limit is reached.
    ///
    /// `waker` is that of the poll under way, in which an [`InFlight`] made of the value returned must be polled.
    ///
    /// # Errors
    ///
    /// As [`call`](Self::call).
    pub(crate) fn try_call<R: Request>(
        &self,
        request: &R,
        body: &Bytes,
        deadline: Instant,
        waker: &Waker,
    ) -> Result<Option<Handed>> {
        let bytes = body.len() + HEADER_ALLOWANCE;
        let stamped = self.0.stamped(request, body);
        let mut exchange = lock(&self.0.exchange);
        match exchange.pending.try_admit(Kind::Call, bytes, deadline, waker) {
            Ok(Some(admitted)) => {
                let turn = self.0.append(exchange, Kind::Call, admitted, request, stamped, body)?;
                Ok(Some(Handed { admitted, turn }))
            }
            Ok(None) => Ok(None),
            Err(ended) => {
                drop(exchange);
                Err(self.0.error(ended, Outcome::NotSent))
            }
        }
    }

    /// Sends a request that is not answered. Success means that it was handed to the connection.
    ///
    /// While the limit of unwritten bytes is reached the call waits, within its deadline.
    /// Dropping the future before it is done may or may not have sent the request, but never a part of it.
    ///
    /// # Errors
    ///
    /// As [`call`](Self::call).
    pub async fn call_one_way<R: Request>(&self, request: &R, body: &Bytes, deadline: Instant) -> Result<()> {
        let handing = Handing { shared: &self.0, ticket: None, kind: Kind::OneWay, request, body, deadline };
        if let (_, Turn::Claim(claim)) = handing.await? {
            Claim { shared: &self.0, claim, yielded: false, ended: false }.await;
        }
        Ok(())
    }

    /// The address of the server, as given to [`open`](Self::open).
    pub fn address(&self) -> &Arc<str> {
        &self.0.address
    }

    /// Why the connection is lost, if it is.
    pub fn lost(&self) -> Option<Error> {
        lock(&self.0.exchange).pending.closed().cloned()
    }

    /// The version that the server last stated; `None` before it has answered.
    pub fn peer_version(&self) -> Option<Version> {
        let version = self.0.peer_version.load(Ordering::Relaxed);
        (version != 0).then_some(Version(version))
    }

    /// Ends the connection now; everything under way fails with `cause`.
    pub fn close(&self, cause: &Error) {
        self.0.close(cause);
    }

    /// Lets nothing more through, and ends the connection with `cause` when all that was let through is written.
    pub fn finish(&self, cause: &Error) {
        self.refuse(cause, false);
    }

    /// Lets nothing more through, and ends the connection with `cause` when all that was let through is answered.
    pub fn retire(&self, cause: &Error) {
        self.refuse(cause, true);
    }

    fn refuse(&self, cause: &Error, await_answers: bool) {
        let cause = cause.clone().with_broker(Arc::clone(&self.0.address));
        let mut wake = Vec::new();
        lock(&self.0.exchange).pending.refuse(cause, await_answers, &mut wake);
        wake.into_iter().for_each(Waker::wake);
        self.0.driver.wake();
    }

    /// Whether both are handles on the same connection.
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Counts of what is under way.
    pub fn stats(&self) -> ConnectionStats {
        let writes = lock(&self.0.writer).writes();
        let exchange = lock(&self.0.exchange);
        let pending = &exchange.pending;
        let (in_flight, in_flight_bytes) = pending.in_flight();
        ConnectionStats {
            in_flight,
            in_flight_bytes,
            unwritten_bytes: pending.unwritten(),
            waiting: pending.queued(),
            unexpected_answers: pending.unexpected(),
            occupied: pending.occupied(),
            writes,
        }
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection").field("address", &self.0.address).finish_non_exhaustive()
    }
}

impl Shared {
    /// Lets a request through, as soon as it may be, and hands it over; `ticket` is its place in the queue meanwhile.
    pub(super) fn poll_hand_over<R: Request>(
        &self,
        ticket: &mut Option<u64>,
        kind: Kind,
        request: &R,
        body: &Bytes,
        deadline: Instant,
        waker: &Waker,
    ) -> Poll<Result<(Admitted, Turn)>> {
        let bytes = body.len() + HEADER_ALLOWANCE;
        let queued = ticket.is_some();
        let stamped = self.stamped(request, body);
        let mut exchange = lock(&self.exchange);
        let pending = &mut exchange.pending;
        let admitted = match pending.poll_admit(ticket, kind, bytes, deadline, waker) {
            Poll::Ready(admitted) => admitted,
            Poll::Pending => {
                let hasten = !queued && pending.hasten(deadline);
                drop(exchange);
                if hasten {
                    self.driver.wake();
                }
                return Poll::Pending;
            }
        };
        *ticket = None;
        // Whoever leaves the queue makes its successor the first.
        let next = if queued { pending.front() } else { None };
        let handed = match admitted {
            Ok(admitted) => self.append(exchange, kind, admitted, request, stamped, body).map(|turn| (admitted, turn)),
            Err(ended) => {
                drop(exchange);
                Err(self.error(ended, Outcome::NotSent))
            }
        };
        next.into_iter().for_each(Waker::wake);
        Poll::Ready(handed)
    }

    /// The fields of a request with what all requests get besides; `None` when they get nothing. Not to be called with the
    /// lock held: a signature takes as long as its body is.
    #[inline]
    fn stamped<R: Request>(&self, request: &R, body: &Bytes) -> Option<OwnedFields> {
        let stamp = self.options.stamp.as_ref()?;
        Some(stamp.fields(R::CODE.0, request, body, self.peer_version.load(Ordering::Relaxed)))
    }

    /// Encodes a request that was let through into the output, and writes if it is its turn; says who writes else.
    #[inline]
    fn append<R: Request>(
        &self,
        mut exchange: MutexGuard<'_, Exchange>,
        kind: Kind,
        admitted: Admitted,
        request: &R,
        stamped: Option<OwnedFields>,
        body: &Bytes,
    ) -> Result<Turn> {
        let bytes = body.len() + HEADER_ALLOWANCE;
        let flag = if kind == Kind::OneWay { ONE_WAY_FLAG } else { 0 };
        let head = Head { opaque: admitted.opaque, flag, ..self.head(R::CODE.0) };
        let output = &mut exchange.output;
        let (open, serialize_type) = (output.open(), self.serialize_type());
        let framed = match stamped {
            None => open.frame(serialize_type, &head, request, body, bytes),
            Some(fields) => open.frame(serialize_type, &head, &fields, body, bytes),
        };
        if let Err(error) = framed {
            let next = match kind {
                Kind::Call => exchange.pending.abandon(admitted.opaque),
                Kind::OneWay => None,
            };
            let next = exchange.pending.written(bytes).or(next);
            drop(exchange);
            next.into_iter().for_each(Waker::wake);
            return Err(self.unencodable(error));
        }
        let turn = output.turn(admitted.alone);
        let watch = matches!(turn, Turn::Claim(_)) && output.watch();
        drop(exchange);
        if watch || admitted.earliest {
            self.driver.wake();
        }
        if turn == Turn::Write {
            self.lead();
        }
        Ok(turn)
    }

    /// Encodes an answer into the output and writes what can be written at once.
    pub(super) fn respond<F: EncodeFields>(
        &self,
        serialize_type: SerializeType,
        head: &Head<'_>,
        fields: &F,
        body: &Bytes,
    ) -> Result<()> {
        let mut exchange = lock(&self.exchange);
        let output = &mut exchange.output;
        output.open().frame(serialize_type, head, fields, body, 0).map_err(|error| self.unencodable(error))?;
        let turn = output.turn(true);
        drop(exchange);
        if turn == Turn::Write {
            self.lead();
        }
        Ok(())
    }

    /// The head of a request, but for its number and flag.
    pub(super) fn head(&self, code: i32) -> Head<'static> {
        let peer = self.peer_version.load(Ordering::Relaxed);
        let unknown = |since: Version| peer != 0 && peer < since.0;
        let language = match self.options.language {
            LanguageCode::RUST if unknown(Version::V4_9_4) => LanguageCode::OTHER,
            LanguageCode::NODE_JS if unknown(Version::V5_3_2) => LanguageCode::OTHER,
            language => language,
        };
        Head { code, language, version: Version::V5_3_3, opaque: 0, flag: 0, remark: None }
    }

    fn serialize_type(&self) -> SerializeType {
        match self.options.header_type {
            HeaderType::Json => SerializeType::Json,
            HeaderType::Binary => SerializeType::Binary,
            HeaderType::Auto if self.peer_version.load(Ordering::Relaxed) >= Version::V4_4_0.0 => SerializeType::Binary,
            HeaderType::Auto => SerializeType::Json,
        }
    }

    fn unencodable(&self, error: EncodeError) -> Error {
        let kind = match error {
            EncodeError::TooLarge { .. } => ErrorKind::MessageTooLarge,
            _ => ErrorKind::InvalidArgument,
        };
        Error::new(kind, format!("the request does not fit a frame: {error}")).with_broker(Arc::clone(&self.address))
    }

    /// Writes as a caller, who cannot wait for the socket: the connection's task goes on where this stops.
    pub(super) fn lead(&self) {
        let written = self.write(&mut Context::from_waker(Waker::noop()));
        if matches!(written, Written::Blocked | Written::Paused) {
            self.driver.wake();
        }
    }

    /// One round of writing, for who has the lead.
    pub(super) fn write(&self, cx: &mut Context<'_>) -> Written {
        let (mut wake, mut lost) = (Vec::new(), None);
        let (mut budget, mut done) = (LONGEST_WRITE, 0);
        let mut writer = lock(&self.writer);
        let written = loop {
            if !writer.is_busy() {
                let mut exchange = lock(&self.exchange);
                if done > 0 {
                    wake.extend(exchange.pending.written(std::mem::take(&mut done)));
                }
                if !writer.take(&mut exchange.output) {
                    break Written::All;
                }
            }
            match writer.poll_write(cx, &mut budget) {
                // The chunk is done, so the next one is looked for.
                Poll::Ready(Ok(Progress::Written(bytes))) => done = bytes,
                Poll::Ready(Ok(Progress::Paused)) => break Written::Paused,
                Poll::Pending => break Written::Blocked,
                Poll::Ready(Err(error)) => {
                    lost = Some(
                        Error::new(ErrorKind::Connection, "the connection was lost while writing").with_source(error),
                    );
                    break Written::Failed;
                }
            }
        };
        if matches!(written, Written::Blocked | Written::Paused) {
            lock(&self.exchange).output.hand_over();
        }
        drop(writer);
        wake.into_iter().for_each(Waker::wake);
        if let Some(cause) = lost {
            self.close(&cause);
        }
        written
    }

    pub(super) fn close(&self, cause: &Error) {
        let cause = cause.clone().with_broker(Arc::clone(&self.address));
        let mut wake = Vec::new();
        if lock(&self.exchange).pending.close(&cause, &mut wake) {
            self.driver.wake();
        }
        wake.into_iter().for_each(Waker::wake);
    }

    /// The error of a request that ended without an answer.
    pub(super) fn error(&self, ended: Ended<Answered>, outcome: Outcome) -> Error {
        match ended {
            Ended::Failed(cause) => cause.with_outcome(outcome),
            Ended::TimedOut | Ended::Answered(_) => {
                let message = match outcome {
                    Outcome::NotSent => {
                        "the time given was over before the request could be sent: too much is under way"
                    }
                    _ => "no answer within the time given: the server may be slow or unreachable",
                };
                Error::new(ErrorKind::Timeout, message).with_outcome(outcome).with_broker(Arc::clone(&self.address))
            }
        }
    }
}
