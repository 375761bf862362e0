//! What Apache's serialization makes of bodies (`tables.jsonl`, kind `json`).

use rocketmq_wire::fastjson;
use rocketmq_wire::model::{
    ClusterInfo, ConsumerList, DataVersion, HeartbeatData, LockBatch, LockedQueues, MessageQueue, SubscriptionData,
    TopicConfig, TopicConfigTable, TopicList, TopicRoute,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::common::{VERSIONS, field, json_lines, text};

fn rows() -> Vec<Value> {
    let rows: Vec<Value> = json_lines("vectors/tables.jsonl").into_iter().filter(|row| row["kind"] == "json").collect();
    assert_eq!(rows.len(), 43);
    rows
}

/// The text that `TopicConfig.encode` writes into a file of its own is no JSON.
fn is_json(row: &Value) -> bool {
    !text(row, "name").ends_with(".encode")
}

#[test]
fn every_text_is_read_in_either_form() {
    for row in rows().iter().filter(|row| is_json(row)) {
        for version in VERSIONS {
            let Some(dialect) = field(row, version, "text").and_then(Value::as_str) else { continue };
            let value: Value = fastjson::from_slice("text", dialect.as_bytes()).expect("JSON");
            if let Some(standard) = field(row, version, "standard_json_text").and_then(Value::as_str) {
                let standard: Value = fastjson::from_slice("text", standard.as_bytes()).expect("JSON");
                assert_eq!(value.as_object().map(|map| map.len()), standard.as_object().map(|map| map.len()), "{row}");
            }
        }
    }
}

/// Attributes of topics came with 5.0; we write them where there are any.
fn without_empty_attributes(value: &mut Value) {
    let Some(map) = value.as_object_mut() else { return };
    map.retain(|name, value| name != "attributes" || value.as_object().is_none_or(|attributes| !attributes.is_empty()));
    map.values_mut().for_each(without_empty_attributes);
}

/// Reads the text of 5.3.3 and writes it again, which gives the same value and for `same_bytes` the same text.
fn round_trip<T: DeserializeOwned + Serialize>(row: &Value, same_bytes: bool) {
    for version in VERSIONS {
        let text = field(row, version, "text").and_then(Value::as_str).expect("text");
        let typed: T = fastjson::from_slice("text", text.as_bytes()).unwrap_or_else(|error| panic!("{row}: {error}"));
        if version != "5.3.3" {
            continue;
        }
        let written = String::from_utf8(fastjson::to_vec("text", &typed).expect("a body")).expect("UTF-8");
        if same_bytes {
            assert_eq!(written, text);
        }
        let value = |text: &str| {
            let mut value = fastjson::from_slice::<Value>("text", text.as_bytes()).expect("JSON");
            without_empty_attributes(&mut value);
            value
        };
        assert_eq!(value(&written), value(text));
    }
}

#[test]
fn models_are_written_as_apache_writes_them() {
    let mut compared = 0;
    for row in rows() {
        match text(&row, "name") {
            "ClusterInfo" => round_trip::<ClusterInfo>(&row, true),
            "DataVersion" => round_trip::<DataVersion>(&row, true),
            "GetConsumerListByGroupResponseBody" => round_trip::<ConsumerList>(&row, true),
            "HeartbeatData.empty" => round_trip::<HeartbeatData>(&row, true),
            "HeartbeatData.full" => round_trip::<HeartbeatData>(&row, true),
            "LockBatchRequestBody" | "UnlockBatchRequestBody" => round_trip::<LockBatch>(&row, true),
            "LockBatchResponseBody" => round_trip::<LockedQueues>(&row, true),
            "MessageQueue" => round_trip::<MessageQueue>(&row, true),
            "SubscriptionData" => round_trip::<SubscriptionData>(&row, true),
            "TopicConfig" | "TopicConfig.2" => round_trip::<TopicConfig>(&row, false),
            "TopicConfigSerializeWrapper" => round_trip::<TopicConfigTable>(&row, false),
            "TopicList" | "TopicList.empty" => round_trip::<TopicList>(&row, true),
            "TopicRouteData.empty" | "TopicRouteData.full" => round_trip::<TopicRoute>(&row, true),
            _ => continue,
        }
        compared += 1;
    }
    assert_eq!(compared, 17);
}
