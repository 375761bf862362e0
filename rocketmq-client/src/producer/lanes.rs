//! What a send needs to know when all is well, in one place: the next queue of its topic and the connection to its broker.
//!
//! Everything here is a copy of what the route cache and the pool know, made when a send had to ask them. A route that
//! has changed is noticed by its number, a connection that is lost when it refuses a request; both send the next message
//! the long way, which brings the copy up to date.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Target, Targets, TopicQueues};
use crate::remoting::{Connection, Way};

/// The known ways of a producer's messages, and how many sends began; under one lock.
#[derive(Default)]
pub(super) struct Lanes {
    /// Sends that have begun.
    pub(super) begun: usize,
    /// Whether no more may begin.
    closed: bool,
    by_topic: BTreeMap<Arc<str>, Lane>,
}

/// The queues of one topic.
struct Lane {
    topic: Arc<TopicQueues>,
    /// The state of the route that this was made of.
    changes: u64,
    /// By place in the route; `None` where no connection is known.
    ways: Vec<Option<Arc<KnownWay>>>,
}

/// A queue and the connection to its broker, in one: whatever follows a message shares one count.
pub(super) struct KnownWay {
    pub(super) target: Arc<Target>,
    pub(super) connection: Connection,
}

impl Way for Arc<KnownWay> {
    fn connection(&self) -> &Connection {
        &self.connection
    }
}

impl Lanes {
    /// Whether no more may begin.
    pub(super) fn is_closed(&self) -> bool {
        self.closed
    }

    /// The queue whose turn it is, and its broker's connection; `None` when something about them is not known, which
    /// takes no turn.
    #[inline]
    pub(super) fn next(&self, topic: &str) -> Option<Arc<KnownWay>> {
        let lane = self.by_topic.get(topic)?;
        if lane.topic.topic.changes() != lane.changes {
            return None;
        }
        let way = lane.ways[lane.topic.choice.peek(lane.ways.len())?].clone()?;
        lane.topic.choice.pass(1);
        Some(way)
    }

    /// Keeps the way by which the queue at a place of the route was reached.
    pub(super) fn learn(&mut self, topic: &Arc<TopicQueues>, targets: &Targets, place: usize, way: Arc<KnownWay>) {
        if self.closed {
            return;
        }
        let count = targets.queues.len();
        let lane = self.by_topic.entry(Arc::clone(topic.topic.shared_name())).or_insert_with(|| Lane {
            topic: Arc::clone(topic),
            changes: targets.changes,
            ways: vec![None; count],
        });
        if lane.changes != targets.changes {
            (lane.changes, lane.ways) = (targets.changes, vec![None; count]);
        }
        if let Some(known) = lane.ways.get_mut(place) {
            *known = Some(way);
        }
    }

    /// Lets no more begin, and forgets the ways.
    pub(super) fn close(&mut self) {
        self.closed = true;
        self.by_topic.clear();
    }
}
