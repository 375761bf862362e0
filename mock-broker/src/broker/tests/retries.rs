use super::*;

fn sent_back(bench: &mut Bench, message: &StoredMessage, changes: &[(&str, &str)]) -> RemotingCommand {
    let offset = message.physical_offset().to_string();
    let fields = with(
        vec![("offset", offset.as_str()), ("group", "g"), ("delayLevel", "0"), ("maxReconsumeTimes", "16")],
        changes,
    );
    bench.ask(A, RequestCode::CONSUMER_SEND_MSG_BACK, &fields, b"")
}

fn only(bench: &Bench, topic: &str) -> StoredMessage {
    let mut messages = bench.broker.messages(topic);
    assert_eq!(messages.len(), 1, "{topic}");
    messages.remove(0)
}

#[test]
fn a_message_sent_back_comes_again_later_each_time() {
    let mut bench = Bench::new(Compatibility::V5_3);
    bench.send("orders", "TAGS\u{1}a\u{2}KEYS\u{1}k\u{2}", b"work");
    let original = only(&bench, "orders");
    assert_eq!(sent_back(&mut bench, &original, &[]).code, 0);
    assert_eq!(bench.broker.topics.get("%RETRY%g").unwrap().perm, 6);
    bench.pass(Duration::from_millis(9_999));
    assert!(bench.broker.messages("%RETRY%g").is_empty());
    bench.pass(Duration::from_millis(1));
    let first = only(&bench, "%RETRY%g");
    assert_eq!((first.reconsume_times(), first.tags(), &first.body()[..]), (1, Some("a"), &b"work"[..]));
    assert_eq!((first.property("RETRY_TOPIC"), first.property("DELAY")), (Some("orders"), Some("3")));
    let origin = original.offset_message_id().to_string();
    assert_eq!(first.property("ORIGIN_MESSAGE_ID"), Some(origin.as_str()));
    assert_eq!(first.property("REAL_TOPIC"), Some("%RETRY%g"));

    assert_eq!(sent_back(&mut bench, &first, &[]).code, 0);
    bench.pass(Duration::from_secs(30));
    let second = bench.broker.messages("%RETRY%g").remove(1);
    assert_eq!((second.reconsume_times(), second.property("DELAY")), (2, Some("4")));
    assert_eq!(second.property("ORIGIN_MESSAGE_ID"), Some(origin.as_str()));
    assert_eq!(second.property("RETRY_TOPIC"), Some("orders"));
}

#[test]
fn the_client_may_choose_the_level_or_give_up() {
    for compatibility in ALL {
        let mut bench = Bench::new(compatibility);
        bench.send("orders", "", b"work");
        let original = only(&bench, "orders");
        sent_back(&mut bench, &original, &[("delayLevel", "1")]);
        bench.pass(Duration::from_secs(1));
        assert_eq!(only(&bench, "%RETRY%g").property("DELAY"), Some("1"));
        assert_eq!(sent_back(&mut bench, &original, &[("delayLevel", "-1")]).code, 0);
        let dead = only(&bench, "%DLQ%g");
        assert_eq!((dead.property("DELAY"), dead.reconsume_times()), (Some("0"), 1));
        let perm = if compatibility == Compatibility::V4_4 { 2 } else { 6 };
        assert_eq!(bench.broker.topics.get("%DLQ%g").unwrap().perm, perm);
    }
}

#[test]
fn the_limit_leads_to_the_dead_letters() {
    let mut bench = Bench::new(Compatibility::V5_3);
    bench.send("orders", "", b"work");
    let mut message = only(&bench, "orders");
    for times in 1..=2 {
        assert_eq!(sent_back(&mut bench, &message, &[("maxReconsumeTimes", "2")]).code, 0);
        bench.pass(Duration::from_secs(60));
        message = bench.broker.messages("%RETRY%g").pop().unwrap();
        assert_eq!(message.reconsume_times(), times);
    }
    assert_eq!(sent_back(&mut bench, &message, &[("maxReconsumeTimes", "2")]).code, 0);
    assert_eq!(only(&bench, "%DLQ%g").reconsume_times(), 3);
}

#[test]
fn what_cannot_be_sent_back() {
    let mut bench = Bench::new(Compatibility::V5_3);
    bench.send("orders", "", b"work");
    let original = only(&bench, "orders");
    for offset in ["1", "99999999", "-1"] {
        let refused = sent_back(&mut bench, &original, &[("offset", offset)]);
        let remark = format!("look message by offset failed, {offset}");
        assert_eq!((refused.code, refused.remark), (1, Some(remark)));
    }
    let mut closed = Bench::with(|settings| settings.auto_create_groups = false);
    closed.send("orders", "", b"work");
    let original = only(&closed, "orders");
    assert_eq!(sent_back(&mut closed, &original, &[]).code, 26);
    // 4.4 cannot do without the limit.
    let mut old = Bench::new(Compatibility::V4_4);
    old.send("orders", "", b"work");
    let offset = [("offset", "0"), ("group", "g"), ("delayLevel", "0")];
    assert_eq!(old.ask(A, RequestCode::CONSUMER_SEND_MSG_BACK, &offset, b"").code, 1);
}

#[test]
fn a_message_sent_to_the_retry_topic_too_often_is_a_dead_letter() {
    for (compatibility, after) in
        [(Compatibility::V4_9, Duration::from_secs(10)), (Compatibility::V5_3, Duration::ZERO)]
    {
        let mut bench = Bench::new(compatibility);
        let fields = with(send_fields("%RETRY%g", "DELAY\u{1}3\u{2}"), &[("j", "20"), ("l", "16")]);
        assert_eq!(bench.ask(A, RequestCode::SEND_MESSAGE_V2, &fields, b"x").code, 0);
        assert_eq!(bench.broker.messages("%DLQ%g").len(), usize::from(after.is_zero()), "{compatibility:?}");
        bench.pass(after);
        only(&bench, "%DLQ%g");
    }
    let mut bench = Bench::new(Compatibility::V5_3);
    let fields = with(send_fields("%RETRY%g", ""), &[("j", "16"), ("l", "16")]);
    assert_eq!(bench.ask(A, RequestCode::SEND_MESSAGE_V2, &fields, b"x").code, 0);
    assert_eq!(only(&bench, "%RETRY%g").reconsume_times(), 16);
}

#[test]
fn groups_that_consume_in_order_have_no_retries() {
    let mut bench = Bench::new(Compatibility::V5_3);
    let body = br#"{"clientId":"a","consumerGroup":"g","mqSet":[{"brokerName":"b","queueId":0,"topic":"t"}]}"#;
    bench.ask(A, RequestCode::LOCK_BATCH_MQ, &[], body);
    assert_eq!(bench.send("%RETRY%g", "", b"x").code, 0);
    only(&bench, "%DLQ%g");
}
