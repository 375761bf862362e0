//! One connection: a handle for callers, and what they share with its task.

use std::fmt;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use bytes::Bytes;
use futures_util::task::AtomicWaker;
use rocketmq_wire::header::{EncodeFields, Head, ONE_WAY_FLAG, SerializeType};
use rocketmq_wire::request::Request;
use rocketmq_wire::{EncodeError, LanguageCode, Version};
use tokio::sync::mpsc;

use super::call::{Admission, Answer, Claim};
use super::driver::Driver;
use super::incoming::Incoming;
use super::options::{ConnectionOptions, ConnectionStats, HeaderType};
use super::output::{Output, Progress, Turn, Writer};
use super::pending::{Admitted, Ended, Kind, Limits, Pending};
use super::response::Response;
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
    options: ConnectionOptions,
    pub(super) pending: Mutex<Pending<Response>>,
    pub(super) output: Mutex<Output>,
    pub(super) writer: Mutex<Writer<WriteHalf>>,
    /// Wakes the connection's task.
    pub(super) driver: AtomicWaker,
    /// The version the peer last stated; 0 before it has answered.
    pub(super) peer_version: AtomicI32,
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
            pending: Mutex::new(Pending::new(limits)),
            output: Mutex::new(Output::new()),
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
        let bytes = body.len() + HEADER_ALLOWANCE;
        let admitted = self.0.admit(Kind::Call, bytes, deadline).await?;
        let mut answer = Answer { shared: &self.0, opaque: admitted.opaque, registered: true, ended: false };
        match self.0.append(R::CODE.0, 0, admitted, request, body, bytes)? {
            Turn::Follow => {}
            Turn::Write => self.0.lead(),
            Turn::Claim(claim) => {
                Claim { shared: &self.0, claim, yielded: false, ended: false }.await;
                answer.registered = false;
            }
        }
        answer.await
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
        let bytes = body.len() + HEADER_ALLOWANCE;
        let admitted = self.0.admit(Kind::OneWay, bytes, deadline).await?;
        match self.0.append(R::CODE.0, ONE_WAY_FLAG, admitted, request, body, bytes)? {
            Turn::Follow => {}
            Turn::Write => self.0.lead(),
            Turn::Claim(claim) => Claim { shared: &self.0, claim, yielded: false, ended: false }.await,
        }
        Ok(())
    }

    /// The address of the server, as given to [`open`](Self::open).
    pub fn address(&self) -> &Arc<str> {
        &self.0.address
    }

    /// Why the connection is lost, if it is.
    pub fn lost(&self) -> Option<Error> {
        lock(&self.0.pending).closed().cloned()
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
        lock(&self.0.pending).refuse(cause, await_answers, &mut wake);
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
        let pending = lock(&self.0.pending);
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
    fn admit(&self, kind: Kind, bytes: usize, deadline: Instant) -> Admission<'_> {
        Admission { shared: self, ticket: None, kind, bytes, deadline }
    }

    /// Encodes a request into the output and says who writes it.
    fn append<F: EncodeFields>(
        &self,
        code: i32,
        flag: i32,
        admitted: Admitted,
        fields: &F,
        body: &Bytes,
        bytes: usize,
    ) -> Result<Turn> {
        let head = Head { opaque: admitted.opaque, flag, ..self.head(code) };
        let mut output = lock(&self.output);
        match output.open().frame(self.serialize_type(), &head, fields, body, bytes) {
            Ok(()) => {
                let turn = output.turn(admitted.alone);
                let watch = matches!(turn, Turn::Claim(_)) && output.watch();
                drop(output);
                if watch || admitted.earliest {
                    self.driver.wake();
                }
                Ok(turn)
            }
            Err(error) => {
                drop(output);
                self.unwritten(bytes);
                Err(self.unencodable(error))
            }
        }
    }

    /// Encodes an answer into the output and writes what can be written at once.
    pub(super) fn respond<F: EncodeFields>(
        &self,
        serialize_type: SerializeType,
        head: &Head<'_>,
        fields: &F,
        body: &Bytes,
    ) -> Result<()> {
        let mut output = lock(&self.output);
        output.open().frame(serialize_type, head, fields, body, 0).map_err(|error| self.unencodable(error))?;
        let turn = output.turn(true);
        drop(output);
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

    /// Takes back bytes that were let through and will not be written.
    fn unwritten(&self, bytes: usize) {
        let next = lock(&self.pending).written(bytes);
        next.into_iter().for_each(Waker::wake);
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
        let mut budget = LONGEST_WRITE;
        let mut writer = lock(&self.writer);
        let written = loop {
            if !writer.is_busy() && !writer.take(&mut lock(&self.output)) {
                break Written::All;
            }
            match writer.poll_write(cx, &mut budget) {
                Poll::Ready(Ok(Progress::Written(bytes))) => wake.extend(lock(&self.pending).written(bytes)),
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
            lock(&self.output).hand_over();
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
        if lock(&self.pending).close(&cause, &mut wake) {
            self.driver.wake();
        }
        wake.into_iter().for_each(Waker::wake);
    }

    /// The error of a request that ended without an answer.
    pub(super) fn error(&self, ended: Ended<Response>, outcome: Outcome) -> Error {
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
