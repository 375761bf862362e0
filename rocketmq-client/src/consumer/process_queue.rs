//! The messages of one queue between the broker and the offset: received, in work, done.
//!
//! Offsets are committed by the smallest one that is not done, so a message that takes long, or comes back, holds the
//! offset although those behind it are through. A ring keeps that cheap: messages enter at the back in the order of
//! their offsets, are marked wherever they are, and leave at the front.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use super::flow_control::Load;
use super::lanes::{Lanes, Waiting};

/// Names one message of a process queue. Never used twice, so what a handler reports late cannot hit another message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Ticket(u64);

/// The messages of one queue that this client has received and is not done with.
///
/// Generic in what a message is, since nothing here looks into one.
#[derive(Debug)]
pub(crate) struct ProcessQueue<M> {
    /// The front one is not done, unless there is none.
    entries: VecDeque<Entry<M>>,
    /// The ticket of the front entry.
    first_ticket: u64,
    /// Messages no handler has, in the order in which handlers get them.
    waiting: Waiting,
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
struct Entry<M> {
    offset: i64,
    answer: u64,
    lane: u64,
    /// Gone when it is done.
    message: Option<M>,
    /// When a handler got it, while it has it.
    since: Option<Instant>,
}

#[derive(Debug)]
struct Answer {
    undone: usize,
    bytes: usize,
}

impl<M: Clone> ProcessQueue<M> {
    /// An empty queue whose first pull begins at `position`. With lanes, the messages of a lane are handled one after the
    /// other; without, in any order.
    pub(crate) fn new(position: i64, with_lanes: bool) -> Self {
        let waiting = if with_lanes { Waiting::Lanes(Lanes::default()) } else { Waiting::Free(VecDeque::new()) };
        Self {
            entries: VecDeque::new(),
            first_ticket: 0,
            waiting,
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

    /// The smallest and the largest offset in here.
    pub(crate) fn bounds(&self) -> Option<(i64, i64)> {
        Some((self.entries.front()?.offset, self.entries.back()?.offset))
    }

    /// How much is in here, for flow control.
    pub(crate) fn load(&self) -> Load {
        let span = self.bounds().map_or(0, |(first, last)| last - first);
        Load { messages: self.undone, bytes: self.bytes, span }
    }

    /// Messages in the hands of handlers.
    pub(crate) fn running(&self) -> usize {
        self.running
    }

    /// Whether a handler could get a message.
    pub(crate) fn has_waiting(&self) -> bool {
        self.waiting.is_ready()
    }

    /// Takes in the messages of an answer that holds `bytes` bytes of memory, each with its offset and lane, and moves the
    /// position to `next`.
    ///
    /// Offsets grow within a queue; a message at or below one that came before is a repetition and left out, as is one
    /// that does not lie below `next`, which would be received again. Returns how many were left out.
    pub(crate) fn insert(
        &mut self,
        messages: impl IntoIterator<Item = (i64, u64, M)>,
        bytes: usize,
        next: i64,
    ) -> usize {
        let answer = self.first_answer + self.answers.len() as u64;
        let (mut taken, mut left_out) = (0, 0);
        let mut lowest = self.position;
        for (offset, lane, message) in messages {
            if offset < lowest || offset >= next {
                left_out += 1;
                continue;
            }
            let ticket = Ticket(self.first_ticket + self.entries.len() as u64);
            self.entries.push_back(Entry { offset, answer, lane, message: Some(message), since: None });
            self.waiting.push(ticket, lane);
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
        self.forget(|offset| offset >= next);
    }

    /// Moves the position to `next`, back or on, and forgets all that was received: somebody else has said where it goes
    /// on. What handlers make of it no longer counts.
    pub(crate) fn jump_to(&mut self, next: i64) {
        self.position = next;
        self.forget(|_| true);
    }

    fn forget(&mut self, is_meant: impl Fn(i64) -> bool) {
        for index in 0..self.entries.len() {
            let entry = &mut self.entries[index];
            if is_meant(entry.offset) {
                if entry.since.take().is_some() {
                    self.waiting.finish(entry.lane);
                }
                self.mark_done(index);
            }
        }
        let (entries, first_ticket) = (&self.entries, self.first_ticket);
        self.waiting.retain(|ticket| entries[(ticket.0 - first_ticket) as usize].message.is_some());
        self.drop_done();
    }

    /// Hands up to `most` messages to a handler, which reports each with [`finish`](Self::finish) or
    /// [`set_aside`](Self::set_aside). They are of one lane.
    pub(crate) fn take(&mut self, most: usize, now: Instant) -> Vec<(Ticket, M)> {
        let tickets = self.waiting.take(most);
        self.running += tickets.len();
        let mut taken = Vec::with_capacity(tickets.len());
        for ticket in tickets {
            // What waits is in here and not done.
            let entry = self.index_of(ticket).map(|index| &mut self.entries[index]);
            let Some(entry) = entry else { continue };
            entry.since = Some(now);
            taken.extend(entry.message.clone().map(|message| (ticket, message)));
        }
        taken
    }

    /// A handler is through with messages for good.
    pub(crate) fn finish(&mut self, tickets: impl IntoIterator<Item = Ticket>) {
        for ticket in tickets {
            self.running -= 1;
            if let Some(index) = self.index_of(ticket) {
                let entry = &mut self.entries[index];
                if entry.since.take().is_some() {
                    self.waiting.finish(entry.lane);
                }
                self.mark_done(index);
            }
        }
        self.drop_done();
    }

    /// A handler is through with a message that is not done, and that is to be `message` from now on;
    /// [`requeue`](Self::requeue) brings it back.
    pub(crate) fn set_aside(&mut self, ticket: Ticket, message: M) {
        self.running -= 1;
        if let Some(index) = self.undone_index(ticket) {
            let entry = &mut self.entries[index];
            (entry.message, entry.since) = (Some(message), None);
            self.waiting.set_aside(ticket, entry.lane);
        }
    }

    /// Lets handlers have a message again that was set aside. Returns whether it still belongs here.
    pub(crate) fn requeue(&mut self, ticket: Ticket) -> bool {
        let Some(index) = self.undone_index(ticket) else { return false };
        self.waiting.requeue(ticket, self.entries[index].lane);
        true
    }

    /// The first message, if a handler has had it for so long.
    pub(crate) fn expired(&self, now: Instant, timeout: Duration) -> Option<(Ticket, M)> {
        let first = self.entries.front()?;
        let is_expired = now.saturating_duration_since(first.since?) >= timeout;
        first.message.clone().filter(|_| is_expired).map(|message| (Ticket(self.first_ticket), message))
    }

    /// Gives up the first message if it is still that one, although a handler has it. Returns whether it was.
    pub(crate) fn give_up(&mut self, ticket: Ticket) -> bool {
        let is_first = ticket.0 == self.first_ticket && self.entries.front().is_some_and(|first| first.since.is_some());
        if is_first {
            self.mark_done(0);
            self.drop_done();
        }
        is_first
    }

    /// Drops the messages that no handler has. They stay undone, so the offset stays below them.
    pub(crate) fn drop_waiting(&mut self) {
        self.waiting.clear();
    }

    fn index_of(&self, ticket: Ticket) -> Option<usize> {
        let index = usize::try_from(ticket.0.checked_sub(self.first_ticket)?).ok()?;
        (index < self.entries.len()).then_some(index)
    }

    fn undone_index(&self, ticket: Ticket) -> Option<usize> {
        self.index_of(ticket).filter(|index| self.entries[*index].message.is_some())
    }

    fn mark_done(&mut self, index: usize) {
        let entry = &mut self.entries[index];
        if entry.message.take().is_none() {
            return;
        }
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
        while self.entries.front().is_some_and(|entry| entry.message.is_none()) {
            self.entries.pop_front();
            self.first_ticket += 1;
        }
    }
}

#[cfg(test)]
#[path = "tests/process_queue.rs"]
mod tests;
