//! Which queue the next message goes to.

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

    /// The next queue: one whose broker is not `avoid` if there is one, else the next in turn.
    ///
    /// `None` when there are no queues.
    pub(super) fn choose<'a>(&self, queues: &'a [WriteQueue], avoid: Option<&str>) -> Option<&'a WriteQueue> {
        match avoid {
            None => self.choose_where(queues, |_| true),
            Some(avoid) => {
                let another = self.choose_where(queues, |queue| queue.queue.broker() != avoid);
                another.or_else(|| self.choose_where(queues, |_| true))
            }
        }
    }

    /// The next queue in turn that suits; `None` when none does, which takes no turn.
    pub(super) fn choose_where<'a>(
        &self,
        queues: &'a [WriteQueue],
        suits: impl Fn(&WriteQueue) -> bool,
    ) -> Option<&'a WriteQueue> {
        let first = self.next.load(Ordering::Relaxed).checked_rem(queues.len())?;
        let (before, after) = queues.split_at(first);
        let steps = after.iter().chain(before).position(suits)?;
        // Of two callers at the same time both may get the same queue: turns are fair on the whole.
        self.next.fetch_add(steps + 1, Ordering::Relaxed);
        queues.get((first + steps) % queues.len())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::message::MessageQueue;

    fn queues(brokers: &[(&str, i32)]) -> Vec<WriteQueue> {
        let of_broker = |&(broker, count): &(&str, i32)| {
            let master: Arc<str> = format!("{broker}:10911").into();
            let broker: Arc<str> = broker.into();
            (0..count).map(move |id| WriteQueue {
                queue: MessageQueue::new("t", Arc::clone(&broker), id),
                master: Arc::clone(&master),
            })
        };
        brokers.iter().flat_map(of_broker).collect()
    }

    fn names<'a>(choice: &QueueChoice, queues: &'a [WriteQueue], avoid: Option<&str>, count: usize) -> Vec<String> {
        let name = |queue: &'a WriteQueue| format!("{}{}", queue.queue.broker(), queue.queue.id());
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
        assert_eq!(choice.choose_where(&both, |_| false), None);
        assert_eq!(choice.choose_where(&both, |queue| queue.queue.id() == 1), both.get(1));
        assert_eq!(choice.choose(&both, None), both.get(2));
    }
}
