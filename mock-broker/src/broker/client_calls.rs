//! What the broker sends to clients of its own accord: requests that nobody answers, and questions whose answer is
//! waited for.

use std::collections::HashMap;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use rocketmq_wire::header::{Head, ONE_WAY_FLAG, SerializeType, encode};
use rocketmq_wire::request::Request;
use rocketmq_wire::{EncodeError, LanguageCode};

use super::Broker;
use super::admin::Relay;
use super::replies::PushedReply;
use crate::clock::Now;
use crate::reply::{Command, ConnectionId, Effect, Peer};

/// Why a client was asked, which decides what becomes of its answer.
#[derive(Debug)]
pub(super) enum Purpose {
    /// A reply was handed to the client that waits for it.
    Reply(PushedReply),
    /// Somebody's request was passed on to the client.
    Relay(Relay),
    /// The client was asked where it is, as one of several.
    Status { survey: u64, client_id: String },
}

/// How a question ended.
#[derive(Debug)]
pub(super) enum ClientAnswer {
    /// The client answered.
    Answered {
        /// The response code.
        code: i32,
        /// The remark.
        remark: Option<String>,
        /// The body.
        body: Bytes,
    },
    /// Nothing came in time.
    TimedOut,
    /// The connection was closed.
    Gone,
}

/// A question that is not answered yet.
#[derive(Debug)]
struct Asked {
    connection: ConnectionId,
    /// Session time at which nobody waits any more.
    deadline: Duration,
    purpose: Purpose,
}

/// Questions by their number.
#[derive(Debug, Default)]
pub(super) struct ClientCalls {
    last_opaque: i32,
    asked: HashMap<i32, Asked>,
}

impl ClientCalls {
    /// When the first question is given up.
    pub(super) fn next_deadline(&self) -> Option<Duration> {
        self.asked.values().map(|asked| asked.deadline).min()
    }

    fn take(&mut self, which: impl Fn(&Asked) -> bool) -> Vec<Purpose> {
        let mut taken: Vec<(i32, Asked)> = self.asked.extract_if(|_, asked| which(asked)).collect();
        taken.sort_unstable_by_key(|(opaque, _)| *opaque);
        taken.into_iter().map(|(_, asked)| asked.purpose).collect()
    }

    fn frame<R: Request>(
        &mut self,
        serialize_type: SerializeType,
        version: rocketmq_wire::Version,
        flag: i32,
        (request, body): (&R, &[u8]),
    ) -> Result<Bytes, EncodeError> {
        self.last_opaque = self.last_opaque.wrapping_add(1);
        let head = Head {
            code: R::CODE.0,
            language: LanguageCode::JAVA,
            version,
            opaque: self.last_opaque,
            flag,
            remark: None,
        };
        let mut out = BytesMut::new();
        encode(&mut out, serialize_type, &head, request, body.len())?;
        out.extend_from_slice(body);
        Ok(out.freeze())
    }
}

impl Broker {
    /// Sends a request that is not answered.
    pub(super) fn push<R: Request>(
        &mut self,
        connection: ConnectionId,
        serialize_type: SerializeType,
        request: &R,
        body: &[u8],
    ) {
        let frame = self.calls.frame(serialize_type, self.compatibility.version(), ONE_WAY_FLAG, (request, body));
        match frame {
            Ok(frame) => self.effects.push(Effect::Push(connection, frame)),
            Err(error) => tracing::error!(%error, code = %R::CODE, "request to a client that cannot be written"),
        }
    }

    /// Sends a request, and hands its answer to what `purpose` says within `limit` of session time. An answer that
    /// says so comes also when the client goes or stays silent.
    pub(super) fn ask_client<R: Request>(
        &mut self,
        now: Now,
        (connection, serialize_type): (ConnectionId, SerializeType),
        (request, body): (&R, &[u8]),
        limit: Duration,
        purpose: Purpose,
    ) {
        match self.calls.frame(serialize_type, self.compatibility.version(), 0, (request, body)) {
            Ok(frame) => {
                let asked = Asked { connection, deadline: now.session.saturating_add(limit), purpose };
                self.calls.asked.insert(self.calls.last_opaque, asked);
                self.effects.push(Effect::Push(connection, frame));
                self.timers_changed = true;
            }
            Err(error) => {
                tracing::error!(%error, code = %R::CODE, "request to a client that cannot be written");
                self.answered(purpose, ClientAnswer::Gone);
            }
        }
    }

    /// Takes an answer of a client. One to a question that nobody waits for any more is passed over.
    pub(crate) fn client_answered(&mut self, peer: &Peer, answer: &Command<'_>) {
        let opaque = answer.header.head.opaque;
        // Numbers are one client's own: another cannot answer for it.
        if self.calls.asked.get(&opaque).is_none_or(|asked| asked.connection != peer.connection) {
            tracing::debug!(opaque, peer = %peer.address, "an answer to nothing");
            return;
        }
        if let Some(asked) = self.calls.asked.remove(&opaque) {
            let head = &answer.header.head;
            let remark = head.remark.as_deref().map(str::to_owned);
            let body = Bytes::copy_from_slice(answer.body);
            self.answered(asked.purpose, ClientAnswer::Answered { code: head.code, remark, body });
        }
    }

    /// Gives up the questions whose time is over.
    pub(super) fn give_up_questions(&mut self, now: Now) {
        for purpose in self.calls.take(|asked| asked.deadline <= now.session) {
            self.answered(purpose, ClientAnswer::TimedOut);
        }
    }

    /// Gives up what was asked of a connection that was closed.
    pub(super) fn give_up_connection(&mut self, connection: ConnectionId) {
        for purpose in self.calls.take(|asked| asked.connection == connection) {
            self.answered(purpose, ClientAnswer::Gone);
        }
    }

    fn answered(&mut self, purpose: Purpose, answer: ClientAnswer) {
        match purpose {
            Purpose::Reply(pushed) => self.reply_pushed(pushed, &answer),
            Purpose::Relay(relay) => self.relay_answered(relay, answer),
            Purpose::Status { survey, client_id } => self.status_answered(survey, client_id, answer),
        }
    }
}
