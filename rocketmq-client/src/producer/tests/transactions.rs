//! Half messages and checks.

use rocketmq_wire::RemotingCommand;
use rocketmq_wire::message::{Compression, Record};

use super::*;
use crate::MessageView;
use crate::producer::transaction::{TransactionProducer, TransactionResolution};
use TransactionResolution::{Commit, Rollback, Unknown};

/// Starts a producer whose checker answers by the body: its first byte says what.
async fn start(scripted: &Scripted, group: &str) -> TransactionProducer {
    let checker = |message: MessageView| async move {
        match message.body().first() {
            Some(b'c') => Commit,
            Some(b'r') => Rollback,
            Some(b'p') => panic!("a checker may panic"),
            _ => Unknown,
        }
    };
    let client = scripted.client().await;
    client.transaction_producer(group, checker).start().await.expect("a good group")
}

fn ends(scripted: &Scripted, broker: usize) -> Vec<RemotingCommand> {
    scripted.brokers[broker].requests(RequestCode::END_TRANSACTION)
}

#[tokio::test]
async fn a_half_message_is_marked_and_then_decided_at_its_broker() {
    let scripted = Scripted::start(1);
    let producer = start(&scripted, "g").await;
    let transaction = producer.begin(message()).await.expect("stored");
    let sends = scripted.brokers[0].requests(RequestCode::SEND_MESSAGE_V2);
    assert_eq!(sends[0].field("f"), Some("4"));
    let properties = Properties::from(sends[0].field("i").expect("properties"));
    assert_eq!(["TRAN_MSG", "PGROUP", "TAGS"].map(|name| properties.value(name)), [Some("true"), Some("g"), Some("x")]);
    assert_eq!(properties.value("CHECK_IMMUNITY_TIME_IN_SECONDS"), None);
    assert!(ends(&scripted, 0).is_empty());
    let id = transaction.message_id().to_owned();
    transaction.commit().await.expect("confirmed");
    let ends = ends(&scripted, 0);
    let field = |name| ends[0].field(name);
    assert_eq!((ends.len(), ends[0].flag), (1, 0), "confirmation is asked for");
    assert_eq!((field("topic"), field("producerGroup"), field("bname")), (Some("t"), Some("g"), Some("a")));
    assert_eq!((field("tranStateTableOffset"), field("commitLogOffset")), (Some("7"), Some("42")));
    assert_eq!((field("commitOrRollback"), field("fromTransactionCheck")), (Some("8"), Some("false")));
    assert_eq!((field("msgId"), field("transactionId")), (Some(id.as_str()), Some(id.as_str())));
}

#[tokio::test]
async fn a_local_transaction_decides() {
    let scripted = Scripted::start(1);
    let producer = start(&scripted, "g").await;
    let transact = |resolution: TransactionResolution| producer.transact(message(), move |_| async move { resolution });
    for (resolution, code, flag) in [(Commit, "8", 0), (Rollback, "12", 0), (Unknown, "0", 2)] {
        let receipt = transact(resolution).await.expect("stored");
        assert_eq!((receipt.resolution(), receipt.unconfirmed().is_none()), (resolution, true));
        scripted.clock.advance(Duration::ZERO).await;
        let ends = ends(&scripted, 0);
        let last = ends.last().expect("an end");
        assert_eq!((last.field("commitOrRollback"), last.flag), (Some(code), flag));
        assert_eq!(last.field("msgId"), Some(receipt.message_id()));
    }
    // What the closure returned stands, even though the broker does not take it.
    scripted.brokers[0].react(|request| match RequestCode(request.code) {
        RequestCode::END_TRANSACTION => answer(request, ResponseCode::SYSTEM_ERROR),
        _ => scripted::broker(request),
    });
    let receipt = transact(Commit).await.expect("stored");
    assert_eq!(receipt.resolution(), Commit);
    assert_eq!(receipt.unconfirmed().map(Error::response_code), Some(Some(1)));
    let error = producer.begin(message()).await.expect("stored").rollback().await.expect_err("refused");
    assert_eq!((error.operation(), error.outcome()), (Some("roll back"), Outcome::Refused));
}

