use super::*;

fn place(answer: &RemotingCommand) -> (Option<&str>, Option<&str>) {
    (answer.field("queueId"), answer.field("queueOffset"))
}

#[test]
fn a_send_says_where_the_message_is() {
    for compatibility in ALL {
        let mut bench = Bench::new(compatibility);
        let first = bench.send("orders", "UNIQ_KEY\u{1}U\u{2}", b"a");
        let second = bench.send("orders", "", b"b");
        assert_eq!((first.code, place(&first)), (0, (Some("0"), Some("0"))));
        assert_eq!(place(&second), (Some("0"), Some("1")));
        assert_eq!(first.field("msgId"), Some("7F00000100002A9F0000000000000000"));
        let is_5 = compatibility == Compatibility::V5_3;
        assert_eq!(first.field("transactionId"), is_5.then_some("U"));
        assert_eq!((first.field("MSG_REGION"), first.field("TRACE_ON")), (Some("DefaultRegion"), Some("true")));
        let stored = bench.broker.messages("orders");
        assert_eq!(stored[0].unique_id(), Some("U"));
        assert_eq!(stored[1].unique_id().is_some(), is_5, "{compatibility:?}");
        assert_eq!(second.field("transactionId"), stored[1].unique_id().filter(|_| is_5));
        assert_eq!((stored[0].born_host(), stored[0].born_timestamp()), (([10, 0, 0, 1], 4711).into(), 17));
    }
}

#[test]
fn a_topic_is_created_with_no_more_queues_than_the_default_topic_has() {
    let mut bench = Bench::new(Compatibility::V5_3);
    for (topic, asked, queues) in [("few", "4", 4), ("many", "16", 8), ("none", "-1", 0)] {
        bench.ask(A, RequestCode::SEND_MESSAGE_V2, &with(send_fields(topic, ""), &[("d", asked)]), b"x");
        let config = bench.broker.topics.get(topic).unwrap();
        assert_eq!((config.write_queue_nums, config.read_queue_nums, config.perm), (queues, queues, 6), "{topic}");
    }
    assert_eq!(bench.broker.take_unregistered_topics().len(), 3);
    let unknown = bench.ask(A, RequestCode::SEND_MESSAGE_V2, &with(send_fields("t", ""), &[("c", "other")]), b"x");
    assert_eq!(unknown.code, 17);
}

#[test]
fn without_auto_creation_unknown_topics_are_refused() {
    let mut bench = Bench::with(|settings| settings.auto_create_topics = false);
    let refused = bench.send("unknown", "", b"x");
    let remark = "topic[unknown] not exist, apply first please!\nSee \
                  https://rocketmq.apache.org/docs/bestPractice/06FAQ for further details.";
    assert_eq!((refused.code, refused.remark.as_deref()), (17, Some(remark)));
    assert_eq!(refused.field("TRACE_ON"), Some("true"));
    assert_eq!(bench.send("orders", "", b"x").code, 0);
}

