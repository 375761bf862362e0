//! What the server asks of this client.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use rocketmq_wire::header::{
    DecodeFields, EncodeFields, EncodedFields, Fields, Head, NoFields, OwnedFields, RESPONSE_FLAG,
};
use rocketmq_wire::{Frame, RequestCode, ResponseCode};
use tokio::sync::mpsc;

use super::connection::Connection;
use super::response::Place;
use crate::error::{Error, ErrorKind, Result};

/// Requests kept for a receiver that does not keep up, besides those in its channel.
const BACKLOG: usize = 1024;

/// The requests that a client may be sent, by brokers of 4.4 to 5.3. All others are answered as not supported.
pub(super) fn is_served(code: RequestCode) -> bool {
    matches!(
        code,
        RequestCode::CHECK_TRANSACTION_STATE
            | RequestCode::NOTIFY_CONSUMER_IDS_CHANGED
            | RequestCode::RESET_CONSUMER_CLIENT_OFFSET
            | RequestCode::GET_CONSUMER_STATUS_FROM_CLIENT
            | RequestCode::GET_CONSUMER_RUNNING_INFO
            | RequestCode::CONSUME_MESSAGE_DIRECTLY
            | RequestCode::PUSH_REPLY_MESSAGE_TO_CLIENT
    )
}

/// A request from a server, to be answered unless it is one-way.
///
/// One that is dropped without an answer is answered with [`ResponseCode::SYSTEM_ERROR`], so that the server does not
/// wait in vain.
pub struct Incoming {
    frame: Frame,
    place: Place,
    connection: Connection,
    answered: bool,
}

/// Takes the names of topics and groups out of the client's namespace.
fn plain(mut frame: Frame, mut place: Place, connection: &Connection) -> (Frame, Place) {
    let Some(stamp) = &connection.0.options.stamp else { return (frame, place) };
    let fields = Fields::from_bytes(frame.serialize_type, &frame.header[place.fields.clone()]);
    // Fields that cannot be read stay as they are: who decodes them says so.
    let Ok(fields) = fields.and_then(OwnedFields::decode_fields) else { return (frame, place) };
    if let Some(fields) = stamp.plain(RequestCode(place.code), &fields) {
        frame.header = EncodedFields::new(&fields).into_bytes(frame.serialize_type);
        place.fields = 0..frame.header.len();
    }
    (frame, place)
}

impl Incoming {
    pub(super) fn new(frame: Frame, place: Place, connection: Connection) -> Self {
        let answered = place.is_one_way;
        let (frame, place) = plain(frame, place, &connection);
        Self { frame, place, connection, answered }
    }

    /// What is asked.
    pub fn code(&self) -> RequestCode {
        RequestCode(self.place.code)
    }

    /// The address of the server that asks.
    pub fn broker(&self) -> &Arc<str> {
        self.connection.address()
    }

    /// Whether there is to be no answer.
    pub fn is_one_way(&self) -> bool {
        self.place.is_one_way
    }

    /// The header fields, as those of the request type `T`; text borrows from the frame.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Protocol`] when a required field is missing or malformed.
    pub fn decode<'a, T: DecodeFields<'a>>(&'a self) -> Result<T> {
        Fields::from_bytes(self.frame.serialize_type, &self.frame.header[self.place.fields.clone()])
            .and_then(T::decode_fields)
            .map_err(|error| {
                let message = format!("request {} from the server cannot be understood: {error}", self.code());
                Error::new(ErrorKind::Protocol, message).with_broker(Arc::clone(self.broker())).with_source(error)
            })
    }

