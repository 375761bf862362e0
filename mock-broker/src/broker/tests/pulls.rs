use super::*;

fn pull_fields<'a>(offset: &'a str, flags: &'a str, expression: &'a str) -> Vec<(&'a str, &'a str)> {
    vec![
        ("consumerGroup", "g"),
        ("topic", "orders"),
        ("queueId", "0"),
        ("queueOffset", offset),
        ("maxMsgNums", "32"),
        ("sysFlag", flags),
        ("commitOffset", "0"),
        ("suspendTimeoutMillis", "15000"),
        ("subscription", expression),
        ("subVersion", "5"),
        ("expressionType", "TAG"),
    ]
}

/// The subscription comes with the request; nothing is waited for.
const NOW_FLAGS: &str = "4";
/// As above, but the broker may wait.
const WAIT_FLAGS: &str = "6";

fn pull(bench: &mut Bench, fields: &[(&str, &str)]) -> RemotingCommand {
    bench.ask(A, RequestCode::PULL_MESSAGE, fields, b"")
}

fn beat(bench: &mut Bench, from: ConnectionId, expression: &str, version: i64) {
    let body = super::members::heartbeat("c", "g", "orders", expression, version, "CLUSTERING");
    assert_eq!(bench.ask(from, RequestCode::HEART_BEAT, &[], body.as_bytes()).code, 0);
    bench.effects();
}

#[test]
fn a_pull_tells_where_to_go_on() {
    for compatibility in ALL {
        let mut bench = Bench::new(compatibility);
        let empty = pull(&mut bench, &pull_fields("0", NOW_FLAGS, "*"));
        assert_eq!((empty.code, empty.remark.as_deref()), (19, Some("NO_MESSAGE_IN_QUEUE")));
        let moved = pull(&mut bench, &pull_fields("5", NOW_FLAGS, "*"));
        assert_eq!((moved.code, moved.field("nextBeginOffset")), (21, Some("0")));

        bench.send("orders", "TAGS\u{1}a\u{2}", b"1");
        bench.send("orders", "TAGS\u{1}b\u{2}", b"2");
        let found = pull(&mut bench, &pull_fields("0", NOW_FLAGS, "b"));
        assert_eq!((found.code, found.remark.as_deref()), (0, Some("FOUND")));
        assert_eq!((found.field("nextBeginOffset"), found.field("maxOffset")), (Some("2"), Some("2")));
        assert_eq!(&messages(&found)[0].body()[..], b"2");
        assert_eq!(found.field("topicSysFlag").is_some(), compatibility == Compatibility::V5_3);
        let unmatched = pull(&mut bench, &pull_fields("0", NOW_FLAGS, "c"));
        assert_eq!((unmatched.code, unmatched.field("nextBeginOffset")), (20, Some("2")));
        let end = pull(&mut bench, &pull_fields("2", NOW_FLAGS, "*"));
        assert_eq!((end.code, end.remark.as_deref()), (19, Some("OFFSET_OVERFLOW_ONE")));
        let beyond = pull(&mut bench, &pull_fields("9", NOW_FLAGS, "*"));
        let next = if compatibility == Compatibility::V4_4 { "0" } else { "2" };
        assert_eq!((beyond.code, beyond.field("nextBeginOffset")), (21, Some(next)));
        let before = pull(&mut bench, &pull_fields("-1", NOW_FLAGS, "*"));
        assert_eq!((before.code, before.remark.as_deref()), (21, Some("OFFSET_TOO_SMALL")));
    }
}

#[test]
fn no_more_than_32_messages_come_at_once() {
    let mut bench = Bench::new(Compatibility::V5_3);
    for _ in 0..40 {
        bench.send("orders", "", b"x");
    }
    let fields = with(pull_fields("0", NOW_FLAGS, "*"), &[("maxMsgNums", "100")]);
    assert_eq!(messages(&pull(&mut bench, &fields)).len(), 32);
    let fields = with(fields, &[("maxMsgNums", "3")]);
    assert_eq!(messages(&pull(&mut bench, &fields)).len(), 3);
}

#[test]
fn the_heartbeat_decides_unless_the_pull_brings_its_subscription() {
    let mut bench = Bench::new(Compatibility::V5_3);
    bench.send("orders", "TAGS\u{1}a\u{2}", b"1");
    let fields = pull_fields("0", "0", "");
    assert_eq!(pull(&mut bench, &fields).code, 24);
    beat(&mut bench, A, "b", 4);
    assert_eq!(pull(&mut bench, &fields).code, 25);
    beat(&mut bench, A, "b", 5);
    assert_eq!(pull(&mut bench, &fields).code, 20);
    beat(&mut bench, A, "a || b", 6);
    assert_eq!(pull(&mut bench, &fields).code, 0);
    bench.broker.set_topic(bench.now, "other", 1);
    let other = pull(&mut bench, &with(fields, &[("topic", "other")]));
    assert_eq!(other.code, 24);
    assert!(other.remark.unwrap().starts_with("the consumer's subscription not exist"));
}

