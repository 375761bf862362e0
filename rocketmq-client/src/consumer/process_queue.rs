//! The messages of one queue between the broker and the offset: received, in work, done.
//!
//! Offsets are committed by the smallest one that is not done, so a message that takes long, or comes back, holds the
//! offset although those behind it are through. A ring keeps that cheap: messages enter at the back in the order of
//! their offsets, are marked wherever they are, and leave at the front.

use std::collections::VecDeque;

use super::flow_control::Load;

/// Names one message of a process queue. Never used twice, so what a handler reports late cannot hit another message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Ticket(u64);

/// The messages of one queue that this client has received and is not done with.
///
/// Generic in what a message is, since nothing here looks into one.
#[derive(Debug)]
pub(crate) struct ProcessQueue<M> {
    /// The front one is not done, unless there is none.
    entries: VecDeque<Entry>,
    /// The ticket of the front entry.
    first_ticket: u64,
    /// Messages no handler has, in the order in which handlers get them.
    waiting: VecDeque<(Ticket, M)>,
    /// The answers that the entries came in; a message keeps the whole answer in memory.
    answers: VecDeque<Answer>,
    /// The number of the front answer.
    first_answer: u64,
    /// Where the next pull begins: what lies below was received, or is nothing for this consumer.
    position: i64,
    undone: usize,
    /// Messages in the hands of handlers.
    running: usize,
    bytes: usize,
}

#[derive(Debug)]
struct Entry {
    offset: i64,
    answer: u64,
    done: bool,
}

#[derive(Debug)]
struct Answer {
    undone: usize,
    bytes: usize,
}

impl<M> ProcessQueue<M> {
    /// An empty queue whose first pull begins at `position`.
    pub(crate) fn new(position: i64) -> Self {
        Self {
            entries: VecDeque::new(),
            first_ticket: 0,
            waiting: VecDeque::new(),
            answers: VecDeque::new(),
            first_answer: 0,
            position,
            undone: 0,
            running: 0,
            bytes: 0,
        }
    }

    /// Where the next pull begins.
    pub(crate) fn position(&self) -> i64 {
        self.position
    }

    /// The offset to commit: all messages below it are done.
    pub(crate) fn committable(&self) -> i64 {
        self.entries.front().map_or(self.position, |first| first.offset)
    }

    /// How much is in here, for flow control.
    pub(crate) fn load(&self) -> Load {
        let span = match (self.entries.front(), self.entries.back()) {
            (Some(first), Some(last)) => last.offset - first.offset,
            _ => 0,
        };
        Load { messages: self.undone, bytes: self.bytes, span }
    }

    /// Messages in the hands of handlers.
    pub(crate) fn running(&self) -> usize {
        self.running
    }

    /// Whether a handler could get a message.
    pub(crate) fn has_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Takes in the messages of an answer that holds `bytes` bytes of memory, and moves the position to `next`.
    ///
    /// Offsets grow within a queue; a message at or below one that came before is a repetition and left out, as is one
    /// that does not lie below `next`, which would be received again. Returns how many were left out.
    pub(crate) fn insert(&mut self, messages: impl IntoIterator<Item = (i64, M)>, bytes: usize, next: i64) -> usize {
        let answer = self.first_answer + self.answers.len() as u64;
        let (mut taken, mut left_out) = (0, 0);
        let mut lowest = self.position;
        for (offset, message) in messages {
            if offset < lowest || offset >= next {
                left_out += 1;
                continue;
            }
            let ticket = Ticket(self.first_ticket + self.entries.len() as u64);
            self.entries.push_back(Entry { offset, answer, done: false });
            self.waiting.push_back((ticket, message));
            lowest = offset + 1;
            taken += 1;
        }
        if taken > 0 {
            self.answers.push_back(Answer { undone: taken, bytes });
            self.undone += taken;
            self.bytes += bytes;
        }
        self.position = self.position.max(next);
        left_out
    }

    /// Moves the position on to `next` when the broker has nothing for this consumer below it.
    pub(crate) fn skip_to(&mut self, next: i64) {
        self.position = self.position.max(next);
    }

    /// Moves the position back to `next`: what was received from there on is forgotten, as it will be received again,
    /// and what handlers make of it no longer counts.
    pub(crate) fn rewind(&mut self, next: i64) {
        self.position = next;
        for index in 0..self.entries.len() {
            if self.entries[index].offset >= next {
                self.mark_done(index);
            }
        }
        let (entries, first_ticket) = (&self.entries, self.first_ticket);
        self.waiting.retain(|(ticket, _)| !entries[(ticket.0 - first_ticket) as usize].done);
        self.drop_done();
    }

    /// Hands the next message to a handler, which reports with [`finish`](Self::finish) or
    /// [`set_aside`](Self::set_aside).
    pub(crate) fn take(&mut self) -> Option<(Ticket, M)> {
        let taken = self.waiting.pop_front()?;
        self.running += 1;
        Some(taken)
    }

