//! What a client knows of its cluster: who the name servers are, where topics live, which brokers there are.

mod broker;
mod brokers;
pub(crate) mod consume;
pub(crate) mod discovery;
mod first_commits;
mod heartbeat;
mod identity;
mod name_server;
mod replies;
mod route;
mod route_cache;
#[cfg(test)]
mod tests;
mod transaction_checks;

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use rocketmq_wire::message::id::{UniqueId, UniqueIdSuffix};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use self::first_commits::FirstCommits;
use self::heartbeat::{Heartbeats, Untold};
use self::name_server::NameServers;
use crate::config::Config;
use crate::env::{Env, Task};
use crate::error::{Error, ErrorKind, Result};
use crate::message::MessageQueue;
use crate::namespace::Namespace;
use crate::remoting::{Peer, Pool};

pub(crate) use brokers::Brokers;
pub(crate) use heartbeat::{Groups, Membership};
pub(crate) use identity::Identity;
pub(crate) use replies::Replies;
pub(crate) use route::{Broker, MASTER_ID, Route, WriteQueue};
pub(crate) use route_cache::{Known, QUEUES_OF_NEW_TOPIC, RouteCache, Topic};
pub(crate) use transaction_checks::{Answering, Check, CheckQueue, TransactionChecks};

/// One client's view of its cluster, and the tasks that keep it true; clones are the same.
///
/// The tasks end when the last clone is dropped.
#[derive(Debug, Clone)]
pub(crate) struct Cluster(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    env: Env,
    config: Config,
    identity: Identity,
    first_commits: FirstCommits,
    namespace: Namespace,
    pool: Pool,
    routes: RouteCache,
    groups: Groups,
    replies: Replies,
    transaction_checks: TransactionChecks,
    brokers: watch::Receiver<Arc<Brokers>>,
    tasks: Mutex<Vec<Task>>,
    closed: CancellationToken,
    /// The same, to be looked at for each message.
    is_closed: AtomicBool,
}

impl Cluster {
    /// Knows nothing of the cluster yet, and starts the tasks that will.
    pub(crate) fn new(
        env: Env,
        config: Config,
        namespace: Namespace,
        name_servers: NameServers,
        pool: Pool,
        identity: Identity,
    ) -> Self {
        let routes = RouteCache::new(env.clone(), name_servers, config.request_timeout, config.route_interval);
        let groups = Groups::new(Arc::clone(&identity.client_id), namespace.clone());
        let heartbeats = Heartbeats {
            env: env.clone(),
            pool: pool.clone(),
            groups: groups.clone(),
            brokers: routes.brokers(),
            interval: config.heartbeat_interval,
            request_timeout: config.request_timeout,
            known: BTreeSet::new(),
            opened_by_heartbeat: BTreeSet::new(),
            untold: Untold::new(&env, config.heartbeat_interval),
        };
        let tasks = vec![env.spawn(routes.clone().keep_fresh(config.route_interval)), env.spawn(heartbeats.run())];
        let brokers = routes.brokers();
        let (tasks, closed) = (Mutex::new(tasks), CancellationToken::new());
        Self(Arc::new(Inner {
            env,
            config,
            identity,
            first_commits: FirstCommits::default(),
            namespace,
            pool,
            routes,
            groups,
            replies: Replies::default(),
            transaction_checks: TransactionChecks::default(),
            brokers,
            tasks,
            closed,
            is_closed: false.into(),
        }))
    }

    /// Time, randomness and tasks.
    pub(crate) fn env(&self) -> &Env {
        &self.0.env
    }

    /// Settings of the client.
    pub(crate) fn config(&self) -> &Config {
        &self.0.config
    }

    /// What names this client at brokers.
    pub(crate) fn client_id(&self) -> &Arc<str> {
        &self.0.identity.client_id
    }

    /// The namespace of all names. Headers of requests are translated by themselves; bodies, and messages received, are
    /// not.
    pub(crate) fn namespace(&self) -> &Namespace {
        &self.0.namespace
    }

    /// Whether the client id is the same each time that the user's program runs.
    pub(crate) fn has_instance_name(&self) -> bool {
        self.0.identity.has_instance_name
    }

    /// A message id that no other message has, made at `now_ms` (milliseconds since 1970).
    pub(crate) fn unique_id(&self, now_ms: i64) -> UniqueId {
        self.unique_id_of(self.unique_id_suffix(now_ms))
    }

    /// The part of a new message id that has to be kept.
    #[inline]
    pub(crate) fn unique_id_suffix(&self, now_ms: i64) -> UniqueIdSuffix {
        self.0.identity.next_unique_id(now_ms)
    }

    /// What all message ids begin with.
    pub(crate) fn unique_id_prefix(&self) -> &str {
        self.0.identity.unique_id_prefix()
    }

    /// The message id of that suffix.
    #[inline]
    pub(crate) fn unique_id_of(&self, suffix: UniqueIdSuffix) -> UniqueId {
        self.0.identity.unique_id(suffix)
    }

