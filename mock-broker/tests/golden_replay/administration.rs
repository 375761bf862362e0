//! What has to be on a broker, and who has to be connected, for the requests of administrators.

use std::collections::BTreeMap;
use std::time::Duration;

use rocketmq_mock_broker::MockBroker;
use rocketmq_wire::model::{ConsumerData, HeartbeatData, ProducerData, SubscriptionData};
use rocketmq_wire::{RemotingCommand, RequestCode, ResponseCode, fastjson};
use serde_json::Value;

use crate::preparation::{create_topic, field, fill, set_field};
use crate::recording::Exchange;
use crate::support::{Peer, send_fields};

/// What a key is in the recorded queries that find something.
const KEY: &str = "KEYS";

/// Prepares a broker for a request of an administrator.
pub(crate) fn prepare(
    exchange: &Exchange,
    broker: &MockBroker,
    (asking, preparing): (&mut Peer, &mut Peer),
    request: &mut RemotingCommand,
) {
    let recorded = &exchange.answer;
    let succeeded = recorded.code == ResponseCode::SUCCESS.0;
    let (group, topic) = (group_of(request), field(request, "topic").to_owned());
    match RequestCode(request.code) {
        RequestCode::QUERY_MESSAGE => {
            let name = if field(request, "_UNIQUE_KEY_QUERY") == "true" { "UNIQ_KEY" } else { KEY };
            let key = if succeeded { field(request, "key") } else { "another" };
            let properties = format!("{name}\u{1}{key}\u{2}");
            ensure_topic(preparing, &topic);
            let sent = preparing.request(RequestCode::SEND_MESSAGE_V2, &send_fields(&topic, "0", &properties), "found");
            assert_eq!(sent.code, 0);
            // The recorded times are those of the recorded messages.
            set_field(request, "beginTimestamp", "0");
            set_field(request, "endTimestamp", &i64::MAX.to_string());
        }
        RequestCode::VIEW_MESSAGE_BY_ID => fill(preparing, "GoldenTopicA", "0", 1, "TagA"),
        RequestCode::GET_BROKER_RUNTIME_INFO | RequestCode::GET_ALL_DELAY_OFFSET => {
            delay(preparing, broker, &recorded.body);
        }
        RequestCode::GET_ALL_CONSUMER_OFFSET => {
            let body: Value = fastjson::from_slice("offsets", &recorded.body).expect("JSON");
            for (key, queues) in body["offsetTable"].as_object().expect("a table") {
                let Some((topic, group)) = key.split_once('@').filter(|(_, group)| !group.contains('@')) else {
                    continue;
                };
                ensure_topic(preparing, topic);
                for (queue_id, offset) in queues.as_object().expect("a table") {
                    commit(preparing, group, topic, queue_id, offset.as_i64().expect("an offset"));
                }
            }
        }
        RequestCode::GET_ALL_SUBSCRIPTIONGROUP_CONFIG | RequestCode::GET_ALL_TOPIC_CONFIG => {
            heartbeat(preparing, "client", &["CG-GoldenTag"], &["GoldenTopicA"], &[]);
        }
        RequestCode::GET_TOPIC_STATS_INFO => fill(preparing, &topic, "0", 1, "TagA"),
        RequestCode::GET_CONSUMER_CONNECTION_LIST if succeeded => {
            heartbeat(preparing, "client", &[&group], &["%RETRY%CG-GoldenTag", "GoldenTopicA"], &[]);
        }
        RequestCode::GET_PRODUCER_CONNECTION_LIST if succeeded => heartbeat(preparing, "client", &[], &[], &[&group]),
        RequestCode::GET_ALL_PRODUCER_INFO => heartbeat(preparing, "client", &[], &[], &["PG-Golden"]),
        RequestCode::GET_CONSUME_STATS
        | RequestCode::QUERY_CONSUME_TIME_SPAN
        | RequestCode::QUERY_CORRECTION_OFFSET
        | RequestCode::CLONE_GROUP_OFFSET => {
            let has_progress = !recorded.body.ends_with(b"\"offsetTable\":{}}");
            if has_progress {
                consume(preparing, &group, if topic.is_empty() { "GoldenTopicA" } else { &topic });
            }
        }
        RequestCode::QUERY_TOPIC_CONSUME_BY_WHO if !recorded.body.ends_with(b"[]}") => {
            consume(preparing, "CG-GoldenTag", &topic);
        }
        RequestCode::QUERY_CONSUME_QUEUE => {
            fill(preparing, "GoldenTopicA", "2", 4, "TagA");
            create_topic(preparing, "GoldenAdminTopic", "2", "6", None);
            fill(preparing, "GoldenAdminTopic", "0", 1, "TagA");
            if !group.is_empty() {
                let expression = if recorded.body.windows(5).any(|text| text == b"TagA\"") { "TagA" } else { "*" };
                subscribe(preparing, "client", &group, &[("GoldenTopicA", expression)]);
            }
        }
        RequestCode::INVOKE_BROKER_TO_RESET_OFFSET => {
            if exchange.scenario.starts_with("client-side-reset") {
                set_property(preparing, "useServerSideResetOffset=false");
            }
            ensure_topic(preparing, &topic);
            let has_offsets = !recorded.remark.as_deref().unwrap_or_default().ends_with("> not exist");
            if has_offsets {
                consume(preparing, &group, &topic);
            }
            let is_offline = recorded.code == ResponseCode::CONSUMER_NOT_ONLINE.0;
            if has_offsets && !is_offline {
                heartbeat(preparing, "client", &[&group], &[&topic], &[]);
            }
        }
        RequestCode::VIEW_BROKER_STATS_DATA if succeeded => {
            let key = field(request, "statsKey").to_owned();
            if key == "RMQ_SYS_TRANS_HALF_TOPIC" {
                let properties = "TRAN_MSG\u{1}true\u{2}PGROUP\u{1}producers\u{2}";
                let sent = preparing.request(
                    RequestCode::SEND_MESSAGE_V2,
                    &send_fields("GoldenTrans", "0", properties),
                    "half",
                );
                assert_eq!(sent.code, 0);
            } else {
                ensure_topic(preparing, &key);
                fill(preparing, &key, "0", 1, "TagA");
            }
        }
        RequestCode::GET_KV_CONFIG | RequestCode::GET_KVLIST_BY_NAMESPACE if succeeded => {
            put_value(asking, field(request, "namespace"), "key1", "value 1");
        }
        RequestCode::GET_CONSUMER_RUNNING_INFO | RequestCode::CONSUME_MESSAGE_DIRECTLY if succeeded => {
            fill(preparing, "GoldenTopicA", "0", 1, "TagA");
            heartbeat(preparing, field(request, "clientId"), &[&group], &["GoldenTopicA"], &[]);
        }
        RequestCode::INVOKE_BROKER_TO_GET_CONSUMER_STATUS => {
            heartbeat(preparing, "Golden", &[&group], &["GoldenTopicA"], &[]);
        }
        RequestCode::GET_BROKER_CONSUME_STATS if serde_json::from_slice::<Value>(&recorded.body).is_err() => {
            // The last in the list: the first that is compared has no progress.
            consume(preparing, "Z-Golden", "GoldenTopicA");
        }
        _ => {}
    }
}

