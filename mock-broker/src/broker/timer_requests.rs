//! What is asked about timers: how far they are (code 60), and how many wait (code 61).

use std::fmt::Write;

use rocketmq_wire::model::DataVersion;
use rocketmq_wire::{DecodeError, ResponseCode};

use super::Broker;
use crate::clock::Now;
use crate::reply::{Outcome, Reply};

impl Broker {
    /// How far timers are, in the form of `config/timercheck`.
    pub(super) fn timer_checkpoint<'a>(&self) -> Result<Outcome<'a>, DecodeError> {
        Ok(match self.store.timer_checkpoint() {
            Some(checkpoint) => Reply::success().body(checkpoint.to_vec()),
            None => Reply::new(ResponseCode::SYSTEM_ERROR).remark("The checkpoint is null"),
        }
        .into())
    }

    /// How many messages wait, by the topic that they are for.
    pub(super) fn timer_metrics<'a>(&self, now: Now) -> Result<Outcome<'a>, DecodeError> {
        let Some(counts) = self.store.timer_counts() else {
            return Ok(Reply::new(ResponseCode::SYSTEM_ERROR).remark("The timer message store is null").into());
        };
        let version = DataVersion { timestamp: now.message_ms, ..DataVersion::default() };
        let mut out = format!("{{\"dataVersion\":{}", crate::json::data_version(self.compatibility, version));
        out.push_str(",\"timingCount\":{");
        for (index, (topic, count)) in counts.iter().enumerate() {
            if index > 0 {
                out.push(',');
            }
            crate::json::text(&mut out, topic);
            // Writing to a string cannot fail.
            let _ = write!(out, ":{{\"count\":{count},\"timeStamp\":{}}}", now.message_ms);
        }
        out.push_str("}}");
        Ok(Reply::success().body(out).into())
    }
}
