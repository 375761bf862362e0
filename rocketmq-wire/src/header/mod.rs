//! Command headers: what every request and answer says about itself, in both ways of writing it.
//!
//! [`Header::decode`] reads the fixed part and leaves the fields (Java's `extFields`, the "custom header") where they
//! are; typed headers of [`crate::request`] then read them in one walk, without a map. [`encode`] writes a frame up to
//! its body straight into the output buffer.

pub mod binary;
mod fields;
mod find;
pub mod json;

use std::borrow::Cow;

use bytes::{BufMut, BytesMut};

use crate::code::{LanguageCode, Version};
use crate::error::{DecodeError, EncodeError};
use crate::frame::PREFIX_LENGTH;

pub use fields::{
    DecodeFields, EncodeFields, EncodedFields, FieldValue, FieldWriter, Fields, NoFields, OwnedFields, WithExtra,
};
pub(crate) use fields::{decode_body, decode_header, header};

/// How a header is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum SerializeType {
    /// A JSON object: understood by every peer, the default of Apache's clients and brokers.
    #[default]
    Json,
    /// The compact form that Apache calls `ROCKETMQ`.
    Binary,
}

impl SerializeType {
    /// The type named by the first byte of a frame's second word; `None` for one that does not exist.
    #[must_use]
    pub const fn from_byte(byte: u8) -> Option<Self> {
        match byte {
            0 => Some(Self::Json),
            1 => Some(Self::Binary),
            _ => None,
        }
    }

    /// The byte that names this type in a frame.
    #[must_use]
    pub const fn byte(self) -> u8 {
        match self {
            Self::Json => 0,
            Self::Binary => 1,
        }
    }

    /// This type if it can carry `code`, else JSON: the binary form has 16 bits for the code.
    #[must_use]
    pub fn able_to_carry(self, code: i32) -> Self {
        if i16::try_from(code).is_ok() { self } else { Self::Json }
    }
}

/// Bit of [`Head::flag`] that marks an answer.
pub const RESPONSE_FLAG: i32 = 1;
/// Bit of [`Head::flag`] that marks a request which must not be answered.
pub const ONE_WAY_FLAG: i32 = 2;

/// The fixed part of a header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Head<'a> {
    /// The request code, or in an answer the response code.
    pub code: i32,
    /// The language of the sender.
    pub language: LanguageCode,
    /// The version of the sender.
    pub version: Version,
    /// The number that an answer shares with its request.
    pub opaque: i32,
    /// Bits: [`RESPONSE_FLAG`], [`ONE_WAY_FLAG`].
    pub flag: i32,
    /// Free text, in answers the error text. Not a sign of failure by itself: brokers set it on successes too.
    pub remark: Option<Cow<'a, str>>,
}

impl Head<'_> {
    /// Whether this heads an answer.
    #[must_use]
    pub const fn is_response(&self) -> bool {
        self.flag & RESPONSE_FLAG != 0
    }

    /// Whether this heads a request that must not be answered.
    #[must_use]
    pub const fn is_one_way(&self) -> bool {
        self.flag & ONE_WAY_FLAG != 0
    }
}

/// A decoded header: the fixed part, and the fields still in place.
#[derive(Debug, Clone)]
pub struct Header<'a> {
    /// The fixed part.
    pub head: Head<'a>,
    /// The fields, undecoded.
    pub fields: Fields<'a>,
}

impl<'a> Header<'a> {
    /// Decodes the header `bytes`.
    ///
    /// # Errors
    ///
    /// Bytes that do not form a header of that type. JSON needs a `code`; a missing language, version, opaque or flag
    /// reads as the zero of its type.
    pub fn decode(serialize_type: SerializeType, bytes: &'a [u8]) -> Result<Self, DecodeError> {
        match serialize_type {
            SerializeType::Json => json::decode(bytes),
            SerializeType::Binary => binary::decode(bytes),
        }
    }
}

