//! The binary header (`ROCKETMQ` serialization).
//!
//! `code (2) | language (1) | version (2) | opaque (4) | flag (4) | remark length (4) | remark | fields length (4) |
//! fields`, each field `name length (2) | name | value length (4) | value`.

use std::borrow::Cow;

use bytes::{BufMut, Bytes, BytesMut};

use super::fields::Source;
use super::{EncodeFields, EncodedFields, FieldWriter, Fields, Head, Header, SHORT_NAME, format_integer};
use crate::code::{LanguageCode, Version};
use crate::error::DecodeError;
use crate::frame::PREFIX_LENGTH;

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    fn take(&mut self, what: &'static str, count: usize) -> Result<&'a [u8], DecodeError> {
        let rest = &self.bytes[self.at..];
        let taken = rest.get(..count).ok_or(DecodeError::Truncated {
            what,
            offset: self.at,
            needed: count,
            available: rest.len(),
        })?;
        self.at += count;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self, what: &'static str) -> Result<[u8; N], DecodeError> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(what, N)?);
        Ok(array)
    }

    fn length(&mut self, what: &'static str) -> Result<usize, DecodeError> {
        let offset = self.at;
        usize::try_from(i32::from_be_bytes(self.array(what)?)).map_err(|_| DecodeError::Invalid { what, offset })
    }

    fn text(&mut self, what: &'static str, count: usize) -> Result<&'a str, DecodeError> {
        let offset = self.at;
        std::str::from_utf8(self.take(what, count)?).map_err(|_| DecodeError::NotUtf8 { what, offset })
    }
}

/// Decodes a binary header; the fields are checked when they are read.
///
/// # Errors
///
/// Lengths beyond the header, a remark that is not UTF-8, bytes after the fields.
pub fn decode(bytes: &[u8]) -> Result<Header<'_>, DecodeError> {
    let mut reader = Reader { bytes, at: 0 };
    let code = i16::from_be_bytes(reader.array("code")?);
    let language = LanguageCode(reader.array::<1>("language")?[0]);
    let version = Version(i32::from(i16::from_be_bytes(reader.array("version")?)));
    let opaque = i32::from_be_bytes(reader.array("opaque")?);
    let flag = i32::from_be_bytes(reader.array("flag")?);
    let remark_length = reader.length("remark length")?;
    let remark = if remark_length == 0 { "" } else { reader.text("remark", remark_length)? };
    let fields_length = reader.length("fields length")?;
    let fields = reader.take("fields", fields_length)?;
    if reader.at != bytes.len() {
        return Err(DecodeError::Invalid { what: "byte after the fields", offset: reader.at });
    }
    Ok(Header {
        head: Head {
            code: i32::from(code),
            language,
            version,
            opaque,
            flag,
            remark: (!remark.is_empty()).then_some(Cow::Borrowed(remark)),
        },
        fields: Fields(if fields.is_empty() { Source::Absent } else { Source::Binary(fields) }),
    })
}

/// Calls `visit` for each entry of the block `bytes`.
#[inline]
pub(super) fn for_each_field<'a>(
    bytes: &'a [u8],
    mut visit: impl FnMut(&'a str, &'a str) -> Result<(), DecodeError>,
) -> Result<(), DecodeError> {
    // One look at the whole block instead of one at each name and value. The lengths in between are zeros and small
    // numbers, valid as text; only those with a byte of 128 or more are not, and then each text is looked at.
    let whole = std::str::from_utf8(bytes).ok();
    let text = |what, offset: usize, taken: &'a [u8]| {
        let text = match whole {
            Some(whole) => whole.get(offset..offset + taken.len()),
            None => std::str::from_utf8(taken).ok(),
        };
        text.ok_or(DecodeError::NotUtf8 { what, offset })
    };
    for_each_entry(bytes, |name_at, name, value_at, value| {
        visit(text("field name", name_at, name)?, text("field value", value_at, value)?).map(|()| true)
    })
}

/// Calls `visit` with each name and value of the block `bytes` and where each stands, without a look at the text, until
/// it returns `false`.
#[inline]
pub(super) fn for_each_entry<'a>(
    bytes: &'a [u8],
    mut visit: impl FnMut(usize, &'a [u8], usize, &'a [u8]) -> Result<bool, DecodeError>,
) -> Result<(), DecodeError> {
    let take = |what, offset: usize, count: usize| {
        bytes.get(offset..).and_then(|rest| rest.get(..count)).ok_or_else(|| truncated(what, bytes, offset, count))
    };
    let mut at = 0;
    while at < bytes.len() {
        let Some(&[high, low]) = bytes[at..].first_chunk::<2>() else {
            return Err(truncated("field name length", bytes, at, 2));
        };
        let name_length = usize::try_from(i16::from_be_bytes([high, low]))
            .map_err(|_| DecodeError::Invalid { what: "field name length", offset: at })?;
        let name_at = at + 2;
        let name = take("field name", name_at, name_length)?;
        at = name_at + name_length;
        let Some(length) = bytes[at..].first_chunk::<4>() else {
            return Err(truncated("field value length", bytes, at, 4));
        };
        let value_length = usize::try_from(i32::from_be_bytes(*length))
            .map_err(|_| DecodeError::Invalid { what: "field value length", offset: at })?;
        let value_at = at + 4;
        let value = take("field value", value_at, value_length)?;
        at = value_at + value_length;
        if !visit(name_at, name, value_at, value)? {
            break;
        }
    }
    Ok(())
}

