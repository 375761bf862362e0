//! The consumer groups of a broker: what may be consumed, and how often.

use rocketmq_wire::fastjson;
use rocketmq_wire::model::{GroupRetryPolicy, SubscriptionGroupConfig, SubscriptionGroupTable};

use crate::compatibility::Compatibility;
use crate::store::{ConfigFile, StoreError};

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
    table: SubscriptionGroupTable,
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
        let mut table: SubscriptionGroupTable =
            file.load(|text| fastjson::from_slice("consumer groups", text.as_bytes()))?.unwrap_or_default();
        for name in PREDEFINED {
            table.subscription_group_table.entry(name.to_owned()).or_insert_with(|| named(name));
        }
        Ok(Groups { table, auto_create, file })
    }

    /// A group that exists.
    pub(crate) fn get(&self, group: &str) -> Option<&SubscriptionGroupConfig> {
        self.table.subscription_group_table.get(group)
    }

    /// A group that exists or that may be created because it is used.
    pub(crate) fn get_or_create(&mut self, group: &str, now_ms: i64) -> Option<&SubscriptionGroupConfig> {
        if !self.table.subscription_group_table.contains_key(group) {
            if !self.auto_create || rocketmq_wire::message::names::check_group(group).is_err() {
                return None;
            }
            self.set(named(group), now_ms);
        }
        self.get(group)
    }

    /// Creates or changes a group.
    pub(crate) fn set(&mut self, config: SubscriptionGroupConfig, now_ms: i64) {
        tracing::info!(group = config.group_name, "consumer group set");
        self.table.subscription_group_table.insert(config.group_name.clone(), config);
        self.changed(now_ms);
    }

    /// Deletes a group. It may come into being again by being used.
    pub(crate) fn remove(&mut self, group: &str, now_ms: i64) {
        if self.table.subscription_group_table.remove(group).is_some() {
            tracing::info!(group, "consumer group deleted");
            self.changed(now_ms);
        }
    }

    /// Sets whether an unknown group is created when it is used.
    pub(crate) fn set_auto_create(&mut self, auto_create: bool) {
        self.auto_create = auto_create;
    }

    /// The names of all groups, in alphabetical order.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.table.subscription_group_table.keys().map(String::as_str)
    }

    /// All groups, as a broker of that version describes them.
    pub(crate) fn to_table(&self, compatibility: Compatibility) -> SubscriptionGroupTable {
        let mut table = self.table.clone();
        table.forbidden_table =
            compatibility.groups_have_attributes().then(|| self.table.forbidden_table.clone().unwrap_or_default());
        for config in table.subscription_group_table.values_mut() {
            describe(config, compatibility);
        }
        table
    }

    /// Becomes the table of another broker, unless it is that already.
    pub(crate) fn take_over(&mut self, table: SubscriptionGroupTable) {
        if self.table.data_version == table.data_version {
            return;
        }
        self.table = table;
        self.save();
    }

    fn changed(&mut self, now_ms: i64) {
        self.table.data_version.counter += 1;
        self.table.data_version.timestamp = now_ms;
        self.save();
    }

    fn save(&self) {
        if let Err(error) = self.file.write(&crate::json::to_string_pretty(&self.table)) {
            tracing::error!(%error, "consumer groups could not be saved");
        }
    }
}

/// Fills in what a version says of every group, and leaves out what it does not know.
pub(crate) fn describe(config: &mut SubscriptionGroupConfig, compatibility: Compatibility) {
    if compatibility.groups_have_attributes() {
        config.attributes.get_or_insert_default();
        config.consume_message_orderly.get_or_insert(false);
        config.consume_timeout_minute.get_or_insert(15);
        config.group_retry_policy.get_or_insert_with(GroupRetryPolicy::default);
        config.group_sys_flag.get_or_insert(0);
    } else {
        config.attributes = None;
        config.consume_message_orderly = None;
        config.consume_timeout_minute = None;
        config.group_retry_policy = None;
        config.group_sys_flag = None;
    }
}

fn named(group: &str) -> SubscriptionGroupConfig {
    SubscriptionGroupConfig { group_name: group.to_owned(), ..SubscriptionGroupConfig::default() }
}
