//! Answers as values: what a handler returns and the server writes.

use std::borrow::Cow;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use rocketmq_wire::header::{EncodeFields, FieldWriter, Head, Header, RESPONSE_FLAG, SerializeType, encode};
use rocketmq_wire::message::id::OffsetMessageId;
use rocketmq_wire::request::Request;
use rocketmq_wire::request::group::HeartbeatResponse;
use rocketmq_wire::request::offset::{OffsetResponse, StoreTimeResponse};
use rocketmq_wire::request::pull::PullMessageResponse;
use rocketmq_wire::request::query::QueryMessageResponse;
use rocketmq_wire::request::registration::{QueryDataVersionResponse, RegisterBrokerResponse};
use rocketmq_wire::{DecodeError, EncodeError, LanguageCode, RequestCode, ResponseCode, Version};

/// Tells connections apart; never used twice by one broker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct ConnectionId(pub(crate) u64);

/// Who asks.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Peer {
    pub(crate) connection: ConnectionId,
    pub(crate) address: SocketAddr,
}

/// A request as it lies in the receive buffer.
#[derive(Debug)]
pub(crate) struct Command<'a> {
    pub(crate) header: Header<'a>,
    pub(crate) serialize_type: SerializeType,
    pub(crate) body: &'a [u8],
}

impl Command<'_> {
    /// What is asked for.
    pub(crate) fn code(&self) -> RequestCode {
        RequestCode(self.header.head.code)
    }

    /// Where an answer that comes later has to go.
    pub(crate) fn return_address(&self, peer: &Peer) -> ReturnAddress {
        ReturnAddress {
            connection: peer.connection,
            opaque: self.header.head.opaque,
            serialize_type: self.serialize_type,
            one_way: self.header.head.is_one_way(),
        }
    }
}

/// What an answer needs to find its question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ReturnAddress {
    pub(crate) connection: ConnectionId,
    pub(crate) opaque: i32,
    pub(crate) serialize_type: SerializeType,
    /// Nobody waits for an answer.
    pub(crate) one_way: bool,
}

/// What became of a request.
#[derive(Debug)]
pub(crate) enum Outcome<'a> {
    /// It is answered now.
    Reply(Reply<'a>),
    /// It will be answered later, by an [`Effect`].
    Pending,
    /// It is never answered.
    Silent,
}

impl<'a> From<Reply<'a>> for Outcome<'a> {
    fn from(reply: Reply<'a>) -> Self {
        Outcome::Reply(reply)
    }
}

/// What handling a request, or the passing of time, has to bring about outside the broker.
#[derive(Debug)]
pub(crate) enum Effect {
    /// Answer a request that was pending.
    Answer(ReturnAddress, Reply<'static>),
    /// Tell members of a group that it changed.
    NotifyMembers {
        /// The group.
        group: String,
        /// Who is told, and how each writes its headers.
        members: Vec<(ConnectionId, SerializeType)>,
    },
    /// Write a request of the broker to a connection: a whole frame.
    Push(ConnectionId, Bytes),
    /// Close a connection whose client has not been heard of for too long.
    Close(ConnectionId),
}

/// An answer.
#[derive(Debug)]
pub(crate) struct Reply<'a> {
    pub(crate) code: ResponseCode,
    pub(crate) remark: Option<Cow<'a, str>>,
    pub(crate) fields: ReplyFields<'a>,
    pub(crate) body: ReplyBody,
}

/// The header of an answer.
#[derive(Debug)]
pub(crate) enum ReplyFields<'a> {
    /// No field object.
    Absent,
    /// A field object without fields.
    Empty,
    Sent(SentFields<'a>),
    Pulled(PullMessageResponse),
    PullForbidden(i32),
    Offset(OffsetResponse),
    StoreTime(StoreTimeResponse),
    Heartbeat(HeartbeatResponse),
    Registered(RegisterBrokerResponse<'static>),
    DataVersion(QueryDataVersionResponse),
    /// The answer to a recall.
    Recalled {
        message_id: Option<String>,
        region: Arc<str>,
    },
    Queried(QueryMessageResponse),
    /// One field of text.
    Text(&'static str, Cow<'a, str>),
    /// One field that is a number.
    Number(&'static str, i64),
}

/// The header of an answer to a send.
#[derive(Debug)]
pub(crate) struct SentFields<'a> {
    pub(crate) stored: Option<SentPlace<'a>>,
    pub(crate) transaction_id: Option<Cow<'a, str>>,
    /// What a message for a time can be taken back with.
    pub(crate) recall_handle: Option<String>,
    pub(crate) region: Arc<str>,
    pub(crate) trace_on: bool,
}

/// Where what was sent has been stored.
#[derive(Debug)]
pub(crate) struct SentPlace<'a> {
    pub(crate) message_id: SentId<'a>,
    pub(crate) queue_id: i32,
    pub(crate) queue_offset: i64,
}

