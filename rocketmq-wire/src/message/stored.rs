//! Reads stored records without copying them.
//!
//! Only what is needed to find the parts of a record is read when it is parsed; every value is read when it is asked
//! for. [`RecordView`] borrows, [`StoredMessage`] shares the buffer it was cut from.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use bytes::Bytes;

use crate::error::DecodeError;
use crate::message::compression::Compression;
use crate::message::id::OffsetMessageId;
use crate::message::properties::{self, Properties};
use crate::message::record::{self, MagicVersion};
use crate::message::sys_flag;
use crate::message::tag_hash::tag_hash;

/// Where the parts of a record lie; checked once against the record's size.
#[derive(Debug, Clone, Copy)]
struct Layout {
    version: MagicVersion,
    store_timestamp: u16,
    body: u32,
    body_length: u32,
    topic: u32,
    topic_length: u16,
    properties_length: u16,
    size: u32,
}

impl Layout {
    /// Reads the record at the front of `bytes`, and checks every length in it before it is used.
    fn parse(bytes: &[u8]) -> Result<Layout, DecodeError> {
        let size = read_size(bytes)?;
        let version = MagicVersion::from_magic(i32_at(bytes, 4))
            .ok_or(DecodeError::Invalid { what: "record magic", offset: 4 })?;
        let record = &bytes[..size];
        let short = |offset, needed| DecodeError::Truncated {
            what: "stored record",
            offset,
            needed,
            available: size.saturating_sub(offset),
        };

        // The two flag bits move everything that follows the hosts.
        if size < record::BORN_HOST_AT {
            return Err(short(0, record::BORN_HOST_AT));
        }
        let sys_flag = i32_at(record, record::SYS_FLAG_AT);
        let born_host = host_size(sys_flag, sys_flag::BORN_HOST_V6);
        let store_host = host_size(sys_flag, sys_flag::STORE_HOST_V6);
        let body = record::FIXED_WITHOUT_HOSTS + born_host + store_host;
        let topic_length_size = version.topic_length_size();
        if size < body + topic_length_size + 2 {
            return Err(short(0, body + topic_length_size + 2));
        }

        // What is left for body, topic and properties together once their lengths are accounted for.
        let room = size - body - topic_length_size - 2;
        let body_length = length(i64::from(i32_at(record, body - 4)), room, "body length", body - 4)?;
        let topic_length_at = body + body_length;
        let topic_length = match version {
            MagicVersion::V1 => i64::from(record[topic_length_at] as i8),
            MagicVersion::V2 => i64::from(i16_at(record, topic_length_at)),
        };
        let topic_length = length(topic_length, room - body_length, "topic length", topic_length_at)?;
        let topic = topic_length_at + topic_length_size;
        let properties_length_at = topic + topic_length;
        let properties_length = i64::from(i16_at(record, properties_length_at));
        // A negative length means no properties, as in Java.
        let room = room - body_length - topic_length;
        let properties_length = length(properties_length.max(0), room, "properties length", properties_length_at)?;
        if properties_length != room {
            return Err(DecodeError::Invalid { what: "record size", offset: 0 });
        }
        let topic_text = &record[topic..properties_length_at];
        // Nearly every topic is ASCII, which is found out with a few instructions.
        if !topic_text.is_ascii() && std::str::from_utf8(topic_text).is_err() {
            return Err(DecodeError::NotUtf8 { what: "topic", offset: topic });
        }
        Ok(Layout {
            version,
            store_timestamp: (record::BORN_HOST_AT + born_host) as u16,
            body: body as u32,
            body_length: body_length as u32,
            topic: topic as u32,
            topic_length: topic_length as u16,
            properties_length: properties_length as u16,
            size: size as u32,
        })
    }
}

