//! What is asked about timers: how far they are (code 60), and how many wait (code 61).

use std::collections::BTreeMap;
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
        Ok(Reply::success().body(self.metrics_text(now, &counts, version)).into())
    }

    /// Saves how many messages wait, if that changed, as Apache's `config/timermetrics`.
    pub(super) fn save_timer_metrics(&mut self, now: Now) {
        let Some(counts) = self.store.timer_counts() else { return };
        let saves = match &self.saved_timer_counts {
            Some((saved, _)) if *saved == counts => return,
            Some((_, saves)) => saves + 1,
            None => 1,
        };
        let version = DataVersion { timestamp: now.message_ms, counter: saves, ..DataVersion::default() };
        let text = self.metrics_text(now, &counts, version);
        match self.store.config_file("timermetrics").persist(text) {
            Ok(()) => self.saved_timer_counts = Some((counts, saves)),
            Err(error) => tracing::error!(%error, "the counts of timed messages could not be saved"),
        }
    }

    fn metrics_text(&self, now: Now, counts: &BTreeMap<String, i64>, version: DataVersion) -> String {
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
        out
    }
}