/// The id of one message, or of all messages of a batch.
#[derive(Debug)]
pub(crate) enum SentId<'a> {
    One(OffsetMessageId),
    Batch(Cow<'a, str>),
}

/// The body of an answer.
#[derive(Debug, Default)]
pub(crate) enum ReplyBody {
    #[default]
    None,
    Bytes(Bytes),
    /// Records of the log, sent where they lie.
    Records(Vec<Bytes>),
}

impl ReplyBody {
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::None => 0,
            Self::Bytes(bytes) => bytes.len(),
            Self::Records(records) => records.iter().map(Bytes::len).sum(),
        }
    }
}

impl<'a> Reply<'a> {
    /// An answer without remark, fields or body.
    pub(crate) fn new(code: ResponseCode) -> Self {
        Reply { code, remark: None, fields: ReplyFields::Absent, body: ReplyBody::None }
    }

    /// A success without remark, fields or body.
    pub(crate) fn success() -> Self {
        Self::new(ResponseCode::SUCCESS)
    }

    pub(crate) fn remark(mut self, remark: impl Into<Cow<'a, str>>) -> Self {
        self.remark = Some(remark.into());
        self
    }

    pub(crate) fn fields(mut self, fields: ReplyFields<'a>) -> Self {
        self.fields = fields;
        self
    }

    pub(crate) fn body(mut self, body: impl Into<Bytes>) -> Self {
        self.body = ReplyBody::Bytes(body.into());
        self
    }

    /// The same answer, for later.
    pub(crate) fn into_owned(self) -> Reply<'static> {
        let fields = match self.fields {
            ReplyFields::Absent => ReplyFields::Absent,
            ReplyFields::Empty => ReplyFields::Empty,
            ReplyFields::Sent(fields) => ReplyFields::Sent(fields.into_owned()),
            ReplyFields::Pulled(fields) => ReplyFields::Pulled(fields),
            ReplyFields::PullForbidden(kind) => ReplyFields::PullForbidden(kind),
            ReplyFields::Offset(fields) => ReplyFields::Offset(fields),
            ReplyFields::StoreTime(fields) => ReplyFields::StoreTime(fields),
            ReplyFields::Heartbeat(fields) => ReplyFields::Heartbeat(fields),
            ReplyFields::Registered(fields) => ReplyFields::Registered(fields),
            ReplyFields::DataVersion(fields) => ReplyFields::DataVersion(fields),
            ReplyFields::Recalled { message_id, region } => ReplyFields::Recalled { message_id, region },
            ReplyFields::Queried(fields) => ReplyFields::Queried(fields),
            ReplyFields::Text(name, value) => ReplyFields::Text(name, Cow::Owned(value.into_owned())),
            ReplyFields::Number(name, value) => ReplyFields::Number(name, value),
        };
        let remark = self.remark.map(|remark| Cow::Owned(remark.into_owned()));
        Reply { code: self.code, remark, fields, body: self.body }
    }

    /// The answer to a request whose header or body cannot be read.
    pub(crate) fn undecodable(error: &DecodeError) -> Self {
        Self::new(ResponseCode::SYSTEM_ERROR).remark(error.to_string())
    }

    /// The answer to a request that access control refuses.
    pub(crate) fn refused(code: ResponseCode, remark: Cow<'static, str>) -> Self {
        Self::new(code).remark(remark)
    }

    /// The answer to a code that is not served.
    pub(crate) fn not_supported(code: RequestCode) -> Self {
        Self::new(ResponseCode::REQUEST_CODE_NOT_SUPPORTED).remark(format!(" request type {} not supported", code.0))
    }

    /// Appends the frame up to its body.
    pub(crate) fn encode(&self, out: &mut BytesMut, to: &ReturnAddress, version: Version) -> Result<(), EncodeError> {
        let head = Head {
            code: self.code.0,
            language: LanguageCode::JAVA,
            version,
            opaque: to.opaque,
            flag: RESPONSE_FLAG,
            remark: self.remark.as_deref().map(Cow::Borrowed),
        };
        encode(out, to.serialize_type, &head, &self.fields, self.body.len())
    }
}

