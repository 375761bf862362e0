use super::*;

const OF_G: [(&str, &str); 3] = [("consumerGroup", "g"), ("topic", "orders"), ("queueId", "0")];

fn commit(bench: &mut Bench, offset: &str) -> RemotingCommand {
    let fields = with(OF_G.to_vec(), &[("commitOffset", offset)]);
    bench.ask(A, RequestCode::UPDATE_CONSUMER_OFFSET, &fields, b"")
}

fn query(bench: &mut Bench, changes: &[(&'static str, &'static str)]) -> (i32, Option<String>) {
    let answer = bench.ask(A, RequestCode::QUERY_CONSUMER_OFFSET, &with(OF_G.to_vec(), changes), b"");
    (answer.code, answer.field("offset").map(str::to_owned))
}

#[test]
fn a_new_group_begins_at_the_first_message_if_it_is_there() {
    let zero = || (0, Some("0".to_owned()));
    for compatibility in ALL {
        let mut bench = Bench::new(compatibility);
        let is_5 = compatibility == Compatibility::V5_3;
        let empty = if is_5 { (22, None) } else { zero() };
        assert_eq!(query(&mut bench, &[]), empty, "{compatibility:?}");
        assert_eq!(query(&mut bench, &[("topic", "missing")]), empty);
        bench.send("orders", "", b"x");
        assert_eq!(query(&mut bench, &[]), zero());
        let not_zero = if is_5 { (22, None) } else { zero() };
        assert_eq!(query(&mut bench, &[("setZeroIfNotFound", "false")]), not_zero);
    }
}

#[test]
fn offsets_are_stored_without_looking_at_what_was_before() {
    let mut bench = Bench::new(Compatibility::V4_9);
    assert_eq!(commit(&mut bench, "7").code, 0);
    assert_eq!(commit(&mut bench, "3").code, 0);
    assert_eq!(query(&mut bench, &[]), (0, Some("3".to_owned())));
}

#[test]
fn version_5_stores_offsets_of_what_exists() {
    let mut bench = Bench::new(Compatibility::V5_3);
    let unknown = commit(&mut bench, "1");
    assert_eq!((unknown.code, unknown.remark.as_deref()), (26, Some("Group g not exist!")));
    let body = super::members::heartbeat("c", "g", "orders", "*", 1, "CLUSTERING");
    bench.ask(A, RequestCode::HEART_BEAT, &[], body.as_bytes());
    assert_eq!(commit(&mut bench, "1").code, 0);
    let fields = with(OF_G.to_vec(), &[("commitOffset", "1"), ("topic", "missing")]);
    assert_eq!(bench.ask(A, RequestCode::UPDATE_CONSUMER_OFFSET, &fields, b"").code, 17);
}

#[test]
fn the_ends_of_a_queue() {
    let mut bench = Bench::new(Compatibility::V5_3);
    let ask = |bench: &mut Bench, code, topic| {
        let answer = bench.ask(A, code, &[("topic", topic), ("queueId", "0"), ("timestamp", "0")], b"");
        (answer.field("offset").or(answer.field("timestamp")).unwrap().to_owned(), answer.remark)
    };
    assert_eq!(ask(&mut bench, RequestCode::GET_MAX_OFFSET, "missing").0, "0");
    assert_eq!(ask(&mut bench, RequestCode::GET_EARLIEST_MSG_STORETIME, "orders").0, "-1");
    bench.send("orders", "", b"x");
    bench.send("orders", "", b"y");
    assert_eq!(ask(&mut bench, RequestCode::GET_MAX_OFFSET, "orders"), ("2".to_owned(), None));
    assert_eq!(ask(&mut bench, RequestCode::GET_MIN_OFFSET, "orders"), ("0".to_owned(), Some(String::new())));
    assert_eq!(ask(&mut bench, RequestCode::GET_EARLIEST_MSG_STORETIME, "orders").0, "1700000000000");
}

#[test]
fn a_time_leads_to_an_offset() {
    for (compatibility, between, later) in [(Compatibility::V4_9, "0", "1"), (Compatibility::V5_3, "1", "2")] {
        let mut bench = Bench::new(compatibility);
        bench.send("orders", "", b"x");
        bench.pass(Duration::from_secs(10));
        bench.send("orders", "", b"y");
        let mut at = |timestamp: &str, boundary: &str| {
            let fields = [("topic", "orders"), ("queueId", "0"), ("timestamp", timestamp), ("boundaryType", boundary)];
            let answer = bench.ask(A, RequestCode::SEARCH_OFFSET_BY_TIMESTAMP, &fields, b"");
            answer.field("offset").unwrap().to_owned()
        };
        assert_eq!(at("1700000000000", "LOWER"), "0");
        assert_eq!(at("1700000003000", "LOWER"), between, "{compatibility:?}");
        assert_eq!(at("1800000000000", "LOWER"), later);
        assert_eq!(at("1700000003000", "UPPER"), "0");
    }
}

#[test]
fn topics_are_created_changed_and_described() {
    for compatibility in ALL {
        let mut bench = Bench::new(compatibility);
        let is_5 = compatibility == Compatibility::V5_3;
        let fields = |topic: &'static str| {
            vec![
                ("topic", topic),
                ("defaultTopic", "TBW102"),
                ("readQueueNums", "3"),
                ("writeQueueNums", "2"),
                ("perm", "6"),
                ("topicFilterType", "SINGLE_TAG"),
                ("attributes", "+message.type=NORMAL"),
            ]
        };
        let created = bench.ask(A, RequestCode::UPDATE_AND_CREATE_TOPIC, &fields("new"), b"");
        assert_eq!(created.code, 0);
        assert_eq!(created.remark.is_some(), compatibility != Compatibility::V4_4);
        let topic = bench.broker.topics.get("new").unwrap();
        assert_eq!((topic.read_queue_nums, topic.write_queue_nums), (3, 2));
        let bad = if is_5 { 29 } else { 1 };
        for name in ["TBW102", "a.b"] {
            let refused = bench.ask(A, RequestCode::UPDATE_AND_CREATE_TOPIC, &fields(name), b"");
            let expected = if compatibility == Compatibility::V4_4 { 0 } else { bad };
            assert_eq!(refused.code, expected, "{compatibility:?} {name}");
        }
        let config = bench.try_ask(A, RequestCode::GET_TOPIC_CONFIG, &[("topic", "new")], b"");
        if is_5 {
            let body = config.unwrap().body;
            assert!(body.starts_with(br#"{"attributes":{"message.type":"NORMAL"},"order":false,"perm":6"#), "{body:?}");
            assert_eq!(bench.ask(A, RequestCode::GET_TOPIC_CONFIG, &[("topic", "missing")], b"").code, 17);
        }
    }
}
