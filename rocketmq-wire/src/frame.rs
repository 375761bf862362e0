//! Cutting frames out of a byte stream.
//!
//! A frame is `length (4) | serialize type (1) | header length (3) | header | body`, all big-endian; the length
//! counts everything after itself. Nothing here allocates for a length that the peer merely announces.

use bytes::{Buf, Bytes, BytesMut};

use crate::error::DecodeError;
use crate::header::{Header, SerializeType};

/// The largest frame accepted by default, in bytes, its length prefix included: 16 MiB, as in Apache's clients and servers.
pub const DEFAULT_MAX_FRAME_LENGTH: usize = 16 * 1024 * 1024;

/// Bytes before the header: the length and the word of serialize type and header length.
pub const PREFIX_LENGTH: usize = 8;

/// Where the parts of a frame stand, found without touching header or body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrameLayout {
    /// How the header is written.
    pub serialize_type: SerializeType,
    /// Header length in bytes; the header begins at [`PREFIX_LENGTH`].
    pub header_length: usize,
    /// Length of the whole frame in bytes, the length prefix included.
    pub frame_length: usize,
}

impl FrameLayout {
    /// Reads the layout of the frame at the start of `bytes`.
    ///
    /// `Ok(None)` means that more bytes are needed before the whole frame is there. `max_length` bounds the whole
    /// frame in bytes.
    ///
    /// # Errors
    ///
    /// A length above `max_length` or below the smallest frame, a header longer than its frame, an unknown
    /// serialize type. They are reported as soon as the prefix shows them; the stream cannot be continued then.
    pub fn peek(bytes: &[u8], max_length: usize) -> Result<Option<Self>, DecodeError> {
        let Some(length) = announced_length(bytes) else { return Ok(None) };
        if length > max_length {
            return Err(DecodeError::TooLarge { what: "frame", length, limit: max_length });
        }
        if length < PREFIX_LENGTH {
            return Err(DecodeError::Invalid { what: "frame length", offset: 0 });
        }
        let Some(&[kind, a, b, c]) = bytes.get(4..PREFIX_LENGTH).and_then(|word| word.first_chunk::<4>()) else {
            return Ok(None);
        };
        let serialize_type =
            SerializeType::from_byte(kind).ok_or(DecodeError::Invalid { what: "serialize type", offset: 4 })?;
        let header_length = u32::from_be_bytes([0, a, b, c]) as usize;
        if header_length > length - PREFIX_LENGTH {
            return Err(DecodeError::Invalid { what: "header length", offset: 4 });
        }
        Ok((bytes.len() >= length).then_some(Self { serialize_type, header_length, frame_length: length }))
    }
}

/// The length, prefix included, that the frame at the start of `bytes` announces; `None` before 4 bytes are there.
///
/// The value is not checked: bound it before reserving memory for it.
#[must_use]
pub fn announced_length(bytes: &[u8]) -> Option<usize> {
    let prefix = bytes.first_chunk::<4>()?;
    Some((u32::from_be_bytes(*prefix) as usize).saturating_add(4))
}

/// One whole frame; header and body share the memory that they were read into.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    /// How the header is written.
    pub serialize_type: SerializeType,
    /// The header, undecoded.
    pub header: Bytes,
    /// The body; empty when there is none.
    pub body: Bytes,
}

impl Frame {
    /// Takes the next whole frame out of `buffer`, or leaves the buffer as it is and returns `None`.
    ///
    /// # Errors
    ///
    /// As [`FrameLayout::peek`]; the buffer is left as it is and the stream cannot be continued.
    pub fn next(buffer: &mut BytesMut, max_length: usize) -> Result<Option<Self>, DecodeError> {
        let Some(layout) = FrameLayout::peek(buffer, max_length)? else { return Ok(None) };
        Ok(Some(Self::cut(buffer.split_to(layout.frame_length).freeze(), layout)))
    }

