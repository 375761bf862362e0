//! Messages that wait in this client until a handler may have them again.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use super::group::Group;
use super::message_view::MessageView;
use super::owned_queue::OwnedQueue;
use super::process_queue::Ticket;

/// Messages set aside. They stay undone meanwhile, so that no offset passes them.
#[derive(Debug, Default)]
pub(super) struct Redelivery {
    waiting: Mutex<Waiting>,
    added: Notify,
}

#[derive(Debug, Default)]
struct Waiting {
    /// By when they are due, and when several are, in the order in which they came.
    due: BTreeMap<(Instant, u64), (Arc<OwnedQueue>, Ticket)>,
    count: u64,
}

impl Redelivery {
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        // An insertion or a removal cannot panic half way.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets a message aside for a time. It counts as having failed once more, unless the time is zero.
    pub(super) fn set_aside(
        &self,
        group: &Group,
        queue: Arc<OwnedQueue>,
        ticket: Ticket,
        mut message: MessageView,
        wait: Duration,
    ) {
        if !wait.is_zero() {
            message.count_local_retry();
        }
        if queue.set_aside(ticket, message) {
            group.dispatch.list(Arc::clone(&queue));
        }
        let mut waiting = self.waiting();
        let number = waiting.count;
        waiting.count += 1;
        waiting.due.insert((group.env().now() + wait, number), (queue, ticket));
        drop(waiting);
        self.added.notify_one();
    }

    /// Brings messages back when their time has come; ends only by being dropped.
    pub(super) async fn run(group: Arc<Group>) {
        let this = &group.redelivery;
        loop {
            let next = this.waiting().due.keys().next().map(|(due, _)| *due);
            let due = async {
                match next {
                    Some(due) => group.env().sleep_until(due).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                () = due => {}
                () = this.added.notified() => continue,
            }
            let first = this.waiting().due.pop_first();
            if let Some((_, (queue, ticket))) = first
                && queue.requeue(ticket)
            {
                group.dispatch.list(queue);
            }
        }
    }
}
