//! Where faults and the journal meet requests and answers: every request passes here before it is acted on, and every answer
//! before it is written. With neither faults nor a journal nothing does.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use rocketmq_wire::frame::PREFIX_LENGTH;
use rocketmq_wire::{RequestCode, ResponseCode};

use super::state::{Connection, Ending, Pace, State};
use crate::clock::Now;
use crate::fault::{Action, Fault, FaultStatus, Faults};
use crate::journal::{EntryKind, Journal, Limits, Origin};
use crate::pattern::{Facts, Port};
use crate::reply::{Command, ConnectionId, Outcome, Reply, ReplyBody, ReturnAddress};

/// Faults and journal of a server, and what they have to remember.
#[derive(Debug)]
pub(crate) struct Watch {
    pub(crate) faults: Faults,
    pub(crate) journal: Journal,
    /// Requests whose answers are still to come.
    pending: HashMap<(ConnectionId, i32), Pending>,
    /// Answers that leave later, by session time and order.
    late: BTreeMap<(Duration, u64), (ConnectionId, Bytes)>,
    last_late: u64,
    /// Whether anything has to pass here.
    is_active: bool,
}

#[derive(Debug)]
struct Pending {
    request: RequestCode,
    entry: Option<u64>,
    fault: Option<(u64, Action, Option<Duration>)>,
}

impl Watch {
    pub(crate) fn new(limits: Limits) -> Self {
        let journal = Journal::new(limits);
        let mut watch = Watch {
            faults: Faults::default(),
            journal,
            pending: HashMap::new(),
            late: BTreeMap::new(),
            last_late: 0,
            is_active: false,
        };
        watch.refresh();
        watch
    }

    /// Whether requests and answers have to pass.
    #[inline]
    pub(super) fn is_active(&self) -> bool {
        self.is_active
    }

    fn refresh(&mut self) {
        self.is_active = self.journal.is_on() || !self.faults.is_idle() || !self.pending.is_empty();
    }

    /// Forgets what belongs to connections, as all are gone.
    pub(super) fn forget_connections(&mut self) {
        self.pending.clear();
        self.late.clear();
        self.refresh();
    }

    pub(super) fn connection_closed(&mut self, id: ConnectionId) {
        if self.is_active {
            self.pending.retain(|(connection, _), _| *connection != id);
            self.refresh();
        }
    }

    /// Session time at which the next answer leaves that is late.
    pub(super) fn next_late(&self) -> Option<Duration> {
        self.late.first_key_value().map(|((due, _), _)| *due)
    }
}

/// What becomes of a request that passed.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Passed {
    /// It is acted on.
    Through,
    /// It has been dealt with.
    Done,
}

impl State {
    /// Enters a request in the journal and lets the first fault meet it that is for it. `header` is its header as it came.
    pub(super) fn pass_request(
        &mut self,
        now: Now,
        connection: &Connection,
        command: &Command<'_>,
        header: &[u8],
        to: &ReturnAddress,
    ) -> Passed {
        let origin = self.origin(connection);
        let code = command.code();
        let client = origin.client.clone();
        let entry = self.watch.journal.is_on().then(|| {
            let frame = (command.serialize_type, header, command.body);
            self.watch.journal.add(now, EntryKind::Request, origin, code, frame)
        });
        let mut pending = Pending { request: code, entry, fault: None };
        let mut instead = None;
        if !self.watch.faults.is_idle() {
            let fields = |name: &str| command.header.fields.get(name);
            let (port, id) = (connection.port, connection.peer.connection.0);
            let facts = Facts::read(port, id, code, fields, command.body, client.as_deref().map(Cow::Borrowed));
            if let Some(hit) = self.watch.faults.meet(&facts) {
                tracing::info!(fault = hit.id, %code, peer = %connection.peer.address, "a request met a fault");
                let fault = hit.id;
                let mut done = true;
                match &hit.action {
                    Action::Answer { code, remark } => {
                        let mut reply = Reply::new(ResponseCode(*code));
                        reply.remark = remark.clone().map(Cow::Owned);
                        instead = Some(reply);
                    }
                    Action::NoRoutes => instead = Some(no_route(facts.topic.as_deref().unwrap_or("null"))),
                    Action::StaleRoutes => {
                        let routes = hit.routes.map(|routes| routes.handle(now.session, &connection.peer, command));
                        if let Some(Outcome::Reply(reply)) = routes {
                            instead = Some(reply.into_owned());
                        }
                    }
                    Action::DiskFull => instead = Some(disk_full()),
                    Action::DropRequest => {}
                    Action::Close => connection.end(Ending::Close),
                    Action::Reset { after_bytes: None } => connection.end(Ending::Reset),
                    Action::HalfOpen => connection.end(Ending::Silence),
                    _ => {
                        pending.fault = Some((fault, hit.action, hit.late));
                        done = false;
                    }
                }
                if let Some(entry) = entry {
                    self.watch.journal.set_fault(entry, fault);
                }
                if done && instead.is_none() {
                    self.watch.refresh();
                    return Passed::Done;
                }
            }
        }
        if !to.one_way {
            self.watch.pending.insert((to.connection, to.opaque), pending);
        }
        self.watch.refresh();
        match instead {
            Some(reply) => {
                self.answer(connection, reply, to);
                Passed::Done
            }
            None => Passed::Through,
        }
    }

