//! The two ids of a message: where it is stored, and the one its producer gave it.
//!
//! Both are upper-case hex of the same lengths (32 characters with an IPv4 address, 56 with an IPv6 one), so they
//! cannot be told apart by looking.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::ops::Range;
use std::str::FromStr;

use crate::error::DecodeError;

/// Length of an id with an IPv4 address, in characters.
pub const LENGTH_V4: usize = 32;
/// Length of an id with an IPv6 address, in characters.
pub const LENGTH_V6: usize = 56;

const MILLIS_PER_DAY: i64 = 86_400_000;

/// Names a record by the broker that stored it and its commit log offset.
///
/// [`Display`](fmt::Display) writes the id, [`FromStr`] reads it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct OffsetMessageId {
    /// The broker's address. An IPv4-mapped IPv6 address is written as IPv4, as Java does.
    pub store_host: SocketAddr,
    /// Position in the broker's commit log, in bytes.
    pub physical_offset: i64,
}

impl fmt::Display for OffsetMessageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = HexText::new();
        text.address(self.store_host.ip());
        text.put(&u32::from(self.store_host.port()).to_be_bytes());
        text.put(&self.physical_offset.to_be_bytes());
        f.write_str(text.as_str())
    }
}

impl FromStr for OffsetMessageId {
    type Err = DecodeError;

    fn from_str(text: &str) -> Result<Self, DecodeError> {
        let bytes = HexBytes::parse(text, "offset message id")?;
        let (address, rest) = bytes.address();
        let port = u32::from_be_bytes([rest[0], rest[1], rest[2], rest[3]]);
        let port = u16::try_from(port)
            .map_err(|_| DecodeError::Invalid { what: "port of an offset message id", offset: text.len() - 24 })?;
        let mut offset = [0; 8];
        offset.copy_from_slice(&rest[4..]);
        Ok(OffsetMessageId { store_host: SocketAddr::new(address, port), physical_offset: i64::from_be_bytes(offset) })
    }
}

/// The id that a producer gives a message, which stays the same when it is sent again.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct UniqueId {
    text: HexText,
    suffix: UniqueIdSuffix,
}

impl UniqueId {
    /// Returns the id's text.
    pub fn as_str(&self) -> &str {
        self.text.as_str()
    }

    /// Returns what tells it from the others of its factory.
    pub fn suffix(&self) -> UniqueIdSuffix {
        self.suffix
    }
}

impl fmt::Display for UniqueId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for UniqueId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "UniqueId({self})")
    }
}

/// Makes unique ids as Java clients do: address, process id, class loader hash, time in the month, counter.
///
/// Ids are unique as long as the first three differ between processes and no counter value comes twice within a
/// millisecond.
#[derive(Debug, Clone, Copy)]
pub struct UniqueIdFactory {
    prefix: HexText,
    utc_offset_millis: i64,
}

impl UniqueIdFactory {
    /// Takes what stays the same in one process.
    ///
    /// Of `process_id` the low 16 bits count. `class_loader_hash` is any number that tells processes with the same
    /// address and id apart. Java counts months in local time: `utc_offset_millis` is what local time is ahead of
    /// UTC, in milliseconds; 0 is fine too, as only the readable time of the id depends on it.
    pub fn new(address: IpAddr, process_id: u32, class_loader_hash: i32, utc_offset_millis: i64) -> Self {
        let mut prefix = HexText::new();
        prefix.address(address);
        prefix.put(&(process_id as u16).to_be_bytes());
        prefix.put(&class_loader_hash.to_be_bytes());
        UniqueIdFactory { prefix, utc_offset_millis }
    }

    /// Makes the id for the time `now_millis`, in milliseconds since 1970, and a counter that grows by one per id.
    pub fn id(&self, now_millis: i64, counter: u16) -> UniqueId {
        self.with(self.suffix(now_millis, counter))
    }

    /// What tells an id from the others of this factory: all of it that has to be kept while the factory is at hand.
    pub fn suffix(&self, now_millis: i64, counter: u16) -> UniqueIdSuffix {
        self.suffix_in(&self.month(now_millis), now_millis, counter)
    }

    /// As [`suffix`](Self::suffix), in a month that is known to be that of `now_millis`.
    #[inline]
    pub fn suffix_in(&self, month: &Range<i64>, now_millis: i64, counter: u16) -> UniqueIdSuffix {
        UniqueIdSuffix { since_month_start_millis: (now_millis - month.start) as u32, counter }
    }

