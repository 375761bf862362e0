//! Brings a fresh broker into the state that the recorded one was in, as far as the answer depends on it.

use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use rocketmq_mock_broker::{Compatibility, MockBroker};
use rocketmq_wire::message::OffsetMessageId;
use rocketmq_wire::model::{LockBatch, LockedQueues};
use rocketmq_wire::request::pull::pull_flag;
use rocketmq_wire::{RemotingCommand, RequestCode, ResponseCode, fastjson};

use crate::administration;
use crate::recording::Exchange;
use crate::support::{Peer, heartbeat, send_fields};

/// Topics that an administrator had created: name, queues, permission.
const TOPICS: [(&str, &str, &str); 14] = [
    ("GoldenTopicA", "4", "6"),
    ("GoldenTopicB", "4", "6"),
    ("GoldenOrder", "4", "6"),
    ("GoldenTrans", "4", "6"),
    ("GoldenRequest", "4", "6"),
    ("GoldenByProducer", "2", "6"),
    ("GoldenNoRead", "2", "2"),
    ("GoldenNoWrite", "2", "4"),
    ("GoldenMixed", "2", "6"),
    ("GoldenGo", "2", "6"),
    ("GoldenDelay5", "2", "6"),
    ("GoldenGoAway", "1", "6"),
    ("GoldenAcl", "2", "6"),
    ("%RETRY%CG-GoldenTag", "1", "6"),
];

/// Longer than any recorded client was ready to wait.
const LONGER_THAN_ANY_WAIT: Duration = Duration::from_secs(40);

pub(crate) fn compatibility(label: &str) -> Compatibility {
    label.split('-').next().unwrap_or(label).parse().expect("a label begins with a version")
}