/// Reads the size that starts a record or filler, and checks that so many bytes are there.
fn read_size(bytes: &[u8]) -> Result<usize, DecodeError> {
    let truncated =
        |needed| DecodeError::Truncated { what: "stored record", offset: 0, needed, available: bytes.len() };
    if bytes.len() < record::END_OF_FILE_SIZE {
        return Err(truncated(record::END_OF_FILE_SIZE));
    }
    match usize::try_from(i32_at(bytes, 0)) {
        Ok(size) if size > bytes.len() => Err(truncated(size)),
        Ok(size) if size >= record::END_OF_FILE_SIZE => Ok(size),
        _ => Err(DecodeError::Invalid { what: "record size", offset: 0 }),
    }
}

fn length(value: i64, room: usize, what: &'static str, offset: usize) -> Result<usize, DecodeError> {
    match usize::try_from(value) {
        Ok(length) if length <= room => Ok(length),
        Ok(length) => Err(DecodeError::Truncated { what, offset, needed: length, available: room }),
        Err(_) => Err(DecodeError::Invalid { what, offset }),
    }
}

fn host_size(sys_flag: i32, bit: i32) -> usize {
    if sys_flag & bit == 0 { record::HOST_V4 } else { record::HOST_V6 }
}

// The readers below are given offsets that `Layout::parse` has checked.

fn array_at<const N: usize>(bytes: &[u8], offset: usize) -> [u8; N] {
    let mut array = [0; N];
    array.copy_from_slice(&bytes[offset..offset + N]);
    array
}

fn i16_at(bytes: &[u8], offset: usize) -> i16 {
    i16::from_be_bytes(array_at(bytes, offset))
}

fn i32_at(bytes: &[u8], offset: usize) -> i32 {
    i32::from_be_bytes(array_at(bytes, offset))
}

fn i64_at(bytes: &[u8], offset: usize) -> i64 {
    i64::from_be_bytes(array_at(bytes, offset))
}

fn host_at(bytes: &[u8], offset: usize, v6: bool) -> SocketAddr {
    let (address, port) = if v6 {
        (IpAddr::V6(Ipv6Addr::from(array_at::<16>(bytes, offset))), offset + 16)
    } else {
        (IpAddr::V4(Ipv4Addr::from(array_at::<4>(bytes, offset))), offset + 4)
    };
    // Ports take four bytes of which two are used.
    SocketAddr::new(address, i32_at(bytes, port) as u16)
}

/// One stored record, borrowed from the buffer that holds it.
#[derive(Debug, Clone, Copy)]
pub struct RecordView<'a> {
    bytes: &'a [u8],
    layout: Layout,
}

impl<'a> RecordView<'a> {
    /// Reads the record at the front of `bytes`, which may hold more.
    ///
    /// Every length is checked against the record's size and `bytes`; the properties and the CRC are not looked at.
    ///
    /// # Errors
    ///
    /// [`DecodeError::Truncated`] if the record is longer than `bytes`, else what is wrong with it. A filler at the
    /// end of a commit log file is an error here; see [`LogEntry::parse`].
    pub fn parse(bytes: &'a [u8]) -> Result<Self, DecodeError> {
        let layout = Layout::parse(bytes)?;
        Ok(RecordView { bytes: &bytes[..layout.size as usize], layout })
    }

    /// Returns the whole record as it was stored.
    pub fn as_bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Returns the size of the record, in bytes.
    pub fn size(&self) -> usize {
        self.bytes.len()
    }

    /// Returns the record's layout.
    pub fn version(&self) -> MagicVersion {
        self.layout.version
    }

    /// Returns the checksum of the body that the record carries; [`verify_crc`](Self::verify_crc) compares it.
    pub fn body_crc(&self) -> u32 {
        i32_at(self.bytes, record::BODY_CRC) as u32
    }

    /// Returns the queue id.
    pub fn queue_id(&self) -> i32 {
        i32_at(self.bytes, record::QUEUE_ID_AT)
    }

    /// Returns the user's flag.
    pub fn flag(&self) -> i32 {
        i32_at(self.bytes, record::FLAG_AT)
    }