#[test]
fn names_and_queues_are_checked_as_the_version_does() {
    for (compatibility, topic, code) in [
        (Compatibility::V4_4, "a.b", 0),
        (Compatibility::V4_4, "TBW102", 1),
        (Compatibility::V4_4, "SELF_TEST_TOPIC", 0),
        (Compatibility::V4_9, "a.b", 1),
        (Compatibility::V4_9, "", 1),
        (Compatibility::V4_9, "TBW102", 0),
        (Compatibility::V5_3, "a.b", 29),
        (Compatibility::V5_3, "", 29),
        (Compatibility::V5_3, "TBW102", 0),
        (Compatibility::V5_3, "SCHEDULE_TOPIC_XXXX", 16),
        (Compatibility::V5_3, "RMQ_SYS_TRANS_HALF_TOPIC", 16),
    ] {
        assert_eq!(Bench::new(compatibility).send(topic, "", b"x").code, code, "{compatibility:?} {topic}");
    }
    let long = "t".repeat(128);
    for (compatibility, code) in [(Compatibility::V4_4, 13), (Compatibility::V4_9, 1), (Compatibility::V5_3, 29)] {
        let mut bench = Bench::new(compatibility);
        let refused = bench.send(&long, "", b"x");
        if compatibility == Compatibility::V4_4 {
            // Its record holds longer topics here, and nobody can ask for more.
            assert!(matches!(refused.code, 0 | 13), "{refused:?}");
        } else {
            assert_eq!(refused.code, code);
        }
        let no_queue =
            bench.ask(A, RequestCode::SEND_MESSAGE_V2, &with(send_fields("orders", ""), &[("e", "99")]), b"x");
        assert_eq!(no_queue.code, if compatibility == Compatibility::V5_3 { 29 } else { 1 });
        assert!(no_queue.remark.unwrap().starts_with("request queueId[99] is illegal, TopicConfig [topicName=orders"));
        let any = bench.ask(A, RequestCode::SEND_MESSAGE_V2, &with(send_fields("orders", ""), &[("e", "-1")]), b"x");
        assert!(matches!(any.field("queueId"), Some("0" | "1")), "{any:?}");
    }
}

#[test]
fn limits_of_bodies_and_properties() {
    for compatibility in ALL {
        let mut bench = Bench::new(compatibility);
        let empty = if compatibility == Compatibility::V5_3 { 1 } else { 0 };
        assert_eq!(bench.send("orders", "", b"").code, empty, "{compatibility:?}");
        assert_eq!(bench.send("orders", "", &vec![0; 4 << 20]).code, 0);
        assert_eq!(bench.send("orders", "", &vec![0; (4 << 20) + 1]).code, 13);
        let properties = |length| format!("p\u{1}{}\u{2}", "v".repeat(length));
        assert_eq!(bench.send("orders", &properties(32_500), b"x").code, 0);
        assert_eq!(bench.send("orders", &properties(32_766), b"x").code, 13);
    }
}

#[test]
fn a_message_for_a_time_waits_and_can_be_taken_back() {
    let mut bench = Bench::with(|settings| settings.recall_messages = true);
    let sent = bench.send("orders", "UNIQ_KEY\u{1}U\u{2}TIMER_DELAY_MS\u{1}5000\u{2}", b"kept");
    assert_eq!(sent.code, 0);
    let other = bench.send("orders", "UNIQ_KEY\u{1}V\u{2}TIMER_DELAY_MS\u{1}5500\u{2}", b"taken back");
    let handle = other.field("recallHandle").unwrap().to_owned();
    bench.pass(Duration::from_secs(1));
    let mut recall = |topic, handle: &str| {
        let fields = [("producerGroup", "g"), ("topic", topic), ("recallHandle", handle)];
        let answer = bench.ask(A, RequestCode::RECALL_MESSAGE, &fields, b"");
        (answer.code, answer.field("msgId").map(str::to_owned), answer.remark.unwrap())
    };
    assert_eq!(recall("orders", "x"), (604, None, "recall handle is invalid".to_owned()));
    assert_eq!(recall("unknown", &handle), (17, None, "recall failed, the topic[unknown] not exist".to_owned()));
    assert_eq!(recall("TBW102", &handle), (604, None, "recall failed, topic not match".to_owned()));
    assert_eq!(recall("orders", &handle).1.as_deref(), Some("V"));
    bench.pass(Duration::from_secs(3));
    assert!(bench.broker.messages("orders").is_empty());
    bench.pass(Duration::from_secs(60));
    let delivered: Vec<_> = bench.broker.messages("orders").iter().map(|message| message.body()).collect();
    assert_eq!(delivered, ["kept"]);
    let fields = [("producerGroup", "g"), ("topic", "orders"), ("recallHandle", handle.as_str())];
    let late = bench.ask(A, RequestCode::RECALL_MESSAGE, &fields, b"");
    assert_eq!((late.code, late.remark.as_deref()), (604, Some("recall failed, timestamp invalid")));
    let mut usual = Bench::new(Compatibility::V5_3);
    let refused = usual.ask(A, RequestCode::RECALL_MESSAGE, &fields, b"");
    assert_eq!((refused.code, refused.remark.as_deref()), (16, Some("recall failed, operation is forbidden")));
}

