//! The LZ4 frame format around `lz4_flex`'s block codec.
//!
//! `lz4_flex` has a frame reader of its own, but it takes a frame cut between two blocks for a whole one, and clears
//! 4 MiB for every frame that Java writes, however small. Here the output grows with the content.
//!
//! A frame is its magic number, a descriptor (flags, block size, optional content size, header checksum), blocks with
//! their lengths, and an end mark. Integers are little-endian.

use lz4_flex::block::{self, DecompressError, decompress_into};
use twox_hash::XxHash32;

use crate::error::DecodeError;

const MAGIC: u32 = 0x184D_2204;
const SKIPPABLE_MAGIC: u32 = 0x184D_2A50;
/// The lowest four bits of a skippable frame's magic number are free.
const SKIPPABLE_MASK: u32 = 0xFFFF_FFF0;

/// What Java's `LZ4FrameOutputStream` writes: version 1, independent blocks of 4 MiB, no size, no checksums.
const JAVA_HEADER: [u8; 7] = [0x04, 0x22, 0x4D, 0x18, 0x60, 0x70, 0x73];
const JAVA_BLOCK_SIZE: usize = 4 << 20;

const VERSION_MASK: u8 = 0xC0;
const VERSION: u8 = 0x40;
const INDEPENDENT_BLOCKS: u8 = 0x20;
const BLOCK_CHECKSUMS: u8 = 0x10;
const CONTENT_SIZE: u8 = 0x08;
const CONTENT_CHECKSUM: u8 = 0x04;
const DICTIONARY: u8 = 0x01;

const STORED_BLOCK: u32 = 1 << 31;

/// Writes `body` as one frame.
pub(super) fn compress(body: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(JAVA_HEADER.len() + body.len() / 2 + 8);
    out.extend_from_slice(&JAVA_HEADER);
    for chunk in body.chunks(JAVA_BLOCK_SIZE) {
        let compressed = block::compress(chunk);
        if compressed.len() < chunk.len() {
            out.extend_from_slice(&(compressed.len() as u32).to_le_bytes());
            out.extend_from_slice(&compressed);
        } else {
            out.extend_from_slice(&(chunk.len() as u32 | STORED_BLOCK).to_le_bytes());
            out.extend_from_slice(chunk);
        }
    }
    out.extend_from_slice(&0u32.to_le_bytes());
    out
}

/// Reads frames up to the end of `data`, into at most `limit` bytes.
pub(super) fn decompress(data: &[u8], limit: usize) -> Result<Vec<u8>, DecodeError> {
    let mut reader = Reader { rest: data };
    let mut body = Vec::new();
    loop {
        match reader.u32()? {
            MAGIC => reader.frame(&mut body, limit)?,
            magic if magic & SKIPPABLE_MASK == SKIPPABLE_MAGIC => {
                let length = reader.u32()?;
                reader.take(length as usize)?;
            }
            _ => return Err(damaged("there is no frame")),
        }
        if reader.rest.is_empty() {
            return Ok(body);
        }
    }
}

fn damaged(detail: &str) -> DecodeError {
    DecodeError::Decompress { algorithm: "lz4", detail: detail.to_owned() }
}

struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    fn take(&mut self, length: usize) -> Result<&'a [u8], DecodeError> {
        let (head, rest) = self.rest.split_at_checked(length).ok_or_else(|| damaged("the frame is cut short"))?;
        self.rest = rest;
        Ok(head)
    }

    fn u32(&mut self) -> Result<u32, DecodeError> {
        let mut bytes = [0; 4];
        bytes.copy_from_slice(self.take(4)?);
        Ok(u32::from_le_bytes(bytes))
    }

    fn checksum(&mut self, what: &str, of: &[u8]) -> Result<(), DecodeError> {
        if self.u32()? == XxHash32::oneshot(0, of) { Ok(()) } else { Err(damaged(what)) }
    }

    /// Reads what follows the magic number.
    fn frame(&mut self, body: &mut Vec<u8>, limit: usize) -> Result<(), DecodeError> {
        let descriptor = self.rest;
        let (flags, block_size) = (self.take(1)?[0], self.take(1)?[0]);
        if flags & VERSION_MASK != VERSION || flags & INDEPENDENT_BLOCKS == 0 || flags & DICTIONARY != 0 {
            return Err(damaged("the frame is of a kind that is not used for messages"));
        }
        let max_block = match block_size >> 4 {
            code @ 4..=7 => 1usize << (8 + 2 * code),
            _ => return Err(damaged("the frame's block size is unknown")),
        };
        let content_size =
            if flags & CONTENT_SIZE == 0 { None } else { Some(u64::from(self.u32()?) | u64::from(self.u32()?) << 32) };
        let descriptor = &descriptor[..descriptor.len() - self.rest.len()];
        if self.take(1)?[0] != (XxHash32::oneshot(0, descriptor) >> 8) as u8 {
            return Err(damaged("the frame header's checksum is wrong"));
        }

        let start = body.len();
        loop {
            let length = self.u32()?;
            if length == 0 {
                break;
            }
            let block = self.take((length & !STORED_BLOCK) as usize)?;
            if block.len() > max_block {
                return Err(damaged("a block is too big"));
            }
            if length & STORED_BLOCK == 0 {
                append_block(body, block, max_block, limit)?;
            } else if block.len() > limit - body.len() {
                return Err(too_large(limit));
            } else {
                body.extend_from_slice(block);
            }
            if flags & BLOCK_CHECKSUMS != 0 {
                self.checksum("a block's checksum is wrong", block)?;
            }
        }
        let content = &body[start..];
        if content_size.is_some_and(|size| size != content.len() as u64) {
            return Err(damaged("the content is not as long as the frame says"));
        }
        if flags & CONTENT_CHECKSUM != 0 {
            self.checksum("the content's checksum is wrong", content)?;
        }
        Ok(())
    }
}