#[tokio::test]
async fn what_is_not_stored_safely_is_rolled_back_and_runs_nothing() {
    let scripted = Scripted::start(1);
    scripted.on_send(0, |request| stored(request, ResponseCode::FLUSH_DISK_TIMEOUT));
    let producer = start(&scripted, "g").await;
    let local = |_| async { panic!("it must not run") };
    let error = producer
        .transact::<_, _>(message(), |id| async move {
            local(id).await;
            Commit
        })
        .await;
    assert_eq!(error.expect_err("not stored").kind(), ErrorKind::NotStored);
    assert_eq!(ends(&scripted, 0)[0].field("commitOrRollback"), Some("12"));
    refuse_first(&scripted, usize::MAX, ResponseCode::MESSAGE_ILLEGAL);
    let error = producer.begin(message()).await.expect_err("refused");
    assert_eq!((error.kind(), error.response_code()), (ErrorKind::InvalidArgument, Some(13)));
    assert_eq!(ends(&scripted, 0).len(), 1);
}

#[tokio::test]
async fn delays_and_second_producers_of_a_group_are_refused() {
    let scripted = Scripted::start(1);
    let client = scripted.client().await;
    let checker = |_: MessageView| async { Unknown };
    let builder = || client.transaction_producer("g", checker);
    let producer = builder().check_immunity(Duration::from_millis(1500)).start().await.expect("a good group");
    let error = producer.begin(message().delay_level(1)).await.expect_err("not both");
    assert_eq!((error.kind(), error.outcome()), (ErrorKind::InvalidArgument, Outcome::NotSent));
    assert_eq!(scripted.sends(), [0]);
    drop(producer.begin(message()).await.expect("stored"));
    let sends = scripted.brokers[0].requests(RequestCode::SEND_MESSAGE_V2);
    let properties = Properties::from(sends[0].field("i").expect("properties"));
    assert_eq!(properties.value("CHECK_IMMUNITY_TIME_IN_SECONDS"), Some("2"));
    assert_eq!(builder().start().await.expect_err("taken").kind(), ErrorKind::InvalidArgument);
    let second = builder().check_concurrency(0).start().await;
    assert_eq!(second.expect_err("nobody would check").kind(), ErrorKind::InvalidArgument);
    producer.shutdown().await;
    builder().start().await.expect("the group is free again");
}

/// A half message as a broker sends it with its question.
fn half(body: &[u8], flag: i32, group: &str) -> bytes::Bytes {
    let host = "10.0.0.2:10911".parse().expect("an address");
    let properties = format!("PGROUP\u{1}{group}\u{2}UNIQ_KEY\u{1}ID-1\u{2}TRAN_MSG\u{1}true\u{2}");
    let record = Record {
        version: Default::default(),
        queue_id: 1,
        flag: 0,
        queue_offset: 5,
        physical_offset: 4242,
        sys_flag: flag,
        born_timestamp: 1,
        born_host: host,
        store_timestamp: 2,
        store_host: host,
        reconsume_times: 0,
        prepared_transaction_offset: 0,
        body,
        topic: "t",
        properties: properties.as_bytes(),
    };
    let mut bytes = vec![0; record.encoded_len().expect("small")];
    record.encode(&mut bytes).expect("there is room");
    bytes.into()
}

const CHECK: &[(&str, &str)] = &[
    ("tranStateTableOffset", "5"),
    ("commitLogOffset", "4242"),
    ("msgId", "ID-1"),
    ("transactionId", "TX-1"),
    ("offsetMsgId", "x"),
];