#[test]
fn times_that_are_none_or_too_far_are_refused() {
    let mut bench = Bench::new(Compatibility::V5_3);
    let far = bench.send("orders", "TIMER_DELAY_SEC\u{1}259201\u{2}", b"x");
    assert_eq!(far.code, 13);
    assert!(far.remark.unwrap().starts_with("timer message illegal, "));
    let mut without = Bench::with(|settings| settings.timers.enabled = false);
    let refused = without.send("orders", "TIMER_DELAY_SEC\u{1}1\u{2}", b"x");
    let remark = "accurate timer message is not enabled, timerWheelEnable is false";
    assert_eq!((refused.code, refused.remark.as_deref()), (1, Some(remark)));
    // Before 5.0 nobody knows the property.
    let mut old = Bench::new(Compatibility::V4_9);
    assert_eq!(old.send("orders", "TIMER_DELAY_MS\u{1}5000\u{2}", b"timer").code, 0);
    assert_eq!(old.broker.messages("orders").len(), 1);
}

#[test]
fn a_batch_is_stored_message_by_message() {
    use rocketmq_wire::message::BatchElement;
    let batch = |elements: &[(&str, &str)]| {
        let mut body = BytesMut::new();
        for (properties, text) in elements {
            let element = BatchElement { flag: 3, body: text.as_bytes(), properties: properties.as_bytes() };
            element.encode(&mut body).unwrap();
        }
        body.freeze()
    };
    for compatibility in ALL {
        let mut bench = Bench::new(compatibility);
        bench.send("orders", "", b"before");
        let fields = with(send_fields("orders", "UNIQ_KEY\u{1}batch\u{2}WAIT\u{1}true\u{2}"), &[("m", "true")]);
        let body = batch(&[("TAGS\u{1}a\u{2}", "one"), ("UNIQ_KEY\u{1}own", "two")]);
        let sent = bench.ask(A, RequestCode::SEND_BATCH_MESSAGE, &fields, &body);
        assert_eq!((sent.code, sent.field("queueOffset")), (0, Some("1")), "{sent:?}");
        let ids: Vec<&str> = sent.field("msgId").unwrap().split(',').collect();
        let stored = bench.broker.messages("orders");
        assert_eq!(ids, [stored[1].offset_message_id().to_string(), stored[2].offset_message_id().to_string()]);
        assert_eq!((&stored[1].body()[..], stored[1].tags(), stored[1].flag()), (&b"one"[..], Some("a"), 3));
        let is_5 = compatibility == Compatibility::V5_3;
        assert_eq!(stored[2].unique_id(), Some(if is_5 { "batch" } else { "own" }), "{compatibility:?}");
        assert_eq!(sent.field("transactionId"), is_5.then_some("batch"));

        let delayed = batch(&[("DELAY\u{1}3", "later")]);
        assert_eq!(bench.ask(A, RequestCode::SEND_BATCH_MESSAGE, &fields, &delayed).code, 13);
        assert_eq!(bench.ask(A, RequestCode::SEND_BATCH_MESSAGE, &fields, &body[..body.len() - 1]).code, 1);
        let retry = with(fields.clone(), &[("b", "%RETRY%g")]);
        assert_eq!(bench.ask(A, RequestCode::SEND_BATCH_MESSAGE, &retry, &body).code, 13);
        // Without the flag it is one message, whatever the code.
        let single = with(fields, &[("m", "false")]);
        assert_eq!(bench.ask(A, RequestCode::SEND_BATCH_MESSAGE, &single, &body).code, 0);
        assert_eq!(bench.broker.messages("orders").len(), 4);
    }
}

