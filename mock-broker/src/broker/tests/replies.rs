//! Replies that are handed to the clients that wait for them.

use std::time::Duration;

use rocketmq_wire::{RemotingCommand, RequestCode};

use super::{A, B, Bench, send_fields, with};
use crate::compatibility::Compatibility;

const TOPIC: &str = "DefaultCluster_REPLY_TOPIC";
const TO_ASKER: &str = "REPLY_TO_CLIENT\u{1}asker\u{2}CORRELATION_ID\u{1}c\u{2}";

impl Bench {
    fn reply(&mut self, properties: &str) -> Option<RemotingCommand> {
        let fields = with(send_fields(TOPIC, properties), &[]);
        self.try_ask(B, RequestCode::SEND_REPLY_MESSAGE_V2, &fields, b"answer")
    }

    /// What the broker sent, one thing, and to whom.
    fn sent(&mut self) -> (crate::reply::ConnectionId, RemotingCommand) {
        let (mut sent, _) = self.effects();
        assert_eq!(sent.len(), 1, "{sent:?}");
        sent.remove(0)
    }
}

#[test]
fn a_reply_reaches_the_client_that_asked() {
    for compatibility in [Compatibility::V4_9, Compatibility::V5_3] {
        let mut bench = Bench::new(compatibility);
        bench.join_producers(A, "asker", "askers");
        assert!(bench.reply(TO_ASKER).is_none(), "it is answered when the asker has it");
        let (to, push) = bench.sent();
        assert_eq!((to, push.code, push.flag, &push.body[..]), (A, 326, 0, &b"answer"[..]));
        let properties = push.field("properties").unwrap();
        assert!(
            properties.contains("CORRELATION_ID\u{1}c") && properties.contains("PUSH_REPLY_TIME"),
            "{properties:?}"
        );
        assert_eq!(push.field("storeHost"), Some("127.0.0.1:10911"));
        // Another client cannot answer for the asker.
        bench.answer(B, push.opaque, 0);
        assert!(bench.effects().0.is_empty());
        bench.answer(A, push.opaque, 0);
        let (to, answer) = bench.sent();
        assert_eq!((to, answer.code, answer.opaque), (B, 0, 9));
        assert_eq!(answer.field("queueOffset"), Some("0"));
        assert_eq!(answer.field("msgId").map(str::len), Some(32));
        assert_eq!(bench.broker.messages(TOPIC).len(), 1);
    }
}

#[test]
fn replies_that_do_not_arrive_are_answered_1() {
    let mut bench = Bench::with(|settings| settings.store_replies = false);
    let lost = bench.reply(TO_ASKER).unwrap();
    assert_eq!((lost.code, &*lost.remark.unwrap()), (1, "push reply message fail, channel of <asker> not found."));
    let nobody = bench.reply("").unwrap();
    assert_eq!((nobody.code, &*nobody.remark.unwrap()), (1, "reply message properties[REPLY_TO_CLIENT] is null"));
    bench.join_producers(A, "asker", "askers");
    bench.reply(TO_ASKER);
    let (_, push) = bench.sent();
    bench.answer(A, push.opaque, 1);
    let failed = bench.sent().1;
    assert_eq!((failed.code, &*failed.remark.unwrap()), (1, "push reply message to askerfail."));
    bench.reply(TO_ASKER);
    bench.sent();
    assert_eq!(
        bench.broker.next_session_event(),
        bench.now.session + Duration::from_secs(5).min(Duration::from_secs(10))
    );
    bench.pass(Duration::from_secs(10));
    assert_eq!(bench.sent().1.code, 1, "nobody waits longer than 10 s");
    bench.reply(TO_ASKER);
    bench.sent();
    bench.broker.connection_closed(A);
    assert_eq!(bench.sent().1.code, 1, "the asker is gone");
    bench.join_producers(A, "asker", "askers");
    bench.reply(TO_ASKER);
    let (_, push) = bench.sent();
    bench.answer(A, push.opaque, 0);
    let unstored = bench.sent().1;
    assert_eq!((unstored.code, unstored.field("msgId"), unstored.field("queueOffset")), (0, Some("0"), Some("0")));
}

#[test]
fn brokers_of_4_4_know_no_replies() {
    let mut bench = Bench::new(Compatibility::V4_4);
    assert!(bench.reply(TO_ASKER).is_none() && bench.effects().0.is_empty());
}
