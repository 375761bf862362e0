//! What can be set on a broker. The names in parentheses are Apache's property names.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use rocketmq_wire::message::names;
use rocketmq_wire::model::perm;

use crate::compatibility::Compatibility;
use crate::server::{TlsMode, TlsSettings};
use crate::store::{DelayLevels, Retention, TimerConfig};

/// The settings of a broker and the name server beside it; the defaults are those of Apache's broker.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    /// The version to behave like. Default 5.3.
    pub(crate) compatibility: Compatibility,
    /// Name of the cluster (`brokerClusterName`). Default `DefaultCluster`.
    pub(crate) cluster: String,
    /// Name of the broker (`brokerName`). Default `broker-a`.
    pub(crate) broker_name: String,
    /// Region that messages are marked with (`regionId`). Default `DefaultRegion`.
    pub(crate) region: String,
    /// Whether clients are asked to trace messages (`traceOn`). Default true.
    pub(crate) trace_on: bool,
    /// Whether a send to an unknown topic creates it (`autoCreateTopicEnable`). Default true.
    pub(crate) auto_create_topics: bool,
    /// Whether an unknown group is created when it is used (`autoCreateSubscriptionGroup`). Default true.
    pub(crate) auto_create_groups: bool,
    /// Most queues of a topic that a send creates (`defaultTopicQueueNums`). Default 8.
    pub(crate) default_topic_queues: i32,
    /// Whether pulls wait for messages (`longPollingEnable`). Default true.
    pub(crate) long_polling: bool,
    /// How long a pull waits without long polling, in milliseconds (`shortPollingTimeMills`). Default 1000.
    pub(crate) short_polling_ms: u64,
    /// Whether members of a group are told when others come and go (`notifyConsumerIdsChangedEnable`). Default true.
    pub(crate) notify_members: bool,
    /// Largest body in bytes (`maxMessageSize`). Default 4 MiB.
    pub(crate) max_message_size: usize,
    /// The delays of the levels (`messageDelayLevel`). Default Apache's 18.
    pub(crate) delay_levels: DelayLevels,
    /// Size of a commit log file in bytes (`mappedFileSizeCommitLog`). Default 64 MiB in memory, 1 GiB on disk.
    pub(crate) commit_log_file_size: Option<usize>,
    /// Bytes of a consume queue file (`mappedFileSizeConsumeQueue`). Default 6,000,000.
    pub(crate) consume_queue_file_size: Option<usize>,
    /// Whether queues have extensions (`enableConsumeQueueExt`), and the size of their files
    /// (`mappedFileSizeConsumeQueueExt`). Default false, and 48 MiB.
    pub(crate) queue_extensions: bool,
    pub(crate) queue_extension_file_size: Option<usize>,
    /// Milliseconds between two flushes (`flushIntervalCommitLog`). Default 500.
    pub(crate) flush_interval_ms: Option<u64>,
    /// Whether a send is answered when it is on disk (`flushDiskType`). Default false, `ASYNC_FLUSH`.
    pub(crate) flush_sync: bool,
    /// Milliseconds that a send waits for the disk (`syncFlushTimeout`). Default 5000.
    pub(crate) flush_timeout_ms: u64,
    /// Pages that wait for the next flush but one (`flushCommitLogLeastPages`). Default 4.
    pub(crate) flush_least_pages: Option<usize>,
    /// Hash slots and entries of an index file (`maxHashSlotNum`, `maxIndexNum`). Default 5,000,000 and 20,000,000 on
    /// disk.
    pub(crate) index_slots: Option<u32>,
    pub(crate) index_entries: Option<u32>,
    /// What part the broker has in replication (`brokerRole`). Default [`Role::Alone`].
    pub(crate) role: Role,
    /// The broker's id, 0 of a master (`brokerId`). Default 0, 1 for a slave.
    pub(crate) broker_id: Option<i64>,
    /// The master's address for slaves, host and port (`haMasterAddress`).
    pub(crate) ha_master: Option<String>,
    /// Whether a slave serves pulls in 5.3 (`slaveReadEnable`). Default false.
    pub(crate) slave_read: bool,
    /// How many brokers must have a message in 5.3, this one included (`inSyncReplicas`). Default 1.
    pub(crate) in_sync_replicas: usize,
    /// Milliseconds that a send waits for slaves (`slaveTimeout`). Default 3000, in 4.4 5000.
    pub(crate) replica_timeout_ms: Option<u64>,
    /// Whether a slave without a log gets only the last file, as from Apache's masters (`haFromLastFile`, not Apache's).
    /// Default false: it gets everything.
    pub(crate) ha_from_last_file: bool,
    /// What is kept how long (`fileReservedTime`, `deleteWhen` and the ratios of the disk).
    pub(crate) retention: Retention,
    /// Hours for which messages are kept (`fileReservedTime`). Default 72 on disk, for ever in memory.
    pub(crate) reserved_hours: Option<u32>,
    /// Milliseconds between two saves of consumer offsets (`flushConsumerOffsetInterval`). Default 5000.
    pub(crate) save_offsets_every_ms: u64,
    /// What clients may do with this broker, as bits of a topic's permission (`brokerPermission`): without the one for
    /// writing, ordered topics take no sends and nothing is redelivered; without the one for reading nothing can be
    /// pulled. Default 6, both.
    pub(crate) permission: i32,
    /// Whether the broker makes a topic for message traces (`traceTopicEnable`). Default false.
    pub(crate) trace_topic: bool,
    /// The name of that topic (`msgTraceTopicName`). Default `RMQ_SYS_TRACE_TOPIC`.
    pub(crate) trace_topic_name: String,
    /// Whether consumers may filter by SQL92 expressions (`enablePropertyFilter`). Default false.
    pub(crate) filters_by_property: bool,
    /// Whether half messages are refused (`rejectTransactionMessage`). Default false.
    pub(crate) reject_transactions: bool,
    /// How old a half message is, in milliseconds, before its producers are asked for its outcome
    /// (`transactionTimeOut`). Default 6000.
    pub(crate) transaction_timeout_ms: i64,
    /// How often producers are asked at most (`transactionCheckMax`). Default 15.
    pub(crate) transaction_check_max: u32,
    /// Milliseconds between two looks at half messages (`transactionCheckInterval`). Default 30,000, and 60,000
    /// before 5.1.
    pub(crate) transaction_check_interval_ms: Option<i64>,
    /// Messages for any time (`timerWheelEnable`, `timerPrecisionMs`, `timerMaxDelaySec`, `timerRollWindowSlot`,
    /// `mappedFileSizeTimerLog`). Default Apache's.
    pub(crate) timers: TimerConfig,
    /// Whether messages for a time can be taken back (`recallMessageEnable`). Default false.
    pub(crate) recall_messages: bool,
    /// Whether replies are stored as well as handed on (`storeReplyMessageEnable`). Default true.
    pub(crate) store_replies: bool,
    /// Whether a broker 5.x sets the offsets of a group itself when told to, or has the members do it
    /// (`useServerSideResetOffset`). Default true.
    pub(crate) server_side_reset: bool,
    /// Which connections are encrypted, and by what (`tls.server.mode`, `tls.server.certPath`, `tls.server.keyPath`,
    /// `tls.server.trustCertPath`). Default both kinds of connections, and a certificate made on the spot.
    pub(crate) tls: TlsSettings,
    /// Whether requests to the broker have to be signed by an account (`aclEnable`). Default false.
    pub(crate) access_control: bool,
    /// The accounts: a file such as Apache's `plain_acl.yml` (`aclFile`, which is ours).
    pub(crate) accounts: Option<PathBuf>,
    /// Where the store is; none keeps it in memory.
    pub(crate) store: Option<PathBuf>,
    /// The address put into stored messages and ids when the broker listens on an unspecified one.
    pub(crate) advertised: Option<String>,
    /// Name servers of other processes to register at (`namesrvAddr`, several separated by `;`). Default none.
    pub(crate) name_servers: Vec<String>,
    /// Topics that exist from the start, with their queue counts.
    pub(crate) topics: Vec<(String, i32)>,
    /// What was set, by name.
    given: BTreeMap<String, String>,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            compatibility: Compatibility::default(),
            cluster: "DefaultCluster".to_owned(),
            broker_name: "broker-a".to_owned(),
            region: "DefaultRegion".to_owned(),
            trace_on: true,
            auto_create_topics: true,
            auto_create_groups: true,
            default_topic_queues: 8,
            long_polling: true,
            short_polling_ms: 1000,
            notify_members: true,
            max_message_size: 4 << 20,
            delay_levels: DelayLevels::default(),
            commit_log_file_size: None,
            consume_queue_file_size: None,
            queue_extensions: false,
            queue_extension_file_size: None,
            flush_interval_ms: None,
            flush_sync: false,
            flush_timeout_ms: 5000,
            flush_least_pages: None,
            index_slots: None,
            index_entries: None,
            role: Role::default(),
            broker_id: None,
            ha_master: None,
            slave_read: false,
            in_sync_replicas: 1,
            replica_timeout_ms: None,
            ha_from_last_file: false,
            retention: Retention::default(),
            reserved_hours: None,
            save_offsets_every_ms: 5000,
            permission: perm::READ | perm::WRITE,
            trace_topic: false,
            trace_topic_name: names::TRACE_TOPIC.to_owned(),
            filters_by_property: false,
            reject_transactions: false,
            transaction_timeout_ms: 6000,
            transaction_check_max: 15,
            transaction_check_interval_ms: None,
            timers: TimerConfig::default(),
            recall_messages: false,
            store_replies: true,
            server_side_reset: true,
            tls: TlsSettings::default(),
            access_control: false,
            accounts: None,
            store: None,
            advertised: None,
            name_servers: Vec::new(),
            topics: Vec::new(),
            given: BTreeMap::new(),
        }
    }
}