#[test]
fn delay_levels_end_at_the_highest() {
    let mut bench = Bench::new(Compatibility::V5_3);
    for level in ["1", "18", "99", "0", "-1", "x"] {
        assert_eq!(bench.send("orders", &format!("DELAY\u{1}{level}\u{2}"), level.as_bytes()).code, 0);
    }
    let bodies = |bench: &Bench| -> Vec<String> {
        let mut bodies: Vec<_> = bench
            .broker
            .messages("orders")
            .iter()
            .map(|message| String::from_utf8(message.body().to_vec()).unwrap())
            .collect();
        bodies.sort_unstable();
        bodies
    };
    assert_eq!(bodies(&bench), ["-1", "0", "x"]);
    bench.pass(Duration::from_secs(1));
    assert_eq!(bodies(&bench), ["-1", "0", "1", "x"]);
    bench.pass(Duration::from_secs(7199));
    assert_eq!(bodies(&bench), ["-1", "0", "1", "18", "99", "x"]);
}

#[test]
fn a_broker_may_be_closed_to_writers_or_readers() {
    let mut closed = Bench::with(|settings| settings.permission = 4);
    assert_eq!(closed.send("orders", "", b"x").code, 0, "only ordered topics are closed");
    let fields = [
        ("topic", "ordered"),
        ("defaultTopic", "TBW102"),
        ("readQueueNums", "1"),
        ("writeQueueNums", "1"),
        ("perm", "6"),
        ("topicFilterType", "SINGLE_TAG"),
        ("order", "true"),
    ];
    assert_eq!(closed.ask(A, RequestCode::UPDATE_AND_CREATE_TOPIC, &fields, b"").code, 0);
    let refused = closed.send("ordered", "", b"x");
    let remark = "the broker[127.0.0.1] sending message is forbidden";
    assert_eq!((refused.code, refused.remark.as_deref()), (16, Some(remark)));
    assert_eq!(closed.broker.topic_table().topic_config_table["orders"].perm, 4, "routes offer no queue to write to");
    let send_back = [("offset", "0"), ("group", "g"), ("delayLevel", "0")];
    assert_eq!(closed.ask(A, RequestCode::CONSUMER_SEND_MSG_BACK, &send_back, b"").code, 16);
    let mut unread = Bench::with(|settings| settings.permission = 2);
    let pull = [
        ("consumerGroup", "g"),
        ("topic", "orders"),
        ("queueId", "0"),
        ("queueOffset", "0"),
        ("maxMsgNums", "32"),
        ("sysFlag", "4"),
        ("commitOffset", "0"),
        ("suspendTimeoutMillis", "0"),
        ("subscription", "*"),
        ("subVersion", "0"),
    ];
    let refused = unread.ask(A, RequestCode::PULL_MESSAGE, &pull, b"");
    assert_eq!((refused.code, refused.field("forbiddenType")), (16, Some("1")));
}

#[test]
fn it_can_be_asked_how_many_messages_wait_for_their_time() {
    let mut bench = Bench::new(Compatibility::V5_3);
    bench.send("orders", "TIMER_DELAY_SEC\u{1}60\u{2}", b"1");
    bench.send("orders", "TIMER_DELAY_SEC\u{1}90\u{2}", b"2");
    bench.pass(Duration::from_secs(61));
    let metrics = bench.ask(A, RequestCode::GET_TIMER_METRICS, &[], b"");
    let text = String::from_utf8_lossy(&metrics.body);
    assert!(text.contains("\"timingCount\":{\"orders\":{\"count\":1,"), "{text}");
    let checkpoint = bench.ask(A, RequestCode::GET_TIMER_CHECK_POINT, &[], b"").body;
    let long = |at: usize| i64::from_be_bytes(checkpoint[at..at + 8].try_into().unwrap());
    assert_eq!((checkpoint.len(), long(0), long(16)), (56, bench.now.message_ms - 1000, 2));
    let mut old = Bench::new(Compatibility::V4_9);
    assert_eq!(old.ask(A, RequestCode::GET_TIMER_METRICS, &[], b"").code, 3);
}

