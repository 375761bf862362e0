//! The offset of one queue at its broker: where to begin, and how far all is done.

use std::sync::Arc;
use std::time::Instant;

use super::group::Group;
use super::start_offset::StartOffset;
use crate::cluster::{MASTER_ID, consume};
use crate::error::{Error, ErrorKind, Result};
use crate::message::MessageQueue;
use crate::remoting::Peer;

/// An offset that has not changed is stored again after so many intervals, in case the broker has lost it.
const REPEAT_AFTER: u32 = 12;

/// What is known of the offset that the broker has.
#[derive(Debug)]
pub(super) struct OffsetStore {
    group: Arc<Group>,
    queue: MessageQueue,
    stored: Option<i64>,
    /// Intervals since it was stored.
    age: u32,
}

impl OffsetStore {
    /// Asks where the group begins in a queue: at the offset stored for it, or where a new group does.
    ///
    /// Only an answer decides. An error is passed on, for the caller to ask again: a broker that cannot be reached, or is
    /// overloaded, must not make the group jump.
    pub(super) async fn open(group: &Arc<Group>, queue: &MessageQueue) -> Result<(Self, i64)> {
        let env = group.env();
        let timeout = group.cluster.config().request_timeout;
        let peer = peer(group, queue)?;
        let stored = consume::query_consumer_offset(&peer, &group.name, queue, env.now() + timeout).await?;
        let is_retry_topic = queue.topic() == &*group.retry_topic;
        let deadline = env.now() + timeout;
        let position = match StartOffset::choose(stored, group.options.consume_from, is_retry_topic) {
            StartOffset::At(offset) => offset,
            StartOffset::Smallest => consume::min_offset(&peer, queue, deadline).await?,
            StartOffset::End => consume::max_offset(&peer, queue, deadline).await?,
            StartOffset::OfTime(time) => consume::search_offset(&peer, queue, time, deadline).await?,
        };
        // Brokers say -1 for a queue without messages.
        let position = position.max(0);
        tracing::debug!(group = &*group.name, %queue, stored, position, "a queue begins");
        let stored = stored.filter(|stored| *stored == position);
        Ok((Self { group: Arc::clone(group), queue: queue.clone(), stored, age: 0 }, position))
    }

    /// Stores an offset unless the broker has it. An interval is over if `is_regular`.
    ///
    /// A failure is counted and logged; the next call makes up for it.
    pub(super) async fn commit(&mut self, offset: i64, is_regular: bool, deadline: Instant) {
        self.age += u32::from(is_regular);
        if self.stored == Some(offset) && self.age < REPEAT_AFTER {
            return;
        }
        let group = &self.group;
        let stored = async {
            let peer = peer(group, &self.queue)?;
            consume::update_consumer_offset(&peer, &group.name, &self.queue, offset, deadline).await
        };
        match stored.await {
            Ok(()) => {
                group.counters.commits.one();
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

/// The broker that keeps the offsets of a queue: the master, or any replica while there is none.
fn peer(group: &Group, queue: &MessageQueue) -> Result<Peer> {
    match group.cluster.replica(queue.broker(), MASTER_ID) {
        Some((_, peer)) => Ok(peer),
        None => Err(unknown_broker(queue)),
    }
}

pub(super) fn unknown_broker(queue: &MessageQueue) -> Error {
    let message = format!(
        "no name server says where the broker `{}` is, which has queue {} of topic `{}`",
        queue.broker(),
        queue.id(),
        queue.topic()
    );
    Error::new(ErrorKind::NoRoute, message)
}
