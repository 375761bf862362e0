//! From the body of a pull answer to messages.

use std::sync::Arc;

use bytes::Bytes;
use rocketmq_wire::DecodeError;
use rocketmq_wire::message::{Record, StoredMessage, batch, sys_flag};
use rocketmq_wire::request::pull::PullMessageResponse;

use super::message_view::{MessageView, Origin};
use super::subscription::Subscription;

/// The smallest number that can be the size of a record.
const LEAST_RECORD: usize = 8;

/// What an answer holds.
///
/// A record that cannot be read, but whose size can, is passed over: no other consumer could read it either, and it would
/// hold up the queue for ever. When even the size makes no sense, the rest of the answer counts as not received, and is
/// pulled again from after the last record that could be read.
#[derive(Debug, Default)]
pub(super) struct Received {
    /// The messages wanted, with their offsets in the queue.
    pub(super) messages: Vec<(i64, MessageView)>,
    /// Messages with a tag that is not subscribed to.
    pub(super) filtered: usize,
    /// Records that could not be read, and why the first of them.
    pub(super) unreadable: usize,
    pub(super) failure: Option<DecodeError>,
    /// Whether the rest of the answer could not be read.
    pub(super) is_cut: bool,
    /// Where the next pull has to begin.
    pub(super) next: i64,
}

/// A filter of the user's own.
pub(super) type UserFilter = dyn Fn(&MessageView) -> bool + Send + Sync;

#[derive(Clone, Copy)]
struct Wanted<'a> {
    subscription: &'a Subscription,
    filter: Option<&'a UserFilter>,
}

/// Reads the answer to a pull from `position` on.
pub(super) fn read(
    mut body: Bytes,
    header: &PullMessageResponse,
    position: i64,
    subscription: &Subscription,
    filter: Option<&UserFilter>,
    origin: &Arc<Origin>,
) -> Received {
    let wanted = Wanted { subscription, filter };
    let shift = header.offset_delta.unwrap_or(0);
    let mut received = Received { next: position, ..Default::default() };
    while !body.is_empty() {
        let Some(size) = size_of_first(&body) else {
            received.is_cut = true;
            received.fail(DecodeError::Invalid { what: "record size", offset: 0 });
            return received;
        };
        match StoredMessage::parse(body.split_to(size)) {
            Ok((stored, _)) if sys_flag::is_inner_batch(stored.sys_flag()) => {
                received.unwrap(&stored, shift, wanted, origin);
            }
            Ok((stored, _)) => received.add(stored, shift, wanted, origin),
            Err(error) => {
                received.unreadable += 1;
                received.fail(error);
            }
        }
    }
    received.next = header.next_begin_offset;
    received
}

fn size_of_first(body: &[u8]) -> Option<usize> {
    let size = i32::from_be_bytes(*body.first_chunk()?);
    usize::try_from(size).ok().filter(|size| (LEAST_RECORD..=body.len()).contains(size))
}

impl Received {
    fn add(&mut self, stored: StoredMessage, shift: i64, wanted: Wanted<'_>, origin: &Arc<Origin>) {
        let offset = stored.queue_offset().saturating_add(shift);
        self.next = offset.saturating_add(1);
        let tags_fit = wanted.subscription.wants_all_tags() || wanted.subscription.wants(stored.tags());
        let message = tags_fit.then(|| MessageView::new(stored, Arc::clone(origin)));
        match message.filter(|message| wanted.filter.is_none_or(|filter| filter(message))) {
            Some(message) => self.messages.push((offset, message)),
            None => self.filtered += 1,
        }
    }

    /// Takes the messages out of a record that holds several (brokers since 5.0, topics with batch queues).
    fn unwrap(&mut self, outer: &StoredMessage, shift: i64, wanted: Wanted<'_>, origin: &Arc<Origin>) {
        for (index, element) in batch::elements(&outer.body()).enumerate() {
            let stored = element.and_then(|element| {
                let view = outer.view();
                let record = Record {
                    version: view.version(),
                    queue_id: outer.queue_id(),
                    flag: element.flag,
                    queue_offset: outer.queue_offset().saturating_add(index as i64),
                    physical_offset: outer.physical_offset(),
                    sys_flag: outer.sys_flag() & !(sys_flag::NEED_UNWRAP | sys_flag::INNER_BATCH),
                    born_timestamp: outer.born_timestamp(),
                    born_host: outer.born_host(),
                    store_timestamp: outer.store_timestamp(),
                    store_host: outer.store_host(),
                    reconsume_times: 0,
                    prepared_transaction_offset: outer.prepared_transaction_offset(),
                    body: element.body,
                    topic: outer.topic(),
                    properties: element.properties,
                };
                let what = "message of a batch";
                // Its parts came out of a record with the same topic, so they fit; an error would be a bad batch.
                let mut bytes = vec![0; record.encoded_len().map_err(|_| DecodeError::Invalid { what, offset: 0 })?];
                record.encode(&mut bytes).map_err(|_| DecodeError::Invalid { what, offset: 0 })?;
                Ok(StoredMessage::parse(bytes.into())?.0)
            });
            match stored {
                Ok(stored) => self.add(stored, shift, wanted, origin),
                Err(error) => {
                    self.unreadable += 1;
                    self.fail(error);
                }
            }
        }
    }

