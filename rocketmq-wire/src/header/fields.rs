//! The fields of a header ("custom header", `extFields`): reading and writing them without a map.

use std::borrow::Cow;

use bytes::Bytes;

use super::{SerializeType, binary, json};
use crate::error::DecodeError;

/// The fields of a header, still where the peer put them.
#[derive(Debug, Clone, Copy)]
pub struct Fields<'a>(pub(super) Source<'a>);

#[derive(Debug, Clone, Copy)]
pub(super) enum Source<'a> {
    /// The header has no fields at all.
    Absent,
    /// A JSON object, braces included, whose syntax has been checked.
    Json(&'a str),
    /// The binary entries.
    Binary(&'a [u8]),
}

impl<'a> Fields<'a> {
    /// No fields.
    #[must_use]
    pub const fn none() -> Self {
        Self(Source::Absent)
    }

    /// Whether the header carries fields, be they zero; `{}` in JSON counts.
    #[must_use]
    pub const fn is_present(&self) -> bool {
        !matches!(self.0, Source::Absent)
    }

    /// The fields as they stand in the header; empty when there are none. [`from_bytes`](Self::from_bytes) is the way back.
    #[must_use]
    pub const fn as_bytes(&self) -> &'a [u8] {
        match self.0 {
            Source::Absent => &[],
            Source::Json(text) => text.as_bytes(),
            Source::Binary(bytes) => bytes,
        }
    }

    /// Fields kept as bytes, so that a header decoded once need not be decoded again.
    ///
    /// Bytes that are no fields are found out when the fields are read.
    ///
    /// # Errors
    ///
    /// JSON that is not UTF-8.
    pub fn from_bytes(serialize_type: SerializeType, bytes: &'a [u8]) -> Result<Self, DecodeError> {
        Ok(Self(match serialize_type {
            _ if bytes.is_empty() => Source::Absent,
            SerializeType::Binary => Source::Binary(bytes),
            SerializeType::Json => Source::Json(
                std::str::from_utf8(bytes)
                    .map_err(|error| DecodeError::NotUtf8 { what: "fields", offset: error.valid_up_to() })?,
            ),
        }))
    }

    /// Calls `visit` with each name and value in the order of the wire; JSON `null` values are left out, numbers and
    /// booleans come as their text.
    ///
    /// # Errors
    ///
    /// Malformed entries, and whatever `visit` returns.
    #[inline]
    pub fn for_each(
        &self,
        mut visit: impl FnMut(&str, Cow<'a, str>) -> Result<(), DecodeError>,
    ) -> Result<(), DecodeError> {
        match self.0 {
            Source::Absent => Ok(()),
            Source::Json(text) => json::for_each_field(text, |name, value| match value {
                Some(value) => visit(&name, value),
                None => Ok(()),
            }),
            Source::Binary(bytes) => binary::for_each_field(bytes, |name, value| visit(name, Cow::Borrowed(value))),
        }
    }

    /// The values of a few fields, in the order of `names`, as bytes that need not be text; the others are passed over.
    /// In a binary header what follows the last of them is not looked at.
    ///
    /// # Errors
    ///
    /// Malformed entries.
    #[inline]
    pub fn find<const N: usize>(&self, names: [&str; N]) -> Result<[Option<Cow<'a, [u8]>>; N], DecodeError> {
        let mut found = [const { None }; N];
        match self.0 {
            Source::Absent => {}
            Source::Json(text) => json::for_each_field(text, |name, value| {
                if let Some(index) = names.iter().position(|wanted| *wanted == name) {
                    found[index] = value.map(|text| match text {
                        Cow::Borrowed(text) => Cow::Borrowed(text.as_bytes()),
                        Cow::Owned(text) => Cow::Owned(text.into_bytes()),
                    });
                }
                Ok(())
            })?,
            Source::Binary(bytes) => {
                let mut missing = N;
                binary::for_each_entry(bytes, |_, name, _, value| {
                    if let Some(index) = names.iter().position(|wanted| wanted.as_bytes() == name) {
                        missing -= usize::from(found[index].is_none());
                        found[index] = Some(Cow::Borrowed(value));
                    }
                    Ok(missing > 0)
                })?;
            }
        }
        Ok(found)
    }

    /// The value of the field `name`, if it is there and well-formed.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<Cow<'a, str>> {
        let mut found = None;
        let walk = self.for_each(|key, value| {
            if key == name {
                found = Some(value);
            }
            Ok(())
        });
        walk.ok().and(found)
    }
}

