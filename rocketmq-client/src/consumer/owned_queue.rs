//! One queue that this consumer reads, as its pull worker and the handlers share it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use super::flow_control::{Excess, Limits};
use super::message_view::{MessageView, Origin};
use super::process_queue::{ProcessQueue, Ticket};

/// A queue in use. Made when the offset to begin at is known; gone when the queue has been given away and the last handler
/// has let go of it.
#[derive(Debug)]
pub(super) struct OwnedQueue {
    origin: Arc<Origin>,
    limits: Limits,
    state: Mutex<State>,
    /// Notified when the queue may be pulled again.
    room: Notify,
    /// Notified when the last running handler of a stopping queue ends.
    idle: Notify,
}

#[derive(Debug)]
struct State {
    messages: ProcessQueue<MessageView>,
    phase: Phase,
    /// Whether it stands in the list of queues that handlers take from.
    listed: bool,
    waits_for_room: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Active,
    /// Handlers that run may end; none begins.
    Stopping,
    /// Given away: what handlers report no longer counts.
    Released,
}

/// What a handler gets.
pub(super) struct Taken {
    pub(super) ticket: Ticket,
    pub(super) message: MessageView,
    /// Whether more is waiting, so that the queue has to be listed again.
    pub(super) more: bool,
}

impl OwnedQueue {
    pub(super) fn new(origin: Arc<Origin>, limits: Limits, position: i64) -> Self {
        let state =
            State { messages: ProcessQueue::new(position), phase: Phase::Active, listed: false, waits_for_room: false };
        Self { origin, limits, state: Mutex::new(state), room: Notify::new(), idle: Notify::new() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Only a broken invariant of the process queue could panic in here, and that has tests of its own.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn origin(&self) -> &Arc<Origin> {
        &self.origin
    }

    /// Where the next pull begins.
    pub(super) fn position(&self) -> i64 {
        self.state().messages.position()
    }

    /// The offset to commit.
    pub(super) fn committable(&self) -> i64 {
        self.state().messages.committable()
    }

    /// Waits until there is room for another answer; calls `pause` if it has to wait.
    pub(super) async fn room(&self, pause: impl FnOnce(Excess)) {
        let mut pause = Some(pause);
        loop {
            {
                let mut state = self.state();
                let Some(excess) = self.limits.exceeded_by(state.messages.load()) else { return };
                state.waits_for_room = true;
                if let Some(pause) = pause.take() {
                    pause(excess);
                }
            }
            self.room.notified().await;
        }
    }

    /// Takes in the messages of an answer; see [`ProcessQueue::insert`]. Returns how many were left out, and whether the
    /// queue has to be listed for handlers.
    pub(super) fn insert(&self, messages: Vec<(i64, MessageView)>, bytes: usize, next: i64) -> (usize, bool) {
        let mut state = self.state();
        let left_out = state.messages.insert(messages, bytes, next);
        (left_out, state.list())
    }

    /// Moves on to `next`: there is nothing for this consumer below it.
    pub(super) fn skip_to(&self, next: i64) {
        self.state().messages.skip_to(next);
    }

    /// Moves back to `next`: everything from there on will be received again.
    pub(super) fn rewind(&self, next: i64) {
        self.state().messages.rewind(next);
    }

    /// The next message for a handler. The queue is no longer listed then, unless there is more.
    pub(super) fn take(&self) -> Option<Taken> {
        let mut state = self.state();
        let taken = if state.phase == Phase::Active { state.messages.take() } else { None };
        let more = taken.is_some() && state.messages.has_waiting();
        state.listed = more;
        let (ticket, message) = taken?;
        Some(Taken { ticket, message, more })
    }

    /// A message is done for good.
    pub(super) fn finish(&self, ticket: Ticket) {
        let mut state = self.state();
        state.messages.finish(ticket);
        let room = state.waits_for_room && self.limits.exceeded_by(state.messages.load()).is_none();
        if room {
            state.waits_for_room = false;
        }
        let idle = state.is_idle();
        drop(state);
        if room {
            self.room.notify_one();
        }
        if idle {
            self.idle.notify_one();
        }
    }

    /// A message could be neither consumed nor handed back, and will be [`requeue`](Self::requeue)d.
    pub(super) fn set_aside(&self) {
        let mut state = self.state();
        state.messages.set_aside();
        let idle = state.is_idle();
        drop(state);
        if idle {
            self.idle.notify_one();
        }
    }

    /// Makes a message that was set aside available to handlers. Returns whether the queue has to be listed.
    pub(super) fn requeue(&self, ticket: Ticket, message: MessageView) -> bool {
        let mut state = self.state();
        state.phase == Phase::Active && state.messages.requeue(ticket, message) && state.list()
    }

    /// Whether the queue is still read here, or being let go.
    pub(super) fn is_released(&self) -> bool {
        self.state().phase == Phase::Released
    }

    /// Hands out nothing more.
    pub(super) fn stop(&self) {
        let mut state = self.state();
        state.phase = Phase::Stopping;
        state.messages.drop_waiting();
    }

    /// Waits until no handler works on a message of this stopped queue.
    pub(super) async fn idle(&self) {
        loop {
            if self.state().is_idle() {
                return;
            }
            self.idle.notified().await;
        }
    }

    /// Lets the queue go; what handlers still report does not count.
    pub(super) fn release(&self) {
        self.state().phase = Phase::Released;
    }
}

impl State {
    /// Whether the queue has to be put into the list, where it stands once.
    fn list(&mut self) -> bool {
        let list = !self.listed && self.phase == Phase::Active && self.messages.has_waiting();
        self.listed |= list;
        list
    }

    fn is_idle(&self) -> bool {
        self.phase != Phase::Active && self.messages.running() == 0
    }
}
