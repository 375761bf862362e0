//! Locks of queues at their brokers: while this client has one, no other member's handlers work on the queue.

use std::time::Duration;

use super::group::Group;
use super::offset_store::unknown_broker;
use crate::cluster::consume;
use crate::error::Result;
use crate::message::MessageQueue;

/// How often a lock is renewed, and when it counts as expired without: Java's constants. Brokers keep it for 60 s.
pub(super) const RENEW_EVERY: Duration = Duration::from_secs(20);
pub(super) const EXPIRES_AFTER: Duration = Duration::from_secs(30);

/// How soon a lock that another member still has is asked for again: Java's constant.
pub(super) const ASK_AGAIN: Duration = Duration::from_millis(500);

/// Asks the broker to lock a queue for this client. Returns whether it did.
pub(super) async fn lock(group: &Group, queue: &MessageQueue) -> Result<bool> {
    let peer = group.cluster.master(queue.broker()).ok_or_else(|| unknown_broker(queue))?;
    let deadline = group.env().now() + group.cluster.config().request_timeout;
    let (name, asked) = names(group, queue);
    let locked = consume::lock_queues(&peer, group.cluster.client_id(), &name, &[&asked], deadline).await?;
    Ok(locked.contains(&asked))
}

/// Lets other members have a queue. A failure is only logged: the broker forgets the lock by itself.
pub(super) async fn unlock(group: &Group, queue: &MessageQueue) {
    let unlocked = async {
        let peer = group.cluster.master(queue.broker()).ok_or_else(|| unknown_broker(queue))?;
        let deadline = group.env().now() + group.cluster.config().request_timeout;
        let (name, asked) = names(group, queue);
        consume::unlock_queues(&peer, group.cluster.client_id(), &name, &[&asked], deadline).await
    };
    if let Err(error) = unlocked.await {
        tracing::warn!(group = &*group.name, %queue, %error, "a queue could not be unlocked; the broker will do so in a minute");
    }
}

/// The group and the queue as servers know them.
fn names(group: &Group, queue: &MessageQueue) -> (String, MessageQueue) {
    let namespace = group.cluster.namespace();
    let topic = namespace.wrap(queue.topic());
    (namespace.wrap(&group.name).into_owned(), MessageQueue::new(&*topic, queue.broker(), queue.id()))
}
