//! The consumer groups of a broker: what may be consumed, and how often.

use std::collections::BTreeMap;

use rocketmq_wire::fastjson;
use rocketmq_wire::model::DataVersion;
use serde::{Deserialize, Serialize};

use crate::store::{ConfigFile, StoreError};

/// The settings of a consumer group.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct GroupConfig {
    pub(crate) broker_id: i64,
    pub(crate) consume_broadcast_enable: bool,
    pub(crate) consume_enable: bool,
    pub(crate) consume_from_min_enable: bool,
    pub(crate) group_name: String,
    pub(crate) group_sys_flag: i32,
    pub(crate) notify_consumer_ids_changed_enable: bool,
    pub(crate) retry_max_times: i32,
    pub(crate) retry_queue_nums: i32,
    pub(crate) which_broker_when_consume_slowly: i64,
}

impl Default for GroupConfig {
    fn default() -> Self {
        GroupConfig {
            broker_id: 0,
            consume_broadcast_enable: true,
            consume_enable: true,
            consume_from_min_enable: true,
            group_name: String::new(),
            group_sys_flag: 0,
            notify_consumer_ids_changed_enable: true,
            retry_max_times: 16,
            retry_queue_nums: 1,
            which_broker_when_consume_slowly: 1,
        }
    }
}

/// The form of `subscriptionGroup.json`.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct GroupTable {
    data_version: DataVersion,
    subscription_group_table: BTreeMap<String, GroupConfig>,
}

/// Groups that exist on every broker.
const PREDEFINED: [&str; 8] = [
    "TOOLS_CONSUMER",
    "FILTERSRV_CONSUMER",
    "SELF_TEST_C_GROUP",
    "CID_ONS-HTTP-PROXY",
    "CID_ONSAPI_PULL",
    "CID_ONSAPI_PERMISSION",
    "CID_ONSAPI_OWNER",
    "CID_RMQ_SYS_TRANS",
];

/// Groups by name.
#[derive(Debug)]
pub(crate) struct Groups {
    table: GroupTable,
    auto_create: bool,
    file: ConfigFile,
}

impl Groups {
    /// Loads the groups of a store and adds those that every broker has.
    ///
    /// # Errors
    ///
    /// When the file cannot be read.
    pub(crate) fn load(file: ConfigFile, auto_create: bool) -> Result<Self, StoreError> {
        let mut table: GroupTable =
            file.load(|text| fastjson::from_slice("consumer groups", text.as_bytes()))?.unwrap_or_default();
        for name in PREDEFINED {
            table.subscription_group_table.entry(name.to_owned()).or_insert_with(|| named(name));
        }
        Ok(Groups { table, auto_create, file })
    }

    /// A group that exists.
    pub(crate) fn get(&self, group: &str) -> Option<&GroupConfig> {
        self.table.subscription_group_table.get(group)
    }

    /// A group that exists or that may be created because it is used.
    pub(crate) fn get_or_create(&mut self, group: &str, now_ms: i64) -> Option<&GroupConfig> {
        if !self.table.subscription_group_table.contains_key(group) {
            if !self.auto_create || rocketmq_wire::message::names::check_group(group).is_err() {
                return None;
            }
            self.set(named(group), now_ms);
        }
        self.get(group)
    }

    /// Creates or changes a group.
    pub(crate) fn set(&mut self, config: GroupConfig, now_ms: i64) {
        tracing::info!(group = config.group_name, "consumer group set");
        self.table.subscription_group_table.insert(config.group_name.clone(), config);
        self.table.data_version.counter += 1;
        self.table.data_version.timestamp = now_ms;
        if let Err(error) = self.file.persist(crate::json::to_string_pretty(&self.table)) {
            tracing::error!(%error, "consumer groups could not be saved");
        }
    }
}

fn named(group: &str) -> GroupConfig {
    GroupConfig { group_name: group.to_owned(), ..GroupConfig::default() }
}
