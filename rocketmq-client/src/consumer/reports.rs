//! What a consumer knows of itself, for those who ask.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::owned_queue::OwnedQueue;
use crate::env::Env;
use crate::message::MessageQueue;

/// The queues that belong to a consumer, and what is wrong with its topics.
#[derive(Debug, Default)]
pub(super) struct Reports {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    queues: BTreeMap<MessageQueue, Report>,
    /// Why queues of a topic could not be shared out.
    topics: BTreeMap<Arc<str>, (i64, String)>,
    members: Vec<String>,
}

#[derive(Debug, Clone, Default)]
pub(super) struct Report {
    /// Once it is known where to begin.
    pub(super) queue: Option<Arc<OwnedQueue>>,
    /// Why it is not known yet.
    pub(super) trouble: Option<(i64, String)>,
}

impl Reports {
    fn state(&self) -> MutexGuard<'_, State> {
        // Insertions and removals cannot panic half way.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn taken(&self, queue: &MessageQueue) {
        self.state().queues.insert(queue.clone(), Report::default());
    }

    pub(super) fn begun(&self, queue: &MessageQueue, owned: &Arc<OwnedQueue>) {
        self.state().queues.insert(queue.clone(), Report { queue: Some(Arc::clone(owned)), trouble: None });
    }

    pub(super) fn released(&self, queue: &MessageQueue) {
        self.state().queues.remove(queue);
    }

    pub(super) fn not_begun(&self, env: &Env, queue: &MessageQueue, why: &str) {
        if let Some(report) = self.state().queues.get_mut(queue) {
            report.trouble = Some((env.wall_clock_ms(), why.to_owned()));
        }
    }

    pub(super) fn topic(&self, env: &Env, topic: &Arc<str>, trouble: Option<&str>) {
        let mut state = self.state();
        match trouble {
            Some(trouble) => state.topics.insert(Arc::clone(topic), (env.wall_clock_ms(), trouble.to_owned())),
            None => state.topics.remove(topic),
        };
    }

    pub(super) fn members(&self, members: &[String]) {
        self.state().members = members.to_vec();
    }

    pub(super) fn known_members(&self) -> Vec<String> {
        self.state().members.clone()
    }

    pub(super) fn topic_trouble(&self) -> BTreeMap<Arc<str>, (i64, String)> {
        self.state().topics.clone()
    }

    pub(super) fn queues(&self) -> BTreeMap<MessageQueue, Report> {
        self.state().queues.clone()
    }

    pub(super) fn queue(&self, queue: &MessageQueue) -> Option<Arc<OwnedQueue>> {
        self.state().queues.get(queue)?.queue.clone()
    }

    /// Queues whose offset to begin at is known.
    pub(super) fn owned(&self) -> Vec<(MessageQueue, Arc<OwnedQueue>)> {
        let state = self.state();
        let owned =
            state.queues.iter().filter_map(|(queue, report)| Some((queue.clone(), Arc::clone(report.queue.as_ref()?))));
        owned.collect()
    }
}
