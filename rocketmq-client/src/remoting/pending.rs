//! Requests that wait: for leave to be sent, and for their answers.
//!
//! A table of slots, found by the low 16 bits of the opaque; the high 16 bits are the slot's generation, so that an
//! answer which comes after its request was given up meets a different number and is counted instead of delivered.
//! Slots whose request was answered are used again first, those of requests that were given up last.
//!
//! Pure: time is an argument, and wakers to be woken are returned, to be woken without the lock.

use std::collections::{BTreeMap, VecDeque};
use std::task::{Poll, Waker};
use std::time::{Duration, Instant};

use crate::error::Error;

/// The low bits of the opaque that one-way requests carry: no slot has this index.
const NO_SLOT: u16 = u16::MAX;

/// How many requests can be in flight on one connection at most: one for each index but [`NO_SLOT`].
pub(super) const MOST_SLOTS: usize = NO_SLOT as usize;

/// Deadlines are looked for at most this often.
pub(super) const SWEEP_INTERVAL: Duration = Duration::from_millis(50);

/// A peer that let two requests in a row end without sending a byte is given up after this time at the earliest.
const SHORTEST_SILENCE: Duration = Duration::from_millis(500);

/// How much may be under way on one connection.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    /// Requests without an answer.
    pub(super) requests: usize,
    /// Their size in bytes, and separately the size of what has not been written.
    pub(super) bytes: usize,
}

/// Whether a request expects an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Call,
    OneWay,
}

/// What a request got when it was let through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Admitted {
    /// The number that the request carries.
    pub(super) opaque: i32,
    /// Whether no other request is under way, nor ended with its caller still to look.
    pub(super) alone: bool,
    /// Whether the sweep has to be told of an earlier deadline.
    pub(super) earliest: bool,
}

/// How a request ended.
#[derive(Debug)]
pub(super) enum Ended<T> {
    Answered(T),
    TimedOut,
    Failed(Error),
}

/// What became of an answer.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Completion {
    /// It has an owner, who is to be woken.
    Delivered,
    /// Nobody waits for it.
    Unexpected,
}

/// The table; `T` is an answer.
#[derive(Debug)]
pub(super) struct Pending<T> {
    limits: Limits,
    slots: Vec<Slot<T>>,
    /// Indices of free slots, the next to be used at the front.
    free: VecDeque<u16>,
    in_flight: usize,
    in_flight_bytes: usize,
    unwritten_bytes: usize,
    /// Callers waiting for leave, in the order in which they came.
    queue: BTreeMap<u64, Queued>,
    next_ticket: u64,
    next_one_way: u16,
    /// No deadline is earlier than this.
    earliest: Option<Instant>,
    swept_at: Option<Instant>,
    /// Counts what the peer sent, to tell whether it sent anything since a request.
    reads: u32,
    silence: Silence,
    unexpected: u64,
    /// Why nothing more is let through, and whether answers are awaited before the end.
    refusing: Option<(Error, bool)>,
    closed: Option<Error>,
}

/// Requests in a row that ended without a byte from the peer.
#[derive(Debug, Default)]
struct Silence {
    strikes: u32,
    since: Option<Instant>,
}

#[derive(Debug)]
struct Slot<T> {
    generation: u16,
    state: State<T>,
}

#[derive(Debug)]
enum State<T> {
    Free,
    Waiting { waker: Waker, deadline: Instant, bytes: usize, reads: u32, strikes: u32 },
    Ended(Ended<T>),
}

#[derive(Debug)]
struct Queued {
    bytes: usize,
    kind: Kind,
    deadline: Instant,
    waker: Waker,
}

impl<T> Pending<T> {
    pub(super) fn new(limits: Limits) -> Self {
        Self {
            limits: Limits { requests: limits.requests.clamp(1, MOST_SLOTS), bytes: limits.bytes.max(1) },
            slots: Vec::new(),
            free: VecDeque::new(),
            in_flight: 0,
            in_flight_bytes: 0,
            unwritten_bytes: 0,
            queue: BTreeMap::new(),
            next_ticket: 0,
            next_one_way: 0,
            earliest: None,
            swept_at: None,
            reads: 0,
            silence: Silence::default(),
            unexpected: 0,
            refusing: None,
            closed: None,
        }
    }

