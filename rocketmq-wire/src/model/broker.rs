//! What brokers and name servers say of themselves.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Text by key.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct KeyValueTable {
    /// Key to value.
    pub table: BTreeMap<String, String>,
}

/// A number that a broker counts, over three periods.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct BrokerStatsData {
    /// The last day.
    pub stats_day: BrokerStatsItem,
    /// The last hour.
    pub stats_hour: BrokerStatsItem,
    /// The last minute.
    pub stats_minute: BrokerStatsItem,
}

/// A number over one period.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct BrokerStatsItem {
    /// Sum by times counted.
    pub avgpt: f64,
    /// The sum.
    pub sum: i64,
    /// Sum by seconds.
    pub tps: f64,
}
