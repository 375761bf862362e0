//! The records of message trace, as RocketMQ's tools read them.
//!
//! A record is its fields with 0x01 between them and 0x02 at the end. Records of one topic travel together, as the body of
//! a message that can be found by the ids and keys of the messages traced.

use std::fmt::Display;

/// Kinds of message in a trace, by their numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MessageType {
    Normal = 0,
    Half = 1,
    Commit = 2,
    Delay = 3,
}

const BETWEEN_FIELDS: char = '\u{1}';
const END: char = '\u{2}';

/// One record, and what it can be found by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Trace {
    /// The topic of the message traced.
    pub(crate) topic: String,
    /// The message's id and keys, separated by blanks.
    pub(crate) keys: String,
    pub(crate) record: String,
}

/// What is known of a message that is traced.
#[derive(Debug, Clone)]
pub(crate) struct Subject<'a> {
    pub(crate) timestamp_ms: i64,
    pub(crate) region: &'a str,
    pub(crate) group: &'a str,
    pub(crate) topic: &'a str,
    pub(crate) message_id: &'a str,
    pub(crate) tags: &'a str,
    pub(crate) keys: &'a str,
    /// The address of the broker.
    pub(crate) store_host: &'a str,
    pub(crate) message_type: MessageType,
}

impl Trace {
    /// A message that a broker took.
    pub(crate) fn published(of: &Subject<'_>, body_bytes: usize, cost_ms: u128, offset_message_id: &str) -> Self {
        let fields: [&dyn Display; 14] = [
            &"Pub",
            &of.timestamp_ms,
            &of.region,
            &of.group,
            &of.topic,
            &of.message_id,
            &of.tags,
            &of.keys,
            &of.store_host,
            &body_bytes,
            &cost_ms,
            &(of.message_type as i32),
            &offset_message_id,
            &true,
        ];
        Self::new(of, &fields)
    }

    /// A transaction that has ended: in which state, and whether a broker had to ask.
    pub(crate) fn transaction_ended(of: &Subject<'_>, transaction_id: &str, state: &str, from_check: bool) -> Self {
        let fields: [&dyn Display; 13] = [
            &"EndTransaction",
            &of.timestamp_ms,
            &of.region,
            &of.group,
            &of.topic,
            &of.message_id,
            &of.tags,
            &of.keys,
            &of.store_host,
            &(of.message_type as i32),
            &transaction_id,
            &state,
            &from_check,
        ];
        Self::new(of, &fields)
    }

    fn new(of: &Subject<'_>, fields: &[&dyn Display]) -> Self {
        let mut record = String::with_capacity(256);
        for (index, field) in fields.iter().enumerate() {
            if index > 0 {
                record.push(BETWEEN_FIELDS);
            }
            record.push_str(&field.to_string());
        }
        record.push(END);
        let keys = if of.keys.is_empty() { of.message_id.to_owned() } else { [of.message_id, " ", of.keys].concat() };
        Self { topic: of.topic.to_owned(), keys, record }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_what_tools_read() {
        let of = Subject {
            timestamp_ms: 1_700_000_000_000,
            region: "DefaultRegion",
            group: "g",
            topic: "t",
            message_id: "ID",
            tags: "tag",
            keys: "k1 k2",
            store_host: "10.0.0.1:10911",
            message_type: MessageType::Half,
        };
        let trace = Trace::published(&of, 5, 3, "OFFSET");
        assert_eq!(
            trace.record,
            "Pub\u{1}1700000000000\u{1}DefaultRegion\u{1}g\u{1}t\u{1}ID\u{1}tag\u{1}k1 k2\u{1}10.0.0.1:10911\u{1}5\u{1}3\
             \u{1}1\u{1}OFFSET\u{1}true\u{2}"
        );
        assert_eq!((trace.topic.as_str(), trace.keys.as_str()), ("t", "ID k1 k2"));
        let bare = Subject { tags: "", keys: "", message_type: MessageType::Commit, ..of };
        let trace = Trace::transaction_ended(&bare, "TX", "COMMIT_MESSAGE", true);
        assert_eq!(
            trace.record,
            "EndTransaction\u{1}1700000000000\u{1}DefaultRegion\u{1}g\u{1}t\u{1}ID\u{1}\u{1}\u{1}10.0.0.1:10911\u{1}2\u{1}TX\
             \u{1}COMMIT_MESSAGE\u{1}true\u{2}"
        );
        assert_eq!(trace.keys, "ID");
    }
}
