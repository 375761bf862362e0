//! The Bloom filter that Apache's broker names groups by in `consumerFilter.json`, and in the bit maps of queues.

/// How many bits a name sets, and of how many: what Apache's broker comes to for 32 consumers and 20 % of errors
/// (`expectConsumerNumUseFilter`, `maxErrorRateOfBloomFilter`).
const HASHES: u32 = 3;
pub(crate) const BITS: i32 = 112;

/// The bits that a name sets.
pub(crate) fn positions(name: &str) -> [i32; HASHES as usize] {
    let hash = murmur3(name.as_bytes());
    let (low, high) = (hash as i32, (hash >> 32) as i32);
    let mut times = 0;
    [(); HASHES as usize].map(|()| {
        times += 1;
        let combined = low.wrapping_add(high.wrapping_mul(times));
        (if combined < 0 { !combined } else { combined }) % BITS
    })
}

/// The first half of MurmurHash3 of 128 bits (x64) with seed 0.
fn murmur3(bytes: &[u8]) -> u64 {
    const C1: u64 = 0x87C3_7B91_1142_53D5;
    const C2: u64 = 0x4CF5_AD43_2745_937F;
    let mix_1 = |k: u64| k.wrapping_mul(C1).rotate_left(31).wrapping_mul(C2);
    let mix_2 = |k: u64| k.wrapping_mul(C2).rotate_left(33).wrapping_mul(C1);
    let word = |bytes: &[u8]| {
        let mut word = [0; 8];
        word[..bytes.len()].copy_from_slice(bytes);
        u64::from_le_bytes(word)
    };
    let (mut h1, mut h2) = (0_u64, 0_u64);
    let (blocks, tail) = bytes.as_chunks::<16>();
    for block in blocks {
        let (k1, k2) = (word(&block[..8]), word(&block[8..]));
        h1 = (h1 ^ mix_1(k1)).rotate_left(27).wrapping_add(h2).wrapping_mul(5).wrapping_add(0x52DC_E729);
        h2 = (h2 ^ mix_2(k2)).rotate_left(31).wrapping_add(h1).wrapping_mul(5).wrapping_add(0x3849_5AB5);
    }
    let (first, second) = tail.split_at(tail.len().min(8));
    h2 ^= mix_2(word(second));
    h1 ^= mix_1(word(first));
    let length = bytes.len() as u64;
    h1 ^= length;
    h2 ^= length;
    h1 = h1.wrapping_add(h2);
    h2 = h2.wrapping_add(h1);
    finish(h1).wrapping_add(finish(h2))
}

fn finish(mut k: u64) -> u64 {
    for factor in [0xFF51_AFD7_ED55_8CCD, 0xC4CE_B9FE_1A85_EC53] {
        k = (k ^ (k >> 33)).wrapping_mul(factor);
    }
    k ^ (k >> 33)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Computed by Apache's class.
    #[test]
    fn positions_are_those_of_apache() {
        for (name, expected) in [
            ("", [0, 0, 0]),
            ("g#t", [22, 87, 58]),
            ("group#topic", [79, 21, 21]),
            ("CID_ABC#TopicTest", [55, 78, 101]),
            ("消費者#主題", [77, 40, 46]),
            ("a-rather-long-consumer-group-name#a-rather-long-topic-name", [44, 9, 86]),
        ] {
            assert_eq!(positions(name), expected, "{name}");
        }
    }
}
