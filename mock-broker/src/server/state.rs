//! What all tasks of a server share: the broker, the name server, the clock and the connections.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use rocketmq_wire::frame::{DEFAULT_MAX_FRAME_LENGTH, FrameLayout, PREFIX_LENGTH};
use rocketmq_wire::header::Header;
use rocketmq_wire::model::TopicConfigTable;
use rocketmq_wire::request::group::NotifyConsumerIdsChangedRequest;
use rocketmq_wire::{DecodeError, RequestCode, Version};
use tokio::sync::{Notify, oneshot};

use super::encryption::Encryption;
use super::gate::Gate;
use super::outbox::Outbox;
use super::registrar::Registrar;
use super::security::Security;
use super::watch::{Passed, Watch, header_of};
use crate::broker::{Broker, SlaveId};
use crate::clock::{Clock, Now};
use crate::compatibility::Compatibility;
use crate::content::{ClockView, Outgoing};
use crate::name_server::{BrokerIdentity, Lifetime, NameServer};
use crate::pattern::Port;
use crate::reply::{Command, ConnectionId, Effect, Outcome, Peer, Reply, ReturnAddress, encode_push};
use crate::store::PutError;

/// A connection without traffic is closed after this.
const IDLE_LIMIT: Duration = Duration::from_secs(120);

/// How often idle connections are looked for.
const IDLE_SCAN_INTERVAL: Duration = Duration::from_secs(5);

/// Nobody has asked for anything for so long when time is skipped.
const IDLE_BEFORE_SKIP: Duration = Duration::from_millis(50);

/// How a fault has a connection end, once what is in the outbox is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ending {
    /// It goes on.
    None,
    /// It is closed.
    Close,
    /// It is reset.
    Reset,
    /// It stays, and nothing is read or written any more.
    Silence,
}

/// How slowly a fault has answers written.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pace {
    pub(super) bytes: usize,
    pub(super) every: Duration,
}

/// One connection, as the others see it.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) peer: Peer,
    pub(super) port: Port,
    pub(super) outbox: RefCell<Outbox>,
    /// Signalled when others put something into the outbox, or when the connection is to be closed.
    pub(super) wake: Notify,
    pub(super) closing: Cell<bool>,
    pub(super) ending: Cell<Ending>,
    /// Until the outbox is empty again.
    pub(super) pace: Cell<Option<Pace>>,
    /// The client's id, once it was asked for and known.
    pub(super) client: RefCell<Option<Arc<str>>>,
    last_active: Cell<Duration>,
}

impl Connection {
    /// Lets the connection end.
    pub(super) fn end(&self, ending: Ending) {
        self.ending.set(ending);
        self.wake.notify_one();
    }

    /// Waits until the connection is to be closed.
    pub(super) async fn closed(&self) {
        while !self.closing.get() {
            self.wake.notified().await;
        }
    }
}

/// What outlives a server that is stopped: its messages, its time, and its faults and journal.
pub(crate) type Kept = (Broker, Clock, Watch);

