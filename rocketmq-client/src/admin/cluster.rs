//! Brokers: which there are, and how they are.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use rocketmq_wire::model::KeyValueTable;
use rocketmq_wire::request::admin::{BrokerConfigRequest, BrokerRuntimeInfoRequest, UpdateBrokerConfigRequest};

use super::{Admin, ask, call};
use crate::cluster::MASTER_ID;
use crate::error::{Error, ErrorKind, Result};

/// A broker as name servers list it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct BrokerInfo {
    /// The cluster it belongs to.
    pub cluster: String,
    /// Its name, which it shares with its replicas.
    pub name: String,
    /// 0 for the master, more for its replicas.
    pub id: i64,
    /// Its address, as `host:port`.
    pub address: String,
}

impl BrokerInfo {
    /// Whether it is the one that takes messages.
    pub fn is_master(&self) -> bool {
        self.id == MASTER_ID
    }
}

/// How a broker is, by its own account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BrokerStatus {
    values: BTreeMap<String, String>,
}

impl BrokerStatus {
    /// The broker's version, such as `V5_3_3`.
    pub fn version(&self) -> &str {
        self.value("brokerVersionDesc").unwrap_or_default()
    }

    /// When the broker was started, by its clock.
    pub fn started(&self) -> Option<SystemTime> {
        let milliseconds = self.value("bootTimestamp")?.parse().ok()?;
        Some(SystemTime::UNIX_EPOCH + Duration::from_millis(milliseconds))
    }

    /// Messages stored since midnight, by the broker's clock, or since it was started.
    pub fn messages_put(&self) -> Option<u64> {
        self.difference("msgPutTotalTodayNow", "msgPutTotalTodayMorning")
    }

    /// Messages handed out since midnight, by the broker's clock, or since it was started.
    pub fn messages_got(&self) -> Option<u64> {
        self.difference("msgGetTotalTodayNow", "msgGetTotalTodayMorning")
    }

    fn difference(&self, now: &str, before: &str) -> Option<u64> {
        let number = |key| self.value(key)?.parse::<u64>().ok();
        number(now)?.checked_sub(number(before).unwrap_or(0))
    }

    /// One of the values that the broker tells, by its name there, such as `commitLogDiskRatio`.
    pub fn value(&self, name: &str) -> Option<&str> {
        self.values.get(name).map(String::as_str)
    }

    /// All values, by name. Which there are depends on the broker's version.
    pub fn values(&self) -> impl Iterator<Item = (&str, &str)> {
        self.values.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }
}

impl Admin {
    /// Lists all brokers, by name and id.
    ///
    /// # Errors
    ///
    /// When no name server answers.
    pub async fn brokers(&self) -> Result<Vec<BrokerInfo>> {
        let info = self.cluster_info(self.deadline()).await.map_err(|error| error.with_operation("list brokers"))?;
        let replicas = info.broker_addr_table.into_iter().flat_map(|(name, broker)| {
            let cluster = broker.cluster;
            broker.broker_addrs.into_iter().map(move |(id, address)| BrokerInfo {
                cluster: cluster.clone(),
                name: name.clone(),
                id,
                address,
            })
        });
        Ok(replicas.collect())
    }

    /// Asks the broker at an address, as [`brokers`](Self::brokers) lists it, how it is.
    ///
    /// # Errors
    ///
    /// When the broker does not answer.
    pub async fn broker_status(&self, address: &str) -> Result<BrokerStatus> {
        let peer = self.cluster.peer(address);
        let table: Result<KeyValueTable> =
            ask(&peer, &BrokerRuntimeInfoRequest, "status of a broker", self.deadline()).await;
        Ok(BrokerStatus { values: table.map_err(|error| error.with_operation("ask for the broker's status"))?.table })
    }

    /// Reads the properties of the broker at an address.
    ///
    /// # Errors
    ///
    /// When the broker does not answer.
    pub async fn broker_config(&self, address: &str) -> Result<BTreeMap<String, String>> {
        let peer = self.cluster.peer(address);
        let answer = call(&peer, &BrokerConfigRequest, self.deadline()).await;
        let answer = answer.map_err(|error| error.with_operation("read the broker's properties"))?;
        let text = String::from_utf8_lossy(answer.body());
        let lines = text.lines().filter_map(|line| line.split_once('='));
        Ok(lines.map(|(key, value)| (key.to_owned(), value.to_owned())).collect())
    }

    /// Sets properties of the broker at an address, until it is started again; Apache's brokers also write them to their
    /// configuration file. Brokers ignore properties that they do not know.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidArgument`] for a property that would not be one line; [`ErrorKind::NotPermitted`] for one that
    /// the broker protects; else when it does not answer.
    pub async fn set_broker_config(&self, address: &str, properties: &[(&str, &str)]) -> Result<()> {
        const OPERATION: &str = "set the broker's properties";
        let mut text = String::new();
        for (key, value) in properties {
            if key.is_empty() || key.contains(['=', '\n', '\r']) || value.contains(['\n', '\r']) {
                let message = format!("`{}` and its value must be one line", key.escape_debug());
                return Err(Error::new(ErrorKind::InvalidArgument, message).with_operation(OPERATION));
            }
            text.extend([key, "=", value, "\n"]);
        }
        let peer = self.cluster.peer(address);
        let answer = peer.call(&UpdateBrokerConfigRequest, &text.into(), self.deadline()).await;
        answer.and_then(|answer| answer.success()).map(drop).map_err(|error| error.with_operation(OPERATION))
    }
}
