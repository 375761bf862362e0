//! The JSON header.
//!
//! Top-level keys are written sorted by name, as fastjson does: code, extFields, flag, language, opaque, remark,
//! serializeTypeCurrentRPC, version. Any order is read, unknown keys are skipped, and field values may be numbers,
//! booleans or null besides strings, since the C++ client writes them so.

use std::borrow::Cow;

use bytes::{BufMut, Bytes, BytesMut};

use super::fields::Source;
use super::find::not_plain;
use super::{EncodeFields, EncodedFields, FieldWriter, Fields, Head, Header, SHORT_NAME, format_integer, put_integer};
use crate::code::{LanguageCode, Version};
use crate::error::DecodeError;
use scanner::{Scanner, Value};

mod scanner;

/// Decodes a JSON header; the fields are checked for syntax and left in place.
///
/// # Errors
///
/// Text that is not UTF-8 or not a JSON object, a known key with a value of the wrong type, no `code`.
pub fn decode(bytes: &[u8]) -> Result<Header<'_>, DecodeError> {
    let text = std::str::from_utf8(bytes)
        .map_err(|error| DecodeError::NotUtf8 { what: "JSON header", offset: error.valid_up_to() })?;
    let mut scanner = Scanner::new(text);
    let mut code = None;
    let mut head =
        Head { code: 0, language: LanguageCode::JAVA, version: Version(0), opaque: 0, flag: 0, remark: None };
    let mut fields = Fields::none();
    scanner.object(|scanner, key| {
        match &*key {
            "code" => code = scanner.integer("code")?,
            "flag" => head.flag = scanner.integer("flag")?.unwrap_or_default(),
            "opaque" => head.opaque = scanner.integer("opaque")?.unwrap_or_default(),
            "version" => head.version = Version(scanner.integer("version")?.unwrap_or_default()),
            "language" => match scanner.value()? {
                Value::Text(name) => head.language = LanguageCode::from_name(&name),
                Value::Null => {}
                _ => return Err(DecodeError::InvalidField { field: "language", expected: "a string" }),
            },
            "remark" => match scanner.value()? {
                Value::Text(remark) => head.remark = Some(remark),
                Value::Null => {}
                _ => return Err(DecodeError::InvalidField { field: "remark", expected: "a string" }),
            },
            "extFields" => match scanner.value()? {
                Value::Object(span) => fields = Fields(Source::Json(span)),
                Value::Null => {}
                _ => return Err(DecodeError::InvalidField { field: "extFields", expected: "an object" }),
            },
            _ => {
                scanner.value()?;
            }
        }
        Ok(())
    })?;
    scanner.end()?;
    head.code = code.ok_or(DecodeError::MissingField("code"))?;
    Ok(Header { head, fields })
}

/// Calls `visit` for each entry of the object `text`; `None` stands for JSON `null`.
#[inline]
pub(super) fn for_each_field<'a>(
    text: &'a str,
    mut visit: impl FnMut(Cow<'a, str>, Option<Cow<'a, str>>) -> Result<(), DecodeError>,
) -> Result<(), DecodeError> {
    Scanner::new(text).object(|scanner, key| {
        let value = match scanner.value()? {
            Value::Text(text) => Some(text),
            Value::Bare(text) => Some(Cow::Borrowed(text)),
            Value::Null => None,
            Value::Object(span) | Value::Array(span) => Some(Cow::Borrowed(span)),
        };
        visit(key, value)
    })
}

/// Appends the header.
pub(super) fn encode<F: EncodeFields>(out: &mut BytesMut, head: &Head<'_>, fields: &F) {
    out.put_slice(b"{\"code\":");
    put_integer(out, i64::from(head.code));
    if fields.is_present() {
        out.put_slice(b",\"extFields\":{");
        fields.encode_fields(&mut JsonFieldWriter { out, first: true });
        out.put_u8(b'}');
    }
    out.put_slice(b",\"flag\":");
    put_integer(out, i64::from(head.flag));
    out.put_slice(b",\"language\":\"");
    out.put_slice(head.language.name().as_bytes());
    out.put_slice(b"\",\"opaque\":");
    put_integer(out, i64::from(head.opaque));
    if let Some(remark) = &head.remark {
        out.put_slice(b",\"remark\":");
        put_string(out, remark);
    }
    out.put_slice(b",\"serializeTypeCurrentRPC\":\"JSON\",\"version\":");
    put_integer(out, i64::from(head.version.0));
    out.put_u8(b'}');
}

/// The entries of `fields`, with commas between them.
pub(super) fn encode_fields<F: EncodeFields>(fields: &F) -> Bytes {
    let mut out = BytesMut::new();
    fields.encode_fields(&mut JsonFieldWriter { out: &mut out, first: true });
    out.freeze()
}

/// Appends `text` as a JSON string, escaped as fastjson does: the short escapes, and `\u00XX` for other control
/// characters up to U+009F and the two separators U+2028 and U+2029.
pub fn put_string(out: &mut BytesMut, text: &str) {
    out.reserve(text.len() + 2);
    out.put_u8(b'"');
    put_escaped(out, text);
    out.put_u8(b'"');
}