    /// Stores the offset that a group goes on from in a queue, at the broker that `peer` is.
    pub(crate) async fn commit_offset(
        &self,
        peer: &Peer,
        group: &str,
        queue: &MessageQueue,
        offset: i64,
        deadline: Instant,
    ) -> Result<()> {
        let turn = self.0.first_commits.turn(group, queue.topic(), peer.address());
        let Some(first) = self.0.env.within(deadline, turn).await else {
            return Err(Error::new(ErrorKind::Timeout, "the commits before this one took all its time")
                .with_operation("commit the consumer offset"));
        };
        let committed = consume::update_consumer_offset(peer, group, queue, offset, deadline).await;
        if let (Some(first), Ok(())) = (first, &committed) {
            first.done();
        }
        committed
    }

    /// Where topics are.
    pub(crate) fn routes(&self) -> &RouteCache {
        &self.0.routes
    }

    /// The groups that this client belongs to.
    pub(crate) fn groups(&self) -> &Groups {
        &self.0.groups
    }

    /// Who waits for replies.
    pub(crate) fn replies(&self) -> &Replies {
        &self.0.replies
    }

    /// Who answers for the transactions of which group.
    pub(crate) fn transaction_checks(&self) -> &TransactionChecks {
        &self.0.transaction_checks
    }

    /// The name of the broker that some route in use has at an address.
    pub(crate) fn broker_at(&self, address: &str) -> Option<Arc<str>> {
        self.0.brokers.borrow().name_at(address)
    }

    /// The server at an address.
    pub(crate) fn peer(&self, address: &str) -> Peer {
        self.0.pool.peer(address)
    }

    /// The connections.
    pub(crate) fn pool(&self) -> &Pool {
        &self.0.pool
    }

    /// The server at an address, for sending messages to.
    pub(crate) fn sending_peer(&self, address: &str) -> Peer {
        let vip = self.config().vip_channel.then(|| {
            let (host, port) = address.rsplit_once(':')?;
            let port = port.parse::<u16>().ok()?.checked_sub(2).filter(|port| *port > 0)?;
            Some(format!("{host}:{port}"))
        });
        self.peer(vip.flatten().as_deref().unwrap_or(address))
    }

    /// The master of a broker that some route in use names.
    pub(crate) fn master(&self, broker: &str) -> Option<Peer> {
        let brokers = self.0.brokers.borrow();
        brokers.broker(broker).and_then(Broker::master).map(|address| self.peer(address))
    }

    /// The replica to read from when that of id `wanted` is asked for, and its id.
    pub(crate) fn replica(&self, broker: &str, wanted: i64) -> Option<(i64, Peer)> {
        let brokers = self.0.brokers.borrow();
        let (id, address) = brokers.broker(broker)?.reading_from(wanted)?;
        Some((id, self.peer(address)))
    }

    /// The id of a replica of a broker that is not its master, if there is one.
    pub(crate) fn slave(&self, broker: &str) -> Option<i64> {
        let brokers = self.0.brokers.borrow();
        let mut ids = brokers.broker(broker)?.addresses.keys().copied();
        ids.find(|id| *id != MASTER_ID)
    }

    /// The name server that is asked first.
    pub(crate) fn name_server(&self) -> Arc<str> {
        self.0.routes.name_servers().preferred()
    }

    /// Whether the client is closed.
    pub(crate) fn is_closed(&self) -> bool {
        self.0.is_closed.load(Ordering::Acquire)
    }

    /// Cancelled when the client is closed.
    pub(crate) fn closed(&self) -> &CancellationToken {
        &self.0.closed
    }

    /// Keeps a task running until the client ends.
    pub(crate) fn own(&self, task: Task) {
        self.tasks().push(task);
    }

    fn tasks(&self) -> MutexGuard<'_, Vec<Task>> {
        // A push or a take cannot panic half way.
        self.0.tasks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Leaves all groups, then ends the tasks and the connections, by the deadline. Calling it twice is fine.
    ///
    /// Dropping the future ends the connections at once.
    pub(crate) async fn close(&self, deadline: Instant) {
        self.0.is_closed.store(true, Ordering::Release);
        self.0.closed.cancel();
        self.0.env.within(deadline, self.0.groups.leave_all()).await;
        self.0.routes.close();
        let tasks = std::mem::take(&mut *self.tasks());
        for task in tasks {
            task.cancel();
            // An error says that it was cancelled.
            let _ = task.await;
        }
        self.0.pool.close(deadline).await;
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.closed.cancel();
        self.routes.close();
    }
}

/// Opens the view of a cluster, once one of its name servers has answered.
pub(crate) async fn reach(env: &Env, pool: &Pool, addresses: &[String], deadline: Instant) -> Result<NameServers> {
    let name_servers = NameServers::new(env.clone(), pool.clone(), addresses);
    name_servers.route(&rocketmq_wire::message::names::DEFAULT_TOPIC.into(), deadline).await?;
    Ok(name_servers)
}
