//! Offsets of groups: set and copied.

use std::time::{Instant, SystemTime};

use rocketmq_wire::ResponseCode;
use rocketmq_wire::fastjson::ObjectKey;
use rocketmq_wire::model::{QueueOffsets, TopicStats};
use rocketmq_wire::request::admin::{CloneOffsetRequest, ResetOffsetRequest, TopicStatsRequest};

use super::{Admin, Master, ask, call, sorted};
use crate::cluster::consume;
use crate::error::{Error, ErrorKind, Result};
use crate::message::MessageQueue;

/// Where a group is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OffsetTarget {
    /// To the oldest message of each queue.
    Begin,
    /// To the end of each queue: what is there now is skipped.
    End,
    /// To the first message of each queue that was stored at that time, by the broker's clock, or later.
    Time(SystemTime),
}

impl OffsetTarget {
    /// As brokers read it: milliseconds since 1970, -1 for the end.
    fn timestamp(self) -> i64 {
        match self {
            Self::Begin => 0,
            Self::End => -1,
            Self::Time(time) => time
                .duration_since(SystemTime::UNIX_EPOCH)
                .map_or(0, |since| i64::try_from(since.as_millis()).unwrap_or(i64::MAX)),
        }
    }
}

impl Admin {
    /// Sends a group elsewhere in a topic: sets its offsets in all queues, and has its members go there. Returns the new
    /// offsets.
    ///
    /// Brokers since 5.2 set the offsets themselves, and send each member there with its next pull. Older ones tell the
    /// members, which go there within about ten seconds; when none is online, or the group has no offset yet, the offsets
    /// are set queue by queue instead. Messages may be consumed again, or not at all: that is what this is for.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::NoRoute`] for a topic and [`ErrorKind::NotFound`] for a group that does not exist; else when a broker
    /// does not answer or refuses.
    pub async fn reset_offsets(
        &self,
        group: &str,
        topic: &str,
        target: OffsetTarget,
    ) -> Result<Vec<(MessageQueue, i64)>> {
        let deadline = self.deadline();
        let reset = async {
            let masters = self.masters_of(topic, deadline).await?;
            self.at_all(&masters, |master| self.reset_at(master, group, topic, target, deadline)).await
        };
        let offsets = reset.await.map_err(|error: Error| error.with_operation("reset offsets"))?;
        Ok(sorted(offsets.into_iter().flatten()))
    }

    async fn reset_at(
        &self,
        master: Master,
        group: &str,
        topic: &str,
        target: OffsetTarget,
        deadline: Instant,
    ) -> Result<Vec<(MessageQueue, i64)>> {
        let request = ResetOffsetRequest {
            topic: topic.into(),
            group: group.into(),
            queue_id: Some(-1),
            offset: Some(-1),
            timestamp: target.timestamp(),
            is_force: true,
        };
        match ask::<_, QueueOffsets>(&master.peer, &request, "offsets that were set", deadline).await {
            Ok(offsets) => {
                let table = offsets.offset_table.into_iter();
                Ok(table.map(|(ObjectKey(wire), offset)| (self.queue(&wire), offset)).collect())
            }
            Err(error) if has_no_members(&error) => {
                self.reset_one_by_one(&master, group, topic, target, deadline).await
            }
            Err(error) => Err(error),
        }
    }

    /// Sets the offsets of a group whose members cannot be told.
    async fn reset_one_by_one(
        &self,
        master: &Master,
        group: &str,
        topic: &str,
        target: OffsetTarget,
        deadline: Instant,
    ) -> Result<Vec<(MessageQueue, i64)>> {
        let request = TopicStatsRequest { topic: topic.into() };
        let stats: TopicStats = ask(&master.peer, &request, "offsets of a topic", deadline).await?;
        let mut offsets = Vec::new();
        for (ObjectKey(wire), bounds) in stats.offset_table {
            let queue = self.queue(&wire);
            let offset = match target {
                OffsetTarget::Begin => bounds.min_offset,
                OffsetTarget::End => bounds.max_offset,
                OffsetTarget::Time(_) => {
                    consume::search_offset(&master.peer, &queue, target.timestamp(), deadline).await?
                }
            };
            self.cluster.commit_offset(&master.peer, group, &queue, offset, deadline).await?;
            offsets.push((queue, offset));
        }
        Ok(offsets)
    }

    /// Sets the offset of a group in one queue. Members that are online keep to their own and will overwrite it.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::NoRoute`] when the queue's broker is not known; [`ErrorKind::NotFound`] for a group that does not exist
    /// (brokers since 5.0); else when the broker does not answer.
    pub async fn set_offset(&self, group: &str, queue: &MessageQueue, offset: u64) -> Result<()> {
        const OPERATION: &str = "set an offset";
        let deadline = self.deadline();
        let set = async {
            let masters = self.masters_of(queue.topic(), deadline).await?;
            let master = masters.into_iter().find(|master| *master.name == *queue.broker()).ok_or_else(|| {
                let message = format!("the topic `{}` is not on the broker `{}`", queue.topic(), queue.broker());
                Error::new(ErrorKind::NoRoute, message)
            })?;
            let offset = i64::try_from(offset).unwrap_or(i64::MAX);
            self.cluster.commit_offset(&master.peer, group, queue, offset, deadline).await
        };
        set.await.map_err(|error: Error| error.with_operation(OPERATION))
    }

    /// Gives a group the offsets of another, in one topic or in all. Members of the second group that are online keep to
    /// their own offsets and will overwrite them: stop them first.
    ///
    /// # Errors
    ///
    /// When a broker does not answer or refuses.
    pub async fn copy_offsets(&self, from: &str, to: &str, topic: Option<&str>) -> Result<()> {
        let deadline = self.deadline();
        let request = CloneOffsetRequest {
            // No field of these names is known to those who translate headers.
            source_group: self.wrap(from).into(),
            target_group: self.wrap(to).into(),
            topic: topic.map(Into::into),
            offline: Some(true),
        };
        let copy = async {
            let masters = self.masters(deadline).await?;
            let request = &request;
            self.at_all(&masters, |master| async move { call(&master.peer, request, deadline).await.map(drop) }).await
        };
        copy.await.map(drop).map_err(|error: Error| error.with_operation("copy offsets"))
    }
}

/// Whether a broker could not reset a group because nobody is online, or because it has no offset yet. Both are said by
/// brokers before 5.2 only, the second in words alone.
fn has_no_members(error: &Error) -> bool {
    error.response_code() == Some(ResponseCode::CONSUMER_NOT_ONLINE.0)
        || (error.response_code() == Some(ResponseCode::SYSTEM_ERROR.0) && error.to_string().contains("> not exist"))
}
