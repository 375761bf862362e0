//! Every form in which our producer sends, read by any consumer.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, SystemTime},
};

use rocketmq_native::{Compression, Delay, Message, SendOptions};

use crate::{
    party::{Received, Subscription, go, java, java_4_4_0, ours, sha1_hex},
    scene::{LIMIT, Reader, connect, text, topic},
    server::Server,
};

/// What a consumer is to see of a message: the hash of its body by its key.
type Expected = BTreeMap<String, String>;

/// Sends large bodies compressed in one way, and returns what is to be seen of them.
async fn send_compressed(server: &Server, topic: &str, algorithm: Compression) -> Expected {
    let client = connect(server).await;
    let producer = client
        .producer("packers")
        .send_timeout(LIMIT)
        .compression(algorithm)
        .start()
        .await
        .expect("the producer starts");
    let mut expected = Expected::new();
    for (name, length) in [("threshold", 4096), ("large", 300_000)] {
        let key = format!("{algorithm:?}-{name}");
        let body: Vec<u8> = "größer und größer 🦀 ".bytes().cycle().take(length).collect();
        expected.insert(key.clone(), sha1_hex(&body));
        producer.send(Message::new(topic, body).key(key).tag("packed")).await.expect("stored");
    }
    client.close().await;
    expected
}

fn seen(received: &[Received]) -> Expected {
    received.iter().map(|message| (message.keys.clone(), message.sha1.clone())).collect()
}

/// Bodies compressed in each way are plain to our consumer and to Java's; Go's knows zlib only.
pub async fn compressed_bodies_are_read_by_all(server: &'static Server) {
    let _running = server.share().await;
    let topic = topic(server, "packed", 4);
    let mut expected = Expected::new();
    for algorithm in [Compression::Zlib, Compression::Lz4, Compression::Zstd] {
        expected.extend(send_compressed(server, &topic, algorithm).await);
    }
    for (receiver, algorithms) in [(ours(), ""), (java(), ""), (go(), "Zlib")] {
        let mut consumer = receiver.consume(server, &Subscription::new(&server.name("unpackers"), &topic)).await;
        let received = consumer.messages(expected.len()).await;
        assert_eq!(consumer.stop().await, []);
        let known = |bodies: &Expected| {
            let known = bodies.iter().filter(|(key, _)| key.starts_with(algorithms));
            known.map(|(key, hash)| (key.clone(), hash.clone())).collect::<Expected>()
        };
        assert_eq!(known(&seen(&received)), known(&expected), "{receiver:?}");
        assert!(received.iter().all(|message| message.tag == "packed"));
    }
}

/// Zlib is what consumers of all versions read.
pub async fn zlib_is_read_by_java_4_4(server: &'static Server) {
    let _running = server.share().await;
    let topic = topic(server, "old-packed", 4);
    let expected = send_compressed(server, &topic, Compression::Zlib).await;
    let mut consumer = java_4_4_0().consume(server, &Subscription::new(&server.name("old-unpackers"), &topic)).await;
    let received = consumer.messages(expected.len()).await;
    assert_eq!(consumer.stop().await, []);
    assert_eq!(seen(&received), expected);
}

/// The messages of a batch are messages of their own: bodies, keys, tags, properties, offsets.
pub async fn batches_are_read_by_all(server: &'static Server) {
    let _running = server.share().await;
    let topic = topic(server, "batches", 4);
    let client = connect(server).await;
    let producer = client
        .producer("batchers")
        .send_timeout(LIMIT)
        .max_message_size(4096)
        .start()
        .await
        .expect("the producer starts");
    let messages = (0..100).map(|number| {
        let body = format!("größe {number} 🦀");
        Message::new(topic.as_str(), body).key(format!("clé-{number}")).tag("étiquette").property("número", "veintidós")
    });
    let receipts = producer.send_batch(messages).await.expect("stored");
    let ids: BTreeSet<_> = receipts.iter().map(|receipt| receipt.message_id().to_owned()).collect();
    assert_eq!((receipts.len(), ids.len()), (100, 100));
    let places: BTreeSet<_> =
        receipts.iter().map(|receipt| (receipt.queue().id() as u32, receipt.queue_offset() as u64)).collect();
    assert_eq!(places.len(), 100, "no two at one place");
    assert!(places.iter().map(|(queue, _)| queue).collect::<BTreeSet<_>>().len() > 1, "several requests");
    for receiver in [ours(), java(), go()] {
        let mut consumer = receiver.consume(server, &Subscription::new(&server.name("batch-readers"), &topic)).await;
        let received = consumer.messages(100).await;
        assert_eq!(consumer.stop().await, []);
        for message in &received {
            let number: usize = message.keys.rsplit('-').next().and_then(|text| text.parse().ok()).expect("a number");
            assert_eq!(message.sha1, sha1_hex(format!("größe {number} 🦀").as_bytes()));
            assert_eq!((message.tag.as_str(), message.keys.as_str()), ("étiquette", &*format!("clé-{number}")));
            assert_eq!(message.properties.get("número").map(String::as_str), Some("veintidós"));
            let receipt = &receipts[number];
            let place = (receipt.queue().id() as u32, receipt.queue_offset() as u64);
            assert_eq!((message.queue_id, message.queue_offset), place, "{receiver:?}");
        }
        let seen: BTreeSet<_> = received.iter().map(|message| message.keys.clone()).collect();
        assert_eq!(seen.len(), 100, "{receiver:?}");
    }
    client.close().await;
}

