//! Messages that are asked for: the pull consumer, the reader of queues, dead letters.

use std::{
    collections::BTreeSet,
    io,
    time::{Duration, SystemTime},
};

use rocketmq_native::{
    Client, ConsumeFrom, ErrorKind, Message, MessageView, PullConsumer, admin::REPLAYED_MESSAGE_ID,
    consumer::FilterExpression,
};
use tokio::{sync::mpsc, time};

use crate::{
    scene::{LIMIT, connect, eventually},
    server::Server,
};

async fn send(client: &Client, topic: &str, bodies: impl IntoIterator<Item = usize>) {
    let producer = client.producer("pulling").send_timeout(LIMIT).start().await.expect("a producer");
    for number in bodies {
        let tag = if number.is_multiple_of(2) { "even" } else { "odd" };
        let message = Message::new(topic, number.to_string()).tag(tag).key(format!("k{number}")).property("own", "x");
        producer.send(message).await.expect("sent");
    }
    producer.shutdown().await;
}

fn number(message: &MessageView) -> usize {
    String::from_utf8_lossy(&message.body()).parse().expect("a number")
}

/// Polls until there are so many messages.
async fn poll(consumer: &PullConsumer, count: usize) -> Vec<usize> {
    let mut numbers = Vec::new();
    let polling = async {
        while numbers.len() < count {
            let messages = consumer.poll(Duration::from_secs(5)).await.expect("a poll");
            numbers.extend(messages.iter().map(number));
        }
    };
    time::timeout(LIMIT, polling).await.expect("messages in time");
    numbers.sort_unstable();
    numbers
}

/// A pull consumer's life: it reads, commits, seeks, pauses; another one goes on where it stopped.
pub async fn pull_consumer(server: &Server) {
    let _shared = server.share().await;
    let client = connect(server).await;
    let (topic, group) = (server.name("pulled"), server.name("pull-group"));
    client.admin().create_topic(&topic, 2).await.expect("a topic");
    send(&client, &topic, 0..20).await;
    let consumer = client
        .pull_consumer(&group)
        .subscribe(&topic, "*")
        .consume_from(ConsumeFrom::First)
        .auto_commit(false)
        .start()
        .await
        .expect("a consumer");
    assert_eq!(poll(&consumer, 20).await, (0..20).collect::<Vec<_>>());
    let queues = consumer.assignment();
    assert_eq!(queues.len(), 2);
    consumer.commit().await.expect("committed");
    assert_eq!(committed(&consumer).await, 20);
    assert!(consumer.lag().await.expect("lag").iter().all(|(_, lag)| *lag == 0));

    consumer.pause(&queues);
    assert_eq!(consumer.paused(), queues);
    send(&client, &topic, 20..22).await;
    assert!(consumer.poll(Duration::from_secs(1)).await.expect("a poll").is_empty());
    assert_eq!(consumer.lag().await.expect("lag").iter().map(|(_, lag)| lag).sum::<u64>(), 2);
    consumer.resume(&queues);
    assert_eq!(poll(&consumer, 2).await, [20, 21]);

    for queue in &queues {
        consumer.seek_to_begin(queue).await.expect("sought");
    }
    assert_eq!(poll(&consumer, 22).await, (0..22).collect::<Vec<_>>());
    for queue in &queues {
        consumer.seek_to_end(queue).await.expect("sought");
    }
    assert!(consumer.poll(Duration::from_millis(300)).await.expect("a poll").is_empty());
    for queue in &queues {
        consumer.seek_to_time(queue, SystemTime::UNIX_EPOCH).await.expect("sought");
        assert_eq!(consumer.position(queue), Some(0));
        let beyond = consumer.seek(queue, 999).await.expect_err("the queue is not so long");
        assert_eq!(beyond.kind(), ErrorKind::InvalidArgument, "{beyond}");
        consumer.seek(queue, 1).await.expect("sought");
    }
    assert_eq!(poll(&consumer, 20).await.len(), 20);
    // Not committed: what was returned since comes again.
    consumer.shutdown().await.expect("it ends");
    assert_eq!(consumer.poll(Duration::ZERO).await.expect_err("it has ended").kind(), ErrorKind::Closed);

    let assigned = client.pull_consumer(&group).assign(queues.clone()).start().await.expect("a consumer");
    let again = poll(&assigned, 2).await;
    assert!(again.iter().all(|number| *number >= 2), "{again:?}");
    assigned.assign([queues[0].clone()]).await.expect("assigned");
    assert_eq!(assigned.assignment(), queues[..1]);
    assigned.shutdown().await.expect("it ends");
    read(&client, &topic).await;
    client.close().await;
}

async fn committed(consumer: &PullConsumer) -> i64 {
    let mut sum = 0;
    for queue in consumer.assignment() {
        sum += consumer.committed(&queue).await.expect("an answer").unwrap_or(0);
    }
    sum
}

/// Reads queues by offset: whole, by tag, by time.
async fn read(client: &Client, topic: &str) {
    let reader = client.queue_reader("readers");
    let (mut all, mut even) = (BTreeSet::new(), BTreeSet::new());
    for queue in reader.queues(topic).await.expect("queues") {
        let end = reader.end(&queue).await.expect("an end");
        let mut offset = reader.offset_at(&queue, SystemTime::UNIX_EPOCH).await.expect("an offset");
        assert_eq!(offset, reader.begin(&queue).await.expect("a beginning"));
        while offset < end {
            let pulled = reader.pull(&queue, offset, 3).await.expect("messages");
            all.extend(pulled.messages.iter().map(number));
            let filter = FilterExpression::from("even");
            let matching = reader.pull_matching(&queue, offset, 3, filter, Duration::ZERO).await.expect("messages");
            even.extend(matching.messages.iter().map(number));
            offset = pulled.next_offset;
        }
        let beyond = reader.pull(&queue, end + 50, 1).await.expect("an answer");
        assert!(beyond.was_out_of_range && beyond.messages.is_empty());
    }
    assert_eq!(all, (0..22).collect());
    assert_eq!(even, (0..22).step_by(2).collect());
}

