//! One queue that this consumer reads, as its pull worker and the handlers share it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use super::flow_control::{Excess, Limits, Load};
use super::message_view::{MessageView, Origin};
use super::order::Order;
use super::process_queue::{ProcessQueue, Ticket};
use super::window::Window;
use crate::env::Env;

/// A queue in use. Made when the offset to begin at is known; gone when the queue has been given away and the last handler
/// has let go of it.
#[derive(Debug)]
pub(super) struct OwnedQueue {
    origin: Arc<Origin>,
    order: Order,
    state: Mutex<State>,
    notes: Mutex<Notes>,
    /// Notified when the queue may be pulled again.
    room: Notify,
    /// Notified when the last running handler of a stopping queue ends.
    idle: Notify,
    /// Notified when an administrator has moved the position.
    moved: Notify,
    /// Notified when the offset is to be stored now.
    commit_wanted: Notify,
}

#[derive(Debug)]
struct State {
    messages: ProcessQueue<MessageView>,
    limits: Limits,
    phase: Phase,
    /// Whether it stands in the list of queues that handlers take from.
    listed: bool,
    waits_for_room: bool,
    /// When the broker's lock on it counts as expired; `None` without one. Always valid where none is needed.
    locked_until: Option<Instant>,
    needs_lock: bool,
    paused: bool,
}

/// What is remembered for those who ask. Times are in milliseconds since 1970, 0 for never.
#[derive(Debug, Clone, Default)]
pub(super) struct Notes {
    pub(super) window: Window,
    pub(super) last_consume_ms: i64,
    pub(super) last_pull_ms: i64,
    pub(super) last_lock_ms: i64,
    /// What went wrong last, and when.
    pub(super) trouble: Option<(i64, String)>,
    /// The bounds of the queue as its broker said last.
    pub(super) broker_bounds: Option<(i64, i64)>,
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
    pub(super) messages: Vec<(Ticket, MessageView)>,
    /// Whether more is waiting, so that the queue has to be listed again.
    pub(super) more: bool,
}

/// How much of a queue is where.
#[derive(Debug, Clone, Copy)]
pub(super) struct Content {
    pub(super) load: Load,
    pub(super) bounds: Option<(i64, i64)>,
    pub(super) running: usize,
    pub(super) position: i64,
    pub(super) committable: i64,
    pub(super) excess: Option<Excess>,
}