    /// A handler is through with a message for good.
    pub(crate) fn finish(&mut self, ticket: Ticket) {
        self.running -= 1;
        if let Some(index) = self.index_of(ticket) {
            self.mark_done(index);
            self.drop_done();
        }
    }

    /// A handler is through with a message that is not done; [`requeue`](Self::requeue) brings it back.
    pub(crate) fn set_aside(&mut self) {
        self.running -= 1;
    }

    /// Lets handlers have a message again that was set aside. Returns whether it still belongs here.
    pub(crate) fn requeue(&mut self, ticket: Ticket, message: M) -> bool {
        let belongs = self.index_of(ticket).is_some_and(|index| !self.entries[index].done);
        if belongs {
            self.waiting.push_back((ticket, message));
        }
        belongs
    }

    /// Drops the messages that no handler has. They stay undone, so the offset stays below them.
    pub(crate) fn drop_waiting(&mut self) {
        self.waiting = VecDeque::new();
    }

    fn index_of(&self, ticket: Ticket) -> Option<usize> {
        let index = usize::try_from(ticket.0.checked_sub(self.first_ticket)?).ok()?;
        (index < self.entries.len()).then_some(index)
    }

    fn mark_done(&mut self, index: usize) {
        let entry = &mut self.entries[index];
        if entry.done {
            return;
        }
        entry.done = true;
        self.undone -= 1;
        let answer = &mut self.answers[(entry.answer - self.first_answer) as usize];
        answer.undone -= 1;
        if answer.undone == 0 {
            self.bytes -= std::mem::take(&mut answer.bytes);
            while self.answers.front().is_some_and(|answer| answer.undone == 0) {
                self.answers.pop_front();
                self.first_answer += 1;
            }
        }
    }