/// Sends the recorded request to a broker that was prepared for it, and returns the answer.
pub(crate) fn replay(exchange: &Exchange) -> RemotingCommand {
    let recorded = &exchange.answer;
    let code = RequestCode(exchange.request.code);
    let answered = ResponseCode(recorded.code);
    let is_send = matches!(code.0, 10 | 310 | 320);
    // What a broker says of itself names the place of its log.
    let directory = tempfile::tempdir().expect("a directory");
    let mut builder = MockBroker::builder();
    if code == RequestCode::GET_BROKER_RUNTIME_INFO {
        builder = builder.store_directory(directory.path());
    }
    let broker = builder
        .compatibility(compatibility(exchange.label))
        .set("brokerClusterName", "GoldenCluster")
        .and_then(|builder| builder.set("brokerName", "broker-a"))
        .expect("known properties")
        .set("enablePropertyFilter", "true")
        .expect("a known property")
        .set("recallMessageEnable", if answered == ResponseCode::SUCCESS { "true" } else { "false" })
        .expect("a known property")
        // The recorded brokers were told not to create anything for the scenarios that had these answers.
        .auto_create_groups(answered != ResponseCode::SUBSCRIPTION_GROUP_NOT_EXIST)
        .auto_create_topics(!(is_send && answered == ResponseCode::TOPIC_NOT_EXIST))
        .start_blocking()
        .expect("a broker");
    let mut preparing = Peer::connect(broker.broker_address());
    let is_missing = |topic: &str| {
        exchange.to_name_server
            && code == RequestCode::GET_ROUTEINFO_BY_TOPIC
            && answered == ResponseCode::TOPIC_NOT_EXIST
            && field(&exchange.request, "topic") == topic
    };
    for (topic, queues, perm) in TOPICS.into_iter().filter(|(topic, ..)| !is_missing(topic)) {
        create_topic(&mut preparing, topic, queues, perm, None);
    }
    let mut request = exchange.request.clone();
    let mut asking =
        Peer::connect(if exchange.to_name_server { broker.name_server() } else { broker.broker_address() });
    match code {
        RequestCode::PULL_MESSAGE | RequestCode::LITE_PULL_MESSAGE => {
            prepare_pull(&mut asking, &mut preparing, exchange);
        }
        RequestCode::QUERY_CONSUMER_OFFSET => prepare_offset(&mut preparing, &request, recorded),
        RequestCode::UPDATE_CONSUMER_OFFSET if answered != ResponseCode::SUBSCRIPTION_GROUP_NOT_EXIST => {
            join(&mut preparing, field(&request, "consumerGroup"), "GoldenTopicA", "*", 1);
        }
        RequestCode::GET_CONSUMER_LIST_BY_GROUP if answered == ResponseCode::SUCCESS => {
            join(&mut preparing, field(&request, "consumerGroup"), "GoldenTopicA", "*", 1);
        }
        RequestCode::GET_MAX_OFFSET
        | RequestCode::GET_MIN_OFFSET
        | RequestCode::SEARCH_OFFSET_BY_TIMESTAMP
        | RequestCode::GET_EARLIEST_MSG_STORETIME => {
            fill(&mut preparing, field(&request, "topic"), field(&request, "queueId"), 1, "TagA");
        }
        RequestCode::LOCK_BATCH_MQ => prepare_locks(&mut preparing, &request, recorded),
        RequestCode::CONSUMER_SEND_MSG_BACK => {
            let sent =
                preparing.request(RequestCode::SEND_MESSAGE_V2, &send_fields("GoldenTopicA", "0", ""), "sent back");
            let id: OffsetMessageId = sent.field("msgId").expect("stored").parse().expect("an id");
            if field(&request, "offset") != "99999999" {
                set_field(&mut request, "offset", &id.physical_offset.to_string());
            }
        }
        RequestCode::GET_TIMER_METRICS => {
            let fields = send_fields("GoldenDelay5", "0", "TIMER_DELAY_SEC\u{1}3600\u{2}");
            assert_eq!(preparing.request(RequestCode::SEND_MESSAGE_V2, &fields, "waits").code, 0);
        }
        RequestCode::RECALL_MESSAGE => prepare_recall(&mut preparing, &mut request),
        RequestCode::END_TRANSACTION => prepare_transaction(&mut preparing, &mut request, answered),
        RequestCode::SEND_REPLY_MESSAGE_V2 if answered == ResponseCode::SUCCESS => {
            let waiting = property(&request, "REPLY_TO_CLIENT");
            let body = format!(r#"{{"clientID":"{waiting}","producerDataSet":[{{"groupName":"PG-GoldenAsk"}}]}}"#);
            assert_eq!(preparing.request(RequestCode::HEART_BEAT, &[], body).code, 0);
        }
        RequestCode::GET_ROUTEINFO_BY_TOPIC if answered == ResponseCode::SUCCESS => {
            prepare_route(&mut asking, &mut preparing, &request, recorded);
        }
        RequestCode::GET_TOPIC_CONFIG => {
            create_topic(&mut preparing, "GoldenDelay5", "2", "6", Some("+message.type=DELAY"));
        }
        RequestCode::REGISTER_BROKER if recorded.remark.is_none() => {
            register(&mut asking, &request);
            if !recorded.body.is_empty() {
                administration::put_value(&mut asking, "ORDER_TOPIC_CONFIG", "GoldenOrder", "broker-a:4");
            }
        }
        RequestCode::QUERY_DATA_VERSION => register(&mut asking, &request),
        _ => {}
    }
    if !property(&request, "TIMER_DELIVER_MS").is_empty() {
        ask_for_a_time_ahead(&mut request);
    }
    let remark = recorded.remark.as_deref().unwrap_or_default();
    if matches!(remark, "OFFSET_RESET" | "Offset has been previously reset") {
        administration::reset(&mut preparing, &request);
    }
    if remark.starts_with("subscription group no permission") {
        administration::disable(&mut preparing, field(&request, "consumerGroup"));
    }
    administration::prepare(exchange, &broker, (&mut asking, &mut preparing), &mut request);
    asking.send(&request);
    administration::answer_as_client(exchange, &mut preparing);
    if code == RequestCode::SEND_REPLY_MESSAGE_V2 && answered == ResponseCode::SUCCESS {
        let pushed = preparing.receive();
        assert_eq!(pushed.code, RequestCode::PUSH_REPLY_MESSAGE_TO_CLIENT.0, "{pushed:?}");
        preparing.send(&RemotingCommand { code: 0, flag: 1, fields: None, body: Bytes::new(), ..pushed });
    }
    let may_wait = matches!(code, RequestCode::PULL_MESSAGE | RequestCode::LITE_PULL_MESSAGE)
        && field(&request, "sysFlag").parse::<i32>().is_ok_and(|flag| flag & pull_flag::SUSPEND != 0);
    if may_wait {
        // Once a later request is answered the pull is held, and can be made to end.
        let later = asking.command(RequestCode::GET_MIN_OFFSET, &[("topic", "GoldenTopicA"), ("queueId", "0")], "");
        let mut later = later;
        later.opaque = i32::MIN;
        asking.send(&later);
        let first = asking.next_answer();
        if first.opaque == request.opaque {
            return first;
        }
        tokio_free(broker.advance_sessions(LONGER_THAN_ANY_WAIT));
    }
    asking.answer_to(request.opaque)
}

/// Waits for something that the broker's own thread does.
fn tokio_free<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().expect("a runtime").block_on(future)
}

