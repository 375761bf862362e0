//! Which queues this consumer should read, against those it reads.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::{join_all, select_all};
use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::sync::watch;

use super::allocate;
use super::group::Group;
use super::pull::{QueueWorker, told_to_stop};
use super::subscription::Subscription;
use crate::backoff::Backoff;
use crate::cluster::{Broker, Known, MASTER_ID, Membership, Route, Topic, consume};
use crate::env::Task;
use crate::error::{Error, ErrorKind, Result};
use crate::message::MessageQueue;

/// How often queues are shared out when nothing happens: Java's interval.
const INTERVAL: Duration = Duration::from_secs(20);

/// How soon again when something is not as it should be: a topic is missing, the members cannot be listed.
const FIRST_RETRY: Duration = Duration::from_secs(1);
const LONGEST_RETRY: Duration = Duration::from_secs(5);

/// Notices that come closer together than this count as one.
const LEAST_GAP: Duration = Duration::from_millis(200);

/// How long a queue taken over is left alone, so that the member that had it can commit its offset.
const TAKE_OVER_DELAY: Duration = Duration::from_millis(500);

/// The task that keeps the queues of one consumer what they should be.
pub(super) struct Rebalance {
    group: Arc<Group>,
    topics: Vec<Subscribed>,
    owned: BTreeMap<MessageQueue, Owned>,
    /// Queues being let go. One is not taken again before that is over.
    releasing: FuturesUnordered<Releasing>,
    released: BTreeSet<MessageQueue>,
}

struct Subscribed {
    subscription: Arc<Subscription>,
    topic: Arc<Topic>,
    changes: watch::Receiver<Known>,
    /// The queues when they were last shared out.
    queues: Arc<[MessageQueue]>,
}

struct Owned {
    stop: watch::Sender<Option<Instant>>,
    task: Task,
}

type Releasing = futures_util::future::BoxFuture<'static, MessageQueue>;

/// What is to become of the queues of one topic.
enum Share {
    /// These are to be read.
    Own { queues: Vec<MessageQueue>, others: bool },
    /// It cannot be told; everything stays.
    Unknown,
}

impl Rebalance {
    pub(super) fn new(group: Arc<Group>) -> Self {
        let topics = group
            .subscriptions
            .values()
            .map(|subscription| {
                let topic = group.cluster.routes().topic(&subscription.topic);
                let changes = topic.subscribe();
                Subscribed { subscription: Arc::clone(subscription), topic, changes, queues: Arc::default() }
            })
            .collect();
        let (owned, releasing, released) = (BTreeMap::new(), FuturesUnordered::new(), BTreeSet::new());
        Self { group, topics, owned, releasing, released }
    }

    /// Shares out until told to stop, and then lets all queues go and leaves the group; handlers have until the time that
    /// `stop` holds then.
    ///
    /// Dropping the future lets all queues go at once, and leaves the group in the background.
    pub(super) async fn run(mut self, membership: Membership, mut stop: watch::Receiver<Option<Instant>>) {
        let closed = self.group.cluster.closed().clone();
        let mut retry = Backoff::new(FIRST_RETRY, LONGEST_RETRY);
        loop {
            let share_out = self.share_out();
            let is_settled = tokio::select! {
                biased;
                () = told_to_stop(&mut stop) => break,
                () = closed.cancelled() => return,
                is_settled = share_out => is_settled,
            };
            let env = self.group.env().clone();
            let shared_out_at = env.now();
            let again_in = if is_settled {
                retry.reset();
                INTERVAL
            } else {
                retry.next(env.random())
            };
            tokio::select! {
                biased;
                () = told_to_stop(&mut stop) => break,
                () = closed.cancelled() => return,
                () = self.something_happens(&membership) => env.sleep_until(shared_out_at + LEAST_GAP).await,
                () = env.sleep_until(shared_out_at + again_in) => {}
            }
        }
        let deadline = stop.borrow().unwrap_or_else(|| self.group.env().now());
        self.let_all_go(deadline).await;
        membership.leave().await;
    }