    /// Returns the position in the queue, counted in messages.
    pub fn queue_offset(&self) -> i64 {
        i64_at(self.bytes, record::QUEUE_OFFSET)
    }

    /// Returns the position in the commit log, in bytes.
    pub fn physical_offset(&self) -> i64 {
        i64_at(self.bytes, record::PHYSICAL_OFFSET)
    }

    /// Returns the system flag, see [`sys_flag`].
    pub fn sys_flag(&self) -> i32 {
        i32_at(self.bytes, record::SYS_FLAG_AT)
    }

    /// Returns when the producer made the message, in milliseconds since 1970.
    pub fn born_timestamp(&self) -> i64 {
        i64_at(self.bytes, record::BORN_TIMESTAMP_AT)
    }

    /// Returns where the producer sent the message from.
    pub fn born_host(&self) -> SocketAddr {
        host_at(self.bytes, record::BORN_HOST_AT, self.sys_flag() & sys_flag::BORN_HOST_V6 != 0)
    }

    /// Returns when the broker stored the message, in milliseconds since 1970.
    pub fn store_timestamp(&self) -> i64 {
        i64_at(self.bytes, self.layout.store_timestamp.into())
    }

    /// Returns the address of the broker that stored the message.
    pub fn store_host(&self) -> SocketAddr {
        let offset = usize::from(self.layout.store_timestamp) + 8;
        host_at(self.bytes, offset, self.sys_flag() & sys_flag::STORE_HOST_V6 != 0)
    }

    /// Returns how often the message was sent back.
    pub fn reconsume_times(&self) -> i32 {
        i32_at(self.bytes, self.layout.body as usize - 16)
    }

    /// Returns the commit log offset of the half message that this one commits, else 0.
    pub fn prepared_transaction_offset(&self) -> i64 {
        i64_at(self.bytes, self.layout.body as usize - 12)
    }

    /// Returns the body as stored: compressed if [`sys_flag`](Self::sys_flag) says so.
    pub fn body(&self) -> &'a [u8] {
        let start = self.layout.body as usize;
        &self.bytes[start..start + self.layout.body_length as usize]
    }

    /// Returns the topic.
    pub fn topic(&self) -> &'a str {
        let start = self.layout.topic as usize;
        let topic = &self.bytes[start..start + usize::from(self.layout.topic_length)];
        std::str::from_utf8(topic).expect("checked when the record was parsed")
    }

    /// Returns the properties, which are searched when asked.
    pub fn properties(&self) -> Properties<'a> {
        Properties::new(&self.bytes[self.bytes.len() - usize::from(self.layout.properties_length)..])
    }

    /// Returns the value of one property.
    pub fn property(&self, name: &str) -> Option<&'a str> {
        self.properties().value(name)
    }

    /// Returns the code that a consume queue keeps of the tag: the Java hash of `TAGS`, 0 without one.
    pub fn tags_code(&self) -> i64 {
        self.property(properties::TAGS).map_or(0, |tags| i64::from(tag_hash(tags)))
    }

    /// Returns the id that names the record by broker address and commit log offset.
    pub fn offset_message_id(&self) -> OffsetMessageId {
        OffsetMessageId { store_host: self.store_host(), physical_offset: self.physical_offset() }
    }

    /// Compares the body with its checksum.
    ///
    /// # Errors
    ///
    /// [`DecodeError::Checksum`] if they differ. Apache's client never looks; its broker does when it recovers.
    pub fn verify_crc(&self) -> Result<(), DecodeError> {
        let (expected, actual) = (self.body_crc(), record::body_crc(self.body()));
        if expected == actual { Ok(()) } else { Err(DecodeError::Checksum { what: "the body", expected, actual }) }
    }
}

