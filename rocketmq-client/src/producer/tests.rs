//! Producers against scripted servers on manual time.

mod batches;
mod delays;
mod drops;
mod interceptors;
mod large_bodies;
mod limits;
mod lingering;
mod outcomes;
mod queue_choice;
mod requests;
mod tracing;
mod transactions;

use std::collections::BTreeSet;
use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};

use futures_util::future::join_all;
use rocketmq_wire::message::properties::Properties;
use rocketmq_wire::{RequestCode, ResponseCode};

use super::*;
use crate::error::Outcome;
use crate::scripted::{self, Reaction, Scripted, answer, stored};

async fn producer(scripted: &Scripted) -> Producer {
    scripted.client().await.producer("g").start().await.expect("a good group")
}

fn message() -> Message {
    Message::new("t", "body").tag("x")
}

/// Answers the first `count` sends with a code, all servers together, and stores the rest.
fn refuse_first(scripted: &Scripted, count: usize, code: ResponseCode) {
    let left = Arc::new(AtomicUsize::new(count));
    for index in 0..scripted.brokers.len() {
        let left = Arc::clone(&left);
        scripted.on_send(index, move |request| {
            let refuse = left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok();
            if refuse { answer(request, code) } else { stored(request, ResponseCode::SUCCESS) }
        });
    }
}

#[tokio::test]
async fn a_send_says_what_brokers_require_and_its_receipt_what_the_broker_said() {
    let scripted = Scripted::start(1);
    let producer = producer(&scripted).await;
    let receipt = producer.send(message().key("k").flag(5).property("p", "v")).await.expect("stored");
    let sends = scripted.brokers[0].requests(RequestCode::SEND_MESSAGE_V2);
    let [send] = &sends[..] else { panic!("one send: {sends:?}") };
    let field = |name| send.field(name);
    assert_eq!(&send.body[..], b"body");
    assert_eq!((field("a"), field("b"), field("c"), field("d")), (Some("g"), Some("t"), Some("TBW102"), Some("4")));
    assert_eq!((field("f"), field("h"), field("n")), (Some("0"), Some("5"), Some("a")));
    assert_eq!(field("g"), Some(scripted.env.wall_clock_ms().to_string().as_str()));
    let properties = Properties::from(field("i").expect("properties"));
    assert_eq!(
        ["TAGS", "KEYS", "p", "UNIQ_KEY"].map(|name| properties.value(name)),
        [Some("x"), Some("k"), Some("v"), Some(receipt.message_id())]
    );
    assert_eq!((receipt.status(), receipt.queue_offset()), (SendStatus::Ok, 7));
    assert_eq!(
        receipt.queue(),
        &MessageQueue::new("t", "a", field("e").and_then(|id| id.parse().ok()).expect("a queue"))
    );
    let id = receipt.offset_message_id().expect("an id");
    assert_eq!((id.store_host.to_string().as_str(), id.physical_offset), ("10.0.0.2:10911", 42));
}

#[tokio::test]
async fn an_answer_without_a_place_is_still_a_success() {
    let scripted = Scripted::start(1);
    scripted.on_send(0, |request| Reaction::Answer(scripted::success(request, &[])));
    let receipt = producer(&scripted).await.send(message()).await.expect("stored");
    assert_eq!((receipt.queue_offset(), receipt.offset_message_id()), (-1, None));
    assert_eq!(scripted.sends(), [1]);
}

#[tokio::test]
async fn queues_take_turns() {
    let scripted = Scripted::start(2);
    let producer = producer(&scripted).await;
    let mut queues = Vec::new();
    for _ in 0..8 {
        queues.push(producer.send(message()).await.expect("stored").queue().clone());
    }
    assert_eq!(queues[..4].iter().collect::<BTreeSet<_>>().len(), 4);
    assert_eq!(queues[..4], queues[4..]);
}

#[tokio::test]
async fn the_next_attempt_goes_to_another_broker_with_the_same_id() {
    let scripted = Scripted::start(2);
    let producer = producer(&scripted).await;
    for code in [1, 2, 14, 16, 17, 204, 205, 215] {
        let before = scripted.sends();
        refuse_first(&scripted, 1, ResponseCode(code));
        let receipt = producer.send(message()).await.expect("stored");
        let after = scripted.sends();
        assert_eq!((after[0] - before[0], after[1] - before[1]), (1, 1), "{code}");
        for broker in &scripted.brokers {
            let sends = broker.requests(RequestCode::SEND_MESSAGE_V2);
            let properties = sends.last().and_then(|send| send.field("i")).expect("properties");
            assert_eq!(Properties::from(properties).value("UNIQ_KEY"), Some(receipt.message_id()));
        }
        // Encoded anew: the queue and the broker named are those of the attempt.
        let last =
            scripted.brokers[usize::from(receipt.queue().broker() == "b")].requests(RequestCode::SEND_MESSAGE_V2);
        assert_eq!(last.last().and_then(|send| send.field("n")), Some(receipt.queue().broker()));
    }
}

