//! Telling brokers which groups this client belongs to.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::future::join_all;
use rocketmq_wire::model::{ConsumerData, HeartbeatData, ProducerData};
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{Notify, mpsc, oneshot, watch};

use super::broker;
use super::brokers::Brokers;
use crate::backoff::Backoff;
use crate::env::Env;
use crate::error::{Error, ErrorKind, Result};
use crate::namespace::Namespace;
use crate::remoting::{ConnectionEvent, Incoming, Pool};

/// A group that this client belongs to, in one of the two roles.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Group {
    Producer(Arc<str>),
    Consumer(Arc<str>),
}

/// The groups of a client; clones are the same.
#[derive(Debug, Clone)]
pub(crate) struct Groups(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    client_id: Arc<str>,
    namespace: Namespace,
    state: Mutex<State>,
    /// Wakes [`Heartbeats`] when there is something in `state` for it.
    work: Notify,
}

#[derive(Debug, Default)]
struct State {
    /// Producers of each group.
    producers: BTreeMap<Arc<str>, usize>,
    consumers: BTreeMap<Arc<str>, Consumer>,
    /// Groups to leave, and who waits for it.
    leaving: Vec<(Group, Option<oneshot::Sender<()>>)>,
    /// Whether to tell all brokers now, and who waits for it.
    tell: bool,
    waiting: Vec<oneshot::Sender<()>>,
    /// Nobody works any more: who waits is let go.
    ended: bool,
}

impl State {
    /// Waits for the telling that is asked for with this; not at all when nobody works any more.
    fn await_telling(&mut self) -> oneshot::Receiver<()> {
        let (told, wait) = oneshot::channel();
        if !self.ended {
            self.waiting.push(told);
        }
        wait
    }
}

/// The first wait before a broker is told again that could not be told; it doubles up to the interval of heartbeats.
const FIRST_RETRY: Duration = Duration::from_secs(1);

/// Requests of brokers to one consumer that wait for it, at most; one more is refused.
const REQUESTS: usize = 16;

#[derive(Debug)]
struct Consumer {
    data: ConsumerData,
    changed: Arc<Notify>,
    requests: mpsc::Sender<Incoming>,
}

