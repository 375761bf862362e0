//! Which queue the next message goes to.

use std::sync::atomic::{AtomicUsize, Ordering};

/// Takes turns over the queues of one topic.
///
/// Every producer begins at a random queue, so that many producers of few messages do not all use the first.
#[derive(Debug)]
pub(super) struct QueueChoice {
    next: AtomicUsize,
}

impl QueueChoice {
    /// A choice that begins anywhere; `random` says where.
    pub(super) fn new(random: u64) -> Self {
        Self { next: AtomicUsize::new(random as usize) }
    }

    /// The place of the next of `count` queues in turn that suits; `None` when none does, which takes no turn.
    pub(super) fn choose(&self, count: usize, suits: impl Fn(usize) -> bool) -> Option<usize> {
        let first = self.peek(count)?;
        let chosen = (first..count).chain(0..first).find(|&place| suits(place))?;
        let steps = if chosen >= first { chosen - first } else { count - first + chosen };
        self.pass(steps + 1);
        Some(chosen)
    }

    /// The place of the next of `count` queues, whatever it is; `None` when there are none. Takes no turn:
    /// [`pass`](Self::pass) does.
    #[inline]
    pub(super) fn peek(&self, count: usize) -> Option<usize> {
        self.next.load(Ordering::Relaxed).checked_rem(count)
    }

    /// Takes so many turns.
    #[inline]
    pub(super) fn pass(&self, turns: usize) {
        // Of two callers at the same time both may get the same queue: turns are fair on the whole.
        self.next.store(self.next.load(Ordering::Relaxed).wrapping_add(turns), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places<const N: usize>(choice: &QueueChoice, count: usize, suits: impl Fn(usize) -> bool) -> [Option<usize>; N] {
        std::array::from_fn(|_| choice.choose(count, &suits))
    }

    #[test]
    fn queues_take_turns_from_a_random_one_on() {
        assert_eq!(places(&QueueChoice::new(6), 4, |_| true), [2, 3, 0, 1, 2].map(Some));
        assert_eq!(places(&QueueChoice::new(usize::MAX as u64), 4, |_| true), [3, 0].map(Some));
        assert_eq!(QueueChoice::new(0).choose(0, |_| true), None);
    }

    #[test]
    fn what_does_not_suit_is_passed_over() {
        let choice = QueueChoice::new(0);
        assert_eq!(places(&choice, 4, |place| place >= 2), [2, 3, 2].map(Some));
        assert_eq!((choice.choose(4, |_| false), choice.peek(4), choice.peek(0)), (None, Some(3), None));
        assert_eq!(places(&choice, 4, |place| place == 1), [1, 1].map(Some));
        assert_eq!(choice.choose(4, |_| true), Some(2));
    }
}
