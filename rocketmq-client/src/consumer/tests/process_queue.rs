//! What a process queue keeps to, by examples and at random.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

fn now() -> Instant {
    #[expect(clippy::disallowed_methods, reason = "any instant will do")]
    Instant::now()
}

fn take(queue: &mut ProcessQueue<i64>) -> Option<(Ticket, i64)> {
    queue.take(1, now()).pop()
}

fn filled(offsets: impl IntoIterator<Item = i64>, next: i64) -> ProcessQueue<i64> {
    let mut queue = ProcessQueue::new(0, false);
    assert_eq!(queue.insert(offsets.into_iter().map(|offset| (offset, 0, offset)), 100, next), 0);
    queue
}

#[test]
fn the_smallest_undone_offset_is_committed() {
    let mut queue = filled(0..3, 3);
    let tickets: Vec<_> = std::iter::from_fn(|| take(&mut queue)).map(|(ticket, _)| ticket).collect();
    queue.finish([tickets[2]]);
    queue.finish([tickets[1]]);
    assert_eq!((queue.committable(), queue.load().messages), (0, 1));
    queue.finish([tickets[0]]);
    assert_eq!((queue.committable(), queue.load(), queue.running()), (3, Load::default(), 0));
}

#[test]
fn an_empty_queue_commits_what_the_broker_skipped() {
    let mut queue = filled([4, 7], 20);
    queue.skip_to(30);
    assert_eq!((queue.committable(), queue.position()), (4, 30));
    for _ in 0..2 {
        let (ticket, _) = take(&mut queue).expect("two are waiting");
        queue.finish([ticket]);
    }
    assert_eq!(queue.committable(), 30);
}

#[test]
fn a_message_keeps_its_answer_in_memory() {
    let mut queue = filled(0..2, 2);
    queue.insert([(2, 0, 2)], 11, 3);
    let tickets: Vec<_> = std::iter::from_fn(|| take(&mut queue)).map(|(ticket, _)| ticket).collect();
    queue.finish([tickets[0]]);
    assert_eq!(queue.load().bytes, 111);
    queue.finish([tickets[2]]);
    assert_eq!(queue.load().bytes, 100);
    queue.finish([tickets[1]]);
    assert_eq!(queue.load().bytes, 0);
}

#[test]
fn repetitions_and_offsets_beyond_the_answer_are_left_out() {
    let mut queue = filled([5], 6);
    let left_out = queue.insert([(5, 0, 5), (6, 0, 6), (6, 0, 6), (i64::MAX, 0, 0), (7, 0, 7)], 1, 8);
    assert_eq!(left_out, 3);
    let offsets: Vec<_> = std::iter::from_fn(|| take(&mut queue)).map(|(_, offset)| offset).collect();
    assert_eq!((offsets, queue.load().span), (vec![5, 6, 7], 2));
}

#[test]
fn a_message_set_aside_holds_the_offset_and_comes_again() {
    let mut queue = filled(0..2, 2);
    let (first, message) = take(&mut queue).expect("one is waiting");
    let (second, _) = take(&mut queue).expect("one is waiting");
    queue.set_aside(first, message);
    queue.finish([second]);
    assert_eq!((queue.committable(), queue.running()), (0, 0));
    assert!(queue.requeue(first));
    let (again, _) = take(&mut queue).expect("it came back");
    assert_eq!(again, first);
    queue.finish([again]);
    assert_eq!(queue.committable(), 2);
    assert!(!queue.requeue(first));
}

#[test]
fn after_a_rewind_late_reports_do_not_count() {
    let mut queue = filled(0..4, 4);
    let (zero, _) = take(&mut queue).expect("waiting");
    let (one, _) = take(&mut queue).expect("waiting");
    queue.rewind(1);
    assert_eq!((queue.committable(), queue.position(), queue.load().messages), (0, 1, 1));
    queue.insert([(1, 0, 1), (2, 0, 2)], 50, 3);
    queue.finish([one]);
    queue.finish([zero]);
    assert_eq!((queue.committable(), queue.load().messages), (1, 2));
    assert!(!queue.requeue(one));
    let (again, offset) = take(&mut queue).expect("received again");
    assert_eq!(offset, 1);
    queue.finish([again]);
    assert_eq!(queue.committable(), 2);
}