#[tokio::test]
async fn other_codes_are_final() {
    let scripted = Scripted::start(2);
    let producer = producer(&scripted).await;
    for (code, kind) in [
        (ResponseCode::MESSAGE_ILLEGAL, ErrorKind::InvalidArgument),
        (ResponseCode::REQUEST_CODE_NOT_SUPPORTED, ErrorKind::Unsupported),
        (ResponseCode(9999), ErrorKind::Rejected),
    ] {
        let before: usize = scripted.sends().iter().sum();
        refuse_first(&scripted, 1, code);
        let error = producer.send(message()).await.expect_err("refused");
        assert_eq!((error.kind(), error.response_code()), (kind, Some(code.0)));
        assert_eq!((error.outcome(), error.operation()), (Outcome::Refused, Some("send")));
        assert_eq!(scripted.sends().iter().sum::<usize>(), before + 1);
        assert_eq!(Attempts::of(&error).len(), 1);
    }
}

#[tokio::test]
async fn the_error_lists_every_attempt() {
    let scripted = Scripted::start(2);
    refuse_first(&scripted, 3, ResponseCode::SYSTEM_ERROR);
    let error = producer(&scripted).await.send(message()).await.expect_err("refused three times");
    let attempts = Attempts::of(&error);
    assert_eq!(attempts.len(), 3);
    assert_ne!(attempts[0].queue().broker(), attempts[1].queue().broker());
    assert_eq!(attempts[0].queue().broker(), attempts[2].queue().broker());
    assert_eq!(attempts[0].error().response_code(), Some(1));
    assert_eq!(error.broker(), attempts[2].error().broker());
    assert_eq!(error.to_string().matches("10.0.1.").count(), 4, "{error}");
}

#[tokio::test]
async fn the_number_of_attempts_is_a_setting() {
    let scripted = Scripted::start(1);
    refuse_first(&scripted, usize::MAX, ResponseCode::SYSTEM_ERROR);
    for retries in [0, 5] {
        let before = scripted.sends()[0];
        let producer = scripted.client().await.producer("g").retries(retries).start().await.expect("a good group");
        producer.send(message()).await.expect_err("refused");
        assert_eq!(scripted.sends()[0] - before, retries as usize + 1);
    }
}

#[tokio::test]
async fn a_busy_broker_that_is_the_only_one_is_left_alone_for_a_moment() {
    let scripted = Scripted::start(1);
    refuse_first(&scripted, 2, ResponseCode::SYSTEM_BUSY);
    let producer = producer(&scripted).await;
    let sending = scripted.env.spawn({
        let producer = producer.clone();
        async move { producer.send(message()).await }
    });
    scripted.clock.advance(Duration::from_millis(1)).await;
    assert_eq!(scripted.sends(), [1]);
    scripted.clock.advance(Duration::from_millis(150)).await;
    assert_eq!(scripted.sends(), [3]);
    sending.await.expect("not cancelled").expect("stored");
}

#[tokio::test]
async fn a_lost_connection_is_followed_by_another_broker_at_once() {
    let scripted = Scripted::start(2);
    let producer = producer(&scripted).await;
    let first = Arc::new(AtomicBool::new(true));
    for index in 0..2 {
        let first = Arc::clone(&first);
        scripted.on_send(index, move |request| {
            if first.swap(false, Ordering::Relaxed) { Reaction::HangUp } else { stored(request, ResponseCode::SUCCESS) }
        });
    }
    // Time stands still: nothing waits.
    producer.send(message()).await.expect("stored");
    assert_eq!(scripted.sends(), [1, 1]);
}

#[tokio::test]
async fn a_broker_that_cannot_be_reached_is_passed_over() {
    let mut scripted = Scripted::start(2);
    let producer = producer(&scripted).await;
    drop(scripted.brokers.remove(0));
    for _ in 0..8 {
        producer.send(message()).await.expect("stored");
    }
    assert_eq!(scripted.sends(), [8]);
}