/// Takes the fields of a typed header, one call a field, and puts them into the output.
pub trait FieldWriter {
    /// Writes a text field.
    fn text(&mut self, name: &str, value: &str);
    /// Writes a text field whose value is in parts, one after another.
    fn texts<const N: usize>(&mut self, name: &str, parts: [&str; N]);
    /// Writes an integer field.
    fn integer(&mut self, name: &str, value: i64);
    /// Writes a boolean field.
    fn boolean(&mut self, name: &str, value: bool) {
        self.text(name, if value { "true" } else { "false" });
    }
    /// Writes fields that were encoded before.
    fn encoded(&mut self, fields: &EncodedFields);
}

/// Fields encoded ahead of time, for those that are the same in many headers.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct EncodedFields {
    pub(super) json: Bytes,
    pub(super) binary: Bytes,
}

impl EncodedFields {
    /// Encodes fields in both forms.
    #[must_use]
    pub fn new<F: EncodeFields>(fields: &F) -> Self {
        Self { json: json::encode_fields(fields), binary: binary::encode_fields(fields) }
    }

    /// The fields as they stand in a header of that type, as [`Fields::from_bytes`] reads them.
    #[must_use]
    pub fn into_bytes(self, serialize_type: SerializeType) -> Bytes {
        match serialize_type {
            SerializeType::Json => [b"{", &self.json[..], b"}"].concat().into(),
            SerializeType::Binary => self.binary,
        }
    }

    /// Hands the fields to `writer` one by one, instead of as they were encoded.
    pub fn write_each<W: FieldWriter>(&self, writer: &mut W) {
        let fields = Fields(Source::Binary(&self.binary));
        let written = fields.for_each(|name, value| {
            writer.text(name, &value);
            Ok(())
        });
        debug_assert!(written.is_ok(), "fields that were encoded here cannot be read: {written:?}");
    }
}

/// Fields as text, in the order in which they came: for those who look at all of them before they are written.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct OwnedFields {
    text: String,
    /// Where in `text` each name ends and its value, which follows, ends.
    ends: Vec<(usize, usize)>,
}

impl OwnedFields {
    /// No fields, with room for some.
    #[must_use]
    pub fn new() -> Self {
        Self { text: String::with_capacity(512), ends: Vec::with_capacity(24) }
    }

    /// Names and values.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        let mut start = 0;
        self.ends.iter().map(move |&(name_end, value_end)| {
            let pair = (&self.text[start..name_end], &self.text[name_end..value_end]);
            start = value_end;
            pair
        })
    }
}

/// Shows the names: a value may be a secret.
impl std::fmt::Debug for OwnedFields {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.iter().map(|(name, _)| name)).finish()
    }
}

impl FieldWriter for OwnedFields {
    fn text(&mut self, name: &str, value: &str) {
        self.text.push_str(name);
        let name_end = self.text.len();
        self.text.push_str(value);
        self.ends.push((name_end, self.text.len()));
    }
    fn texts<const N: usize>(&mut self, name: &str, parts: [&str; N]) {
        self.text(name, &parts.concat());
    }
    fn integer(&mut self, name: &str, value: i64) {
        let digits = &mut [0; 20];
        let digits = super::format_integer(digits, value);
        self.text(name, std::str::from_utf8(digits).unwrap_or_default());
    }
    fn encoded(&mut self, fields: &EncodedFields) {
        fields.write_each(self);
    }
}