    /// Lets a request of `bytes` through, or queues it under `ticket` and keeps `waker` for when its turn comes.
    ///
    /// `Err` says why it will never be let through.
    pub(super) fn poll_admit(
        &mut self,
        ticket: &mut Option<u64>,
        kind: Kind,
        bytes: usize,
        deadline: Instant,
        waker: &Waker,
    ) -> Poll<Result<Admitted, Ended<T>>> {
        if let Some(cause) = self.refusal() {
            return Poll::Ready(Err(Ended::Failed(cause.clone())));
        }
        let first = match *ticket {
            None => self.queue.is_empty(),
            Some(mine) if !self.queue.contains_key(&mine) => return Poll::Ready(Err(Ended::TimedOut)),
            Some(mine) => self.queue.first_key_value().is_some_and(|(&first, _)| first == mine),
        };
        if first && self.fits(kind, bytes) {
            if let Some(mine) = ticket.take() {
                self.queue.remove(&mine);
            }
            return Poll::Ready(Ok(self.admit(kind, bytes, deadline, waker)));
        }
        match *ticket {
            Some(mine) => {
                if let Some(queued) = self.queue.get_mut(&mine) {
                    queued.waker.clone_from(waker);
                }
            }
            None => {
                if self.swept_at.is_some_and(|now| deadline <= now) {
                    return Poll::Ready(Err(Ended::TimedOut));
                }
                self.queue.insert(self.next_ticket, Queued { bytes, kind, deadline, waker: waker.clone() });
                *ticket = Some(self.next_ticket);
                self.next_ticket += 1;
            }
        }
        Poll::Pending
    }

    /// Lets a request of `bytes` through if there is room for it and nobody queues.
    ///
    /// `Err` says why it will never be let through.
    pub(super) fn try_admit(
        &mut self,
        kind: Kind,
        bytes: usize,
        deadline: Instant,
        waker: &Waker,
    ) -> Result<Option<Admitted>, Ended<T>> {
        if let Some(cause) = self.refusal() {
            return Err(Ended::Failed(cause.clone()));
        }
        let passes = self.queue.is_empty() && self.fits(kind, bytes);
        Ok(passes.then(|| self.admit(kind, bytes, deadline, waker)))
    }

    /// Why nothing is let through any more, if so.
    fn refusal(&self) -> Option<&Error> {
        self.closed.as_ref().or(self.refusing.as_ref().map(|(cause, _)| cause))
    }

    /// Whether a queued deadline is the earliest, so that the sweep has to be told; asked once after queueing.
    pub(super) fn hasten(&mut self, deadline: Instant) -> bool {
        let earliest = self.earliest.is_none_or(|earliest| deadline < earliest);
        if earliest {
            self.earliest = Some(deadline);
        }
        earliest
    }

    fn fits(&self, kind: Kind, bytes: usize) -> bool {
        // What is larger than the whole limit passes alone.
        let within = |used: usize| used == 0 || used + bytes <= self.limits.bytes;
        let slot = kind == Kind::OneWay
            || (self.in_flight < self.limits.requests
                && within(self.in_flight_bytes)
                && (!self.free.is_empty() || self.slots.len() < MOST_SLOTS));
        slot && within(self.unwritten_bytes)
    }

    fn admit(&mut self, kind: Kind, bytes: usize, deadline: Instant, waker: &Waker) -> Admitted {
        self.unwritten_bytes += bytes;
        if kind == Kind::OneWay {
            self.next_one_way = self.next_one_way.wrapping_add(1);
            // Never alone: a burst of one-way requests has no answers to gather it, so each lets others run first.
            return Admitted { opaque: opaque(self.next_one_way, NO_SLOT), alone: false, earliest: false };
        }
        let index = self.free.pop_front().unwrap_or_else(|| {
            self.slots.push(Slot { generation: 0, state: State::Free });
            // `fits` keeps the table below `MOST_SLOTS`, which is below 2^16.
            (self.slots.len() - 1) as u16
        });
        let (reads, strikes) = (self.reads, self.silence.strikes);
        let slot = &mut self.slots[usize::from(index)];
        slot.state = State::Waiting { waker: waker.clone(), deadline, bytes, reads, strikes };
        let opaque = opaque(slot.generation, index);
        self.in_flight += 1;
        self.in_flight_bytes += bytes;
        // Callers whose answers are there but not yet taken are about to run, and likely to send again.
        Admitted { opaque, alone: self.occupied() == 1, earliest: self.hasten(deadline) }
    }

