//! Where a queue begins that is read for the first time.

use std::time::SystemTime;

/// Where a group begins in a queue for which it has stored no offset yet.
///
/// A group that has stored one always goes on there. Retry topics always begin at their start, so that nothing handed
/// back is passed over.
///
/// A broker that still has a queue's very first messages in memory answers 0 to a group it does not know, so a new
/// group reads a young topic from its start whatever this says (a rule of Apache's brokers).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ConsumeFrom {
    /// At the end: only messages stored from now on.
    #[default]
    Last,
    /// At the oldest message that the broker still has.
    First,
    /// At the first message stored at this time or later.
    Timestamp(SystemTime),
}

/// What decides on the first offset of a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StartOffset {
    /// It is known.
    At(i64),
    /// The smallest offset of the queue.
    Smallest,
    /// The end of the queue.
    End,
    /// The offset of a time, in milliseconds since 1970.
    OfTime(i64),
}

impl StartOffset {
    /// Decides by what the broker has stored for the group: `None` only if it answered that there is nothing. An
    /// error is no such answer and must not come here, or the group would jump.
    pub(crate) fn choose(stored: Option<i64>, from: ConsumeFrom, is_retry_topic: bool) -> Self {
        match (stored, from) {
            // Older brokers say -1 for an offset that they do not have.
            (Some(offset), _) if offset >= 0 => Self::At(offset),
            _ if is_retry_topic => Self::Smallest,
            (_, ConsumeFrom::First) => Self::Smallest,
            (_, ConsumeFrom::Last) => Self::End,
            (_, ConsumeFrom::Timestamp(time)) => Self::OfTime(milliseconds(time)),
        }
    }
}

fn milliseconds(time: SystemTime) -> i64 {
    let since_1970 = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since_1970.as_millis()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_stored_offset_wins_and_retry_topics_begin_at_their_start() {
        let time = ConsumeFrom::Timestamp(SystemTime::UNIX_EPOCH + Duration::from_millis(1_700_000_000_123));
        for (stored, from, is_retry_topic, expected) in [
            (Some(5), ConsumeFrom::First, false, StartOffset::At(5)),
            (Some(0), ConsumeFrom::Last, true, StartOffset::At(0)),
            (Some(-1), ConsumeFrom::Last, false, StartOffset::End),
            (None, ConsumeFrom::Last, false, StartOffset::End),
            (None, ConsumeFrom::First, false, StartOffset::Smallest),
            (None, time, false, StartOffset::OfTime(1_700_000_000_123)),
            (None, ConsumeFrom::Last, true, StartOffset::Smallest),
            (None, time, true, StartOffset::Smallest),
        ] {
            assert_eq!(StartOffset::choose(stored, from, is_retry_topic), expected);
        }
    }
}
