//! What is subscribed to: SQL92, topics that come and go, all messages to everybody.

use rocketmq_native::{
    ErrorKind, FilterExpression,
    consumer::{ConsumeResult, Paused},
};

use super::*;

/// A condition on properties is evaluated by the broker; one with a mistake is refused before anything is sent.
pub async fn sql92_filters(server: &Server) {
    let _running = server.share().await;
    let topic = topic(server, "sql", 2);
    let client = connect(server).await;
    let group = server.name("sql-group");
    let (calls, mut seen) = calls();
    let condition = FilterExpression::sql92("lane IN ('lane-1', 'lane-2') AND KEYS <> 'k-2'");
    let builder = client.push_consumer(&group).subscribe(&topic, condition).consume_from(ConsumeFrom::First);
    let consumer = builder.start(calls.handler(|_| ConsumeResult::Success)).await.expect("it starts");
    send(&client, &topic, "k-", 16, 4).await;
    let mut keys: Vec<_> = seen.take(7).await.into_iter().map(|call| call.key).collect();
    keys.sort();
    assert_eq!(keys, ["k-1", "k-10", "k-13", "k-14", "k-5", "k-6", "k-9"]);

    let error = consumer.subscribe(&topic, FilterExpression::sql92("lane >")).await.expect_err("a mistake");
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    consumer.subscribe(&topic, FilterExpression::sql92("lane = 'lane-3'")).await.expect("the broker takes it");
    // The queues of the old condition may still answer pulls that they hold.
    let mut others = 0;
    loop {
        send(&client, &topic, "new-", 4, 4).await;
        let call = seen.next().await;
        if call.key == "new-3" {
            break;
        }
        others += 1;
        assert!(others < 20, "the new condition does not count");
    }
    shut_down(consumer).await;
    client.close().await;
}

