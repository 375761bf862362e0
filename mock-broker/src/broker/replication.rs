//! What a broker knows of the brokers that copy its log, or of the one whose log it copies.

use std::collections::HashMap;
use std::time::Duration;

use bytes::Bytes;
use rocketmq_wire::{DecodeError, RequestCode, ResponseCode};

use crate::broker::{Broker, REJECTED};
use crate::clock::Now;
use crate::compatibility::Compatibility;
use crate::reply::{Outcome, Reply};
use crate::settings::{Role, Settings};
use crate::store::{PutError, StoreError};

/// Most bytes of the log in one frame (`haTransferBatchSize`).
const MOST_BYTES: usize = 32 << 10;
/// A slave that is further behind counts as absent (`haSlaveFallbehindMax`).
const MOST_BEHIND: u64 = 256 << 20;

/// One connection of a slave; never used twice by one broker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct SlaveId(u64);

/// The slaves of a master and the master of a slave.
#[derive(Debug)]
pub(super) struct Replication {
    role: Role,
    /// Up to where each connected slave has the log.
    slaves: HashMap<SlaveId, u64>,
    last_slave: u64,
    /// How many brokers must have a message, this one included.
    in_sync: usize,
    timeout: Duration,
    /// Where the master's log can be had, and where the master answers requests.
    ha_master: Option<String>,
    master: Option<String>,
}

/// Where a slave finds its master, as far as a name server knows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct MasterAddresses {
    /// The port for slaves.
    pub(crate) ha: Option<String>,
    /// The port for requests.
    pub(crate) broker: Option<String>,
}

/// Whether other brokers have a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Copies {
    Enough,
    /// Not yet.
    Wait,
    /// There is nobody to wait for.
    NoSlave,
}

impl Replication {
    pub(super) fn new(settings: &Settings) -> Self {
        let default_timeout = settings.compatibility.replica_timeout_ms();
        Replication {
            role: settings.role,
            slaves: HashMap::new(),
            last_slave: 0,
            in_sync: settings.in_sync_replicas,
            timeout: Duration::from_millis(settings.replica_timeout_ms.unwrap_or(default_timeout)),
            ha_master: settings.ha_master.clone(),
            master: settings.ha_master.as_deref().and_then(beside),
        }
    }

    /// Whether this broker writes anything of its own.
    pub(super) fn writes(&self) -> bool {
        self.role != Role::Slave
    }

    /// How long a send waits for slaves.
    pub(super) fn timeout(&self) -> Duration {
        self.timeout
    }

    /// Whether a send waits for slaves at all.
    pub(super) fn is_sync(&self, compatibility: Compatibility) -> bool {
        self.role == Role::SyncMaster && (!compatibility.counts_in_sync_replicas() || self.in_sync > 1)
    }

    /// Whether enough brokers have the log up to `end`.
    pub(super) fn copies(&self, end: u64, compatibility: Compatibility) -> Copies {
        if !self.is_sync(compatibility) {
            return Copies::Enough;
        }
        let have = |least: u64| self.slaves.values().filter(|acknowledged| **acknowledged >= least).count();
        if compatibility.counts_in_sync_replicas() {
            return if have(end) + 1 >= self.in_sync { Copies::Enough } else { Copies::Wait };
        }
        if have(end) > 0 {
            Copies::Enough
        } else if have(end.saturating_sub(MOST_BEHIND)) > 0 {
            Copies::Wait
        } else {
            Copies::NoSlave
        }
    }
}

/// The address of the broker whose HA port this is: that is one above.
fn beside(ha_address: &str) -> Option<String> {
    let (host, port) = ha_address.rsplit_once(':')?;
    Some(format!("{host}:{}", port.parse::<u16>().ok()?.checked_sub(1)?))
}

impl Broker {
    /// Whether this broker copies another.
    pub(crate) fn is_slave(&self) -> bool {
        self.replication.role == Role::Slave
    }

    /// Takes what a name server says of the master. While it knows none, the log is still looked for where it was, and
    /// the settings are not asked for. An address of the settings stays.
    pub(crate) fn master_found(&mut self, master: MasterAddresses) {
        if self.is_slave() && self.settings.ha_master.is_none() {
            self.replication.ha_master = master.ha.or(self.replication.ha_master.take());
            self.replication.master = master.broker;
        }
    }

    /// Where the log of the master can be had; none on a master, or while it is not known.
    pub(crate) fn ha_master(&self) -> Option<&str> {
        self.replication.ha_master.as_deref().filter(|_| self.is_slave())
    }

    /// Where the master answers requests; none on a master, or while it is not known.
    pub(crate) fn master(&self) -> Option<&str> {
        self.replication.master.as_deref().filter(|_| self.is_slave())
    }

    /// Enters a slave that has the log up to `offset`, and returns who it is and from where on it needs the log: all
    /// that is kept for one that has nothing.
    ///
    /// # Errors
    ///
    /// When its log cannot be continued from this one, as a text that says why.
    pub(crate) fn slave_connected(&mut self, offset: i64) -> Result<(SlaveId, u64), String> {
        let (min, max) = (self.store.min_physical_offset(), self.store.max_physical_offset());
        let offset = u64::try_from(offset).map_err(|_| format!("it says that its log ends at {offset}"))?;
        let start = match offset {
            0 if self.settings.ha_from_last_file => max - max % self.store.commit_log_file_size(),
            0 => min,
            _ if offset < min => return Err(format!("its log ends at {offset}, and this one begins at {min}")),
            _ if offset > max => return Err(format!("its log ends at {offset}, and this one already at {max}")),
            _ => offset,
        };
        self.replication.last_slave += 1;
        let id = SlaveId(self.replication.last_slave);
        self.replication.slaves.insert(id, offset);
        Ok((id, start))
    }