/// Appends `text` as what stands between the quotes of a JSON string.
fn put_escaped(out: &mut BytesMut, text: &str) {
    let bytes = text.as_bytes();
    let mut written = 0;
    let mut at = not_plain(bytes, 0);
    while let Some(&byte) = bytes.get(at) {
        // U+0080 to U+009F are the two bytes C2 80 to C2 9F.
        let (width, control) = match byte {
            0..0x20 | 0x7F => (1, byte),
            b'"' | b'\\' => (1, byte),
            0xC2 if bytes[at + 1] < 0xA0 => (2, bytes[at + 1]),
            0xE2 if bytes[at + 1] == 0x80 && matches!(bytes[at + 2], 0xA8 | 0xA9) => {
                out.put_slice(&bytes[written..at]);
                out.put_slice(if bytes[at + 2] == 0xA8 { b"\\u2028" } else { b"\\u2029" });
                at += 3;
                written = at;
                continue;
            }
            _ => {
                at = not_plain(bytes, at + 1);
                continue;
            }
        };
        out.put_slice(&bytes[written..at]);
        match control {
            b'"' => out.put_slice(b"\\\""),
            b'\\' => out.put_slice(b"\\\\"),
            b'\n' => out.put_slice(b"\\n"),
            b'\r' => out.put_slice(b"\\r"),
            b'\t' => out.put_slice(b"\\t"),
            0x08 => out.put_slice(b"\\b"),
            0x0C => out.put_slice(b"\\f"),
            _ => {
                const HEX: &[u8; 16] = b"0123456789ABCDEF";
                out.put_slice(&[
                    b'\\',
                    b'u',
                    b'0',
                    b'0',
                    HEX[usize::from(control >> 4)],
                    HEX[usize::from(control & 15)],
                ]);
            }
        }
        written = at + width;
        at = not_plain(bytes, written);
    }
    out.put_slice(&bytes[written..]);
}

/// Writes fields as the entries of a JSON object; every value is a string, as Java and Go expect.
#[derive(Debug)]
pub struct JsonFieldWriter<'o> {
    out: &'o mut BytesMut,
    first: bool,
}

impl JsonFieldWriter<'_> {
    /// Lays `,"name":"` before `end` of `scratch`, without the comma for the first entry, and returns where it begins;
    /// `None` for a name that is long or has to be escaped.
    #[inline]
    fn lay(&mut self, scratch: &mut [u8], end: usize, name: &str) -> Option<usize> {
        if name.len() > SHORT_NAME || not_plain(name.as_bytes(), 0) != name.len() {
            return None;
        }
        let name_at = end - 3 - name.len();
        scratch[name_at - 2..name_at].copy_from_slice(b",\"");
        scratch[name_at..end - 3].copy_from_slice(name.as_bytes());
        scratch[end - 3..end].copy_from_slice(b"\":\"");
        Some(if std::mem::take(&mut self.first) { name_at - 1 } else { name_at - 2 })
    }

    /// Appends a name that [`lay`](Self::lay) does not take.
    #[cold]
    fn name(&mut self, name: &str) {
        if !std::mem::take(&mut self.first) {
            self.out.put_u8(b',');
        }
        put_string(self.out, name);
        self.out.put_u8(b':');
    }
}

impl FieldWriter for JsonFieldWriter<'_> {
    #[inline]
    fn text(&mut self, name: &str, value: &str) {
        const END: usize = 2 + SHORT_NAME + 3;
        let mut scratch = [0; END];
        let Some(begin) = self.lay(&mut scratch, END, name) else {
            self.name(name);
            return put_string(self.out, value);
        };
        self.out.extend_from_slice(&scratch[begin..]);
        put_escaped(self.out, value);
        self.out.put_u8(b'"');
    }

    #[inline]
    fn texts<const N: usize>(&mut self, name: &str, parts: [&str; N]) {
        self.text(name, "");
        // The closing quote comes after the parts.
        self.out.truncate(self.out.len() - 1);
        parts.into_iter().for_each(|part| put_escaped(self.out, part));
        self.out.put_u8(b'"');
    }

    #[inline]
    fn integer(&mut self, name: &str, value: i64) {
        const DIGITS: usize = 20;
        const END: usize = 2 + SHORT_NAME + 3 + DIGITS + 1;
        let mut digits = [0; DIGITS];
        let mut scratch = [0; END];
        let length = format_integer(&mut digits, value).len();
        let at = END - 1 - length;
        let Some(begin) = self.lay(&mut scratch, at, name) else {
            self.name(name);
            self.out.put_u8(b'"');
            put_integer(self.out, value);
            return self.out.put_u8(b'"');
        };
        scratch[at..END - 1].copy_from_slice(&digits[DIGITS - length..]);
        scratch[END - 1] = b'"';
        self.out.extend_from_slice(&scratch[begin..]);
    }

    #[inline]
    fn encoded(&mut self, fields: &EncodedFields) {
        if fields.json.is_empty() {
            return;
        }
        if !std::mem::take(&mut self.first) {
            self.out.put_u8(b',');
        }
        self.out.extend_from_slice(&fields.json);
    }
}