/// Topics are subscribed to and unsubscribed from while a consumer runs, each with a handler of its own.
pub async fn topics_come_and_go(server: &Server) {
    let _running = server.share().await;
    let (one, two) = (topic(server, "one", 2), topic(server, "two", 2));
    let client = connect(server).await;
    let group = server.name("topics-group");
    let (first, mut seen_by_first) = calls();
    let (second, mut seen_by_second) = calls();
    let success = |_: &Call| ConsumeResult::Success;
    let builder = client.push_consumer(&group).consume_from(ConsumeFrom::First);
    let consumer = builder.subscribe_with(&one, "*", first.handler(success)).listen().await.expect("it starts");
    send(&client, &one, "one-", 2, 2).await;
    seen_by_first.take(2).await;

    consumer.subscribe(&two, "*").await.expect_err("there is no handler for it");
    consumer.subscribe_with(&two, "*", second.handler(success)).await.expect("the brokers are told");
    send(&client, &two, "two-", 2, 2).await;
    let keys: Vec<_> = seen_by_second.take(2).await.into_iter().map(|call| call.key).collect();
    assert!(keys.iter().all(|key| key.starts_with("two-")), "{keys:?}");

    consumer.unsubscribe(&one).await.expect("the brokers are told");
    let let_go = async {
        while consumer.explain().queues.iter().any(|queue| queue.queue.topic() == one) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    within("the queues are let go", let_go).await;
    send(&client, &one, "late-", 2, 2).await;
    send(&client, &two, "more-", 2, 2).await;
    seen_by_second.take(2).await;
    assert_eq!(seen_by_first.rest(), []);
    let error = consumer.unsubscribe(&two).await.expect_err("it is the last one");
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    shut_down(consumer).await;
    client.close().await;
}

/// Members that subscribe otherwise are told of it, with both expressions.
pub async fn differing_subscriptions_are_told(server: &Server) {
    let _running = server.share().await;
    let topic = topic(server, "differing", 2);
    let group = server.name("differing-group");
    let mut members = Vec::new();
    for tag in ["apple", "pear"] {
        let client = connect(server).await;
        let (calls, _) = calls();
        let builder = client.push_consumer(&group).subscribe(&topic, tag).consume_from(ConsumeFrom::First);
        let member = builder.start(calls.handler(|_| ConsumeResult::Success)).await.expect("it starts");
        members.push((member, client));
    }
    eventually("a member is told", async || {
        let reasons: Vec<String> = members.iter().flat_map(|(member, _)| member.explain().reasons()).collect();
        reasons.iter().any(|reason| reason.contains("`apple`") && reason.contains("`pear`")).then_some(())
    })
    .await;
    for (member, client) in members {
        shut_down(member).await;
        client.close().await;
    }
}

/// A limit for a topic is shared by its queues, and holds however much there is: only one answer more is in memory.
pub async fn the_limit_of_a_topic_holds(server: &Server) {
    let _running = server.share().await;
    const QUEUES: usize = 4;
    let topic = topic(server, "limited", QUEUES as u32);
    let client = connect(server).await;
    send(&client, &topic, "k-", 400, QUEUES).await;
    let (open, opened) = tokio::sync::watch::channel(false);
    let (calls, mut seen) = calls();
    let handler = move |message: MessageView| {
        let (call, mut opened) = (calls.note(&message), opened.clone());
        async move {
            // An error means that the test is over.
            let _ = opened.wait_for(|open| *open).await;
            drop(call);
        }
    };
    let builder = consumer(&client, &server.name("limited-group"), &topic).concurrency(2);
    let builder = builder.max_cached_messages_per_topic(100).pull_batch_size(8);
    let consumer = builder.start(handler).await.expect("it starts");
    let of_topic = || consumer.explain().queues.into_iter().filter(|queue| queue.queue.topic() == topic);
    eventually("every queue is full", async || {
        let full = of_topic().filter(|queue| queue.paused == Some(Paused::ByMessages)).count();
        (full == QUEUES).then_some(())
    })
    .await;
    for queue in of_topic() {
        assert!((25..25 + 8).contains(&queue.cached), "{queue:?}");
    }
    open.send_replace(true);
    seen.take(400).await;
    shut_down(consumer).await;
    client.close().await;
}

/// A paused consumer pulls nothing, says so, and goes on when it is resumed.
pub async fn pausing_holds_messages_back(server: &Server) {
    let _running = server.share().await;
    let topic = topic(server, "paused", 2);
    let client = connect(server).await;
    let (calls, mut seen) = calls();
    let builder = consumer(&client, &server.name("paused-group"), &topic);
    let consumer = builder.start(calls.handler(|_| ConsumeResult::Success)).await.expect("it starts");
    consumer.wait_ready(LIMIT).await.expect("it reads");
    send(&client, &topic, "a-", 4, 2).await;
    seen.take(4).await;
    consumer.pause();
    // Pulls that brokers hold are still answered, once for each queue.
    send(&client, &topic, "b-", 40, 2).await;
    let reasons = consumer.explain().reasons();
    assert!(reasons.iter().any(|reason| reason.contains("paused")), "{reasons:?}");
    let before = seen.rest().len();
    assert!(before <= 40, "{before}");
    consumer.resume();
    seen.take(40 - before).await;
    shut_down(consumer).await;
    client.close().await;
}

/// Every member of a broadcasting group gets every message, and goes on where it was when it comes back.
pub async fn broadcasting_reaches_every_member(server: &Server) {
    let _running = server.share().await;
    let topic = topic(server, "broadcast", 2);
    let group = server.name("broadcast-group");
    let directory = tempfile::tempdir().expect("a directory");
    let sender = connect(server).await;
    let mut offsets = Vec::new();
    for round in 0..2 {
        let mut members = Vec::new();
        for name in ["left", "right"] {
            let builder = Client::builder(server.name_server()).namespace(server.namespace()).instance_name(name);
            let client = builder.connect().await.expect("it connects");
            let (calls, seen) = calls();
            let builder = consumer(&client, &group, &topic).broadcasting().offset_directory(directory.path());
            let member = builder.start(calls.handler(|_| ConsumeResult::Success)).await.expect("it starts");
            members.push((client, member, seen));
        }
        send(&sender, &topic, &format!("round-{round}-"), 10, 2).await;
        for (client, member, mut seen) in members {
            let keys: std::collections::BTreeSet<_> = seen.take(10).await.into_iter().map(|call| call.key).collect();
            assert_eq!(keys, (0..10).map(|index| format!("round-{round}-{index}")).collect());
            offsets.push(member.explain().queues.iter().filter_map(|queue| queue.offset).sum::<i64>());
            shut_down(member).await;
            assert_eq!(seen.rest(), []);
            client.close().await;
        }
    }
    let error = consumer(&sender, &group, &topic).broadcasting().stream().await.expect_err("it has no name");
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    sender.close().await;
}