#[tokio::test]
async fn one_time_budget_is_for_all_attempts() {
    let scripted = Scripted::start(2);
    for index in 0..2 {
        scripted.on_send(index, |_| Reaction::Silence);
    }
    let client = scripted.client().await;
    for (attempt_timeout, attempts) in [(None, 1), (Some(Duration::from_secs(1)), 3)] {
        let builder = client.producer("g");
        let builder = match attempt_timeout {
            None => builder,
            Some(timeout) => builder.attempt_timeout(timeout),
        };
        let producer = builder.start().await.expect("a good group");
        let began = scripted.env.now();
        let sending = scripted.env.spawn({
            let env = scripted.env.clone();
            async move { (producer.send(message()).await, env.now() - began) }
        });
        scripted.clock.advance(Duration::from_secs(4)).await;
        let (result, took) = sending.await.expect("not cancelled");
        let error = result.expect_err("no answer");
        assert_eq!((error.kind(), error.outcome()), (ErrorKind::Timeout, Outcome::Unknown));
        assert_eq!(Attempts::of(&error).len(), attempts);
        assert!((Duration::from_secs(3)..Duration::from_millis(3100)).contains(&took), "{took:?}");
    }
}

#[tokio::test]
async fn a_timeout_can_be_given_with_a_send() {
    let scripted = Scripted::start(1);
    scripted.on_send(0, |_| Reaction::Silence);
    let producer = producer(&scripted).await;
    let sending = scripted.env.spawn(async move {
        producer.send_with(message(), SendOptions::new().timeout(Duration::from_millis(200))).await
    });
    scripted.clock.advance(Duration::from_millis(100)).await;
    assert!(!sending.is_finished());
    scripted.clock.advance(Duration::from_millis(200)).await;
    assert_eq!(sending.await.expect("not cancelled").expect_err("no answer").kind(), ErrorKind::Timeout);
}

#[tokio::test]
async fn what_is_not_stored_safely_is_a_receipt_or_another_attempt() {
    let scripted = Scripted::start(2);
    for index in 0..2 {
        scripted.on_send(index, |request| stored(request, ResponseCode::FLUSH_DISK_TIMEOUT));
    }
    let client = scripted.client().await;
    let producer = client.producer("g").start().await.expect("a good group");
    let receipt = producer.send(message()).await.expect("a receipt");
    assert_eq!(receipt.status(), SendStatus::FlushDiskTimeout);
    assert_eq!(receipt.require_stored().expect_err("not stored").kind(), ErrorKind::NotStored);
    assert_eq!(scripted.sends().iter().sum::<usize>(), 1);

    let producer = client.producer("g").retry_not_stored(true).start().await.expect("a good group");
    let receipt = producer.send(message()).await.expect("the first receipt");
    assert_eq!(receipt.status(), SendStatus::FlushDiskTimeout);
    assert_eq!(scripted.sends().iter().sum::<usize>(), 4);
    scripted.on_send(0, |request| stored(request, ResponseCode::SUCCESS));
    for _ in 0..2 {
        let receipt = producer.send(message()).await.expect("stored");
        assert_eq!((receipt.status(), receipt.queue().broker()), (SendStatus::Ok, "a"));
    }
}

#[tokio::test]
async fn a_chosen_queue_gets_one_attempt() {
    let scripted = Scripted::start(2);
    let producer = producer(&scripted).await;
    let queues = producer.queues("t").await.expect("a route");
    assert_eq!(queues.iter().map(ToString::to_string).collect::<Vec<_>>(), ["t:a:0", "t:a:1", "t:b:0", "t:b:1"]);
    let receipt = producer.send_with(message(), SendOptions::new().queue(queues[3].clone())).await.expect("stored");
    assert_eq!(receipt.queue(), &queues[3]);
    refuse_first(&scripted, 1, ResponseCode::SYSTEM_BUSY);
    let error = producer.send_with(message(), SendOptions::new().queue(queues[0].clone())).await.expect_err("refused");
    assert_eq!((error.kind(), Attempts::of(&error).len()), (ErrorKind::Busy, 1));
    let other = Message::new("TBW102", "body");
    let error = producer.send_with(other, SendOptions::new().queue(queues[0].clone())).await.expect_err("refused");
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    let nowhere = MessageQueue::new("t", "z", 0);
    let error = producer.send_with(message(), SendOptions::new().queue(nowhere)).await.expect_err("refused");
    assert_eq!(error.kind(), ErrorKind::NoRoute);
}