#[test]
fn a_busy_page_cache_refuses_what_puts() {
    let mut bench = Bench::new(Compatibility::V5_3);
    bench.send("orders", "DELAY\u{1}1\u{2}", b"delayed");
    let half = bench.send("orders", "TRAN_MSG\u{1}true\u{2}PGROUP\u{1}p\u{2}", b"half");
    bench.broker.set_page_cache_busy(true);
    let refused = bench.send("orders", "", b"x");
    let remark = "[REJECTREQUEST]system busy, start flow control for a while";
    assert_eq!((refused.code, refused.remark.as_deref()), (2, Some(remark)));
    let back = [("offset", "0"), ("group", "g"), ("delayLevel", "0"), ("originTopic", "orders"), ("originMsgId", "")];
    assert_eq!(bench.ask(A, RequestCode::CONSUMER_SEND_MSG_BACK, &back, b"").code, 2);
    let offset = u64::from_str_radix(&half.field("msgId").unwrap()[16..], 16).unwrap().to_string();
    let end = [
        ("producerGroup", "p"),
        ("tranStateTableOffset", "0"),
        ("commitLogOffset", offset.as_str()),
        ("commitOrRollback", "8"),
        ("fromTransactionCheck", "false"),
        ("msgId", ""),
        ("transactionId", ""),
    ];
    let refused = bench.ask(A, RequestCode::END_TRANSACTION, &end, b"");
    assert_eq!((refused.code, refused.remark.as_deref()), (1, Some("OS page cache busy, please try another machine")));
    bench.pass(Duration::from_secs(2));
    assert!(bench.broker.messages("orders").is_empty(), "delayed messages wait");
    bench.broker.set_page_cache_busy(false);
    assert_eq!(bench.send("orders", "", b"x").code, 0);
    assert_eq!(bench.ask(A, RequestCode::END_TRANSACTION, &end, b"").code, 0);
    bench.pass(Duration::from_secs(2));
    assert_eq!(bench.broker.messages("orders").len(), 3);
}

#[test]
fn filters_and_counts_are_kept_in_apache_s_files() {
    let directory = tempfile::tempdir().unwrap();
    let open = || {
        Bench::with(|settings| {
            settings.store = Some(directory.path().to_owned());
        })
    };
    let mut bench = open();
    let sql = "a > 1 AND b = 'x'";
    let mut subscription = rocketmq_wire::model::SubscriptionData { topic: "orders".to_owned(), ..Default::default() };
    (subscription.sub_string, subscription.expression_type, subscription.sub_version) =
        (sql.to_owned(), "SQL92".to_owned(), 5);
    let dialect = bench.broker.compatibility.sql_dialect();
    bench.broker.sql_filters.register("g", &[subscription], dialect, bench.now.message_ms);
    bench.send("orders", "TIMER_DELAY_MS\u{1}60000\u{2}", b"later");
    bench.pass(Duration::from_secs(11));
    let now = bench.now;
    bench.broker.close(now).unwrap();
    let read = |name: &str| -> serde_json::Value {
        let text = std::fs::read_to_string(directory.path().join("config").join(name)).unwrap();
        serde_json::from_str(&text).unwrap()
    };
    let filter = read("consumerFilter.json")["filterDataByTopic"]["orders"]["groupFilterData"]["g"].clone();
    assert_eq!((filter["expression"].as_str(), filter["clientVersion"].as_i64()), (Some(sql), Some(5)));
    assert_eq!(filter["bloomFilterData"]["bitNum"], 112);
    assert_eq!(read("timermetrics")["timingCount"]["orders"]["count"], 1);
    let again = open();
    assert_eq!(again.broker.sql_filters.find("g", "orders").unwrap().version, 5);
}
