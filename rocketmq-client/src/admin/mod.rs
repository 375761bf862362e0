//! Administration: topics, groups, offsets, messages, brokers.
//!
//! [`Admin`] asks brokers and name servers what `mqadmin` asks them, and has them do what it has them do. Nothing is
//! cached: every call asks anew, which brokers there are included.

mod cluster;
mod dead_letters;
mod groups;
mod messages;
mod offsets;
mod topics;

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::future::join_all;
use rocketmq_wire::model::ClusterInfo;
use rocketmq_wire::request::Request;
use rocketmq_wire::request::route::ClusterInfoRequest;
use rocketmq_wire::{ResponseCode, fastjson};
use serde::de::DeserializeOwned;

use crate::cluster::{Cluster, MASTER_ID};
use crate::error::{Error, ErrorKind, Result};
use crate::message::MessageQueue;
use crate::remoting::{Peer, Response};

pub use cluster::{BrokerInfo, BrokerStatus};
pub use dead_letters::{DeadLetterReplay, DeadLetters, ReplayProgress};
pub use groups::{GroupMember, GroupMembers, GroupProgress, GroupSettings, QueueProgress};
pub use offsets::OffsetTarget;
pub use topics::{QueueRange, TopicSettings};

/// How long one operation may take, unless set otherwise: what the Java administrator's tools allow a request.
const TIMEOUT: Duration = Duration::from_secs(5);

/// The property by which a message that was a dead letter tells what id it had then.
pub const REPLAYED_MESSAGE_ID: &str = "REPLAYED_MESSAGE_ID";

/// Administers a cluster, made by [`Client::admin`](crate::Client::admin). Cheap to clone.
///
/// Operations act on all masters of the cluster at once, or on those of a topic, and succeed when all of them did what was
/// asked. An error names the broker that did not; what the others did stays done, and doing it again is safe.
///
/// Dropping the future of an operation gives up the answers, not what brokers are doing.
///
/// ```no_run
/// # async fn example(client: rocketmq_native::Client) -> Result<(), rocketmq_native::Error> {
/// let admin = client.admin();
/// admin.create_topic("orders", 8).await?;
/// println!("{:?}", admin.topics().await?);
/// println!("billing is {} messages behind", admin.progress("billing").await?.lag());
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Admin {
    cluster: Cluster,
    timeout: Duration,
}

impl fmt::Debug for Admin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Admin").field("timeout", &self.timeout).finish_non_exhaustive()
    }
}

/// A master and what it is called.
#[derive(Debug, Clone)]
struct Master {
    name: Arc<str>,
    peer: Peer,
}

impl Admin {
    pub(crate) fn new(cluster: Cluster) -> Self {
        Self { cluster, timeout: TIMEOUT }
    }

    /// Sets how long one operation may take, over all its requests; 5 s by default.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    fn deadline(&self) -> Instant {
        self.cluster.env().now() + self.timeout
    }

    /// What name servers say of the cluster.
    async fn cluster_info(&self, deadline: Instant) -> Result<ClusterInfo> {
        let name_servers = self.cluster.routes().name_servers();
        let answer = name_servers.ask(&ClusterInfoRequest, &[ResponseCode::SUCCESS], deadline).await?;
        body(&answer, "cluster")
    }

    /// All masters, by name.
    async fn masters(&self, deadline: Instant) -> Result<Vec<Master>> {
        let info = self.cluster_info(deadline).await?;
        let masters: Vec<_> = info
            .broker_addr_table
            .iter()
            .filter_map(|(name, broker)| {
                let address = broker.broker_addrs.get(&MASTER_ID)?;
                Some(Master { name: name.as_str().into(), peer: self.cluster.peer(address) })
            })
            .collect();
        if masters.is_empty() {
            let message =
                "the name server knows no broker that is a master: check that brokers run and register with it";
            return Err(Error::new(ErrorKind::NoRoute, message));
        }
        Ok(masters)
    }

    /// The masters that have a topic.
    async fn masters_of(&self, topic: &str, deadline: Instant) -> Result<Vec<Master>> {
        let routes = self.cluster.routes();
        let known = routes.look_up(&routes.topic(&topic.into()), deadline).await?;
        let route = match (known.route, known.failure) {
            (Some(route), _) => route,
            (None, Some(failure)) => return Err(failure),
            (None, None) => return Err(Error::new(ErrorKind::NoRoute, format!("no name server knows `{topic}`"))),
        };
        let master = |broker: &crate::cluster::Broker| {
            let peer = self.cluster.peer(broker.master()?);
            Some(Master { name: Arc::clone(&broker.name), peer })
        };
        Ok(route.brokers().filter_map(master).collect())
    }

    /// A name of a topic or group as the body of a request has to have it.
    fn wrap(&self, name: &str) -> String {
        self.cluster.namespace().wrap(name).into_owned()
    }

    /// A name of a topic or group from the body of an answer as users know it; none if it is not in the client's namespace.
    fn own(&self, name: &str) -> Option<String> {
        let namespace = self.cluster.namespace();
        let plain = namespace.unwrap(name);
        (namespace.is_none() || *plain != *name).then(|| plain.into_owned())
    }

    /// A queue as users see it.
    fn queue(&self, wire: &rocketmq_wire::model::MessageQueue) -> MessageQueue {
        let topic = self.cluster.namespace().unwrap(&wire.topic);
        MessageQueue::new(&*topic, wire.broker_name.as_str(), wire.queue_id)
    }

    /// Does something at all masters at once; the first failure counts.
    async fn at_all<T, F>(&self, masters: &[Master], operation: impl Fn(Master) -> F) -> Result<Vec<T>>
    where
        F: Future<Output = Result<T>>,
    {
        join_all(masters.iter().cloned().map(operation)).await.into_iter().collect()
    }
}

/// Sends a request without a body; anything but success is an error.
async fn call<R: Request>(peer: &Peer, request: &R, deadline: Instant) -> Result<Response> {
    peer.call(request, &Bytes::new(), deadline).await.and_then(Response::success)
}

/// Reads the JSON body of an answer, in any dialect.
fn body<T: DeserializeOwned>(answer: &Response, what: &'static str) -> Result<T> {
    fastjson::from_slice(what, answer.body()).map_err(|error| answer.malformed(error))
}

/// Sends a request and reads the JSON body of its answer.
async fn ask<R: Request, T: DeserializeOwned>(
    peer: &Peer,
    request: &R,
    what: &'static str,
    deadline: Instant,
) -> Result<T> {
    body(&call(peer, request, deadline).await?, what)
}

/// Tables by queue, in the order of topic, broker and number.
fn sorted<T>(table: impl IntoIterator<Item = (MessageQueue, T)>) -> Vec<(MessageQueue, T)> {
    table.into_iter().collect::<BTreeMap<_, _>>().into_iter().collect()
}