impl OwnedQueue {
    pub(super) fn new(origin: Arc<Origin>, limits: Limits, position: i64, order: Order, needs_lock: bool) -> Self {
        let state = State {
            messages: ProcessQueue::new(position, order.has_lanes()),
            limits,
            phase: Phase::Active,
            listed: false,
            waits_for_room: false,
            locked_until: None,
            needs_lock,
            paused: false,
        };
        let notes = Mutex::default();
        Self {
            origin,
            order,
            state: Mutex::new(state),
            notes,
            room: Notify::new(),
            idle: Notify::new(),
            moved: Notify::new(),
            commit_wanted: Notify::new(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Only a broken invariant of the process queue could panic in here, and that has tests of its own.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note(&self) -> MutexGuard<'_, Notes> {
        // Numbers and a text are written in there.
        self.notes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn notes(&self) -> Notes {
        self.note().clone()
    }

    /// A handler has ended: so many messages have succeeded, or failed, together after so long.
    pub(super) fn note_consumed(&self, now_ms: i64, messages: usize, succeeded: bool, took: Duration) {
        let mut notes = self.note();
        notes.last_consume_ms = now_ms;
        notes.window.consumed(now_ms, messages, succeeded, took);
    }

    /// A pull was answered: with so many messages, after so long, and these bounds of the queue.
    pub(super) fn note_pulled(&self, env: &Env, messages: usize, took: Duration, bounds: (i64, i64)) {
        let now_ms = env.wall_clock_ms();
        let mut notes = self.note();
        notes.broker_bounds = Some(bounds);
        notes.window.pulled(now_ms, messages, took);
    }

    pub(super) fn note_bounds(&self, bounds: (i64, i64)) {
        self.note().broker_bounds = Some(bounds);
    }

    pub(super) fn note_pull(&self, env: &Env) {
        self.note().last_pull_ms = env.wall_clock_ms();
    }

    pub(super) fn note_trouble(&self, env: &Env, what: &str) {
        self.note().trouble = Some((env.wall_clock_ms(), what.to_owned()));
    }

    pub(super) fn origin(&self) -> &Arc<Origin> {
        &self.origin
    }

    pub(super) fn order(&self) -> &Order {
        &self.order
    }

    /// Where the next pull begins.
    pub(super) fn position(&self) -> i64 {
        self.state().messages.position()
    }

    /// The offset to commit.
    pub(super) fn committable(&self) -> i64 {
        self.state().messages.committable()
    }

    pub(super) fn content(&self) -> Content {
        let state = self.state();
        let load = state.messages.load();
        Content {
            load,
            bounds: state.messages.bounds(),
            running: state.messages.running(),
            position: state.messages.position(),
            committable: state.messages.committable(),
            excess: state.limits.exceeded_by(load),
        }
    }

    /// Waits until there is room for another answer and the queue is not paused; calls `wait` with the limit if it is one
    /// that it has to wait for.
    pub(super) async fn room(&self, mut wait: impl FnMut(Excess)) {
        let mut is_first = true;
        loop {
            {
                let mut state = self.state();
                let excess = state.limits.exceeded_by(state.messages.load());
                if excess.is_none() && !state.paused {
                    return;
                }
                state.waits_for_room = true;
                if let Some(excess) = excess.filter(|_| is_first) {
                    wait(excess);
                    is_first = false;
                }
            }
            self.room.notified().await;
        }
    }

    /// Sets how much may be in memory.
    pub(super) fn limit(&self, limits: Limits) {
        self.state().limits = limits;
        self.room.notify_one();
    }

    /// Stops or resumes pulling. What is in memory is still handled.
    pub(super) fn pause(&self, paused: bool) {
        self.state().paused = paused;
        self.room.notify_one();
    }

    pub(super) fn is_paused(&self) -> bool {
        self.state().paused
    }

    /// Takes in the messages of an answer; see [`ProcessQueue::insert`]. Returns how many were left out, and whether the
    /// queue has to be listed for handlers.
    pub(super) fn insert(&self, messages: Vec<(i64, MessageView)>, bytes: usize, next: i64) -> (usize, bool) {
        let order = &self.order;
        let messages = messages.into_iter().map(|(offset, message)| (offset, order.lane(&message), message));
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
        self.move_by(|messages| messages.rewind(next));
    }

    /// Moves to `next`, and forgets all that is in memory.
    pub(super) fn jump_to(&self, next: i64) {
        self.move_by(|messages| messages.jump_to(next));
    }

    fn move_by(&self, change: impl FnOnce(&mut ProcessQueue<MessageView>)) {
        let mut state = self.state();
        change(&mut state.messages);
        state.waits_for_room = false;
        drop(state);
        self.room.notify_one();
    }

    /// Moves to an offset that an administrator has set, and has it stored.
    pub(super) fn reset_to(&self, offset: i64) {
        self.jump_to(offset);
        self.moved.notify_one();
        self.commit_wanted.notify_one();
    }

    /// Waits until the position is moved from outside.
    pub(super) async fn moved(&self) {
        self.moved.notified().await;
    }

    /// Waits until the offset is to be stored before its time.
    pub(super) async fn commit_wanted(&self) {
        self.commit_wanted.notified().await;
    }

    /// The next messages for a handler. The queue is no longer listed then, unless there is more.
    pub(super) fn take(&self, most: usize, now: Instant) -> Option<Taken> {
        let mut state = self.state();
        let messages = if state.may_be_handled(now) { state.messages.take(most, now) } else { Vec::new() };
        let more = !messages.is_empty() && state.messages.has_waiting();
        state.listed = more;
        (!messages.is_empty()).then_some(Taken { messages, more })
    }

    /// Messages are done for good. Returns whether the queue has to be listed for handlers.
    pub(super) fn finish(&self, tickets: impl IntoIterator<Item = Ticket>) -> bool {
        self.change(|messages| messages.finish(tickets))
    }

    /// A message is not done, and will be [`requeue`](Self::requeue)d as what it is now. Returns whether the queue has to
    /// be listed for handlers.
    pub(super) fn set_aside(&self, ticket: Ticket, message: MessageView) -> bool {
        self.change(|messages| messages.set_aside(ticket, message))
    }

    fn change(&self, change: impl FnOnce(&mut ProcessQueue<MessageView>)) -> bool {
        let mut state = self.state();
        change(&mut state.messages);
        let room = state.waits_for_room && state.limits.exceeded_by(state.messages.load()).is_none();
        if room {
            state.waits_for_room = false;
        }
        let (idle, list) = (state.is_idle(), state.list());
        drop(state);
        if room {
            self.room.notify_one();
        }
        if idle {
            self.idle.notify_one();
        }
        list
    }

    /// Makes a message that was set aside available to handlers. Returns whether the queue has to be listed.
    pub(super) fn requeue(&self, ticket: Ticket) -> bool {
        let mut state = self.state();
        state.phase == Phase::Active && state.messages.requeue(ticket) && state.list()
    }

    /// The first message, if a handler has had it for so long.
    pub(super) fn expired(&self, now: Instant, timeout: Duration) -> Option<(Ticket, MessageView)> {
        let state = self.state();
        let first = state.messages.bounds().filter(|_| state.phase == Phase::Active)?.0;
        self.origin.forget_extensions(first);
        state.messages.expired(now, timeout.saturating_add(self.origin.extension(first)))
    }

    /// Gives up the first message if it is still that one. Returns whether it was.
    pub(super) fn give_up(&self, ticket: Ticket) -> bool {
        let mut given_up = false;
        // A lane is never given up, so nothing becomes available to handlers.
        self.change(|messages| given_up = messages.give_up(ticket));
        given_up
    }

    /// The broker has locked the queue for this client until then. Returns whether it has to be listed for handlers.
    pub(super) fn lock_until(&self, until: Instant, now_ms: i64) -> bool {
        self.note().last_lock_ms = now_ms;
        let mut state = self.state();
        state.locked_until = Some(until);
        state.list()
    }

    /// The broker no longer locks the queue for this client.
    pub(super) fn lose_lock(&self) {
        self.state().locked_until = None;
    }

    /// Whether handlers may work on it, as far as locks go, and offsets be stored.
    pub(super) fn is_locked(&self, now: Instant) -> bool {
        self.state().is_locked(now)
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
        let may_be = !self.needs_lock || self.locked_until.is_some();
        let list = !self.listed && may_be && self.phase == Phase::Active && self.messages.has_waiting();
        self.listed |= list;
        list
    }

    fn is_locked(&self, now: Instant) -> bool {
        !self.needs_lock || self.locked_until.is_some_and(|until| now < until)
    }

    fn may_be_handled(&self, now: Instant) -> bool {
        self.phase == Phase::Active && self.is_locked(now)
    }

    fn is_idle(&self) -> bool {
        self.phase != Phase::Active && self.messages.running() == 0
    }
}
