//! The body of a registration that was deflated (`compressedRegister=true`): not JSON as a whole, but lengths and texts.
//!
//! Inflated it is `length | data version as JSON | count of topics`, for each topic `length | "name read-queues
//! write-queues perm filter-type"`, then `length | filter servers as JSON`, which nothing uses any more, and since 5.0
//! mappings of static topics. Integers have four bytes, big-endian.

use rocketmq_wire::message::Compression;
use rocketmq_wire::model::{DataVersion, TopicConfig, TopicConfigTable};
use rocketmq_wire::{DecodeError, fastjson};

/// The largest registration that is inflated, in bytes: 100,000 topics of 160 bytes.
const LIMIT: usize = 16 << 20;

/// Inflates and reads a body.
///
/// # Errors
///
/// A body that is not of that form, or inflates to more than 16 MiB.
pub(super) fn read(body: &[u8]) -> Result<TopicConfigTable, DecodeError> {
    let plain = Compression::Zlib.decompress(body, LIMIT)?;
    let mut reader = Reader { bytes: &plain, at: 0 };
    let data_version: DataVersion = fastjson::from_slice("data version", reader.text()?.as_bytes())?;
    let count = reader.length()?;
    let mut table = TopicConfigTable { data_version, ..TopicConfigTable::default() };
    for _ in 0..count {
        let offset = reader.at;
        let topic = topic(reader.text()?).ok_or(DecodeError::Invalid { what: "topic of a registration", offset })?;
        table.topic_config_table.insert(topic.topic_name.clone(), topic);
    }
    Ok(table)
}

fn topic(text: &str) -> Option<TopicConfig> {
    let mut words = text.split(' ');
    let topic_name = words.next().filter(|name| !name.is_empty())?.to_owned();
    let mut number = || words.next()?.parse().ok();
    let (read_queue_nums, write_queue_nums, perm) = (number()?, number()?, number()?);
    let topic_filter_type = words.next()?.to_owned();
    Some(TopicConfig {
        topic_name,
        read_queue_nums,
        write_queue_nums,
        perm,
        topic_filter_type,
        ..TopicConfig::default()
    })
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    fn length(&mut self) -> Result<usize, DecodeError> {
        let offset = self.at;
        let truncated =
            DecodeError::Truncated { what: "registration", offset, needed: 4, available: self.rest().len() };
        let bytes = *self.rest().first_chunk::<4>().ok_or(truncated)?;
        self.at += 4;
        let what = "length in a registration";
        usize::try_from(i32::from_be_bytes(bytes)).map_err(|_| DecodeError::Invalid { what, offset })
    }

    fn text(&mut self) -> Result<&'a str, DecodeError> {
        let needed = self.length()?;
        let (offset, available) = (self.at, self.rest().len());
        let what = "registration";
        let text = self.rest().get(..needed).ok_or(DecodeError::Truncated { what, offset, needed, available })?;
        self.at += needed;
        std::str::from_utf8(text).map_err(|_| DecodeError::NotUtf8 { what, offset })
    }

    fn rest(&self) -> &'a [u8] {
        &self.bytes[self.at..]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn deflated(plain: &[u8]) -> Vec<u8> {
        Compression::Zlib.compress(plain, 5).unwrap()
    }

    fn plain() -> Vec<u8> {
        let mut plain = Vec::new();
        let put = |plain: &mut Vec<u8>, text: &str| {
            plain.extend_from_slice(&(text.len() as u32).to_be_bytes());
            plain.extend_from_slice(text.as_bytes());
        };
        put(&mut plain, r#"{"counter":25,"timestamp":7}"#);
        plain.extend_from_slice(&2u32.to_be_bytes());
        put(&mut plain, "orders 4 8 6 SINGLE_TAG");
        put(&mut plain, "paid 1 1 2 SINGLE_TAG {}");
        plain
    }

    #[test]
    fn topics_are_read() {
        let table = read(&deflated(&plain())).unwrap();
        assert_eq!((table.data_version.counter, table.topic_config_table.len()), (25, 2));
        let orders = &table.topic_config_table["orders"];
        assert_eq!((orders.read_queue_nums, orders.write_queue_nums, orders.perm), (4, 8, 6));
    }

    #[test]
    fn what_is_cut_short_is_refused() {
        let plain = plain();
        for end in 0..plain.len() {
            assert!(read(&deflated(&plain[..end])).is_err(), "{end}");
        }
        assert!(read(b"not deflated").is_err());
    }
}