/// What may stand at a position of the commit log.
#[derive(Debug, Clone, Copy)]
pub enum LogEntry<'a> {
    /// A message.
    Record(RecordView<'a>),
    /// The filler at the end of a file: the log goes on in the next one.
    EndOfFile {
        /// How many bytes it covers.
        size: usize,
    },
    /// Zeros: nothing was written here yet.
    Unwritten,
}

impl<'a> LogEntry<'a> {
    /// Reads what stands at the front of `bytes`, which reaches at most to the end of the file.
    ///
    /// # Errors
    ///
    /// As [`RecordView::parse`].
    pub fn parse(bytes: &'a [u8]) -> Result<Self, DecodeError> {
        if bytes.len() < record::END_OF_FILE_SIZE {
            return if bytes.iter().all(|byte| *byte == 0) {
                Ok(LogEntry::Unwritten)
            } else {
                Err(read_size(bytes)
                    .map_or_else(|error| error, |_| DecodeError::Invalid { what: "record size", offset: 0 }))
            };
        }
        match (i32_at(bytes, 0), i32_at(bytes, 4)) {
            (0, 0) => Ok(LogEntry::Unwritten),
            (_, record::MAGIC_END_OF_FILE) => Ok(LogEntry::EndOfFile { size: read_size(bytes)? }),
            _ => RecordView::parse(bytes).map(LogEntry::Record),
        }
    }
}

/// One message as a broker hands it out: a cheap view of shared bytes.
///
/// Cloning copies no data. All messages of one answer share its buffer, so keeping one keeps all of it in memory;
/// [`into_owned`](Self::into_owned) cuts it loose.
#[derive(Debug, Clone)]
pub struct StoredMessage {
    bytes: Bytes,
    layout: Layout,
}

impl StoredMessage {
    /// Reads the record at the front of `bytes` and returns it with its size.
    ///
    /// # Errors
    ///
    /// As [`RecordView::parse`].
    pub fn parse(bytes: Bytes) -> Result<(Self, usize), DecodeError> {
        let layout = Layout::parse(&bytes)?;
        let size = layout.size as usize;
        let bytes = if size == bytes.len() { bytes } else { bytes.slice(..size) };
        Ok((StoredMessage { bytes, layout }, size))
    }

    /// Returns the messages that lie back to back in `body`, the body of a pull answer.
    pub fn records(body: Bytes) -> Records {
        Records { rest: body }
    }