/// Appends a frame up to its body: prefix and header, with room announced for `body_length` bytes that the caller sends
/// right after.
///
/// A code that the binary form cannot carry is written as JSON.
///
/// # Errors
///
/// A header of 16 MiB or more, or a frame above 2 GiB. `out` is then as it was before.
pub fn encode<F: EncodeFields>(
    out: &mut BytesMut,
    serialize_type: SerializeType,
    head: &Head<'_>,
    fields: &F,
    body_length: usize,
) -> Result<(), EncodeError> {
    let serialize_type = serialize_type.able_to_carry(head.code);
    let start = out.len();
    match serialize_type {
        SerializeType::Json => {
            out.put_bytes(0, PREFIX_LENGTH);
            json::encode(out, head, fields);
        }
        SerializeType::Binary => binary::encode(out, head, fields),
    }
    finish(out, start, serialize_type, body_length)
}

/// Fills in the prefix of the frame that begins at `start` of `out`, whose header ends at the end of `out`.
pub(crate) fn finish(
    out: &mut BytesMut,
    start: usize,
    serialize_type: SerializeType,
    body_length: usize,
) -> Result<(), EncodeError> {
    const MAX_HEADER: usize = 0xFF_FFFF;
    let header_length = out.len() - start - PREFIX_LENGTH;
    let refusal = if header_length > MAX_HEADER {
        Some(("header", header_length, MAX_HEADER))
    } else if body_length > i32::MAX as usize - 4 - header_length {
        Some(("body", body_length, i32::MAX as usize - 4 - header_length))
    } else {
        None
    };
    if let Some((what, length, limit)) = refusal {
        out.truncate(start);
        return Err(EncodeError::TooLarge { what, length, limit });
    }
    let length = (4 + header_length + body_length) as u32;
    let word = (u32::from(serialize_type.byte()) << 24) | header_length as u32;
    out[start..start + 4].copy_from_slice(&length.to_be_bytes());
    out[start + 4..start + PREFIX_LENGTH].copy_from_slice(&word.to_be_bytes());
    Ok(())
}

/// Field names up to this length are laid on the stack together with what surrounds them, and appended in one piece.
const SHORT_NAME: usize = 32;

/// Appends `value` in decimal.
pub(crate) fn put_integer(out: &mut BytesMut, value: i64) {
    let mut digits = [0; 20];
    out.extend_from_slice(format_integer(&mut digits, value));
}

/// The numbers below 100 in two digits.
const PAIRS: [[u8; 2]; 100] = {
    let mut pairs = [[0; 2]; 100];
    let mut number = 0;
    while number < 100 {
        pairs[number] = [b'0' + (number / 10) as u8, b'0' + (number % 10) as u8];
        number += 1;
    }
    pairs
};

