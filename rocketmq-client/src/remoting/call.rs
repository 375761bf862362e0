//! The three waits of a call: for leave, for others to add their frames, for the answer.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use super::connection::{Shared, lock};
use super::pending::{Admitted, Ended, Kind};
use super::response::Response;
use crate::error::{Outcome, Result};

/// Waits to be let through.
pub(super) struct Admission<'a> {
    pub(super) shared: &'a Shared,
    pub(super) ticket: Option<u64>,
    pub(super) kind: Kind,
    pub(super) bytes: usize,
    pub(super) deadline: Instant,
}

impl Future for Admission<'_> {
    type Output = Result<Admitted>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        let queued = this.ticket.is_some();
        let mut pending = lock(&this.shared.pending);
        let poll = pending.poll_admit(&mut this.ticket, this.kind, this.bytes, this.deadline, cx.waker());
        // Whoever leaves the queue makes its successor the first.
        let next = if queued && poll.is_ready() { pending.front() } else { None };
        let hasten = !queued && poll.is_pending() && pending.hasten(this.deadline);
        drop(pending);
        next.into_iter().for_each(Waker::wake);
        if hasten {
            this.shared.driver.wake();
        }
        if poll.is_ready() {
            this.ticket = None;
        }
        poll.map_err(|ended| this.shared.error(ended, Outcome::NotSent))
    }
}

impl Drop for Admission<'_> {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket {
            let next = lock(&self.shared.pending).leave(ticket);
            next.into_iter().for_each(Waker::wake);
        }
    }
}

/// Lets others add their frames, then writes for all. Dropped half way, it leaves the lead to the connection's task.
pub(super) struct Claim<'a> {
    pub(super) shared: &'a Shared,
    pub(super) claim: u64,
    pub(super) yielded: bool,
    pub(super) ended: bool,
}

impl Future for Claim<'_> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = self.get_mut();
        if !this.yielded {
            this.yielded = true;
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        this.ended = true;
        let begun = lock(&this.shared.output).begin(this.claim);
        if begun {
            this.shared.lead();
        }
        Poll::Ready(())
    }
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        if self.ended {
            return;
        }
        let mut output = lock(&self.shared.output);
        if output.claim() == Some(self.claim) {
            output.hand_over();
            drop(output);
            self.shared.driver.wake();
        }
    }
}

/// Waits for an answer. Dropped before, it gives the request up.
pub(super) struct Answer<'a> {
    pub(super) shared: &'a Shared,
    pub(super) opaque: i32,
    /// The waker left at admission is that of the poll under way, so there is nothing to ask yet.
    pub(super) registered: bool,
    pub(super) ended: bool,
}

impl Future for Answer<'_> {
    type Output = Result<Response>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        if std::mem::take(&mut this.registered) {
            return Poll::Pending;
        }
        let mut pending = lock(&this.shared.pending);
        let Poll::Ready(ended) = pending.poll_end(this.opaque, cx.waker()) else { return Poll::Pending };
        this.ended = true;
        let next = pending.front();
        drop(pending);
        next.into_iter().for_each(Waker::wake);
        Poll::Ready(match ended {
            Ended::Answered(response) => Ok(response),
            ended => Err(this.shared.error(ended, Outcome::Unknown)),
        })
    }
}

impl Drop for Answer<'_> {
    fn drop(&mut self) {
        if !self.ended {
            let next = lock(&self.shared.pending).abandon(self.opaque);
            next.into_iter().for_each(Waker::wake);
        }
    }
}