#[test]
fn messages_dropped_before_a_handler_had_them_hold_the_offset() {
    let mut queue = filled(0..3, 3);
    let (ticket, _) = take(&mut queue).expect("waiting");
    queue.drop_waiting();
    assert!(!queue.has_waiting());
    queue.finish([ticket]);
    assert_eq!(queue.committable(), 1);
}

#[derive(Debug, Clone)]
enum Step {
    Pull { gaps: Vec<i64>, trailing: i64 },
    Skip(i64),
    Take,
    Finish(usize),
    SetAside(usize),
    Requeue(usize),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (prop::collection::vec(0i64..4, 0..6), 0i64..3)
            .prop_map(|(gaps, trailing)| Step::Pull { gaps, trailing }),
        1 => (0i64..5).prop_map(Step::Skip),
        6 => Just(Step::Take),
        6 => any::<prop::sample::Index>().prop_map(|index| Step::Finish(index.index(1 << 16))),
        2 => any::<prop::sample::Index>().prop_map(|index| Step::SetAside(index.index(1 << 16))),
        2 => any::<prop::sample::Index>().prop_map(|index| Step::Requeue(index.index(1 << 16))),
    ]
}

/// What the queue must be like, kept in a sorted map: offset to whether it is done.
#[derive(Default)]
struct Model {
    received: BTreeMap<i64, bool>,
    position: i64,
    running: Vec<(Ticket, i64)>,
    aside: Vec<(Ticket, i64)>,
}

impl Model {
    fn committable(&self) -> i64 {
        self.received.iter().find(|(_, done)| !**done).map_or(self.position, |(offset, _)| *offset)
    }
}

proptest! {
    #[test]
    fn nothing_undone_is_ever_committed(steps in prop::collection::vec(step(), 0..300)) {
        let mut queue = ProcessQueue::new(0, false);
        let mut model = Model::default();
        let mut committed = 0;
        for step in steps {
            match step {
                Step::Pull { gaps, trailing } => {
                    let mut offset = model.position - 1;
                    let offsets: Vec<i64> = gaps.iter().map(|gap| { offset += 1 + gap; offset }).collect();
                    model.position = offset + 1 + trailing;
                    model.received.extend(offsets.iter().map(|offset| (*offset, false)));
                    let left_out = queue.insert(offsets.into_iter().map(|o| (o, 0, o)), 10, model.position);
                    prop_assert_eq!(left_out, 0);
                }
                Step::Skip(by) => {
                    model.position += by;
                    queue.skip_to(model.position);
                }
                Step::Take => model.running.extend(take(&mut queue)),
                Step::Finish(index) if !model.running.is_empty() => {
                    let (ticket, offset) = model.running.remove(index % model.running.len());
                    queue.finish([ticket]);
                    model.received.insert(offset, true);
                }
                Step::SetAside(index) if !model.running.is_empty() => {
                    let taken = model.running.remove(index % model.running.len());
                    queue.set_aside(taken.0, taken.1);
                    model.aside.push(taken);
                }
                Step::Requeue(index) if !model.aside.is_empty() => {
                    let (ticket, _) = model.aside.remove(index % model.aside.len());
                    prop_assert!(queue.requeue(ticket));
                }
                _ => {}
            }
            let undone = model.received.values().filter(|done| !**done).count();
            prop_assert_eq!(queue.committable(), model.committable());
            prop_assert_eq!(queue.load().messages, undone);
            prop_assert_eq!(queue.load().bytes == 0, undone == 0);
            prop_assert_eq!(queue.running(), model.running.len());
            prop_assert!(queue.committable() >= committed, "the offset went back");
            committed = queue.committable();
        }
        // In the end every message received reaches a handler, once if it succeeds, and everything is committed.
        for (ticket, _) in model.aside {
            prop_assert!(queue.requeue(ticket));
        }
        model.running.extend(std::iter::from_fn(|| take(&mut queue)));
        for (ticket, offset) in model.running {
            queue.finish([ticket]);
            prop_assert_eq!(model.received.insert(offset, true), Some(false), "handled twice");
        }
        prop_assert!(model.received.values().all(|done| *done), "a message was lost");
        prop_assert_eq!(queue.committable(), model.position);
        prop_assert_eq!(queue.load(), Load::default());
    }
}

