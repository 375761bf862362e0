//! Keeps one peer connected: the only place that opens connections.

use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Instant;

use tokio::sync::{broadcast, mpsc};

use super::connection::Connection;
use super::driver::Driver;
use super::incoming::Incoming;
use super::peer::{Link, Peer};
use super::pool::{ConnectionEvent, PoolOptions};
use crate::backoff::Backoff;
use crate::env::{Env, Task};
use crate::error::{Error, ErrorKind, Result};
use crate::transport::Stream;

/// Addresses of one name that are tried.
const MOST_ADDRESSES: usize = 16;

/// The task of one [`Peer`]: connects on demand, runs the connection, backs off. Dropped, it closes the peer.
pub(super) struct Supervisor {
    peer: Peer,
    env: Env,
    options: Arc<PoolOptions>,
    incoming: mpsc::Sender<Incoming>,
    events: broadcast::Sender<ConnectionEvent>,
    backoff: Backoff,
    attempt: u64,
    not_before: Option<Instant>,
    /// Connections that no new call uses, until their last answer.
    left: Vec<Task<Error>>,
}

impl Supervisor {
    pub(super) fn new(
        peer: Peer,
        env: Env,
        options: Arc<PoolOptions>,
        incoming: mpsc::Sender<Incoming>,
        events: broadcast::Sender<ConnectionEvent>,
    ) -> Self {
        let backoff = Backoff::new(options.first_backoff, options.longest_backoff);
        Self { peer, env, options, incoming, events, backoff, attempt: 0, not_before: None, left: Vec::new() }
    }

    pub(super) async fn run(mut self) {
        let mut link = self.peer.watch();
        let closed = async move {
            // An error means that the peer is gone, which it cannot be while this supervisor holds it.
            let _ = link.wait_for(|link| matches!(link, Link::Closed)).await;
        };
        let mut closed = pin!(closed);
        loop {
            let connected = tokio::select! {
                biased;
                () = &mut closed => return,
                connected = self.connect_on_demand() => connected,
            };
            match connected {
                Ok(stream) => {
                    if self.serve(stream).await {
                        return;
                    }
                }
                Err(error) => self.failed(error),
            }
        }
    }

    async fn connect_on_demand(&mut self) -> Result<Stream> {
        self.peer.demanded().await;
        if let Some(at) = self.not_before {
            self.env.sleep_until(at).await;
        }
        self.attempt += 1;
        connect(&self.env, self.peer.address(), &self.options).await
    }

    fn failed(&mut self, error: Error) {
        let again_at = self.back_off();
        let _ = self.events.send(ConnectionEvent::Failed(Arc::clone(self.peer.address()), error.clone()));
        self.peer.set(Link::Failed { attempt: self.attempt, error, again_at });
    }

    fn back_off(&mut self) -> Instant {
        let again_at = self.env.now() + self.backoff.next(self.env.random());
        self.not_before = Some(again_at);
        again_at
    }

    /// Runs a connection until it ends or is left for another. True when the peer was closed.
    async fn serve(&mut self, stream: Stream) -> bool {
        let address = self.peer.address();
        let (connection, driver) = Connection::open(
            Arc::clone(address),
            stream,
            &self.env,
            &self.options.connection,
            Some(self.incoming.clone()),
        );
        let mut link = self.peer.watch();
        self.peer.set(Link::Up(connection.clone()));
        let _ = self.events.send(ConnectionEvent::Opened(Arc::clone(address)));
        let mut driver = Box::pin(driver);
        let ended = tokio::select! {
            biased;
            cause = &mut driver => Some(cause),
            _ = link.wait_for(|link| !matches!(link, Link::Up(_))) => None,
        };
        let Some(cause) = ended else { return self.part(&connection, driver).await };
        if connection.peer_version().is_some() {
            self.backoff.reset();
            self.not_before = None;
        } else {
            self.back_off();
        }
        self.peer.set(Link::Down);
        let _ = self.events.send(ConnectionEvent::Lost(Arc::clone(self.peer.address()), cause));
        false
    }

    /// The link leads elsewhere although the connection is good: the peer was closed, or calls are to use a new one.
    async fn part(&mut self, connection: &Connection, driver: std::pin::Pin<Box<Driver>>) -> bool {
        if matches!(&*self.peer.watch().borrow(), Link::Closed) {
            connection.finish(&Error::new(ErrorKind::Closed, "the client was closed"));
            driver.await;
            return true;
        }
        connection.retire(&Error::new(ErrorKind::Connection, "the server is going away"));
        self.left.retain(|task| !task.is_finished());
        self.left.push(self.env.spawn(driver));
        false
    }
}

impl Drop for Supervisor {
    fn drop(&mut self) {
        self.peer.close();
    }
}

/// Opens a stream to the first address of `address` that can be reached.
async fn connect(env: &Env, address: &Arc<str>, options: &PoolOptions) -> Result<Stream> {
    let refused =
        |kind, message: String| Error::new(kind, message).with_operation("connect").with_broker(Arc::clone(address));
    let (host, port) = split(address).ok_or_else(|| {
        refused(
            ErrorKind::InvalidArgument,
            "this is no address: write `host:port`, an IPv6 host in brackets".to_owned(),
        )
    })?;
    let found = env.within(env.now() + options.connect_timeout, env.resolve(host, port)).await;
    let addresses = found.unwrap_or_else(|| Err(io::ErrorKind::TimedOut.into())).map_err(|error| {
        let message = format!("the name `{host}` cannot be resolved ({error}): check its spelling and the resolver");
        refused(ErrorKind::Connection, message).with_source(error)
    })?;
    let mut tried = Vec::new();
    let mut last = None;
    for candidate in addresses.into_iter().take(MOST_ADDRESSES) {
        let connected = env.within(env.now() + options.connect_timeout, env.connect(candidate)).await;
        match connected.unwrap_or_else(|| Err(io::ErrorKind::TimedOut.into())) {
            Ok(stream) => return Ok(stream),
            Err(error) => {
                tried.push(format!("{candidate}: {error}"));
                last = Some(error);
            }
        }
    }
    let message = if tried.is_empty() {
        format!("the name `{host}` has no address")
    } else {
        format!("no connection ({}): check that the server runs and that the address is right", tried.join("; "))
    };
    let error = refused(ErrorKind::Connection, message);
    Err(match last {
        Some(source) => error.with_source(source),
        None => error,
    })
}

/// Host and port of `host:port`; brackets around an IPv6 host are taken off.
fn split(address: &str) -> Option<(&str, u16)> {
    let (host, port) = address.rsplit_once(':')?;
    let host = host.strip_prefix('[').map_or(Some(host), |host| host.strip_suffix(']'))?;
    let port = port.parse().ok().filter(|&port| port != 0)?;
    (!host.is_empty() && !host.contains(char::is_whitespace)).then_some((host, port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_split_at_the_last_colon() {
        assert_eq!(split("broker-a:10911"), Some(("broker-a", 10911)));
        assert_eq!(split("[::1]:9876"), Some(("::1", 9876)));
        assert_eq!(split("::1:9876"), Some(("::1", 9876)));
        for wrong in ["", "broker", ":1", "broker:", "broker:x", "broker:0", "broker:65536", "[::1:9876", "a b:1"] {
            assert_eq!(split(wrong), None, "{wrong}");
        }
    }
}