/// What part a broker has in replication.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Role {
    /// None: a master that slaves cannot reach.
    #[default]
    Alone,
    /// Answers sends without waiting for slaves.
    AsyncMaster,
    /// Answers sends when slaves have them.
    SyncMaster,
    /// Copies a master.
    Slave,
}

/// A property that cannot be set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SettingError {
    property: String,
    why: Why,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Why {
    NotHonoured,
    BadValue { value: String, expected: String },
}

impl SettingError {
    /// Whether this broker knows nothing of the property, rather than the value being none of it.
    #[must_use]
    pub fn is_unknown(&self) -> bool {
        self.why == Why::NotHonoured
    }
}

impl fmt::Display for SettingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let SettingError { property, why } = self;
        match why {
            Why::NotHonoured => write!(f, "this broker does not honour the property `{property}`"),
            Why::BadValue { value, expected } => write!(f, "`{value}` is no value of `{property}`: {expected}"),
        }
    }
}

impl std::error::Error for SettingError {}

/// Half messages older than this are given up, in milliseconds: the default of `fileReservedTime`, 72 hours.
const HALF_MESSAGE_LIFETIME_MS: i64 = 72 * 3_600_000;

impl Settings {
    /// Milliseconds between two looks at half messages.
    pub(crate) fn transaction_check_interval_ms(&self) -> i64 {
        self.transaction_check_interval_ms.unwrap_or(self.compatibility.transaction_check_interval_ms())
    }

