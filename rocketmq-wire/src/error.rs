//! What can be wrong with bytes that came in, and with values that are to go out.

use thiserror::Error;

/// Bytes that could not be decoded.
///
/// `offset` counts from the start of the item being decoded (frame, header, record, body), in bytes.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// The input ends before the item does.
    #[error("{what} is cut short: {needed} bytes needed at offset {offset}, {available} there")]
    Truncated {
        /// The item or field being read.
        what: &'static str,
        /// Where the read began.
        offset: usize,
        /// How many bytes the read asks for.
        needed: usize,
        /// How many bytes there were.
        available: usize,
    },
    /// A length is above the limit in force, so nothing was allocated for it.
    #[error("{what} of {length} bytes exceeds the limit of {limit}")]
    TooLarge {
        /// The item whose length is meant.
        what: &'static str,
        /// The length announced or reached.
        length: usize,
        /// The limit in force.
        limit: usize,
    },
    /// A value that the format does not allow.
    #[error("invalid {what} at offset {offset}")]
    Invalid {
        /// The field that holds it.
        what: &'static str,
        /// Where it stands.
        offset: usize,
    },
    /// Text that is not UTF-8.
    #[error("{what} at offset {offset} is not UTF-8")]
    NotUtf8 {
        /// The field that holds it.
        what: &'static str,
        /// Where it stands.
        offset: usize,
    },
    /// JSON that could not be read.
    #[error("{what} is not the JSON expected: {detail}")]
    Json {
        /// The document being read.
        what: &'static str,
        /// What the parser said.
        detail: String,
    },
    /// A required header field is absent.
    #[error("the header lacks the field `{0}`")]
    MissingField(&'static str),
    /// A header field has a value of the wrong type.
    #[error("the header field `{field}` is not {expected}")]
    InvalidField {
        /// The field.
        field: &'static str,
        /// What it should have been.
        expected: &'static str,
    },
    /// The checksum stored beside the data does not match it.
    #[error("checksum of {what} is {actual:#010x}, {expected:#010x} is recorded")]
    Checksum {
        /// The item that was checked.
        what: &'static str,
        /// The recorded value.
        expected: u32,
        /// The computed value.
        actual: u32,
    },
    /// A compressed body that could not be inflated.
    #[error("{algorithm} body cannot be decompressed: {detail}")]
    Decompress {
        /// The algorithm named by the system flag.
        algorithm: &'static str,
        /// What the decoder said.
        detail: String,
    },
    /// The crate was built without the codec that the data needs.
    #[error("this build has no {0} support: enable the crate feature of that name")]
    Unsupported(&'static str),
}

/// A value that cannot be written in the wire format.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum EncodeError {
    /// A field is longer than its length prefix or the protocol allows.
    #[error("{what} of {length} bytes exceeds the limit of {limit}")]
    TooLarge {
        /// The field.
        what: &'static str,
        /// Its length.
        length: usize,
        /// The limit in force.
        limit: usize,
    },
    /// A value that the format cannot carry.
    #[error("{what} cannot be encoded: {why}")]
    Invalid {
        /// The field.
        what: &'static str,
        /// The reason.
        why: &'static str,
    },
    /// The buffer to write into is shorter than what is to be written.
    #[error("{what} needs {needed} bytes, the buffer has {available}")]
    NoRoom {
        /// The item being written.
        what: &'static str,
        /// How many bytes it takes.
        needed: usize,
        /// How many bytes the buffer has.
        available: usize,
    },
    /// The crate was built without the codec asked for.
    #[error("this build has no {0} support: enable the crate feature of that name")]
    Unsupported(&'static str),
}