impl<'a> DecodeFields<'a> for OwnedFields {
    fn decode_fields(fields: Fields<'a>) -> Result<Self, DecodeError> {
        let mut owned = Self::new();
        fields.for_each(|name, value| {
            owned.text(name, &value);
            Ok(())
        })?;
        Ok(owned)
    }
}

impl EncodeFields for OwnedFields {
    fn is_present(&self) -> bool {
        !self.ends.is_empty()
    }
    fn encode_fields<W: FieldWriter>(&self, writer: &mut W) {
        for (name, value) in self.iter() {
            writer.text(name, value);
        }
    }
}

/// A typed header that can be written.
pub trait EncodeFields {
    /// Whether the header has a field object at all; `false` only for commands without a custom header.
    fn is_present(&self) -> bool {
        true
    }

    /// Hands every field that has a value to `writer`. Names are ASCII that needs no escape.
    fn encode_fields<W: FieldWriter>(&self, writer: &mut W);
}

impl<T: EncodeFields> EncodeFields for &T {
    fn is_present(&self) -> bool {
        (**self).is_present()
    }
    fn encode_fields<W: FieldWriter>(&self, writer: &mut W) {
        (**self).encode_fields(writer);
    }
}

/// A typed header that can be read.
pub trait DecodeFields<'a>: Sized {
    /// Reads the header; unknown fields are skipped, of a repeated field the last counts.
    ///
    /// # Errors
    ///
    /// A required field that is missing, a value of the wrong type, malformed entries.
    fn decode_fields(fields: Fields<'a>) -> Result<Self, DecodeError>;
}

/// The header of a command that has no fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct NoFields;

impl EncodeFields for NoFields {
    fn is_present(&self) -> bool {
        false
    }
    fn encode_fields<W: FieldWriter>(&self, _writer: &mut W) {}
}

impl<'a> DecodeFields<'a> for NoFields {
    fn decode_fields(_fields: Fields<'a>) -> Result<Self, DecodeError> {
        Ok(Self)
    }
}

/// A typed header followed by fields that do not belong to it, such as a signature.
#[derive(Debug, Clone, Copy)]
pub struct WithExtra<'a, F> {
    /// The typed header.
    pub fields: F,
    /// Names and values to add.
    pub extra: &'a [(&'a str, &'a str)],
}

impl<F: EncodeFields> EncodeFields for WithExtra<'_, F> {
    fn is_present(&self) -> bool {
        !self.extra.is_empty() || self.fields.is_present()
    }
    fn encode_fields<W: FieldWriter>(&self, writer: &mut W) {
        self.fields.encode_fields(writer);
        for (name, value) in self.extra {
            writer.text(name, value);
        }
    }
}

/// A type that one header field can have.
pub trait FieldValue<'a>: Sized {
    /// Hands the value to `writer`, or nothing when it is absent.
    fn write<W: FieldWriter>(&self, name: &'static str, writer: &mut W);

    /// Reads the value.
    ///
    /// # Errors
    ///
    /// Text that is not of this type.
    fn read(name: &'static str, text: Cow<'a, str>) -> Result<Self, DecodeError>;

    /// The value of a field that is not there.
    ///
    /// # Errors
    ///
    /// [`DecodeError::MissingField`] for types that are required.
    fn missing(name: &'static str) -> Result<Self, DecodeError> {
        Err(DecodeError::MissingField(name))
    }
}

impl<'a> FieldValue<'a> for Cow<'a, str> {
    fn write<W: FieldWriter>(&self, name: &'static str, writer: &mut W) {
        writer.text(name, self);
    }
    fn read(_name: &'static str, text: Cow<'a, str>) -> Result<Self, DecodeError> {
        Ok(text)
    }
}