/// Answers what the broker passes on to a client, as the recorded client did: `preparing` is that client.
pub(crate) fn answer_as_client(exchange: &Exchange, preparing: &mut Peer) {
    let recorded = &exchange.answer;
    let passed_on = match RequestCode(exchange.request.code) {
        RequestCode::GET_CONSUMER_RUNNING_INFO => RequestCode::GET_CONSUMER_RUNNING_INFO,
        RequestCode::CONSUME_MESSAGE_DIRECTLY => RequestCode::CONSUME_MESSAGE_DIRECTLY,
        RequestCode::INVOKE_BROKER_TO_GET_CONSUMER_STATUS => RequestCode::GET_CONSUMER_STATUS_FROM_CLIENT,
        _ => return,
    };
    if recorded.code != ResponseCode::SUCCESS.0 {
        return;
    }
    let question = loop {
        let command = preparing.receive();
        if command.code == passed_on.0 {
            break command;
        }
    };
    let body = if passed_on == RequestCode::GET_CONSUMER_STATUS_FROM_CLIENT {
        let body: Value = fastjson::from_slice("status", &recorded.body).expect("JSON");
        let table = body["consumerTable"].as_object().and_then(|table| table.values().next()).cloned();
        serde_json::json!({ "messageQueueTable": table.expect("a client") }).to_string().into()
    } else {
        recorded.body.clone()
    };
    let answer = RemotingCommand {
        code: 0,
        flag: question.flag | 1,
        remark: recorded.remark.clone(),
        fields: None,
        body,
        ..question
    };
    preparing.send(&answer);
}

/// Puts delayed messages and lets their time come, for the levels that the recorded answer names.
fn delay(preparing: &mut Peer, broker: &MockBroker, recorded: &[u8]) {
    for level in ["1", "2", "3"] {
        let named = [format!("scheduleMessageOffset_{level}\""), format!("{level}:")];
        if !named.iter().any(|name| recorded.windows(name.len()).any(|text| text == name.as_bytes())) {
            continue;
        }
        let properties = format!("DELAY\u{1}{level}\u{2}");
        let sent =
            preparing.request(RequestCode::SEND_MESSAGE_V2, &send_fields("GoldenTopicA", "0", &properties), "late");
        assert_eq!(sent.code, 0);
    }
    broker.advance_blocking(Duration::from_secs(60));
}

fn group_of(request: &RemotingCommand) -> String {
    let names = ["consumerGroup", "producerGroup", "group", "srcGroup", "compareGroup"];
    names.into_iter().find_map(|name| request.field(name)).unwrap_or_default().to_owned()
}