/// One key, one queue, in order.
pub async fn a_key_keeps_its_order(server: &'static Server) {
    let _running = server.share().await;
    let topic = topic(server, "ordered", 8);
    let client = connect(server).await;
    let producer = client.producer("orderers").send_timeout(LIMIT).start().await.expect("the producer starts");
    for step in 0..5 {
        for key in ["a", "b", "c"] {
            let message = Message::new(topic.as_str(), format!("{key} {step}"));
            producer.send_with(message, SendOptions::new().key(key)).await.expect("stored");
        }
    }
    let mut reader = Reader::start(&client, server, &topic).await;
    let mut queues: BTreeMap<char, BTreeMap<i64, String>> = BTreeMap::new();
    for _ in 0..15 {
        let message = reader.next().await;
        let key = text(&message).chars().next().expect("a key");
        // The hash of a letter is the letter: queues 1, 2 and 3 of eight.
        assert_eq!(message.queue_id(), key as i32 % 8, "{key}");
        queues.entry(key).or_default().insert(message.queue_offset(), text(&message));
    }
    for (key, in_queue) in queues {
        let expected: Vec<_> = (0..5).map(|step| format!("{key} {step}")).collect();
        assert_eq!(in_queue.into_values().collect::<Vec<_>>(), expected);
    }
    reader.stop().await;
    client.close().await;
}

/// A message for a time of its own comes no earlier; brokers without a timer use a level.
pub async fn timed_messages_are_not_early(server: &'static Server) {
    let _running = server.share().await;
    let topic = topic(server, "timed", 2);
    let client = connect(server).await;
    let producer = client.producer("timers").send_timeout(LIMIT).start().await.expect("the producer starts");
    let mut reader = Reader::start(&client, server, &topic).await;
    let wanted = Duration::from_millis(2500);
    let after = Message::new(topic.as_str(), "after").deliver_after(wanted);
    let at = Message::new(topic.as_str(), "at").deliver_at(SystemTime::now() + wanted);
    let past = Message::new(topic.as_str(), "past").deliver_at(SystemTime::now() - wanted);
    let (sent, mut delays) = (SystemTime::now(), BTreeSet::new());
    for message in [after, at, past] {
        let receipt = producer.send(message).await.expect("stored");
        delays.insert(format!("{:?}", receipt.delay().expect("a delay")));
        match receipt.delay() {
            Some(Delay::Timer | Delay::None) => {}
            // The table of these brokers is 1s 1s 1s 1s 2s 3s 4s 5s.
            Some(Delay::Level(level)) => assert_eq!(level, 6),
            other => panic!("{other:?}"),
        }
    }
    println!("{delays:?}");
    for _ in 0..3 {
        let message = reader.next().await;
        if text(&message) != "past" {
            let elapsed = message.store_time().duration_since(sent).expect("later");
            // The timer is exact to the second.
            assert!(elapsed >= Duration::from_millis(1500), "{} after {elapsed:?}", text(&message));
        }
    }
    reader.stop().await;
    client.close().await;
}

/// A timed message is taken back and does not come; a second time is too late.
pub async fn timed_messages_are_recalled(server: &'static Server) {
    let _running = server.share().await;
    let topic = topic(server, "recalled", 1);
    let client = connect(server).await;
    let producer = client.producer("recallers").send_timeout(LIMIT).start().await.expect("the producer starts");
    let mut reader = Reader::start(&client, server, &topic).await;
    let send = |body: &'static str, delay| {
        let message = Message::new(topic.as_str(), body).deliver_after(delay);
        async { producer.send(message).await.expect("stored") }
    };
    let recalled = send("recalled", LIMIT / 6).await;
    let handle = recalled.recall_handle().expect("a broker of 5.3.2 or later gives a handle").to_owned();
    let kept = send("kept", LIMIT / 5).await;
    assert!(kept.recall_handle().is_some_and(|other| other != handle));
    assert_eq!(producer.recall(&topic, &handle).await.expect("recalled"), recalled.message_id());
    assert_eq!(reader.bodies(1).await, ["kept"], "what was recalled was due before");
    assert_eq!(reader.stop().await, [""; 0]);
    client.close().await;
}
