//! A network inside the process, for tests.

use std::collections::HashMap;
use std::future::pending;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use tokio::io::{DuplexStream, duplex};
use tokio::sync::mpsc;

use super::{Network, Stream};

/// How many opened streams may wait to be accepted; one more is refused.
const BACKLOG: usize = 128;

/// Named hosts and listening addresses, all in memory.
///
/// Clones share one network. An address nobody listens on refuses connections.
#[derive(Debug, Clone, Default)]
pub struct MemoryNetwork(Arc<Mutex<Tables>>);

#[derive(Debug, Default)]
struct Tables {
    hosts: HashMap<String, Vec<SocketAddr>>,
    listeners: HashMap<SocketAddr, Listening>,
}

#[derive(Debug, Clone)]
enum Listening {
    /// Streams go to a listener; each direction holds this many bytes.
    Accepting(mpsc::Sender<DuplexStream>, usize),
    /// Connecting never ends.
    BlackHole,
}

/// Accepts the streams opened to one address; dropping it makes the address refuse.
#[derive(Debug)]
pub struct MemoryListener(mpsc::Receiver<DuplexStream>);

impl MemoryNetwork {
    fn tables(&self) -> MutexGuard<'_, Tables> {
        // Every change is one insertion, so a panic elsewhere leaves the tables whole.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives a host name its addresses, in the order in which they will be tried.
    pub fn add_host(&self, host: &str, addresses: &[SocketAddr]) {
        self.tables().hosts.insert(host.to_owned(), addresses.to_vec());
    }

    /// Listens on an address, with `buffer` bytes in flight in each direction of each stream.
    pub fn listen(&self, address: SocketAddr, buffer: usize) -> MemoryListener {
        let (streams, accepted) = mpsc::channel(BACKLOG);
        self.tables().listeners.insert(address, Listening::Accepting(streams, buffer));
        MemoryListener(accepted)
    }

    /// Makes connecting to an address wait for ever.
    pub fn swallow(&self, address: SocketAddr) {
        self.tables().listeners.insert(address, Listening::BlackHole);
    }
}

impl MemoryListener {
    /// The server's end of the next stream.
    ///
    /// Dropping the future loses nothing. It never ends once the network is gone.
    pub async fn accept(&mut self) -> DuplexStream {
        match self.0.recv().await {
            Some(stream) => stream,
            None => pending().await,
        }
    }
}

#[async_trait]
impl Network for MemoryNetwork {
    async fn resolve(&self, host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
        if let Ok(ip) = host.parse() {
            return Ok(vec![SocketAddr::new(ip, port)]);
        }
        let addresses = self.tables().hosts.get(host).cloned();
        addresses.ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, format!("no host named {host}")))
    }

    async fn connect(&self, address: SocketAddr) -> io::Result<Stream> {
        let listening = self.tables().listeners.get(&address).cloned();
        match listening {
            Some(Listening::Accepting(streams, buffer)) => {
                let (ours, theirs) = duplex(buffer);
                streams.try_send(theirs).map_err(|_| io::Error::from(io::ErrorKind::ConnectionRefused))?;
                Ok(Stream::Memory(ours))
            }
            Some(Listening::BlackHole) => pending().await,
            None => Err(io::ErrorKind::ConnectionRefused.into()),
        }
    }
}
