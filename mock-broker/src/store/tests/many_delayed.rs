//! A hundred thousand delayed messages: each comes in its tick, and is looked at once.

use rocketmq_wire::message::names::SCHEDULE_TOPIC;

use crate::store::test_support::*;
use crate::store::{Arrival, DelayLevels, PutMessage, Store, StoreConfig, TimerConfig};

const COUNT: usize = 100_000;
/// Message time is turned on by this, in milliseconds.
const TICK: i64 = 1000;
const LEVELS: i32 = 18;

/// When each message is due, by its number; told by its body.
fn put_levels(store: &mut Store, count: usize) -> Vec<i64> {
    let mut due = Vec::with_capacity(count);
    for index in 0..count {
        let level = index as i32 % LEVELS + 1;
        // Stored over 200 seconds, so that levels are due at many times.
        let now = NOW + (index / 500) as i64 * 997;
        let properties = format!("DELAY\u{1}{level}\u{2}");
        let body = (index as u32).to_be_bytes();
        store.put(now, &PutMessage { properties: properties.as_bytes(), ..message("T", &body) }).unwrap();
        due.push(DelayLevels::default().due(level, now));
    }
    dispatch(store);
    due
}

fn number(arrival: &Arrival<'_>) -> usize {
    u32::from_be_bytes(arrival.record.body().try_into().unwrap()) as usize
}

/// Turns the clock in ticks from `from` to `to`, checks that what comes is due in the tick it comes in unless it is late for
/// a reason, and counts what came by number.
fn turn(store: &mut Store, due: &[i64], came: &mut [u32], from: i64, to: i64, first_may_be_late: bool) {
    let mut before = if first_may_be_late { i64::MIN } else { from };
    let mut now = from;
    while now < to {
        now += TICK;
        let mut note = |arrival: Arrival<'_>| {
            if arrival.topic == "T" {
                let index = number(&arrival);
                assert!(due[index] <= now, "message {index} is early: due at {}, it is {now}", due[index]);
                assert!(due[index] > before, "message {index} is late: due at {}, it was {before}", due[index]);
                came[index] += 1;
            }
        };
        store.deliver_scheduled(now, &mut note).unwrap();
        before = now;
    }
}

#[test]
fn each_comes_in_its_tick_and_is_looked_up_once() {
    let mut store = Store::memory(StoreConfig::memory());
    let due = put_levels(&mut store, COUNT);
    let mut came = vec![0; COUNT];
    turn(&mut store, &due, &mut came, NOW, NOW + 7_500_000, false);
    assert!(came.iter().all(|&times| times == 1), "each comes once");
    assert_eq!(store.schedule.looked_up.get(), COUNT as u64, "each is looked up once");
    assert_eq!(store.next_delivery(NOW), None);
}

#[test]
fn a_kill_in_the_middle_loses_none() {
    let count = COUNT / 5;
    let directory = tempfile::tempdir().unwrap();
    let config = StoreConfig { commit_log_file_size: 1 << 20, consume_queue_file_entries: 1000, ..StoreConfig::disk() };
    let mut store = Store::open(directory.path(), config.clone()).unwrap();
    let due = put_levels(&mut store, count);
    let mut came = vec![0; count];
    turn(&mut store, &due, &mut came, NOW, NOW + 60_000, false);
    store.save_delivery_progress(NOW + 60_000).unwrap();
    store.flush();
    turn(&mut store, &due, &mut came, NOW + 60_000, NOW + 400_000, false);
    let before = came.iter().sum::<u32>();
    // Dropped without being closed: like a process that is killed.
    drop(store);
    let mut store = Store::open(directory.path(), config).unwrap();
    assert_eq!(store.max_offset("T", 0), u64::from(before), "what came stays");
    turn(&mut store, &due, &mut came, NOW + 400_000, NOW + 7_500_000, true);
    assert!(came.iter().all(|&times| times >= 1), "none is lost");
    let twice = came.iter().filter(|&&times| times > 1).count();
    let since_saved = due.iter().filter(|&&due| due > NOW + 60_000 && due <= NOW + 400_000).count();
    assert!(twice <= since_saved, "{twice} came again, {since_saved} were delivered since the progress was saved");
    assert_eq!(store.max_offset(SCHEDULE_TOPIC, 0), (count as u64).div_ceil(LEVELS as u64));
}

#[test]
fn times_of_their_own_are_kept_to_the_slot() {
    let count = COUNT / 2;
    let timers = Some(TimerConfig::default());
    let mut store = Store::memory(StoreConfig { timers, ..StoreConfig::memory() });
    let mut due = Vec::with_capacity(count);
    for index in 0..count {
        // Spread over an hour, in no order.
        let deliver_ms = NOW + 2000 + (index as i64 * 7919) % 3_600_000;
        let properties = format!("TIMER_DELIVER_MS\u{1}{deliver_ms}\u{2}");
        let body = (index as u32).to_be_bytes();
        store.put(NOW, &PutMessage { properties: properties.as_bytes(), ..message("T", &body) }).unwrap();
        due.push(deliver_ms);
    }
    let mut came = vec![0; count];
    let mut now = NOW;
    while now < NOW + 3_605_000 {
        now += TICK;
        let mut note = |arrival: Arrival<'_>| {
            if arrival.topic == "T" {
                let index = number(&arrival);
                assert!(due[index] <= now && now - due[index] <= 2 * TICK, "message {index}: {} at {now}", due[index]);
                came[index] += 1;
            }
        };
        store.deliver_timed(now, &mut note).unwrap();
    }
    assert!(came.iter().all(|&times| times == 1), "each comes once");
}
