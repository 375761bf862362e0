//! Writes the stored record: the form a message has in the commit log and in every answer that carries messages.
//!
//! All integers are big-endian.
//!
//! | field | bytes |
//! |---|---|
//! | total size, magic, body CRC, queue id, flag | 4 each |
//! | queue offset, physical offset | 8 each |
//! | system flag | 4 |
//! | born timestamp, born host | 8, then 8 (IPv4) or 20 (IPv6) with a port of 4 bytes |
//! | store timestamp, store host | likewise |
//! | reconsume times, prepared transaction offset | 4, 8 |
//! | body length, body | 4 + n |
//! | topic length, topic | 1 + n in V1, 2 + n in V2 |
//! | properties length, properties | 2 + n |

use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{Ordering, compiler_fence};

use crate::error::EncodeError;
use crate::message::sys_flag;

/// Magic number of a record with a topic length of one signed byte.
pub const MAGIC_V1: i32 = -626_843_481;
/// Magic number of a record with a topic length of two bytes (5.1.0 and later, topics over 127 bytes).
pub const MAGIC_V2: i32 = -626_843_477;
/// Magic number of the filler that ends a commit log file.
pub const MAGIC_END_OF_FILE: i32 = -875_286_124;
/// Size of the filler's header, and so the least room that a commit log file must keep for it.
pub const END_OF_FILE_SIZE: usize = 8;
/// Longest topic of a V1 record, in bytes: its length is a signed byte.
pub const MAX_TOPIC_V1: usize = i8::MAX as usize;
/// Longest topic of a V2 record, in bytes.
pub const MAX_TOPIC_V2: usize = i16::MAX as usize;
/// Longest property string of a record, in bytes: its length is a signed short.
pub const MAX_PROPERTIES: usize = i16::MAX as usize;

/// Position of the body's checksum in every record.
pub const BODY_CRC: usize = 8;
/// Position of the queue offset in every record, which a broker patches once it is assigned.
pub const QUEUE_OFFSET: usize = 20;
/// Position of the physical offset in every record.
pub const PHYSICAL_OFFSET: usize = 28;

pub(super) const QUEUE_ID_AT: usize = 12;
pub(super) const FLAG_AT: usize = 16;
pub(super) const SYS_FLAG_AT: usize = 36;
pub(super) const BORN_TIMESTAMP_AT: usize = 40;
pub(super) const BORN_HOST_AT: usize = 48;

/// Everything before the body but the two hosts: 40 up to the born timestamp, 8 + 8 timestamps, 4 + 8 after the
/// hosts, 4 for the body's length.
pub(super) const FIXED_WITHOUT_HOSTS: usize = 72;
pub(super) const HOST_V4: usize = 8;
pub(super) const HOST_V6: usize = 20;

/// The two layouts of a record, which differ in the width of the topic's length.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum MagicVersion {
    /// Topic length in one signed byte: at most 127.
    #[default]
    V1,
    /// Topic length in two bytes. Readers before 5.1.0 do not know it.
    V2,
}

impl MagicVersion {
    /// Returns the layout that Apache's broker uses for a topic of `length` bytes: V1 as long as it fits.
    pub const fn for_topic_length(length: usize) -> Self {
        if length <= MAX_TOPIC_V1 { MagicVersion::V1 } else { MagicVersion::V2 }
    }

    /// Returns the layout with this magic number, if there is one.
    pub const fn from_magic(magic: i32) -> Option<Self> {
        match magic {
            MAGIC_V1 => Some(MagicVersion::V1),
            MAGIC_V2 => Some(MagicVersion::V2),
            _ => None,
        }
    }

    /// Returns the magic number.
    pub const fn magic(self) -> i32 {
        match self {
            MagicVersion::V1 => MAGIC_V1,
            MagicVersion::V2 => MAGIC_V2,
        }
    }

    /// Returns how many bytes the topic's length takes.
    pub const fn topic_length_size(self) -> usize {
        match self {
            MagicVersion::V1 => 1,
            MagicVersion::V2 => 2,
        }
    }

    const fn max_topic(self) -> usize {
        match self {
            MagicVersion::V1 => MAX_TOPIC_V1,
            MagicVersion::V2 => MAX_TOPIC_V2,
        }
    }
}

/// The values of a record that is to be written.
#[derive(Debug, Clone, Copy)]
pub struct Record<'a> {
    /// The layout.
    pub version: MagicVersion,
    /// The queue of the topic.
    pub queue_id: i32,
    /// The user's flag.
    pub flag: i32,
    /// Position in the queue, counted in messages.
    pub queue_offset: i64,
    /// Position in the commit log, in bytes.
    pub physical_offset: i64,
    /// The system flag; the two host bits are overruled by the families of the hosts below.
    pub sys_flag: i32,
    /// When the producer made the message, in milliseconds since 1970.
    pub born_timestamp: i64,
    /// Where the producer sent it from. An IPv4-mapped IPv6 address is written as IPv4, as Java does.
    pub born_host: SocketAddr,
    /// When the broker stored it, in milliseconds since 1970.
    pub store_timestamp: i64,
    /// The broker's address.
    pub store_host: SocketAddr,
    /// How often the message was sent back.
    pub reconsume_times: i32,
    /// Commit log offset of the half message that this one commits, else 0.
    pub prepared_transaction_offset: i64,
    /// The body as stored, compressed if the system flag says so.
    pub body: &'a [u8],
    /// The topic.
    pub topic: &'a str,
    /// The property string, see [`crate::message::properties`].
    pub properties: &'a [u8],
}

