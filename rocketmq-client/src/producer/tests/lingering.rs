//! Automatic batching, and flushing.

use rocketmq_wire::message::batch;

use super::batches::{batches, store_batches};
use super::*;
use crate::env::Task;

async fn start(scripted: &Scripted, linger_ms: u64, max_batch_bytes: usize) -> Producer {
    store_batches(scripted);
    let client = scripted.client().await;
    let builder = client.producer("g").topic("t").linger(Duration::from_millis(linger_ms));
    builder.max_batch_bytes(max_batch_bytes).start().await.expect("a good group")
}

fn send(scripted: &Scripted, producer: &Producer, message: Message, options: SendOptions) -> Task<Result<SendReceipt>> {
    let producer = producer.clone();
    scripted.env.spawn(async move { producer.send_with(message, options).await })
}

fn numbered(number: usize) -> Message {
    Message::new("t", format!("body {number}")).key(number.to_string())
}

async fn counts(scripted: &Scripted) -> (usize, Vec<usize>) {
    scripted.clock.advance(Duration::ZERO).await;
    let sizes = batches(scripted, 0).iter().map(|request| batch::elements(&request.body).count()).collect();
    (scripted.sends()[0], sizes)
}

#[tokio::test]
async fn sends_of_one_moment_share_a_request_and_have_their_own_receipts() {
    let scripted = Scripted::start(1);
    let producer = start(&scripted, 10, 32 * 1024).await;
    let sending: Vec<_> = (0..5).map(|n| send(&scripted, &producer, numbered(n), SendOptions::new())).collect();
    scripted.clock.advance(Duration::from_millis(9)).await;
    assert_eq!(counts(&scripted).await, (0, vec![]));
    scripted.clock.advance(Duration::from_millis(1)).await;
    let mut ids = BTreeSet::new();
    for (index, sending) in sending.into_iter().enumerate() {
        let receipt = sending.await.expect("not cancelled").expect("stored");
        assert_eq!(receipt.queue_offset(), 7 + index as i64);
        assert_eq!(receipt.offset_message_id().map(|id| id.physical_offset), Some(index as i64));
        ids.insert(receipt.message_id().to_owned());
        let request = &batches(&scripted, 0)[0];
        let element = batch::elements(&request.body).nth(index).expect("an element").expect("readable");
        assert_eq!(element.body, format!("body {index}").as_bytes());
        let properties = Properties::new(element.properties);
        assert_eq!(properties.value("UNIQ_KEY"), Some(receipt.message_id()));
        assert_eq!(properties.value("KEYS"), Some(index.to_string().as_str()));
    }
    assert_eq!((ids.len(), counts(&scripted).await), (5, (0, vec![5])));
    // One that nobody joins goes as if there was no batching.
    let alone = send(&scripted, &producer, numbered(9), SendOptions::new());
    scripted.clock.advance(Duration::from_millis(10)).await;
    let receipt = alone.await.expect("not cancelled").expect("stored");
    assert_eq!(counts(&scripted).await, (1, vec![5]));
    let sends = scripted.brokers[0].requests(RequestCode::SEND_MESSAGE_V2);
    let properties = Properties::from(sends[0].field("i").expect("properties"));
    assert_eq!(properties.value("UNIQ_KEY"), Some(receipt.message_id()));
}

#[tokio::test]
async fn a_full_batch_is_sent_at_once() {
    let scripted = Scripted::start(1);
    let producer = start(&scripted, 1000, 1024).await;
    let sending: Vec<_> = (0..40).map(|n| send(&scripted, &producer, numbered(n), SendOptions::new())).collect();
    let (alone, sizes) = counts(&scripted).await;
    assert!(alone == 0 && sizes.len() >= 3 && sizes.iter().sum::<usize>() < 40, "{sizes:?}");
    assert!(batches(&scripted, 0).iter().all(|request| (800..=1024).contains(&request.body.len())));
    producer.flush().await;
    for sending in sending {
        sending.await.expect("not cancelled").expect("stored");
    }
    assert_eq!(counts(&scripted).await.1.iter().sum::<usize>(), 40, "time stood still");
}

#[tokio::test]
async fn topics_queues_and_keys_have_batches_of_their_own() {
    let scripted = Scripted::start(1);
    scripted.set_topic("u", 2);
    let producer = start(&scripted, 10, 32 * 1024).await;
    let queue = |id| SendOptions::new().queue(MessageQueue::new("t", "a", id));
    let mut sending = Vec::new();
    for number in 0..2 {
        sending.push(send(&scripted, &producer, numbered(number), queue(0)));
        sending.push(send(&scripted, &producer, numbered(number), queue(1)));
        sending.push(send(&scripted, &producer, numbered(number), SendOptions::new().key("a")));
        sending.push(send(&scripted, &producer, Message::new("u", "body"), SendOptions::new().key("a")));
    }
    counts(&scripted).await;
    scripted.clock.advance(Duration::from_millis(10)).await;
    let mut queues = Vec::new();
    for sending in sending {
        queues.push(sending.await.expect("not cancelled").expect("stored").queue().to_string());
    }
    assert_eq!(queues[..4], queues[4..]);
    assert_eq!(queues[..4], ["t:a:0", "t:a:1", "t:a:1", "u:a:1"]);
    assert_eq!(counts(&scripted).await, (0, vec![2, 2, 2, 2]));
}

