//! Keeps the broker registered at name servers of other processes, Apache's among them.

use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::io;
use std::rc::Rc;
use std::time::Duration;

use bytes::{Buf, BytesMut};
use rocketmq_wire::frame::{DEFAULT_MAX_FRAME_LENGTH, FrameLayout, PREFIX_LENGTH};
use rocketmq_wire::header::{DecodeFields, Head, Header, SerializeType, encode};
use rocketmq_wire::model::{RegisterBrokerBody, TopicConfig, TopicConfigTable};
use rocketmq_wire::request::Request;
use rocketmq_wire::request::registration::{RegisterBrokerRequest, RegisterBrokerResponse, UnregisterBrokerRequest};
use rocketmq_wire::{LanguageCode, ResponseCode, Version};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::sync::Notify;

use super::rest;
use super::state::State;
use crate::broker::MasterAddresses;
use crate::name_server::BrokerIdentity;

/// How often the broker registers though nothing changed (`registerNameServerPeriod`).
const PERIOD: Duration = Duration::from_secs(30);

/// How long a name server that cannot be reached is left alone.
const RECONNECT_AFTER: Duration = Duration::from_secs(1);

/// One name server.
#[derive(Debug)]
pub(super) struct Registrar {
    address: String,
    /// Topics that it was not told of.
    topics: RefCell<Vec<TopicConfig>>,
    changed: Notify,
    /// Signalled when the first registration was answered, or could not be sent.
    pub(super) attempted: Notify,
    leaving: Cell<bool>,
}

impl Registrar {
    pub(super) fn new(address: &str) -> Rc<Self> {
        Rc::new(Registrar {
            address: address.to_owned(),
            topics: RefCell::default(),
            changed: Notify::new(),
            attempted: Notify::new(),
            leaving: Cell::new(false),
        })
    }

    /// Has topics registered that changed.
    pub(super) fn topics_changed(&self, topics: &[TopicConfig]) {
        self.topics.borrow_mut().extend_from_slice(topics);
        self.changed.notify_one();
    }

    /// Has the broker taken out; [`keep_registered`](Self::keep_registered) returns then.
    pub(super) fn leave(&self) {
        self.leaving.set(true);
        self.changed.notify_one();
    }

    /// Registers the broker again and again until it is to leave.
    pub(super) async fn keep_registered(self: Rc<Self>, state: Rc<RefCell<State>>) {
        while !self.leaving.get() {
            if let Err(error) = self.serve_connection(&state).await {
                tracing::warn!(name_server = self.address, %error, "the broker cannot register");
                self.attempted.notify_one();
                tokio::select! {
                    () = rest(RECONNECT_AFTER) => {}
                    () = self.changed.notified() => {}
                }
            }
        }
    }

    async fn serve_connection(&self, state: &RefCell<State>) -> io::Result<()> {
        let version = state.borrow().version();
        let mut connection = Connection::open(&self.address, version).await?;
        self.topics.borrow_mut().clear();
        let (identity, table) = state.borrow().registration();
        connection.register(&identity, table).await?;
        let master = connection.answer().await?;
        state.borrow_mut().broker_mut().master_found(master);
        tracing::info!(name_server = self.address, "registered");
        self.attempted.notify_one();
        loop {
            tokio::select! {
                () = rest(PERIOD) => {
                    let (identity, table) = state.borrow().registration();
                    connection.register(&identity, table).await?;
                }
                () = self.changed.notified() => {
                    if self.leaving.get() {
                        connection.unregister(&identity).await?;
                        return connection.answer().await.map(drop);
                    }
                    let changed = self.topics.take();
                    if !changed.is_empty() {
                        let (identity, mut table) = state.borrow().registration();
                        let entries = changed.into_iter().map(|topic| (topic.topic_name.clone(), topic));
                        table.topic_config_table = entries.collect();
                        connection.register(&identity, table).await?;
                    }
                }
                answered = connection.answer() => {
                    let master = answered?;
                    state.borrow_mut().broker_mut().master_found(master);
                }
            }
        }
    }
}

struct Connection {
    stream: TcpStream,
    received: BytesMut,
    version: Version,
    opaque: i32,
}

impl Connection {
    #[expect(clippy::disallowed_methods, reason = "connections belong to the server")]
    async fn open(address: &str, version: Version) -> io::Result<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Connection { stream, received: BytesMut::new(), version, opaque: 0 })
    }

    async fn register(&mut self, broker: &BrokerIdentity, table: TopicConfigTable) -> io::Result<()> {
        let body = RegisterBrokerBody { filter_server_list: Vec::new(), topic_config_serialize_wrapper: table };
        let body = crate::json::to_vec(&body);
        let request = RegisterBrokerRequest {
            broker_name: broker.name.as_str().into(),
            broker_address: broker.address.as_str().into(),
            cluster_name: broker.cluster.as_str().into(),
            ha_server_address: broker.ha_address.as_str().into(),
            broker_id: broker.id,
            heartbeat_timeout_millis: None,
            enable_acting_master: None,
            compressed: Some(false),
            body_crc32: Some(rocketmq_wire::message::record::body_crc(&body).into()),
        };
        self.send(&request, &body).await
    }

    async fn unregister(&mut self, broker: &BrokerIdentity) -> io::Result<()> {
        let request = UnregisterBrokerRequest {
            broker_name: broker.name.as_str().into(),
            broker_address: broker.address.as_str().into(),
            cluster_name: broker.cluster.as_str().into(),
            broker_id: broker.id,
        };
        self.send(&request, b"").await
    }

    async fn send<R: Request>(&mut self, request: &R, body: &[u8]) -> io::Result<()> {
        self.opaque = self.opaque.wrapping_add(1);
        let head = Head {
            code: R::CODE.0,
            language: LanguageCode::JAVA,
            version: self.version,
            opaque: self.opaque,
            flag: 0,
            remark: None,
        };
        let mut frame = BytesMut::new();
        encode(&mut frame, SerializeType::Json, &head, request, body.len()).map_err(io::Error::other)?;
        frame.extend_from_slice(body);
        self.stream.write_all(&frame).await
    }

    /// Waits for the next answer and logs what went wrong. Dropping it loses no bytes. A slave is told its master.
    async fn answer(&mut self) -> io::Result<MasterAddresses> {
        let invalid = |error| io::Error::new(io::ErrorKind::InvalidData, error);
        loop {
            let layout = FrameLayout::peek(&self.received, DEFAULT_MAX_FRAME_LENGTH).map_err(invalid)?;
            if let Some(layout) = layout {
                let header = &self.received[PREFIX_LENGTH..PREFIX_LENGTH + layout.header_length];
                let header = Header::decode(layout.serialize_type, header).map_err(invalid)?;
                if header.head.is_response() && header.head.code != ResponseCode::SUCCESS.0 {
                    let (code, remark) = (header.head.code, header.head.remark.as_deref());
                    tracing::warn!(code, remark, "a name server refused a registration");
                }
                let told = RegisterBrokerResponse::decode_fields(header.fields).map_err(invalid)?;
                let filled =
                    |address: Option<Cow<'_, str>>| address.filter(|address| !address.is_empty()).map(Cow::into_owned);
                let master =
                    MasterAddresses { ha: filled(told.ha_server_address), broker: filled(told.master_address) };
                self.received.advance(layout.frame_length);
                return Ok(master);
            }
            self.stream.readable().await?;
            match self.stream.try_read_buf(&mut self.received) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
    }
}
