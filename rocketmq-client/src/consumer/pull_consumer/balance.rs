//! Which queues a pull consumer reads: its share of the group's, or what it was assigned.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{join_all, select_all};
use tokio::sync::{Notify, watch};

use super::{AssignedQueue, Owned, Shared, fetch};
use crate::cluster::{Membership, Topic};
use crate::consumer::allocate::{self, AllocateStrategy};
use crate::consumer::rebalance;
use crate::error::{Error, ErrorKind, Result};
use crate::message::MessageQueue;

/// How often queues are shared out when nothing happens, and when something is not as it should be.
const INTERVAL: Duration = Duration::from_secs(20);
const RETRY: Duration = Duration::from_secs(1);

/// How long a queue taken over is left alone, so that the member that had it can commit its offset.
const TAKE_OVER_DELAY: Duration = Duration::from_millis(500);

/// The task that keeps the queues of a consumer what they should be.
pub(super) struct Balance {
    pub(super) shared: Arc<Shared>,
    pub(super) strategy: Arc<dyn AllocateStrategy>,
    pub(super) membership: Membership,
}

impl Balance {
    /// Shares out until told to stop, and leaves the group then. Queues stay as they are.
    pub(super) async fn run(self, mut stop: watch::Receiver<bool>) {
        let cluster = self.shared.reader.cluster().clone();
        let topics: Vec<Arc<Topic>> =
            self.shared.subscriptions.keys().map(|name| cluster.routes().topic(name)).collect();
        loop {
            let mut changes: Vec<_> = topics.iter().map(|topic| topic.subscribe()).collect();
            changes.iter_mut().for_each(watch::Receiver::mark_unchanged);
            let mut is_settled = true;
            for topic in &topics {
                match self.share_out(topic).await {
                    Ok(settled) => is_settled &= settled,
                    Err(error) => {
                        let group = self.shared.reader.group();
                        tracing::warn!(group, topic = topic.name(), %error, "queues stay as they are");
                        is_settled = false;
                    }
                }
            }
            let routes = changes.iter_mut().map(|change| Box::pin(change.changed()));
            tokio::select! {
                biased;
                // An error means that the consumer is gone.
                _ = stop.wait_for(|stop| *stop) => break,
                () = cluster.closed().cancelled() => return,
                () = self.membership.changed() => {}
                _ = select_all(routes) => {}
                () = cluster.env().sleep(if is_settled { INTERVAL } else { RETRY }) => {}
            }
        }
        // What is handled has to be committed before others take over.
        if let Err(error) = self.shared.commit_handled(None).await {
            tracing::warn!(group = self.shared.reader.group(), %error, "offsets were not committed at the end");
        }
        self.membership.leave().await;
    }

    /// Compares the queues of one topic once. Returns whether they are what they should be.
    async fn share_out(&self, topic: &Arc<Topic>) -> Result<bool> {
        let cluster = self.shared.reader.cluster();
        let group = self.shared.reader.group();
        let mut known = topic.known().clone();
        if known.route.is_none() {
            let deadline = cluster.env().now() + cluster.config().request_timeout;
            known = cluster.routes().look_up(topic, deadline).await?;
        }
        let Some(route) = known.route else {
            return match known.failure {
                // It is read as soon as it exists.
                Some(error) if error.kind() == ErrorKind::NoRoute => Ok(false),
                Some(error) => Err(error),
                None => Ok(false),
            };
        };
        let mut members = rebalance::members(cluster, group, &route).await?;
        let own_id = cluster.client_id();
        if !members.iter().any(|member| **member == **own_id) {
            cluster.groups().tell_brokers().await;
            return Ok(false);
        }
        allocate::sort_client_ids(&mut members);
        let mut queues = route.read_queues().to_vec();
        allocate::sort_queues(&mut queues);
        let wanted: BTreeSet<MessageQueue> = if queues.is_empty() {
            BTreeSet::new()
        } else {
            allocate_safely(&*self.strategy, group, own_id, &members, &queues)?.into_iter().collect()
        };
        let delay = if members.len() > 1 { TAKE_OVER_DELAY } else { Duration::ZERO };
        apply(&self.shared, |queue| queue.topic() == topic.name(), &wanted, delay).await;
        Ok(true)
    }
}

