//! What becomes of messages by a handler's result.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use rocketmq_native::{
    MessageView,
    consumer::{BatchResult, ConsumeResult},
};

use super::*;

/// The keys among the dead letters of a group, once there are so many. Brokers before 4.7 make the topic unreadable, and
/// listing the letters makes it readable.
pub(super) async fn dead_letters(server: &Server, client: &Client, group: &str, count: usize) -> Vec<String> {
    let letters = client.admin().dead_letters(group);
    eventually("dead letters", async || (letters.list(count).await.ok()?.len() == count).then_some(())).await;
    let (calls, mut seen) = calls();
    let dead = format!("%DLQ%{group}");
    let reader = consumer(client, &server.name("dead-reader"), &dead);
    let reader = reader.start(calls.handler(|_| ConsumeResult::Success)).await.expect("it starts");
    let mut keys: Vec<_> = seen.take(count).await.into_iter().map(|call| call.key).collect();
    shut_down(reader).await;
    assert_eq!(seen.rest(), []);
    keys.sort();
    keys
}

/// Retries and dead letters asked for by the handler come as asked for.
pub async fn results_decide_what_becomes_of_messages(server: &Server) {
    let _running = server.share().await;
    let topic = topic(server, "results", 2);
    let group = server.name("results-group");
    let client = connect(server).await;
    let (calls, mut seen) = calls();
    let decide = |call: &Call| match (call.key.as_str(), call.times) {
        ("k-0", _) => ConsumeResult::DeadLetter,
        ("k-1", 0) => ConsumeResult::RetryAtLevel(1),
        ("k-2", 0) => ConsumeResult::RetryAfter(Duration::from_millis(500)),
        ("k-3", 0..=1) => ConsumeResult::Retry,
        _ => ConsumeResult::Success,
    };
    let hooked = Arc::new(AtomicUsize::new(0));
    let noted = Arc::clone(&hooked);
    let builder = consumer(&client, &group, &topic).retry_schedule([Duration::from_secs(1)]);
    let builder = builder.before_dead_letter(move |message| {
        assert_eq!(key(&message), "k-0");
        noted.fetch_add(1, Ordering::Relaxed);
        async {}
    });
    let consumer = builder.start(calls.handler(decide)).await.expect("it starts");
    send(&client, &topic, "k-", 5, 2).await;
    let mut calls: Vec<_> = seen.take(9).await.into_iter().map(|call| (call.key, call.times)).collect();
    calls.sort();
    let expected =
        [("k-0", 0), ("k-1", 0), ("k-1", 1), ("k-2", 0), ("k-2", 1), ("k-3", 0), ("k-3", 1), ("k-3", 2), ("k-4", 0)];
    assert_eq!(calls, expected.map(|(key, times)| (key.to_owned(), times)));
    assert_eq!(consumer.stats().dead_lettered, 1);
    shut_down(consumer).await;
    assert_eq!(hooked.load(Ordering::Relaxed), 1);
    assert_eq!(dead_letters(server, &client, &group, 1).await, ["k-0"]);
    client.close().await;
}

/// A message goes to the dead letters when it has failed as often as allowed and once more.
pub async fn failing_too_often_ends_among_the_dead_letters(server: &Server) {
    let _running = server.share().await;
    let topic = topic(server, "dead", 1);
    let group = server.name("dead-group");
    let client = connect(server).await;
    let (calls, mut seen) = calls();
    let builder = consumer(&client, &group, &topic).max_reconsume_times(2);
    let consumer = builder.start(calls.handler(|_| ConsumeResult::Retry)).await.expect("it starts");
    send(&client, &topic, "k-", 2, 1).await;
    let mut calls: Vec<_> = seen.take(6).await.into_iter().map(|call| (call.key, call.times)).collect();
    calls.sort();
    assert_eq!(calls, [0, 1].map(|key| [0, 1, 2].map(|times| (format!("k-{key}"), times))).concat());
    assert_eq!(dead_letters(server, &client, &group, 2).await, ["k-0", "k-1"]);
    shut_down(consumer).await;
    assert_eq!(seen.rest(), []);
    client.close().await;
}

