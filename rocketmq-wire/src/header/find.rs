//! Finds the bytes that matter in text, eight at a time.

const ONES: u64 = 0x0101_0101_0101_0101;
const HIGH_BITS: u64 = 0x8080_8080_8080_8080;

/// The high bit of each byte of `word` that equals `byte`; bits above the lowest such one may be wrong.
#[inline]
const fn equal(word: u64, byte: u8) -> u64 {
    let difference = word ^ (ONES * byte as u64);
    difference.wrapping_sub(ONES) & !difference & HIGH_BITS
}

/// The high bit of each byte of `word` below `limit`, which is at most 0x80; bits above the lowest such one may be wrong.
#[inline]
const fn below(word: u64, limit: u8) -> u64 {
    word.wrapping_sub(ONES * limit as u64) & !word & HIGH_BITS
}

/// The position of the first byte at or after `from` that `in_word` marks or `in_byte` accepts; the length of `bytes`
/// when there is none.
#[inline]
fn find(bytes: &[u8], from: usize, in_word: impl Fn(u64) -> u64, in_byte: impl Fn(u8) -> bool) -> usize {
    let mut at = from;
    while let Some(chunk) = bytes.get(at..).and_then(|rest| rest.first_chunk::<8>()) {
        let marks = in_word(u64::from_le_bytes(*chunk));
        if marks != 0 {
            return at + marks.trailing_zeros() as usize / 8;
        }
        at += 8;
    }
    let rest = bytes.get(at..).unwrap_or_default();
    at.min(bytes.len()) + rest.iter().position(|&byte| in_byte(byte)).unwrap_or(rest.len())
}

/// The first quote or backslash at or after `from`, or the end.
#[inline]
pub(super) fn quote_or_backslash(bytes: &[u8], from: usize) -> usize {
    find(bytes, from, |word| equal(word, b'"') | equal(word, b'\\'), |byte| matches!(byte, b'"' | b'\\'))
}

/// The first byte at or after `from` that a JSON string may not hold as it is or that may begin such a character:
/// controls, quote, backslash, DEL, and everything beyond ASCII. Or the end.
#[inline]
pub(super) fn not_plain(bytes: &[u8], from: usize) -> usize {
    find(
        bytes,
        from,
        |word| below(word, 0x20) | equal(word, b'"') | equal(word, b'\\') | equal(word, 0x7F) | (word & HIGH_BITS),
        |byte| !matches!(byte, 0x20..0x7F) || matches!(byte, b'"' | b'\\'),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn finds_what_a_plain_search_finds(
            bytes in proptest::collection::vec(prop_oneof![any::<u8>(), 0x1E..0x24_u8, Just(b'\\'), 0x7D..0x82_u8], 0..40),
            from in 0_usize..48,
        ) {
            let search = |accept: &dyn Fn(u8) -> bool| {
                (from..bytes.len()).find(|&at| accept(bytes[at])).unwrap_or(bytes.len())
            };
            prop_assert_eq!(quote_or_backslash(&bytes, from), search(&|byte| byte == b'"' || byte == b'\\'));
            prop_assert_eq!(
                not_plain(&bytes, from),
                search(&|byte| !(0x20..0x7F).contains(&byte) || byte == b'"' || byte == b'\\')
            );
        }

        #[test]
        fn finds_in_plain_text(text in "[ -~]{0,60}") {
            let plain = text.replace(['"', '\\'], "x");
            prop_assert_eq!(not_plain(plain.as_bytes(), 0), plain.len());
            prop_assert_eq!(quote_or_backslash(plain.as_bytes(), 0), plain.len());
        }
    }
}