/// A strategy may be the user's own, so it may panic.
fn allocate_safely(
    strategy: &dyn AllocateStrategy,
    group: &str,
    own_id: &str,
    members: &[String],
    queues: &[MessageQueue],
) -> Result<Vec<MessageQueue>> {
    let allocate = || strategy.allocate(group, own_id, members, queues);
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(allocate))
        .unwrap_or_else(|_| Err(Error::new(ErrorKind::InvalidArgument, "the strategy panicked")))
}

/// Makes the queues that `concerns` picks what they should be: those given up are committed, new ones are begun after
/// `delay`.
pub(super) async fn apply(
    shared: &Arc<Shared>,
    concerns: impl Fn(&MessageQueue) -> bool,
    wanted: &BTreeSet<MessageQueue>,
    delay: Duration,
) {
    let surplus: BTreeSet<MessageQueue> = {
        let state = shared.state();
        state.queues.keys().filter(|queue| concerns(queue) && !wanted.contains(*queue)).cloned().collect()
    };
    if !surplus.is_empty() {
        if let Err(error) = shared.commit_handled(Some(&surplus)).await {
            tracing::warn!(group = shared.reader.group(), %error, "offsets of queues given away were not committed");
        }
        let given_away: Vec<Owned> = {
            let mut state = shared.state();
            surplus.iter().filter_map(|queue| state.queues.remove(queue)).collect()
        };
        // Not under the lock: this ends tasks.
        drop(given_away);
    }
    for queue in wanted {
        take(shared, queue, delay);
    }
    shared.arrived.notify_waiters();
}

fn take(shared: &Arc<Shared>, queue: &MessageQueue, delay: Duration) {
    let Some(subscription) = shared.subscriptions.get(queue.topic()).cloned().or_else(|| whole(queue)) else { return };
    let mut state = shared.state();
    if state.ended || state.queues.contains_key(queue) {
        return;
    }
    tracing::info!(group = shared.reader.group(), %queue, "a queue is taken");
    let wake = Arc::new(Notify::new());
    let fetching = fetch::run(Arc::clone(shared), queue.clone(), subscription, Arc::clone(&wake), delay);
    let task = shared.reader.cluster().env().spawn(fetching);
    state.queues.insert(queue.clone(), Owned { queue: AssignedQueue::default(), wake, _task: task });
}

/// A queue that was assigned later is read whole.
fn whole(queue: &MessageQueue) -> Option<Arc<crate::consumer::subscription::Subscription>> {
    let all = crate::consumer::subscription::FilterExpression::all();
    crate::consumer::subscription::subscription("", queue.topic(), &all, 0).ok().map(Arc::new)
}

/// Learns which brokers the topics are on, so that they can be told of the consumer.
pub(super) async fn look_up_topics(shared: &Shared) -> Result<()> {
    let cluster = shared.reader.cluster();
    let deadline = cluster.env().now() + cluster.config().request_timeout;
    let look_ups = shared.subscriptions.keys().map(|name| {
        let topic = cluster.routes().topic(name);
        async move { cluster.routes().look_up(&topic, deadline).await }
    });
    for known in join_all(look_ups).await {
        match known?.failure {
            Some(failure) if failure.kind() != ErrorKind::NoRoute => return Err(failure),
            _ => {}
        }
    }
    Ok(())
}

/// Commits what is handled, again and again, until told to stop.
pub(super) async fn commit_regularly(shared: Arc<Shared>, mut stop: watch::Receiver<bool>) {
    let env = shared.reader.cluster().env().clone();
    loop {
        tokio::select! {
            biased;
            // An error means that the consumer is gone.
            _ = stop.wait_for(|stop| *stop) => return,
            () = env.sleep(shared.options.commit_interval) => {}
        }
        if let Err(error) = shared.commit_handled(None).await {
            tracing::warn!(group = shared.reader.group(), %error, "offsets were not committed; the next time makes up for it");
        }
    }
}
