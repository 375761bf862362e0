use super::members::heartbeat;
use super::*;

const ADMIN: ConnectionId = ConnectionId(9);

fn join(bench: &mut Bench, from: ConnectionId, client_id: &str) {
    let body = heartbeat(client_id, "g", "orders", "*", 1, "CLUSTERING");
    assert_eq!(bench.ask(from, RequestCode::HEART_BEAT, &[], body.as_bytes()).code, 0);
    bench.effects();
}

fn commit(bench: &mut Bench, queue_id: &str, offset: &str) -> RemotingCommand {
    let fields = [("consumerGroup", "g"), ("topic", "orders"), ("queueId", queue_id), ("commitOffset", offset)];
    bench.ask(A, RequestCode::UPDATE_CONSUMER_OFFSET, &fields, b"")
}

fn committed(bench: &mut Bench) -> Option<String> {
    let fields = [("consumerGroup", "g"), ("topic", "orders"), ("queueId", "0")];
    let answer = bench.ask(A, RequestCode::QUERY_CONSUMER_OFFSET, &fields, b"");
    answer.field("offset").map(str::to_owned)
}

fn pull(bench: &mut Bench, offset: &str) -> RemotingCommand {
    let fields = [
        ("consumerGroup", "g"),
        ("topic", "orders"),
        ("queueId", "0"),
        ("queueOffset", offset),
        ("maxMsgNums", "32"),
        ("sysFlag", "4"),
        ("commitOffset", "0"),
        ("suspendTimeoutMillis", "0"),
        ("subscription", "*"),
        ("subVersion", "0"),
    ];
    bench.ask(A, RequestCode::PULL_MESSAGE, &fields, b"")
}

const RESET: [(&str, &str); 4] = [("group", "g"), ("topic", "orders"), ("timestamp", "0"), ("isForce", "true")];

#[test]
fn brokers_of_5_send_the_next_pull_to_the_offset_that_was_set() {
    let mut bench = Bench::new(Compatibility::V5_3);
    for _ in 0..3 {
        bench.send("orders", "", b"x");
    }
    let code = RequestCode::INVOKE_BROKER_TO_RESET_OFFSET;
    assert_eq!(bench.ask(ADMIN, code, &RESET, b"").code, 26, "nobody has heard of the group");
    join(&mut bench, A, "a");
    assert_eq!(commit(&mut bench, "0", "3").code, 0);
    assert_eq!(bench.ask(ADMIN, code, &RESET, b"").code, 0);
    assert!(bench.effects().0.is_empty(), "members are not told");
    assert_eq!(committed(&mut bench).as_deref(), Some("0"));
    let ignored = commit(&mut bench, "0", "3");
    assert_eq!((ignored.code, ignored.remark.as_deref()), (0, Some("Offset has been previously reset")));
    assert_eq!(committed(&mut bench).as_deref(), Some("0"));
    let sent_there = pull(&mut bench, "3");
    assert_eq!((sent_there.code, sent_there.remark.as_deref()), (21, Some("OFFSET_RESET")));
    assert_eq!(sent_there.field("nextBeginOffset"), Some("0"));
    assert_eq!(messages(&pull(&mut bench, "0")).len(), 3, "it is sent there once");
    commit(&mut bench, "0", "2");
    assert_eq!(committed(&mut bench).as_deref(), Some("2"));
    let beyond = [&RESET[..], &[("queueId", "0"), ("offset", "9")]].concat();
    assert_eq!(bench.ask(ADMIN, code, &beyond, b"").code, 1);
}

