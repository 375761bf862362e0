//! Messages whose handler does not come back.

use std::sync::Arc;

use super::group::Group;
use super::owned_queue::OwnedQueue;
use super::retry::{self, Delay};

/// Messages of one queue that are given up in one round, at most: Java's constant.
const AT_MOST: usize = 16;

/// The delay level of a message that is given up (10 s): Java's constant.
const LEVEL: i32 = 3;

/// Java looks once in a consume timeout, so that a message may be stuck for twice as long. Here it is at most a quarter more.
const ROUNDS: u32 = 4;

/// Looks for messages that a handler has had for longer than the consume timeout, and hands them back; ends only by being
/// dropped.
///
/// Only the first message of a queue is looked at, since only that one holds up the offset; when it is gone, the next one
/// is. The handler is not disturbed, so the message may be handled twice at the same time.
pub(super) async fn run(group: Arc<Group>) {
    loop {
        group.env().sleep(group.options.consume_timeout / ROUNDS).await;
        for (_, queue) in group.reports.owned() {
            sweep(&group, &queue).await;
        }
    }
}

async fn sweep(group: &Arc<Group>, queue: &OwnedQueue) {
    for _ in 0..AT_MOST {
        let Some((ticket, message)) = queue.expired(group.env().now(), group.options.consume_timeout) else { return };
        if let Err(error) = retry::hand_back(group, &message, Delay::Level(LEVEL)).await {
            group.counters.failed_send_backs.one();
            tracing::warn!(group = &*group.name, message_id = &*message.message_id(), %error, "a message cannot be given up");
            return;
        }
        // The handler may have come back meanwhile; then the message comes once more than needed.
        if queue.give_up(ticket) {
            group.counters.given_up.one();
            let reason = format!("no end of its handler within {:?}", group.options.consume_timeout);
            queue.note_trouble(group.env(), &reason);
            tracing::warn!(
                group = &*group.name,
                topic = message.topic(),
                message_id = &*message.message_id(),
                reason,
                "a message is given up and will be delivered again"
            );
        }
    }
}
