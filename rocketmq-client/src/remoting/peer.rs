//! A server, whichever connection leads to it at the moment.

use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use rocketmq_wire::request::Request;
use rocketmq_wire::{ResponseCode, Version};
use tokio::sync::{Notify, watch};

use super::connection::Connection;
use super::options::ConnectionStats;
use super::response::Response;
use crate::env::Env;
use crate::error::{Error, ErrorKind, Outcome, Result};

/// How things stand between this client and one server.
#[derive(Debug, Clone)]
pub(super) enum Link {
    /// No connection and none on the way; one is made when a call asks for it.
    Down,
    /// The attempt of that number failed; the next begins no earlier than stated.
    Failed { attempt: u64, error: Error, again_at: Instant },
    /// A connection.
    Up(Connection),
    /// No connection any more.
    Closed,
}

/// A server, by its address; clones are the same server.
///
/// A connection is made when a call needs one, by one attempt for all who wait, and made again when it is lost.
#[derive(Clone)]
pub struct Peer(Arc<Inner>);

struct Inner {
    address: Arc<str>,
    env: Env,
    link: watch::Sender<Link>,
    demand: Notify,
}

impl Peer {
    pub(super) fn new(address: Arc<str>, env: Env) -> Self {
        Self(Arc::new(Inner { address, env, link: watch::Sender::new(Link::Down), demand: Notify::new() }))
    }

    /// The address, as it was given.
    pub fn address(&self) -> &Arc<str> {
        &self.0.address
    }

    /// Sends a request and awaits its answer, whatever its response code; connects first when there is no connection.
    ///
    /// A connection that turns out to be lost before the request was handed to it is replaced within the call. So is
    /// one whose server answers that it is going away (code 1500): the request is sent once more, on a new one.
    /// Dropping the future gives the request up; a connection being made is finished for later calls.
    ///
    /// # Errors
    ///
    /// As [`Connection::call`], and [`ErrorKind::Connection`] when no connection can be made; at once while a back-off
    /// lasts beyond the deadline.
    pub async fn call<R: Request>(&self, request: &R, body: &Bytes, deadline: Instant) -> Result<Response> {
        let connection = self.connection(deadline).await?;
        self.call_on(connection, request, body, deadline).await
    }

    /// As [`call`](Self::call), by a connection of this peer that the caller has looked for already.
    pub(crate) async fn call_on<R: Request>(
        &self,
        mut connection: Connection,
        request: &R,
        body: &Bytes,
        deadline: Instant,
    ) -> Result<Response> {
        let mut left_once = false;
        loop {
            match connection.call(request, body, deadline).await {
                Ok(response) if response.code() == ResponseCode::GO_AWAY && !left_once => {
                    left_once = true;
                    self.leave(&connection);
                }
                // In memory of its own, as for the next connection.
                Err(error) if never_left(&error) => Box::pin(self.replaced(&connection, deadline)).await,
                result => return result,
            }
            connection = self.connection(deadline).await?;
        }
    }

    /// The connection that is up. Whether it is lost shows when it is used.
    pub(crate) fn up(&self) -> Option<Connection> {
        match &*self.0.link.borrow() {
            Link::Up(connection) => Some(connection.clone()),
            _ => None,
        }
    }

    /// Sends a request that is not answered; connects first when there is no connection.
    ///
    /// Success means that the request was handed to a connection. Dropping the future before that may or may not have
    /// sent it, but never a part of it.
    ///
    /// # Errors
    ///
    /// As [`call`](Self::call).
    pub async fn call_one_way<R: Request>(&self, request: &R, body: &Bytes, deadline: Instant) -> Result<()> {
        loop {
            let connection = self.connection(deadline).await?;
            match connection.call_one_way(request, body, deadline).await {
                Err(error) if never_left(&error) => self.replaced(&connection, deadline).await,
                result => return result,
            }
        }
    }

    /// Waits until a connection that was found lost is no longer the one to use.
    async fn replaced(&self, lost: &Connection, deadline: Instant) {
        let mut link = self.0.link.subscribe();
        let replaced = link.wait_for(|link| !matches!(link, Link::Up(current) if current.is_same(lost)));
        // What became of it, the next look at the link tells.
        let _ = self.0.env.within(deadline, replaced).await.is_some_and(|link| link.is_ok());
    }