    /// A name of a topic or group from the body, as users know it; those in the header are so already.
    pub(crate) fn plain<'a>(&self, name: &'a str) -> Cow<'a, str> {
        match &self.connection.0.options.stamp {
            Some(stamp) => stamp.own_namespace().unwrap(name),
            None => Cow::Borrowed(name),
        }
    }

    /// The body; empty when there is none.
    pub fn body(&self) -> &Bytes {
        &self.frame.body
    }

    /// Answers, in the header type of the request. Does nothing for a one-way request.
    ///
    /// The answer is handed to the connection, whose limits it bypasses: servers send few requests.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::MessageTooLarge`] for an answer that no frame can hold.
    pub fn respond<F: EncodeFields>(
        mut self,
        code: ResponseCode,
        remark: Option<&str>,
        fields: &F,
        body: &Bytes,
    ) -> Result<()> {
        self.answer(code, remark, fields, body)
    }

    /// Answers that the request was not carried out, and why.
    pub fn refuse(mut self, code: ResponseCode, remark: &str) {
        // A remark of our own always fits a frame.
        let _ = self.answer(code, Some(remark), &NoFields, &Bytes::new());
    }

    fn answer<F: EncodeFields>(
        &mut self,
        code: ResponseCode,
        remark: Option<&str>,
        fields: &F,
        body: &Bytes,
    ) -> Result<()> {
        if std::mem::replace(&mut self.answered, true) {
            return Ok(());
        }
        let shared = &self.connection.0;
        let head = Head {
            opaque: self.place.opaque,
            flag: RESPONSE_FLAG,
            remark: remark.map(Into::into),
            ..shared.head(code.0)
        };
        shared.respond(self.frame.serialize_type, &head, fields, body)
    }
}

impl Drop for Incoming {
    fn drop(&mut self) {
        let _ = self.answer(
            ResponseCode::SYSTEM_ERROR,
            Some("the client did not handle the request"),
            &NoFields,
            &Bytes::new(),
        );
    }
}

impl fmt::Debug for Incoming {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Incoming")
            .field("code", &self.code())
            .field("broker", self.broker())
            .field("one_way", &self.place.is_one_way)
            .finish_non_exhaustive()
    }
}

/// Requests on their way to the receiver, in the order in which they came.
///
/// The receiver's channel is bounded, and answers to our own requests must flow while it is full: the receiver may be
/// waiting for one. So what does not fit is kept here. When 1,024 are kept too, requests that want an answer are told that
/// this client is busy; of the others none may be lost, so reading from this one server then stops until the receiver
/// takes something.
pub(super) struct Inbox {
    receiver: Option<mpsc::Sender<Incoming>>,
    backlog: VecDeque<Incoming>,
    reserving: Option<Reserving>,
}

type Reserving = Pin<Box<dyn Future<Output = Option<mpsc::OwnedPermit<Incoming>>> + Send>>;

impl Inbox {
    pub(super) fn new(receiver: Option<mpsc::Sender<Incoming>>) -> Self {
        Self { receiver, backlog: VecDeque::new(), reserving: None }
    }

    /// Whether there is a receiver.
    pub(super) fn is_open(&self) -> bool {
        self.receiver.as_ref().is_some_and(|receiver| !receiver.is_closed())
    }

    /// Whether reading has to stop.
    pub(super) fn is_full(&self) -> bool {
        self.backlog.len() > BACKLOG
    }

    pub(super) fn push(&mut self, request: Incoming) {
        if self.backlog.len() >= BACKLOG && !request.is_one_way() {
            request.refuse(ResponseCode::SYSTEM_BUSY, "this client has too many requests to handle");
            return;
        }
        let request = match &self.receiver {
            Some(receiver) if self.backlog.is_empty() => match receiver.try_send(request) {
                Ok(()) => return,
                Err(mpsc::error::TrySendError::Full(request) | mpsc::error::TrySendError::Closed(request)) => request,
            },
            _ => request,
        };
        self.backlog.push_back(request);
    }

    /// Hands on what is kept, as far as there is room.
    pub(super) fn poll_deliver(&mut self, cx: &mut Context<'_>) {
        while !self.backlog.is_empty() {
            let Some(receiver) = &self.receiver else { return self.backlog.clear() };
            let reserving = self.reserving.get_or_insert_with(|| {
                let reserve = receiver.clone().reserve_owned();
                Box::pin(async move { reserve.await.ok() })
            });
            let Poll::Ready(permit) = reserving.as_mut().poll(cx) else { return };
            self.reserving = None;
            match permit {
                Some(permit) => {
                    if let Some(request) = self.backlog.pop_front() {
                        permit.send(request);
                    }
                }
                None => self.receiver = None,
            }
        }
    }
}

impl fmt::Debug for Inbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inbox").field("backlog", &self.backlog.len()).finish_non_exhaustive()
    }
}
