//! What a broker is to be like.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use tokio::sync::{mpsc, oneshot};

use super::start_error::{Cause, StartError};
use super::{MockBroker, block_on, incarnation};
use crate::compatibility::Compatibility;
use crate::console::{Access, Remote};
use crate::journal::Limits;
use crate::settings::Settings;

/// What a [`MockBroker`] is to be like. Made by [`MockBroker::builder`].
#[derive(Debug, Clone)]
#[must_use = "a builder does nothing until it is started"]
pub struct MockBrokerBuilder {
    pub(super) settings: Settings,
    pub(super) name_server: SocketAddr,
    pub(super) broker: SocketAddr,
    pub(super) time: StartTime,
    pub(super) journal: Limits,
    pub(super) skip_time: bool,
    pub(super) console: Option<SocketAddr>,
    pub(super) access: Access,
    pub(super) name_server_only: bool,
}

/// What message time is at first.
#[derive(Debug, Clone, Copy)]
pub(super) enum StartTime {
    Real,
    Frozen,
    FrozenAt(i64),
}

impl MockBrokerBuilder {
    pub(super) fn new() -> Self {
        let any_port = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);
        MockBrokerBuilder {
            settings: Settings::default(),
            name_server: any_port,
            broker: any_port,
            time: StartTime::Real,
            journal: Limits::default(),
            skip_time: false,
            console: None,
            access: Access::default(),
            name_server_only: false,
        }
    }

    /// Behaves like another line of Apache releases. Default 5.3.
    pub fn compatibility(mut self, compatibility: Compatibility) -> Self {
        self.settings.compatibility = compatibility;
        self
    }

    /// Has a topic from the start, with so many queues for reading and writing.
    pub fn topic(mut self, name: &str, queues: u32) -> Self {
        self.settings.topics.push((name.to_owned(), queue_count(queues)));
        self
    }

    /// Whether a send to an unknown topic creates it. Default true.
    pub fn auto_create_topics(mut self, create: bool) -> Self {
        self.settings.auto_create_topics = create;
        self
    }

    /// Whether a consumer group is created when it is first used. Default true.
    pub fn auto_create_groups(mut self, create: bool) -> Self {
        self.settings.auto_create_groups = create;
        self
    }

    /// Keeps messages, topics and offsets in a directory in Apache's format. Default in memory.
    pub fn store_directory(mut self, directory: impl Into<PathBuf>) -> Self {
        self.settings.store = Some(directory.into());
        self
    }

    /// Where the name server listens; port 0 lets the kernel choose. Default `127.0.0.1:0`.
    pub fn listen(mut self, address: SocketAddr) -> Self {
        self.name_server = address;
        self
    }

    /// Where the broker listens; it takes the port two below as well, for clients of 4.4. With port 0 the kernel
    /// chooses two that fit. Default `127.0.0.1:0`.
    pub fn broker_listen(mut self, address: SocketAddr) -> Self {
        self.broker = address;
        self
    }

    /// The host that routes name, instead of the address that the broker listens on. Needed if that is unspecified.
    pub fn advertise(mut self, host: &str) -> Self {
        self.settings.advertised = Some(host.to_owned());
        self
    }

    /// Lets message time stand still; only [`MockBroker::advance`] moves it. Default real time, which `advance` turns
    /// as well.
    pub fn manual_time(mut self) -> Self {
        self.time = StartTime::Frozen;
        self
    }

    /// Lets message time stand still at a moment, in milliseconds since 1970; only [`MockBroker::advance`] and
    /// [`MockBroker::set_time`] move it.
    pub fn manual_time_at(mut self, message_ms: i64) -> Self {
        self.time = StartTime::FrozenAt(message_ms);
        self
    }

    /// Skips message time to the next delayed message, timer or transaction check whenever nobody has asked for anything
    /// for 50 ms: what is to happen in two hours happens at once, in its order.
    pub fn skip_time(mut self) -> Self {
        self.skip_time = true;
        self
    }

    /// How many of the latest requests and answers are kept; 0 keeps none, which is faster. Default 10,000 entries, and
    /// not more than 32 MiB of them.
    pub fn journal(mut self, entries: usize) -> Self {
        self.journal = if entries == 0 { Limits::OFF } else { Limits { entries, ..Limits::default() } };
        self
    }

    /// Leaves the broker out of the routes of the name server beside it, which then knows only brokers of others.
    pub(super) fn name_server_only(mut self) -> Self {
        self.name_server_only = true;
        self
    }

    /// Serves the console at an address: a page for people, and everything that this API does over HTTP and JSON for programs
    /// in any language, described at `/openapi.json`. Port 0 lets the kernel choose. Default: there is none.
    ///
    /// Whoever reaches an address of the loopback interface may use it; any other needs
    /// [`console_token`](Self::console_token).
    pub fn console(mut self, address: SocketAddr) -> Self {
        self.console = Some(address);
        self
    }

    /// Serves the console only to those who show this as a bearer token. Default: to whoever is on this machine.
    pub fn console_token(mut self, token: &str) -> Self {
        self.access.token = Some(token.to_owned());
        self
    }

    /// Serves only requests that an account of this file has signed and is permitted, as a broker with `aclEnable` does; the
    /// file is one such as Apache's `plain_acl.yml` and is read again when it changes. Default: everybody is served.
    ///
    /// The name server checks nothing, as Apache's.
    pub fn access_control(mut self, accounts: impl Into<PathBuf>) -> Self {
        self.settings.access_control = true;
        self.settings.accounts = Some(accounts.into());
        self
    }

    /// Encrypts connections with the certificate and key of these PEM files. Without it they are encrypted with a
    /// certificate made on the spot, [`MockBroker::certificate`]. Plain connections are taken on the same ports, unless
    /// `tls.server.mode` is set to `enforcing`.
    pub fn certificate(mut self, certificate: impl Into<PathBuf>, key: impl Into<PathBuf>) -> Self {
        self.settings.tls.certificate = Some(certificate.into());
        self.settings.tls.key = Some(key.into());
        self
    }

    /// Sets an Apache property of a broker by its name: `brokerClusterName`, `brokerName`, `brokerIP1`, `regionId`,
    /// `traceOn`, `autoCreateTopicEnable`, `autoCreateSubscriptionGroup`, `defaultTopicQueueNums`,
    /// `longPollingEnable`, `shortPollingTimeMills`, `notifyConsumerIdsChangedEnable`, `maxMessageSize`,
    /// `messageDelayLevel`, `storePathRootDir`, `mappedFileSizeCommitLog`, `mappedFileSizeConsumeQueue`,
    /// `flushIntervalCommitLog`, `flushConsumerOffsetInterval`, `rejectTransactionMessage`, `transactionTimeOut`,
    /// `transactionCheckMax`, `transactionCheckInterval`, `storeReplyMessageEnable`,
    /// `timerWheelEnable`, `timerPrecisionMs`, `timerMaxDelaySec`, `timerRollWindowSlot`, `mappedFileSizeTimerLog` or
    /// `recallMessageEnable`, `enablePropertyFilter`, `namesrvAddr`
    /// (name servers of other processes, to register at as well), `brokerPermission`, `traceTopicEnable`,
    /// `msgTraceTopicName`; `aclEnable`, and of its virtual
    /// machine: `tls.server.mode`, `tls.server.certPath`, `tls.server.keyPath`, `tls.server.trustCertPath`; and
    /// `compatibility` and `aclFile`, which are ours.
    ///
    /// # Errors
    ///
    /// [`SettingError`](crate::SettingError) for a property that this broker does not honour, and for values that are
    /// none of its.
    pub fn set(mut self, property: &str, value: &str) -> Result<Self, crate::SettingError> {
        self.settings.set(property, value)?;
        Ok(self)
    }

    /// Starts the broker; see [`MockBroker::start`].
    ///
    /// # Errors
    ///
    /// When an address cannot be listened on, the store cannot be opened, or no thread is to be had.
    pub async fn start(self) -> Result<MockBroker, StartError> {
        let (ready, started) = oneshot::channel();
        let (control, receiver) = mpsc::unbounded_channel();
        let store = self.settings.store.clone();
        let console = match self.console {
            None => None,
            Some(address) => {
                let listener = crate::console::bind(address, &self.access);
                let listener = listener.map_err(|error| StartError(Cause::Address(error)))?;
                Some((listener, self.access.clone(), Remote::new(&control)))
            }
        };
        let console_address = console.as_ref().map(|(listener, ..)| listener.local_addr()).transpose()?;
        let thread = Some(incarnation::spawn(move || incarnation::run(self, console, receiver, ready))?);
        // Until the addresses are known the value exists for its drop alone.
        let (name_server, broker) = (String::new(), String::new());
        let control = Some(control);
        let mut broker = MockBroker { control, thread, name_server, broker, store, console: console_address };
        let addresses = started.await.unwrap_or(Err(StartError(Cause::Gone)))?;
        broker.name_server = addresses.name_server;
        broker.broker = addresses.broker;
        Ok(broker)
    }

    /// As [`start`](Self::start), for code that is not asynchronous.
    ///
    /// # Errors
    ///
    /// As [`start`](Self::start).
    pub fn start_blocking(self) -> Result<MockBroker, StartError> {
        block_on(self.start())
    }
}

pub(super) fn queue_count(queues: u32) -> i32 {
    i32::try_from(queues).unwrap_or(i32::MAX)
}
