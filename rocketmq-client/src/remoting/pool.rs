//! One peer for each address.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tokio::sync::{broadcast, mpsc};

use super::connection::lock;
use super::dial::Dial;
use super::incoming::Incoming;
use super::options::{ConnectionOptions, ConnectionStats};
use super::peer::Peer;
use super::supervisor::Supervisor;
use crate::env::{Env, Task};
use crate::error::Error;

/// Requests from servers that may wait to be handled, all connections together.
const INCOMING: usize = 1024;

/// Events kept for a receiver that does not keep up; older ones are lost to it.
const EVENTS: usize = 256;

/// How connections are made and kept.
#[derive(Debug, Clone)]
pub struct PoolOptions {
    /// How each connection behaves.
    pub connection: ConnectionOptions,
    /// The time for resolving a name, and then for each of its addresses to be reached; 3 s by default.
    pub connect_timeout: Duration,
    /// The first wait after a connection could not be opened, or was lost before the server answered on it; 100 ms by
    /// default. Waits are jittered and double.
    pub first_backoff: Duration,
    /// The longest such wait; 5 s by default.
    pub longest_backoff: Duration,
    /// How servers are reached; at the addresses that they state, directly and in the clear by default.
    pub dial: Dial,
}

impl Default for PoolOptions {
    fn default() -> Self {
        Self {
            connection: ConnectionOptions::default(),
            connect_timeout: Duration::from_secs(3),
            first_backoff: Duration::from_millis(100),
            longest_backoff: Duration::from_secs(5),
            dial: Dial::default(),
        }
    }
}

/// Something that happened to a connection. The address is the one asked for, as `host:port`.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum ConnectionEvent {
    /// A connection was opened.
    Opened(Arc<str>),
    /// A connection could not be opened.
    Failed(Arc<str>, Error),
    /// An open connection ended.
    Lost(Arc<str>, Error),
}

/// The connections of one client; clones are the same pool.
///
/// Dropping the last clone ends all connections at once, and every [`Peer`] then says that it is closed.
#[derive(Clone)]
pub struct Pool(Arc<Inner>);

struct Inner {
    env: Env,
    options: Arc<PoolOptions>,
    incoming: mpsc::Sender<Incoming>,
    events: broadcast::Sender<ConnectionEvent>,
    peers: Mutex<Peers>,
}

#[derive(Default)]
struct Peers {
    by_address: HashMap<Arc<str>, (Peer, Task)>,
    closed: bool,
}

impl Pool {
    /// A pool without connections, and the requests that servers will send over them: 1,024 wait to be received, then
    /// servers wait.
    ///
    /// Dropping the receiver makes all such requests be answered as not supported.
    pub fn new(env: Env, options: PoolOptions) -> (Self, mpsc::Receiver<Incoming>) {
        let (incoming, requests) = mpsc::channel(INCOMING);
        let (events, _) = broadcast::channel(EVENTS);
        let inner = Inner { env, options: Arc::new(options), incoming, events, peers: Mutex::default() };
        (Self(Arc::new(inner)), requests)
    }

    /// The server at an address, `host:port` with a name or a numeric address. Nothing is connected yet; an address that
    /// is none is an error of the first call.
    pub fn peer(&self, address: &str) -> Peer {
        let Inner { env, options, incoming, events, peers } = &*self.0;
        let mut peers = lock(peers);
        if let Some((peer, _)) = peers.by_address.get(address) {
            return peer.clone();
        }
        let address: Arc<str> = address.into();
        let peer = Peer::new(Arc::clone(&address), env.clone());
        if peers.closed {
            peer.close();
            return peer;
        }
        let supervisor =
            Supervisor::new(peer.clone(), env.clone(), Arc::clone(options), incoming.clone(), events.clone());
        let task = env.spawn(supervisor.run());
        peers.by_address.insert(address, (peer.clone(), task));
        peer
    }

    /// Ends the connection to an address and forgets it; handles on that [`Peer`] say that it is closed.
    pub fn forget(&self, address: &str) {
        // Dropping the task closes the peer, which wakes callers: not under the lock.
        let forgotten = lock(&self.0.peers).by_address.remove(address);
        drop(forgotten);
    }

    /// What happens on each open connection, by address.
    pub fn stats(&self) -> BTreeMap<String, ConnectionStats> {
        let peers = lock(&self.0.peers);
        let open =
            peers.by_address.iter().filter_map(|(address, (peer, _))| Some((address.to_string(), peer.stats()?)));
        open.collect()
    }

    /// Connections that are opened, cannot be opened, or end, from now on. A receiver that does not keep up misses the
    /// oldest events and is told how many.
    pub fn events(&self) -> broadcast::Receiver<ConnectionEvent> {
        self.0.events.subscribe()
    }

    /// Ends all connections: what has been handed to them is written, within the deadline; calls that still await an
    /// answer fail with [`ErrorKind::Closed`](crate::ErrorKind::Closed). Calling it twice is fine.
    ///
    /// Dropping the future ends the connections at once.
    pub async fn close(&self, deadline: Instant) {
        let peers: Vec<_> = {
            let mut peers = lock(&self.0.peers);
            peers.closed = true;
            peers.by_address.drain().map(|(_, peer)| peer).collect()
        };
        for (peer, _) in &peers {
            peer.close();
        }
        for (_, task) in peers {
            // A task that did not end in time is cancelled by being dropped.
            self.0.env.within(deadline, task).await;
        }
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool").field("options", &self.0.options).finish_non_exhaustive()
    }
}
