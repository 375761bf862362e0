//! The broker's properties: codes 25 and 26.

use std::fmt::Write;

use rocketmq_wire::ResponseCode;
use rocketmq_wire::model::DataVersion;

use super::Handled;
use crate::broker::Broker;
use crate::clock::Now;
use crate::reply::{Command, Reply, ReplyFields};

/// Properties that an administrator must not set.
const PROTECTED: [&str; 3] = ["brokerConfigPath", "rocketmqHome", "configBlackList"];

/// Properties that clients and other servers know a broker by, or that its store was opened with.
const FIXED: [&str; 8] = [
    "brokerClusterName",
    "brokerName",
    "brokerIP1",
    "brokerId",
    "brokerRole",
    "compatibility",
    "namesrvAddr",
    "storePathRootDir",
];

impl Broker {
    /// Sets properties. Those that this broker does not honour are ignored, as by Apache's broker, and those that only
    /// count when the store is opened count from then on.
    pub(super) fn update_config<'a>(&mut self, now: Now, command: &Command<'a>) -> Handled<'a> {
        let failed = |remark| Ok(Reply::new(ResponseCode::SYSTEM_ERROR).remark(remark).into());
        let Ok(text) = std::str::from_utf8(command.body) else { return failed("string2Properties error") };
        if text.trim().is_empty() {
            // Apache answers nothing but the code to a request without a body.
            return Ok(Reply::success().into());
        }
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with(['#', '!']));
        let properties: Vec<(&str, &str)> =
            lines.filter_map(|line| line.split_once('=')).map(|(key, value)| (key.trim(), value.trim())).collect();
        if self.compatibility.protects_properties() && properties.iter().any(|(key, _)| PROTECTED.contains(key)) {
            let remark = "Can not update config in black list.";
            return Ok(Reply::new(ResponseCode::NO_PERMISSION).remark(remark).into());
        }
        let created_before = self.settings.auto_create_topics;
        for (key, value) in properties {
            if FIXED.contains(&key) {
                tracing::warn!(key, value, "property ignored: it cannot be changed while the broker runs");
                continue;
            }
            match self.settings.set(key, value) {
                Ok(()) => tracing::info!(key, value, "property set"),
                Err(error) => tracing::warn!(key, value, %error, "property ignored"),
            }
        }
        self.config_version.counter += 1;
        self.config_version.timestamp = now.message_ms;
        self.groups.set_auto_create(self.settings.auto_create_groups);
        let (auto_create, queues) = (self.settings.auto_create_topics, self.settings.default_topic_queues);
        if auto_create != created_before {
            self.topics.set_auto_create(auto_create, queues, now.message_ms);
        }
        Ok(Reply::success().into())
    }

    /// Lists the properties.
    pub(super) fn broker_config<'a>(&self) -> Handled<'a> {
        let mut out = String::new();
        for (key, value) in self.settings.properties() {
            // Writing to a string cannot fail.
            let _ = writeln!(out, "{key}={value}");
        }
        let version: DataVersion = self.config_version;
        let version = crate::json::data_version(self.compatibility, version);
        Ok(Reply::success().fields(ReplyFields::Text("version", version.into())).body(out).into())
    }
}