#[tokio::test]
async fn one_way_sends_are_marked_and_not_awaited() {
    let scripted = Scripted::start(1);
    scripted.on_send(0, |_| Reaction::Silence);
    let producer = producer(&scripted).await;
    producer.send_one_way(message()).await.expect("handed over");
    let queue = MessageQueue::new("t", "a", 1);
    producer.send_one_way_with(message(), SendOptions::new().queue(queue)).await.expect("handed over");
    scripted.clock.advance(Duration::ZERO).await;
    let sends = scripted.brokers[0].requests(RequestCode::SEND_MESSAGE_V2);
    assert_eq!(sends.iter().map(|send| send.flag & 2).collect::<Vec<_>>(), [2, 2]);
    assert_eq!(sends[1].field("e"), Some("1"));
}

#[tokio::test]
async fn bad_messages_are_refused_before_anything_is_sent() {
    let scripted = Scripted::start(1);
    let producer = scripted.client().await.producer("g").max_message_size(8).start().await.expect("a good group");
    for (message, kind) in [
        (Message::new("t", ""), ErrorKind::InvalidArgument),
        (Message::new("t", "123456789"), ErrorKind::MessageTooLarge),
        (Message::new("t", "b").property("a", "\u{2}"), ErrorKind::InvalidArgument),
        (Message::new("a/b", "b"), ErrorKind::InvalidArgument),
        (Message::new("", "b"), ErrorKind::InvalidArgument),
        (Message::new("SCHEDULE_TOPIC_XXXX", "b"), ErrorKind::InvalidArgument),
    ] {
        for error in [
            producer.send(message.clone()).await.map(drop).expect_err("bad"),
            producer.send_one_way(message).await.expect_err("bad"),
        ] {
            assert_eq!((error.kind(), error.outcome()), (kind, Outcome::NotSent), "{error}");
        }
    }
    assert_eq!(scripted.sends(), [0]);
    producer.send(Message::new("t", "12345678")).await.expect("just small enough");
    for group in ["", "a b", "DEFAULT_PRODUCER"] {
        let started = scripted.client().await.producer(group).start().await;
        assert_eq!(started.expect_err("a bad group").kind(), ErrorKind::InvalidArgument);
    }
}

#[tokio::test]
async fn a_new_topic_is_created_by_its_first_message() {
    let scripted = Scripted::start(1);
    let producer = producer(&scripted).await;
    let new = || Message::new("new", "body");
    for _ in 0..4 {
        producer.send(new()).await.expect("stored");
    }
    let sends = scripted.brokers[0].requests(RequestCode::SEND_MESSAGE_V2);
    let queues: BTreeSet<_> = sends.iter().filter_map(|send| send.field("e")).collect();
    assert_eq!(queues, ["0", "1", "2", "3"].into());
    scripted.set_topic("new", 1);
    scripted.clock.advance(Duration::from_secs(30)).await;
    assert_eq!(producer.queues("new").await.expect("a route").len(), 1);

    scripted.remove_topic("TBW102");
    let lonely = Scripted::start(1);
    lonely.remove_topic("TBW102");
    let error = self::producer(&lonely).await.send(new()).await.expect_err("nobody creates it");
    assert_eq!(error.kind(), ErrorKind::NoRoute);
    assert!(error.to_string().contains("`new`") && error.to_string().contains("autoCreateTopicEnable"), "{error}");
}

#[tokio::test]
async fn a_topic_without_writable_queues_is_named() {
    let scripted = Scripted::start(1);
    scripted.set_topic("t", 0);
    let error = producer(&scripted).await.send(message()).await.expect_err("no queue");
    assert_eq!(error.kind(), ErrorKind::NoRoute);
    assert!(error.to_string().contains("permission"), "{error}");
}

#[tokio::test]
async fn many_first_sends_share_one_look_up() {
    let scripted = Scripted::start(1);
    for topic in 0..20 {
        scripted.set_topic(&format!("t{topic}"), 1);
    }
    let producer = producer(&scripted).await;
    let sends = (0..2000).map(|index| producer.send(Message::new(format!("t{}", index % 20), "body")));
    for result in join_all(sends).await {
        result.expect("stored");
    }
    // One more was made by `connect`.
    assert_eq!(scripted.name_server.requests(RequestCode::GET_ROUTEINFO_BY_TOPIC).len(), 21);
}

#[tokio::test]
async fn limits_make_callers_wait_and_never_fail() {
    let scripted = Scripted::start(1);
    let client = scripted.builder().max_in_flight(16).max_in_flight_bytes(64 * 1024).connect().await.expect("up");
    let producer = client.producer("g").start().await.expect("a good group");
    for result in join_all((0..10_000).map(|_| producer.send(message()))).await {
        result.expect("stored");
    }
    assert_eq!(scripted.sends(), [10_000]);
}

