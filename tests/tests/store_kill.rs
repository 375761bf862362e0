//! Our broker is killed while messages are sent, over and over on one store: what was answered is there, and nothing
//! else is.

use std::{
    collections::{BTreeMap, HashMap},
    io,
    sync::atomic::{AtomicU64, Ordering},
    thread,
    time::Duration,
};

use rocketmq_tests::{apache::create_topic, mock_process::MockProcess, process::poll, raw::Connection, stored};
use rocketmq_wire::message::StoredMessage;

const SEND: u32 = 310;
const TOPIC: &str = "Killed";
const QUEUES: u32 = 3;
const SENDERS: u64 = 4;
/// Every so many messages one is delayed by a second.
const DELAYED: u64 = 16;

/// What was sent, and the place that was answered; none if the broker died before the answer.
type Sent = HashMap<String, Option<(u32, u64)>>;

fn rounds() -> u64 {
    if std::env::var_os("FULL").is_some() { 100 } else { 4 }
}

/// Sends until the broker is gone.
fn send_until_gone(broker: &str, round: u64, sender: u64, acknowledged: &AtomicU64) -> Sent {
    let mut sent = Sent::new();
    let run = || -> io::Result<()> {
        let mut connection = Connection::open(broker)?;
        for index in 0.. {
            // Sizes from a few bytes to several pages.
            let body = format!("{round}-{sender}-{index}-{}", "x".repeat((index * 7919 % 9000) as usize));
            let queue = (index % u64::from(QUEUES)) as u32;
            let queue_id = queue.to_string();
            let properties = if index % DELAYED == DELAYED - 1 { "DELAY\u{1}1\u{2}" } else { "KEYS\u{1}k\u{2}" };
            let fields = [
                ("a", "killers"),
                ("b", TOPIC),
                ("c", "TBW102"),
                ("d", "4"),
                ("e", &queue_id),
                ("f", "0"),
                ("g", "1700000000000"),
                ("h", "0"),
                ("i", properties),
                ("j", "0"),
                ("k", "false"),
                ("m", "false"),
            ];
            sent.insert(body.clone(), None);
            let answer = connection.ask(SEND, &fields, body.as_bytes())?;
            assert_eq!(answer.code, 0, "{:?}", answer.remark);
            let offset = answer.fields["queueOffset"].as_str().and_then(|offset| offset.parse().ok());
            let place = (queue, offset.expect("a queue offset"));
            // A delayed message is answered with its place among the delayed.
            let place = if properties.starts_with("DELAY") { (u32::MAX, place.1) } else { place };
            sent.insert(body, Some(place));
            acknowledged.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    };
    // The broker is killed, so this ends with an error.
    let ended = { run }();
    assert!(ended.is_err());
    sent
}

/// Every message that can be read, by body, with all its places.
fn stored_messages(broker: &str) -> HashMap<String, Vec<(u32, u64)>> {
    let mut found: HashMap<String, Vec<(u32, u64)>> = HashMap::new();
    for ((_, id), queue) in stored::topics(broker, &[TOPIC], QUEUES) as BTreeMap<(String, u32), stored::Queue> {
        let mut expected = queue.min_offset;
        for message in StoredMessage::records(queue.records.into()) {
            let message = message.expect("a whole record");
            message.verify_crc().expect("an undamaged body");
            assert_eq!(message.queue_offset() as u64, expected, "offsets follow each other");
            expected += 1;
            let body = String::from_utf8(message.body().to_vec()).expect("text");
            found.entry(body).or_default().push((id, message.queue_offset() as u64));
        }
        // Delayed messages may have come since the end was asked for.
        assert!(expected >= queue.max_offset, "{expected} of {}", queue.max_offset);
    }
    found
}

fn check(broker: &str, sent: &Sent, round: u64) {
    let found = stored_messages(broker);
    for (body, places) in &found {
        assert!(sent.contains_key(body), "round {round}: a message that nobody sent: {}", &body[..20.min(body.len())]);
        let is_delayed = matches!(sent[body], Some((u32::MAX, _)));
        assert!(places.len() == 1 || is_delayed || sent[body].is_none(), "round {round}: stored twice: {places:?}");
    }
    for (body, place) in sent {
        match place {
            Some(place) if place.0 != u32::MAX => {
                let name = &body[..20.min(body.len())];
                assert_eq!(found.get(body).map(Vec::as_slice), Some(&[*place][..]), "round {round}: {name}");
            }
            _ => {}
        }
    }
}

fn kill_again_and_again(flush: &str) {
    let mut broker = MockProcess::start(&[
        ("flushDiskType", flush),
        ("mappedFileSizeCommitLog", "1048576"),
        ("mappedFileSizeConsumeQueue", "20000"),
        ("maxHashSlotNum", "1000"),
        ("maxIndexNum", "5000"),
    ]);
    let addresses = broker.addresses().clone();
    create_topic(&addresses.name_server, &addresses.broker, TOPIC, QUEUES);
    let mut sent = Sent::new();
    for round in 0..rounds() {
        let acknowledged = AtomicU64::new(0);
        thread::scope(|scope| {
            let senders: Vec<_> = (0..SENDERS)
                .map(|sender| {
                    let (address, acknowledged) = (&addresses.broker, &acknowledged);
                    scope.spawn(move || send_until_gone(address, round, sender, acknowledged))
                })
                .collect();
            // At another moment in each round, told by how much was answered.
            let enough = 20 + round * 7919 % 1500;
            poll("enough messages", Duration::from_secs(60), || {
                (acknowledged.load(Ordering::Relaxed) >= enough).then_some(())
            });
            // Created in the last moment, with more queues than a topic has that a send creates.
            create_topic(&addresses.name_server, &addresses.broker, &format!("Killed-{round}"), 12);
            broker.kill();
            sent.extend(senders.into_iter().flat_map(|sender| sender.join().expect("a sender that ended")));
        });
        broker.start_again();
        check(&addresses.broker, &sent, round);
        stored::send(&addresses.broker, &format!("Killed-{round}"), 11, "", b"to a topic created before the kill");
    }
    poll("the delayed messages", Duration::from_secs(30), || {
        let found = stored_messages(&addresses.broker);
        let mut delayed = sent.iter().filter(|(_, place)| matches!(place, Some((u32::MAX, _))));
        delayed.all(|(body, _)| found.contains_key(body)).then_some(())
    });
    check(&addresses.broker, &sent, rounds());
    broker.stop();
}

#[test]
fn kills_with_asynchronous_flush_lose_nothing() {
    kill_again_and_again("ASYNC_FLUSH");
}

#[test]
fn kills_with_synchronous_flush_lose_nothing() {
    kill_again_and_again("SYNC_FLUSH");
}
