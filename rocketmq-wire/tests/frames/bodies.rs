//! JSON bodies: the dialect is read and written, and the models hold what was sent.

use std::collections::BTreeMap;

use rocketmq_wire::fastjson::{self, ObjectKey};
use rocketmq_wire::model::{
    BrokerConsumeStats, BrokerStatsData, CheckClient, ClusterInfo, ConsumeDirectlyResult, ConsumeQueuePage,
    ConsumeStats, ConsumeTimeSpans, ConsumerConnection, ConsumerList, ConsumerRunningInfo, ConsumerStatus,
    CorrectionOffsets, DataVersion, GroupList, HeartbeatData, KeyValueTable, LockBatch, LockedQueues, MessageQueue,
    ProducerConnection, ProducerTable, QueueOffsets, RegisterBrokerBody, SubscriptionGroupConfig,
    SubscriptionGroupList, SubscriptionGroupTable, TopicConfig, TopicConfigList, TopicConfigTable, TopicList,
    TopicRoute, TopicStats,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::golden_frames::{GoldenFrame, all};

fn is_json(golden: &GoldenFrame) -> bool {
    matches!(golden.body_kind(), "json" | "fastjson-dialect")
}

#[test]
fn every_json_body_is_read() {
    let (mut standard, mut dialect) = (0, 0);
    for golden in all().iter().filter(|golden| is_json(golden)) {
        let body = golden.frame().body;
        let value: Value =
            fastjson::from_slice("body", &body).unwrap_or_else(|error| panic!("{}: {error}", golden.name()));
        assert!(value.is_object() || value.is_array(), "{}", golden.name());
        match serde_json::from_slice::<Value>(&body) {
            Ok(same) => {
                assert_eq!(same, value, "{}", golden.name());
                standard += 1;
            }
            Err(_) => {
                assert_eq!(golden.body_kind(), "fastjson-dialect", "{}", golden.name());
                dialect += 1;
            }
        }
    }
    assert_eq!((standard, dialect), (380, 104));
}

/// Reads the body as `T` and checks that it holds everything that was sent. Returns what the dialect makes of it.
fn read<T: DeserializeOwned + Serialize>(golden: &GoldenFrame) -> Vec<u8> {
    let body = golden.frame().body;
    let typed: T = fastjson::from_slice("body", &body).unwrap_or_else(|error| panic!("{}: {error}", golden.name()));
    let written = fastjson::to_vec("body", &typed).expect("a body");
    let sent: Value = fastjson::from_slice("body", &body).expect("JSON");
    let held: Value = fastjson::from_slice("body", &written).expect("JSON");
    assert_holds(&held, &sent, &golden.name());
    written
}

/// Static topics are not part of the models.
const OF_STATIC_TOPICS: [&str; 4] =
    ["mappingDataVersion", "topicQueueMappingByBroker", "topicQueueMappingDetailMap", "topicQueueMappingInfoMap"];

/// Whether `held` has all of `sent`. Null and empty attributes stand for absent.
fn assert_holds(held: &Value, sent: &Value, name: &str) {
    match (held, sent) {
        (Value::Object(held), Value::Object(sent)) => {
            for (key, value) in sent.iter().filter(|(_, value)| !value.is_null()) {
                if OF_STATIC_TOPICS.contains(&key.as_str()) || (key == "attributes" && value == &serde_json::json!({}))
                {
                    continue;
                }
                // Servers up to 4.8 misspell it.
                let key = if key == "topicSynFlag" { "topicSysFlag" } else { key };
                let held = held.get(key).unwrap_or_else(|| panic!("{name}: `{key}` is lost"));
                assert_holds(held, value, name);
            }
        }
        (Value::Array(held), Value::Array(sent)) => {
            assert_eq!(held.len(), sent.len(), "{name}");
            held.iter().zip(sent).for_each(|(held, sent)| assert_holds(held, sent, name));
        }
        // The Go client writes the hashes of tags as text.
        (Value::Number(held), Value::String(sent)) => assert_eq!(&held.to_string(), sent, "{name}"),
        _ => assert_eq!(held, sent, "{name}"),
    }
}

#[test]
fn models_hold_what_was_sent() {
    let mut read_bodies = BTreeMap::new();
    for golden in all().iter().filter(|golden| is_json(golden)) {
        let written = match (golden.request_code(), golden.is_response()) {
            (18, false) => read::<TopicConfigList>(golden),
            (21, true) => read::<TopicConfigTable>(golden),
            (28 | 219, true) => read::<KeyValueTable>(golden),
            (34, false) => read::<HeartbeatData>(golden),
            (38, true) => read::<ConsumerList>(golden),
            (41 | 42, false) => read::<LockBatch>(golden),
            (41, true) => read::<LockedQueues>(golden),
            (46, false) => read::<CheckClient>(golden),
            (103, false) => read::<RegisterBrokerBody>(golden),
            (105, true) => read::<TopicRoute>(golden),
            (106, true) => read::<ClusterInfo>(golden),
            (200, false) => read::<SubscriptionGroupConfig>(golden),
            (201, true) => read::<SubscriptionGroupTable>(golden),
            (202, true) => read::<TopicStats>(golden),
            (203, true) => read::<ConsumerConnection>(golden),
            (204, true) => read::<ProducerConnection>(golden),
            (206 | 224 | 304 | 305 | 311, true) => read::<TopicList>(golden),
            (208, true) => read::<ConsumeStats>(golden),
            (220, false) if golden.body_kind() == "fastjson-dialect" => read::<QueueOffsets>(golden),
            (221 | 223, true) => read::<ConsumerStatus>(golden),
            (222, true) => read::<QueueOffsets>(golden),
            (225, false) => read::<SubscriptionGroupList>(golden),
            (300, true) => read::<GroupList>(golden),
            (303, true) => read::<ConsumeTimeSpans>(golden),
            (307, true) => read::<ConsumerRunningInfo>(golden),
            (308, true) => read::<CorrectionOffsets>(golden),
            (309, true) => read::<ConsumeDirectlyResult>(golden),
            (315, true) => read::<BrokerStatsData>(golden),
            (317, true) => read::<BrokerConsumeStats>(golden),
            (321, true) => read::<ConsumeQueuePage>(golden),
            (328, true) => read::<ProducerTable>(golden),
            (351, true) => read::<TopicConfig>(golden),
            (322, _) => read::<DataVersion>(golden),
            _ => continue,
        };
        *read_bodies.entry((golden.request_code(), golden.is_response())).or_insert(0) += 1;
        // The 5.3.3 servers' maps with one entry leave no freedom in the order: the bytes are the same.
        if golden.index["scenario"] != "create-static-topic"
            && golden.label == "5.3.3"
            && golden.body_kind() == "fastjson-dialect"
            && golden.request_code() == 105
        {
            assert_eq!(written, golden.frame().body, "{}", golden.name());
        }
    }
    assert_eq!(read_bodies.len(), 41, "{read_bodies:?}");
}

#[test]
fn tables_keyed_by_queues_are_read_and_written() {
    /// The body of a reset of offsets, to Java and Go clients.
    #[derive(Serialize, serde::Deserialize)]
    struct ResetOffsets {
        #[serde(rename = "offsetTable")]
        offsets: BTreeMap<ObjectKey<MessageQueue>, i64>,
    }

    let mut resets = 0;
    for golden in all().iter().filter(|golden| golden.request_code() == 220 && golden.body_kind() == "fastjson-dialect")
    {
        let body = golden.frame().body;
        let typed: ResetOffsets = fastjson::from_slice("body", &body).expect("a table");
        assert!(!typed.offsets.is_empty());
        let written = fastjson::to_vec("body", &typed).expect("a body");
        assert!(written.starts_with(br#"{"offsetTable":{{"#));
        let again: ResetOffsets = fastjson::from_slice("body", &written).expect("a table");
        assert_eq!(again.offsets, typed.offsets);
        resets += 1;
    }
    assert!(resets > 0);
}