/// Of a batch, those that are not acknowledged come again, and only those.
pub async fn a_batch_is_acknowledged_in_part(server: &Server) {
    let _running = server.share().await;
    let topic = topic(server, "batches", 1);
    let client = connect(server).await;
    send(&client, &topic, "k-", 64, 1).await;
    let (calls, mut seen) = calls();
    let largest = Arc::new(AtomicUsize::new(0));
    let most = Arc::clone(&largest);
    let handler = move |messages: Vec<MessageView>| {
        most.fetch_max(messages.len(), Ordering::Relaxed);
        let calls: Vec<_> = messages.iter().map(|message| calls.note(message)).collect();
        // The first half at the first time, all later.
        let result = match calls.iter().all(|call| call.times == 0) {
            true => BatchResult::first(calls.len() / 2),
            false => BatchResult::success(),
        };
        std::future::ready(result)
    };
    let builder = consumer(&client, &server.name("batches-group"), &topic).batch_size(16);
    let consumer = builder.start_batch(handler).await.expect("it starts");
    let all = async {
        while consumer.stats().consumed < 64 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    within("all are consumed", all).await;
    shut_down(consumer).await;
    let mut counts = BTreeMap::<String, Vec<u32>>::new();
    for call in seen.rest() {
        counts.entry(call.key).or_default().push(call.times);
    }
    assert_eq!(counts.len(), 64);
    assert!(counts.values().all(|times| *times == [0] || *times == [0, 1]), "{counts:?}");
    assert!(counts.values().any(|times| times.len() == 2));
    assert!((2..=16).contains(&largest.load(Ordering::Relaxed)), "{largest:?} in a batch");
    client.close().await;
}

/// A stream brings what it is asked for; what is not acknowledged comes again.
pub async fn a_stream_is_acknowledged_one_by_one(server: &Server) {
    let _running = server.share().await;
    let topic = topic(server, "stream", 2);
    let group = server.name("stream-group");
    let client = connect(server).await;
    send(&client, &topic, "k-", 10, 2).await;
    let mut stream = consumer(&client, &group, &topic).stream().await.expect("it starts");
    let mut seen = BTreeMap::<String, Vec<u32>>::new();
    let mut open = Vec::new();
    for _ in 0..13 {
        let delivery = within("a delivery", stream.next()).await.expect("the consumer runs");
        let (key, times) = (key(&delivery), delivery.reconsume_times());
        match (key.as_str(), times) {
            ("k-1", 0) => delivery.nack(None),
            ("k-2", 0) => delivery.nack(Some(Duration::from_secs(1))),
            ("k-3", 0) => drop(delivery),
            ("k-4", _) => open.push(delivery),
            _ => delivery.ack(),
        }
        seen.entry(key).or_default().push(times);
    }
    for (key, times) in &seen {
        let expected: &[u32] = if ["k-1", "k-2", "k-3"].contains(&key.as_str()) { &[0, 1] } else { &[0] };
        assert_eq!(times, expected, "{key}");
    }
    for delivery in open {
        delivery.ack();
    }
    stream.shutdown().await.expect("all are decided");
    assert!(stream.next().await.is_none());

    // Nothing is left for the next one, which sees what is sent now.
    let mut stream = consumer(&client, &group, &topic).stream().await.expect("it starts");
    send(&client, &topic, "next-", 1, 1).await;
    let delivery = within("a delivery", stream.next()).await.expect("the consumer runs");
    assert_eq!(key(&delivery), "next-0");
    delivery.ack();
    stream.shutdown().await.expect("all are decided");
    client.close().await;
}

/// A handler that does not return in time is given up in real time: its message comes again, and the offset moves on; what is
/// consumed is committed every few seconds, while the consumer runs.
pub async fn what_takes_too_long_is_given_up_in_real_time(server: &Server) {
    let _running = server.share().await;
    let topic = topic(server, "given-up", 1);
    let group = server.name("given-up-group");
    let client = connect(server).await;
    let (calls, mut seen) = calls();
    let handler = move |message: MessageView| {
        let call = calls.note(&message);
        async move {
            if call.key == "k-0" && call.times == 0 {
                std::future::pending::<()>().await;
            }
        }
    };
    let builder = consumer(&client, &group, &topic).consume_timeout(Duration::from_secs(2)).concurrency(4);
    let consumer = builder.start(handler).await.expect("it starts");
    send(&client, &topic, "k-", 4, 1).await;
    let mut calls: Vec<_> = seen.take(5).await.into_iter().map(|call| (call.key, call.times)).collect();
    calls.sort();
    assert_eq!(
        calls,
        [("k-0", 0), ("k-0", 1), ("k-1", 0), ("k-2", 0), ("k-3", 0)].map(|(key, times)| (key.into(), times))
    );
    assert_eq!(consumer.stats().given_up, 1);
    eventually("the offset is committed", async || {
        (client.admin().progress(&group).await.ok()?.lag_of(&topic) == 0).then_some(())
    })
    .await;
    drop(consumer);
    client.close().await;
}