impl Groups {
    pub(super) fn new(client_id: Arc<str>, namespace: Namespace) -> Self {
        Self(Arc::new(Shared { client_id, namespace, state: Mutex::default(), work: Notify::new() }))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Every change is one step that cannot panic half way.
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Joins a producer group; brokers are told at once, in the background. Several producers may share a group.
    pub(crate) fn join_as_producer(&self, group: &Arc<str>) -> Membership {
        let mut state = self.state();
        *state.producers.entry(Arc::clone(group)).or_default() += 1;
        state.tell = true;
        drop(state);
        self.0.work.notify_one();
        Membership::new(self, Group::Producer(Arc::clone(group)), None)
    }

    /// Joins a consumer group; brokers are told at once, in the background.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidArgument`] when this client is in the group already.
    pub(crate) fn join_as_consumer(&self, data: ConsumerData) -> Result<Membership> {
        let group: Arc<str> = data.group_name.as_str().into();
        let mut state = self.state();
        if state.consumers.contains_key(&group) {
            return Err(Error::new(
                ErrorKind::InvalidArgument,
                format!(
                    "this client already has a consumer of the group `{group}`: subscribe that one to more topics, or \
                     use a second client"
                ),
            ));
        }
        let changed = Arc::new(Notify::new());
        let (requests, incoming) = mpsc::channel(REQUESTS);
        state.consumers.insert(Arc::clone(&group), Consumer { data, changed: Arc::clone(&changed), requests });
        state.tell = true;
        drop(state);
        self.0.work.notify_one();
        let mut membership = Membership::new(self, Group::Consumer(group), Some(changed));
        membership.requests = Some(incoming);
        Ok(membership)
    }

    /// Says of a consumer that has joined what it subscribes to now; brokers learn it with the next heartbeat.
    pub(crate) fn update_consumer(&self, data: ConsumerData) {
        if let Some(consumer) = self.state().consumers.get_mut(data.group_name.as_str()) {
            consumer.data = data;
        }
    }

    /// Hands the request of a broker to the consumer of a group; gives it back when there is none, or it does not keep up.
    pub(crate) fn pass_on(&self, group: &str, request: Incoming) -> Result<(), Incoming> {
        let requests = self.state().consumers.get(group).map(|consumer| consumer.requests.clone());
        let Some(requests) = requests else { return Err(request) };
        requests.try_send(request).map_err(|error| match error {
            TrySendError::Full(request) | TrySendError::Closed(request) => request,
        })
    }

    /// Wakes the consumer of a group: the group's members or their subscriptions changed.
    pub(crate) fn consumer_group_changed(&self, group: &str) {
        if let Some(consumer) = self.state().consumers.get(group) {
            consumer.changed.notify_one();
        }
    }

    /// Tells all known brokers now, and waits until they have answered or failed to.
    ///
    /// Dropping the future does not stop the telling.
    pub(crate) async fn tell_brokers(&self) {
        let wait = {
            let mut state = self.state();
            state.tell = true;
            state.await_telling()
        };
        self.0.work.notify_one();
        // An error means that the client was closed meanwhile: nobody is left to be told.
        let _ = wait.await;
    }

    /// Leaves all groups, and waits until brokers know or cannot be told.
    ///
    /// Dropping the future does not stop the leaving.
    pub(super) async fn leave_all(&self) {
        let wait = {
            let mut state = self.state();
            let producers = std::mem::take(&mut state.producers).into_keys().map(Group::Producer);
            let consumers = std::mem::take(&mut state.consumers).into_keys().map(Group::Consumer);
            let groups: Vec<_> = producers.chain(consumers).map(|group| (group, None)).collect();
            state.leaving.extend(groups);
            // Groups are left before brokers are told, so that who waits for the one waits for the other.
            state.await_telling()
        };
        self.0.work.notify_one();
        let _ = wait.await;
    }

    fn leave(&self, group: &Group, left: Option<oneshot::Sender<()>>) {
        let mut state = self.state();
        let last = match group {
            Group::Consumer(name) => state.consumers.remove(name).is_some(),
            Group::Producer(name) => match state.producers.get_mut(name) {
                Some(count) if *count > 1 => {
                    *count -= 1;
                    false
                }
                _ => state.producers.remove(name).is_some(),
            },
        };
        if last && !state.ended {
            state.leaving.push((group.clone(), left));
            drop(state);
            self.0.work.notify_one();
        }
    }

    /// A consumer with the names that brokers know.
    fn wrapped(&self, data: &ConsumerData) -> ConsumerData {
        let mut data = data.clone();
        let names = data.subscription_data_set.iter_mut().map(|subscription| &mut subscription.topic);
        for name in names.chain([&mut data.group_name]) {
            *name = self.0.namespace.wrap(name).into_owned();
        }
        data
    }

    /// What brokers are to be told; `None` without groups.
    fn heartbeat(&self) -> Option<HeartbeatData> {
        let state = self.state();
        if state.producers.is_empty() && state.consumers.is_empty() {
            return None;
        }
        Some(HeartbeatData {
            client_id: self.0.client_id.to_string(),
            producer_data_set: state
                .producers
                .keys()
                .map(|group| ProducerData { group_name: self.0.namespace.wrap(group).into_owned() })
                .collect(),
            consumer_data_set: state.consumers.values().map(|consumer| self.wrapped(&consumer.data)).collect(),
            ..Default::default()
        })
    }
}

/// Belonging to a group. Dropping it leaves the group, in the background.
#[derive(Debug)]
pub(crate) struct Membership {
    groups: Groups,
    group: Group,
    changed: Option<Arc<Notify>>,
    requests: Option<mpsc::Receiver<Incoming>>,
    left: bool,
}

impl Membership {
    fn new(groups: &Groups, group: Group, changed: Option<Arc<Notify>>) -> Self {
        Self { groups: groups.clone(), group, changed, requests: None, left: false }
    }