/// Polls what `make` returns once, then anew twice, and so on, dropping it each time, until it ends by itself; then
/// checks that nothing is left behind. `make` gets the number of the round.
async fn drop_at_every_await<F: Future>(
    scripted: &Scripted,
    producer: &Producer,
    make: impl Fn(usize) -> F,
) -> F::Output {
    for polls in 0..256 {
        let mut future = Box::pin(make(polls));
        for _ in 0..polls {
            if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
                drop(future);
                nothing_is_left(scripted, producer).await;
                return output;
            }
            tokio::task::yield_now().await;
        }
    }
    panic!("256 polls are more than enough");
}

/// No send is counted as under way, and no connection has a slot or a byte taken.
async fn nothing_is_left(scripted: &Scripted, producer: &Producer) {
    scripted.clock.advance(Duration::from_millis(10)).await;
    assert!(producer.0.sends.is_empty());
    assert_eq!(producer.stats().waiting_requests, 0);
    for broker in &scripted.brokers {
        let peer = producer.0.cluster.peer(&broker.address.to_string());
        let connection = peer.connection(scripted.env.now() + Duration::from_secs(1)).await.expect("open");
        let stats = connection.stats();
        assert_eq!((stats.in_flight, stats.waiting), (0, 0));
    }
}

#[tokio::test]
async fn a_send_may_be_dropped_at_any_await() {
    let scripted = Scripted::start(2);
    let producer = producer(&scripted).await;
    let make = |round: usize| {
        let topic = format!("fresh-{round}");
        scripted.set_topic(&topic, 1);
        refuse_first(&scripted, 1, ResponseCode::SYSTEM_ERROR);
        producer.send(Message::new(topic, "body"))
    };
    drop_at_every_await(&scripted, &producer, make).await.expect("stored");
    refuse_first(&scripted, 0, ResponseCode::SYSTEM_ERROR);
    producer.send(message()).await.expect("stored");
}

#[tokio::test]
async fn shutting_down_finishes_what_is_under_way() {
    let scripted = Scripted::start(1);
    let producer = producer(&scripted).await;
    producer.send(message()).await.expect("stored");
    let held = Arc::new(Mutex::new(Vec::new()));
    let holding = Arc::clone(&held);
    scripted.on_send(0, move |request| {
        holding.lock().expect("not poisoned").push(request.opaque);
        Reaction::Silence
    });
    let mut sending = pin!(producer.send(message()));
    assert!(sending.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    let mut stopping = pin!(producer.shutdown());
    assert!(stopping.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    assert_eq!(producer.send(message()).await.expect_err("shut down").kind(), ErrorKind::Closed);
    scripted.clock.advance(Duration::from_secs(4)).await;
    assert!(scripted.brokers[0].requests(RequestCode::UNREGISTER_CLIENT).is_empty());
    assert_eq!(sending.await.expect_err("no answer").kind(), ErrorKind::Timeout);
    stopping.await;
    producer.shutdown().await;
    let left = scripted.brokers[0].requests(RequestCode::UNREGISTER_CLIENT);
    assert_eq!(left.len(), 1);
    assert_eq!((left[0].field("producerGroup"), left[0].field("consumerGroup")), (Some("g"), None));
}

#[tokio::test]
async fn a_closed_client_fails_what_is_under_way() {
    let scripted = Scripted::start(1);
    let client = scripted.client().await;
    let producer = client.producer("g").start().await.expect("a good group");
    scripted.on_send(0, |_| Reaction::Silence);
    let sending = scripted.env.spawn({
        let producer = producer.clone();
        async move { producer.send(message()).await }
    });
    scripted.clock.advance(Duration::ZERO).await;
    client.close().await;
    assert_eq!(sending.await.expect("not cancelled").expect_err("closed").kind(), ErrorKind::Closed);
    assert_eq!(producer.send(message()).await.expect_err("closed").kind(), ErrorKind::Closed);
    assert_eq!(client.producer("g").start().await.expect_err("closed").kind(), ErrorKind::Closed);
    assert_eq!(scripted.brokers[0].requests(RequestCode::UNREGISTER_CLIENT).len(), 1);
    client.close().await;
}

#[tokio::test]
async fn unique_ids_differ() {
    let scripted = Scripted::start(1);
    let producer = producer(&scripted).await;
    let receipts = join_all((0..1000).map(|_| producer.send(message()))).await;
    let ids: BTreeSet<_> =
        receipts.into_iter().map(|receipt| receipt.expect("stored").message_id().to_owned()).collect();
    assert_eq!(ids.len(), 1000);
}
