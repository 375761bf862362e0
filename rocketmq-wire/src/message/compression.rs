//! Body compression in the three formats that Java clients write and read.

use crate::error::{DecodeError, EncodeError};
use crate::message::sys_flag;

/// How a body is compressed.
///
/// Consumers before 4.9.4 know zlib only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Compression {
    /// The zlib container (crate feature `zlib`).
    #[default]
    Zlib,
    /// The LZ4 frame format (crate feature `lz4`).
    Lz4,
    /// A Zstandard stream (crate feature `zstd`).
    Zstd,
}

impl Compression {
    /// The level that Java clients use unless told otherwise.
    pub const DEFAULT_LEVEL: i32 = 5;

    /// Returns the algorithm that a system flag names, `None` if it says the body is plain.
    ///
    /// # Errors
    ///
    /// [`DecodeError::Invalid`] for the type values 4 to 7, which stand for nothing.
    pub fn from_sys_flag(flag: i32) -> Result<Option<Self>, DecodeError> {
        if !sys_flag::is_compressed(flag) {
            return Ok(None);
        }
        match flag & sys_flag::COMPRESSION_MASK {
            0 | sys_flag::COMPRESSION_ZLIB => Ok(Some(Compression::Zlib)),
            sys_flag::COMPRESSION_LZ4 => Ok(Some(Compression::Lz4)),
            sys_flag::COMPRESSION_ZSTD => Ok(Some(Compression::Zstd)),
            _ => Err(DecodeError::Invalid { what: "compression type in the system flag", offset: 0 }),
        }
    }

    /// Returns the bits to set in a system flag: compressed, and the type.
    pub const fn sys_flag_bits(self) -> i32 {
        sys_flag::COMPRESSED
            | match self {
                Compression::Zlib => sys_flag::COMPRESSION_ZLIB,
                Compression::Lz4 => sys_flag::COMPRESSION_LZ4,
                Compression::Zstd => sys_flag::COMPRESSION_ZSTD,
            }
    }

    /// Compresses `body`. Levels beyond the algorithm's range are moved into it; LZ4 has no levels.
    ///
    /// # Errors
    ///
    /// [`EncodeError::Unsupported`] if the algorithm is not part of this build.
    pub fn compress(self, body: &[u8], level: i32) -> Result<Vec<u8>, EncodeError> {
        match self {
            Compression::Zlib => zlib::compress(body, level),
            Compression::Lz4 => lz4::compress(body),
            Compression::Zstd => zstd::compress(body, level),
        }
    }

    /// Decompresses `data` into at most `limit` bytes. Memory in use is bounded by `limit`, whatever `data` announces.
    ///
    /// # Errors
    ///
    /// [`DecodeError::TooLarge`] if the plain body is longer than `limit`, [`DecodeError::Decompress`] if `data` is
    /// damaged or cut short, [`DecodeError::Unsupported`] if the algorithm is not part of this build.
    pub fn decompress(self, data: &[u8], limit: usize) -> Result<Vec<u8>, DecodeError> {
        match self {
            Compression::Zlib => zlib::decompress(data, limit),
            Compression::Lz4 => lz4::decompress(data, limit),
            Compression::Zstd => zstd::decompress(data, limit),
        }
    }
}

#[cfg(feature = "zlib")]
mod zlib {
    use std::io::{Read, Write};

    use flate2::bufread::ZlibDecoder;
    use flate2::write::ZlibEncoder;

    use super::{DecodeError, EncodeError};

    pub(super) fn compress(body: &[u8], level: i32) -> Result<Vec<u8>, EncodeError> {
        let level = flate2::Compression::new(level.clamp(0, 9) as u32);
        let mut encoder = ZlibEncoder::new(Vec::with_capacity(body.len() / 2), level);
        encoder
            .write_all(body)
            .and_then(|()| encoder.finish())
            .map_err(|_| EncodeError::Invalid { what: "the body", why: "zlib could not compress it" })
    }

    pub(super) fn decompress(data: &[u8], limit: usize) -> Result<Vec<u8>, DecodeError> {
        let mut body = Vec::new();
        // Java's inflater takes no input at all for an empty stream.
        if data.is_empty() {
            return Ok(body);
        }
        ZlibDecoder::new(data)
            .take((limit as u64).saturating_add(1))
            .read_to_end(&mut body)
            .map_err(|error| DecodeError::Decompress { algorithm: "zlib", detail: error.to_string() })?;
        if body.len() > limit {
            return Err(DecodeError::TooLarge { what: "the decompressed body", length: body.len(), limit });
        }
        Ok(body)
    }
}

