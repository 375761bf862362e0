//! Transactions: half messages, their outcome, and the questions for it.

use std::time::Duration;

use rocketmq_wire::message::{StoredMessage, names, properties};
use rocketmq_wire::{RemotingCommand, RequestCode};

use super::{A, ALL, B, Bench};
use crate::compatibility::Compatibility;
use crate::reply::ConnectionId;

const HALF: &str = "TRAN_MSG\u{1}true\u{2}PGROUP\u{1}payers\u{2}UNIQ_KEY\u{1}U1\u{2}WAIT\u{1}true\u{2}TAGS\u{1}t\u{2}";
/// Makes it another message: of equal names the last counts.
const SECOND_ID: &str = "UNIQ_KEY\u{1}U2\u{2}";
const SECOND: Duration = Duration::from_secs(1);

impl Bench {
    fn half(&mut self, more: &str) -> StoredMessage {
        let sent = self.send("orders", &format!("{HALF}{more}"), b"pay");
        assert_eq!(sent.code, 0, "{sent:?}");
        self.broker.messages(names::HALF_TOPIC).pop().expect("a half message")
    }

    fn end(&mut self, half: &StoredMessage, outcome: &str, checked: bool) -> Option<RemotingCommand> {
        self.end_as("payers", &half.queue_offset().to_string(), &half.physical_offset().to_string(), outcome, checked)
    }

    fn end_as(&mut self, group: &str, table: &str, log: &str, outcome: &str, checked: bool) -> Option<RemotingCommand> {
        let fields = [
            ("producerGroup", group),
            ("tranStateTableOffset", table),
            ("commitLogOffset", log),
            ("commitOrRollback", outcome),
            ("fromTransactionCheck", if checked { "true" } else { "false" }),
            ("msgId", "U1"),
        ];
        self.try_ask(A, RequestCode::END_TRANSACTION, &fields, b"")
    }

    /// The questions for outcomes that are on their way, and whom they go to.
    fn checks(&mut self) -> Vec<(ConnectionId, RemotingCommand)> {
        let (pushed, _) = self.effects();
        assert!(pushed.iter().all(|(_, command)| command.code == 39 && command.flag == 2), "{pushed:?}");
        pushed
    }

    fn orders(&self) -> Vec<StoredMessage> {
        self.broker.messages("orders")
    }
}

#[test]
fn a_half_message_is_seen_once_it_is_committed() {
    for compatibility in ALL {
        let mut bench = Bench::new(compatibility);
        let half = bench.half("");
        assert!(bench.orders().is_empty());
        assert_eq!((half.queue_id(), half.sys_flag() & 12), (0, 0));
        assert_eq!(half.property(properties::REAL_TOPIC), Some("orders"));
        assert_eq!(half.property(properties::REAL_QUEUE_ID), Some("0"));
        assert_eq!(half.property(properties::WAIT), Some("true"));
        let named = half.property(properties::TRANSACTION_ID);
        assert_eq!(named, (compatibility == Compatibility::V5_3).then_some("U1"), "{compatibility:?}");
        assert_eq!(bench.end(&half, "0", false).map(|answer| answer.code), None);
        assert_eq!(bench.end(&half, "8", false).map(|answer| answer.code), Some(0));
        let [order] = &bench.orders()[..] else { panic!("one order") };
        assert_eq!((order.sys_flag() & 12, order.prepared_transaction_offset()), (8, half.physical_offset()));
        assert_eq!(order.properties(), half.properties());
        assert_eq!(order.body(), "pay");
        let [op] = &bench.broker.messages(names::HALF_OP_TOPIC)[..] else { panic!("one op record") };
        assert_eq!(op.body(), if compatibility == Compatibility::V5_3 { "0," } else { "0" });
        assert_eq!(op.tags(), Some("d"));
        bench.pass(600 * SECOND);
        assert_eq!(bench.checks().len(), 0, "decided messages are not asked for");
    }
}