impl Record<'_> {
    /// Returns the size of the record, in bytes.
    ///
    /// # Errors
    ///
    /// [`EncodeError::TooLarge`] if the topic, the properties or the whole does not fit its length field.
    pub fn encoded_len(&self) -> Result<usize, EncodeError> {
        let within = |what, length: usize, limit: usize| {
            if length <= limit { Ok(length) } else { Err(EncodeError::TooLarge { what, length, limit }) }
        };
        let topic = within("the topic", self.topic.len(), self.version.max_topic())?;
        let properties = within("the properties", self.properties.len(), MAX_PROPERTIES)?;
        let total = FIXED_WITHOUT_HOSTS
            + host_size(self.born_host)
            + host_size(self.store_host)
            + self.version.topic_length_size()
            + topic
            + 2
            + properties;
        within("the record", total.saturating_add(self.body.len()), i32::MAX as usize)
    }

    /// Returns the system flag as it is written: the host bits say what the hosts are.
    pub fn encoded_sys_flag(&self) -> i32 {
        let mut flag = self.sys_flag & !(sys_flag::BORN_HOST_V6 | sys_flag::STORE_HOST_V6);
        if host_size(self.born_host) == HOST_V6 {
            flag |= sys_flag::BORN_HOST_V6;
        }
        if host_size(self.store_host) == HOST_V6 {
            flag |= sys_flag::STORE_HOST_V6;
        }
        flag
    }

    /// Writes the record to the front of `out` and returns its size; the body's CRC is computed here.
    ///
    /// The size, which is what makes a record exist, is written last: if `out` is a mapped file and the process is
    /// killed meanwhile, readers of the file see either no record or the whole.
    ///
    /// Nothing is written to `out` when an error is returned.
    ///
    /// # Errors
    ///
    /// As [`encoded_len`](Self::encoded_len), and [`EncodeError::NoRoom`] if `out` is shorter than the record.
    pub fn encode(&self, out: &mut [u8]) -> Result<usize, EncodeError> {
        let size = self.encoded_len()?;
        let available = out.len();
        let Some(out) = out.get_mut(..size) else {
            return Err(EncodeError::NoRoom { what: "the record", needed: size, available });
        };
        let (size_field, rest) = out.split_at_mut(4);
        let mut out = Cursor { rest };
        out.i32(self.version.magic());
        out.i32(body_crc(self.body) as i32);
        out.i32(self.queue_id);
        out.i32(self.flag);
        out.i64(self.queue_offset);
        out.i64(self.physical_offset);
        out.i32(self.encoded_sys_flag());
        out.i64(self.born_timestamp);
        out.host(self.born_host);
        out.i64(self.store_timestamp);
        out.host(self.store_host);
        out.i32(self.reconsume_times);
        out.i64(self.prepared_transaction_offset);
        out.i32(self.body.len() as i32);
        out.put(self.body);
        match self.version {
            MagicVersion::V1 => out.put(&[self.topic.len() as u8]),
            MagicVersion::V2 => out.put(&(self.topic.len() as u16).to_be_bytes()),
        }
        out.put(self.topic.as_bytes());
        out.put(&(self.properties.len() as u16).to_be_bytes());
        out.put(self.properties);
        write_last(size_field, size as i32);
        Ok(size)
    }
}

/// Returns the checksum that a record keeps of its body: CRC-32 with the top bit cleared.
pub fn body_crc(body: &[u8]) -> u32 {
    crc32fast::hash(body) & 0x7FFF_FFFF
}

/// Writes the filler that ends a commit log file to the front of `out`, which is what is left of the file.
///
/// # Errors
///
/// [`EncodeError::NoRoom`] if less than [`END_OF_FILE_SIZE`] bytes are left, [`EncodeError::TooLarge`] if the rest
/// does not fit the length field.
pub fn encode_end_of_file(out: &mut [u8]) -> Result<(), EncodeError> {
    let available = out.len();
    let Ok(size) = i32::try_from(available) else {
        return Err(EncodeError::TooLarge { what: "the filler", length: available, limit: i32::MAX as usize });
    };
    if available < END_OF_FILE_SIZE {
        return Err(EncodeError::NoRoom { what: "the filler", needed: END_OF_FILE_SIZE, available });
    }
    let (size_field, rest) = out.split_at_mut(4);
    Cursor { rest }.i32(MAGIC_END_OF_FILE);
    write_last(size_field, size);
    Ok(())
}

/// Writes the size after everything else of the record, in the order that a killed process leaves behind.
fn write_last(size_field: &mut [u8], size: i32) {
    compiler_fence(Ordering::Release);
    size_field.copy_from_slice(&size.to_be_bytes());
}

/// Size of a host in a record. Java turns IPv4-mapped addresses into IPv4 ones, so they count as such.
fn host_size(host: SocketAddr) -> usize {
    if host.ip().to_canonical().is_ipv4() { HOST_V4 } else { HOST_V6 }
}

/// The unwritten rest of a buffer whose size was checked to hold all that is put.
struct Cursor<'a> {
    rest: &'a mut [u8],
}

impl Cursor<'_> {
    fn put(&mut self, bytes: &[u8]) {
        let (head, rest) = std::mem::take(&mut self.rest).split_at_mut(bytes.len());
        head.copy_from_slice(bytes);
        self.rest = rest;
    }

    fn i32(&mut self, value: i32) {
        self.put(&value.to_be_bytes());
    }

    fn i64(&mut self, value: i64) {
        self.put(&value.to_be_bytes());
    }

    fn host(&mut self, host: SocketAddr) {
        match host.ip().to_canonical() {
            IpAddr::V4(address) => self.put(&address.octets()),
            IpAddr::V6(address) => self.put(&address.octets()),
        }
        self.i32(i32::from(host.port()));
    }
}