/// Everything that the tasks of one server work on. No task holds it while it waits.
#[derive(Debug)]
pub(crate) struct State {
    pub(super) compatibility: Compatibility,
    pub(super) clock: Clock,
    pub(super) broker: Broker,
    pub(super) name_server: NameServer,
    pub(super) identity: BrokerIdentity,
    /// Faults and journal.
    pub(super) watch: Watch,
    /// The ports.
    pub(super) gates: Vec<Rc<Gate>>,
    pub(super) connections: HashMap<ConnectionId, Rc<Connection>>,
    last_connection: u64,
    next_idle_scan: Duration,
    push_opaque: i32,
    security: Security,
    skipping: bool,
    /// Session time of the latest request.
    last_served: Duration,
    /// Who wants to know when something happens.
    waiters: Vec<oneshot::Sender<()>>,
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
        (broker, mut clock, mut watch): Kept,
        identity: BrokerIdentity,
        security: Security,
    ) -> Self {
        watch.forget_connections();
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
            skipping: false,
            last_served: now.session,
            waiters: Vec::new(),
            registrars: Vec::new(),
            watch,
            gates: Vec::new(),
            timer: Rc::new(Notify::new()),
        }
    }

    /// Takes out again what outlives the server.
    pub(super) fn into_parts(self) -> Kept {
        (self.broker, self.clock, self.watch)
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
            ending: Cell::new(Ending::None),
            pace: Cell::new(None),
            client: RefCell::default(),
            last_active: Cell::new(self.clock.now().session),
        });
        self.connections.insert(peer.connection, Rc::clone(&connection));
        connection
    }

    /// Forgets a connection.
    pub(super) fn disconnected(&mut self, connection: &Connection) {
        let id = connection.peer.connection;
        self.connections.remove(&id);
        self.watch.connection_closed(id);
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
        self.last_served = now.session;
        let mut served = 0;
        while let Some(layout) = FrameLayout::peek(&buffer[served..], DEFAULT_MAX_FRAME_LENGTH)? {
            let frame = &buffer[served..served + layout.frame_length];
            served += layout.frame_length;
            let (header, body) = frame[PREFIX_LENGTH..].split_at(layout.header_length);
            let header = Header::decode(layout.serialize_type, header)?;
            let command = Command { header, serialize_type: layout.serialize_type, body };
            if command.header.head.is_response() {
                if self.watch.is_active() {
                    self.pass_push_answer(now, connection, &command, header_of(frame, layout.header_length));
                }
                if connection.port == Port::Broker {
                    self.broker.client_answered(&connection.peer, &command);
                    self.apply_effects();
                }
                continue;
            }
            let to = command.return_address(&connection.peer);
            if self.watch.is_active() {
                let header = header_of(frame, layout.header_length);
                if self.pass_request(now, connection, &command, header, &to) == Passed::Done {
                    if connection.ending.get() == Ending::None {
                        continue;
                    }
                    // What came behind it is lost with the connection.
                    served = buffer.len();
                    break;
                }
            }
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
            match outcome {
                Outcome::Reply(reply) => self.answer(connection, reply, &to),
                Outcome::Silent if self.watch.is_active() => self.never_answered(&to),
                Outcome::Silent | Outcome::Pending => {}
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
        self.tell_waiters();
        Ok(())
    }

    /// Has an answer written. Who waits for the connection to be written to has to be woken, if that is not the caller.
    #[inline]
    pub(super) fn answer(&mut self, connection: &Connection, reply: Reply<'_>, to: &ReturnAddress) {
        if to.one_way {
            return;
        }
        if self.watch.is_active() {
            return self.pass_answer(connection, reply, to);
        }
        let version = self.compatibility.version();
        if let Err(error) = connection.outbox.borrow_mut().push(reply, to, version) {
            tracing::error!(%error, peer = %connection.peer.address, "answer that cannot be written");
        }
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
                let Some(connection) = self.connections.get(&to.connection).map(Rc::clone) else { return };
                self.answer(&connection, reply, &to);
                connection.wake.notify_one();
            }
            Effect::NotifyMembers { group, members } => {
                let request = NotifyConsumerIdsChangedRequest { consumer_group: group.into() };
                for (id, serialize_type) in members {
                    self.push_opaque = self.push_opaque.wrapping_add(1);
                    let mut frame = BytesMut::new();
                    match encode_push(&mut frame, &request, self.push_opaque, serialize_type, version) {
                        Ok(()) => self.push(id, RequestCode::NOTIFY_CONSUMER_IDS_CHANGED, frame.freeze()),
                        Err(error) => tracing::error!(%error, "notification that cannot be written"),
                    }
                }
            }
            Effect::Push(id, frame) => {
                let code = pushed_code(&frame);
                self.push(id, code, frame);
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

    /// Writes a request of the server to a connection.
    fn push(&mut self, id: ConnectionId, code: RequestCode, frame: Bytes) {
        let Some(connection) = self.connections.get(&id).map(Rc::clone) else { return };
        if self.watch.is_active() {
            self.pass_push(&connection, code, &frame);
        }
        if connection.ending.get() == Ending::None {
            connection.outbox.borrow_mut().push_bytes(frame);
            connection.wake.notify_one();
        }
    }

    /// Does what is due, and returns how long nothing else will be.
    pub(super) fn tick(&mut self) -> Duration {
        let now = self.clock.now();
        let (now, skip) = self.skip(now);
        self.broker.tick(now);
        self.send_late(now);
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
        let session_event = self.broker.next_session_event().min(self.next_idle_scan);
        let session_event = self.watch.next_late().map_or(session_event, |late| late.min(session_event));
        let session = self.clock.until_session(session_event);
        self.tell_waiters();
        let message = self.broker.next_delivery(now).and_then(|due| self.clock.until_message(due));
        message.into_iter().chain(skip).fold(session, Duration::min)
    }

    /// Skips to what is due next, if time is to be skipped and nobody has asked for anything for a moment; else says
    /// when that may be so.
    fn skip(&mut self, now: Now) -> (Now, Option<Duration>) {
        let Some(due) = self.broker.next_due(now).filter(|due| self.skipping && *due > now.message_ms) else {
            return (now, None);
        };
        let idle = now.session.saturating_sub(self.last_served);
        if idle < IDLE_BEFORE_SKIP {
            return (now, Some(IDLE_BEFORE_SKIP - idle));
        }
        self.clock.set(due);
        // There may be something due after it.
        (self.clock.now(), Some(Duration::ZERO))
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
        self.turn(|clock| clock.advance(by));
    }

    /// Changes the clock and does what is due then.
    pub(crate) fn turn(&mut self, turn: impl FnOnce(&mut Clock)) {
        turn(&mut self.clock);
        self.tick();
        self.timer.notify_one();
    }

    /// Turns session time forward and does what is due then.
    pub(crate) fn advance_sessions(&mut self, by: Duration) {
        self.turn(|clock| clock.advance_sessions(by));
    }

    /// What time it is.
    pub(crate) fn now(&mut self) -> Now {
        self.clock.now()
    }

    /// What the clock shows, and when the next thing is due.
    pub(crate) fn clock_view(&mut self) -> ClockView {
        let now = self.clock.now();
        ClockView {
            message_ms: now.message_ms,
            session_ms: u64::try_from(now.session.as_millis()).unwrap_or(u64::MAX),
            manual: self.clock.is_frozen(),
            skipping: self.skipping,
            next_due_ms: self.broker.next_due(now),
        }
    }

    /// Whether message time skips to what is due next when nobody has asked for anything for a moment.
    pub(crate) fn set_skipping(&mut self, skipping: bool) {
        self.skipping = skipping;
        self.timer.notify_one();
    }

    /// Takes the broker out of the name server beside it.
    pub(super) fn forget_own_broker(&mut self) {
        let BrokerIdentity { name, id, address, .. } = &self.identity;
        self.name_server.routes_mut().unregister(name, *id, address);
    }

    /// What the broker is called and where it is.
    pub(crate) fn identity(&self) -> &BrokerIdentity {
        &self.identity
    }

    /// The version that the broker behaves like.
    pub(crate) fn compatibility(&self) -> Compatibility {
        self.compatibility
    }

    /// Where the name server listens.
    pub(crate) fn name_server_address(&self) -> Option<SocketAddr> {
        self.gates.iter().find(|gate| gate.port == Port::NameServer).map(|gate| gate.address)
    }

    /// How many connections there are.
    pub(crate) fn connection_count(&self) -> usize {
        self.connections.len()
    }

    /// Completes when a request was served or the passing of time has done something.
    pub(crate) fn changed(&mut self) -> oneshot::Receiver<()> {
        let (changed, receiver) = oneshot::channel();
        self.waiters.retain(|waiter| !waiter.is_closed());
        self.waiters.push(changed);
        receiver
    }

    #[inline]
    fn tell_waiters(&mut self) {
        if !self.waiters.is_empty() {
            // Those that wait no more need not be told.
            for waiter in self.waiters.drain(..) {
                let _ = waiter.send(());
            }
        }
    }

    /// Stores a message as if a client had sent it.
    ///
    /// # Errors
    ///
    /// What a client would be answered.
    pub(crate) fn put(&mut self, message: &Outgoing) -> Result<(), String> {
        let now = self.clock.now();
        let put = self.broker.put_outgoing(now, message);
        if self.broker.has_unregistered_topics() {
            self.register_topics();
        }
        self.tell_slaves();
        self.apply_effects();
        self.tell_waiters();
        self.timer.notify_one();
        put
    }

    /// Creates a topic or changes its queues.
    pub(crate) fn set_topic(&mut self, topic: &str, queues: i32) {
        let now = self.clock.now();
        self.broker.set_topic(now, topic, queues);
        self.register_topics();
    }

    /// Has puts refused as if the page cache were busy.
    pub(crate) fn set_page_cache_busy(&mut self, busy: bool) {
        self.broker.set_page_cache_busy(busy);
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

/// What a whole frame of the broker's own asks for.
fn pushed_code(frame: &[u8]) -> RequestCode {
    let code = || {
        let layout = FrameLayout::peek(frame, DEFAULT_MAX_FRAME_LENGTH).ok()??;
        let header = Header::decode(layout.serialize_type, header_of(frame, layout.header_length)).ok()?;
        Some(header.head.code)
    };
    RequestCode(code().unwrap_or_default())
}
