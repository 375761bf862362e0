//! Order: within a queue, and by key.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use rocketmq_native::{MessageView, consumer::ConsumeResult};
use tokio::time::{Duration, sleep};

use super::*;

/// Each lane comes in its order, and a message that fails comes again before the next one.
pub async fn a_queue_waits_for_the_message_that_failed(server: &Server) {
    let _running = server.share().await;
    let topic = topic(server, "ordered", 4);
    let client = connect(server).await;
    send(&client, &topic, "k-", 80, 4).await;
    let (calls, mut seen) = calls();
    let decide = |call: &Call| {
        let fails = call.key.ends_with('5') && call.times < 2;
        if fails { ConsumeResult::RetryAfter(Duration::from_millis(10)) } else { ConsumeResult::Success }
    };
    let builder = consumer(&client, &server.name("ordered-group"), &topic).ordered().concurrency(8);
    let consumer = builder.start(calls.handler(decide)).await.expect("it starts");
    // Eight of the eighty end in 5, and come three times.
    let calls = seen.take(80 + 16).await;
    shut_down(consumer).await;
    assert_eq!(seen.rest(), [], "a message that succeeded came again");
    for (lane, calls) in by_lane(&calls) {
        let mut expected = Vec::new();
        for index in (0..80).filter(|index| format!("lane-{}", index % 4) == lane) {
            let times = if index % 10 == 5 { 0..=2 } else { 0..=0 };
            expected.extend(times.map(|times| (format!("k-{index}"), times)));
        }
        let seen: Vec<_> = calls.iter().map(|call| (call.key.clone(), call.times)).collect();
        assert_eq!(seen, expected, "{lane}");
    }
    client.close().await;
}

/// Messages with different keys in one queue are handled at the same time, those with one key never.
pub async fn keys_of_one_queue_do_not_wait_for_each_other(server: &Server) {
    let _running = server.share().await;
    let topic = topic(server, "by-key", 1);
    let client = connect(server).await;
    send(&client, &topic, "k-", 60, 6).await;
    let (calls, mut seen) = calls();
    let (running, most) = (Arc::new(Mutex::new(BTreeMap::<String, usize>::new())), Arc::new(AtomicUsize::new(0)));
    let noted = (calls.clone(), Arc::clone(&running), Arc::clone(&most));
    let handler = move |message: MessageView| {
        let (calls, running, most) = noted.clone();
        async move {
            let lane = message.property("lane").unwrap_or_default().to_owned();
            {
                let mut running = running.lock().expect("no panic in here");
                let of_lane = running.entry(lane.clone()).or_default();
                *of_lane += 1;
                assert_eq!(*of_lane, 1, "two of {lane} at once");
                most.fetch_max(running.values().sum(), Ordering::Relaxed);
            }
            calls.note(&message);
            sleep(Duration::from_millis(5)).await;
            *running.lock().expect("no panic in here").get_mut(&lane).expect("it is in") -= 1;
        }
    };
    let builder = consumer(&client, &server.name("by-key-group"), &topic).concurrency(8);
    let by_lane_of = |message: &MessageView| message.property("lane").unwrap_or_default().to_owned();
    let consumer = builder.ordered_by(by_lane_of).start(handler).await.expect("it starts");
    let calls = seen.take(60).await;
    assert_eq!(consumer.stats().panicked, 0);
    shut_down(consumer).await;
    for (lane, calls) in by_lane(&calls) {
        assert!(calls.is_sorted_by_key(|call| call.offset), "{lane}: {calls:?}");
    }
    assert!(most.load(Ordering::Relaxed) > 1, "keys were handled one after the other");
    client.close().await;
}

/// A message that fails too often leaves the queue, for the dead letters, and lets the others pass.
pub async fn a_poisonous_message_leaves_its_queue(server: &Server) {
    let _running = server.share().await;
    let topic = topic(server, "poison", 1);
    let group = server.name("poison-group");
    let client = connect(server).await;
    send(&client, &topic, "k-", 5, 1).await;
    let (calls, mut seen) = calls();
    let fail_2 = |call: &Call| if call.key == "k-2" { ConsumeResult::Retry } else { ConsumeResult::Success };
    let builder = consumer(&client, &group, &topic).ordered().max_reconsume_times(2);
    let builder = builder.suspend_time(Duration::from_millis(10));
    let consumer = builder.start(calls.handler(fail_2)).await.expect("it starts");
    let calls = seen.take(7).await;
    let seen: Vec<_> = calls.iter().map(|call| (call.key.as_str(), call.times)).collect();
    assert_eq!(seen, [("k-0", 0), ("k-1", 0), ("k-2", 0), ("k-2", 1), ("k-2", 2), ("k-3", 0), ("k-4", 0)]);
    shut_down(consumer).await;
    assert_eq!(dead_letters(server, &client, &group, 1).await, ["k-2"]);
    client.close().await;
}

/// While members of an ordered group come and go, no two of them ever handle messages of one queue at the same time, and
/// none is handled before one that lies before it.
pub async fn order_outlives_joins_and_leaves(server: &Server) {
    let _running = server.share().await;
    const LANES: usize = 4;
    const COUNT: usize = 600;
    let topic = topic(server, "moving", LANES as u32);
    let group = server.name("moving-group");
    let client = connect(server).await;
    let (calls, mut seen) = calls();
    let running = Arc::new(Mutex::new(BTreeMap::<i32, usize>::new()));
    let member = async || {
        let client = connect(server).await;
        let noted = (calls.clone(), Arc::clone(&running));
        let handler = move |message: MessageView| {
            let (calls, running) = noted.clone();
            async move {
                let queue = message.queue_id();
                {
                    let mut running = running.lock().expect("no panic in here");
                    let of_queue = running.entry(queue).or_default();
                    *of_queue += 1;
                    assert_eq!(*of_queue, 1, "two members handle queue {queue} at once");
                }
                calls.note(&message);
                sleep(Duration::from_millis(3)).await;
                *running.lock().expect("no panic in here").get_mut(&queue).expect("it is in") -= 1;
            }
        };
        let starting = consumer(&client, &group, &topic).ordered().start(handler);
        (starting.await.expect("it starts"), client)
    };
    let first = member().await;
    let sending = send(&client, &topic, "k-", COUNT, LANES);
    let moving = async {
        for _ in 0..3 {
            let second = member().await;
            sleep(Duration::from_millis(700)).await;
            assert_eq!(second.0.stats().panicked, 0);
            shut_down(second.0).await;
            second.1.close().await;
        }
    };
    tokio::join!(sending, moving);
    let mut newest = BTreeMap::<String, i64>::new();
    let mut missing: std::collections::BTreeSet<String> = (0..COUNT).map(|index| format!("k-{index}")).collect();
    while !missing.is_empty() {
        let call = seen.next().await;
        let newest = newest.entry(call.lane.clone()).or_insert(-1);
        if missing.remove(&call.key) {
            assert_eq!(call.offset, *newest + 1, "{call:?} came before one that lies before it");
            *newest = call.offset;
        }
    }
    assert_eq!(first.0.stats().panicked, 0);
    shut_down(first.0).await;
    client.close().await;
}
