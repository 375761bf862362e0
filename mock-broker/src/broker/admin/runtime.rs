//! How the broker is: codes 28 and 315.

use std::collections::BTreeMap;

use rocketmq_wire::ResponseCode;
use rocketmq_wire::header::DecodeFields;
use rocketmq_wire::message::names;
use rocketmq_wire::model::KeyValueTable;
use rocketmq_wire::request::admin::BrokerStatsDataRequest;

use super::Handled;
use crate::broker::Broker;
use crate::clock::Now;
use crate::reply::{Command, Reply};

/// Requests that Apache's broker queues before it handles them: how its queues are called, and how many they hold.
const QUEUES: [(&str, &str); 5] =
    [("send", "10000"), ("pull", "100000"), ("query", "20000"), ("litePull", "100000"), ("ack", "100000")];
/// Those that all versions have.
const OLD_QUEUES: usize = 3;

impl Broker {
    /// Describes the broker. Requests are handled at once and in turn, so nothing is queued, and nothing takes time.
    pub(super) fn runtime_info<'a>(&mut self, now: Now) -> Handled<'a> {
        self.counters.update(&self.store);
        let compatibility = self.compatibility;
        let mut table = BTreeMap::new();
        let mut say = |key: &str, value: String| table.insert(key.to_owned(), value);
        let (put, put_rate) = self.counters.put_total();
        let (got, got_rate) = self.counters.got_total();
        let (log_start, log_end) = (self.store.min_physical_offset(), self.store.max_physical_offset());
        let written = log_end - self.log_end_at_start.min(log_end);
        for key in [
            "msgPutTotalYesterdayMorning",
            "msgPutTotalTodayMorning",
            "msgGetTotalYesterdayMorning",
            "msgGetTotalTodayMorning",
            "EndTransactionQueueSize",
            "dispatchMaxBuffer",
            "getMessageEntireTimeMax",
            "pageCacheLockTimeMills",
            "putMessageEntireTimeMax",
            "startAcceptSendRequestTimeStamp",
        ] {
            say(key, "0".to_owned());
        }
        say("msgPutTotalTodayNow", put.to_string());
        say("msgGetTotalTodayNow", got.to_string());
        say("EndTransactionThreadPoolQueueCapacity", "100000".to_owned());
        say("bootTimestamp", self.started.message_ms.to_string());
        say("runtime", runtime(now.message_ms - self.started.message_ms));
        say("brokerVersion", compatibility.version().0.to_string());
        say("brokerVersionDesc", compatibility.version_name().to_owned());
        let (total, free) = self.store.disk_space().unwrap_or((0, 0));
        let used = if total > 0 { (total - free) as f64 / total as f64 } else { 0.0 };
        const GIB: f64 = (1_u64 << 30) as f64;
        say(
            "commitLogDirCapacity",
            format!("Total : {:.1} GiB, Free : {:.1} GiB.", total as f64 / GIB, free as f64 / GIB),
        );
        say("commitLogDiskRatio", format!("{used:.2}"));
        say("consumeQueueDiskRatio", format!("{used:.2}"));
        say("commitLogMaxOffset", log_end.to_string());
        say("commitLogMinOffset", log_start.to_string());
        say("dispatchBehindBytes", self.store.dispatch_behind().to_string());
        say("earliestMessageTimeStamp", self.store.earliest_message_time().unwrap_or(-1).to_string());
        say("putTps", format!("{put_rate} "));
        say("getFoundTps", format!("{got_rate} "));
        say("getMissTps", "0.0 ".to_owned());
        say("getTotalTps", format!("{got_rate} "));
        say(compatibility.transferred_key(), format!("{got_rate} "));
        say("putMessageTimesTotal", put.to_string());
        say("putMessageSizeTotal", written.to_string());
        say("putMessageAverageSize", (written as f64 / put.max(1) as f64).to_string());
        say("putMessageDistributeTime", "null".to_owned());
        say("remainHowManyDataToFlush", "0 B".to_owned());
        // There is no pool of buffers that could run out.
        say("remainTransientStoreBufferNumbs", i32::MAX.to_string());
        let queues = if compatibility.has_topics_of_5() { QUEUES.len() } else { OLD_QUEUES };
        for (name, capacity) in &QUEUES[..queues] {
            say(&format!("{name}ThreadPoolQueueSize"), "0".to_owned());
            say(&format!("{name}ThreadPoolQueueHeadWaitTimeMills"), "0".to_owned());
            say(&format!("{name}ThreadPoolQueueCapacity"), (*capacity).to_owned());
        }
        if compatibility.has_requests_of_4_9() {
            say("putMessageFailedTimes", "0".to_owned());
            say("putLatency99", "0.00".to_owned());
            say("putLatency999", "0.00".to_owned());
            if let Some(path) = self.store.commit_log_path() {
                say(&format!("commitLogDiskRatio_{}", path.display()), format!("{used:.2}"));
            }
        }
        if compatibility.has_topics_of_5() {
            say("brokerActive", "true".to_owned());
            for key in ["timerReadBehind", "timerOffsetBehind", "timerCongestNum"] {
                say(key, "0".to_owned());
            }
            for key in ["timerEnqueueTps", "timerDequeueTps"] {
                say(key, "0.0".to_owned());
            }
        }
        for (index, delivered) in self.store.delivery_progress().iter().enumerate().filter(|(_, offset)| **offset > 0) {
            let end = self.store.max_offset(names::SCHEDULE_TOPIC, index as i32);
            say(&format!("scheduleMessageOffset_{}", index + 1), format!("{delivered},{end}"));
        }
        Ok(Reply::success().body(crate::json::to_vec(&KeyValueTable { table })).into())
    }

    /// Says a number that is counted: messages put into a topic, or those of a topic that a group got.
    pub(super) fn stats_data<'a>(&mut self, command: &Command<'a>) -> Handled<'a> {
        let request = BrokerStatsDataRequest::decode_fields(command.header.fields)?;
        self.counters.update(&self.store);
        let (name, key): (&str, &str) = (&request.stats_name, &request.stats_key);
        let stats = match name {
            "TOPIC_PUT_NUMS" => self.counters.topic_puts(key),
            "GROUP_GET_NUMS" => key.split_once('@').and_then(|(topic, group)| self.counters.group_gets(group, topic)),
            _ => None,
        };
        Ok(match stats {
            Some(stats) => Reply::success().body(crate::json::to_vec(&stats)),
            None => Reply::new(ResponseCode::SYSTEM_ERROR).remark(format!("The stats <{name}> <{key}> not exist")),
        }
        .into())
    }
}

/// How long the broker has been running, as Apache says it.
fn runtime(milliseconds: i64) -> String {
    let seconds = milliseconds.max(0) / 1000;
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    format!("[ {days} days, {} hours, {} minutes, {} seconds ]", hours % 24, minutes % 60, seconds % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn running_times_are_said_as_apache_says_them() {
        assert_eq!(runtime(93_784_999), "[ 1 days, 2 hours, 3 minutes, 4 seconds ]");
    }
}