async fn check(scripted: &Scripted, fields: &[(&str, &str)], message: bytes::Bytes) {
    let code = RequestCode::CHECK_TRANSACTION_STATE;
    scripted.brokers[0].push(code, rocketmq_wire::header::ONE_WAY_FLAG, fields, message).await;
    scripted.clock.advance(Duration::ZERO).await;
}

#[tokio::test]
async fn checks_are_answered_by_the_group_that_they_are_for() {
    let scripted = Scripted::start(1);
    let producer = start(&scripted, "g").await;
    drop(producer.begin(message()).await.expect("stored"));
    for (body, code) in [("c", "8"), ("r", "12"), ("u", "0"), ("p", "0"), ("c", "8")] {
        let before = ends(&scripted, 0).len();
        check(&scripted, CHECK, half(body.as_bytes(), 4, "g")).await;
        let ends = ends(&scripted, 0);
        assert_eq!(ends.len(), before + 1, "{body}");
        let field = |name| ends[before].field(name);
        assert_eq!((field("commitOrRollback"), field("fromTransactionCheck")), (Some(code), Some("true")));
        assert_eq!((field("tranStateTableOffset"), field("commitLogOffset")), (Some("5"), Some("4242")));
        assert_eq!((field("msgId"), field("transactionId")), (Some("ID-1"), Some("TX-1")));
        assert_eq!((field("topic"), field("producerGroup"), field("bname")), (Some("t"), Some("g"), Some("a")));
    }
    let before = ends(&scripted, 0).len();
    let zlib = Compression::Zlib;
    let packed = zlib.compress(b"ccccccccccccccccccccccc", 5).expect("a body");
    check(&scripted, &[CHECK, &[("bname", "b-9")]].concat(), half(&packed, 4 | zlib.sys_flag_bits(), "g")).await;
    let field = |name: &str| ends(&scripted, 0)[before].field(name).map(str::to_owned);
    assert_eq!((field("commitOrRollback").as_deref(), field("bname").as_deref()), (Some("8"), Some("b-9")));
    // A body that cannot be read is nobody's decision; other groups and broken questions are no business of ours.
    check(&scripted, CHECK, half(b"damaged", 4 | zlib.sys_flag_bits(), "g")).await;
    assert_eq!(ends(&scripted, 0)[before + 1].field("commitOrRollback"), Some("0"));
    check(&scripted, CHECK, half(b"c", 4, "other")).await;
    check(&scripted, CHECK, bytes::Bytes::from_static(b"no record")).await;
    check(&scripted, &CHECK[2..], half(b"c", 4, "g")).await;
    assert_eq!(ends(&scripted, 0).len(), before + 2);
    producer.shutdown().await;
    check(&scripted, CHECK, half(b"c", 4, "g")).await;
    assert_eq!(ends(&scripted, 0).len(), before + 2, "nobody answers after the end");
}

#[tokio::test]
async fn too_many_checks_are_left_to_the_broker() {
    let scripted = Scripted::start(1);
    let client = scripted.client().await;
    let producer = client
        .transaction_producer("g", |_: MessageView| std::future::pending::<TransactionResolution>())
        .check_concurrency(1)
        .start()
        .await
        .expect("a good group");
    drop(producer.begin(message()).await.expect("stored"));
    for _ in 0..2003 {
        check(&scripted, CHECK, half(b"u", 4, "g")).await;
    }
    assert_eq!(producer.dropped_checks(), 2, "one is asked and 2,000 wait");
}

#[tokio::test]
async fn a_transaction_may_be_dropped_at_any_await() {
    let scripted = Scripted::start(2);
    let producer = start(&scripted, "g").await;
    let make = |round: usize| {
        let topic = format!("fresh-{round}");
        scripted.set_topic(&topic, 1);
        refuse_first(&scripted, 1, ResponseCode::SYSTEM_ERROR);
        producer.transact(Message::new(topic, "body"), |_| async {
            tokio::task::yield_now().await;
            Commit
        })
    };
    drop_at_every_await(&scripted, producer.producer(), make).await.expect("stored");
}
