//! Which queues this consumer should read, against those it reads.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::{join_all, select_all};
use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::sync::watch;

use super::allocate;
use super::flow_control::Limits;
use super::group::Group;
use super::pull::{QueueWorker, told_to_stop};
use super::subscription::{Subscription, Subscriptions};
use crate::backoff::Backoff;
use crate::cluster::{Broker, Cluster, Known, MASTER_ID, Membership, Route, Topic, consume};
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

/// Queues of one topic that this member has been given or has lost, for
/// [`on_queue_change`](super::PushConsumerBuilder::on_queue_change).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct QueueChange {
    /// The topic.
    pub topic: String,
    /// Queues that are read from now on.
    pub assigned: Vec<MessageQueue>,
    /// Queues that are let go: their handlers that run may still end.
    pub revoked: Vec<MessageQueue>,
    /// All queues of the topic that this member reads now.
    pub owned: Vec<MessageQueue>,
}

/// The task that keeps the queues of one consumer what they should be.
pub(super) struct Rebalance {
    group: Arc<Group>,
    topics: Vec<Subscribed>,
    owned: BTreeMap<MessageQueue, Owned>,
    /// Queues being let go. One is not taken again before that is over.
    releasing: FuturesUnordered<Releasing>,
    released: BTreeSet<MessageQueue>,
    subscriptions: watch::Receiver<Arc<Subscriptions>>,
    wanted: watch::Receiver<u64>,
    /// Subscriptions of other members that were complained about.
    complaints: BTreeSet<(Arc<str>, String)>,
}