#[test]
fn what_may_not_be_pulled() {
    for compatibility in ALL {
        let mut bench = Bench::new(compatibility);
        let good = || pull_fields("0", NOW_FLAGS, "*");
        let missing = pull(&mut bench, &with(good(), &[("topic", "missing")]));
        assert_eq!(missing.code, 17);
        let is_5 = compatibility == Compatibility::V5_3;
        let no_queue = pull(&mut bench, &with(good(), &[("queueId", "7")]));
        assert_eq!(no_queue.code, if is_5 { 29 } else { 1 });
        let write_only = [
            ("topic", "closed"),
            ("defaultTopic", "TBW102"),
            ("readQueueNums", "1"),
            ("writeQueueNums", "1"),
            ("perm", "2"),
            ("topicFilterType", "SINGLE_TAG"),
        ];
        bench.ask(A, RequestCode::UPDATE_AND_CREATE_TOPIC, &write_only, b"");
        let forbidden = pull(&mut bench, &with(good(), &[("topic", "closed")]));
        assert_eq!((forbidden.code, forbidden.field("forbiddenType")), (16, is_5.then_some("3")));
        assert_eq!(pull(&mut bench, &with(good(), &[("subscription", "||")])).code, 23);
        let sql = pull(&mut bench, &with(good(), &[("expressionType", "SQL92"), ("subscription", "a > 1")]));
        assert_eq!(sql.code, 1);
    }
    let mut closed = Bench::with(|settings| settings.auto_create_groups = false);
    assert_eq!(pull(&mut closed, &pull_fields("0", NOW_FLAGS, "*")).code, 26);
}

#[test]
fn lite_pulls_came_with_version_5() {
    for (compatibility, answered) in
        [(Compatibility::V4_4, None), (Compatibility::V4_9, Some(3)), (Compatibility::V5_3, Some(19))]
    {
        let mut bench = Bench::new(compatibility);
        let answer = bench.try_ask(A, RequestCode::LITE_PULL_MESSAGE, &pull_fields("0", NOW_FLAGS, "*"), b"");
        assert_eq!(answer.map(|answer| answer.code), answered, "{compatibility:?}");
    }
}

#[test]
fn a_held_pull_is_answered_when_its_message_comes() {
    let mut bench = Bench::new(Compatibility::V5_3);
    assert!(bench.try_ask(B, RequestCode::PULL_MESSAGE, &pull_fields("0", WAIT_FLAGS, "a"), b"").is_none());
    bench.send("orders", "TAGS\u{1}b\u{2}", b"not this");
    assert!(bench.effects().0.is_empty());
    bench.send("orders", "TAGS\u{1}a\u{2}", b"this");
    let (answers, _) = bench.effects();
    assert_eq!((answers.len(), answers[0].0, answers[0].1.code), (1, B, 0));
    assert_eq!(&messages(&answers[0].1)[0].body()[..], b"this");
    bench.send("orders", "TAGS\u{1}a\u{2}", b"nobody waits");
    assert!(bench.effects().0.is_empty());
}

#[test]
fn other_messages_move_a_held_pull_on_at_the_next_scan() {
    let mut bench = Bench::new(Compatibility::V5_3);
    bench.try_ask(B, RequestCode::PULL_MESSAGE, &pull_fields("0", WAIT_FLAGS, "a"), b"");
    bench.send("orders", "TAGS\u{1}b\u{2}", b"other");
    bench.pass(Duration::from_secs(4));
    assert!(bench.effects().0.is_empty());
    bench.pass(Duration::from_secs(1));
    let (answers, _) = bench.effects();
    assert_eq!((answers[0].1.code, answers[0].1.field("nextBeginOffset")), (20, Some("1")));
}

#[test]
fn a_held_pull_ends_at_the_first_scan_after_its_time() {
    for (wait, answered_after) in [("1000", 5), ("7000", 10), ("15000", 15)] {
        let mut bench = Bench::new(Compatibility::V5_3);
        let fields = with(pull_fields("0", WAIT_FLAGS, "*"), &[("suspendTimeoutMillis", wait)]);
        bench.try_ask(B, RequestCode::PULL_MESSAGE, &fields, b"");
        for second in 1..=answered_after {
            bench.pass(Duration::from_secs(1));
            let (answers, _) = bench.effects();
            let codes: Vec<i32> = answers.iter().map(|(_, answer)| answer.code).collect();
            assert_eq!(codes, if second == answered_after { vec![19] } else { vec![] }, "{wait} {second}");
        }
    }
}

