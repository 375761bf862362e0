//! An entry of the journal as others see it.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;

use bytes::Bytes;
use rocketmq_wire::header::Header;
use rocketmq_wire::{RequestCode, ResponseCode};
use serde::{Deserialize, Serialize};

use super::Raw;
use crate::pattern::{Facts, Port, RequestPattern};

/// What an entry of the journal is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EntryKind {
    /// A client asks.
    Request,
    /// The server answers a client.
    Answer,
    /// The server asks a client, or tells it something.
    Push,
    /// A client answers the server.
    PushAnswer,
}

/// A request or an answer that went over a connection.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JournalEntry {
    /// Its number, from 1 on, without gaps.
    pub sequence: u64,
    /// Message time in milliseconds since 1970.
    pub time_ms: i64,
    /// Session time in milliseconds since the broker was started.
    pub session_ms: u64,
    /// What it is.
    pub kind: EntryKind,
    /// Where the connection came in.
    pub port: Port,
    /// The connection's number.
    pub connection: u64,
    /// The client's address.
    pub peer: SocketAddr,
    /// The client's id, if a heartbeat has said it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client: Option<String>,
    /// The code of the request; of an answer, that of the request that it answers.
    pub request: i32,
    /// The name of that code.
    pub name: String,
    /// The response code: of an answer, its own; of a request, that of its answer, once that is there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response: Option<i32>,
    /// Of an answer, the number of the request's entry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answers: Option<u64>,
    /// The number that request and answer share.
    pub opaque: i32,
    /// Nobody waits for an answer.
    pub one_way: bool,
    /// The language of the sender.
    pub language: String,
    /// The version of the sender, as a number of the protocol.
    pub version: i32,
    /// The topic that it names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub topic: Option<String>,
    /// The groups that it names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<String>,
    /// The queue id that it names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<i32>,
    /// The remark.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remark: Option<String>,
    /// All fields of the header.
    pub fields: BTreeMap<String, String>,
    /// The body, up to 64 KiB of it. In JSON text, or base64 in an object if it is no text.
    #[serde(with = "crate::content::body")]
    pub body: Bytes,
    /// How long the body was.
    pub body_length: usize,
    /// The number of the fault that met it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fault: Option<u64>,
}

impl JournalEntry {
    pub(super) fn decode(sequence: u64, raw: &Raw) -> Self {
        let mut fields = BTreeMap::new();
        let header = Header::decode(raw.serialize_type, &raw.header).ok();
        if let Some(header) = &header {
            // What was read before a field that cannot be is shown.
            let _ = header.fields.for_each(|name, value| {
                fields.insert(name.to_owned(), value.into_owned());
                Ok(())
            });
        }
        let head = header.map(|header| header.head);
        let is_answer = matches!(raw.kind, EntryKind::Answer | EntryKind::PushAnswer);
        let client = raw.origin.client.as_deref();
        let field = |name: &str| fields.get(name).map(|value| Cow::Owned(value.clone()));
        let (port, connection) = (raw.origin.port, raw.origin.connection);
        let facts = Facts::read(port, connection, raw.request, field, &raw.body, client.map(Cow::Borrowed));
        JournalEntry {
            sequence,
            time_ms: raw.time_ms,
            session_ms: raw.session_ms,
            kind: raw.kind,
            port,
            connection,
            peer: raw.origin.peer,
            topic: facts.topic.map(Cow::into_owned),
            groups: facts.groups.into_iter().map(Cow::into_owned).collect(),
            queue: facts.queue,
            client: facts.client.map(Cow::into_owned),
            request: raw.request.0,
            name: raw.request.known_name().map_or_else(|| raw.request.0.to_string(), str::to_owned),
            response: if is_answer { head.as_ref().map(|head| head.code) } else { raw.answered },
            answers: raw.answers,
            opaque: head.as_ref().map_or(0, |head| head.opaque),
            one_way: head.as_ref().is_some_and(|head| head.is_one_way()),
            language: head.as_ref().map_or("", |head| head.language.name()).to_owned(),
            version: head.as_ref().map_or(0, |head| head.version.0),
            remark: head.and_then(|head| head.remark).map(Cow::into_owned),
            body: raw.body.clone(),
            body_length: raw.body_length,
            fault: raw.fault,
            fields,
        }
    }

    /// Whether a pattern describes it.
    #[must_use]
    pub fn matches(&self, pattern: &RequestPattern) -> bool {
        pattern.matches(&self.facts())
    }

    pub(super) fn facts(&self) -> Facts<'_> {
        Facts {
            port: self.port,
            connection: self.connection,
            code: RequestCode(self.request),
            topic: self.topic.as_deref().map(Cow::Borrowed),
            groups: self.groups.iter().map(|group| Cow::Borrowed(group.as_str())).collect(),
            queue: self.queue,
            client: self.client.as_deref().map(Cow::Borrowed),
        }
    }
}

impl fmt::Display for JournalEntry {
    /// One line: number, what, topic, group, queue, from whom, and how it was answered.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{} ", self.sequence)?;
        match self.kind {
            EntryKind::Request => {}
            EntryKind::Answer => f.write_str("answer to ")?,
            EntryKind::Push => f.write_str("push of ")?,
            EntryKind::PushAnswer => f.write_str("client's answer to ")?,
        }
        f.write_str(&self.name)?;
        if let Some(topic) = &self.topic {
            write!(f, " topic={topic}")?;
        }
        if let Some(queue) = self.queue {
            write!(f, " queue={queue}")?;
        }
        if !self.groups.is_empty() {
            write!(f, " group={}", self.groups.join(","))?;
        }
        match &self.client {
            Some(client) => write!(f, " client={client}")?,
            None => write!(f, " from={}", self.peer)?,
        }
        if self.body_length > 0 {
            write!(f, " body={}B", self.body_length)?;
        }
        if let Some(code) = self.response {
            write!(f, " -> {}", ResponseCode(code))?;
        }
        if let Some(fault) = self.fault {
            write!(f, " (fault {fault})")?;
        }
        Ok(())
    }
}
