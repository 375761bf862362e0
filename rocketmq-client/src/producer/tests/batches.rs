//! Several messages in one request.

use rocketmq_wire::RemotingCommand;
use rocketmq_wire::message::batch;

use super::*;

pub(super) fn batches(scripted: &Scripted, broker: usize) -> Vec<RemotingCommand> {
    scripted.brokers[broker].requests(RequestCode::SEND_BATCH_MESSAGE)
}

/// Makes brokers store batches and answer with one id a message, in a queue that had 7 messages.
pub(super) fn store_batches(scripted: &Scripted) {
    for broker in &scripted.brokers {
        broker.react(|request| match RequestCode(request.code) {
            RequestCode::SEND_BATCH_MESSAGE => {
                let count = batch::elements(&request.body).count();
                let ids: Vec<_> = (0..count).map(|index| format!("0A00000200002A9F{index:016X}")).collect();
                let queue = request.field("e").expect("a queue");
                let fields = [("msgId", &*ids.join(",")), ("queueId", queue), ("queueOffset", "7")];
                Reaction::Answer(scripted::success(request, &fields))
            }
            _ => scripted::broker(request),
        });
    }
}

fn numbered(count: usize) -> impl Iterator<Item = Message> {
    (0..count).map(|number| Message::new("t", format!("body {number}")).key(number.to_string()).flag(number as i32))
}

#[tokio::test]
async fn every_message_has_its_own_id_and_place() {
    let scripted = Scripted::start(1);
    store_batches(&scripted);
    let producer = producer(&scripted).await;
    let receipts = producer.send_batch(numbered(3)).await.expect("stored");
    let batches = batches(&scripted, 0);
    let [sent] = &batches[..] else { panic!("one request: {batches:?}") };
    assert_eq!((sent.field("b"), sent.field("m"), sent.field("f")), (Some("t"), Some("true"), Some("0")));
    let elements: Vec<_> = batch::elements(&sent.body).map(|element| element.expect("an element")).collect();
    let ids: BTreeSet<_> = receipts.iter().map(|receipt| receipt.message_id().to_owned()).collect();
    assert_eq!((elements.len(), receipts.len(), ids.len()), (3, 3, 3));
    for (index, (element, receipt)) in elements.iter().zip(&receipts).enumerate() {
        assert_eq!((element.body, element.flag), (format!("body {index}").as_bytes(), index as i32));
        let properties = Properties::new(element.properties);
        assert_eq!(properties.value("UNIQ_KEY"), Some(receipt.message_id()));
        assert_eq!(properties.value("KEYS"), Some(index.to_string().as_str()));
        assert_eq!((receipt.queue_offset(), receipt.queue().broker()), (7 + index as i64, "a"));
        let id = receipt.offset_message_id().expect("an id");
        assert_eq!(id.physical_offset, index as i64);
    }
    // The request as a whole goes by the id of its first message.
    let properties = Properties::from(sent.field("i").expect("properties"));
    assert_eq!(properties.iter().collect::<Vec<_>>(), [("UNIQ_KEY", receipts[0].message_id())]);
}

#[tokio::test]
async fn what_is_too_much_for_one_request_goes_in_several() {
    let scripted = Scripted::start(2);
    store_batches(&scripted);
    let client = scripted.client().await;
    let producer = client.producer("g").max_message_size(400).start().await.expect("a good group");
    let queue = producer.queues("t").await.expect("a route")[2].clone();
    for options in [SendOptions::new().queue(queue.clone()), SendOptions::new().selector(|_, _| 2)] {
        let before = batches(&scripted, 1).len();
        let receipts = producer.send_batch_with(numbered(10), options).await.expect("stored");
        assert!(receipts.iter().all(|receipt| *receipt.queue() == queue), "a batch that has a queue stays there");
        let sent = &batches(&scripted, 1)[before..];
        let sizes: Vec<_> = sent.iter().map(|request| request.body.len()).collect();
        let counts: Vec<_> = sent.iter().map(|request| batch::elements(&request.body).count()).collect();
        assert_eq!(counts.iter().sum::<usize>(), 10);
        assert!(sent.len() > 1 && sizes.iter().all(|size| (200..=400).contains(size)), "{sizes:?}");
    }
    // A message that fits by itself, but not with what a batch adds to it.
    let error = producer.send_batch([Message::new("t", vec![b'x'; 350])]).await.expect_err("too large");
    assert_eq!((error.kind(), error.outcome()), (ErrorKind::MessageTooLarge, Outcome::NotSent));
}

#[tokio::test]
async fn what_cannot_be_part_of_a_batch_is_refused() {
    let scripted = Scripted::start(1);
    store_batches(&scripted);
    let producer = producer(&scripted).await;
    let good = || Message::new("t", "body");
    for bad in [
        Message::new("other", "body"),
        good().delay_level(1),
        good().deliver_after(Duration::from_secs(1)),
        Message::new("t", ""),
        good().key(""),
    ] {
        let error = producer.send_batch([good(), bad]).await.expect_err("refused");
        assert_eq!((error.kind(), error.outcome()), (ErrorKind::InvalidArgument, Outcome::NotSent), "{error}");
        assert_eq!(error.operation(), Some("send batch"), "{error}");
    }
    for none in [Vec::new(), vec![Message::new("%RETRY%g", "body")]] {
        let error = producer.send_batch(none).await.expect_err("refused");
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    }
    assert!(batches(&scripted, 0).is_empty());
}

#[tokio::test]
async fn the_error_tells_what_was_stored_before() {
    let scripted = Scripted::start(1);
    store_batches(&scripted);
    let client = scripted.client().await;
    let producer = client.producer("g").max_message_size(200).retries(0).start().await.expect("a good group");
    let left = Arc::new(AtomicUsize::new(2));
    scripted.brokers[0].react(move |request| match RequestCode(request.code) {
        RequestCode::SEND_BATCH_MESSAGE
            if left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_err() =>
        {
            answer(request, ResponseCode::SYSTEM_BUSY)
        }
        RequestCode::SEND_BATCH_MESSAGE => {
            let queue = request.field("e").expect("a queue");
            Reaction::Answer(scripted::success(request, &[("queueId", queue), ("queueOffset", "7")]))
        }
        _ => scripted::broker(request),
    });
    let error = producer.send_batch(numbered(10)).await.expect_err("busy at the third request");
    assert_eq!((error.kind(), error.response_code()), (ErrorKind::Busy, Some(2)));
    let stored = BatchProgress::of(&error);
    assert!((2..10).contains(&stored.len()), "{stored:?}");
    assert_eq!((stored[0].queue_offset(), stored[0].offset_message_id()), (7, None));
    let error = producer.send_batch(numbered(1)).await.expect_err("still busy");
    assert!(BatchProgress::of(&error).is_empty());
    assert_eq!(Attempts::of(&error).len(), 1);
}

#[tokio::test]
async fn a_batch_may_be_dropped_at_any_await() {
    let scripted = Scripted::start(2);
    store_batches(&scripted);
    let client = scripted.client().await;
    let builder = client.producer("g").max_message_size(200).max_in_flight(3).max_in_flight_bytes(1000);
    let producer = builder.start().await.expect("a good group");
    let make = |round: usize| {
        let topic = format!("fresh-{round}");
        scripted.set_topic(&topic, 1);
        producer.send_batch((0..3).map(move |_| Message::new(topic.as_str(), "body")))
    };
    drop_at_every_await(&scripted, &producer, make).await.expect("stored");
    assert!(producer.0.limits.as_ref().is_some_and(|limits| limits.is_unused(3, 1000)));
}