#[test]
fn a_held_pull_is_forgotten_with_its_connection() {
    let mut bench = Bench::new(Compatibility::V5_3);
    bench.try_ask(B, RequestCode::PULL_MESSAGE, &pull_fields("0", WAIT_FLAGS, "*"), b"");
    bench.broker.connection_closed(B);
    bench.send("orders", "", b"x");
    assert!(bench.effects().0.is_empty());
}

#[test]
fn a_delayed_message_wakes_a_held_pull() {
    let mut bench = Bench::new(Compatibility::V5_3);
    bench.send("orders", "DELAY\u{1}2\u{2}", b"later");
    bench.try_ask(B, RequestCode::PULL_MESSAGE, &pull_fields("0", WAIT_FLAGS, "*"), b"");
    let due = bench.broker.next_delivery(bench.now).unwrap();
    assert_eq!(due, bench.now.message_ms + 5000);
    bench.now.message_ms = due;
    bench.broker.tick(bench.now);
    let (answers, _) = bench.effects();
    assert_eq!(&messages(&answers[0].1)[0].body()[..], b"later");
}

#[test]
fn a_pull_can_store_an_offset() {
    let mut bench = Bench::new(Compatibility::V5_3);
    bench.send("orders", "", b"x");
    let fields = with(pull_fields("1", "5", "*"), &[("commitOffset", "1")]);
    assert_eq!(pull(&mut bench, &fields).code, 19);
    assert_eq!(bench.broker.offsets.get("g", "orders", 0), Some(1));
}

#[test]
fn consumers_choose_by_the_properties_of_messages() {
    let mut bench = Bench::with(|settings| settings.filters_by_property = true);
    let heartbeat = |expression: &str, version: i64| {
        super::members::heartbeat("c", "g", "orders", expression, version, "CLUSTERING").replace("\"TAG\"", "\"SQL92\"")
    };
    let subscribe = |bench: &mut Bench, expression: &str, version: i64| {
        let body = heartbeat(expression, version);
        assert_eq!(bench.ask(A, RequestCode::HEART_BEAT, &[], body.as_bytes()).code, 0);
        bench.effects();
    };
    for (amount, text) in [("3", b"1"), ("x", b"2"), ("7", b"3")] {
        bench.send("orders", &format!("amount\u{1}{amount}\u{2}"), text);
    }
    let subscribed = |offset| with(pull_fields(offset, "0", ""), &[("expressionType", "SQL92")]);
    subscribe(&mut bench, "amount >", 5);
    assert_eq!(pull(&mut bench, &subscribed("0")).code, 27, "the expression cannot be read");
    subscribe(&mut bench, "amount > 5", 6);
    let found = pull(&mut bench, &subscribed("0"));
    assert_eq!((found.code, found.field("nextBeginOffset")), (0, Some("3")));
    assert_eq!(messages(&found).iter().map(|message| message.body()).collect::<Vec<_>>(), ["3"]);
    subscribe(&mut bench, "amount >", 7);
    let newer = with(subscribed("0"), &[("subVersion", "7")]);
    assert_eq!(pull(&mut bench, &newer).code, 28, "what is known belongs to an older subscription");

    // A pull that waits is woken by a message for it, not by others.
    subscribe(&mut bench, "amount > 5", 8);
    let waits = with(subscribed("3"), &[("sysFlag", "2")]);
    assert!(bench.try_ask(A, RequestCode::PULL_MESSAGE, &waits, b"").is_none());
    bench.send("orders", "amount\u{1}4\u{2}", b"4");
    assert!(bench.effects().0.is_empty());
    bench.send("orders", "amount\u{1}8\u{2}", b"5");
    let (answers, _) = bench.effects();
    assert_eq!(messages(&answers[0].1).iter().map(|message| message.body()).collect::<Vec<_>>(), ["5"]);

    // A pull that brings what cannot be read gets everything.
    let brings = |expression| with(pull_fields("0", NOW_FLAGS, expression), &[("expressionType", "SQL92")]);
    assert_eq!(messages(&pull(&mut bench, &brings("amount = 3"))).len(), 1);
    assert_eq!(messages(&pull(&mut bench, &brings("amount >"))).len(), 5);
    let check = |expression: &str| {
        format!(
            r#"{{"clientId":"c","group":"g","subscriptionData":{{"topic":"orders","subString":"{expression}","expressionType":"SQL92"}}}}"#
        )
    };
    assert_eq!(bench.ask(A, RequestCode::CHECK_CLIENT_CONFIG, &[], check("amount > 5").as_bytes()).code, 0);
    let refused = bench.ask(A, RequestCode::CHECK_CLIENT_CONFIG, &[], check("amount >").as_bytes());
    assert_eq!((refused.code, refused.remark.is_some()), (23, true));
}