    /// The connection that is up, or one that is made now. An attempt under way is joined; during a back-off the next
    /// attempt is waited for.
    ///
    /// Dropping the future does not stop the attempt.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Connection`] when the attempt fails, or cannot begin before the deadline; [`ErrorKind::Timeout`] when
    /// it takes longer; [`ErrorKind::Closed`] when the pool or the peer was closed.
    pub async fn connection(&self, deadline: Instant) -> Result<Connection> {
        if let Some(connection) = self.up() {
            return Ok(connection);
        }
        // In memory of its own: the future of each call would have to have room for it otherwise.
        let connection = Box::pin(self.0.env.within(deadline, self.connect(deadline))).await;
        connection.unwrap_or_else(|| {
            Err(Error::new(ErrorKind::Timeout, "the time given was over before there was a connection")
                .with_broker(Arc::clone(&self.0.address)))
        })
    }

    async fn connect(&self, deadline: Instant) -> Result<Connection> {
        let mut link = self.0.link.subscribe();
        let mut before = None;
        loop {
            // A clone: the value may not stay borrowed over an await.
            let now = link.borrow_and_update().clone();
            match now {
                Link::Up(connection) => return Ok(connection),
                Link::Closed => return Err(self.closed()),
                Link::Failed { attempt, error, again_at } => {
                    if before.is_some_and(|before| attempt > before) || again_at >= deadline {
                        return Err(error);
                    }
                    before.get_or_insert(attempt);
                }
                Link::Down => {
                    before.get_or_insert(0);
                }
            }
            self.0.demand.notify_one();
            if link.changed().await.is_err() {
                return Err(self.closed());
            }
        }
    }

    /// Why the last attempt to connect failed, while no new one may begin. A hint for choosing another server.
    pub fn failure(&self) -> Option<Error> {
        match &*self.0.link.borrow() {
            Link::Failed { error, again_at, .. } if *again_at > self.0.env.now() => Some(error.clone()),
            _ => None,
        }
    }

    /// Whether there is a connection.
    pub fn is_connected(&self) -> bool {
        matches!(&*self.0.link.borrow(), Link::Up(_))
    }

    /// The version that the server stated on the connection that is up.
    pub fn version(&self) -> Option<Version> {
        match &*self.0.link.borrow() {
            Link::Up(connection) => connection.peer_version(),
            _ => None,
        }
    }

    /// What happens on the connection that is up.
    pub fn stats(&self) -> Option<ConnectionStats> {
        match &*self.0.link.borrow() {
            Link::Up(connection) => Some(connection.stats()),
            _ => None,
        }
    }

    /// Ends this peer; what has been handed to its connection is still written.
    pub(super) fn close(&self) {
        self.0.link.send_replace(Link::Closed);
    }

    /// Makes the next call use a new connection; what is under way on this one goes on.
    pub(crate) fn leave(&self, connection: &Connection) {
        self.0.link.send_if_modified(|link| {
            let leads_there = matches!(link, Link::Up(current) if current.is_same(connection));
            if leads_there {
                *link = Link::Down;
            }
            leads_there
        });
    }

    /// Changes how things stand, unless the peer is closed.
    pub(super) fn set(&self, to: Link) {
        self.0.link.send_if_modified(|link| {
            let open = !matches!(link, Link::Closed);
            if open {
                *link = to;
            }
            open
        });
    }

    pub(super) fn watch(&self) -> watch::Receiver<Link> {
        self.0.link.subscribe()
    }

    /// Waits until a call asks for a connection.
    pub(super) async fn demanded(&self) {
        self.0.demand.notified().await;
    }

    fn closed(&self) -> Error {
        Error::new(ErrorKind::Closed, "the client was closed").with_broker(Arc::clone(&self.0.address))
    }
}

/// Whether the request met a lost connection and was not handed to it.
pub(crate) fn never_left(error: &Error) -> bool {
    error.outcome() == Outcome::NotSent && matches!(error.kind(), ErrorKind::Connection | ErrorKind::Protocol)
}

impl fmt::Debug for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Peer").field("address", &self.0.address).field("link", &*self.0.link.borrow()).finish()
    }
}
