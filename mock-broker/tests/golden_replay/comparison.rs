//! Compares answers by what a client sees of them: code, names of fields, remark, shape of the body.

use rocketmq_wire::message::StoredMessage;
use rocketmq_wire::{RemotingCommand, fastjson};
use serde_json::Value;

/// Returns how our answer differs from the recorded one; nothing if it does not.
pub(crate) fn differences(recorded: &RemotingCommand, ours: &RemotingCommand) -> Vec<String> {
    let mut found = Vec::new();
    let mut compare = |what: &str, recorded: String, ours: String| {
        if recorded != ours {
            found.push(format!("{what}: recorded {recorded}, ours {ours}"));
        }
    };
    compare("code", recorded.code.to_string(), ours.code.to_string());
    compare("header type", format!("{:?}", recorded.serialize_type), format!("{:?}", ours.serialize_type));
    compare("flag", recorded.flag.to_string(), ours.flag.to_string());
    compare("language", recorded.language.name().to_owned(), ours.language.name().to_owned());
    compare("version", format!("{:?}", recorded.version), format!("{:?}", ours.version));
    compare("fields", field_names(recorded), field_names(ours));
    // What Java prints of an exception names classes and lines; the code and the shape are what counts.
    let is_exception = recorded.remark.as_deref().is_some_and(is_java_exception);
    if !is_exception {
        compare("remark", remark(recorded), remark(ours));
    }
    compare("body", body_shape(&recorded.body), body_shape(&ours.body));
    found
}

fn is_java_exception(remark: &str) -> bool {
    ["java.lang.", "org.apache.rocketmq.remoting.exception.", "org.apache.rocketmq.filter.parser."]
        .iter()
        .any(|package| remark.starts_with(package))
}

fn field_names(command: &RemotingCommand) -> String {
    let Some(fields) = &command.fields else { return "none".to_owned() };
    let mut names: Vec<&str> = fields.iter().map(|(name, _)| name.as_str()).collect();
    names.sort_unstable();
    format!("{{{}}}", names.join(","))
}

/// The remark with the ports of clients made equal.
fn remark(command: &RemotingCommand) -> String {
    let Some(remark) = &command.remark else { return "none".to_owned() };
    let Some((before, after)) = remark.split_once("127.0.0.1:") else { return format!("{remark:?}") };
    format!("{:?}", format!("{before}ADDRESS{}", after.trim_start_matches(|digit: char| digit.is_ascii_digit())))
}

/// The shape of a body: the dialect of JSON and the names in it, or that it holds messages.
fn body_shape(body: &[u8]) -> String {
    if body.is_empty() {
        return "none".to_owned();
    }
    if let Ok(value) = fastjson::from_slice::<Value>("body", body) {
        let dialect = if serde_json::from_slice::<Value>(body).is_ok() { "JSON" } else { "fastjson's dialect" };
        return format!("{dialect} {}", shape(&value));
    }
    let messages = StoredMessage::records(body.to_vec().into()).collect::<Result<Vec<_>, _>>();
    if messages.is_ok() { "messages".to_owned() } else { "bytes".to_owned() }
}

fn shape(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(_) => "boolean".to_owned(),
        Value::Number(_) => "number".to_owned(),
        Value::String(_) => "text".to_owned(),
        Value::Array(values) => values.first().map_or("[]".to_owned(), |first| format!("[{}]", shape(first))),
        Value::Object(entries) => {
            // Tables whose keys are names of topics, brokers and the like have one shape for all entries.
            let is_name = |key: &String| {
                key.contains("Golden")
                    || key.contains("broker-a")
                    || key.starts_with("CID_")
                    || key == "SELF_TEST_C_GROUP"
            };
            let is_table = entries.keys().any(is_name);
            if is_table && let Some(first) = entries.values().next() {
                return format!("{{NAME:{}}}", shape(first));
            }
            let entry = |(key, value): (&String, &Value)| {
                // Where the log is, is another matter.
                let key = if key.starts_with("commitLogDiskRatio_") { "commitLogDiskRatio_PATH" } else { key };
                format!("{key}:{}", shape(value))
            };
            let entries: Vec<String> = entries.iter().map(entry).collect();
            format!("{{{}}}", entries.join(","))
        }
    }
}