    async fn something_happens(&mut self, membership: &Membership) {
        let routes = self.topics.iter_mut().map(|topic| Box::pin(topic.queues_changed()));
        let releasing = async {
            match self.releasing.next().await {
                Some(queue) => queue,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = membership.changed() => {}
            _ = select_all(routes) => {}
            queue = releasing => {
                self.released.remove(&queue);
            }
        }
    }

    /// Compares once. Returns whether everything is as it should be.
    async fn share_out(&mut self) -> bool {
        let group = Arc::clone(&self.group);
        group.counters.rebalances.one();
        let shares = join_all(self.topics.iter_mut().map(|topic| topic.share(&group))).await;
        let mut is_settled = true;
        let mut is_unknown = false;
        for (index, share) in shares.into_iter().enumerate() {
            match share {
                Ok(Share::Own { queues, others }) => is_settled &= self.apply(index, queues, others),
                Ok(Share::Unknown) => is_settled = false,
                Err(NotAMember) => {
                    (is_settled, is_unknown) = (false, true);
                    self.apply(index, Vec::new(), true);
                }
            }
        }
        if is_unknown {
            group.cluster.groups().tell_brokers().await;
        }
        is_settled
    }

    /// Makes the queues of one topic what they should be. Returns whether they are.
    fn apply(&mut self, index: usize, queues: Vec<MessageQueue>, others: bool) -> bool {
        self.forget_dead();
        let topic = &self.topics[index];
        let (name, wanted): (_, BTreeSet<_>) = (topic.topic.name(), queues.into_iter().collect());
        let surplus: Vec<_> =
            self.owned.keys().filter(|queue| queue.topic() == name && !wanted.contains(queue)).cloned().collect();
        let deadline = self.group.env().now() + self.group.options.drain_timeout;
        for queue in surplus {
            self.let_go(queue, deadline);
        }
        let mut is_settled = true;
        for queue in wanted {
            if self.released.contains(&queue) {
                is_settled = false;
            } else if !self.owned.contains_key(&queue) {
                self.take(index, queue, others);
            }
        }
        is_settled
    }

    /// A queue whose task has died is taken again. Only a fault in this crate could end one by itself, and then one queue
    /// must not stand still for ever.
    fn forget_dead(&mut self) {
        self.owned.retain(|queue, owned| {
            let is_dead = owned.task.is_finished();
            if is_dead {
                tracing::error!(%queue, "the task of a queue has died; it is started again");
            }
            !is_dead
        });
    }

    fn take(&mut self, index: usize, queue: MessageQueue, others: bool) {
        let Subscribed { subscription, topic, .. } = &self.topics[index];
        let (stop, stopped) = watch::channel(None);
        let worker = QueueWorker {
            group: Arc::clone(&self.group),
            topic: Arc::clone(topic),
            queue: queue.clone(),
            subscription: Arc::clone(subscription),
            delay: if others { TAKE_OVER_DELAY } else { Duration::ZERO },
            stop: stopped,
        };
        tracing::info!(group = &*self.group.name, %queue, "a queue is taken");
        self.group.counters.queues_taken.one();
        let task = self.group.env().spawn(worker.run());
        self.owned.insert(queue, Owned { stop, task });
    }

    fn let_go(&mut self, queue: MessageQueue, deadline: Instant) {
        let Some(Owned { stop, task }) = self.owned.remove(&queue) else { return };
        tracing::info!(group = &*self.group.name, %queue, "a queue is given away");
        self.group.counters.queues_released.one();
        stop.send_replace(Some(deadline));
        self.released.insert(queue.clone());
        self.releasing.push(Box::pin(async move {
            // Its sender must live until the task ends, which is asked to by its value.
            let _stop = stop;
            if let Err(error) = task.await {
                tracing::error!(%queue, %error, "the task of a queue has died");
            }
            queue
        }));
    }

    async fn let_all_go(&mut self, deadline: Instant) {
        let queues: Vec<_> = self.owned.keys().cloned().collect();
        for queue in queues {
            self.let_go(queue, deadline);
        }
        while self.releasing.next().await.is_some() {}
    }
}

/// The brokers do not count this client among the members, so the others have shared the queues without it.
struct NotAMember;

impl Subscribed {
    /// Waits until the topic has other queues than when they were last shared out.
    async fn queues_changed(&mut self) {
        loop {
            if self.changes.changed().await.is_err() {
                // The client is gone, and with it whoever would wait for this.
                return std::future::pending().await;
            }
            if read_queues(&self.changes.borrow_and_update()) != self.queues {
                return;
            }
        }
    }

    async fn share(&mut self, group: &Group) -> Result<Share, NotAMember> {
        let name = self.topic.name();
        let mut known = self.topic.known().clone();
        if known.route.is_none() {
            let deadline = group.env().now() + group.cluster.config().request_timeout;
            match group.cluster.routes().look_up(&self.topic, deadline).await {
                Ok(looked_up) => known = looked_up,
                Err(error) => {
                    tracing::warn!(group = &*group.name, topic = name, %error, "a topic cannot be looked up");
                    return Ok(Share::Unknown);
                }
            }
        }
        self.queues = read_queues(&known);
        let Some(route) = &known.route else {
            let error = known.failure.as_ref();
            if error.is_some_and(|error| error.kind() == ErrorKind::NoRoute) {
                tracing::debug!(group = &*group.name, topic = name, "no name server knows a topic (yet)");
            }
            return Ok(Share::Unknown);
        };
        let mut members = match members(group, route).await {
            Ok(members) => members,
            Err(error) => {
                tracing::warn!(group = &*group.name, topic = name, %error, "queues stay as they are");
                return Ok(Share::Unknown);
            }
        };
        let own_id = group.cluster.client_id();
        match members.iter().filter(|member| **member == **own_id).count() {
            0 => return Err(NotAMember),
            1 => {}
            _ => tracing::warn!(
                group = &*group.name,
                client_id = &**own_id,
                "two members of the group have this id and will get the same messages: give each client its own"
            ),
        }
        let mut queues = self.queues.to_vec();
        allocate::sort_client_ids(&mut members);
        allocate::sort_queues(&mut queues);
        let queues = allocate::average(own_id, &members, queues);
        Ok(Share::Own { queues, others: members.len() > 1 })
    }
}

fn read_queues(known: &Known) -> Arc<[MessageQueue]> {
    known.route.as_ref().map(|route| Arc::clone(route.read_queues())).unwrap_or_default()
}

/// The members of the group, from one of the topic's brokers: any of them, and when it does not answer the next.
async fn members(group: &Group, route: &Route) -> Result<Vec<String>> {
    let brokers: Vec<_> = route.brokers().filter_map(|broker: &Broker| broker.reading_from(MASTER_ID)).collect();
    let first = group.env().random_below(brokers.len());
    let mut failure = Error::new(ErrorKind::NoRoute, "the topic is on no broker");
    for (_, address) in brokers.iter().cycle().skip(first).take(brokers.len()) {
        let deadline = group.env().now() + group.cluster.config().request_timeout;
        match consume::consumer_list(&group.cluster.peer(address), &group.name, deadline).await {
            Ok(members) => return Ok(members),
            Err(error) => failure = error,
        }
    }
    Err(failure)
}
