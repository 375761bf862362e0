//! Which queue the next message goes to.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::cluster::WriteQueue;

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

    /// The place of the next queue: one whose broker is not `avoid` if there is one, else the next in turn.
    ///
    /// `None` when there are no queues.
    pub(super) fn choose(&self, queues: &[Arc<WriteQueue>], avoid: Option<&str>) -> Option<usize> {
        match avoid {
            None => self.choose_where(queues, |_, _| true),
            Some(avoid) => {
                let another = self.choose_where(queues, |_, queue| queue.queue.broker() != avoid);
                another.or_else(|| self.choose_where(queues, |_, _| true))
            }
        }
    }

    /// The place of the next queue in turn that suits; `None` when none does, which takes no turn.
    pub(super) fn choose_where(
        &self,
        queues: &[Arc<WriteQueue>],
        suits: impl Fn(usize, &WriteQueue) -> bool,
    ) -> Option<usize> {
        let first = self.next.load(Ordering::Relaxed).checked_rem(queues.len())?;
        let mut in_turn = (first..queues.len()).chain(0..first);
        let chosen = in_turn.find(|&place| suits(place, &queues[place]))?;
        let steps = if chosen >= first { chosen - first } else { queues.len() - first + chosen };
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
    use crate::message::MessageQueue;

    fn queues(brokers: &[(&str, i32)]) -> Vec<Arc<WriteQueue>> {
        let of_broker = |&(broker, count): &(&str, i32)| {
            let master: Arc<str> = format!("{broker}:10911").into();
            let broker: Arc<str> = broker.into();
            (0..count)
                .map(move |id| WriteQueue::new(MessageQueue::new("t", Arc::clone(&broker), id), Arc::clone(&master)))
        };
        brokers.iter().flat_map(of_broker).collect()
    }

    fn names(choice: &QueueChoice, queues: &[Arc<WriteQueue>], avoid: Option<&str>, count: usize) -> Vec<String> {
        let name = |place: usize| format!("{}{}", queues[place].queue.broker(), queues[place].queue.id());
        (0..count).filter_map(|_| choice.choose(queues, avoid).map(name)).collect()
    }

    #[test]
    fn queues_take_turns_from_a_random_one_on() {
        let queues = queues(&[("a", 2), ("b", 2)]);
        assert_eq!(names(&QueueChoice::new(6), &queues, None, 6), ["b0", "b1", "a0", "a1", "b0", "b1"]);
        assert_eq!(names(&QueueChoice::new(u64::MAX), &queues, None, 2), ["b1", "a0"]);
    }

    #[test]
    fn the_broker_that_failed_is_passed_over_while_there_is_another() {
        let both = queues(&[("a", 2), ("b", 2)]);
        assert_eq!(names(&QueueChoice::new(0), &both, Some("a"), 5), ["b0", "b1", "b0", "b1", "b0"]);
        assert_eq!(names(&QueueChoice::new(0), &queues(&[("a", 2)]), Some("a"), 3), ["a0", "a1", "a0"]);
        assert_eq!(names(&QueueChoice::new(0), &[], Some("a"), 1), [""; 0]);
        let choice = QueueChoice::new(0);
        assert_eq!(choice.choose_where(&both, |_, _| false), None);
        assert_eq!(choice.choose_where(&both, |_, queue| queue.queue.id() == 1), Some(1));
        assert_eq!(choice.choose(&both, None), Some(2));
        assert_eq!(choice.choose_where(&both, |place, _| place == 0), Some(0));
        assert_eq!((choice.peek(4), choice.peek(0)), (Some(1), None));
        assert_eq!(choice.choose(&both, None), Some(1));
    }
}
