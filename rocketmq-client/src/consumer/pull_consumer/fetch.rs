//! The task of one queue: it keeps messages ready.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;

use super::{PullResult, Shared};
use crate::backoff::Backoff;
use crate::consumer::start_offset::StartOffset;
use crate::consumer::subscription::Subscription;
use crate::error::{ErrorKind, Result};
use crate::message::MessageQueue;

/// How long a broker may hold a pull that finds nothing: Java's constant for pull consumers is 20 s, for push ones 15 s.
const SUSPEND: Duration = Duration::from_secs(15);

/// Waits after pulls that failed.
const FIRST_RETRY: Duration = Duration::from_millis(200);
const LONGEST_RETRY: Duration = Duration::from_secs(3);

/// How long to wait before a move backwards is believed: a broker that is just loading its queues says it too.
const CONFIRMATION: Duration = Duration::from_secs(1);

/// The wait after an answer without messages that was not held: a broker without long polling.
const IDLE: Duration = Duration::from_millis(100);

/// Works until dropped. `delay` is what the last owner gets to commit.
pub(super) async fn run(
    shared: Arc<Shared>,
    queue: MessageQueue,
    subscription: Arc<Subscription>,
    wake: Arc<Notify>,
    delay: Duration,
) {
    let env = shared.reader.cluster().env().clone();
    env.sleep(delay).await;
    let mut failures = Backoff::new(FIRST_RETRY, LONGEST_RETRY);
    let mut going_back = false;
    loop {
        let Some(epoch) = room(&shared, &queue, &wake).await else { return };
        let asked_at = env.now();
        let work = async {
            let position = match position(&shared, &queue) {
                Some(position) => position,
                None => begin(&shared, &queue, epoch).await?,
            };
            let options = &shared.options;
            let pulled = shared.reader.read(&queue, position, options.pull_batch_size, &subscription, SUSPEND).await?;
            Ok::<_, crate::Error>((position, pulled))
        };
        // A seek, a pause and a resume begin anew; the answer to what is under way is given up.
        let outcome = tokio::select! {
            biased;
            () = changed(&shared, &queue, &wake, epoch) => continue,
            outcome = work => outcome,
        };
        match outcome {
            Ok((position, pulled)) => {
                failures.reset();
                let is_empty = pulled.messages.is_empty() && pulled.next_offset == position;
                let goes_back = pulled.next_offset < position && !pulled.was_reset;
                if goes_back && !std::mem::replace(&mut going_back, true) {
                    env.sleep(CONFIRMATION).await;
                    continue;
                }
                going_back = false;
                take_in(&shared, &queue, epoch, position, pulled);
                if is_empty && env.now() - asked_at < IDLE {
                    env.sleep(IDLE).await;
                }
            }
            Err(error) if error.kind() == ErrorKind::Closed => return,
            Err(error) => {
                tracing::warn!(group = shared.reader.group(), %queue, %error, "a pull failed");
                if matches!(error.kind(), ErrorKind::Connection | ErrorKind::NoRoute | ErrorKind::Timeout) {
                    // The broker may have moved.
                    let routes = shared.reader.cluster().routes();
                    routes.suspect(&routes.topic(&queue.topic().into()));
                }
                env.sleep(failures.next(env.random())).await;
            }
        }
    }
}

/// Waits until there is room for another answer. Returns the epoch; none when the queue is not read any more.
async fn room(shared: &Shared, queue: &MessageQueue, wake: &Notify) -> Option<u64> {
    loop {
        let woken = wake.notified();
        {
            let state = shared.state();
            let owned = state.queues.get(queue)?;
            if owned.queue.has_room(shared.options.max_cached_messages) {
                return Some(owned.queue.epoch());
            }
        }
        woken.await;
    }
}

/// Waits until the queue was sought or paused.
async fn changed(shared: &Shared, queue: &MessageQueue, wake: &Notify, epoch: u64) {
    loop {
        wake.notified().await;
        let state = shared.state();
        if state.queues.get(queue).is_none_or(|owned| owned.queue.epoch() != epoch || owned.queue.is_paused()) {
            return;
        }
    }
}

fn position(shared: &Shared, queue: &MessageQueue) -> Option<i64> {
    shared.state().queues.get(queue)?.queue.next_pull()
}

/// Finds out where the queue begins.
async fn begin(shared: &Shared, queue: &MessageQueue, epoch: u64) -> Result<i64> {
    let reader = &shared.reader;
    let committed = reader.committed(queue).await?;
    let is_retry_topic = rocketmq_wire::message::names::is_retry_topic(queue.topic());
    let offset = match StartOffset::choose(committed, shared.options.consume_from, is_retry_topic) {
        StartOffset::At(offset) => offset,
        StartOffset::Smallest => reader.begin(queue).await?,
        StartOffset::End => reader.end(queue).await?,
        StartOffset::OfTime(milliseconds) => {
            let since_1970 = Duration::from_millis(u64::try_from(milliseconds).unwrap_or(0));
            reader.offset_at(queue, std::time::SystemTime::UNIX_EPOCH + since_1970).await?
        }
    };
    let mut state = shared.state();
    let Some(owned) = state.queues.get_mut(queue) else { return Ok(offset) };
    owned.queue.begin(epoch, offset, committed == Some(offset));
    Ok(owned.queue.next_pull().unwrap_or(offset))
}

fn take_in(shared: &Shared, queue: &MessageQueue, epoch: u64, position: i64, pulled: PullResult) {
    let group = shared.reader.group();
    if let Some(error) = &pulled.unreadable {
        tracing::warn!(group, %queue, %error, "messages that cannot be read are passed over");
    }
    let mut state = shared.state();
    let Some(owned) = state.queues.get_mut(queue) else { return };
    if pulled.was_out_of_range && owned.queue.epoch() == epoch {
        tracing::warn!(group, %queue, from = position, to = pulled.next_offset, "the broker moved this consumer");
        owned.queue.seek(pulled.next_offset);
        return;
    }
    if owned.queue.insert(epoch, pulled.messages, pulled.next_offset) && owned.queue.has_ready() {
        drop(state);
        shared.arrived.notify_waiters();
    }
}
