//! Pulls that wait for messages (long polls).

use std::collections::HashMap;
use std::time::Duration;

use rocketmq_wire::request::pull::PullMessageRequest;

use crate::filter::Filter;
use crate::reply::{ConnectionId, Peer, ReturnAddress};
use crate::store::{Arrival, MessageFilter};

/// Held pulls are looked at this often, whether a message came or not.
pub(crate) const SCAN_INTERVAL: Duration = Duration::from_secs(5);

/// No more pulls are held at once; those beyond are answered at once.
const MOST_HELD: usize = 100_000;

/// A pull that waits.
#[derive(Debug)]
pub(crate) struct HeldPull {
    pub(crate) peer: Peer,
    pub(crate) to: ReturnAddress,
    pub(crate) request: PullMessageRequest<'static>,
    /// What ends the wait; a message that does not pass leaves it held.
    pub(crate) filter: Filter,
    /// Session time at which the pull is answered whatever has come.
    pub(crate) deadline: Duration,
}

/// Held pulls by topic and queue.
#[derive(Debug, Default)]
pub(crate) struct HeldPulls {
    topics: HashMap<String, HashMap<i32, Vec<HeldPull>>>,
    count: usize,
    woken: Vec<HeldPull>,
}

impl HeldPulls {
    /// Whether one more pull can be held.
    pub(crate) fn has_room(&self) -> bool {
        self.count < MOST_HELD
    }

    /// Whether no pull is held.
    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The connection whose pull of a group waits for a queue.
    pub(crate) fn connection_of(&self, group: &str, topic: &str, queue_id: i32) -> Option<ConnectionId> {
        let pulls = self.topics.get(topic)?.get(&queue_id)?;
        pulls.iter().find(|pull| pull.request.consumer_group == group).map(|pull| pull.to.connection)
    }

    /// Holds a pull.
    pub(crate) fn hold(&mut self, pull: HeldPull) {
        self.count += 1;
        if !self.topics.contains_key(&*pull.request.topic) {
            self.topics.insert(pull.request.topic.to_string(), HashMap::new());
        }
        if let Some(queues) = self.topics.get_mut(&*pull.request.topic) {
            queues.entry(pull.request.queue_id).or_default().push(pull);
        }
    }

    /// Wakes the pulls that a message which can now be consumed is for.
    pub(crate) fn message_arrived(&mut self, arrival: &Arrival<'_>) {
        if self.count == 0 {
            return;
        }
        let queues = self.topics.get_mut(arrival.topic);
        let Some(pulls) = queues.and_then(|queues| queues.get_mut(&arrival.queue_id)) else { return };
        let wakes = |pull: &mut HeldPull| {
            u64::try_from(pull.request.queue_offset).is_ok_and(|wanted| wanted <= arrival.queue_offset)
                && pull.filter.matches_tags_code(arrival.tags_code)
                && pull.filter.matches_record(arrival.record.as_bytes())
        };
        self.woken.extend(pulls.extract_if(.., wakes));
    }

    /// Wakes the pulls whose time is up at session time `now`, and those whose queue has grown, as `max_offset` says,
    /// even by messages that they are not for.
    pub(crate) fn scan(&mut self, now: Duration, mut max_offset: impl FnMut(&str, i32) -> u64) {
        for (topic, queues) in &mut self.topics {
            for (&queue_id, pulls) in queues {
                if pulls.is_empty() {
                    continue;
                }
                let max = max_offset(topic, queue_id);
                let is_due = |pull: &mut HeldPull| {
                    pull.deadline <= now || u64::try_from(pull.request.queue_offset).is_ok_and(|wanted| wanted < max)
                };
                self.woken.extend(pulls.extract_if(.., is_due));
            }
        }
        self.drop_empty();
    }

    /// Forgets the pulls of a connection.
    pub(crate) fn remove_connection(&mut self, gone: ConnectionId) {
        let mut removed = 0;
        for pulls in self.topics.values_mut().flat_map(HashMap::values_mut) {
            let before = pulls.len();
            pulls.retain(|pull| pull.to.connection != gone);
            removed += before - pulls.len();
        }
        self.count -= removed;
        self.drop_empty();
    }

    /// Takes the pulls that were woken, in the order in which that happened.
    pub(crate) fn take_woken(&mut self) -> Vec<HeldPull> {
        self.count -= self.woken.len();
        std::mem::take(&mut self.woken)
    }

    fn drop_empty(&mut self) {
        self.topics.retain(|_, queues| {
            queues.retain(|_, pulls| !pulls.is_empty());
            !queues.is_empty()
        });
    }
}