    /// The month of `now_millis` in milliseconds since 1970, to be kept for as long as it lasts.
    pub fn month(&self, now_millis: i64) -> Range<i64> {
        // The longest month and a day later it is the next month, and no later one.
        let start = month_start(now_millis, self.utc_offset_millis);
        start..month_start(start + 32 * MILLIS_PER_DAY, self.utc_offset_millis)
    }

    /// Makes the id of that suffix.
    #[inline]
    pub fn with(&self, suffix: UniqueIdSuffix) -> UniqueId {
        let mut text = self.prefix;
        text.put(&suffix.since_month_start_millis.to_be_bytes());
        text.put(&suffix.counter.to_be_bytes());
        UniqueId { text, suffix }
    }

    /// What all ids of this factory begin with.
    pub fn prefix(&self) -> &str {
        self.prefix.as_str()
    }
}

/// The time and counter of a unique id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct UniqueIdSuffix {
    /// Time since the start of the month, in milliseconds.
    pub since_month_start_millis: u32,
    /// The counter.
    pub counter: u16,
}

impl UniqueIdSuffix {
    /// Length in an id, in characters.
    pub const LENGTH: usize = 12;

    /// Returns the end of the id, after what all ids of the factory begin with.
    #[inline]
    pub fn digits(self) -> [u8; Self::LENGTH] {
        let mut digits = [0; Self::LENGTH];
        digits[..8].copy_from_slice(&hex_digits(self.since_month_start_millis).to_be_bytes());
        digits[8..].copy_from_slice(&(hex_digits(self.counter.into()) as u32).to_be_bytes());
        digits
    }
}

/// The eight hex digits of `value`, the first in the highest byte.
#[inline]
fn hex_digits(value: u32) -> u64 {
    const EACH: u64 = 0x0101_0101_0101_0101;
    // One half byte into each byte, then past the gap between the digits and the letters where it is ten or more.
    let pairs = u64::from(value);
    let pairs = (pairs | pairs << 16) & 0x0000_FFFF_0000_FFFF;
    let pairs = (pairs | pairs << 8) & 0x00FF_00FF_00FF_00FF;
    let halves = (pairs | pairs << 4) & (0x0F * EACH);
    let letters = ((halves + 6 * EACH) >> 4) & EACH;
    halves + u64::from(b'0') * EACH + letters * u64::from(b'A' - b'9' - 1)
}

/// The parts of a unique id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UniqueIdParts {
    /// The producer's address.
    pub address: IpAddr,
    /// The low 16 bits of its process id.
    pub process_id: u16,
    /// The number that tells apart processes with the same address and id.
    pub class_loader_hash: i32,
    /// Time since the start of the month, in milliseconds.
    pub since_month_start_millis: u32,
    /// The counter.
    pub counter: u16,
}

impl UniqueIdParts {
    /// Takes a unique id apart. Any hex text of the right length has parts; whether they mean anything is another
    /// question, since producers may choose their own ids.
    ///
    /// # Errors
    ///
    /// [`DecodeError::Invalid`] if `text` is not 32 or 56 hex digits.
    pub fn parse(text: &str) -> Result<Self, DecodeError> {
        let bytes = HexBytes::parse(text, "unique id")?;
        let (address, rest) = bytes.address();
        Ok(UniqueIdParts {
            address,
            process_id: u16::from_be_bytes([rest[0], rest[1]]),
            class_loader_hash: i32::from_be_bytes([rest[2], rest[3], rest[4], rest[5]]),
            since_month_start_millis: u32::from_be_bytes([rest[6], rest[7], rest[8], rest[9]]),
            counter: u16::from_be_bytes([rest[10], rest[11]]),
        })
    }

    /// Returns about when the id was made, in milliseconds since 1970, taking it to be less than a month before
    /// `now_millis`. `utc_offset_millis` is what the producer's local time is ahead of UTC.
    pub fn created_at(&self, now_millis: i64, utc_offset_millis: i64) -> i64 {
        let this_month = month_start(now_millis, utc_offset_millis);
        let created_at = this_month + i64::from(self.since_month_start_millis);
        if created_at < now_millis {
            return created_at;
        }
        let last_month = month_start(this_month - 1, utc_offset_millis);
        last_month + i64::from(self.since_month_start_millis)
    }
}

/// Returns the start of the month of `now_millis`, both in milliseconds since 1970.
fn month_start(now_millis: i64, utc_offset_millis: i64) -> i64 {
    let local_day = now_millis.saturating_add(utc_offset_millis).div_euclid(MILLIS_PER_DAY);
    (local_day - i64::from(day_of_month(local_day) - 1)) * MILLIS_PER_DAY - utc_offset_millis
}

