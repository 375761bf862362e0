//! The offset of one queue: where to begin, and how far all is done.

use std::sync::Arc;

use super::group::Group;
use super::offset_store::keeper;
use super::start_offset::StartOffset;
use crate::cluster::consume;
use crate::error::Result;
use crate::message::MessageQueue;

/// An offset that has not changed is stored again after so many intervals, in case the broker has lost it.
const REPEAT_AFTER: u32 = 12;

/// What is known of the offset that is stored.
#[derive(Debug)]
pub(super) struct QueueOffset {
    group: Arc<Group>,
    queue: MessageQueue,
    stored: Option<i64>,
    /// Intervals since it was stored.
    age: u32,
}

impl QueueOffset {
    /// Asks where the group begins in a queue: at the offset stored for it, or where a new group does.
    ///
    /// Only an answer decides. An error is passed on, for the caller to ask again: a broker that cannot be reached, or is
    /// overloaded, must not make the group jump.
    pub(super) async fn open(group: &Arc<Group>, queue: &MessageQueue) -> Result<(Self, i64)> {
        // A broker that has just started may not have read its offsets yet: what this consumer has stored there before
        // counts more than "none".
        let stored = group.offsets.load(&group.name, queue).await?.or_else(|| group.known_offset(queue));
        let position = begin_at(group, queue, stored).await?;
        tracing::debug!(group = &*group.name, %queue, stored, position, "a queue begins");
        let stored = stored.filter(|stored| *stored == position);
        Ok((Self { group: Arc::clone(group), queue: queue.clone(), stored, age: 0 }, position))
    }

    /// Asks again, since somebody else may have stored another offset.
    pub(super) async fn reopen(&mut self) -> Result<i64> {
        let (again, position) = Self::open(&self.group, &self.queue).await?;
        *self = again;
        Ok(position)
    }

    /// Stores an offset unless it is known to be stored. An interval is over if `is_regular`.
    ///
    /// A failure is counted and logged; the next call makes up for it.
    pub(super) async fn commit(&mut self, offset: i64, is_regular: bool) {
        self.age += u32::from(is_regular);
        if self.stored == Some(offset) && self.age < REPEAT_AFTER {
            return;
        }
        let group = &self.group;
        match group.offsets.store(&group.name, &self.queue, offset).await {
            Ok(()) => {
                group.counters.commits.one();
                group.note_offset(&self.queue, offset);
                (self.stored, self.age) = (Some(offset), 0);
            }
            Err(error) => {
                group.counters.failed_commits.one();
                // It may have arrived all the same.
                self.stored = None;
                tracing::warn!(group = &*group.name, queue = %self.queue, offset, %error, "an offset was not stored");
            }
        }
    }
}

async fn begin_at(group: &Group, queue: &MessageQueue, stored: Option<i64>) -> Result<i64> {
    let is_retry_topic = queue.topic() == &*group.retry_topic;
    let choice = StartOffset::choose(stored, group.options.consume_from, is_retry_topic);
    let deadline = group.env().now() + group.cluster.config().request_timeout;
    let peer = || keeper(&group.cluster, queue);
    let position = match choice {
        StartOffset::At(offset) => offset,
        StartOffset::Smallest => consume::min_offset(&peer()?, queue, deadline).await?,
        StartOffset::End => consume::max_offset(&peer()?, queue, deadline).await?,
        StartOffset::OfTime(time) => consume::search_offset(&peer()?, queue, time, deadline).await?,
    };
    // Brokers say -1 for a queue without messages.
    Ok(position.max(0))
}