/// Decompresses one block to the end of `body`, in room that grows until it holds the block or reaches its bound.
fn append_block(body: &mut Vec<u8>, block: &[u8], max_block: usize, limit: usize) -> Result<(), DecodeError> {
    let start = body.len();
    let bound = max_block.min(limit - start);
    let mut room = (4 * block.len()).max(256).min(bound);
    loop {
        body.resize(start + room, 0);
        match decompress_into(block, &mut body[start..]) {
            Ok(length) => {
                body.truncate(start + length);
                return Ok(());
            }
            Err(DecompressError::OutputTooSmall { .. }) if room < bound => room = (4 * room).min(bound),
            Err(DecompressError::OutputTooSmall { .. }) if bound < max_block => return Err(too_large(limit)),
            Err(error) => return Err(damaged(&error.to_string())),
        }
    }
}

fn too_large(limit: usize) -> DecodeError {
    DecodeError::TooLarge { what: "the decompressed body", length: limit.saturating_add(1), limit }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The frame that the reference tool (1.9.4) makes of [`plain`] with block checksum, content size and checksum.
    const WITH_ALL: &str = "04224d187c405800000000000000bf21000000ff0773746f72656420616e6420636f6d70726573736564201600\
                            2a507373656420a1a326a4000000003eddfdea";
    const WITHOUT_CHECKSUMS: &str = "04224d1860408221000000ff0773746f72656420616e6420636f6d7072657373656420160\
                                     02a50737365642000000000";
    fn plain() -> Vec<u8> {
        b"stored and compressed ".repeat(4)
    }

    fn bytes(hex: &str) -> Vec<u8> {
        (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
    }

    #[test]
    fn frames_of_the_reference_tool_are_read() {
        assert_eq!(decompress(&bytes(WITH_ALL), 88), Ok(plain()));
        assert_eq!(decompress(&bytes(WITHOUT_CHECKSUMS), 88), Ok(plain()));
    }

    #[test]
    fn whatever_is_wrong_is_noticed() {
        let whole = bytes(WITH_ALL);
        for end in 0..whole.len() {
            assert!(decompress(&whole[..end], 1 << 20).is_err(), "cut to {end}");
        }
        for at in 0..whole.len() {
            let mut damaged = whole.clone();
            damaged[at] ^= 1;
            assert!(decompress(&damaged, 1 << 20).is_err(), "byte {at}");
        }
        assert!(matches!(decompress(&whole, 87), Err(DecodeError::TooLarge { limit: 87, .. })));
    }

    #[test]
    fn frames_follow_each_other_and_may_be_skipped() {
        let mut frames = compress(b"a");
        frames.extend_from_slice(&[0x5F, 0x2A, 0x4D, 0x18, 3, 0, 0, 0, 1, 2, 3]);
        frames.extend_from_slice(&compress(b"b"));
        assert_eq!(decompress(&frames, 2), Ok(b"ab".to_vec()));
        frames.push(0);
        assert!(decompress(&frames, 2).is_err(), "something else follows");
    }

    #[test]
    fn bodies_longer_than_a_block_are_split() {
        let body = b"0123456789".repeat(JAVA_BLOCK_SIZE / 10 + 1);
        let frame = compress(&body);
        assert!(frame.len() < body.len());
        assert_eq!(decompress(&frame, body.len()), Ok(body));
    }
}
