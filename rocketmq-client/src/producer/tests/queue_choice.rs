//! Queues that the caller has a say in.

use super::*;

async fn send(producer: &Producer, options: SendOptions) -> SendReceipt {
    producer.send_with(message(), options).await.expect("stored")
}

#[tokio::test]
async fn a_key_always_leads_to_the_same_queue() {
    let scripted = Scripted::start(2);
    let producer = producer(&scripted).await;
    let queues = producer.queues("t").await.expect("a route");
    // Four queues; the hashes of these keys are 97 and 98.
    for (key, place) in [("a", 1), ("b", 2), ("a", 1)] {
        assert_eq!(send(&producer, SendOptions::new().key(key)).await.queue(), &queues[place]);
    }
    assert_eq!(send(&producer, SendOptions::new().hash(-7)).await.queue(), &queues[3]);
    refuse_first(&scripted, 1, ResponseCode::SYSTEM_BUSY);
    let error = producer.send_with(message(), SendOptions::new().key("a")).await.expect_err("one attempt");
    assert_eq!((error.kind(), Attempts::of(&error).len()), (ErrorKind::Busy, 1));
    assert_eq!(Attempts::of(&error)[0].queue(), &queues[1]);
}

#[tokio::test]
async fn a_selector_gets_the_queues_and_the_message() {
    let scripted = Scripted::start(2);
    let producer = producer(&scripted).await;
    let queues = producer.queues("t").await.expect("a route");
    let last_by_length = SendOptions::new().selector(|queues, message| queues.len() - message.body().len() + 3);
    assert_eq!(send(&producer, last_by_length).await.queue(), &queues[3]);
    let outside = SendOptions::new().selector(|queues, _| queues.len());
    let error = producer.send_with(message(), outside).await.expect_err("no such queue");
    assert_eq!((error.kind(), error.outcome()), (ErrorKind::InvalidArgument, Outcome::NotSent));
    scripted.set_topic("none", 0);
    let never = SendOptions::new().selector(|_, _| panic!("there is nothing to choose"));
    let error = producer.send_with(Message::new("none", "body"), never).await.expect_err("no queue");
    assert_eq!(error.kind(), ErrorKind::NoRoute);
}

#[tokio::test]
async fn a_random_queue_is_any() {
    let scripted = Scripted::start(2);
    let producer = producer(&scripted).await;
    let mut chosen = BTreeSet::new();
    for _ in 0..64 {
        chosen.insert(send(&producer, SendOptions::new().random()).await.queue().clone());
    }
    assert_eq!(chosen.len(), 4);
}

#[tokio::test]
async fn one_way_sends_choose_alike() {
    let scripted = Scripted::start(1);
    let producer = producer(&scripted).await;
    producer.send_one_way_with(message(), SendOptions::new().key("a")).await.expect("handed over");
    producer.send_one_way_with(message(), SendOptions::new().selector(|_, _| 0)).await.expect("handed over");
    scripted.clock.advance(Duration::ZERO).await;
    let sends = scripted.brokers[0].requests(RequestCode::SEND_MESSAGE_V2);
    assert_eq!(sends.iter().map(|send| send.field("e")).collect::<Vec<_>>(), [Some("1"), Some("0")]);
}

#[tokio::test]
async fn a_send_by_key_may_be_dropped_at_any_await() {
    let scripted = Scripted::start(2);
    let producer = producer(&scripted).await;
    let make = |round: usize| {
        let topic = format!("fresh-{round}");
        scripted.set_topic(&topic, 1);
        producer.send_with(Message::new(topic, "body"), SendOptions::new().key("k"))
    };
    drop_at_every_await(&scripted, &producer, make).await.expect("stored");
}
