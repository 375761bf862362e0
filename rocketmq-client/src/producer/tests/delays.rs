//! Messages for a time of their own.

use std::time::SystemTime;

use bytes::Bytes;
use rocketmq_wire::{RemotingCommand, Version};

use super::*;
use crate::producer::Delay;

/// Makes broker `index` one of this version and configuration; `None` when nobody may ask for it.
fn become_version(scripted: &Scripted, index: usize, version: Version, configuration: Option<&'static str>) {
    scripted.brokers[index].react(move |request| {
        let reaction = match (RequestCode(request.code), configuration) {
            (RequestCode::GET_BROKER_CONFIG, Some(text)) => {
                let body = Bytes::from_static(text.as_bytes());
                Reaction::Answer(RemotingCommand { body, ..scripted::success(request, &[]) })
            }
            (RequestCode::GET_BROKER_CONFIG, None) => answer(request, ResponseCode::NO_PERMISSION),
            (RequestCode::SEND_MESSAGE_V2, _) => stored(request, ResponseCode::SUCCESS),
            _ => scripted::broker(request),
        };
        match reaction {
            Reaction::Answer(answer) => Reaction::Answer(RemotingCommand { version, ..answer }),
            other => other,
        }
    });
}

const NAMES: [&str; 3] = ["DELAY", "TIMER_DELAY_MS", "TIMER_DELIVER_MS"];

/// The properties about delays of the last send.
fn last(scripted: &Scripted) -> [Option<String>; 3] {
    let sends = scripted.brokers[0].requests(RequestCode::SEND_MESSAGE_V2);
    let properties = Properties::from(sends.last().and_then(|send| send.field("i")).expect("a send"));
    assert!(properties.value("UNIQ_KEY").is_some() && properties.value("TAGS") == Some("x"));
    NAMES.map(|name| properties.value(name).map(str::to_owned))
}

fn some(text: &str) -> Option<String> {
    Some(text.to_owned())
}

#[tokio::test]
async fn brokers_with_a_timer_get_the_time() {
    let scripted = Scripted::start(1);
    become_version(&scripted, 0, Version::V5_3_3, Some("timerWheelEnable=true\n"));
    let producer = producer(&scripted).await;
    let receipt = producer.send(message().deliver_after(Duration::from_micros(2_500_100))).await.expect("stored");
    assert_eq!((last(&scripted), receipt.delay()), ([None, some("2501"), None], Some(Delay::Timer)));
    let at = SystemTime::UNIX_EPOCH + Duration::from_millis(4_102_444_800_123);
    let receipt = producer.send(message().delay_level(2).deliver_at(at)).await.expect("stored");
    assert_eq!((last(&scripted), receipt.delay()), ([None, None, some("4102444800123")], Some(Delay::Timer)));
    // Once is enough to know a broker.
    assert_eq!(scripted.brokers[0].requests(RequestCode::GET_BROKER_CONFIG).len(), 1);
    let receipt = producer.send(message().deliver_at(at).delay_level(2)).await.expect("stored");
    assert_eq!((last(&scripted), receipt.delay()), ([some("2"), None, None], None));
    let receipt = producer.send(message().deliver_at(at).deliver_after(Duration::ZERO)).await.expect("stored");
    assert_eq!((last(&scripted), receipt.delay()), ([None, None, None], None));
}

#[tokio::test]
async fn one_way_sends_are_timed_as_others() {
    for (version, expected) in
        [(Version::V5_3_3, [None, some("31000"), None]), (Version::V4_9_7, [some("5"), None, None])]
    {
        let scripted = Scripted::start(1);
        become_version(&scripted, 0, version, None);
        let producer = producer(&scripted).await;
        producer.send_one_way(message().deliver_after(Duration::from_secs(31))).await.expect("handed over");
        scripted.clock.advance(Duration::from_millis(10)).await;
        assert_eq!(last(&scripted), expected);
        let sends = scripted.brokers[0].requests(RequestCode::SEND_MESSAGE_V2);
        assert_eq!((sends.len(), sends[0].flag & 2), (1, 2), "one-way");
    }
}