#[test]
fn older_brokers_tell_the_members() {
    for compatibility in [Compatibility::V4_4, Compatibility::V4_9] {
        let mut bench = Bench::new(compatibility);
        bench.send("orders", "", b"x");
        let code = RequestCode::INVOKE_BROKER_TO_RESET_OFFSET;
        let new = bench.ask(ADMIN, code, &RESET, b"");
        assert_eq!((new.code, new.remark.as_deref()), (1, Some("THe consumer group <g> not exist")));
        commit(&mut bench, "0", "1");
        commit(&mut bench, "1", "0");
        assert_eq!(bench.ask(ADMIN, code, &RESET, b"").code, 206, "nobody is online");
        join(&mut bench, A, "a");
        join(&mut bench, B, "b");
        assert_eq!(bench.ask(ADMIN, code, &RESET, b"").code, 0);
        let told = bench.effects().0;
        assert_eq!(told.iter().map(|(id, notice)| (*id, notice.code)).collect::<Vec<_>>(), [(A, 220), (B, 220)]);
        assert!(
            told[0].1.body.starts_with(br#"{"offsetTable":{{"brokerName":"broker-a","queueId":0,"topic":"orders"}:0"#)
        );
        assert_eq!(committed(&mut bench).as_deref(), Some("1"), "they set it themselves");
    }
}

#[test]
fn what_a_client_is_asked_through_the_broker_comes_back_or_is_given_up() {
    let mut bench = Bench::new(Compatibility::V5_3);
    join(&mut bench, A, "a");
    let code = RequestCode::GET_CONSUMER_RUNNING_INFO;
    let missing = bench.ask(ADMIN, code, &[("consumerGroup", "g"), ("clientId", "b")], b"");
    assert_eq!((missing.code, missing.remark.as_deref()), (1, Some("The Consumer <g> <b> not online")));
    let fields = [("consumerGroup", "g"), ("clientId", "a")];
    assert!(bench.try_ask(ADMIN, code, &fields, b"").is_none());
    let (to, question) = bench.effects().0.remove(0);
    assert_eq!((to, question.code, question.field("clientId")), (A, 307, Some("a")));
    bench.answer(A, question.opaque, 0);
    assert_eq!(bench.effects().0.iter().map(|(to, answer)| (*to, answer.code)).collect::<Vec<_>>(), [(ADMIN, 0)]);

    assert!(bench.try_ask(ADMIN, code, &fields, b"").is_none());
    bench.effects();
    bench.pass(Duration::from_secs(11));
    assert_eq!(bench.effects().0.iter().map(|(to, answer)| (*to, answer.code)).collect::<Vec<_>>(), [(ADMIN, 207)]);

    // Of several clients, those that do not say where they are, are left out.
    let fields = [("group", "g"), ("topic", "orders")];
    assert!(bench.try_ask(ADMIN, RequestCode::INVOKE_BROKER_TO_GET_CONSUMER_STATUS, &fields, b"").is_none());
    assert_eq!(bench.effects().0[0].1.code, 221);
    bench.pass(Duration::from_secs(6));
    let (_, answer) = bench.effects().0.remove(0);
    assert_eq!((answer.code, &answer.body[..]), (0, &br#"{"consumerTable":{},"messageQueueTable":{}}"#[..]));
}

#[test]
fn a_deleted_topic_takes_its_messages_and_offsets_along() {
    for compatibility in ALL {
        let mut bench = Bench::new(compatibility);
        bench.send("orders", "KEYS\u{1}k\u{2}", b"x");
        join(&mut bench, A, "a");
        commit(&mut bench, "0", "1");
        assert_eq!(bench.ask(ADMIN, RequestCode::DELETE_TOPIC_IN_BROKER, &[("topic", "orders")], b"").code, 0);
        assert_eq!(bench.ask(ADMIN, RequestCode::GET_TOPIC_STATS_INFO, &[("topic", "orders")], b"").code, 17);
        let stats = bench.ask(ADMIN, RequestCode::GET_CONSUME_STATS, &[("consumerGroup", "g")], b"");
        assert!(stats.body.ends_with(br#""offsetTable":{}}"#), "{stats:?}");
        // A new topic of that name begins anew.
        let again = bench.send("orders", "", b"y");
        assert_eq!((again.code, again.field("queueOffset")), (0, Some("0")));
    }
}

#[test]
fn properties_are_set_listed_and_protected() {
    let mut bench = Bench::new(Compatibility::V5_3);
    let set =
        |bench: &mut Bench, text: &str| bench.ask(ADMIN, RequestCode::UPDATE_BROKER_CONFIG, &[], text.as_bytes()).code;
    assert_eq!(set(&mut bench, "autoCreateTopicEnable=false\nnobodyKnowsThis=1\n"), 0);
    let unknown = bench.ask(A, RequestCode::SEND_MESSAGE_V2, &send_fields("new", ""), b"x");
    assert_eq!(unknown.code, 17);
    assert_eq!(set(&mut bench, "autoCreateTopicEnable=true"), 0);
    assert_eq!(bench.ask(A, RequestCode::SEND_MESSAGE_V2, &send_fields("new", ""), b"x").code, 0);
    assert_eq!(set(&mut bench, "rocketmqHome=/"), 16);
    // What others know the broker by does not change under them.
    assert_eq!(set(&mut bench, "brokerName=other\ntransactionCheckMax=3"), 0);
    let listed = bench.ask(ADMIN, RequestCode::GET_BROKER_CONFIG, &[], b"");
    let text = String::from_utf8(listed.body.to_vec()).unwrap();
    for line in ["brokerName=broker-a", "autoCreateTopicEnable=true", "transactionCheckMax=3"] {
        assert!(text.lines().any(|found| found == line), "{line} is missing in {text}");
    }
    assert!(listed.field("version").is_some_and(|version| version.contains("\"counter\":3")), "{listed:?}");
}
