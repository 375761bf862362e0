//! Answers.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use rocketmq_wire::frame::{FrameLayout, PREFIX_LENGTH};
use rocketmq_wire::header::{DecodeFields, Fields, Header, SerializeType};
use rocketmq_wire::request::Request;
use rocketmq_wire::{DecodeError, ResponseCode, Version};

use crate::error::{Error, ErrorKind, Outcome, Result};

/// An answer: the frame as it came, with its header looked at once and its fields left undecoded.
///
/// It keeps the memory that it was read into, which it may share with answers that came at the same time.
#[derive(Debug, Clone)]
pub struct Response {
    answered: Answered,
    body: Bytes,
    broker: Arc<str>,
}

/// An answer as it waits for its caller: small, as there is room for one in every slot of requests under way.
#[derive(Debug, Clone)]
pub(crate) struct Answered {
    frame: Bytes,
    /// Where the header ends and the body begins, and where the fields are; a header has less than 16 MiB.
    body_at: u32,
    fields: Range<u32>,
    code: i32,
    version: Version,
    /// Bits, as all else is numbers: what has values to spare would be given the marks of all that it lies in, and be
    /// moved about by halves.
    traits: u32,
}

const IS_JSON: u32 = 1;
const HAS_REMARK: u32 = 2;

impl Answered {
    pub(super) fn new(frame: Bytes, layout: FrameLayout, place: &Place) -> Self {
        let at = |in_header: usize| (PREFIX_LENGTH + in_header) as u32;
        Self {
            frame,
            body_at: at(layout.header_length),
            fields: at(place.fields.start)..at(place.fields.end),
            code: place.code,
            version: place.version,
            traits: if layout.serialize_type == SerializeType::Json { IS_JSON } else { 0 }
                | if place.has_remark { HAS_REMARK } else { 0 },
        }
    }

    fn serialize_type(&self) -> SerializeType {
        if self.traits & IS_JSON == 0 { SerializeType::Binary } else { SerializeType::Json }
    }

    /// The response code.
    pub(crate) fn code(&self) -> ResponseCode {
        ResponseCode(self.code)
    }

    /// The values of a few header fields; see [`Response::find`].
    #[inline]
    pub(crate) fn find<const N: usize>(&self, names: [&str; N]) -> Result<[Option<Cow<'_, [u8]>>; N], DecodeError> {
        self.fields()?.find(names)
    }

    fn fields(&self) -> Result<Fields<'_>, DecodeError> {
        Fields::from_bytes(self.serialize_type(), &self.frame[self.fields.start as usize..self.fields.end as usize])
    }
}

impl Response {
    pub(crate) fn new(answered: Answered, broker: Arc<str>) -> Self {
        let body_at = answered.body_at as usize;
        // An answer seldom has a body: no need to share the memory once more then.
        let body = if body_at == answered.frame.len() { Bytes::new() } else { answered.frame.slice(body_at..) };
        Self { answered, body, broker }
    }

    pub(crate) fn answered(&self) -> &Answered {
        &self.answered
    }

    /// The response code.
    pub fn code(&self) -> ResponseCode {
        self.answered.code()
    }

    /// The version of the server, as it states it.
    pub fn version(&self) -> Version {
        self.answered.version
    }

    /// The address of the server that answered.
    pub fn broker(&self) -> &str {
        &self.broker
    }

    /// The remark, the error text of a refusal. Successes may have one too.
    pub fn remark(&self) -> Option<String> {
        let Answered { frame, body_at, traits, .. } = &self.answered;
        if traits & HAS_REMARK == 0 {
            return None;
        }
        let header = Header::decode(self.answered.serialize_type(), &frame[PREFIX_LENGTH..*body_at as usize]).ok()?;
        header.head.remark.map(std::borrow::Cow::into_owned)
    }

    /// The values of a few header fields, in the order of `names`, for answers of which little is wanted. They need not
    /// be text.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Protocol`] when the fields are malformed.
    pub fn find<const N: usize>(&self, names: [&str; N]) -> Result<[Option<Cow<'_, [u8]>>; N]> {
        self.answered.find(names).map_err(|error| self.malformed(error))
    }

    /// The header fields of the answer to a request of type `R`; text borrows from the frame.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Protocol`] when a required field is missing or malformed, as in refusals.
    pub fn decode<R: Request>(&self) -> Result<R::Response<'_>> {
        self.answered.fields().and_then(R::Response::decode_fields).map_err(|error| self.malformed(error))
    }

    /// An error that says that this answer cannot be understood, for bodies that callers decode.
    pub fn malformed(&self, error: DecodeError) -> Error {
        Error::new(ErrorKind::Protocol, format!("the answer cannot be understood: {error}"))
            .with_broker(Arc::clone(&self.broker))
            .with_outcome(Outcome::Unknown)
            .with_source(error)
    }

    /// The body; empty when there is none.
    pub fn body(&self) -> &Bytes {
        &self.body
    }

    /// The answer itself when its code is [`ResponseCode::SUCCESS`].
    ///
    /// # Errors
    ///
    /// What [`error`](Self::error) makes of any other code.
    pub fn success(self) -> Result<Self> {
        if self.code() == ResponseCode::SUCCESS { Ok(self) } else { Err(self.error()) }
    }

    /// The refusal that this answer is, with its code, remark and server.
    pub fn error(&self) -> Error {
        Error::from_response(self.answered.code, self.remark().as_deref()).with_broker(Arc::clone(&self.broker))
    }
}

/// Where in a frame to find what, and what is needed at once: a header without its borrows.
#[derive(Debug, Clone)]
pub(super) struct Place {
    pub(super) fields: Range<usize>,
    pub(super) code: i32,
    pub(super) version: Version,
    pub(super) opaque: i32,
    pub(super) has_remark: bool,
    pub(super) is_response: bool,
    pub(super) is_one_way: bool,
}

impl Place {
    pub(super) fn of(serialize_type: SerializeType, header: &[u8]) -> Result<Self, DecodeError> {
        let Header { head, fields } = Header::decode(serialize_type, header)?;
        let fields = fields.as_bytes();
        // Fields lie inside the header, or are an empty slice that lies nowhere.
        let start = (fields.as_ptr() as usize).checked_sub(header.as_ptr() as usize);
        let fields = match start {
            Some(start) if !fields.is_empty() => start..start + fields.len(),
            _ => 0..0,
        };
        Ok(Self {
            fields,
            code: head.code,
            version: head.version,
            opaque: head.opaque,
            has_remark: head.remark.is_some(),
            is_response: head.is_response(),
            is_one_way: head.is_one_way(),
        })
    }
}