/// Returns the day of the month, from 1, of a day counted from 1970-01-01 in the Gregorian calendar.
///
/// Counts from 1 March, so that the leap day is the last day of a year: the months from March on then have
/// 31 30 31 30 31 days, over and over, which the factor 153 / 5 spreads.
fn day_of_month(day: i64) -> u32 {
    const DAYS_TO_1970: i64 = 719_468;
    const DAYS_PER_400_YEARS: i64 = 146_097;
    let day = (day + DAYS_TO_1970).rem_euclid(DAYS_PER_400_YEARS);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day_of_year = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day_of_year + 2) / 153;
    (day_of_year - (153 * month + 2) / 5 + 1) as u32
}

/// Up to [`LENGTH_V6`] upper-case hex digits, kept in place. Aligned, so that they are checked to be text by words.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
#[repr(align(8))]
struct HexText {
    digits: [u8; LENGTH_V6],
    length: u8,
}

impl HexText {
    fn new() -> Self {
        HexText { digits: [0; LENGTH_V6], length: 0 }
    }

    fn put(&mut self, bytes: &[u8]) {
        let at = usize::from(self.length);
        let pairs = self.digits[at..at + 2 * bytes.len()].chunks_exact_mut(2);
        for (pair, byte) in pairs.zip(bytes) {
            pair.copy_from_slice(&HEX_PAIRS[usize::from(*byte)]);
        }
        self.length += 2 * bytes.len() as u8;
    }

    fn address(&mut self, address: IpAddr) {
        match address.to_canonical() {
            IpAddr::V4(address) => self.put(&address.octets()),
            IpAddr::V6(address) => self.put(&address.octets()),
        }
    }

    fn as_str(&self) -> &str {
        std::str::from_utf8(&self.digits[..usize::from(self.length)]).expect("hex digits are ASCII")
    }
}

impl fmt::Debug for HexText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The two hex digits of each byte.
const HEX_PAIRS: [[u8; 2]; 256] = {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    let mut pairs = [[0; 2]; 256];
    let mut byte = 0;
    while byte < 256 {
        pairs[byte] = [DIGITS[byte >> 4], DIGITS[byte & 0xF]];
        byte += 1;
    }
    pairs
};

/// What each byte is worth as a hex digit of either case; 0xFF when it is none.
const HEX_VALUES: [u8; 256] = {
    let mut values = [0xFF; 256];
    let mut digit = 0;
    while digit < 16 {
        values[b"0123456789ABCDEF"[digit] as usize] = digit as u8;
        values[b"0123456789abcdef"[digit] as usize] = digit as u8;
        digit += 1;
    }
    values
};

/// The bytes of an id: an address of 4 or 16 bytes, and 12 more.
struct HexBytes {
    bytes: [u8; LENGTH_V6 / 2],
    length: usize,
}

impl HexBytes {
    fn parse(text: &str, what: &'static str) -> Result<Self, DecodeError> {
        let text = text.as_bytes();
        if text.len() != LENGTH_V4 && text.len() != LENGTH_V6 {
            return Err(DecodeError::Invalid { what, offset: text.len().min(LENGTH_V6) });
        }
        let mut bytes = [0; LENGTH_V6 / 2];
        let length = text.len() / 2;
        // What is no digit is found once for all: ids come with every answer to a send.
        let mut damage = 0;
        for (byte, pair) in bytes[..length].iter_mut().zip(text.chunks_exact(2)) {
            let (high, low) = (HEX_VALUES[usize::from(pair[0])], HEX_VALUES[usize::from(pair[1])]);
            damage |= high | low;
            *byte = (high << 4) | low;
        }
        if damage > 0xF {
            let offset = text.iter().position(|&digit| HEX_VALUES[usize::from(digit)] > 0xF).unwrap_or(text.len());
            return Err(DecodeError::Invalid { what, offset });
        }
        Ok(HexBytes { bytes, length })
    }

    fn address(&self) -> (IpAddr, &[u8]) {
        if self.length * 2 == LENGTH_V4 {
            let (address, rest) = self.bytes[..self.length].split_at(4);
            (Ipv4Addr::new(address[0], address[1], address[2], address[3]).into(), rest)
        } else {
            let (address, rest) = self.bytes.split_at(16);
            let mut octets = [0; 16];
            octets.copy_from_slice(address);
            (Ipv6Addr::from(octets).into(), rest)
        }
    }
}
