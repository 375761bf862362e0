use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Wake;

use super::*;
use crate::error::ErrorKind;

/// Counts how often it is woken.
#[derive(Default)]
struct Count(AtomicUsize);

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

struct Caller {
    count: Arc<Count>,
    waker: Waker,
    ticket: Option<u64>,
}

impl Caller {
    fn new() -> Self {
        let count = Arc::new(Count::default());
        Self { waker: Waker::from(Arc::clone(&count)), count, ticket: None }
    }

    fn woken(&self) -> usize {
        self.count.0.load(Ordering::Relaxed)
    }

    fn admit(
        &mut self,
        table: &mut Pending<u32>,
        bytes: usize,
        deadline: Instant,
    ) -> Poll<Result<Admitted, Ended<u32>>> {
        table.poll_admit(&mut self.ticket, Kind::Call, bytes, deadline, &self.waker)
    }
}

#[expect(clippy::disallowed_methods, reason = "an origin for instants; the time itself does not matter")]
fn origin() -> Instant {
    Instant::now()
}

fn table(requests: usize, bytes: usize) -> Pending<u32> {
    Pending::new(Limits { requests, bytes })
}

fn admitted(poll: Poll<Result<Admitted, Ended<u32>>>) -> Admitted {
    match poll {
        Poll::Ready(Ok(admitted)) => admitted,
        other => panic!("not let through: {other:?}"),
    }
}

/// Lets a request through and counts it as written.
fn sent(table: &mut Pending<u32>, deadline: Instant) -> (Caller, i32) {
    let mut caller = Caller::new();
    let admitted = admitted(caller.admit(table, 1, deadline));
    table.written(1);
    (caller, admitted.opaque)
}

fn complete(table: &mut Pending<u32>, opaque: i32, answer: u32) -> Completion {
    let mut wake = Vec::new();
    let completion = table.complete(opaque, answer, &mut wake);
    wake.into_iter().for_each(Waker::wake);
    completion
}

fn sweep(table: &mut Pending<u32>, now: Instant) -> bool {
    let mut wake = Vec::new();
    let silent = table.sweep(now, &mut wake);
    wake.into_iter().for_each(Waker::wake);
    silent
}

fn answer(table: &mut Pending<u32>, opaque: i32) -> Option<u32> {
    match table.poll_end(opaque, Waker::noop()) {
        Poll::Ready(Ended::Answered(answer)) => Some(answer),
        _ => None,
    }
}

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn an_answer_is_delivered_once() {
    let (mut table, start) = (table(8, 1000), origin());
    let (caller, opaque) = sent(&mut table, start + SECOND);
    assert_eq!(table.in_flight(), (1, 1));
    assert_eq!(complete(&mut table, opaque, 5), Completion::Delivered);
    assert_eq!(caller.woken(), 1);
    assert_eq!(table.in_flight(), (0, 0));
    assert_eq!(complete(&mut table, opaque, 6), Completion::Unexpected, "a duplicate before the first is fetched");
    assert_eq!(answer(&mut table, opaque), Some(5));
    assert_eq!(complete(&mut table, opaque, 7), Completion::Unexpected, "a duplicate after it");
    assert_eq!((table.unexpected(), table.occupied()), (2, 0));
}

#[test]
fn a_late_answer_does_not_meet_the_next_request() {
    let (mut table, start) = (table(8, 1000), origin());
    let (_, late) = sent(&mut table, start + SECOND);
    table.abandon(late);
    let (_, next) = sent(&mut table, start + SECOND);
    assert_ne!(late, next);
    assert_eq!(complete(&mut table, late, 1), Completion::Unexpected);
    assert_eq!(complete(&mut table, next, 2), Completion::Delivered);
    assert_eq!(answer(&mut table, next), Some(2));
}

#[test]
fn slots_of_abandoned_requests_are_used_last() {
    let (mut table, start) = (table(8, 1000), origin());
    let opaques: Vec<_> = (0..4).map(|_| sent(&mut table, start + SECOND).1).collect();
    table.abandon(opaques[0]);
    for &opaque in &opaques[1..] {
        complete(&mut table, opaque, 0);
        answer(&mut table, opaque);
    }
    let used: Vec<_> = (0..4).map(|_| parts(sent(&mut table, start + SECOND).1).1).collect();
    assert_eq!(used, [3, 2, 1, 0]);
}