pub(crate) fn field<'a>(command: &'a RemotingCommand, name: &str) -> &'a str {
    command.field(name).unwrap_or_default()
}

fn number(command: &RemotingCommand, name: &str) -> i64 {
    command.field(name).and_then(|text| text.parse().ok()).unwrap_or(0)
}

pub(crate) fn set_field(command: &mut RemotingCommand, name: &str, value: &str) {
    for (key, old) in command.fields.iter_mut().flatten() {
        if key == name {
            value.clone_into(old);
        }
    }
}

pub(crate) fn create_topic(peer: &mut Peer, topic: &str, queues: &str, perm: &str, attributes: Option<&str>) {
    let mut fields = vec![
        ("topic", topic),
        ("defaultTopic", "TBW102"),
        ("readQueueNums", queues),
        ("writeQueueNums", queues),
        ("perm", perm),
        ("topicFilterType", "SINGLE_TAG"),
    ];
    fields.extend(attributes.map(|attributes| ("attributes", attributes)));
    let created = peer.request(RequestCode::UPDATE_AND_CREATE_TOPIC, &fields, "");
    assert_eq!(created.code, 0, "{created:?}");
}

fn join(peer: &mut Peer, group: &str, topic: &str, expression: &str, sub_version: i64) {
    let body = heartbeat("golden-client", group, topic, expression, sub_version);
    assert_eq!(peer.request(RequestCode::HEART_BEAT, &[], body).code, 0);
}

/// Puts messages into a queue until it has so many.
pub(crate) fn fill(peer: &mut Peer, topic: &str, queue_id: &str, count: i64, tag: &str) {
    for _ in 0..count {
        // What recorded expressions ask for.
        let wanted = if tag == "TagA" { "a\u{1}4\u{2}b\u{1}x\u{2}" } else { "" };
        let properties = format!("TAGS\u{1}{tag}\u{2}{wanted}");
        let sent = peer.request(RequestCode::SEND_MESSAGE_V2, &send_fields(topic, queue_id, &properties), "filler");
        // Queues and topics that do not exist are part of what was recorded.
        if sent.code != 0 {
            return;
        }
    }
}

fn prepare_pull(asking: &mut Peer, preparing: &mut Peer, exchange: &Exchange) {
    let (request, recorded) = (&exchange.request, &exchange.answer);
    let (topic, queue_id) = (field(request, "topic"), field(request, "queueId"));
    let matches = recorded.remark.as_deref() != Some("NO_MATCHED_MESSAGE");
    fill(preparing, topic, queue_id, number(recorded, "maxOffset"), if matches { "TagA" } else { "TagZ" });
    let brings_subscription = number(request, "sysFlag") as i32 & pull_flag::SUBSCRIPTION != 0;
    let group = field(request, "consumerGroup");
    if brings_subscription || group.contains("Unknown") {
        return;
    }
    let version = number(request, "subVersion");
    let remark = recorded.remark.as_deref().unwrap_or_default();
    if remark.contains("group info not exist") {
        return;
    }
    if remark.contains("subscription not exist") {
        join(asking, group, "GoldenTopicB", "*", version);
    } else if remark.contains("filter data is not exist") {
        subscribe_by_expression(asking, group, topic, "a >", version);
    } else if remark.contains("filter data not latest") {
        subscribe_by_expression(asking, group, topic, "a > 3", version - 1);
        subscribe_by_expression(asking, group, topic, "a >", version);
    } else if remark.contains("subscription not latest") {
        join(asking, group, topic, "*", version - 1);
    } else {
        join(asking, group, topic, if matches { "*" } else { "TagA" }, version);
    }
}

fn subscribe_by_expression(peer: &mut Peer, group: &str, topic: &str, expression: &str, version: i64) {
    let body = heartbeat("golden-client", group, topic, expression, version).replace("\"TAG\"", "\"SQL92\"");
    assert_eq!(peer.request(RequestCode::HEART_BEAT, &[], body).code, 0);
}

fn prepare_offset(preparing: &mut Peer, request: &RemotingCommand, recorded: &RemotingCommand) {
    let (group, topic, queue_id) =
        (field(request, "consumerGroup"), field(request, "topic"), field(request, "queueId"));
    if recorded.code != 0 {
        return;
    }
    match field(recorded, "offset") {
        "0" => fill(preparing, topic, queue_id, 1, "TagA"),
        offset => {
            join(preparing, group, topic, "*", 1);
            let fields = [("consumerGroup", group), ("topic", topic), ("queueId", queue_id), ("commitOffset", offset)];
            assert_eq!(preparing.request(RequestCode::UPDATE_CONSUMER_OFFSET, &fields, "").code, 0);
        }
    }
}