/// Members of a group share the queues, and take over when one leaves.
pub async fn pull_consumers_share(server: &Server) {
    let _shared = server.share().await;
    let (one, two) = (connect(server).await, connect(server).await);
    let (topic, group) = (server.name("shared"), server.name("share-group"));
    one.admin().create_topic(&topic, 4).await.expect("a topic");
    let start = |client: &Client| {
        let builder = client.pull_consumer(&group).subscribe(&topic, "*").consume_from(ConsumeFrom::First);
        async move { builder.start().await.expect("a consumer") }
    };
    let (first, second) = (start(&one).await, start(&two).await);
    eventually("the queues are shared", || async {
        let (mine, theirs) = (first.assignment(), second.assignment());
        let all: BTreeSet<_> = mine.iter().chain(&theirs).collect();
        (mine.len() == 2 && theirs.len() == 2 && all.len() == 4).then_some(())
    })
    .await;
    send(&one, &topic, 0..40).await;
    let mut numbers = poll_both(&first, &second, 40).await;
    first.shutdown().await.expect("it ends");
    second.commit().await.expect("committed");
    eventually("the other takes over", || async { (second.assignment().len() == 4).then_some(()) }).await;
    send(&one, &topic, 40..50).await;
    numbers.extend(poll(&second, 10).await);
    numbers.sort_unstable();
    assert_eq!(numbers, (0..50).collect::<Vec<_>>(), "nothing is lost, and nothing that was committed comes twice");
    second.shutdown().await.expect("it ends");
    one.close().await;
    two.close().await;
}

async fn poll_both(first: &PullConsumer, second: &PullConsumer, count: usize) -> Vec<usize> {
    let mut numbers = Vec::new();
    let polling = async {
        while numbers.len() < count {
            for consumer in [first, second] {
                let messages = consumer.poll(Duration::from_millis(200)).await.expect("a poll");
                numbers.extend(messages.iter().map(number));
            }
        }
    };
    time::timeout(LIMIT, polling).await.expect("messages in time");
    numbers
}

/// Dead letters are counted, read and sent again; an interrupted replay goes on.
pub async fn dead_letters(server: &Server) {
    let _shared = server.share().await;
    let client = connect(server).await;
    let (topic, group) = (server.name("deadly"), server.name("dead-group"));
    let letters = client.admin().dead_letters(&group);
    assert_eq!(letters.count().await.expect("a count"), 0);
    client.admin().create_topic(&topic, 1).await.expect("a topic");
    let consumer = client
        .push_consumer(&group)
        .subscribe(&topic, "*")
        .consume_from(ConsumeFrom::First)
        .max_reconsume_times(0)
        .start(|message| async move {
            if message.property(REPLAYED_MESSAGE_ID).is_some() { Ok(()) } else { Err(io::Error::other("not today")) }
        })
        .await
        .expect("a consumer");
    send(&client, &topic, 0..3).await;
    eventually("dead letters", || async { (letters.count().await.expect("a count") == 3).then_some(()) }).await;
    let listed = letters.list(10).await.expect("dead letters");
    assert_eq!(listed.iter().map(number).collect::<BTreeSet<_>>(), (0..3).collect());
    assert!(listed.iter().all(|letter| letters.original_topic(letter).as_deref() == Some(&topic)), "{listed:?}");

    let producer = client.producer("undertaker").send_timeout(LIMIT).start().await.expect("a producer");
    let mut interrupted = letters.replay(&producer).await.expect("a replay");
    let step = interrupted.next().await.expect("sent").expect("a message");
    assert_eq!((step.done, step.total, interrupted.remaining()), (1, 3, 2));
    drop(interrupted);
    let mut replay = letters.replay(&producer).await.expect("a replay");
    assert_eq!(replay.remaining(), 2);
    while let Some(step) = replay.next().await.expect("sent") {
        assert_eq!(step.total, 2);
    }
    assert_eq!(letters.replay(&producer).await.expect("a replay").remaining(), 0);
    replayed(&client, &topic, &server.name("mourners")).await;
    consumer.shutdown().await.expect("it ends");
    producer.shutdown().await;
    client.close().await;
}

/// What a group gets of a topic after the dead letters of another were sent again: each message twice, as it was.
async fn replayed(client: &Client, topic: &str, group: &str) {
    let (arrived, mut arrivals) = mpsc::unbounded_channel();
    let consumer = client
        .push_consumer(group)
        .subscribe(topic, "*")
        .consume_from(ConsumeFrom::First)
        .start(move |message| {
            let arrived = arrived.clone();
            async move { arrived.send(message) }
        })
        .await
        .expect("a consumer");
    let (mut ids, mut replayed_ids) = (BTreeSet::new(), BTreeSet::new());
    for _ in 0..6 {
        let message = time::timeout(LIMIT, arrivals.recv()).await.expect("a message in time").expect("a message");
        let number = number(&message);
        assert_eq!(message.tag(), Some(if number.is_multiple_of(2) { "even" } else { "odd" }));
        assert_eq!(
            (message.keys().collect::<Vec<_>>(), message.property("own")),
            (vec![&*format!("k{number}")], Some("x"))
        );
        match message.property(REPLAYED_MESSAGE_ID) {
            Some(id) => replayed_ids.insert(id.to_owned()),
            None => ids.insert(message.message_id().into_owned()),
        };
    }
    assert_eq!((ids.len(), replayed_ids), (3, ids.clone()));
    consumer.shutdown().await.expect("it ends");
}