#[tokio::test]
async fn what_cannot_be_part_of_a_batch_does_not_linger() {
    let scripted = Scripted::start(1);
    let producer = start(&scripted, 10_000, 8 * 1024).await;
    for message in [
        numbered(0).delay_level(1),
        numbered(0).deliver_after(Duration::from_secs(1)),
        Message::new("t", vec![b'x'; 5000]),
        Message::new("t", vec![b'x'; 20_000]),
        Message::new("%RETRY%g", "body"),
    ] {
        scripted.set_topic("%RETRY%g", 1);
        producer.send(message).await.expect("stored");
    }
    let options = SendOptions::new().timeout(Duration::from_secs(1));
    producer.send_with(numbered(1), options).await.expect("stored");
    producer.send_with(numbered(1), SendOptions::new().random()).await.expect("stored");
    assert_eq!(counts(&scripted).await, (7, vec![]));
    for wrong in [Duration::from_micros(1), Duration::from_secs(31)] {
        let started = scripted.client().await.producer("g").linger(wrong).start().await;
        assert_eq!(started.expect_err("no such time").kind(), ErrorKind::InvalidArgument);
    }
}

#[tokio::test]
async fn everybody_learns_why_a_batch_failed() {
    let scripted = Scripted::start(1);
    let producer = start(&scripted, 10, 32 * 1024).await;
    scripted.brokers[0].react(|request| match RequestCode(request.code) {
        RequestCode::SEND_BATCH_MESSAGE => answer(request, ResponseCode::MESSAGE_ILLEGAL),
        _ => scripted::broker(request),
    });
    let sending: Vec<_> = (0..3).map(|n| send(&scripted, &producer, numbered(n), SendOptions::new())).collect();
    counts(&scripted).await;
    scripted.clock.advance(Duration::from_millis(10)).await;
    for sending in sending {
        let error = sending.await.expect("not cancelled").expect_err("refused");
        assert_eq!((error.response_code(), Attempts::of(&error).len()), (Some(13), 1));
    }
}

#[tokio::test]
async fn who_goes_away_takes_nothing_from_the_others() {
    let scripted = Scripted::start(1);
    let producer = start(&scripted, 10, 32 * 1024).await;
    let mut sending: Vec<_> = (0..3).map(|n| send(&scripted, &producer, numbered(n), SendOptions::new())).collect();
    counts(&scripted).await;
    drop(sending.remove(0));
    scripted.clock.advance(Duration::from_millis(10)).await;
    for (index, sending) in sending.into_iter().enumerate() {
        let receipt = sending.await.expect("not cancelled").expect("stored");
        assert_eq!(receipt.queue_offset(), 8 + index as i64);
    }
    assert_eq!(counts(&scripted).await, (0, vec![3]));
    nothing_is_left(&scripted, &producer).await;
}

#[tokio::test]
async fn shutting_down_sends_what_lingers() {
    let scripted = Scripted::start(1);
    let producer = start(&scripted, 10_000, 32 * 1024).await;
    let sending: Vec<_> = (0..3).map(|n| send(&scripted, &producer, numbered(n), SendOptions::new())).collect();
    counts(&scripted).await;
    producer.shutdown().await;
    for sending in sending {
        sending.await.expect("not cancelled").expect("stored");
    }
    assert_eq!(producer.send(numbered(4)).await.expect_err("shut down").kind(), ErrorKind::Closed);
    // The task holds nothing that the last producer has to wait for.
    let gone = Arc::downgrade(&producer.0);
    drop(producer);
    scripted.clock.advance(Duration::ZERO).await;
    assert!(gone.upgrade().is_none());
}

#[tokio::test]
async fn a_flush_returns_when_one_way_sends_have_arrived() {
    let scripted = Scripted::start(2);
    let producer = producer(&scripted).await;
    for _ in 0..50 {
        producer.send_one_way(message()).await.expect("handed over");
    }
    producer.flush().await;
    assert_eq!(scripted.sends().iter().sum::<usize>(), 50);
}

#[tokio::test]
async fn a_lingering_send_may_be_dropped_at_any_await() {
    let scripted = Scripted::start(2);
    let producer = start(&scripted, 1, 32 * 1024).await;
    let make = |round: usize| {
        let topic = format!("fresh-{round}");
        scripted.set_topic(&topic, 1);
        let (producer, clock) = (&producer, &scripted.clock);
        async move {
            let sends = join_all((0..3).map(|_| producer.send(Message::new(topic.as_str(), "body"))));
            let (receipts, ()) = join(sends, async {
                tokio::task::yield_now().await;
                clock.advance(Duration::from_millis(1)).await;
            })
            .await;
            receipts.into_iter().collect::<Result<Vec<_>>>()
        }
    };
    let receipts = drop_at_every_await(&scripted, &producer, make).await.expect("stored");
    assert_eq!(receipts.len(), 3);
}