fn in_lanes(lanes: &[u64]) -> ProcessQueue<i64> {
    let mut queue = ProcessQueue::new(0, true);
    let messages = lanes.iter().enumerate().map(|(index, lane)| (index as i64, *lane, index as i64));
    assert_eq!(queue.insert(messages, 100, lanes.len() as i64), 0);
    queue
}

#[test]
fn a_lane_is_handled_one_batch_after_the_other() {
    let mut queue = in_lanes(&[1, 2, 1, 1, 2]);
    let offsets = |taken: &[(Ticket, i64)]| taken.iter().map(|(_, offset)| *offset).collect::<Vec<_>>();
    let one = queue.take(2, now());
    let two = queue.take(2, now());
    assert_eq!((offsets(&one), offsets(&two)), (vec![0, 2], vec![1, 4]));
    assert!(!queue.has_waiting(), "both lanes are busy");
    queue.finish([one[0].0]);
    assert!(!queue.has_waiting(), "one of the batch is still out");
    queue.finish([one[1].0]);
    assert_eq!(offsets(&queue.take(2, now())), [3]);
    assert_eq!(queue.committable(), 1);
}

#[test]
fn a_message_set_aside_holds_up_its_lane_alone_and_comes_first() {
    let mut queue = in_lanes(&[1, 1, 2, 1]);
    let one = queue.take(2, now());
    let (first, second) = (one[0].0, one[1].0);
    queue.set_aside(second, 11);
    queue.set_aside(first, 10);
    let other = queue.take(9, now());
    assert_eq!(other.len(), 1);
    queue.finish([other[0].0]);
    assert!(!queue.has_waiting());
    assert!(queue.requeue(second) && queue.requeue(first));
    let again: Vec<_> = queue.take(9, now()).into_iter().map(|(_, message)| message).collect();
    assert_eq!(again, [10, 11, 3]);
    assert_eq!(queue.committable(), 0);
}

#[test]
fn only_the_first_message_is_given_up_and_only_after_its_time() {
    let mut queue = filled(0..2, 2);
    let (start, timeout) = (now(), Duration::from_secs(900));
    assert_eq!(queue.expired(start + timeout, timeout), None);
    let taken = queue.take(2, start);
    assert_eq!(queue.expired(start + timeout - Duration::from_millis(1), timeout), None);
    assert_eq!(queue.expired(start + timeout, timeout), Some(taken[0]));
    assert!(!queue.give_up(taken[1].0) && queue.give_up(taken[0].0) && !queue.give_up(taken[0].0));
    assert_eq!((queue.committable(), queue.load().messages, queue.running()), (1, 1, 2));
    // The handler comes back after all.
    queue.finish([taken[0].0]);
    queue.finish([taken[1].0]);
    assert_eq!((queue.committable(), queue.running()), (2, 0));
}

#[test]
fn a_jump_forgets_what_it_passes_over() {
    let mut queue = in_lanes(&[0, 0, 0]);
    let taken = queue.take(1, now());
    queue.jump_to(10);
    assert_eq!((queue.committable(), queue.position(), queue.load().messages), (10, 10, 0));
    assert!(!queue.has_waiting());
    queue.finish([taken[0].0]);
    queue.insert([(10, 0, 10)], 1, 11);
    assert_eq!(queue.take(1, now()).len(), 1);
    queue.jump_to(4);
    assert_eq!((queue.committable(), queue.load()), (4, Load::default()));
}