#[test]
fn outcomes_that_fit_no_half_message_are_refused() {
    let mut bench = Bench::new(Compatibility::V5_3);
    let half = bench.half("");
    let plain = bench.send("orders", "", b"plain");
    let log = half.physical_offset().to_string();
    let mut refused = |group, table, log: &str| bench.end_as(group, table, log, "8", false).unwrap();
    let remark = |answer: RemotingCommand| (answer.code, answer.remark.unwrap());
    assert_eq!(remark(refused("others", "0", &log)), (1, "The producer group wrong".to_owned()));
    assert_eq!(remark(refused("payers", "7", &log)), (1, "The transaction state table offset wrong".to_owned()));
    let nothing = remark(refused("payers", "0", "99999"));
    assert_eq!(nothing, (1, "Find prepared transaction message failed".to_owned()));
    let plain_at = i64::from_str_radix(&plain.field("msgId").unwrap()[16..], 16).unwrap().to_string();
    assert_eq!(refused("payers", "0", &plain_at).code, 1);
    assert_eq!(bench.orders().len(), 1);
    assert_eq!(bench.end(&half, "12", false).map(|answer| answer.code), Some(0));
    assert_eq!(bench.orders().len(), 1, "a rollback shows nothing");
}

#[test]
fn an_undecided_message_is_asked_for_until_it_is_given_up() {
    let mut bench = Bench::with(|settings| settings.transaction_check_max = 2);
    bench.join_producers(A, "a", "payers");
    let first = bench.half("");
    bench.pass(30 * SECOND);
    let [(to, check)] = &bench.checks()[..] else { panic!("one question") };
    assert_eq!(*to, A);
    assert_eq!((check.field("tranStateTableOffset"), check.field("msgId")), (Some("1"), Some("U1")));
    assert_eq!((check.field("topic"), check.field("bname")), (Some(names::HALF_TOPIC), Some("broker-a")));
    let (body, _) = StoredMessage::parse(check.body.clone()).unwrap();
    assert_eq!((body.topic(), body.queue_id(), body.queue_offset()), ("orders", 0, 1));
    assert_eq!(check.field("commitLogOffset"), Some(&*body.physical_offset().to_string()));
    assert_eq!(check.field("offsetMsgId"), Some(&*body.offset_message_id().to_string()));
    assert_eq!(body.property(properties::TRANSACTION_CHECK_TIMES), Some("1"));
    bench.pass(30 * SECOND);
    assert_eq!(bench.checks().len(), 1);
    bench.pass(30 * SECOND);
    assert_eq!(bench.checks().len(), 0);
    let given_up = bench.broker.messages(names::TRANSACTION_CHECK_MAX_TIME_TOPIC);
    assert_eq!(given_up.len(), 1);
    assert_eq!(given_up[0].body(), first.body());
    bench.pass(300 * SECOND);
    assert_eq!(bench.broker.messages(names::TRANSACTION_CHECK_MAX_TIME_TOPIC).len(), 1);
    assert_eq!(bench.broker.next_delivery(bench.now), None, "nothing is left to be done");
}

#[test]
fn an_answer_to_a_question_decides_the_copy_it_was_about() {
    let mut bench = Bench::new(Compatibility::V5_3);
    bench.join_producers(A, "a", "payers");
    bench.half("");
    bench.pass(30 * SECOND);
    let (_, check) = bench.checks().pop().unwrap();
    let field = |name| check.field(name).unwrap();
    let (table, log) = (field("tranStateTableOffset"), field("commitLogOffset"));
    assert_eq!(bench.end_as("payers", table, log, "8", true).unwrap().code, 0);
    bench.pass(300 * SECOND);
    assert_eq!((bench.orders().len(), bench.checks().len()), (1, 0));
}

#[test]
fn members_of_the_group_are_asked_in_turn_and_those_that_went_are_not() {
    let mut bench = Bench::new(Compatibility::V5_3);
    bench.join_producers(A, "a", "payers");
    bench.join_producers(B, "b", "payers");
    bench.half("");
    bench.half(SECOND_ID);
    bench.pass(30 * SECOND);
    let mut asked: Vec<_> = bench.checks().iter().map(|(to, _)| *to).collect();
    asked.sort_unstable();
    assert_eq!(asked, [A, B]);
    bench.broker.connection_closed(A);
    bench.effects();
    bench.pass(30 * SECOND);
    assert!(bench.checks().iter().all(|(to, _)| *to == B));
    bench.broker.connection_closed(B);
    bench.effects();
    bench.pass(30 * SECOND);
    assert_eq!(bench.checks().len(), 0);
}