#[tokio::test]
async fn brokers_without_a_timer_get_the_level_that_is_not_early() {
    let scripted = Scripted::start(1);
    become_version(&scripted, 0, Version::V4_9_7, None);
    let producer = producer(&scripted).await;
    let after = |seconds| message().deliver_after(Duration::from_secs(seconds));
    let receipt = producer.send(after(31)).await.expect("stored");
    assert_eq!((last(&scripted), receipt.delay()), ([some("5"), None, None], Some(Delay::Level(5))));
    let now = scripted.env.wall_clock();
    let receipt = producer.send(message().deliver_at(now + Duration::from_secs(5))).await.expect("stored");
    assert_eq!(receipt.delay(), Some(Delay::Level(2)));
    let receipt = producer.send(message().deliver_at(now - Duration::from_secs(5))).await.expect("stored");
    assert_eq!((last(&scripted), receipt.delay()), ([None, None, None], Some(Delay::None)));
    let error = producer.send(after(7201)).await.expect_err("too long");
    assert_eq!((error.kind(), error.outcome()), (ErrorKind::Unsupported, Outcome::NotSent), "{error}");
    assert_eq!(scripted.sends(), [3]);

    // The broker becomes another one: its own table counts.
    become_version(&scripted, 0, Version::V4_4_0, Some("brokerName=a\nmessageDelayLevel=2s 90s\nx=y"));
    producer.send(message()).await.expect("stored");
    let receipt = producer.send(after(31)).await.expect("stored");
    assert_eq!(receipt.delay(), Some(Delay::Level(2)));
    become_version(&scripted, 0, Version::V5_3_3, Some(""));
    producer.send(message()).await.expect("stored");
    assert_eq!(producer.send(after(31)).await.expect("stored").delay(), Some(Delay::Timer));
}

#[tokio::test]
async fn an_attempt_elsewhere_is_timed_for_that_broker() {
    let scripted = Scripted::start(2);
    become_version(&scripted, 0, Version::V5_3_3, Some(""));
    become_version(&scripted, 1, Version::V4_9_7, Some(""));
    let producer = producer(&scripted).await;
    let mut delays = BTreeSet::new();
    for _ in 0..4 {
        let receipt = producer.send(message().deliver_after(Duration::from_secs(10))).await.expect("stored");
        delays.insert((receipt.queue().broker().to_owned(), format!("{:?}", receipt.delay().expect("a delay"))));
    }
    let expected = [("a", "Timer"), ("b", "Level(3)")].map(|(broker, delay)| (broker.to_owned(), delay.to_owned()));
    assert_eq!(delays, expected.into());
    let chosen = SendOptions::new().queue(MessageQueue::new("t", "b", 0));
    let receipt = producer.send_with(message().deliver_after(Duration::from_secs(10)), chosen).await.expect("stored");
    assert_eq!(receipt.delay(), Some(Delay::Level(3)));
}

#[tokio::test]
async fn receipts_of_timed_messages_can_be_recalled() {
    // v1 t b 1700000000001 ID
    const HANDLE: &str = "djEgdCBiIDE3MDAwMDAwMDAwMDEgSUQ=";
    let scripted = Scripted::start(2);
    for broker in &scripted.brokers {
        broker.react(|request| match RequestCode(request.code) {
            RequestCode::SEND_MESSAGE_V2 => {
                let fields = [("queueOffset", "7"), ("recallHandle", HANDLE)];
                Reaction::Answer(scripted::success(request, &fields))
            }
            RequestCode::RECALL_MESSAGE => Reaction::Answer(scripted::success(request, &[("msgId", "ID")])),
            _ => scripted::broker(request),
        });
    }
    let producer = producer(&scripted).await;
    let receipt = producer.send(message().deliver_after(Duration::from_secs(60))).await.expect("stored");
    let handle = receipt.recall_handle().expect("a handle");
    assert_eq!(producer.recall("t", handle).await.expect("recalled"), "ID");
    let recalls = scripted.brokers[1].requests(RequestCode::RECALL_MESSAGE);
    let field = |name| recalls[0].field(name);
    assert_eq!((field("topic"), field("recallHandle"), field("bname")), (Some("t"), Some(HANDLE), Some("b")));
    assert_eq!(field("producerGroup"), Some("g"));
    assert!(scripted.brokers[0].requests(RequestCode::RECALL_MESSAGE).is_empty());

    for (topic, handle) in [("%RETRY%g", HANDLE), ("t", "nonsense"), ("a/b", HANDLE)] {
        let error = producer.recall(topic, handle).await.expect_err("refused");
        assert_eq!((error.kind(), error.operation()), (ErrorKind::InvalidArgument, Some("recall")));
    }
    scripted.brokers[1].react(|request| answer(request, ResponseCode::NO_PERMISSION));
    assert_eq!(producer.recall("t", HANDLE).await.expect_err("not allowed").kind(), ErrorKind::NotPermitted);
}

#[tokio::test]
async fn a_timed_send_and_a_recall_may_be_dropped_at_any_await() {
    let scripted = Scripted::start(1);
    become_version(&scripted, 0, Version::V4_9_7, Some(""));
    let producer = producer(&scripted).await;
    let make = |round: usize| {
        let topic = format!("fresh-{round}");
        scripted.set_topic(&topic, 1);
        producer.0.abilities.lock().expect("not poisoned").clear();
        producer.send(Message::new(topic, "body").deliver_after(Duration::from_secs(1)))
    };
    drop_at_every_await(&scripted, &producer, make).await.expect("stored");
    drop_at_every_await(&scripted, &producer, |_| producer.recall("t", "djEgdCBiIDE3MDAwMDAwMDAwMDEgSUQ="))
        .await
        .expect_err("not understood");
}