#[test]
fn opaques_wrap_through_negative_numbers_and_stay_apart() {
    let (mut table, start) = (table(1, 1000), origin());
    let mut seen = std::collections::HashSet::new();
    for round in 0..=u32::from(u16::MAX) {
        let (_, opaque) = sent(&mut table, start + SECOND);
        assert!(seen.insert(opaque));
        assert_eq!(complete(&mut table, opaque, round), Completion::Delivered);
        assert_eq!(answer(&mut table, opaque), Some(round));
    }
    assert!(seen.iter().any(|&opaque| opaque < 0));
    assert_eq!(sent(&mut table, start + SECOND).1, 0, "all generations of the slot were used");
}

#[test]
fn numbers_that_were_never_given_out_are_counted() {
    let mut table = table(8, 1000);
    for opaque in [0, 1, -1, i32::MAX, i32::MIN] {
        assert_eq!(complete(&mut table, opaque, 0), Completion::Unexpected);
    }
    assert_eq!(table.unexpected(), 5);
}

#[test]
fn callers_beyond_a_limit_wait_in_order() {
    let (mut table, start) = (table(2, 1000), origin());
    let (_, first) = sent(&mut table, start + SECOND);
    let (_, second) = sent(&mut table, start + SECOND);
    let (mut third, mut fourth) = (Caller::new(), Caller::new());
    assert!(third.admit(&mut table, 1, start + SECOND).is_pending());
    assert!(fourth.admit(&mut table, 1, start + SECOND).is_pending());
    assert_eq!(table.queued(), 2);
    complete(&mut table, first, 0);
    assert_eq!((third.woken(), fourth.woken()), (1, 0));
    assert!(fourth.admit(&mut table, 1, start + SECOND).is_pending(), "it is not its turn");
    let third = admitted(third.admit(&mut table, 1, start + SECOND));
    assert!(!third.alone);
    assert!(fourth.admit(&mut table, 1, start + SECOND).is_pending());
    complete(&mut table, second, 0);
    assert_eq!(fourth.woken(), 1);
    admitted(fourth.admit(&mut table, 1, start + SECOND));
    assert_eq!(table.queued(), 0);
}

#[test]
fn bytes_are_limited_and_a_giant_goes_alone() {
    let (mut table, start) = (table(8, 100), origin());
    let deadline = start + SECOND;
    let mut giant = Caller::new();
    let giant_opaque = admitted(giant.admit(&mut table, 500, deadline)).opaque;
    let mut small = Caller::new();
    assert!(small.admit(&mut table, 1, deadline).is_pending());
    complete(&mut table, giant_opaque, 0);
    assert_eq!(small.woken(), 0, "answered, but not written: the memory is still used");
    table.written(500).expect("there is room now").wake();
    assert_eq!(small.woken(), 1);
    admitted(small.admit(&mut table, 1, deadline));
    let mut other_giant = Caller::new();
    assert!(other_giant.admit(&mut table, 500, deadline).is_pending());
}

#[test]
fn one_way_requests_need_no_slot_but_room() {
    let (mut table, start) = (table(1, 100), origin());
    sent(&mut table, start + SECOND);
    let mut caller = Caller::new();
    let mut one_way = |table: &mut Pending<u32>| {
        table.poll_admit(&mut caller.ticket, Kind::OneWay, 60, start + SECOND, Waker::noop())
    };
    let first = admitted(one_way(&mut table));
    assert_eq!(parts(first.opaque).1, NO_SLOT);
    assert!(one_way(&mut table).is_pending());
    table.written(60);
    assert_ne!(admitted(one_way(&mut table)).opaque, first.opaque);
    assert_eq!(table.in_flight(), (1, 1));
}

#[test]
fn a_caller_that_leaves_the_queue_lets_the_next_through() {
    let (mut table, start) = (table(1, 1000), origin());
    let (_, opaque) = sent(&mut table, start + SECOND);
    let (mut first, mut second) = (Caller::new(), Caller::new());
    assert!(first.admit(&mut table, 1, start + SECOND).is_pending());
    assert!(second.admit(&mut table, 1, start + SECOND).is_pending());
    complete(&mut table, opaque, 0);
    answer(&mut table, opaque);
    table.leave(first.ticket.expect("queued")).expect("there is room for the second").wake();
    assert_eq!(second.woken(), 1);
    admitted(second.admit(&mut table, 1, start + SECOND));
}

