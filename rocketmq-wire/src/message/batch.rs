//! The body of a batch: messages back to back, with no count and no padding.
//!
//! One element is its total size (4 bytes, itself included), magic and body CRC (4 + 4, both zero), the user's flag
//! (4), body length and body (4 + n), properties length and properties (2 + n); all integers big-endian. Elements
//! share the topic and queue of the request and are never compressed.

use bytes::BufMut;

use crate::error::{DecodeError, EncodeError};
use crate::message::properties::Properties;
use crate::message::record::MAX_PROPERTIES;

const BEFORE_BODY: usize = 20;
const WITHOUT_BODY_AND_PROPERTIES: usize = BEFORE_BODY + 2;

/// One message of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BatchElement<'a> {
    /// The user's flag.
    pub flag: i32,
    /// The body.
    pub body: &'a [u8],
    /// The property string, see [`crate::message::properties`].
    pub properties: &'a [u8],
}

impl<'a> BatchElement<'a> {
    /// Returns the size of the element, in bytes.
    ///
    /// # Errors
    ///
    /// [`EncodeError::TooLarge`] if the properties or the whole do not fit their length fields.
    pub fn encoded_len(&self) -> Result<usize, EncodeError> {
        encoded_len(self.body.len(), self.properties.len())
    }

    /// Appends the element to `out`.
    ///
    /// # Errors
    ///
    /// As [`encoded_len`](Self::encoded_len); `out` is left alone then.
    pub fn encode(&self, out: &mut impl BufMut) -> Result<(), EncodeError> {
        self.encode_in_parts([self.properties], out)
    }

    /// Appends the element to `out` with properties that consist of these parts, instead of its own.
    ///
    /// # Errors
    ///
    /// As [`encode`](Self::encode).
    pub fn encode_in_parts<const N: usize>(
        &self,
        properties: [&[u8]; N],
        out: &mut impl BufMut,
    ) -> Result<(), EncodeError> {
        let length = properties.iter().map(|part| part.len()).sum();
        let size = encoded_len(self.body.len(), length)?;
        out.put_i32(size as i32);
        out.put_i32(0);
        out.put_i32(0);
        out.put_i32(self.flag);
        out.put_i32(self.body.len() as i32);
        out.put_slice(self.body);
        out.put_i16(length as i16);
        properties.iter().for_each(|part| out.put_slice(part));
        Ok(())
    }

    /// Returns the properties, which are searched when asked.
    pub fn properties(&self) -> Properties<'a> {
        Properties::new(self.properties)
    }

    /// Reads the element at the front of `bytes` and returns it with its size.
    ///
    /// # Errors
    ///
    /// [`DecodeError`] if a length goes beyond the element or `bytes`, is negative, or the element's size is not
    /// what its parts come to.
    pub fn parse(bytes: &'a [u8]) -> Result<(Self, usize), DecodeError> {
        let what = "batch element";
        let i32_at = |offset: usize| {
            let field: Option<[u8; 4]> = bytes.get(offset..offset + 4).and_then(|field| field.try_into().ok());
            let available = bytes.len().saturating_sub(offset);
            field.map(i32::from_be_bytes).ok_or(DecodeError::Truncated { what, offset, needed: 4, available })
        };
        let size =
            usize::try_from(i32_at(0)?).map_err(|_| DecodeError::Invalid { what: "batch element size", offset: 0 })?;
        if size < WITHOUT_BODY_AND_PROPERTIES {
            return Err(DecodeError::Invalid { what: "batch element size", offset: 0 });
        }
        if size > bytes.len() {
            return Err(DecodeError::Truncated { what, offset: 0, needed: size, available: bytes.len() });
        }
        let flag = i32_at(12)?;
        let room = size - WITHOUT_BODY_AND_PROPERTIES;
        let body_length = match usize::try_from(i32_at(16)?) {
            Ok(length) if length <= room => length,
            Ok(length) => return Err(DecodeError::Truncated { what, offset: 16, needed: length, available: room }),
            Err(_) => return Err(DecodeError::Invalid { what: "body length", offset: 16 }),
        };
        let (body, rest) = bytes[BEFORE_BODY..size].split_at(body_length);
        let (properties_length, properties) = rest.split_at(2);
        if usize::from(u16::from_be_bytes([properties_length[0], properties_length[1]])) != properties.len() {
            return Err(DecodeError::Invalid { what: "properties length", offset: BEFORE_BODY + body_length });
        }
        Ok((BatchElement { flag, body, properties }, size))
    }
}

fn encoded_len(body: usize, properties: usize) -> Result<usize, EncodeError> {
    let (length, limit) = (properties, MAX_PROPERTIES);
    if length > limit {
        return Err(EncodeError::TooLarge { what: "the properties", length, limit });
    }
    match (WITHOUT_BODY_AND_PROPERTIES + length).checked_add(body) {
        Some(size) if size <= i32::MAX as usize => Ok(size),
        _ => Err(EncodeError::TooLarge { what: "a batch element", length: body, limit: i32::MAX as usize }),
    }
}

/// Returns the elements of a batch body, in order. After an error the iteration ends.
pub fn elements(body: &[u8]) -> Elements<'_> {
    Elements { rest: body }
}

/// The elements of a batch body, see [`elements`].
#[derive(Debug, Clone)]
pub struct Elements<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for Elements<'a> {
    type Item = Result<BatchElement<'a>, DecodeError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let element = BatchElement::parse(self.rest);
        self.rest = match &element {
            Ok((_, size)) => &self.rest[*size..],
            Err(_) => &[],
        };
        Some(element.map(|(element, _)| element))
    }
}