/// Creates a topic, unless it is one that every broker has.
fn ensure_topic(preparing: &mut Peer, topic: &str) {
    if topic.starts_with("Golden") || topic.starts_with('%') {
        create_topic(preparing, topic, "4", "6", None);
    }
}

/// Lets a group consume some of a topic.
fn consume(preparing: &mut Peer, group: &str, topic: &str) {
    ensure_topic(preparing, topic);
    for queue_id in ["0", "1", "2", "3"] {
        fill(preparing, topic, queue_id, 2, "TagA");
        commit(preparing, group, topic, queue_id, 1);
    }
}

/// Commits an offset of a group that comes into being for it.
fn commit(preparing: &mut Peer, group: &str, topic: &str, queue_id: &str, offset: i64) {
    let body = format!(r#"{{"groupName":"{group}"}}"#);
    assert_eq!(preparing.request(RequestCode::UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, &[], body).code, 0);
    let offset = offset.to_string();
    let fields = [("consumerGroup", group), ("topic", topic), ("queueId", queue_id), ("commitOffset", &offset)];
    let committed = preparing.request(RequestCode::UPDATE_CONSUMER_OFFSET, &fields, "");
    assert_eq!(committed.code, 0, "{committed:?}");
}

fn set_property(preparing: &mut Peer, line: &str) {
    assert_eq!(preparing.request(RequestCode::UPDATE_BROKER_CONFIG, &[], line.to_owned()).code, 0);
}

/// Puts a value into the name server's configuration.
pub(crate) fn put_value(name_server: &mut Peer, namespace: &str, key: &str, value: &str) {
    let fields = [("namespace", namespace), ("key", key), ("value", value)];
    assert_eq!(name_server.request(RequestCode::PUT_KV_CONFIG, &fields, "").code, 0);
}

/// Has the name server say which topics have fixed queues.
pub(crate) fn serve_ordered_topics(name_server: &mut Peer) {
    let set = name_server.request(RequestCode::UPDATE_NAMESRV_CONFIG, &[], "orderMessageEnable=true\n");
    assert_eq!(set.code, 0);
}

/// Has an administrator move a group's offset, so that the next pull is sent there.
pub(crate) fn reset(preparing: &mut Peer, request: &RemotingCommand) {
    let (group, topic) = (group_of(request), field(request, "topic").to_owned());
    consume(preparing, &group, &topic);
    let fields = [("group", group.as_str()), ("topic", &topic), ("timestamp", "0"), ("isForce", "true")];
    let set = preparing.request(RequestCode::INVOKE_BROKER_TO_RESET_OFFSET, &fields, "");
    assert_eq!(set.code, 0, "{set:?}");
}

/// Takes a group the right to consume.
pub(crate) fn disable(preparing: &mut Peer, group: &str) {
    let body = format!(r#"{{"groupName":"{group}","consumeEnable":false}}"#);
    assert_eq!(preparing.request(RequestCode::UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, &[], body).code, 0);
}

fn heartbeat(peer: &mut Peer, client_id: &str, consumers: &[&str], topics: &[&str], producers: &[&str]) {
    let subscriptions: BTreeMap<&str, &str> = topics.iter().map(|topic| (*topic, "*")).collect();
    send_heartbeat(peer, client_id, consumers, &subscriptions, producers);
}

fn subscribe(peer: &mut Peer, client_id: &str, group: &str, topics: &[(&str, &str)]) {
    send_heartbeat(peer, client_id, &[group], &topics.iter().copied().collect(), &[]);
}

fn send_heartbeat(
    peer: &mut Peer,
    client_id: &str,
    consumers: &[&str],
    topics: &BTreeMap<&str, &str>,
    producers: &[&str],
) {
    let subscription = |(topic, expression): (&&str, &&str)| {
        let tags = rocketmq_wire::filter::TagExpression::parse(expression).expect("an expression");
        SubscriptionData {
            topic: (*topic).to_owned(),
            sub_string: (*expression).to_owned(),
            expression_type: "TAG".to_owned(),
            code_set: tags.codes().to_vec(),
            tags_set: tags.tags().to_vec(),
            sub_version: 1,
            class_filter_mode: false,
        }
    };
    let consumer = |group: &&str| ConsumerData {
        group_name: (*group).to_owned(),
        consume_type: "CONSUME_PASSIVELY".to_owned(),
        message_model: "CLUSTERING".to_owned(),
        consume_from_where: "CONSUME_FROM_FIRST_OFFSET".to_owned(),
        subscription_data_set: topics.iter().map(subscription).collect(),
        unit_mode: false,
    };
    let data = HeartbeatData {
        client_id: client_id.to_owned(),
        consumer_data_set: consumers.iter().map(consumer).collect(),
        producer_data_set: producers.iter().map(|group| ProducerData { group_name: (*group).to_owned() }).collect(),
        ..HeartbeatData::default()
    };
    let body = serde_json::to_string(&data).expect("JSON");
    assert_eq!(peer.request(RequestCode::HEART_BEAT, &[], body).code, 0);
}