/// Appends a one-way request without body to `out`.
pub(crate) fn encode_push<R: Request>(
    out: &mut BytesMut,
    request: &R,
    opaque: i32,
    serialize_type: SerializeType,
    version: Version,
) -> Result<(), EncodeError> {
    let flag = rocketmq_wire::header::ONE_WAY_FLAG;
    let head = Head { code: R::CODE.0, language: LanguageCode::JAVA, version, opaque, flag, remark: None };
    encode(out, serialize_type, &head, request, 0)
}

impl SentFields<'_> {
    fn into_owned(self) -> SentFields<'static> {
        let place = |place: SentPlace<'_>| SentPlace {
            message_id: match place.message_id {
                SentId::One(id) => SentId::One(id),
                SentId::Batch(ids) => SentId::Batch(Cow::Owned(ids.into_owned())),
            },
            queue_id: place.queue_id,
            queue_offset: place.queue_offset,
        };
        SentFields {
            stored: self.stored.map(place),
            transaction_id: self.transaction_id.map(|id| Cow::Owned(id.into_owned())),
            recall_handle: self.recall_handle,
            region: self.region,
            trace_on: self.trace_on,
        }
    }
}

impl EncodeFields for ReplyFields<'_> {
    fn is_present(&self) -> bool {
        !matches!(self, Self::Absent)
    }

    #[inline]
    fn encode_fields<W: FieldWriter>(&self, writer: &mut W) {
        match self {
            Self::Absent | Self::Empty => {}
            Self::Sent(fields) => fields.encode_fields(writer),
            Self::Pulled(fields) => fields.encode_fields(writer),
            Self::PullForbidden(kind) => writer.integer("forbiddenType", i64::from(*kind)),
            Self::Offset(fields) => fields.encode_fields(writer),
            Self::StoreTime(fields) => fields.encode_fields(writer),
            Self::Heartbeat(fields) => fields.encode_fields(writer),
            Self::Registered(fields) => fields.encode_fields(writer),
            Self::DataVersion(fields) => fields.encode_fields(writer),
            Self::Recalled { message_id, region } => {
                if let Some(id) = message_id {
                    writer.text("msgId", id);
                }
                writer.text("MSG_REGION", region);
            }
            Self::Queried(fields) => fields.encode_fields(writer),
            Self::Text(name, value) => writer.text(name, value),
            Self::Number(name, value) => writer.integer(name, *value),
        }
    }
}

impl EncodeFields for SentFields<'_> {
    #[inline]
    fn encode_fields<W: FieldWriter>(&self, writer: &mut W) {
        if let Some(place) = &self.stored {
            match &place.message_id {
                SentId::One(id) => writer.text("msgId", IdText::new(id).as_str()),
                SentId::Batch(ids) => writer.text("msgId", ids),
            }
            writer.integer("queueId", i64::from(place.queue_id));
            writer.integer("queueOffset", place.queue_offset);
        }
        if let Some(id) = &self.transaction_id {
            writer.text("transactionId", id);
        }
        if let Some(handle) = &self.recall_handle {
            writer.text("recallHandle", handle);
        }
        writer.text("MSG_REGION", &self.region);
        writer.boolean("TRACE_ON", self.trace_on);
    }
}

/// The text of an offset message id, without an allocation and without formatting machinery: one is written per send.
struct IdText {
    text: [u8; rocketmq_wire::message::id::LENGTH_V6],
    length: usize,
}

impl IdText {
    fn new(id: &OffsetMessageId) -> Self {
        let mut text = IdText { text: [0; rocketmq_wire::message::id::LENGTH_V6], length: 0 };
        match id.store_host.ip() {
            IpAddr::V4(address) => text.put(&address.octets()),
            IpAddr::V6(address) => text.put(&address.octets()),
        }
        text.put(&u32::from(id.store_host.port()).to_be_bytes());
        text.put(&id.physical_offset.to_be_bytes());
        text
    }

    /// Appends bytes as hex digits; the buffer has room for the longest id.
    fn put(&mut self, bytes: &[u8]) {
        const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
        for (pair, byte) in self.text[self.length..].chunks_exact_mut(2).zip(bytes) {
            pair[0] = DIGITS[usize::from(byte >> 4)];
            pair[1] = DIGITS[usize::from(byte & 15)];
        }
        self.length += 2 * bytes.len();
    }

    fn as_str(&self) -> &str {
        std::str::from_utf8(&self.text[..self.length]).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_written_as_the_codec_writes_them() {
        for host in ["127.0.0.1:10911", "[2001:db8::17]:65535"] {
            let id = OffsetMessageId { store_host: host.parse().unwrap(), physical_offset: 0x0123_4567_89AB_CDEF };
            assert_eq!(IdText::new(&id).as_str(), id.to_string());
        }
    }
}