    /// Notes that a request is never answered.
    pub(super) fn never_answered(&mut self, to: &ReturnAddress) {
        self.watch.pending.remove(&(to.connection, to.opaque));
        self.watch.refresh();
    }

    /// Enters a client's answer to the server in the journal.
    pub(super) fn pass_push_answer(&mut self, now: Now, connection: &Connection, command: &Command<'_>, header: &[u8]) {
        if self.watch.journal.is_on() {
            let origin = self.origin(connection);
            let frame = (command.serialize_type, header, command.body);
            // Which request it answers is told by the opaque alone.
            self.watch.journal.add(now, EntryKind::PushAnswer, origin, RequestCode(0), frame);
        }
    }

    /// Enters what the server asks a client in the journal; `frame` is whole.
    pub(super) fn pass_push(&mut self, connection: &Connection, code: RequestCode, frame: &[u8]) {
        if self.watch.journal.is_on() {
            let now = self.clock.now();
            let origin = self.origin(connection);
            self.watch.journal.add_frame(now, EntryKind::Push, origin, code, frame);
        }
    }

    /// Enters an answer in the journal and does to it what the fault says that its request met.
    pub(super) fn pass_answer(&mut self, connection: &Connection, mut reply: Reply<'_>, to: &ReturnAddress) {
        let now = self.clock.now();
        let pending = self.watch.pending.remove(&(to.connection, to.opaque));
        self.watch.refresh();
        let (request, entry, fault) = match pending {
            Some(pending) => (pending.request, pending.entry, pending.fault),
            None => (RequestCode(0), None, None),
        };
        match &fault {
            Some((_, Action::AnswerAfter { code, remark }, _)) => {
                reply = Reply::new(ResponseCode(*code));
                reply.remark = remark.clone().map(Cow::Owned);
            }
            Some((_, Action::FlushTimeout, _)) if reply.code == ResponseCode::SUCCESS => {
                reply.code = ResponseCode::FLUSH_DISK_TIMEOUT;
            }
            _ => {}
        }
        let mut frame = BytesMut::new();
        if let Err(error) = reply.encode(&mut frame, to, self.compatibility.version()) {
            return tracing::error!(%error, peer = %connection.peer.address, "answer that cannot be written");
        }
        // Nothing follows what ends a connection.
        if connection.ending.get() != Ending::None {
            return;
        }
        let head_length = frame.len();
        let is_plain = fault.is_none();
        if self.watch.journal.is_on() || !is_plain {
            match &reply.body {
                ReplyBody::None => {}
                ReplyBody::Bytes(bytes) => frame.extend_from_slice(bytes),
                ReplyBody::Records(records) => records.iter().for_each(|record| frame.extend_from_slice(record)),
            }
        }
        if self.watch.journal.is_on() {
            let origin = self.origin(connection);
            let journal = &mut self.watch.journal;
            if let Some(answer) = journal.add_frame(now, EntryKind::Answer, origin, request, &frame) {
                if let Some(entry) = entry {
                    journal.set_answer(entry, answer, reply.code.0);
                }
                if let Some((fault, ..)) = &fault {
                    journal.set_fault(answer, *fault);
                }
            }
        }
        match fault {
            None => connection.outbox.borrow_mut().push_encoded(&frame[..head_length], reply.body),
            Some((_, action, late)) => self.leave(now, connection, frame, &action, late),
        }
        connection.wake.notify_one();
    }