#[test]
fn young_and_immune_messages_are_left_alone() {
    let mut bench = Bench::new(Compatibility::V5_3);
    bench.join_producers(A, "a", "payers");
    let immune = bench.half("CHECK_IMMUNITY_TIME_IN_SECONDS\u{1}100\u{2}");
    bench.pass(26 * SECOND);
    bench.half(SECOND_ID);
    bench.pass(4 * SECOND);
    assert_eq!(bench.checks().len(), 0, "one is immune, the other 4 s old");
    let copy = bench.broker.messages(names::HALF_TOPIC).pop().unwrap();
    assert_eq!(copy.property(properties::TRANSACTION_PREPARED_QUEUE_OFFSET), Some("0"));
    bench.pass(30 * SECOND);
    assert_eq!(bench.checks().len(), 1);
    // The producer names the first copy, which is passed long ago.
    assert_eq!(bench.end(&immune, "8", false).unwrap().code, 0);
    let (_, check) = {
        bench.pass(60 * SECOND);
        bench.checks().pop().unwrap()
    };
    assert_eq!(StoredMessage::parse(check.body.clone()).unwrap().0.property("CHECK_IMMUNITY_TIME_IN_SECONDS"), None);
    assert_eq!(bench.orders().len(), 1);
    // Past its immunity only an answer to a question counts.
    assert_eq!(bench.end(&immune, "8", false).unwrap().code, 604);
    assert_eq!(bench.end(&immune, "8", true).unwrap().code, 0);
}

#[test]
fn half_messages_can_be_refused() {
    let mut bench = Bench::with(|settings| settings.reject_transactions = true);
    let refused = bench.send("orders", HALF, b"pay");
    assert_eq!(
        (refused.code, &*refused.remark.unwrap()),
        (16, "the broker[127.0.0.1] sending transaction message is forbidden")
    );
}

#[test]
fn what_is_open_and_what_is_decided_survives_a_kill() {
    let directory = tempfile::tempdir().unwrap();
    let open = || Bench::with(|settings| settings.store = Some(directory.path().to_owned()));
    let mut bench = open();
    let decided = bench.half("");
    bench.half(SECOND_ID);
    assert_eq!(bench.end(&decided, "8", false).unwrap().code, 0);
    // Dropped, not closed, as a killed process leaves it.
    drop(bench);
    let mut bench = open();
    bench.join_producers(B, "b", "payers");
    bench.pass(60 * SECOND);
    let checks = bench.checks();
    assert_eq!(checks.len(), 1);
    assert_eq!(checks[0].1.field("tranStateTableOffset"), Some("2"));
    assert_eq!(bench.orders().len(), 1);
    drop(bench);
    let mut bench = open();
    bench.join_producers(B, "b", "payers");
    bench.pass(90 * SECOND);
    assert_eq!(bench.checks().len(), 1, "the copy alone is asked for, not the message that was passed");
    drop(bench);
    // The broker before was killed and had saved nothing: the message and all its copies are there.
    std::fs::remove_file(directory.path().join("config/consumerOffset.json")).unwrap();
    std::fs::remove_file(directory.path().join("config/consumerOffset.json.bak")).unwrap();
    let mut bench = open();
    bench.join_producers(B, "b", "payers");
    bench.pass(120 * SECOND);
    let checks = bench.checks();
    assert_eq!(checks.len(), 1);
    assert_eq!(checks[0].1.field("tranStateTableOffset"), Some("4"));
}

#[test]
fn a_message_that_was_given_up_can_be_checked_again() {
    let mut bench = Bench::with(|settings| settings.transaction_check_max = 0);
    bench.join_producers(A, "a", "payers");
    bench.half("");
    bench.pass(30 * SECOND);
    let given_up = bench.broker.messages(names::TRANSACTION_CHECK_MAX_TIME_TOPIC).remove(0);
    let id = given_up.offset_message_id().to_string();
    let resume =
        |bench: &mut Bench, id: &str| bench.ask(A, RequestCode::RESUME_CHECK_HALF_MESSAGE, &[("msgId", id)], b"");
    assert_eq!(resume(&mut bench, &id).code, 0);
    let again = bench.broker.messages(names::HALF_TOPIC).pop().unwrap();
    assert_eq!((again.queue_offset(), again.property(properties::TRANSACTION_CHECK_TIMES)), (1, Some("0")));
    assert_eq!(bench.end(&again, "8", true).unwrap().code, 0);
    assert_eq!(bench.orders().len(), 1);
    let wrong = resume(&mut bench, "7F00000100002A9F0000000000FFFFFF");
    let remark = "Put message back to RMQ_SYS_TRANS_HALF_TOPIC failed.";
    assert_eq!((wrong.code, wrong.remark.as_deref()), (1, Some(remark)));
}
