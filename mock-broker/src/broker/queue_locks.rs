//! Locks on queues, which ordered consumers hold while they work.

use std::collections::HashMap;
use std::time::Duration;

use rocketmq_wire::model::MessageQueue;

/// A lock that is not renewed is free after this.
const LIFETIME: Duration = Duration::from_secs(60);

#[derive(Debug)]
struct Lock {
    client_id: String,
    renewed: Duration,
}

impl Lock {
    fn is_live(&self, now: Duration) -> bool {
        now <= self.renewed + LIFETIME
    }
}

/// Locks by group and queue.
#[derive(Debug, Default)]
pub(crate) struct QueueLocks {
    groups: HashMap<String, HashMap<MessageQueue, Lock>>,
}

impl QueueLocks {
    /// Locks the queues that are free or held by the client already, at session time `now`, and returns them.
    pub(crate) fn lock(
        &mut self,
        now: Duration,
        group: String,
        client_id: &str,
        queues: Vec<MessageQueue>,
    ) -> Vec<MessageQueue> {
        let locks = self.groups.entry(group).or_default();
        let mut locked = Vec::with_capacity(queues.len());
        for queue in queues {
            if locks.get(&queue).is_some_and(|lock| lock.client_id != client_id && lock.is_live(now)) {
                continue;
            }
            locks.insert(queue.clone(), Lock { client_id: client_id.to_owned(), renewed: now });
            locked.push(queue);
        }
        locked
    }

    /// Frees the queues that the client holds.
    pub(crate) fn unlock(&mut self, group: &str, client_id: &str, queues: &[MessageQueue]) {
        if let Some(locks) = self.groups.get_mut(group) {
            locks.retain(|queue, lock| lock.client_id != client_id || !queues.contains(queue));
            if locks.is_empty() {
                self.groups.remove(group);
            }
        }
    }

    /// The client that holds a queue of a group.
    pub(crate) fn holder(&self, now: Duration, group: &str, topic: &str, queue_id: i32) -> Option<&str> {
        let locks = self.groups.get(group)?;
        let found = locks.iter().find(|(queue, _)| queue.topic == topic && queue.queue_id == queue_id);
        found.filter(|(_, lock)| lock.is_live(now)).map(|(_, lock)| lock.client_id.as_str())
    }

    /// Whether any queue of the group is locked, as only ordered consumers do.
    pub(crate) fn is_any_locked(&self, now: Duration, group: &str) -> bool {
        self.groups.get(group).is_some_and(|locks| locks.values().any(|lock| lock.is_live(now)))
    }

    /// Forgets locks that nobody renewed.
    pub(crate) fn expire(&mut self, now: Duration) {
        self.groups.retain(|_, locks| {
            locks.retain(|_, lock| lock.is_live(now));
            !locks.is_empty()
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue(queue_id: i32) -> MessageQueue {
        MessageQueue { topic: "t".to_owned(), broker_name: "b".to_owned(), queue_id }
    }

    #[test]
    fn a_lock_is_left_out_while_another_client_holds_it() {
        let mut locks = QueueLocks::default();
        let at = Duration::from_secs;
        let both = || vec![queue(0), queue(1)];
        assert_eq!(locks.lock(at(0), "g".to_owned(), "a", vec![queue(0)]), [queue(0)]);
        assert_eq!(locks.lock(at(30), "g".to_owned(), "b", both()), [queue(1)]);
        assert_eq!(locks.lock(at(50), "g".to_owned(), "a", both()), [queue(0)]);
        // Held by others means free in another group.
        assert_eq!(locks.lock(at(50), "h".to_owned(), "b", both()), both());
        locks.unlock("g", "b", &both());
        assert_eq!(locks.lock(at(60), "g".to_owned(), "b", both()), [queue(1)]);
        assert_eq!(locks.lock(at(111), "g".to_owned(), "b", both()), both());
        assert!(locks.is_any_locked(at(111), "g"));
        assert!(!locks.is_any_locked(at(172), "g"));
        locks.expire(at(172));
        assert!(locks.groups.is_empty());
    }
}