#[test]
fn deadlines_end_requests_and_queued_callers() {
    let (mut table, start) = (table(2, 1000), origin());
    let (early, early_opaque) = sent(&mut table, start + SECOND);
    let (_, late_opaque) = sent(&mut table, start + 3 * SECOND);
    let mut queued = Caller::new();
    assert!(queued.admit(&mut table, 1, start + 2 * SECOND).is_pending());
    assert!(!table.hasten(start + 2 * SECOND));
    assert_eq!(table.earliest(), Some(start + SECOND));
    sweep(&mut table, start + SECOND - Duration::from_millis(1));
    assert_eq!(early.woken(), 0);
    sweep(&mut table, start + SECOND);
    assert_eq!((early.woken(), queued.woken()), (1, 1), "the second because there is room now");
    assert!(matches!(table.poll_end(early_opaque, Waker::noop()), Poll::Ready(Ended::TimedOut)));
    assert_eq!(table.earliest(), Some(start + 2 * SECOND));
    sweep(&mut table, start + 2 * SECOND);
    assert!(matches!(queued.admit(&mut table, 1, start + 2 * SECOND), Poll::Ready(Err(Ended::TimedOut))));
    assert_eq!(table.earliest(), Some(start + 3 * SECOND));
    complete(&mut table, late_opaque, 1);
    sweep(&mut table, start + 3 * SECOND);
    assert_eq!(table.earliest(), None);
    assert_eq!(answer(&mut table, late_opaque), Some(1));
}

#[test]
fn closing_ends_everything_with_the_first_cause() {
    let (mut table, start) = (table(1, 1000), origin());
    let (caller, opaque) = sent(&mut table, start + SECOND);
    let mut queued = Caller::new();
    assert!(queued.admit(&mut table, 1, start + SECOND).is_pending());
    let mut wake = Vec::new();
    assert!(table.close(&Error::new(ErrorKind::Protocol, "first"), &mut wake));
    assert!(!table.close(&Error::new(ErrorKind::Closed, "second"), &mut wake));
    wake.into_iter().for_each(Waker::wake);
    assert_eq!((caller.woken(), queued.woken()), (1, 1));
    let Poll::Ready(Ended::Failed(cause)) = table.poll_end(opaque, Waker::noop()) else { panic!("not failed") };
    assert_eq!(cause.kind(), ErrorKind::Protocol);
    let Poll::Ready(Err(Ended::Failed(cause))) = queued.admit(&mut table, 1, start + SECOND) else {
        panic!("let through")
    };
    assert_eq!(cause.kind(), ErrorKind::Protocol);
    assert_eq!((table.in_flight(), table.occupied(), table.queued()), ((0, 0), 0, 0));
}

#[test]
fn refusing_lets_go_on_what_is_under_way() {
    let (mut table, start) = (table(1, 1000), origin());
    let (_, opaque) = sent(&mut table, start + SECOND);
    let mut wake = Vec::new();
    table.refuse(Error::new(ErrorKind::Connection, "going"), true, &mut wake);
    assert!(table.finished().is_none(), "an answer is awaited");
    assert!(matches!(Caller::new().admit(&mut table, 1, start + SECOND), Poll::Ready(Err(Ended::Failed(_)))));
    complete(&mut table, opaque, 9);
    assert!(table.finished().is_some());
    assert_eq!(answer(&mut table, opaque), Some(9));
}

#[test]
fn a_peer_is_dead_after_two_requests_in_a_row_without_a_byte() {
    let (mut table, start) = (table(8, 1000), origin());
    sent(&mut table, start + SECOND);
    sent(&mut table, start + SECOND);
    assert!(!sweep(&mut table, start + SECOND), "requests that were under way together count once");
    sent(&mut table, start + 2 * SECOND);
    assert!(sweep(&mut table, start + 2 * SECOND));
}

#[test]
fn a_slow_peer_is_not_dead() {
    let (mut table, start) = (table(8, 1000), origin());
    let mut now = start;
    for _ in 0..5 {
        let (_, opaque) = sent(&mut table, now + SECOND);
        now += SECOND;
        assert!(!sweep(&mut table, now));
        // The answer comes after its request has ended.
        table.received();
        assert_eq!(complete(&mut table, opaque, 0), Completion::Unexpected);
    }
    // Deadlines far below what the network needs do not condemn it in no time.
    for _ in 0..5 {
        sent(&mut table, now + SECOND / 100);
        now += SECOND / 100;
        assert!(!sweep(&mut table, now));
    }
}
