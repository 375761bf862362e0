//! Java's string hash, by which brokers filter tags and index keys.

/// Returns what Java's `String.hashCode` gives for `text`: `h = 31 * h + unit` over its UTF-16 code units, wrapping.
///
/// The empty text has hash 0, which is also the tags code of a message without a tag.
pub fn tag_hash(text: &str) -> i32 {
    continue_hash(0, text)
}

/// Returns the hash of a text that begins with one of hash `start` and goes on with `text`.
pub fn continue_hash(start: i32, text: &str) -> i32 {
    let step = |hash: i32, unit: u16| hash.wrapping_mul(31).wrapping_add(i32::from(unit));
    if text.is_ascii() {
        text.bytes().fold(start, |hash, byte| step(hash, u16::from(byte)))
    } else {
        text.encode_utf16().fold(start, step)
    }
}

#[cfg(test)]
mod tests {
    use super::{continue_hash, tag_hash};

    #[test]
    fn equals_the_java_string_hash() {
        for (text, hash) in [
            ("", 0),
            ("a", 97),
            ("TagA", 2_598_919),
            ("TagB", 2_598_920),
            ("TagC", 2_598_921),
            ("order", 106_006_350),
            ("中文标签", 622_041_809),
            ("Aa", 2112),
            ("BB", 2112),
            ("😀", 1_772_899),
            ("polygenelubricants", i32::MIN),
        ] {
            assert_eq!(tag_hash(text), hash, "{text}");
        }
    }

    #[test]
    fn a_hash_can_be_continued() {
        assert_eq!(continue_hash(tag_hash("order"), "s#中文"), tag_hash("orders#中文"));
    }
}
