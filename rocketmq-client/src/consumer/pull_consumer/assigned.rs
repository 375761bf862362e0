//! One queue that a pull consumer reads, without its task. Pure.

use std::collections::VecDeque;

use crate::consumer::message_view::MessageView;

/// What is known of a queue: what lies ready, what was returned, what may be committed.
#[derive(Debug, Default)]
pub(super) struct AssignedQueue {
    /// Counts seeks: what a pull brings that began before one is thrown away.
    epoch: u64,
    /// Where the next pull begins; unknown until the committed offset is.
    next_pull: Option<i64>,
    ready: VecDeque<(i64, MessageView)>,
    /// The offset after the last message returned.
    position: Option<i64>,
    /// What may be committed: the position when poll was last called, or what the user said.
    handled: Option<i64>,
    committed: Option<i64>,
    paused: bool,
}

impl AssignedQueue {
    pub(super) fn epoch(&self) -> u64 {
        self.epoch
    }

    pub(super) fn next_pull(&self) -> Option<i64> {
        self.next_pull
    }

    pub(super) fn position(&self) -> Option<i64> {
        self.position
    }

    pub(super) fn is_paused(&self) -> bool {
        self.paused
    }

    pub(super) fn pause(&mut self, paused: bool) {
        self.paused = paused;
    }

    /// Whether there is room for another answer.
    pub(super) fn has_room(&self, limit: usize) -> bool {
        !self.paused && self.ready.len() < limit
    }

    pub(super) fn has_ready(&self) -> bool {
        !self.paused && !self.ready.is_empty()
    }

    /// The committed offset is known, or where a new group begins. Nothing if it was sought meanwhile.
    pub(super) fn begin(&mut self, epoch: u64, offset: i64, is_committed: bool) {
        if epoch == self.epoch {
            self.next_pull = Some(offset);
            self.position = Some(offset);
            self.committed = is_committed.then_some(offset);
        }
    }

    /// Goes elsewhere: what lies ready is dropped. What was returned before may be committed no more.
    pub(super) fn seek(&mut self, offset: i64) {
        self.epoch += 1;
        self.ready.clear();
        self.next_pull = Some(offset);
        self.position = Some(offset);
        self.handled = Some(offset);
    }

    /// Takes in what a pull brought that began in `epoch`. Returns whether it counts.
    pub(super) fn insert(&mut self, epoch: u64, messages: Vec<MessageView>, next: i64) -> bool {
        if epoch != self.epoch {
            return false;
        }
        self.ready.extend(messages.into_iter().map(|message| (message.queue_offset(), message)));
        self.next_pull = Some(next);
        if self.ready.is_empty() {
            // Nothing before is for this consumer.
            self.position = self.position.map(|position| position.max(next));
        }
        true
    }

    /// Takes at most `max` messages to return.
    pub(super) fn take(&mut self, max: usize) -> Vec<MessageView> {
        let count = max.min(self.ready.len());
        let taken: Vec<_> = self.ready.drain(..count).collect();
        if let Some((last, _)) = taken.last() {
            let next = last + 1;
            // Behind the last one that was received lies what was filtered out.
            self.position = Some(if self.ready.is_empty() { self.next_pull.unwrap_or(next).max(next) } else { next });
        }
        taken.into_iter().map(|(_, message)| message).collect()
    }

    /// All that was returned counts as handled.
    pub(super) fn handle_all(&mut self) {
        if self.position.is_some() {
            self.handled = self.position;
        }
    }

    /// What has to be committed, if anything has.
    pub(super) fn uncommitted(&self) -> Option<i64> {
        self.handled.filter(|handled| Some(*handled) != self.committed)
    }

    pub(super) fn set_committed(&mut self, offset: i64) {
        self.committed = Some(offset);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use rocketmq_wire::message::{Record, StoredMessage};

    use super::*;
    use crate::consumer::message_view::Origin;
    use crate::message::MessageQueue;

    fn message(queue_offset: i64) -> MessageView {
        let host = "10.0.0.1:10911".parse().expect("an address");
        let record = Record {
            version: Default::default(),
            queue_id: 0,
            flag: 0,
            queue_offset,
            physical_offset: 1,
            sys_flag: 0,
            born_timestamp: 1,
            born_host: host,
            store_timestamp: 2,
            store_host: host,
            reconsume_times: 0,
            prepared_transaction_offset: 0,
            body: b"x",
            topic: "t",
            properties: b"",
        };
        let mut bytes = vec![0; record.encoded_len().expect("small")];
        record.encode(&mut bytes).expect("there is room");
        let origin = Origin::new(MessageQueue::new("t", "b", 0), false, Default::default());
        MessageView::new(StoredMessage::parse(bytes.into()).expect("a record").0, Arc::new(origin))
    }

    fn offsets(messages: &[MessageView]) -> Vec<i64> {
        messages.iter().map(MessageView::queue_offset).collect()
    }

    #[test]
    fn what_was_returned_is_committed_when_it_is_handled() {
        let mut queue = AssignedQueue::default();
        queue.begin(0, 5, true);
        assert!(queue.insert(0, vec![message(5), message(6), message(9)], 12));
        assert_eq!(queue.uncommitted(), None);
        assert_eq!(offsets(&queue.take(2)), [5, 6]);
        assert_eq!((queue.position(), queue.uncommitted()), (Some(7), None));
        queue.handle_all();
        assert_eq!(queue.uncommitted(), Some(7));
        queue.set_committed(7);
        assert_eq!(queue.uncommitted(), None);
        assert_eq!(offsets(&queue.take(10)), [9]);
        // The rest of the answer was filtered out.
        assert_eq!((queue.position(), queue.next_pull()), (Some(12), Some(12)));
    }

    #[test]
    fn a_seek_throws_away_what_is_under_way() {
        let mut queue = AssignedQueue::default();
        queue.begin(0, 0, false);
        queue.insert(0, vec![message(0)], 1);
        queue.seek(40);
        assert!(!queue.has_ready() && !queue.insert(0, vec![message(1)], 2));
        assert_eq!((queue.next_pull(), queue.position(), queue.uncommitted()), (Some(40), Some(40), Some(40)));
        queue.begin(0, 3, true);
        assert_eq!(queue.next_pull(), Some(40), "what was asked before the seek does not count");
        assert!(queue.insert(queue.epoch(), vec![message(40)], 41));
        queue.pause(true);
        assert!(!queue.has_ready() && !queue.has_room(10));
    }

    #[test]
    fn what_is_filtered_out_moves_the_position() {
        let mut queue = AssignedQueue::default();
        queue.begin(0, 0, false);
        queue.insert(0, Vec::new(), 30);
        queue.handle_all();
        assert_eq!((queue.position(), queue.uncommitted()), (Some(30), Some(30)));
    }
}
