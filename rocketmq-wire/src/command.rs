//! A whole command in generic form: every field as text, in the order of the wire.
//!
//! For tools, journals and tests. Senders and handlers use the typed headers of [`crate::request`].

use bytes::{BufMut, Bytes, BytesMut};

use crate::code::{LanguageCode, Version};
use crate::error::{DecodeError, EncodeError};
use crate::frame::{Frame, PREFIX_LENGTH};
use crate::header::{EncodeFields, FieldWriter, Head, SerializeType, encode};

/// A request or an answer with nothing interpreted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemotingCommand {
    /// How the header is written.
    pub serialize_type: SerializeType,
    /// The request code, or in an answer the response code.
    pub code: i32,
    /// The language of the sender.
    pub language: LanguageCode,
    /// The version of the sender.
    pub version: Version,
    /// The number that an answer shares with its request.
    pub opaque: i32,
    /// Bits: response, one-way.
    pub flag: i32,
    /// Free text.
    pub remark: Option<String>,
    /// Names and values in the order of the wire; `None` when the header has no field object.
    pub fields: Option<Vec<(String, String)>>,
    /// The body; empty when there is none.
    pub body: Bytes,
}

impl RemotingCommand {
    /// Decodes `frame`.
    ///
    /// # Errors
    ///
    /// A malformed header, or malformed fields in it.
    pub fn decode(frame: &Frame) -> Result<Self, DecodeError> {
        let header = frame.decode_header()?;
        let fields = if header.fields.is_present() {
            let mut entries = Vec::new();
            header.fields.for_each(|name, value| {
                entries.push((name.to_owned(), value.into_owned()));
                Ok(())
            })?;
            Some(entries)
        } else {
            None
        };
        let Head { code, language, version, opaque, flag, remark } = header.head;
        Ok(Self {
            serialize_type: frame.serialize_type,
            code,
            language,
            version,
            opaque,
            flag,
            remark: remark.map(std::borrow::Cow::into_owned),
            fields,
            body: frame.body.clone(),
        })
    }

    /// Appends the command as one frame, body included.
    ///
    /// # Errors
    ///
    /// A header of 16 MiB or more, a frame above 2 GiB, or in binary a field name above 32,767 bytes; `out` is then as it was.
    pub fn encode(&self, out: &mut BytesMut) -> Result<(), EncodeError> {
        let head = Head {
            code: self.code,
            language: self.language,
            version: self.version,
            opaque: self.opaque,
            flag: self.flag,
            remark: self.remark.as_deref().map(Into::into),
        };
        for (name, _) in self.fields.iter().flatten() {
            if name.len() > i16::MAX as usize {
                return Err(EncodeError::TooLarge { what: "field name", length: name.len(), limit: i16::MAX as usize });
            }
        }
        encode(out, self.serialize_type, &head, self, self.body.len())?;
        out.put_slice(&self.body);
        Ok(())
    }

    /// The command as one frame in a buffer of its own.
    ///
    /// # Errors
    ///
    /// As [`encode`](Self::encode).
    pub fn to_bytes(&self) -> Result<Bytes, EncodeError> {
        let mut out = BytesMut::with_capacity(PREFIX_LENGTH + 256 + self.body.len());
        self.encode(&mut out)?;
        Ok(out.freeze())
    }

    /// The value of the first field `name`.
    #[must_use]
    pub fn field(&self, name: &str) -> Option<&str> {
        self.fields.iter().flatten().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }
}

impl EncodeFields for RemotingCommand {
    fn is_present(&self) -> bool {
        self.fields.is_some()
    }

    fn encode_fields<W: FieldWriter>(&self, writer: &mut W) {
        for (name, value) in self.fields.iter().flatten() {
            writer.text(name, value);
        }
    }
}
