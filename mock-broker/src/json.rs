//! Writes JSON by hand where Apache's dialect cannot be had from a serializer.

use rocketmq_wire::fastjson;
use rocketmq_wire::model::DataVersion;
use serde::Serialize;

use crate::compatibility::Compatibility;

/// Appends a JSON string.
pub(crate) fn text(out: &mut String, value: &str) {
    // Serializing a string to JSON cannot fail.
    out.push_str(&serde_json::to_string(value).unwrap_or_default());
}

/// Appends a JSON array whose elements `element` writes.
pub(crate) fn array<T>(out: &mut String, elements: impl Iterator<Item = T>, mut element: impl FnMut(&mut String, T)) {
    out.push('[');
    for (index, value) in elements.enumerate() {
        if index > 0 {
            out.push(',');
        }
        element(out, value);
    }
    out.push(']');
}

/// A value of the wire's model as JSON.
pub(crate) fn to_vec(value: &impl Serialize) -> Vec<u8> {
    // The models have text as keys and no values that JSON lacks.
    serde_json::to_vec(value).expect("models can be written as JSON")
}

/// A value of the wire's model as JSON over several lines, for files.
pub(crate) fn to_string_pretty(value: &impl Serialize) -> String {
    serde_json::to_string_pretty(value).expect("models can be written as JSON")
}

/// A value of the wire's model in fastjson's dialect: keys that are numbers or objects stand bare.
pub(crate) fn to_dialect(value: &impl Serialize) -> Vec<u8> {
    // As above, and keys that are no text are written as JSON themselves.
    fastjson::to_vec("answer", value).expect("models can be written in the dialect")
}

/// The state of a table.
pub(crate) fn data_version(compatibility: Compatibility, version: DataVersion) -> String {
    let DataVersion { counter, state_version, timestamp } = version;
    if compatibility.has_acting_masters() {
        format!("{{\"counter\":{counter},\"stateVersion\":{state_version},\"timestamp\":{timestamp}}}")
    } else {
        format!("{{\"counter\":{counter},\"timestamp\":{timestamp}}}")
    }
}