    /// How old a half message may become, in milliseconds.
    pub(crate) fn transaction_reserved_ms(&self) -> i64 {
        HALF_MESSAGE_LIFETIME_MS
    }

    /// Sets a property by the name that Apache's broker has for it.
    ///
    /// # Errors
    ///
    /// Properties that are not honoured, and values that are none of the property's.
    pub(crate) fn set(&mut self, property: &str, value: &str) -> Result<(), SettingError> {
        let bad = |expected: &str| SettingError {
            property: property.to_owned(),
            why: Why::BadValue { value: value.to_owned(), expected: expected.to_owned() },
        };
        let boolean = || value.parse::<bool>().map_err(|_| bad("say true or false"));
        let number = |least: u64, most: u64| {
            let number = value.parse::<u64>().ok().filter(|number| (least..=most).contains(number));
            number.ok_or_else(|| bad(&format!("say a number from {least} to {most}")))
        };
        let name = || {
            let checked = names::check(value, names::MAX_TOPIC_LENGTH).map(|()| value.to_owned());
            checked.map_err(|error| bad(&error.to_string()))
        };
        const GIB: u64 = 1 << 30;
        const YEAR_MS: u64 = 366 * 86_400_000;
        match property {
            "brokerClusterName" => self.cluster = name()?,
            "brokerName" => self.broker_name = name()?,
            "namesrvAddr" => {
                let addresses: Vec<String> =
                    value.split(';').map(str::trim).filter(|address| !address.is_empty()).map(str::to_owned).collect();
                let has_port = |address: &String| {
                    address.rsplit_once(':').is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok())
                };
                if !addresses.iter().all(has_port) {
                    return Err(bad("say host:port, several separated by semicolons"));
                }
                self.name_servers = addresses;
            }
            "brokerIP1" => self.advertised = Some(value.to_owned()),
            "regionId" => self.region = value.to_owned(),
            "traceOn" => self.trace_on = boolean()?,
            "autoCreateTopicEnable" => self.auto_create_topics = boolean()?,
            "autoCreateSubscriptionGroup" => self.auto_create_groups = boolean()?,
            "defaultTopicQueueNums" => self.default_topic_queues = number(1, 65_536)? as i32,
            "longPollingEnable" => self.long_polling = boolean()?,
            "shortPollingTimeMills" => self.short_polling_ms = number(0, 3_600_000)?,
            "notifyConsumerIdsChangedEnable" => self.notify_members = boolean()?,
            "maxMessageSize" => self.max_message_size = number(1, 16 << 20)? as usize,
            "messageDelayLevel" => {
                self.delay_levels = DelayLevels::parse(value).map_err(|error| bad(&error.to_string()))?;
            }
            "useServerSideResetOffset" => self.server_side_reset = boolean()?,
            "tls.server.mode" => {
                self.tls.mode = match value {
                    "disabled" => TlsMode::Disabled,
                    "permissive" => TlsMode::Permissive,
                    "enforcing" => TlsMode::Enforcing,
                    _ => return Err(bad("say disabled, permissive or enforcing")),
                }
            }
            "tls.server.certPath" => self.tls.certificate = Some(value.into()),
            "tls.server.keyPath" => self.tls.key = Some(value.into()),
            "tls.server.trustCertPath" => self.tls.client_authority = Some(value.into()),
            "aclEnable" => self.access_control = boolean()?,
            "aclFile" => self.accounts = Some(value.into()),
            "storePathRootDir" => self.store = Some(value.into()),
            "mappedFileSizeCommitLog" | "mapedFileSizeCommitLog" => {
                self.commit_log_file_size = Some(number(4096, 4 * GIB)? as usize);
            }
            "mappedFileSizeConsumeQueue" | "mapedFileSizeConsumeQueue" => {
                self.consume_queue_file_size = Some(number(20, GIB)? as usize);
            }
            "enableConsumeQueueExt" => self.queue_extensions = boolean()?,
            "mappedFileSizeConsumeQueueExt" => {
                self.queue_extension_file_size = Some(number(64, GIB)? as usize);
            }
            "flushIntervalCommitLog" => self.flush_interval_ms = Some(number(1, 3_600_000)?),
            "flushDiskType" => {
                self.flush_sync = match value {
                    "SYNC_FLUSH" => true,
                    "ASYNC_FLUSH" => false,
                    _ => return Err(bad("say ASYNC_FLUSH or SYNC_FLUSH")),
                };
            }
            "syncFlushTimeout" => self.flush_timeout_ms = number(1, 3_600_000)?,
            "flushCommitLogLeastPages" => self.flush_least_pages = Some(number(0, 1 << 20)? as usize),
            "maxHashSlotNum" => self.index_slots = Some(number(1, 1 << 28)? as u32),
            "maxIndexNum" => self.index_entries = Some(number(2, 1 << 28)? as u32),
            "brokerRole" => {
                self.role = match value {
                    "ASYNC_MASTER" => Role::AsyncMaster,
                    "SYNC_MASTER" => Role::SyncMaster,
                    "SLAVE" => Role::Slave,
                    _ => return Err(bad("say ASYNC_MASTER, SYNC_MASTER or SLAVE")),
                };
            }
            "brokerId" => self.broker_id = Some(number(0, i64::MAX as u64)? as i64),
            "haMasterAddress" => self.ha_master = Some(value.to_owned()),
            "slaveReadEnable" => self.slave_read = boolean()?,
            "inSyncReplicas" => self.in_sync_replicas = number(1, 100)? as usize,
            "slaveTimeout" => self.replica_timeout_ms = Some(number(1, 3_600_000)?),
            "haFromLastFile" => self.ha_from_last_file = boolean()?,
            "fileReservedTime" => self.reserved_hours = Some(number(0, 1_000_000)? as u32),
            "deleteWhen" => {
                let hours = value.split(';').map(|hour| hour.trim().parse().ok().filter(|hour| *hour < 24));
                self.retention.delete_when = hours
                    .collect::<Option<Vec<u8>>>()
                    .ok_or_else(|| bad("say hours from 0 to 23, separated by `;`"))?;
            }
            "diskMaxUsedSpaceRatio" => self.retention.max_used_percent = Some(number(1, 100)? as u8),
            "diskSpaceCleanForciblyRatio" => self.retention.clean_forcibly_percent = Some(number(1, 100)? as u8),
            "diskSpaceWarningLevelRatio" => self.retention.warning_percent = Some(number(1, 100)? as u8),
            "cleanFileForciblyEnable" => self.retention.clean_forcibly = boolean()?,
            "flushConsumerOffsetInterval" => self.save_offsets_every_ms = number(1, 3_600_000)?,
            "brokerPermission" => self.permission = number(0, 7)? as i32,
            "traceTopicEnable" => self.trace_topic = boolean()?,
            "msgTraceTopicName" => self.trace_topic_name = name()?,
            "enablePropertyFilter" => self.filters_by_property = boolean()?,
            "rejectTransactionMessage" => self.reject_transactions = boolean()?,
            "transactionTimeOut" => self.transaction_timeout_ms = number(0, YEAR_MS)? as i64,
            "transactionCheckMax" => self.transaction_check_max = number(0, 1_000_000)? as u32,
            "transactionCheckInterval" => self.transaction_check_interval_ms = Some(number(1, YEAR_MS)? as i64),
            "timerWheelEnable" => self.timers.enabled = boolean()?,
            "timerPrecisionMs" => {
                let precision = number(100, 1000)?;
                if ![100, 200, 500, 1000].contains(&precision) {
                    return Err(bad("say 100, 200, 500 or 1000"));
                }
                self.timers.precision_ms = precision as i64;
            }
            "timerMaxDelaySec" => self.timers.max_delay_ms = number(1, YEAR_MS / 1000)? as i64 * 1000,
            "timerRollWindowSlot" => self.timers.roll_window_slots = number(2, 604_740)? as i64,
            "mappedFileSizeTimerLog" => self.timers.log_file_size = number(1024, GIB)?,
            "recallMessageEnable" => self.recall_messages = boolean()?,
            "storeReplyMessageEnable" => self.store_replies = boolean()?,
            "compatibility" => self.compatibility = value.parse().map_err(|_| bad("say 4.4, 4.9 or 5.3"))?,
            _ => return Err(SettingError { property: property.to_owned(), why: Why::NotHonoured }),
        }
        self.given.insert(property.to_owned(), value.to_owned());
        Ok(())
    }

    /// What is set, by the names that Apache's broker has for it: what is asked for most, and whatever was ever set.
    pub(crate) fn properties(&self) -> BTreeMap<String, String> {
        let usual = [
            ("autoCreateSubscriptionGroup", self.auto_create_groups.to_string()),
            ("autoCreateTopicEnable", self.auto_create_topics.to_string()),
            ("brokerClusterName", self.cluster.clone()),
            ("brokerName", self.broker_name.clone()),
            ("defaultTopicQueueNums", self.default_topic_queues.to_string()),
            ("enablePropertyFilter", self.filters_by_property.to_string()),
            ("longPollingEnable", self.long_polling.to_string()),
            ("maxMessageSize", self.max_message_size.to_string()),
            ("messageDelayLevel", self.delay_levels.to_string()),
            ("notifyConsumerIdsChangedEnable", self.notify_members.to_string()),
            ("regionId", self.region.clone()),
            ("traceOn", self.trace_on.to_string()),
            ("useServerSideResetOffset", self.server_side_reset.to_string()),
        ];
        let mut properties = self.given.clone();
        properties.extend(usual.into_iter().map(|(name, value)| (name.to_owned(), value)));
        properties
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn properties_are_set_by_apache_s_names() {
        let mut settings = Settings::default();
        settings.set("brokerName", "b-1").unwrap();
        settings.set("autoCreateTopicEnable", "false").unwrap();
        settings.set("messageDelayLevel", "1s 2s").unwrap();
        settings.set("compatibility", "4.4").unwrap();
        assert_eq!((settings.broker_name.as_str(), settings.auto_create_topics), ("b-1", false));
        assert_eq!((settings.delay_levels.highest(), settings.compatibility), (2, Compatibility::V4_4));
    }

    #[test]
    fn what_cannot_be_set_is_explained() {
        let mut settings = Settings::default();
        let mut refused = |property, value| settings.set(property, value).unwrap_err().to_string();
        assert!(
            refused("transientStorePoolEnable", "true")
                .contains("does not honour the property `transientStorePoolEnable`")
        );
        assert!(refused("autoCreateTopicEnable", "1").contains("true or false"));
        assert!(refused("maxMessageSize", "-1").contains("from 1 to"));
        assert!(refused("brokerName", "a.b").contains("brokerName"));
        assert!(refused("messageDelayLevel", "1y").contains("messageDelayLevel"));
    }
}
