//! What all tasks of a server share: the broker, the name server, the clock and the connections.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf, BytesMut};
use rocketmq_wire::frame::{DEFAULT_MAX_FRAME_LENGTH, FrameLayout, PREFIX_LENGTH};
use rocketmq_wire::header::Header;
use rocketmq_wire::model::TopicConfigTable;
use rocketmq_wire::request::group::NotifyConsumerIdsChangedRequest;
use rocketmq_wire::{DecodeError, RequestCode, Version};
use tokio::sync::Notify;

use super::encryption::Encryption;
use super::outbox::Outbox;
use super::registrar::Registrar;
use super::security::Security;
use crate::broker::{Broker, SlaveId};
use crate::clock::Clock;
use crate::compatibility::Compatibility;
use crate::name_server::{BrokerIdentity, Lifetime, NameServer};
use crate::reply::{Command, ConnectionId, Effect, Outcome, Peer, encode_push};
use crate::store::PutError;

/// A connection without traffic is closed after this.
const IDLE_LIMIT: Duration = Duration::from_secs(120);

/// How often idle connections are looked for.
const IDLE_SCAN_INTERVAL: Duration = Duration::from_secs(5);

/// Who serves the requests of a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Port {
    NameServer,
    Broker,
}

/// One connection, as the others see it.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) peer: Peer,
    port: Port,
    pub(super) outbox: RefCell<Outbox>,
    /// Signalled when others put something into the outbox, or when the connection is to be closed.
    pub(super) wake: Notify,
    pub(super) closing: Cell<bool>,
    last_active: Cell<Duration>,
}

impl Connection {
    /// Waits until the connection is to be closed.
    pub(super) async fn closed(&self) {
        while !self.closing.get() {
            self.wake.notified().await;
        }
    }
}

/// Everything that the tasks of one server work on. No task holds it while it waits.
#[derive(Debug)]
pub(crate) struct State {
    compatibility: Compatibility,
    clock: Clock,
    broker: Broker,
    name_server: NameServer,
    identity: BrokerIdentity,
    connections: HashMap<ConnectionId, Rc<Connection>>,
    last_connection: u64,
    next_idle_scan: Duration,
    push_opaque: i32,
    security: Security,
    /// The name servers of other processes.
    pub(super) registrars: Vec<Rc<Registrar>>,
    /// Signalled when something is due earlier than the timer knows.
    pub(super) timer: Rc<Notify>,
    /// Signalled by the store's second thread when it has flushed what sends wait for.
    pub(super) flushed: Arc<Notify>,
    /// Signalled when the log has grown and slaves are connected.
    pub(super) log_grown: Rc<Notify>,
}

impl State {
    /// Puts a broker and a name server together: the broker is registered as `identity`.
    pub(super) fn new(
        compatibility: Compatibility,
        mut clock: Clock,
        broker: Broker,
        identity: BrokerIdentity,
        security: Security,
    ) -> Self {
        let now = clock.now();
        let mut name_server = NameServer::new(compatibility);
        name_server.routes_mut().register(&identity, Lifetime::Process, false, broker.topic_table());
        let flushed = Arc::new(Notify::new());
        let signal = Arc::clone(&flushed);
        broker.wake_with(move || signal.notify_one());
        State {
            log_grown: Rc::new(Notify::new()),
            flushed,
            compatibility,
            clock,
            broker,
            name_server,
            identity,
            connections: HashMap::new(),
            last_connection: 0,
            next_idle_scan: now.session + IDLE_SCAN_INTERVAL,
            push_opaque: 0,
            security,
            registrars: Vec::new(),
            timer: Rc::new(Notify::new()),
        }
    }

    /// Takes the broker and the clock out again.
    pub(super) fn into_parts(self) -> (Broker, Clock) {
        (self.broker, self.clock)
    }

    /// Enters a connection.
    pub(super) fn connected(&mut self, port: Port, address: SocketAddr) -> Rc<Connection> {
        self.last_connection += 1;
        let peer = Peer { connection: ConnectionId(self.last_connection), address };
        let connection = Rc::new(Connection {
            peer,
            port,
            outbox: RefCell::default(),
            wake: Notify::new(),
            closing: Cell::new(false),
            last_active: Cell::new(self.clock.now().session),
        });
        self.connections.insert(peer.connection, Rc::clone(&connection));
        connection
    }