/// Writes `value` in decimal to the end of `digits`.
pub(crate) fn format_integer(digits: &mut [u8; 20], value: i64) -> &[u8] {
    let mut at = digits.len();
    let mut rest = value.unsigned_abs();
    while rest >= 100 {
        let pair = PAIRS[(rest % 100) as usize];
        rest /= 100;
        at -= 2;
        digits[at] = pair[0];
        digits[at + 1] = pair[1];
    }
    let pair = PAIRS[rest as usize];
    at -= 1;
    digits[at] = pair[1];
    if rest >= 10 {
        at -= 1;
        digits[at] = pair[0];
    }
    if value < 0 {
        at -= 1;
        digits[at] = b'-';
    }
    &digits[at..]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::Frame;
    use crate::request::send::{SendMessageRequestV2, SendMessageResponse};
    use proptest::prelude::*;

    fn head(code: i32, remark: Option<&str>) -> Head<'_> {
        Head {
            code,
            language: LanguageCode::RUST,
            version: Version::V5_3_3,
            opaque: -5,
            flag: RESPONSE_FLAG,
            remark: remark.map(Cow::Borrowed),
        }
    }

    fn round_trip<F: EncodeFields>(serialize_type: SerializeType, head: &Head<'_>, fields: &F, body: &[u8]) -> Frame {
        let mut out = BytesMut::from(&b"before"[..]);
        encode(&mut out, serialize_type, head, fields, body.len()).unwrap();
        out.extend_from_slice(body);
        let frame = Frame::parse(out.freeze().slice(6..)).unwrap();
        assert_eq!(&frame.body[..], body);
        let decoded = frame.decode_header().unwrap();
        assert_eq!(&decoded.head, head);
        frame
    }

    proptest! {
        #[test]
        fn typed_headers_come_back_equal(
            group in ".*", properties in proptest::option::of(".*"), queue in any::<i32>(), born in any::<i64>(),
            unit in proptest::option::of(any::<bool>()), remark in proptest::option::of(".+"),
        ) {
            let request = SendMessageRequestV2 {
                producer_group: group.into(),
                topic: "T".into(),
                properties: properties.map(Into::into),
                queue_id: queue,
                born_timestamp: born,
                unit_mode: unit,
                ..Default::default()
            };
            for serialize_type in [SerializeType::Json, SerializeType::Binary] {
                let frame = round_trip(serialize_type, &head(310, remark.as_deref()), &request, b"body\0");
                let fields = frame.decode_header().unwrap().fields;
                let fields = Fields::from_bytes(serialize_type, fields.as_bytes()).unwrap();
                prop_assert_eq!(&SendMessageRequestV2::decode_fields(fields).unwrap(), &request);
            }
        }

        #[test]
        fn any_bytes_decode_or_fail(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            for serialize_type in [SerializeType::Json, SerializeType::Binary] {
                if let Ok(header) = Header::decode(serialize_type, &bytes) {
                    let _ = SendMessageResponse::decode_fields(header.fields);
                }
            }
        }
    }

    #[test]
    fn integers_are_written_as_the_standard_library_does() {
        let mut digits = [0; 20];
        for value in (0..64).flat_map(|bit| [1_i64 << bit, (1_i64 << bit).wrapping_sub(1), -(1_i64 << (bit % 63)), bit])
        {
            assert_eq!(format_integer(&mut digits, value), value.to_string().as_bytes());
        }
        for value in (-1100..1100).chain([i64::MIN, i64::MAX]) {
            assert_eq!(format_integer(&mut digits, value), value.to_string().as_bytes());
        }
    }

    #[test]
    fn codes_beyond_16_bits_travel_as_json() {
        let frame = round_trip(SerializeType::Binary, &head(200_050, None), &NoFields, b"");
        assert_eq!(frame.serialize_type, SerializeType::Json);
        assert!(!frame.decode_header().unwrap().fields.is_present());
    }

    #[test]
    fn peers_may_order_and_type_the_fields_as_they_like() {
        let text = br#" {"version":63,"extFields":{"a":"g","b":"t","c":"d","d":4,"e":-1,"f":0,"g":17,"h":0,"m":false,"i":null},
            "unknown":{"x":[1,{"y":"}"}]},"remark":"","language":"CPP","flag":0,"opaque":"7","code":310} "#;
        let header = Header::decode(SerializeType::Json, text).unwrap();
        assert_eq!((header.head.code, header.head.opaque, header.head.language), (310, 7, LanguageCode::CPP));
        assert_eq!(header.head.remark.as_deref(), Some(""));
        let request = SendMessageRequestV2::decode_fields(header.fields).unwrap();
        assert_eq!((request.queue_id, request.born_timestamp, request.batch), (-1, 17, Some(false)));
        assert_eq!(request.properties, None);
        let missing = SendMessageRequestV2::decode_fields(Fields::none());
        assert_eq!(missing, Err(DecodeError::MissingField("a")));
    }

    #[test]
    fn broken_json_is_an_error() {
        for text in [
            "",
            "{",
            "}",
            "[]",
            "{}",
            "{\"code\"}",
            "{\"code\":}",
            "{\"code\":1",
            "{\"code\":1}}",
            "{\"code\":1,}",
            "{\"code\":\"x\"}",
            "{\"code\":1,\"remark\":\"\\",
            "{\"code\":1,\"remark\":\"\\u12\"}",
            "{\"code\":1,\"remark\":\"\\q\"}",
            "{\"code\":1,\"extFields\":{]}}",
            "{\"code\":1,\"extFields\":\"\"}",
            "{\"code\":99999999999}",
            "{code:1}",
        ] {
            assert!(Header::decode(SerializeType::Json, text.as_bytes()).is_err(), "{text}");
        }
        let deep = format!("{{\"code\":1,\"x\":{}", "[".repeat(100_000));
        assert!(Header::decode(SerializeType::Json, deep.as_bytes()).is_err());
        let surrogates = Header::decode(SerializeType::Json, br#"{"code":1,"remark":"\ud83d\ude00 \ud83d"}"#).unwrap();
        assert_eq!(surrogates.head.remark.as_deref(), Some("\u{1F600} \u{FFFD}"));
    }
}