    /// Reads `bytes`, which must hold exactly one frame of at most [`DEFAULT_MAX_FRAME_LENGTH`] bytes.
    ///
    /// # Errors
    ///
    /// As [`FrameLayout::peek`], and when `bytes` ends before or after the frame.
    pub fn parse(bytes: Bytes) -> Result<Self, DecodeError> {
        let available = bytes.len();
        match FrameLayout::peek(&bytes, DEFAULT_MAX_FRAME_LENGTH)? {
            Some(layout) if layout.frame_length == available => Ok(Self::cut(bytes, layout)),
            Some(layout) => Err(DecodeError::Invalid { what: "byte after the frame", offset: layout.frame_length }),
            None => Err(DecodeError::Truncated {
                what: "frame",
                offset: 0,
                needed: announced_length(&bytes).unwrap_or(PREFIX_LENGTH).max(PREFIX_LENGTH),
                available,
            }),
        }
    }

    /// Decodes the header; text in it borrows from this frame where it can.
    ///
    /// # Errors
    ///
    /// A header that is not what its serialize type promises.
    pub fn decode_header(&self) -> Result<Header<'_>, DecodeError> {
        Header::decode(self.serialize_type, &self.header)
    }

    /// Takes the parts of the one frame that `bytes` holds, whose layout is known.
    ///
    /// # Panics
    ///
    /// When the layout is not that of `bytes`.
    #[must_use]
    pub fn cut(mut bytes: Bytes, layout: FrameLayout) -> Self {
        let body_at = PREFIX_LENGTH + layout.header_length;
        // An answer seldom has a body: no need to share the memory once more then.
        let body = if body_at == bytes.len() { Bytes::new() } else { bytes.split_off(body_at) };
        bytes.advance(PREFIX_LENGTH);
        Self { serialize_type: layout.serialize_type, header: bytes, body }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FRAME: &[u8] = &[0, 0, 0, 9, 1, 0, 0, 2, b'h', b'h', b'b', b'b', b'b'];

    #[test]
    fn a_frame_is_cut_only_when_whole() {
        for end in 0..FRAME.len() {
            let mut buffer = BytesMut::from(&FRAME[..end]);
            assert_eq!(Frame::next(&mut buffer, 1024), Ok(None), "{end} bytes");
            assert_eq!(buffer.len(), end);
            assert!(Frame::parse(Bytes::copy_from_slice(&FRAME[..end])).is_err());
        }
        let mut buffer = BytesMut::from(FRAME);
        buffer.extend_from_slice(&FRAME[..3]);
        let frame = Frame::next(&mut buffer, 1024).unwrap().unwrap();
        assert_eq!((&frame.header[..], &frame.body[..]), (&b"hh"[..], &b"bbb"[..]));
        assert_eq!(frame.serialize_type, SerializeType::Binary);
        assert_eq!(&buffer[..], &FRAME[..3]);
        assert_eq!(Frame::parse(Bytes::from_static(FRAME)).unwrap(), frame);
    }

    #[test]
    fn bad_prefixes_are_refused_before_the_frame_is_there() {
        let peek = |bytes: &[u8]| FrameLayout::peek(bytes, 64);
        assert_eq!(peek(&[0, 0, 0, 61]), Err(DecodeError::TooLarge { what: "frame", length: 65, limit: 64 }));
        assert!(matches!(peek(&[255; 4]), Err(DecodeError::TooLarge { .. })));
        assert!(matches!(peek(&[0, 0, 0, 3]), Err(DecodeError::Invalid { what: "frame length", .. })));
        assert!(matches!(peek(&[0, 0, 0, 4, 7, 0, 0, 0]), Err(DecodeError::Invalid { what: "serialize type", .. })));
        assert!(matches!(peek(&[0, 0, 0, 4, 0, 0, 0, 1]), Err(DecodeError::Invalid { what: "header length", .. })));
        assert!(peek(&[0, 0, 0, 4, 0, 0, 0, 0]).unwrap().is_some());
    }
}
