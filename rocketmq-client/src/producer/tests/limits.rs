//! How much may be under way, which brokers are left alone, and what is tried again.

use super::*;

fn at_once<F: Future>(future: F) -> Option<F::Output> {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => Some(output),
        Poll::Pending => None,
    }
}

#[tokio::test]
async fn a_producer_that_has_limits_waits_for_room() {
    let scripted = Scripted::start(1);
    let client = scripted.client().await;
    let by_count = client.producer("g").max_in_flight(2).topic("t").start().await.expect("a good group");
    let by_bytes = client.producer("g").max_in_flight_bytes(8).topic("t").start().await.expect("a good group");
    for producer in [by_count, by_bytes] {
        let before = scripted.sends()[0];
        producer.send(message()).await.expect("stored");
        scripted.on_send(0, |_| Reaction::Silence);
        let sends = |count: usize| (0..count).map(|_| Box::pin(producer.send(message()))).collect::<Vec<_>>();
        let mut sending = sends(3);
        for send in &mut sending {
            assert!(at_once(send.as_mut()).is_none());
        }
        scripted.clock.advance(Duration::from_millis(1)).await;
        // Four bytes each: two of either kind have room.
        assert!(scripted.sends()[0] <= before + 3);
        let error = producer.try_send(message()).await.expect_err("no room");
        assert_eq!((error.kind(), error.outcome()), (ErrorKind::WouldBlock, Outcome::NotSent));
        let mut third = sending.pop().expect("three");
        drop(sending.pop());
        assert!(at_once(third.as_mut()).is_none());
        scripted.clock.advance(Duration::from_millis(1)).await;
        assert_eq!(scripted.sends()[0], before + 4, "whoever waits gets the room that is free");
        scripted.clock.advance(Duration::from_secs(4)).await;
        for send in [sending.pop().expect("one"), third] {
            let error = send.await.expect_err("no answer");
            assert_eq!((error.kind(), error.outcome()), (ErrorKind::Timeout, Outcome::Unknown), "{error}");
        }
        scripted.on_send(0, |request| stored(request, ResponseCode::SUCCESS));
        producer.try_send(message()).await.expect("stored");
        producer.send(Message::new("t", vec![b'x'; 1000])).await.expect("larger than the limit, but alone");
        assert!(producer.0.limits.as_ref().is_some_and(|limits| limits.is_unused(2, 8)));
    }
}

#[tokio::test]
async fn who_waits_too_long_was_not_sent() {
    let scripted = Scripted::start(1);
    let client = scripted.client().await;
    let producer = client.producer("g").max_in_flight(1).topic("t").start().await.expect("a good group");
    scripted.on_send(0, |_| Reaction::Silence);
    let mut first = Box::pin(producer.send(message()));
    assert!(at_once(first.as_mut()).is_none());
    let options = SendOptions::new().timeout(Duration::from_secs(1));
    let second = scripted.env.spawn({
        let producer = producer.clone();
        async move { producer.send_with(message(), options).await }
    });
    scripted.clock.advance(Duration::from_secs(2)).await;
    let error = second.await.expect("not cancelled").expect_err("no room in time");
    assert_eq!((error.kind(), error.outcome()), (ErrorKind::Timeout, Outcome::NotSent), "{error}");
}

#[tokio::test]
async fn without_limits_of_its_own_a_producer_has_those_of_the_connection() {
    let scripted = Scripted::start(1);
    let client = scripted.builder().max_in_flight(2).connect().await.expect("up");
    let producer = client.producer("g").start().await.expect("a good group");
    producer.try_send(message()).await.expect("stored");
    scripted.on_send(0, |_| Reaction::Silence);
    let mut sending: Vec<_> = (0..2).map(|_| Box::pin(producer.try_send(message()))).collect();
    for send in &mut sending {
        assert!(at_once(send.as_mut()).is_none());
    }
    let refused = at_once(producer.try_send(message())).expect("at once").expect_err("no room");
    assert_eq!((refused.kind(), refused.outcome()), (ErrorKind::WouldBlock, Outcome::NotSent));
    drop(sending);
    scripted.on_send(0, |request| stored(request, ResponseCode::SUCCESS));
    producer.try_send(message()).await.expect("stored");
}

#[tokio::test]
async fn a_broker_that_failed_is_left_alone_for_a_while() {
    let scripted = Scripted::start(2);
    let client = scripted.client().await;
    let producer = client.producer("g").latency_fault_tolerance(true).start().await.expect("a good group");
    scripted.on_send(0, |request| answer(request, ResponseCode::SYSTEM_ERROR));
    for _ in 0..4 {
        producer.send(message()).await.expect("stored at the other");
    }
    assert_eq!(scripted.sends()[0], 1, "tried once");
    scripted.on_send(0, |request| stored(request, ResponseCode::SUCCESS));
    scripted.clock.advance(Duration::from_secs(9)).await;
    producer.send(message()).await.expect("stored");
    assert_eq!(scripted.sends()[0], 1);
    scripted.clock.advance(Duration::from_secs(2)).await;
    for _ in 0..4 {
        producer.send(message()).await.expect("stored");
    }
    assert_eq!(scripted.sends()[0], 3, "its turn again");
    // When all have failed, all are tried all the same.
    for index in 0..2 {
        scripted.on_send(index, |request| answer(request, ResponseCode::SYSTEM_ERROR));
    }
    let error = producer.send(message()).await.expect_err("nobody takes it");
    assert_eq!(Attempts::of(&error).len(), 3);
}

#[tokio::test]
async fn the_codes_to_try_again_after_are_a_setting() {
    let scripted = Scripted::start(2);
    let client = scripted.client().await;
    let producer = client.producer("g").retry_response_codes([13]).start().await.expect("a good group");
    refuse_first(&scripted, 1, ResponseCode::MESSAGE_ILLEGAL);
    producer.send(message()).await.expect("stored at the second attempt");
    refuse_first(&scripted, 1, ResponseCode::SYSTEM_BUSY);
    let error = producer.send(message()).await.expect_err("final now");
    assert_eq!((error.kind(), Attempts::of(&error).len()), (ErrorKind::Busy, 1));
}

#[tokio::test]
async fn a_send_within_limits_may_be_dropped_at_any_await() {
    let scripted = Scripted::start(2);
    let client = scripted.client().await;
    let builder = client.producer("g").max_in_flight(1).max_in_flight_bytes(16).latency_fault_tolerance(true);
    let producer = builder.start().await.expect("a good group");
    let make = |round: usize| {
        let topic = format!("fresh-{round}");
        scripted.set_topic(&topic, 1);
        refuse_first(&scripted, 1, ResponseCode::SYSTEM_ERROR);
        producer.send(Message::new(topic, "body"))
    };
    drop_at_every_await(&scripted, &producer, make).await.expect("stored");
    assert!(producer.0.limits.as_ref().is_some_and(|limits| limits.is_unused(1, 16)));
}
