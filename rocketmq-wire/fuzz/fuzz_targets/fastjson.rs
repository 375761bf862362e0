//! Any bytes as JSON in fastjson's dialect.

#![no_main]

use std::collections::BTreeMap;

use libfuzzer_sys::fuzz_target;
use rocketmq_wire::fastjson::{self, ObjectKey};
use rocketmq_wire::model::{ClusterInfo, HeartbeatData, MessageQueue, TopicRoute};
use serde_json::Value;

fuzz_target!(|bytes: &[u8]| {
    let _ = fastjson::from_slice::<TopicRoute>("fuzz", bytes);
    let _ = fastjson::from_slice::<ClusterInfo>("fuzz", bytes);
    let _ = fastjson::from_slice::<HeartbeatData>("fuzz", bytes);
    let _ = fastjson::from_slice::<BTreeMap<ObjectKey<MessageQueue>, i64>>("fuzz", bytes);
    // A key that begins with the mark of object keys may be written bare, and then nests deeper than it did.
    if bytes.windows(6).any(|text| text == br"\u0000") {
        return;
    }
    if let Ok(value) = fastjson::from_slice::<Value>("fuzz", bytes) {
        let written = fastjson::to_vec("fuzz", &value).expect("a value that was just read");
        fastjson::from_slice::<Value>("fuzz", &written).expect("a value that was just written");
    }
});