    fn drop_done(&mut self) {
        while self.entries.front().is_some_and(|entry| entry.done) {
            self.entries.pop_front();
            self.first_ticket += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    fn filled(offsets: impl IntoIterator<Item = i64>, next: i64) -> ProcessQueue<i64> {
        let mut queue = ProcessQueue::new(0);
        assert_eq!(queue.insert(offsets.into_iter().map(|offset| (offset, offset)), 100, next), 0);
        queue
    }

    #[test]
    fn the_smallest_undone_offset_is_committed() {
        let mut queue = filled(0..3, 3);
        let tickets: Vec<_> = std::iter::from_fn(|| queue.take()).map(|(ticket, _)| ticket).collect();
        queue.finish(tickets[2]);
        queue.finish(tickets[1]);
        assert_eq!((queue.committable(), queue.load().messages), (0, 1));
        queue.finish(tickets[0]);
        assert_eq!((queue.committable(), queue.load(), queue.running()), (3, Load::default(), 0));
    }

    #[test]
    fn an_empty_queue_commits_what_the_broker_skipped() {
        let mut queue = filled([4, 7], 20);
        queue.skip_to(30);
        assert_eq!((queue.committable(), queue.position()), (4, 30));
        for _ in 0..2 {
            let (ticket, _) = queue.take().expect("two are waiting");
            queue.finish(ticket);
        }
        assert_eq!(queue.committable(), 30);
    }

    #[test]
    fn a_message_keeps_its_answer_in_memory() {
        let mut queue = filled(0..2, 2);
        queue.insert([(2, 2)], 11, 3);
        let tickets: Vec<_> = std::iter::from_fn(|| queue.take()).map(|(ticket, _)| ticket).collect();
        queue.finish(tickets[0]);
        assert_eq!(queue.load().bytes, 111);
        queue.finish(tickets[2]);
        assert_eq!(queue.load().bytes, 100);
        queue.finish(tickets[1]);
        assert_eq!(queue.load().bytes, 0);
    }

    #[test]
    fn repetitions_and_offsets_beyond_the_answer_are_left_out() {
        let mut queue = filled([5], 6);
        let left_out = queue.insert([(5, 5), (6, 6), (6, 6), (i64::MAX, 0), (7, 7)], 1, 8);
        assert_eq!(left_out, 3);
        let offsets: Vec<_> = std::iter::from_fn(|| queue.take()).map(|(_, offset)| offset).collect();
        assert_eq!((offsets, queue.load().span), (vec![5, 6, 7], 2));
    }

    #[test]
    fn a_message_set_aside_holds_the_offset_and_comes_again() {
        let mut queue = filled(0..2, 2);
        let (first, message) = queue.take().expect("one is waiting");
        let (second, _) = queue.take().expect("one is waiting");
        queue.set_aside();
        queue.finish(second);
        assert_eq!((queue.committable(), queue.running()), (0, 0));
        assert!(queue.requeue(first, message));
        let (again, _) = queue.take().expect("it came back");
        assert_eq!(again, first);
        queue.finish(again);
        assert_eq!(queue.committable(), 2);
        assert!(!queue.requeue(first, message));
    }

    #[test]
    fn after_a_rewind_late_reports_do_not_count() {
        let mut queue = filled(0..4, 4);
        let (zero, _) = queue.take().expect("waiting");
        let (one, _) = queue.take().expect("waiting");
        queue.rewind(1);
        assert_eq!((queue.committable(), queue.position(), queue.load().messages), (0, 1, 1));
        queue.insert([(1, 1), (2, 2)], 50, 3);
        queue.finish(one);
        queue.finish(zero);
        assert_eq!((queue.committable(), queue.load().messages), (1, 2));
        assert!(!queue.requeue(one, 1));
        let (again, offset) = queue.take().expect("received again");
        assert_eq!(offset, 1);
        queue.finish(again);
        assert_eq!(queue.committable(), 2);
    }

    #[test]
    fn messages_dropped_before_a_handler_had_them_hold_the_offset() {
        let mut queue = filled(0..3, 3);
        let (ticket, _) = queue.take().expect("waiting");
        queue.drop_waiting();
        assert!(!queue.has_waiting());
        queue.finish(ticket);
        assert_eq!(queue.committable(), 1);
    }

    #[derive(Debug, Clone)]
    enum Step {
        Pull { gaps: Vec<i64>, trailing: i64 },
        Skip(i64),
        Take,
        Finish(usize),
        SetAside(usize),
        Requeue(usize),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            3 => (prop::collection::vec(0i64..4, 0..6), 0i64..3)
                .prop_map(|(gaps, trailing)| Step::Pull { gaps, trailing }),
            1 => (0i64..5).prop_map(Step::Skip),
            6 => Just(Step::Take),
            6 => any::<prop::sample::Index>().prop_map(|index| Step::Finish(index.index(1 << 16))),
            2 => any::<prop::sample::Index>().prop_map(|index| Step::SetAside(index.index(1 << 16))),
            2 => any::<prop::sample::Index>().prop_map(|index| Step::Requeue(index.index(1 << 16))),
        ]
    }

    /// What the queue must be like, kept in a sorted map: offset to whether it is done.
    #[derive(Default)]
    struct Model {
        received: BTreeMap<i64, bool>,
        position: i64,
        running: Vec<(Ticket, i64)>,
        aside: Vec<(Ticket, i64)>,
    }

    impl Model {
        fn committable(&self) -> i64 {
            self.received.iter().find(|(_, done)| !**done).map_or(self.position, |(offset, _)| *offset)
        }
    }

    proptest! {
        #[test]
        fn nothing_undone_is_ever_committed(steps in prop::collection::vec(step(), 0..300)) {
            let mut queue = ProcessQueue::new(0);
            let mut model = Model::default();
            let mut committed = 0;
            for step in steps {
                match step {
                    Step::Pull { gaps, trailing } => {
                        let mut offset = model.position - 1;
                        let offsets: Vec<i64> = gaps.iter().map(|gap| { offset += 1 + gap; offset }).collect();
                        model.position = offset + 1 + trailing;
                        model.received.extend(offsets.iter().map(|offset| (*offset, false)));
                        let left_out = queue.insert(offsets.into_iter().map(|o| (o, o)), 10, model.position);
                        prop_assert_eq!(left_out, 0);
                    }
                    Step::Skip(by) => {
                        model.position += by;
                        queue.skip_to(model.position);
                    }
                    Step::Take => model.running.extend(queue.take()),
                    Step::Finish(index) if !model.running.is_empty() => {
                        let (ticket, offset) = model.running.remove(index % model.running.len());
                        queue.finish(ticket);
                        model.received.insert(offset, true);
                    }
                    Step::SetAside(index) if !model.running.is_empty() => {
                        let taken = model.running.remove(index % model.running.len());
                        queue.set_aside();
                        model.aside.push(taken);
                    }
                    Step::Requeue(index) if !model.aside.is_empty() => {
                        let (ticket, offset) = model.aside.remove(index % model.aside.len());
                        prop_assert!(queue.requeue(ticket, offset));
                    }
                    _ => {}
                }
                let undone = model.received.values().filter(|done| !**done).count();
                prop_assert_eq!(queue.committable(), model.committable());
                prop_assert_eq!(queue.load().messages, undone);
                prop_assert_eq!(queue.load().bytes == 0, undone == 0);
                prop_assert_eq!(queue.running(), model.running.len());
                prop_assert!(queue.committable() >= committed, "the offset went back");
                committed = queue.committable();
            }
            // In the end every message received reaches a handler, once if it succeeds, and everything is committed.
            for (ticket, offset) in model.aside {
                prop_assert!(queue.requeue(ticket, offset));
            }
            model.running.extend(std::iter::from_fn(|| queue.take()));
            for (ticket, offset) in model.running {
                queue.finish(ticket);
                prop_assert_eq!(model.received.insert(offset, true), Some(false), "handled twice");
            }
            prop_assert!(model.received.values().all(|done| *done), "a message was lost");
            prop_assert_eq!(queue.committable(), model.position);
            prop_assert_eq!(queue.load(), Load::default());
        }
    }
}