    /// Returns the record, borrowed.
    pub fn view(&self) -> RecordView<'_> {
        RecordView { bytes: &self.bytes, layout: self.layout }
    }

    /// Copies the record out of the buffer it shares, so that the rest of that buffer can be freed.
    pub fn into_owned(self) -> StoredMessage {
        StoredMessage { bytes: Bytes::copy_from_slice(&self.bytes), layout: self.layout }
    }

    /// Returns the whole record as it was stored.
    pub fn as_bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// Returns the size of the record, in bytes.
    pub fn size(&self) -> usize {
        self.bytes.len()
    }

    /// Returns the topic.
    pub fn topic(&self) -> &str {
        self.view().topic()
    }

    /// Returns the body as stored, sharing the buffer; [`decompressed_body`](Self::decompressed_body) inflates it.
    pub fn body(&self) -> Bytes {
        let start = self.layout.body as usize;
        self.bytes.slice(start..start + self.layout.body_length as usize)
    }

    /// Returns the body in plain form, sharing the buffer if it was not compressed.
    ///
    /// # Errors
    ///
    /// [`DecodeError::TooLarge`] if the plain body is longer than `limit` bytes, [`DecodeError::Decompress`] if the
    /// body is damaged, [`DecodeError::Unsupported`] if the codec is not part of this build.
    pub fn decompressed_body(&self, limit: usize) -> Result<Bytes, DecodeError> {
        match Compression::from_sys_flag(self.sys_flag())? {
            // An empty body is no compressed body, whatever the flag says.
            Some(compression) if self.layout.body_length > 0 => {
                compression.decompress(self.view().body(), limit).map(Bytes::from)
            }
            _ => Ok(self.body()),
        }
    }

    /// Returns the properties, which are searched when asked.
    pub fn properties(&self) -> Properties<'_> {
        self.view().properties()
    }

    /// Returns the value of one property.
    pub fn property(&self, name: &str) -> Option<&str> {
        self.view().property(name)
    }

    /// Returns the tag (property `TAGS`).
    pub fn tags(&self) -> Option<&str> {
        self.property(properties::TAGS)
    }

    /// Returns the index keys: the parts of property `KEYS` between blanks.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.property(properties::KEYS)
            .unwrap_or_default()
            .split(properties::KEY_SEPARATOR)
            .filter(|key| !key.is_empty())
    }

    /// Returns the id that the producer gave the message (property `UNIQ_KEY`).
    pub fn unique_id(&self) -> Option<&str> {
        self.property(properties::UNIQUE_ID)
    }

    /// Returns the id that names the record by broker address and commit log offset.
    pub fn offset_message_id(&self) -> OffsetMessageId {
        self.view().offset_message_id()
    }

    /// Returns the queue id.
    pub fn queue_id(&self) -> i32 {
        self.view().queue_id()
    }

    /// Returns the position in the queue, counted in messages.
    pub fn queue_offset(&self) -> i64 {
        self.view().queue_offset()
    }

    /// Returns the position in the commit log, in bytes.
    pub fn physical_offset(&self) -> i64 {
        self.view().physical_offset()
    }

    /// Returns the system flag, see [`sys_flag`].
    pub fn sys_flag(&self) -> i32 {
        self.view().sys_flag()
    }

    /// Returns the user's flag.
    pub fn flag(&self) -> i32 {
        self.view().flag()
    }

    /// Returns when the producer made the message, in milliseconds since 1970.
    pub fn born_timestamp(&self) -> i64 {
        self.view().born_timestamp()
    }

    /// Returns where the producer sent the message from.
    pub fn born_host(&self) -> SocketAddr {
        self.view().born_host()
    }

    /// Returns when the broker stored the message, in milliseconds since 1970.
    pub fn store_timestamp(&self) -> i64 {
        self.view().store_timestamp()
    }

    /// Returns the address of the broker that stored the message.
    pub fn store_host(&self) -> SocketAddr {
        self.view().store_host()
    }

    /// Returns how often the message was sent back.
    pub fn reconsume_times(&self) -> i32 {
        self.view().reconsume_times()
    }

    /// Returns the commit log offset of the half message that this one commits, else 0.
    pub fn prepared_transaction_offset(&self) -> i64 {
        self.view().prepared_transaction_offset()
    }

    /// Returns the checksum of the body that the record carries.
    pub fn body_crc(&self) -> u32 {
        self.view().body_crc()
    }

    /// Compares the stored body with its checksum.
    ///
    /// # Errors
    ///
    /// As [`RecordView::verify_crc`].
    pub fn verify_crc(&self) -> Result<(), DecodeError> {
        self.view().verify_crc()
    }
}

/// The messages in the body of a pull answer, in order.
///
/// A record that cannot be read gives an error and is stepped over by its size, so the messages after it are not
/// lost (Apache's client drops them). Where even the size is wrong the iteration ends after the error.
#[derive(Debug, Clone)]
pub struct Records {
    rest: Bytes,
}

impl Iterator for Records {
    type Item = Result<StoredMessage, DecodeError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        match Layout::parse(&self.rest) {
            Ok(layout) => {
                let bytes = self.rest.split_to(layout.size as usize);
                Some(Ok(StoredMessage { bytes, layout }))
            }
            Err(error) => {
                match read_size(&self.rest) {
                    Ok(size) => drop(self.rest.split_to(size)),
                    Err(_) => self.rest.clear(),
                }
                Some(Err(error))
            }
        }
    }
}