    /// Sends an answer off as a fault has it.
    fn leave(
        &mut self,
        now: Now,
        connection: &Connection,
        mut frame: BytesMut,
        action: &Action,
        late: Option<Duration>,
    ) {
        if let Some(late) = late {
            self.watch.last_late += 1;
            let key = (now.session.saturating_add(late), self.watch.last_late);
            self.watch.late.insert(key, (connection.peer.connection, frame.freeze()));
            self.timer.notify_one();
            return;
        }
        let push = |bytes: Bytes| connection.outbox.borrow_mut().push_bytes(bytes);
        match *action {
            Action::DropAnswer => {}
            Action::Truncate { bytes } => {
                frame.truncate(bytes);
                push(frame.freeze());
                connection.end(Ending::Close);
            }
            Action::Reset { after_bytes } => {
                frame.truncate(after_bytes.unwrap_or(0));
                push(frame.freeze());
                connection.end(Ending::Reset);
            }
            Action::Corrupt { at } => {
                if let Some(byte) = frame.get_mut(at) {
                    *byte ^= 0xFF;
                }
                push(frame.freeze());
            }
            Action::Duplicate => {
                let frame = frame.freeze();
                push(frame.clone());
                push(frame);
            }
            Action::Drip { bytes, every_ms } => {
                connection.pace.set(Some(Pace { bytes: bytes.max(1), every: Duration::from_millis(every_ms) }));
                push(frame.freeze());
            }
            _ => push(frame.freeze()),
        }
    }

    /// Sends the late answers that are due.
    pub(super) fn send_late(&mut self, now: Now) {
        while let Some(entry) = self.watch.late.first_entry()
            && entry.key().0 <= now.session
        {
            let (id, frame) = entry.remove();
            if let Some(connection) = self.connections.get(&id)
                && connection.ending.get() == Ending::None
            {
                connection.outbox.borrow_mut().push_bytes(frame);
                connection.wake.notify_one();
            }
        }
    }

    /// Who is at the other end; the client's id is looked for until it is known.
    fn origin(&self, connection: &Connection) -> Origin {
        let mut client = connection.client.borrow_mut();
        if client.is_none() {
            *client = self.broker.client_id(connection.peer.connection).map(Arc::from);
        }
        Origin {
            port: connection.port,
            connection: connection.peer.connection.0,
            peer: connection.peer.address,
            client: client.clone(),
        }
    }

    /// Puts a fault behind the others and returns its number. What it does to ports and connections has been done when
    /// this returns.
    pub(crate) fn put_fault(&mut self, fault: Fault) -> u64 {
        let name_server = &self.name_server;
        let id = self.watch.faults.put(fault, || name_server.clone());
        self.faults_changed();
        id
    }

    /// Removes a fault; whether it was there.
    pub(crate) fn remove_fault(&mut self, id: u64) -> bool {
        let removed = self.watch.faults.remove(id);
        self.faults_changed();
        removed
    }

    /// Removes all faults.
    pub(crate) fn clear_faults(&mut self) {
        self.watch.faults.clear();
        self.faults_changed();
    }

    /// What slaves get of the log from an offset on.
    pub(super) fn replicated_bytes(&self, offset: u64) -> Bytes {
        if self.watch.faults.stops_replication() {
            return Bytes::new();
        }
        self.broker.log_bytes(offset).unwrap_or_default()
    }

    /// All faults, in their order.
    pub(crate) fn faults(&self) -> Vec<FaultStatus> {
        self.watch.faults.status()
    }

    /// The journal.
    pub(crate) fn journal(&self) -> &Journal {
        &self.watch.journal
    }

    /// The journal, to be cleared.
    pub(crate) fn journal_mut(&mut self) -> &mut Journal {
        &mut self.watch.journal
    }

    fn faults_changed(&mut self) {
        self.watch.refresh();
        self.apply_port_faults();
        // Slaves that were kept waiting go on.
        self.log_grown.notify_waiters();
    }

    /// Shuts and opens ports as faults have it.
    pub(super) fn apply_port_faults(&self) {
        for gate in &self.gates {
            if self.watch.faults.refuses(gate.port) { gate.shut() } else { gate.open() }
        }
        for port in [Port::NameServer, Port::Broker] {
            if self.watch.faults.is_off(port) {
                for connection in self.connections.values().filter(|connection| connection.port == port) {
                    connection.closing.set(true);
                    connection.wake.notify_one();
                }
            }
        }
    }
}

fn no_route(topic: &str) -> Reply<'static> {
    let remark = format!("No topic route info in name server for the topic: {topic}");
    Reply::new(ResponseCode::TOPIC_NOT_EXIST).remark(remark)
}

fn disk_full() -> Reply<'static> {
    Reply::new(ResponseCode::SERVICE_NOT_AVAILABLE).remark(
        "service not available now. It may be caused by one of the following reasons: the broker's disk is full",
    )
}

/// The bytes of a frame behind its prefix and before its body.
pub(super) fn header_of(frame: &[u8], header_length: usize) -> &[u8] {
    &frame[PREFIX_LENGTH..PREFIX_LENGTH + header_length]
}
