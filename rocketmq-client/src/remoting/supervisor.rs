//! Keeps one peer connected: the only place that opens connections.

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
        self.options.dial.open(&self.env, self.peer.address(), &self.options).await
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