impl<'a> FieldValue<'a> for i32 {
    fn write<W: FieldWriter>(&self, name: &'static str, writer: &mut W) {
        writer.integer(name, i64::from(*self));
    }
    fn read(name: &'static str, text: Cow<'a, str>) -> Result<Self, DecodeError> {
        text.parse().map_err(|_| DecodeError::InvalidField { field: name, expected: "a 32-bit integer" })
    }
}

impl<'a> FieldValue<'a> for i64 {
    fn write<W: FieldWriter>(&self, name: &'static str, writer: &mut W) {
        writer.integer(name, *self);
    }
    fn read(name: &'static str, text: Cow<'a, str>) -> Result<Self, DecodeError> {
        text.parse().map_err(|_| DecodeError::InvalidField { field: name, expected: "a 64-bit integer" })
    }
}

/// As Java reads booleans: `true` in any case is true, everything else is false.
impl<'a> FieldValue<'a> for bool {
    fn write<W: FieldWriter>(&self, name: &'static str, writer: &mut W) {
        writer.boolean(name, *self);
    }
    fn read(_name: &'static str, text: Cow<'a, str>) -> Result<Self, DecodeError> {
        Ok(text.eq_ignore_ascii_case("true"))
    }
}

impl<'a, T: FieldValue<'a>> FieldValue<'a> for Option<T> {
    fn write<W: FieldWriter>(&self, name: &'static str, writer: &mut W) {
        if let Some(value) = self {
            value.write(name, writer);
        }
    }
    fn read(name: &'static str, text: Cow<'a, str>) -> Result<Self, DecodeError> {
        T::read(name, text).map(Some)
    }
    fn missing(_name: &'static str) -> Result<Self, DecodeError> {
        Ok(None)
    }
}

/// Defines a typed header: a struct whose fields know their names on the wire, with both directions.
macro_rules! header {
    ($(#[$meta:meta])* pub struct $name:ident $(<$life:lifetime>)? {
        $($(#[$field_meta:meta])* pub $field:ident: $type:ty = $wire:literal,)*
    }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, PartialEq, Eq, Default)]
        pub struct $name $(<$life>)? { $($(#[$field_meta])* pub $field: $type,)* }

        impl $(<$life>)? $crate::header::EncodeFields for $name $(<$life>)? {
            #[inline]
            fn encode_fields<W: $crate::header::FieldWriter>(&self, writer: &mut W) {
                $($crate::header::FieldValue::write(&self.$field, $wire, writer);)*
            }
        }

        $crate::header::decode_header!($name $(<$life>)? { $($field: $type = $wire,)* });
    };
}
pub(crate) use header;

/// The reading half of [`header!`].
macro_rules! decode_header {
    ($name:ident <$life:lifetime> { $($field:ident: $type:ty = $wire:literal,)* }) => {
        impl<$life> $crate::header::DecodeFields<$life> for $name<$life> {
            fn decode_fields(fields: $crate::header::Fields<$life>) -> Result<Self, $crate::DecodeError> {
                $crate::header::decode_body!(fields, $($field: $type = $wire,)*)
            }
        }
    };
    ($name:ident { $($field:ident: $type:ty = $wire:literal,)* }) => {
        impl<'a> $crate::header::DecodeFields<'a> for $name {
            fn decode_fields(fields: $crate::header::Fields<'a>) -> Result<Self, $crate::DecodeError> {
                $crate::header::decode_body!(fields, $($field: $type = $wire,)*)
            }
        }
    };
}
pub(crate) use decode_header;

/// The walk of [`decode_header!`].
macro_rules! decode_body {
    ($fields:ident, $($field:ident: $type:ty = $wire:literal,)*) => {{
        $(let mut $field: Option<$type> = None;)*
        $fields.for_each(|name, value| {
            match name {
                $($wire => $field = Some($crate::header::FieldValue::read($wire, value)?),)*
                _ => {}
            }
            Ok(())
        })?;
        Ok(Self { $($field: match $field {
            Some(value) => value,
            None => $crate::header::FieldValue::missing($wire)?,
        },)* })
    }};
}
pub(crate) use decode_body;