    /// What brokers ask of the consumer; once.
    pub(crate) fn take_requests(&mut self) -> Option<mpsc::Receiver<Incoming>> {
        self.requests.take()
    }

    /// Leaves the group and waits until the brokers know, or cannot be told.
    ///
    /// Dropping the future leaves the group in the background.
    pub(crate) async fn leave(mut self) {
        let (left, wait) = oneshot::channel();
        self.groups.leave(&self.group, Some(left));
        self.left = true;
        // An error means that others stay in the group, or that the client was closed.
        let _ = wait.await;
    }

    /// Waits until a broker says that the consumer group has changed, or a connection to a broker was made anew. Never
    /// ends for a producer.
    pub(crate) async fn changed(&self) {
        match &self.changed {
            Some(changed) => changed.notified().await,
            None => std::future::pending().await,
        }
    }
}

impl Drop for Membership {
    fn drop(&mut self) {
        if !self.left {
            self.groups.leave(&self.group, None);
        }
    }
}

/// The task that tells the brokers: every interval, when a group is joined, when a broker appears, and when a
/// connection to one is made anew; again soon when one could not be told, as until then it asks this client nothing. It
/// also leaves groups, so that no heartbeat under way joins them again.
#[derive(Debug)]
pub(super) struct Heartbeats {
    pub(super) env: Env,
    pub(super) pool: Pool,
    pub(super) groups: Groups,
    pub(super) brokers: watch::Receiver<Arc<Brokers>>,
    pub(super) interval: Duration,
    pub(super) request_timeout: Duration,
    /// Brokers that have been told at least once.
    pub(super) known: BTreeSet<Arc<str>>,
    /// Brokers whose heartbeat opened the connection that an event is still to report.
    pub(super) opened_by_heartbeat: BTreeSet<Arc<str>>,
    /// Brokers that could not be told the last time, and when to try again.
    pub(super) untold: Untold,
}

/// Brokers that could not be told.
#[derive(Debug)]
pub(super) struct Untold {
    addresses: BTreeSet<Arc<str>>,
    wait: Backoff,
    again: Instant,
}

impl Untold {
    pub(super) fn new(env: &Env, interval: Duration) -> Self {
        Self { addresses: BTreeSet::new(), wait: Backoff::new(FIRST_RETRY, interval), again: env.now() }
    }
}

impl Drop for Heartbeats {
    fn drop(&mut self) {
        let mut state = self.groups.state();
        state.ended = true;
        let (leaving, waiting) = (std::mem::take(&mut state.leaving), std::mem::take(&mut state.waiting));
        // Not under the lock: this wakes whoever waits.
        drop(state);
        drop((leaving, waiting));
    }
}

impl Heartbeats {
    /// Works until dropped.
    pub(super) async fn run(mut self) {
        let mut events = self.pool.events();
        let mut next = self.env.now() + self.interval;
        loop {
            tokio::select! {
                biased;
                () = self.groups.0.work.notified() => self.do_work().await,
                changed = self.brokers.changed() => {
                    if changed.is_err() {
                        // The client is gone.
                        return;
                    }
                    self.greet_new_brokers().await;
                }
                event = events.recv() => match event {
                    Ok(ConnectionEvent::Opened(address)) => self.greet_again(address).await,
                    Ok(_) => {}
                    // Some were missed: tell everybody, to be sure.
                    Err(RecvError::Lagged(_)) => self.tell(self.addresses()).await,
                    Err(RecvError::Closed) => return,
                },
                () = self.env.sleep_until(next) => {
                    next = (next + self.interval).max(self.env.now());
                    self.tell(self.addresses()).await;
                }
                () = self.env.sleep_until(self.untold.again), if !self.untold.addresses.is_empty() => {
                    let known = self.addresses();
                    let addresses = std::mem::take(&mut self.untold.addresses);
                    self.tell(addresses.into_iter().filter(|address| known.contains(address)).collect()).await;
                }
            }
        }
    }