    /// Notes how far a slave has come, and answers those who waited for it.
    ///
    /// # Errors
    ///
    /// When it claims more than there is, as a text that says so.
    pub(crate) fn slave_has(&mut self, now: Now, id: SlaveId, offset: i64) -> Result<(), String> {
        let max = self.store.max_physical_offset();
        let offset = u64::try_from(offset).ok().filter(|offset| *offset <= max);
        let offset = offset.ok_or_else(|| format!("it claims more than this log has, which ends at {max}"))?;
        self.replication.slaves.insert(id, offset);
        self.answer_safe(now);
        Ok(())
    }

    /// Forgets a slave, and what it had.
    pub(crate) fn slave_disconnected(&mut self, id: SlaveId) {
        self.replication.slaves.remove(&id);
    }

    /// Whether slaves are connected.
    #[inline]
    pub(crate) fn has_slaves(&self) -> bool {
        !self.replication.slaves.is_empty()
    }

    /// The next bytes of the log for a slave, from one file; none at the end.
    pub(crate) fn log_bytes(&self, offset: u64) -> Option<Bytes> {
        self.store.read_raw(offset, MOST_BYTES)
    }

    /// Where this broker's log ends.
    pub(crate) fn log_end(&self) -> u64 {
        self.store.max_physical_offset()
    }

    /// Appends bytes of the master's log, makes whole records among them readable, and returns where the log ends then.
    ///
    /// # Errors
    ///
    /// [`PutError`], also when the bytes cross the end of a file: the master's files have another size then.
    pub(crate) fn append_replicated(&mut self, now: Now, offset: u64, bytes: &[u8]) -> Result<u64, PutError> {
        let size = self.store.commit_log_file_size();
        if offset % size + bytes.len() as u64 > size {
            let why = format!(
                "{} bytes at {offset} cross the end of a file of {size} bytes: set mappedFileSizeCommitLog as the master has it",
                bytes.len()
            );
            return Err(PutError::Failed(StoreError::new(why)));
        }
        let end = self.store.append_raw(offset, bytes)?;
        self.settle(now);
        Ok(end)
    }

    /// Takes over what the master answered to a request for its settings.
    ///
    /// # Errors
    ///
    /// When the answer cannot be read.
    pub(crate) fn take_over(&mut self, now: Now, code: RequestCode, body: &[u8]) -> Result<(), DecodeError> {
        use rocketmq_wire::fastjson::from_slice;
        match code {
            RequestCode::GET_ALL_TOPIC_CONFIG => self.topics.take_over(from_slice("topics", body)?),
            RequestCode::GET_ALL_CONSUMER_OFFSET => self.offsets.take_over(body)?,
            RequestCode::GET_ALL_DELAY_OFFSET => self.store.take_over_delivery_progress(now.message_ms, body)?,
            RequestCode::GET_ALL_SUBSCRIPTIONGROUP_CONFIG => self.groups.take_over(from_slice("groups", body)?),
            _ => {}
        }
        Ok(())
    }

    /// The answer of a slave to a request that only a master serves; none if it serves it.
    pub(super) fn refuse_as_slave<'a>(&self, code: RequestCode) -> Option<Outcome<'a>> {
        if !self.is_slave() {
            return None;
        }
        const FROM_MASTER: &str =
            "Can't modify topic or subscription group from slave broker, please execute it from master broker.";
        let of_5 = self.compatibility.counts_in_sync_replicas();
        let reply = match code {
            RequestCode::SEND_MESSAGE
            | RequestCode::SEND_MESSAGE_V2
            | RequestCode::SEND_BATCH_MESSAGE
            | RequestCode::CONSUMER_SEND_MSG_BACK
            | RequestCode::RECALL_MESSAGE => {
                if of_5 {
                    Reply::new(ResponseCode::SYSTEM_BUSY).remark(REJECTED)
                } else {
                    Reply::new(ResponseCode::SERVICE_NOT_AVAILABLE)
                        .remark("service not available now. It may be caused by one of the following reasons: the broker is a slave")
                }
            }
            RequestCode::PULL_MESSAGE | RequestCode::LITE_PULL_MESSAGE if of_5 && !self.settings.slave_read => {
                Reply::new(ResponseCode::SYSTEM_BUSY).remark(REJECTED)
            }
            RequestCode::END_TRANSACTION => Reply::new(ResponseCode::SLAVE_NOT_AVAILABLE),
            RequestCode::UPDATE_AND_CREATE_TOPIC | RequestCode::UPDATE_AND_CREATE_SUBSCRIPTIONGROUP if !of_5 => {
                Reply::new(ResponseCode::SYSTEM_ERROR).remark(FROM_MASTER)
            }
            _ => return None,
        };
        Some(reply.into())
    }
}
