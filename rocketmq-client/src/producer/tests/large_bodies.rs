//! Compression.

use rocketmq_wire::RemotingCommand;
use rocketmq_wire::message::Compression;

use super::*;

fn text(length: usize) -> Vec<u8> {
    b"so much of the same, ".iter().copied().cycle().take(length).collect()
}

fn noise(length: usize) -> Vec<u8> {
    let mut state = 1u64;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    };
    (0..length).map(|_| next()).collect()
}

fn sent(scripted: &Scripted) -> RemotingCommand {
    let sends = scripted.brokers[0].requests(RequestCode::SEND_MESSAGE_V2);
    sends.last().cloned().expect("a send")
}

#[tokio::test]
async fn large_bodies_are_compressed_as_asked() {
    let scripted = Scripted::start(1);
    let client = scripted.client().await;
    for (algorithm, flag) in [(Compression::Zlib, "769"), (Compression::Lz4, "257"), (Compression::Zstd, "513")] {
        let producer = client.producer("g").compression(algorithm).start().await.expect("a good group");
        for length in [4096, 100_000] {
            producer.send(Message::new("t", text(length))).await.expect("stored");
            let sent = sent(&scripted);
            assert!(sent.body.len() < length / 2, "{algorithm:?}");
            assert_eq!(sent.field("f"), Some(flag));
            assert_eq!(algorithm.decompress(&sent.body, length).expect("a body"), text(length));
        }
        producer.send_one_way(Message::new("t", text(5000))).await.expect("handed over");
        scripted.clock.advance(Duration::ZERO).await;
        assert_eq!(sent(&scripted).field("f"), Some(flag));
    }
}

#[tokio::test]
async fn bodies_that_are_small_or_would_not_get_smaller_are_left_alone() {
    let scripted = Scripted::start(1);
    let client = scripted.client().await;
    let producer = client.producer("g").start().await.expect("a good group");
    for body in [text(4095), noise(4096), noise(20_000)] {
        producer.send(Message::new("t", body.clone())).await.expect("stored");
        let sent = sent(&scripted);
        assert!((sent.field("f"), &sent.body[..]) == (Some("0"), &body[..]), "{} bytes", body.len());
    }
    let never = client.producer("g").compress_over(usize::MAX).start().await.expect("a good group");
    never.send(Message::new("t", text(100_000))).await.expect("stored");
    assert_eq!(sent(&scripted).body.len(), 100_000);
    let always = client.producer("g").compress_over(0).start().await.expect("a good group");
    always.send(Message::new("t", text(60))).await.expect("stored");
    assert_eq!(sent(&scripted).field("f"), Some("769"));
}

#[tokio::test]
async fn another_attempt_sends_the_same_bytes() {
    let scripted = Scripted::start(2);
    let producer = producer(&scripted).await;
    refuse_first(&scripted, 1, ResponseCode::SYSTEM_BUSY);
    producer.send(Message::new("t", text(50_000))).await.expect("stored");
    let sends: Vec<_> =
        scripted.brokers.iter().flat_map(|broker| broker.requests(RequestCode::SEND_MESSAGE_V2)).collect();
    assert_eq!(sends.len(), 2);
    assert_eq!((&sends[0].body, sends[0].field("f")), (&sends[1].body, sends[1].field("f")));
    assert_eq!(Compression::Zlib.decompress(&sends[0].body, 50_000).expect("once is enough"), text(50_000));
}

#[tokio::test]
async fn a_half_message_keeps_both_marks() {
    let scripted = Scripted::start(1);
    let client = scripted.client().await;
    let checker = |_: crate::MessageView| async { crate::TransactionResolution::Unknown };
    let producer = client.transaction_producer("g", checker).start().await.expect("a good group");
    drop(producer.begin(Message::new("t", text(10_000))).await.expect("stored"));
    assert_eq!(sent(&scripted).field("f"), Some("773"));
}

#[tokio::test]
async fn a_compressed_send_may_be_dropped_at_any_await() {
    let scripted = Scripted::start(2);
    let producer = producer(&scripted).await;
    let make = |round: usize| {
        let topic = format!("fresh-{round}");
        scripted.set_topic(&topic, 1);
        refuse_first(&scripted, 1, ResponseCode::SYSTEM_ERROR);
        producer.send(Message::new(topic, text(50_000)))
    };
    drop_at_every_await(&scripted, &producer, make).await.expect("stored");
}