/// A property of a message that a recorded client sends.
fn property(request: &RemotingCommand, name: &str) -> String {
    let text = request.field("i").unwrap_or_default();
    let mut values = text.split('\u{2}').filter_map(|part| part.strip_prefix(name)?.strip_prefix('\u{1}'));
    values.next().unwrap_or_default().to_owned()
}

/// The recorded time is past; a message for it would not have to wait.
fn ask_for_a_time_ahead(request: &mut RemotingCommand) {
    #[expect(clippy::disallowed_methods, reason = "the broker's clock is the machine's")]
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970").as_millis();
    let ahead = format!("TIMER_DELIVER_MS\u{1}{}", now + 3_600_000);
    let parts = field(request, "i").split('\u{2}');
    let parts = parts.map(|part| if part.starts_with("TIMER_DELIVER_MS\u{1}") { ahead.as_str() } else { part });
    let properties = parts.collect::<Vec<_>>().join("\u{2}");
    set_field(request, "i", &properties);
}

/// A handle is of a message that still waits.
fn prepare_recall(preparing: &mut Peer, request: &mut RemotingCommand) {
    let properties = "UNIQ_KEY\u{1}U\u{2}TIMER_DELAY_SEC\u{1}3600\u{2}";
    let fields = send_fields("GoldenDelay5", "0", properties);
    let sent = preparing.request(RequestCode::SEND_MESSAGE_V2, &fields, "waits");
    set_field(request, "recallHandle", field(&sent, "recallHandle"));
}

/// An outcome is about a half message, or about one that is none.
fn prepare_transaction(preparing: &mut Peer, request: &mut RemotingCommand, answered: ResponseCode) {
    let half = format!("TRAN_MSG\u{1}true\u{2}PGROUP\u{1}{}\u{2}UNIQ_KEY\u{1}U\u{2}", field(request, "producerGroup"));
    let properties = if answered == ResponseCode::SUCCESS { half.as_str() } else { "" };
    let sent = preparing.request(RequestCode::SEND_MESSAGE_V2, &send_fields("GoldenTrans", "0", properties), "half");
    if answered == ResponseCode::SUCCESS {
        let id: OffsetMessageId = sent.field("msgId").expect("stored").parse().expect("an id");
        set_field(request, "commitLogOffset", &id.physical_offset.to_string());
        set_field(request, "tranStateTableOffset", field(&sent, "queueOffset"));
    }
}

/// If a lock was refused, somebody else has it.
fn prepare_locks(preparing: &mut Peer, request: &RemotingCommand, recorded: &RemotingCommand) {
    let locked: LockedQueues = fastjson::from_slice("locked queues", &recorded.body).expect("a recorded body");
    if locked.locked.is_empty() {
        let mut batch: LockBatch = fastjson::from_slice("queues to lock", &request.body).expect("a recorded body");
        batch.client_id = "somebody-else".to_owned();
        let body = serde_json::to_vec(&batch).expect("JSON");
        assert_eq!(preparing.request(RequestCode::LOCK_BATCH_MQ, &[], body).code, 0);
    }
}

fn prepare_route(asking: &mut Peer, preparing: &mut Peer, request: &RemotingCommand, recorded: &RemotingCommand) {
    let topic = field(request, "topic");
    let has = |text: &[u8]| recorded.body.windows(text.len()).any(|part| part == text);
    if has(b"\"orderTopicConf\":\"") {
        administration::put_value(asking, "ORDER_TOPIC_CONFIG", topic, "broker-a:4");
        administration::serve_ordered_topics(asking);
    }
    if topic.starts_with("%RETRY%") || topic == "GoldenAutoCreated" || topic.starts_with("GoldenGo") {
        let route: rocketmq_wire::model::TopicRoute =
            fastjson::from_slice("route", &recorded.body).expect("a recorded body");
        create_topic(preparing, topic, &route.queue_datas[0].read_queue_nums.to_string(), "6", None);
    }
}

/// Registers the broker that a request is about, as it had been before: with no topics.
fn register(asking: &mut Peer, request: &RemotingCommand) {
    let address = field(request, "brokerAddr");
    let fields = [
        ("brokerName", field(request, "brokerName")),
        ("brokerAddr", address),
        ("clusterName", field(request, "clusterName")),
        ("haServerAddr", address),
        ("brokerId", "0"),
    ];
    let mut body = BytesMut::new();
    body.put_slice(br#"{"topicConfigSerializeWrapper":{"topicConfigTable":{}},"filterServerList":[]}"#);
    assert_eq!(asking.request(RequestCode::REGISTER_BROKER, &fields, body.freeze()).code, 0);
}
