//! The order in which handlers get the messages of a queue. Pure.

use std::collections::{BTreeMap, VecDeque};

use super::process_queue::Ticket;

/// Messages that wait for a handler.
#[derive(Debug)]
pub(crate) enum Waiting {
    /// Any of them may be handled at any time.
    Free(VecDeque<Ticket>),
    /// Only one batch of a lane is handled at a time, from its front.
    Lanes(Lanes),
}

/// Messages that must be handled one after the other lie in one lane.
#[derive(Debug, Default)]
pub(crate) struct Lanes {
    lanes: BTreeMap<u64, Lane>,
    /// Lanes whose next message may be handled, each once.
    ready: VecDeque<u64>,
}

#[derive(Debug, Default)]
struct Lane {
    waiting: VecDeque<Ticket>,
    /// Messages in the hands of handlers.
    out: usize,
    /// Its first message has failed, and has to wait.
    suspended: bool,
    listed: bool,
}

impl Lane {
    fn is_ready(&self) -> bool {
        self.out == 0 && !self.suspended && !self.waiting.is_empty()
    }
}

impl Waiting {
    pub(crate) fn is_ready(&self) -> bool {
        match self {
            Self::Free(waiting) => !waiting.is_empty(),
            Self::Lanes(lanes) => !lanes.ready.is_empty(),
        }
    }

    pub(crate) fn push(&mut self, ticket: Ticket, lane: u64) {
        match self {
            Self::Free(waiting) => waiting.push_back(ticket),
            Self::Lanes(lanes) => lanes.change(lane, |lane| lane.waiting.push_back(ticket)),
        }
    }

    /// Up to so many messages, all of one lane where there are lanes.
    pub(crate) fn take(&mut self, most: usize) -> Vec<Ticket> {
        match self {
            Self::Free(waiting) => waiting.drain(..most.min(waiting.len())).collect(),
            Self::Lanes(lanes) => lanes.take(most),
        }
    }

    /// A message that was taken is done.
    pub(crate) fn finish(&mut self, lane: u64) {
        if let Self::Lanes(lanes) = self {
            lanes.change(lane, |lane| lane.out = lane.out.saturating_sub(1));
        }
    }

    /// A message that was taken has to be handled again. In a lane it goes back to its place, and holds up the others.
    pub(crate) fn set_aside(&mut self, ticket: Ticket, lane: u64) {
        if let Self::Lanes(lanes) = self {
            lanes.change(lane, |lane| {
                lane.out = lane.out.saturating_sub(1);
                lane.suspended = true;
                let place = lane.waiting.partition_point(|waiting| *waiting < ticket);
                lane.waiting.insert(place, ticket);
            });
        }
    }

    /// A message that was set aside may be handled.
    pub(crate) fn requeue(&mut self, ticket: Ticket, lane: u64) {
        match self {
            Self::Free(waiting) => waiting.push_back(ticket),
            Self::Lanes(lanes) => lanes.change(lane, |lane| lane.suspended = false),
        }
    }

    pub(crate) fn retain(&mut self, keep: impl Fn(Ticket) -> bool) {
        match self {
            Self::Free(waiting) => waiting.retain(|ticket| keep(*ticket)),
            Self::Lanes(lanes) => {
                let numbers: Vec<u64> = lanes.lanes.keys().copied().collect();
                for number in numbers {
                    lanes.change(number, |lane| lane.waiting.retain(|ticket| keep(*ticket)));
                }
                lanes.ready.retain(|number| lanes.lanes.get(number).is_some_and(Lane::is_ready));
                for (number, lane) in &mut lanes.lanes {
                    lane.listed = lanes.ready.contains(number);
                }
            }
        }
    }

    pub(crate) fn clear(&mut self) {
        match self {
            Self::Free(waiting) => *waiting = VecDeque::new(),
            Self::Lanes(lanes) => *lanes = Lanes::default(),
        }
    }
}

impl Lanes {
    /// Changes a lane, lists it if it has become ready, and forgets it if nothing is left.
    fn change(&mut self, number: u64, change: impl FnOnce(&mut Lane)) {
        let lane = self.lanes.entry(number).or_default();
        change(lane);
        if lane.is_ready() && !lane.listed {
            lane.listed = true;
            self.ready.push_back(number);
        }
        if lane.out == 0 && lane.waiting.is_empty() && !lane.listed {
            self.lanes.remove(&number);
        }
    }

    fn take(&mut self, most: usize) -> Vec<Ticket> {
        let Some(number) = self.ready.pop_front() else { return Vec::new() };
        let Some(lane) = self.lanes.get_mut(&number) else { return Vec::new() };
        lane.listed = false;
        let taken: Vec<_> = lane.waiting.drain(..most.min(lane.waiting.len())).collect();
        lane.out = taken.len();
        taken
    }
}
