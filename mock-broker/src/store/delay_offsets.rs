//! `delayOffset.json`: how far each level of delayed messages was delivered.

use std::collections::BTreeMap;
use std::fmt::Write;

use rocketmq_wire::{DecodeError, fastjson};
use serde::Deserialize;

/// The file's name.
pub(super) const FILE: &str = "delayOffset.json";

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct File {
    #[serde(default)]
    offset_table: BTreeMap<String, u64>,
}

/// Reads the offsets of level 1, 2, ..; a level that is not mentioned has 0.
pub(super) fn parse(text: &str) -> Result<Vec<u64>, DecodeError> {
    let file: File = fastjson::from_slice(FILE, text.as_bytes())?;
    let mut offsets = Vec::new();
    for (level, offset) in file.offset_table {
        // Far more levels than anybody configures; the number sizes a list.
        let Some(level) = level.parse().ok().filter(|level| (1..=10_000_usize).contains(level)) else { continue };
        if offsets.len() < level {
            offsets.resize(level, 0);
        }
        offsets[level - 1] = offset;
    }
    Ok(offsets)
}

/// Writes offsets as Apache's broker does, with bare numbers as keys.
pub(super) fn write(offsets: &[u64], now: i64) -> String {
    let mut text = format!(
        "{{\n\t\"dataVersion\":{{\"counter\":0,\"stateVersion\":0,\"timestamp\":{now}}},\n\t\"offsetTable\":{{"
    );
    for (index, offset) in offsets.iter().enumerate().filter(|(_, offset)| **offset > 0) {
        let separator = if text.ends_with('{') { "" } else { "," };
        // Writing to a string cannot fail.
        let _ = write!(text, "{separator}{}:{offset}", index + 1);
    }
    text.push_str("\n\t}\n}");
    text
}
