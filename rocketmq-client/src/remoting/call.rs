//! The waits of a request: to be handed over, for others to add their frames, for the answer.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use bytes::Bytes;
use rocketmq_wire::request::Request;

use super::connection::{Connection, Shared, lock};
use super::output::Turn;
use super::pending::{Admitted, Ended, Kind};
use super::response::Answered;
use crate::error::{Outcome, Result};

/// Waits to be let through, and hands the request over then.
pub(super) struct Handing<'a, R> {
    pub(super) shared: &'a Shared,
    pub(super) ticket: Option<u64>,
    pub(super) kind: Kind,
    pub(super) request: &'a R,
    pub(super) body: &'a Bytes,
    pub(super) deadline: Instant,
}

impl<R: Request> Future for Handing<'_, R> {
    type Output = Result<(Admitted, Turn)>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Self { shared, ticket, kind, request, body, deadline } = self.get_mut();
        shared.poll_hand_over(ticket, *kind, *request, body, *deadline, cx.waker())
    }
}

impl<R> Drop for Handing<'_, R> {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket {
            let next = lock(&self.shared.exchange).pending.leave(ticket);
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
        this.shared.redeem(this.claim);
        Poll::Ready(())
    }
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        if !self.ended {
            self.shared.leave_claim(self.claim);
        }
    }
}

impl Shared {
    /// Writes under a claim, unless somebody else has taken over.
    fn redeem(&self, claim: u64) {
        let begun = lock(&self.exchange).output.begin(claim);
        if begun {
            self.lead();
        }
    }

    /// Leaves what a claim stands for to the connection's task.
    fn leave_claim(&self, claim: u64) {
        let mut exchange = lock(&self.exchange);
        if exchange.output.claim() == Some(claim) {
            exchange.output.hand_over();
            drop(exchange);
            self.driver.wake();
        }
    }
}

/// What leads to a connection.
pub(crate) trait Way {
    /// The connection.
    fn connection(&self) -> &Connection;
}

impl Way for &Connection {
    fn connection(&self) -> &Connection {
        self
    }
}

/// What a connection gives for a request that it took: an [`InFlight`] must be made of it at once.
#[must_use = "nobody else gives the request up"]
pub(crate) struct Handed {
    pub(super) admitted: Admitted,
    pub(super) turn: Turn,
}

/// A request that was handed to a connection; awaited, its answer. Dropped before, it gives the request up.
///
/// Who has the connection in a larger thing needs no handle on it besides.
pub(crate) struct InFlight<W: Way> {
    /// `None` once it was taken back.
    way: Option<W>,
    opaque: i32,
    step: Step,
}

#[derive(Clone, Copy)]
enum Step {
    /// Made in the poll that is under way, whose waker was left with the request: there is nothing to ask yet.
    Made,
    /// As `Made`, and others are to add their frames before all are written.
    Claimed(u64),
    /// The others have had their turn.
    Yielded(u64),
    /// The answer is what is waited for.
    Waiting,
    Ended,
}

impl<W: Way> InFlight<W> {
    /// To be polled in the poll that handed the request over, to the connection that `way` leads to.
    #[inline]
    pub(crate) fn new(way: W, handed: Handed) -> Self {
        let step = match handed.turn {
            Turn::Claim(claim) => Step::Claimed(claim),
            Turn::Follow | Turn::Write => Step::Made,
        };
        Self { way: Some(way), opaque: handed.admitted.opaque, step }
    }

    /// What leads to the connection that the answer came by.
    pub(crate) fn into_way(mut self) -> Option<W> {
        self.end();
        self.way.take()
    }

    fn poll_answer(&mut self, cx: &mut Context<'_>) -> Poll<Result<Answered>> {
        let Some(way) = &self.way else { return Poll::Pending };
        let shared = &way.connection().0;
        match self.step {
            Step::Made => {
                self.step = Step::Waiting;
                return Poll::Pending;
            }
            Step::Claimed(claim) => {
                self.step = Step::Yielded(claim);
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            Step::Yielded(claim) => {
                self.step = Step::Waiting;
                shared.redeem(claim);
            }
            Step::Waiting => {}
            // As any future that is polled once more after its end may do.
            Step::Ended => return Poll::Pending,
        }
        let mut exchange = lock(&shared.exchange);
        let Poll::Ready(ended) = exchange.pending.poll_end(self.opaque, cx.waker()) else { return Poll::Pending };
        self.step = Step::Ended;
        let next = exchange.pending.front();
        drop(exchange);
        if let Some(next) = next {
            next.wake();
        }
        Poll::Ready(match ended {
            Ended::Answered(answered) => Ok(answered),
            ended => Err(shared.error(ended, Outcome::Unknown)),
        })
    }
}

impl<W: Way + Unpin> Future for InFlight<W> {
    type Output = Result<Answered>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.get_mut().poll_answer(cx)
    }
}

impl<W: Way> InFlight<W> {
    /// Gives the request up unless it has ended.
    fn end(&mut self) {
        let Some(way) = &self.way else { return };
        let shared = &way.connection().0;
        match self.step {
            Step::Ended => return,
            Step::Claimed(claim) | Step::Yielded(claim) => shared.leave_claim(claim),
            Step::Made | Step::Waiting => {}
        }
        let next = lock(&shared.exchange).pending.abandon(self.opaque);
        next.into_iter().for_each(Waker::wake);
        self.step = Step::Ended;
    }
}

impl<W: Way> Drop for InFlight<W> {
    #[inline]
    fn drop(&mut self) {
        self.end();
    }
}