#[cfg(feature = "lz4")]
mod lz4 {
    use super::{DecodeError, EncodeError};
    use crate::message::lz4_frame;

    pub(super) fn compress(body: &[u8]) -> Result<Vec<u8>, EncodeError> {
        Ok(lz4_frame::compress(body))
    }

    pub(super) fn decompress(data: &[u8], limit: usize) -> Result<Vec<u8>, DecodeError> {
        lz4_frame::decompress(data, limit)
    }
}

#[cfg(feature = "zstd")]
mod zstd {
    use std::io::Write;

    use zstd::stream::write::Encoder;
    use zstd::zstd_safe::{self, DCtx};

    use super::{DecodeError, EncodeError};

    /// `ZSTD_error_dstSize_tooSmall`, one of the stable error codes.
    const OUTPUT_TOO_SMALL: usize = 0usize.wrapping_sub(70);
    const FIRST_OUTPUT: usize = 64 * 1024;

    pub(super) fn compress(body: &[u8], level: i32) -> Result<Vec<u8>, EncodeError> {
        let failed = |_| EncodeError::Invalid { what: "the body", why: "Zstandard could not compress it" };
        let level = level.clamp(1, zstd_safe::max_c_level());
        let mut encoder = Encoder::new(Vec::with_capacity(body.len() / 2), level).map_err(failed)?;
        encoder.write_all(body).map_err(failed)?;
        encoder.finish().map_err(failed)
    }

    /// Decompresses in one shot, where the output itself is the window: a stream decoder would reserve whatever
    /// window the first bytes ask for, up to 128 MiB. The output grows until it fits or reaches the limit.
    pub(super) fn decompress(data: &[u8], limit: usize) -> Result<Vec<u8>, DecodeError> {
        let failed = |detail: &str| DecodeError::Decompress { algorithm: "zstd", detail: detail.to_owned() };
        let mut context = DCtx::try_create().ok_or_else(|| failed("no memory for the decoder"))?;
        let mut capacity = FIRST_OUTPUT.max(data.len().saturating_mul(4)).min(limit);
        loop {
            let mut body = Vec::with_capacity(capacity);
            match context.decompress(&mut body, data) {
                Ok(_) => return Ok(body),
                Err(OUTPUT_TOO_SMALL) if capacity < limit => capacity = capacity.saturating_mul(4).min(limit),
                Err(OUTPUT_TOO_SMALL) => {
                    let what = "the decompressed body";
                    return Err(DecodeError::TooLarge { what, length: limit.saturating_add(1), limit });
                }
                Err(code) => return Err(failed(zstd_safe::get_error_name(code))),
            }
        }
    }
}

#[cfg(not(feature = "zlib"))]
mod zlib {
    use super::{DecodeError, EncodeError};

    pub(super) fn compress(_: &[u8], _: i32) -> Result<Vec<u8>, EncodeError> {
        Err(EncodeError::Unsupported("zlib"))
    }

    pub(super) fn decompress(_: &[u8], _: usize) -> Result<Vec<u8>, DecodeError> {
        Err(DecodeError::Unsupported("zlib"))
    }
}

#[cfg(not(feature = "lz4"))]
mod lz4 {
    use super::{DecodeError, EncodeError};

    pub(super) fn compress(_: &[u8]) -> Result<Vec<u8>, EncodeError> {
        Err(EncodeError::Unsupported("lz4"))
    }

    pub(super) fn decompress(_: &[u8], _: usize) -> Result<Vec<u8>, DecodeError> {
        Err(DecodeError::Unsupported("lz4"))
    }
}

#[cfg(not(feature = "zstd"))]
mod zstd {
    use super::{DecodeError, EncodeError};

    pub(super) fn compress(_: &[u8], _: i32) -> Result<Vec<u8>, EncodeError> {
        Err(EncodeError::Unsupported("zstd"))
    }

    pub(super) fn decompress(_: &[u8], _: usize) -> Result<Vec<u8>, DecodeError> {
        Err(DecodeError::Unsupported("zstd"))
    }
}