#[cold]
fn truncated(what: &'static str, bytes: &[u8], offset: usize, needed: usize) -> DecodeError {
    DecodeError::Truncated { what, offset, needed, available: bytes.len().saturating_sub(offset) }
}

/// Appends the header, with room for the frame's prefix before it; the caller has checked that the code fits in 16 bits.
#[inline]
pub(super) fn encode<F: EncodeFields>(out: &mut BytesMut, head: &Head<'_>, fields: &F) {
    let remark = head.remark.as_deref().unwrap_or_default();
    // Prefix, fixed part, and the length of the fields, which comes later: in one piece when there is no remark.
    const FIXED: usize = PREFIX_LENGTH + 17;
    let mut start = [0; FIXED + 4];
    let fixed = &mut start[PREFIX_LENGTH..];
    fixed[0..2].copy_from_slice(&(head.code as i16).to_be_bytes());
    fixed[2] = head.language.0;
    fixed[3..5].copy_from_slice(&(head.version.0 as i16).to_be_bytes());
    fixed[5..9].copy_from_slice(&head.opaque.to_be_bytes());
    fixed[9..13].copy_from_slice(&head.flag.to_be_bytes());
    fixed[13..17].copy_from_slice(&(remark.len() as u32).to_be_bytes());
    if remark.is_empty() {
        out.extend_from_slice(&start);
    } else {
        out.extend_from_slice(&start[..FIXED]);
        out.extend_from_slice(remark.as_bytes());
        out.put_u32(0);
    }
    let length_at = out.len() - 4;
    fields.encode_fields(&mut BinaryFieldWriter { out });
    let length = (out.len() - length_at - 4) as u32;
    out[length_at..length_at + 4].copy_from_slice(&length.to_be_bytes());
}

/// The entries of `fields`.
pub(super) fn encode_fields<F: EncodeFields>(fields: &F) -> Bytes {
    let mut out = BytesMut::new();
    fields.encode_fields(&mut BinaryFieldWriter { out: &mut out });
    out.freeze()
}

/// Writes fields in the binary form. A name longer than 32,767 bytes is cut to nothing together with its value: typed
/// headers have none, and generic ones are checked before.
#[derive(Debug)]
pub struct BinaryFieldWriter<'o> {
    out: &'o mut BytesMut,
}

impl BinaryFieldWriter<'_> {
    /// Lays `name length | name | value length` before `end` of `scratch` and returns where it begins.
    #[inline]
    fn lay(scratch: &mut [u8], end: usize, name: &str, value_length: usize) -> usize {
        let name_at = end - 4 - name.len();
        scratch[name_at - 2..name_at].copy_from_slice(&(name.len() as u16).to_be_bytes());
        scratch[name_at..end - 4].copy_from_slice(name.as_bytes());
        scratch[end - 4..end].copy_from_slice(&(value_length as u32).to_be_bytes());
        name_at - 2
    }

    /// Appends a name and the length of its value; `false` when the name is too long for that.
    #[inline]
    fn begin(&mut self, name: &str, value_length: usize) -> bool {
        if name.len() <= SHORT_NAME {
            const END: usize = 2 + SHORT_NAME + 4;
            let mut scratch = [0; END];
            let begin = Self::lay(&mut scratch, END, name, value_length);
            self.out.extend_from_slice(&scratch[begin..]);
        } else {
            let Ok(name_length) = i16::try_from(name.len()) else { return false };
            self.out.extend_from_slice(&name_length.to_be_bytes());
            self.out.extend_from_slice(name.as_bytes());
            self.out.extend_from_slice(&(value_length as u32).to_be_bytes());
        }
        true
    }

    #[inline]
    fn entry(&mut self, name: &str, value: &[u8]) {
        if self.begin(name, value.len()) {
            self.out.extend_from_slice(value);
        }
    }
}

impl FieldWriter for BinaryFieldWriter<'_> {
    #[inline]
    fn text(&mut self, name: &str, value: &str) {
        self.entry(name, value.as_bytes());
    }

    #[inline]
    fn texts<const N: usize>(&mut self, name: &str, parts: [&str; N]) {
        if self.begin(name, parts.iter().map(|part| part.len()).sum()) {
            for part in parts {
                if !part.is_empty() {
                    self.out.extend_from_slice(part.as_bytes());
                }
            }
        }
    }

    #[inline]
    fn integer(&mut self, name: &str, value: i64) {
        const DIGIT: [&[u8]; 10] = [b"0", b"1", b"2", b"3", b"4", b"5", b"6", b"7", b"8", b"9"];
        // Most integers in a header are flags and small counts.
        if let Some(digit) = usize::try_from(value).ok().and_then(|value| DIGIT.get(value)) {
            return self.entry(name, digit);
        }
        const DIGITS: usize = 20;
        const END: usize = 2 + SHORT_NAME + 4 + DIGITS;
        let mut digits = [0; DIGITS];
        if name.len() > SHORT_NAME {
            return self.entry(name, format_integer(&mut digits, value));
        }
        let mut scratch = [0; END];
        let length = match scratch.last_chunk_mut::<DIGITS>() {
            Some(digits) => format_integer(digits, value).len(),
            None => 0,
        };
        let begin = Self::lay(&mut scratch, END - length, name, length);
        self.out.extend_from_slice(&scratch[begin..]);
    }

    #[inline]
    fn encoded(&mut self, fields: &EncodedFields) {
        self.out.extend_from_slice(&fields.binary);
    }
}