    async fn do_work(&mut self) {
        let (leaving, tell, waiting) = {
            let mut state = self.groups.state();
            (std::mem::take(&mut state.leaving), std::mem::take(&mut state.tell), std::mem::take(&mut state.waiting))
        };
        for (group, left) in leaving {
            self.unregister(&group).await;
            let _ = left.map(|left| left.send(()));
        }
        if tell {
            self.tell(self.addresses()).await;
        }
        for told in waiting {
            let _ = told.send(());
        }
    }

    /// Those that get heartbeats: masters, and slaves when there is a consumer, which may read from them.
    fn addresses(&self) -> BTreeSet<Arc<str>> {
        let with_slaves = !self.groups.state().consumers.is_empty();
        self.brokers.borrow().addresses(with_slaves)
    }

    async fn greet_new_brokers(&mut self) {
        let addresses = self.addresses();
        self.known.retain(|address| addresses.contains(address));
        let new = addresses.difference(&self.known).cloned().collect();
        self.tell(new).await;
    }

    /// The broker has forgotten this client when the old connection ended, and its groups have been told so.
    async fn greet_again(&mut self, address: Arc<str>) {
        // Others are name servers, and brokers that are about to be told anyway.
        if self.opened_by_heartbeat.remove(&address) || !self.known.contains(&address) {
            return;
        }
        self.tell([address].into()).await;
        for consumer in self.groups.state().consumers.values() {
            consumer.changed.notify_one();
        }
    }

    async fn tell(&mut self, addresses: BTreeSet<Arc<str>>) {
        let Some(heartbeat) = self.groups.heartbeat() else { return };
        let body = match serde_json::to_vec(&heartbeat) {
            Ok(body) => Bytes::from(body),
            Err(error) => return tracing::error!(%error, "a heartbeat cannot be written"),
        };
        let deadline = self.env.now() + self.request_timeout;
        let told = join_all(addresses.iter().map(|address| self.tell_one(address, &body, deadline))).await;
        let mut failed = false;
        for (address, told) in addresses.into_iter().zip(told) {
            let Some(opened) = told else {
                failed = true;
                self.untold.addresses.insert(address);
                continue;
            };
            if opened {
                self.opened_by_heartbeat.insert(Arc::clone(&address));
            }
            self.untold.addresses.remove(&address);
            self.known.insert(address);
        }
        if failed {
            self.untold.again = self.env.now() + self.untold.wait.next(self.env.random());
        } else if self.untold.addresses.is_empty() {
            self.untold.wait.reset();
        }
    }

    /// Whether the connection to the broker had to be opened; `None` when it could not be told.
    async fn tell_one(&self, address: &Arc<str>, body: &Bytes, deadline: Instant) -> Option<bool> {
        let peer = self.pool.peer(address);
        let opens = !peer.is_connected();
        match broker::heartbeat(&peer, body, deadline).await {
            Ok(()) => Some(opens),
            Err(error) => {
                tracing::debug!(server.address = &**address, %error, "a broker could not be told that this client lives");
                None
            }
        }
    }

    async fn unregister(&self, group: &Group) {
        let deadline = self.env.now() + self.request_timeout;
        let client_id = &self.groups.0.client_id;
        let one = |address: Arc<str>| async move {
            // A broker that this client has no connection to has dropped it when the last one ended.
            let peer = self.pool.peer(&address);
            if !peer.is_connected() {
                return;
            }
            if let Err(error) = broker::unregister(&peer, client_id, group, deadline).await {
                tracing::debug!(server.address = &*address, %error, "a broker could not be told that this client leaves");
            }
        };
        let addresses = self.brokers.borrow().addresses(true);
        join_all(addresses.into_iter().map(one)).await;
    }
}