    /// Forgets a connection.
    pub(super) fn disconnected(&mut self, connection: &Connection) {
        let id = connection.peer.connection;
        self.connections.remove(&id);
        match connection.port {
            Port::NameServer => self.name_server.connection_closed(id),
            Port::Broker => {
                self.broker.connection_closed(id);
                self.apply_effects();
            }
        }
    }

    /// Serves every whole request in `buffer` and leaves the rest there. The answers are in the connection's outbox.
    ///
    /// # Errors
    ///
    /// Bytes that are no frame: the connection cannot be continued.
    pub(super) fn serve(&mut self, connection: &Connection, buffer: &mut BytesMut) -> Result<(), DecodeError> {
        let now = self.clock.now();
        connection.last_active.set(now.session);
        let version = self.compatibility.version();
        let mut served = 0;
        while let Some(layout) = FrameLayout::peek(&buffer[served..], DEFAULT_MAX_FRAME_LENGTH)? {
            let frame = &buffer[served..served + layout.frame_length];
            served += layout.frame_length;
            let (header, body) = frame[PREFIX_LENGTH..].split_at(layout.header_length);
            let header = Header::decode(layout.serialize_type, header)?;
            let command = Command { header, serialize_type: layout.serialize_type, body };
            if command.header.head.is_response() {
                if connection.port == Port::Broker {
                    self.broker.client_answered(&connection.peer, &command);
                    self.apply_effects();
                }
                continue;
            }
            let to = command.return_address(&connection.peer);
            let outcome = match connection.port {
                Port::NameServer => self.name_server.handle(now.session, &connection.peer, &command),
                Port::Broker => {
                    let refused = self.security.refuse(now.session, self.compatibility, &connection.peer, &command);
                    match refused {
                        None => self.broker.handle(now, &connection.peer, &command),
                        Some(refusal) => refusal.into(),
                    }
                }
            };
            if let Outcome::Reply(reply) = outcome
                && !to.one_way
                && let Err(error) = connection.outbox.borrow_mut().push(reply, &to, version)
            {
                tracing::error!(%error, peer = %connection.peer.address, "answer that cannot be written");
            }
            if self.broker.has_unregistered_topics() {
                self.register_topics();
            }
            self.apply_effects();
        }
        buffer.advance(served);
        self.broker.settle(now);
        self.tell_slaves();
        self.apply_effects();
        if self.broker.take_timers_changed() {
            self.timer.notify_one();
        }
        Ok(())
    }

    fn register_topics(&mut self) {
        let changed = self.broker.take_unregistered_topics();
        for topic in &changed {
            self.name_server.routes_mut().set_topic(&self.identity.name, &topic.topic_name, topic);
        }
        for registrar in &self.registrars {
            registrar.topics_changed(&changed);
        }
    }

    /// What name servers are told.
    pub(super) fn registration(&self) -> (BrokerIdentity, TopicConfigTable) {
        (self.identity.clone(), self.broker.topic_table())
    }

    /// The version that this server claims to have.
    pub(super) fn version(&self) -> Version {
        self.compatibility.version()
    }

    #[inline]
    fn apply_effects(&mut self) {
        if self.broker.has_effects() {
            for effect in self.broker.take_effects() {
                self.apply(effect);
            }
        }
    }

    fn apply(&mut self, effect: Effect) {
        let version = self.compatibility.version();
        match effect {
            Effect::Answer(to, reply) => {
                let Some(connection) = self.connections.get(&to.connection).filter(|_| !to.one_way) else { return };
                if let Err(error) = connection.outbox.borrow_mut().push(reply, &to, version) {
                    tracing::error!(%error, peer = %connection.peer.address, "answer that cannot be written");
                }
                connection.wake.notify_one();
            }
            Effect::NotifyMembers { group, members } => {
                let request = NotifyConsumerIdsChangedRequest { consumer_group: group.into() };
                for (id, serialize_type) in members {
                    let Some(connection) = self.connections.get(&id) else { continue };
                    self.push_opaque = self.push_opaque.wrapping_add(1);
                    let mut outbox = connection.outbox.borrow_mut();
                    let pushed = encode_push(outbox.tail(), &request, self.push_opaque, serialize_type, version);
                    if let Err(error) = pushed {
                        tracing::error!(%error, "notification that cannot be written");
                    }
                    connection.wake.notify_one();
                }
            }
            Effect::Push(id, frame) => {
                if let Some(connection) = self.connections.get(&id) {
                    connection.outbox.borrow_mut().push_bytes(frame);
                    connection.wake.notify_one();
                }
            }
            Effect::Close(id) => {
                if let Some(connection) = self.connections.get(&id) {
                    tracing::info!(peer = %connection.peer.address, "client was silent for too long");
                    connection.closing.set(true);
                    connection.wake.notify_one();
                }
            }
        }
    }

