//! Which queue the next free handler takes messages from: all in turn, one batch each.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Semaphore;

use super::message_view::MessageView;
use super::owned_queue::OwnedQueue;
use super::process_queue::Ticket;
use crate::env::Env;

/// The queues with messages that wait for a handler. A queue stands here once, however many wait in it.
#[derive(Debug)]
pub(super) struct Dispatch {
    ready: Mutex<VecDeque<Arc<OwnedQueue>>>,
    /// As many permits as queues are ready.
    permits: Semaphore,
}

/// Messages of one queue for a handler, with what to report to.
pub(super) struct Work {
    pub(super) queue: Arc<OwnedQueue>,
    pub(super) messages: Vec<(Ticket, MessageView)>,
}

impl Dispatch {
    pub(super) fn new() -> Self {
        Self { ready: Mutex::default(), permits: Semaphore::new(0) }
    }

    fn ready(&self) -> MutexGuard<'_, VecDeque<Arc<OwnedQueue>>> {
        // A push or a pop cannot panic half way.
        self.ready.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lists a queue; it must not be listed already.
    pub(super) fn list(&self, queue: Arc<OwnedQueue>) {
        self.ready().push_back(queue);
        self.permits.add_permits(1);
    }

    /// Messages of a queue are done for good.
    pub(super) fn finish(&self, queue: &Arc<OwnedQueue>, tickets: impl IntoIterator<Item = Ticket>) {
        if queue.finish(tickets) {
            self.list(Arc::clone(queue));
        }
    }

    /// The next messages, at most so many; `None` when the consumer has stopped. Dropping the future takes nothing.
    pub(super) async fn next(&self, env: &Env, most: usize) -> Option<Work> {
        loop {
            self.permits.acquire().await.ok()?.forget();
            let queue = self.ready().pop_front();
            let Some(queue) = queue else { continue };
            // A queue that was stopped meanwhile has nothing.
            let Some(taken) = queue.take(most, env.now()) else { continue };
            if taken.more {
                self.list(Arc::clone(&queue));
            }
            return Some(Work { queue, messages: taken.messages });
        }
    }

    /// Ends all waiting for messages, at once and for good.
    pub(super) fn close(&self) {
        self.permits.close();
    }
}