struct Subscribed {
    subscription: Arc<Subscription>,
    topic: Arc<Topic>,
    changes: watch::Receiver<Known>,
    /// The queues when they were last shared out.
    queues: Arc<[MessageQueue]>,
    /// Whether it was said that the topic does not exist.
    is_missing: bool,
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
        let (owned, releasing, released) = (BTreeMap::new(), FuturesUnordered::new(), BTreeSet::new());
        let subscriptions = group.subscriptions.subscribe();
        let wanted = group.rebalance_wanted.subscribe();
        let (topics, complaints) = (Vec::new(), BTreeSet::new());
        let mut this = Self { group, topics, owned, releasing, released, subscriptions, wanted, complaints };
        this.read_subscriptions();
        this
    }

    /// Takes in topics that were subscribed to, and lets go the queues of those that were unsubscribed from.
    fn read_subscriptions(&mut self) {
        let subscriptions = Arc::clone(&self.subscriptions.borrow_and_update());
        let deadline = self.group.env().now() + self.group.options.drain_timeout;
        self.topics.retain(|topic| subscriptions.contains_key(topic.topic.name()));
        let surplus: Vec<_> =
            self.owned.keys().filter(|queue| !subscriptions.contains_key(queue.topic())).cloned().collect();
        for queue in surplus {
            self.let_go(queue, deadline);
        }
        for subscription in subscriptions.values() {
            match self.topics.iter_mut().find(|topic| topic.topic.name() == &*subscription.topic) {
                Some(topic) => topic.subscription = Arc::clone(subscription),
                None => {
                    let topic = self.group.cluster.routes().topic(&subscription.topic);
                    let changes = topic.subscribe();
                    let subscription = Arc::clone(subscription);
                    self.topics.push(Subscribed {
                        subscription,
                        topic,
                        changes,
                        queues: Arc::default(),
                        is_missing: false,
                    });
                }
            }
        }
    }

    /// Shares out until told to stop, and then lets all queues go and leaves the group; handlers have until the time that
    /// `stop` holds then.
    ///
    /// Dropping the future lets all queues go at once, and leaves the group in the background.
    pub(super) async fn run(mut self, membership: Membership, mut stop: watch::Receiver<Option<Instant>>) {
        let closed = self.group.cluster.closed().clone();
        let mut retry = Backoff::new(FIRST_RETRY, LONGEST_RETRY);
        loop {
            if self.subscriptions.has_changed().unwrap_or(false) {
                self.read_subscriptions();
            }
            self.wanted.mark_unchanged();
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
        let any_route = async {
            // Without topics there are no routes to change.
            if routes.len() == 0 { std::future::pending().await } else { select_all(routes).await }
        };
        tokio::select! {
            () = membership.changed() => {}
            _ = any_route => {}
            // Errors mean that the consumer is gone, and with it this task.
            _ = self.subscriptions.changed() => self.subscriptions.mark_changed(),
            _ = self.wanted.changed() => {}
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
        let (mut is_unknown, mut has_others) = (false, false);
        for (index, share) in shares.into_iter().enumerate() {
            match share {
                Ok(Share::Own { queues, others }) => {
                    has_others |= others;
                    is_settled &= self.apply(index, queues, others);
                }
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
        if has_others && !group.options.is_broadcasting() {
            self.compare_subscriptions().await;
        }
        is_settled
    }

    /// Complains once of each subscription that another member has made otherwise: brokers filter for all members by the
    /// one that was made last, so messages go missing.
    async fn compare_subscriptions(&mut self) {
        let group = &self.group;
        let Some(route) = self.topics.iter().find_map(|topic| topic.topic.known().route.clone()) else { return };
        let Some((_, address)) = route.brokers().find_map(|broker| broker.reading_from(MASTER_ID)) else { return };
        let deadline = group.env().now() + group.cluster.config().request_timeout;
        let known = consume::consumer_connections(&group.cluster.peer(address), &group.name, deadline).await;
        let Ok(known) =
            known.inspect_err(|error| tracing::debug!(group = &*group.name, %error, "subscriptions unknown"))
        else {
            return;
        };
        for (topic, theirs) in known.subscription_table {
            let topic = group.cluster.namespace().unwrap(&topic).into_owned();
            let ours = self.topics.iter().find(|ours| ours.topic.name() == topic).map(|ours| &ours.subscription);
            let ours_text = ours.map_or("(none)", |ours| ours.text());
            if ours_text == theirs.sub_string {
                continue;
            }
            let topic: Arc<str> = topic.into();
            let (ours, theirs) = (ours_text, theirs.sub_string);
            let text = format!(
                "members of the group subscribe to the topic otherwise: this one to `{ours}`, another to `{theirs}`; \
                 brokers go by the one made last, so messages will be missing: make all members alike"
            );
            group.reports.topic(group.env(), &topic, Some(&text));
            if self.complaints.insert((Arc::clone(&topic), theirs.clone())) {
                tracing::warn!(group = &*group.name, topic = &*topic, ours, theirs, "{text}");
            }
        }
    }

    /// Makes the queues of one topic what they should be. Returns whether they are.
    fn apply(&mut self, index: usize, queues: Vec<MessageQueue>, others: bool) -> bool {
        self.forget_dead();
        let topic = &self.topics[index];
        let (name, wanted): (_, BTreeSet<_>) = (topic.topic.name(), queues.into_iter().collect());
        let surplus: Vec<_> =
            self.owned.keys().filter(|queue| queue.topic() == name && !wanted.contains(queue)).cloned().collect();
        let deadline = self.group.env().now() + self.group.options.drain_timeout;
        for queue in &surplus {
            self.let_go(queue.clone(), deadline);
        }
        let limits = self.group.options.topic_limits.share(self.group.options.limits, wanted.len());
        let mut is_settled = true;
        let mut assigned = Vec::new();
        for queue in &wanted {
            if self.released.contains(queue) {
                is_settled = false;
            } else if !self.owned.contains_key(queue) {
                self.take(index, queue.clone(), limits, others);
                assigned.push(queue.clone());
            } else if let Some(owned) = self.group.reports.queue(queue) {
                owned.limit(limits);
            }
        }
        if !surplus.is_empty() || !assigned.is_empty() {
            self.tell_of_change(index, assigned, surplus);
        }
        is_settled
    }

    fn tell_of_change(&self, index: usize, assigned: Vec<MessageQueue>, revoked: Vec<MessageQueue>) {
        let Some(listener) = &self.group.hooks.on_queue_change else { return };
        let topic = self.topics[index].topic.name();
        let owned = self.owned.keys().filter(|queue| queue.topic() == topic).cloned().collect();
        let change = QueueChange { topic: topic.to_owned(), assigned, revoked, owned };
        // The user's function must not end this task.
        if std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| listener(&change))).is_err() {
            tracing::error!(group = &*self.group.name, "the function that is told of changed queues panicked");
        }
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

    fn take(&mut self, index: usize, queue: MessageQueue, limits: Limits, others: bool) {
        let topic = &self.topics[index].topic;
        let (stop, stopped) = watch::channel(None);
        let worker = QueueWorker {
            group: Arc::clone(&self.group),
            topic: Arc::clone(topic),
            queue: queue.clone(),
            limits,
            delay: if others { TAKE_OVER_DELAY } else { Duration::ZERO },
            stop: stopped,
        };
        tracing::info!(group = &*self.group.name, %queue, "a queue is taken");
        self.group.counters.queues_taken.one();
        self.group.reports.taken(&queue);
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
            let (mut text, is_no_route) = match error {
                Some(error) => (error.to_string(), error.kind() == ErrorKind::NoRoute),
                None => ("its route is not known yet".to_owned(), false),
            };
            if is_no_route {
                text = "no name server knows the topic: it is read as soon as it exists".to_owned();
                // A new group's retry topic is made when the broker first hears of the group.
                if !std::mem::replace(&mut self.is_missing, true) && *name != *group.retry_topic {
                    tracing::warn!(group = &*group.name, topic = name, "a subscribed topic does not exist yet");
                }
            }
            group.reports.topic(group.env(), &self.subscription.topic, Some(&text));
            return Ok(Share::Unknown);
        };
        self.is_missing = false;
        let mut queues = self.queues.to_vec();
        allocate::sort_queues(&mut queues);
        if group.options.is_broadcasting() {
            group.reports.topic(group.env(), &self.subscription.topic, None);
            return Ok(Share::Own { queues, others: false });
        }
        let mut members = match members(&group.cluster, &group.name, route).await {
            Ok(members) => members,
            Err(error) => {
                tracing::warn!(group = &*group.name, topic = name, %error, "queues stay as they are");
                let text = format!("the members of the group are not known, so queues stay as they are: {error}");
                group.reports.topic(group.env(), &self.subscription.topic, Some(&text));
                return Ok(Share::Unknown);
            }
        };
        let own_id = group.cluster.client_id();
        match members.iter().filter(|member| **member == **own_id).count() {
            0 => {
                let text = "the brokers do not count this client among the members of the group (yet)";
                group.reports.topic(group.env(), &self.subscription.topic, Some(text));
                return Err(NotAMember);
            }
            1 => {}
            _ => tracing::warn!(
                group = &*group.name,
                client_id = &**own_id,
                "two members of the group have this id and will get the same messages: give each client its own"
            ),
        }
        allocate::sort_client_ids(&mut members);
        group.reports.members(&members);
        if queues.is_empty() {
            let text = "the topic has no queue that may be read";
            group.reports.topic(group.env(), &self.subscription.topic, Some(text));
            return Ok(Share::Own { queues, others: members.len() > 1 });
        }
        match allocate_safely(group, own_id, &members, &queues) {
            Ok(queues) => {
                group.reports.topic(group.env(), &self.subscription.topic, None);
                Ok(Share::Own { queues, others: members.len() > 1 })
            }
            Err(error) => {
                tracing::warn!(group = &*group.name, topic = name, %error, "queues stay as they are");
                let text = format!("the strategy failed, so queues stay as they are: {error}");
                group.reports.topic(group.env(), &self.subscription.topic, Some(&text));
                Ok(Share::Unknown)
            }
        }
    }
}

/// A strategy may be the user's own, so it may panic.
fn allocate_safely(
    group: &Group,
    own_id: &str,
    members: &[String],
    queues: &[MessageQueue],
) -> Result<Vec<MessageQueue>> {
    let allocate = || group.strategy.allocate(&group.name, own_id, members, queues);
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(allocate))
        .unwrap_or_else(|_| Err(Error::new(ErrorKind::InvalidArgument, "the strategy panicked")))
}

fn read_queues(known: &Known) -> Arc<[MessageQueue]> {
    known.route.as_ref().map(|route| Arc::clone(route.read_queues())).unwrap_or_default()
}

/// The members of the group, from one of the topic's brokers: any of them, and when it does not answer the next.
pub(super) async fn members(cluster: &Cluster, group: &str, route: &Route) -> Result<Vec<String>> {
    let brokers: Vec<_> = route.brokers().filter_map(|broker: &Broker| broker.reading_from(MASTER_ID)).collect();
    let first = cluster.env().random_below(brokers.len());
    let mut failure = Error::new(ErrorKind::NoRoute, "the topic is on no broker");
    for (_, address) in brokers.iter().cycle().skip(first).take(brokers.len()) {
        let deadline = cluster.env().now() + cluster.config().request_timeout;
        match consume::consumer_list(&cluster.peer(address), group, deadline).await {
            Ok(members) => return Ok(members),
            Err(error) => failure = error,
        }
    }
    Err(failure)
}