    /// Does what is due, and returns how long nothing else will be.
    pub(super) fn tick(&mut self) -> Duration {
        let now = self.clock.now();
        self.broker.tick(now);
        if self.broker.has_unregistered_topics() {
            self.register_topics();
        }
        self.tell_slaves();
        self.apply_effects();
        if self.next_idle_scan <= now.session {
            self.next_idle_scan = now.session + IDLE_SCAN_INTERVAL;
            self.name_server.expire(now.session);
            for connection in self.connections.values() {
                if connection.last_active.get() + IDLE_LIMIT < now.session {
                    tracing::info!(peer = %connection.peer.address, "idle connection");
                    connection.closing.set(true);
                    connection.wake.notify_one();
                }
            }
        }
        let session = self.clock.until_session(self.broker.next_session_event().min(self.next_idle_scan));
        let message = self.broker.next_delivery(now).and_then(|due| self.clock.until_message(due));
        message.map_or(session, |message| session.min(message))
    }

    #[inline]
    fn tell_slaves(&self) {
        if self.broker.has_slaves() {
            self.log_grown.notify_waiters();
        }
    }

    /// Notes how far a slave has come.
    ///
    /// # Errors
    ///
    /// As [`Broker::slave_has`].
    pub(super) fn slave_has(&mut self, id: SlaveId, offset: i64) -> Result<(), String> {
        let now = self.clock.now();
        self.broker.slave_has(now, id, offset)?;
        self.apply_effects();
        Ok(())
    }

    /// Appends bytes of the master's log.
    ///
    /// # Errors
    ///
    /// As [`Broker::append_replicated`].
    pub(super) fn append_replicated(&mut self, offset: u64, bytes: &[u8]) -> Result<u64, PutError> {
        let now = self.clock.now();
        let appended = self.broker.append_replicated(now, offset, bytes);
        self.tell_slaves();
        self.apply_effects();
        appended
    }

    /// Takes over what the master answered to a request for its settings.
    ///
    /// # Errors
    ///
    /// When the answer cannot be read.
    pub(super) fn take_over(&mut self, code: RequestCode, body: &[u8]) -> Result<(), DecodeError> {
        let now = self.clock.now();
        self.broker.take_over(now, code, body)?;
        self.register_topics();
        Ok(())
    }

    /// The broker, to be changed.
    pub(super) fn broker_mut(&mut self) -> &mut Broker {
        &mut self.broker
    }

    /// Answers the sends that waited for what has reached the disk now.
    pub(super) fn flushed(&mut self) {
        let now = self.clock.now();
        self.broker.answer_safe(now);
        self.apply_effects();
    }

    /// Notes that a connection is in use.
    pub(super) fn written(&mut self, connection: &Connection) {
        connection.last_active.set(self.clock.now().session);
    }

    /// Turns message time forward and does what is due then.
    pub(crate) fn advance(&mut self, by: Duration) {
        self.clock.advance(by);
        self.tick();
        self.timer.notify_one();
    }

    /// Turns session time forward and does what is due then.
    pub(crate) fn advance_sessions(&mut self, by: Duration) {
        self.clock.advance_sessions(by);
        self.tick();
        self.timer.notify_one();
    }

    /// Creates a topic or changes its queues.
    pub(crate) fn set_topic(&mut self, topic: &str, queues: i32) {
        let now = self.clock.now();
        self.broker.set_topic(now, topic, queues);
        self.register_topics();
    }

    /// How connections are encrypted.
    pub(crate) fn encryption(&self) -> &Encryption {
        self.security.encryption()
    }

    /// The broker, to look at.
    pub(crate) fn broker(&self) -> &Broker {
        &self.broker
    }
}