    fn fail(&mut self, error: DecodeError) {
        self.failure.get_or_insert(error);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rocketmq_wire::message::BatchElement;

    use super::super::subscription::subscriptions;
    use super::*;
    use crate::message::MessageQueue;

    fn record(queue_offset: i64, sys_flag: i32, body: &[u8], properties: &[u8]) -> Vec<u8> {
        let host = "10.0.0.1:10911".parse().expect("an address");
        let record = Record {
            version: Default::default(),
            queue_id: 0,
            flag: 0,
            queue_offset,
            physical_offset: 4242,
            sys_flag,
            born_timestamp: 1,
            born_host: host,
            store_timestamp: 2,
            store_host: host,
            reconsume_times: 0,
            prepared_transaction_offset: 0,
            body,
            topic: "t",
            properties,
        };
        let mut bytes = vec![0; record.encoded_len().expect("small")];
        record.encode(&mut bytes).expect("there is room");
        bytes
    }

    fn read_all(body: Vec<u8>, position: i64, next: i64, delta: Option<i64>) -> Received {
        let subscriptions = subscriptions("g", &[("t".to_owned(), "a || b".into())], true, 1).expect("valid");
        let origin = Arc::new(Origin::new(MessageQueue::new("t", "b", 0), false, Default::default()));
        let header = PullMessageResponse { next_begin_offset: next, offset_delta: delta, ..Default::default() };
        read(body.into(), &header, position, &subscriptions["t"], None, &origin)
    }

    fn offsets(received: &Received) -> Vec<i64> {
        received.messages.iter().map(|(offset, _)| *offset).collect()
    }

    #[test]
    fn a_record_with_several_messages_is_taken_apart() {
        let mut batch = Vec::new();
        for (body, tag) in [(&b"one"[..], "a"), (b"two", "c"), (b"three", "b")] {
            let properties = format!("TAGS\u{1}{tag}\u{2}");
            let element = BatchElement { flag: 5, body, properties: properties.as_bytes() };
            element.encode(&mut batch).expect("small");
        }
        let body = record(10, sys_flag::NEED_UNWRAP | sys_flag::INNER_BATCH, &batch, b"INNER_NUM\x013\x02");
        let received = read_all(body, 10, 13, None);
        assert_eq!((offsets(&received), received.filtered, received.next), (vec![10, 12], 1, 13));
        let (_, last) = &received.messages[1];
        assert_eq!((&last.body()[..], last.flag(), last.tag()), (&b"three"[..], 5, Some("b")));

        // Cut within the second.
        let body = record(10, sys_flag::NEED_UNWRAP | sys_flag::INNER_BATCH, &batch[..40], b"");
        let received = read_all(body, 10, 13, None);
        assert_eq!((offsets(&received), received.unreadable, received.is_cut), (vec![10], 1, false));
    }

    #[test]
    fn offsets_of_static_topics_are_shifted() {
        let body = [record(0, 0, b"x", b"TAGS\x01a\x02"), record(1, 0, b"x", b"TAGS\x01b\x02")].concat();
        assert_eq!(offsets(&read_all(body, 100, 102, Some(100))), [100, 101]);
    }

    #[test]
    fn an_answer_cut_anywhere_loses_nothing_before_the_cut() {
        let records: Vec<_> = (0..3).map(|offset| record(offset, 0, b"body", b"TAGS\x01a\x02")).collect();
        let (size, body) = (records[0].len(), records.concat());
        for length in 0..body.len() {
            let received = read_all(body[..length].to_vec(), 0, 3, None);
            let whole = length / size;
            assert_eq!(received.messages.len(), whole, "of {length} bytes");
            assert_eq!(received.is_cut, length % size != 0);
            assert_eq!(received.next, if received.is_cut { whole as i64 } else { 3 });
        }
    }

    proptest! {
        #[test]
        fn a_flipped_byte_costs_one_message_or_is_pulled_again(at in 0usize..360, bits in 1u8..) {
            let records: Vec<_> = (0..3).map(|offset| record(offset, 0, b"body", b"TAGS\x01a\x02")).collect();
            let mut body = records.concat();
            let at = at % body.len();
            body[at] ^= bits;
            let received = read_all(body, 0, 3, None);
            let broken = (at / records[0].len()) as i64;
            for offset in 0..3 {
                let is_lost = !offsets(&received).contains(&offset) && offset < received.next;
                prop_assert!(!is_lost || offset == broken || at % records[0].len() < 4, "{offset} is lost");
            }
        }
    }
}