    /// Forgets a ticket whose caller no longer waits; the waker returned is of the caller whose turn it is now.
    pub(super) fn leave(&mut self, ticket: u64) -> Option<Waker> {
        let first = self.queue.first_key_value().is_some_and(|(&first, _)| first == ticket);
        self.queue.remove(&ticket);
        if first { self.front() } else { None }
    }

    /// The waker of the first queued caller, if there is room for it.
    pub(super) fn front(&self) -> Option<Waker> {
        let (_, queued) = self.queue.first_key_value()?;
        self.fits(queued.kind, queued.bytes).then(|| queued.waker.clone())
    }

    /// Counts bytes as written, or as never to be.
    pub(super) fn written(&mut self, bytes: usize) -> Option<Waker> {
        self.unwritten_bytes -= bytes;
        self.front()
    }

    /// The result of the request, or keeps `waker` for when there is one.
    pub(super) fn poll_end(&mut self, opaque: i32, waker: &Waker) -> Poll<Ended<T>> {
        let (generation, index) = parts(opaque);
        let slot = &mut self.slots[usize::from(index)];
        debug_assert_eq!(slot.generation, generation, "a waiter outlived its slot");
        if let State::Waiting { waker: kept, .. } = &mut slot.state {
            kept.clone_from(waker);
            return Poll::Pending;
        }
        let answered = matches!(slot.state, State::Ended(Ended::Answered(_)));
        match self.release(index, answered) {
            State::Ended(ended) => Poll::Ready(ended),
            // A free slot has no waiter: only this call and `abandon` free one, and each waiter makes one of them.
            State::Free | State::Waiting { .. } => Poll::Ready(Ended::TimedOut),
        }
    }

    /// Gives a request up: its caller no longer waits.
    pub(super) fn abandon(&mut self, opaque: i32) -> Option<Waker> {
        let (_, index) = parts(opaque);
        if let State::Waiting { bytes, .. } = self.release(index, false) {
            self.in_flight -= 1;
            self.in_flight_bytes -= bytes;
        }
        self.front()
    }

    fn release(&mut self, index: u16, answered: bool) -> State<T> {
        let slot = &mut self.slots[usize::from(index)];
        slot.generation = slot.generation.wrapping_add(1);
        let state = std::mem::replace(&mut slot.state, State::Free);
        if answered {
            self.free.push_front(index);
        } else {
            self.free.push_back(index);
        }
        state
    }

    /// Hands an answer to the request of that number; the wakers of its owner and of the next in the queue are added
    /// to `wake`.
    pub(super) fn complete(&mut self, opaque: i32, answer: T, wake: &mut Vec<Waker>) -> Completion {
        let (generation, index) = parts(opaque);
        let slot = self.slots.get_mut(usize::from(index)).filter(|slot| slot.generation == generation);
        let Some(slot) = slot.filter(|slot| matches!(slot.state, State::Waiting { .. })) else {
            self.unexpected += 1;
            return Completion::Unexpected;
        };
        if let State::Waiting { waker, bytes, .. } =
            std::mem::replace(&mut slot.state, State::Ended(Ended::Answered(answer)))
        {
            self.in_flight -= 1;
            self.in_flight_bytes -= bytes;
            wake.push(waker);
        }
        if !self.queue.is_empty() {
            wake.extend(self.front());
        }
        Completion::Delivered
    }

    /// Notes that the peer sent something.
    pub(super) fn received(&mut self) {
        self.reads = self.reads.wrapping_add(1);
        self.silence = Silence::default();
    }

    /// Ends every request whose deadline has passed. True when the peer must be taken for dead.
    pub(super) fn sweep(&mut self, now: Instant, wake: &mut Vec<Waker>) -> bool {
        self.swept_at = Some(now);
        if self.earliest.is_none_or(|earliest| earliest > now) {
            return false;
        }
        self.earliest = None;
        let silent = self.expire_waiting(now, wake);
        self.expire_queued(now, wake);
        wake.extend(self.front());
        silent
    }

    fn expire_waiting(&mut self, now: Instant, wake: &mut Vec<Waker>) -> bool {
        let mut struck = false;
        for slot in &mut self.slots {
            let State::Waiting { deadline, bytes, reads, strikes, .. } = slot.state else { continue };
            if deadline > now {
                self.earliest = Some(self.earliest.map_or(deadline, |earliest| earliest.min(deadline)));
                continue;
            }
            if let State::Waiting { waker, .. } = std::mem::replace(&mut slot.state, State::Ended(Ended::TimedOut)) {
                wake.push(waker);
            }
            self.in_flight -= 1;
            self.in_flight_bytes -= bytes;
            // Requests that were under way together count once: one pause of the peer ends them all.
            struck |= reads == self.reads && strikes == self.silence.strikes;
        }
        if !struck {
            return false;
        }
        self.silence.strikes += 1;
        let since = *self.silence.since.get_or_insert(now);
        self.silence.strikes >= 2 && now.duration_since(since) >= SHORTEST_SILENCE
    }

    fn expire_queued(&mut self, now: Instant, wake: &mut Vec<Waker>) {
        self.queue.retain(|_, queued| {
            if queued.deadline <= now {
                wake.push(queued.waker.clone());
                return false;
            }
            self.earliest = Some(self.earliest.map_or(queued.deadline, |earliest| earliest.min(queued.deadline)));
            true
        });
    }

    /// Ends everything with one cause, now and from now on; the first cause stays. Returns whether this was it.
    pub(super) fn close(&mut self, cause: &Error, wake: &mut Vec<Waker>) -> bool {
        if self.closed.is_some() {
            return false;
        }
        self.closed = Some(cause.clone());
        for slot in &mut self.slots {
            if let State::Waiting { .. } = slot.state
                && let State::Waiting { waker, .. } =
                    std::mem::replace(&mut slot.state, State::Ended(Ended::Failed(cause.clone())))
            {
                wake.push(waker);
            }
        }
        self.in_flight = 0;
        self.in_flight_bytes = 0;
        self.earliest = None;
        wake.extend(std::mem::take(&mut self.queue).into_values().map(|queued| queued.waker));
        true
    }

    /// Lets nothing more through, with this cause; what is under way goes on, and is awaited or not by who asks
    /// [`finished`](Self::finished).
    pub(super) fn refuse(&mut self, cause: Error, await_answers: bool, wake: &mut Vec<Waker>) {
        self.refusing.get_or_insert((cause, await_answers));
        wake.extend(std::mem::take(&mut self.queue).into_values().map(|queued| queued.waker));
    }

    /// Why the connection can be closed once its output is written, if so.
    pub(super) fn finished(&self) -> Option<&Error> {
        let (cause, await_answers) = self.refusing.as_ref()?;
        (!await_answers || self.in_flight == 0).then_some(cause)
    }

    /// A deadline that no other is earlier than.
    pub(super) fn earliest(&self) -> Option<Instant> {
        self.earliest
    }

    /// Why the connection is closed, if it is.
    pub(super) fn closed(&self) -> Option<&Error> {
        self.closed.as_ref()
    }

    /// Requests that await an answer, and their bytes.
    pub(super) fn in_flight(&self) -> (usize, usize) {
        (self.in_flight, self.in_flight_bytes)
    }

    /// Bytes let through and not written yet.
    pub(super) fn unwritten(&self) -> usize {
        self.unwritten_bytes
    }

    /// Callers waiting for leave.
    pub(super) fn queued(&self) -> usize {
        self.queue.len()
    }

    /// Answers that nobody waited for.
    pub(super) fn unexpected(&self) -> u64 {
        self.unexpected
    }

    /// Slots whose waiter has not fetched the end yet, or whose request is under way.
    pub(super) fn occupied(&self) -> usize {
        self.slots.len() - self.free.len()
    }
}

fn opaque(generation: u16, index: u16) -> i32 {
    ((u32::from(generation) << 16) | u32::from(index)).cast_signed()
}

fn parts(opaque: i32) -> (u16, u16) {
    let bits = opaque.cast_unsigned();
    ((bits >> 16) as u16, bits as u16)
}

#[cfg(test)]
mod tests;
