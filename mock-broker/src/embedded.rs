//! A broker inside the process that tests with it.

use std::fmt;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;
use std::time::Duration;

use rocketmq_wire::message::StoredMessage;
use tokio::sync::{mpsc, oneshot};

use crate::broker::Broker;
use crate::clock::Clock;
use crate::compatibility::Compatibility;
use crate::name_server::BrokerIdentity;
use crate::server::{self, Control, Ended, ListenError, Listeners, State};
use crate::settings::Settings;
use crate::store::StoreError;

/// A name server and a broker on a thread of their own.
///
/// Clients connect to [`name_server`](Self::name_server) as to any other. Dropping the value closes the ports and the
/// connections, saves the store if it is on disk, and waits until the thread has ended.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), rocketmq_mock_broker::StartError> {
/// use rocketmq_mock_broker::{Compatibility, MockBroker};
///
/// let broker = MockBroker::builder().topic("orders", 4).compatibility(Compatibility::V4_9).start().await?;
/// assert!(broker.messages("orders").is_empty());
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct MockBroker {
    /// Not bounded: every caller waits for its answer, so there are no more entries than callers.
    control: Option<mpsc::UnboundedSender<Control>>,
    thread: Option<JoinHandle<()>>,
    name_server: String,
    broker: String,
    store: Option<PathBuf>,
}

/// A broker that could not be started, stopped or started again. The text says what failed and what to do.
#[derive(Debug)]
pub struct StartError(Cause);

#[derive(Debug)]
enum Cause {
    Listen(ListenError),
    Store(StoreError),
    Io(io::Error),
    Address(String),
    Gone,
}

impl StartError {
    /// Whether the arguments are at fault, rather than the machine or the store.
    #[must_use]
    pub fn is_argument(&self) -> bool {
        matches!(self.0, Cause::Address(_))
    }
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Cause::Listen(error) => error.fmt(f),
            Cause::Store(error) => error.fmt(f),
            Cause::Io(error) => write!(f, "the broker cannot be started: {error}"),
            Cause::Address(text) => f.write_str(text),
            Cause::Gone => f.write_str("the broker's thread has ended; its log says why"),
        }
    }
}

impl std::error::Error for StartError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.0 {
            Cause::Listen(error) => Some(error),
            Cause::Store(error) => Some(error),
            Cause::Io(error) => Some(error),
            Cause::Address(_) | Cause::Gone => None,
        }
    }
}

impl From<ListenError> for StartError {
    fn from(error: ListenError) -> Self {
        StartError(Cause::Listen(error))
    }
}

impl From<StoreError> for StartError {
    fn from(error: StoreError) -> Self {
        StartError(Cause::Store(error))
    }
}

impl From<io::Error> for StartError {
    fn from(error: io::Error) -> Self {
        StartError(Cause::Io(error))
    }
}

/// What a [`MockBroker`] is to be like. Made by [`MockBroker::builder`].
#[derive(Debug, Clone)]
#[must_use = "a builder does nothing until it is started"]
pub struct MockBrokerBuilder {
    settings: Settings,
    name_server: SocketAddr,
    broker: SocketAddr,
    manual_time: bool,
}

impl MockBroker {
    /// Starts a broker with the default settings: ports chosen by the kernel on 127.0.0.1, messages in memory, topics
    /// created by the first send, like Apache 5.3. It serves when this returns. Needs no runtime of a certain kind; if
    /// the future is dropped, the broker ends.
    ///
    /// # Errors
    ///
    /// When no port or no thread is to be had.
    pub async fn start() -> Result<Self, StartError> {
        Self::builder().start().await
    }

    /// As [`start`](Self::start), for code that is not asynchronous.
    ///
    /// # Errors
    ///
    /// As [`start`](Self::start).
    pub fn start_blocking() -> Result<Self, StartError> {
        Self::builder().start_blocking()
    }

    /// Begins to describe a broker.
    pub fn builder() -> MockBrokerBuilder {
        let any_port = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);
        MockBrokerBuilder { settings: Settings::default(), name_server: any_port, broker: any_port, manual_time: false }
    }

    /// The address of the name server, for clients: `host:port`.
    #[must_use]
    pub fn name_server(&self) -> &str {
        &self.name_server
    }

    /// The address of the broker as routes name it: `host:port`.
    #[must_use]
    pub fn broker_address(&self) -> &str {
        &self.broker
    }

    /// The directory that keeps messages; none if they are in memory.
    #[must_use]
    pub fn store_directory(&self) -> Option<&Path> {
        self.store.as_deref()
    }

    /// Turns message time forward and returns when everything that is due by then has been stored and the clients that
    /// wait for it have been answered. Delayed messages are delivered at once; heartbeats, locks and long polls keep to
    /// real time. If the future is dropped, time may have been turned.
    ///
    /// # Panics
    ///
    /// While the broker is stopped.
    pub async fn advance(&self, by: Duration) {
        self.call(move |state| state.advance(by)).await;
    }

    /// As [`advance`](Self::advance), for code that is not asynchronous.
    ///
    /// # Panics
    ///
    /// While the broker is stopped.
    pub fn advance_blocking(&self, by: Duration) {
        self.call_blocking(move |state| state.advance(by));
    }

    /// Turns session time forward: clients that were not heard of in time are dropped, locks fall, long polls end.
    ///
    /// # Panics
    ///
    /// While the broker is stopped.
    pub async fn advance_sessions(&self, by: Duration) {
        self.call(move |state| state.advance_sessions(by)).await;
    }

    /// Every message that can be consumed from a topic, queue by queue in the order of the queue. Messages that are
    /// delayed are not there yet. Waits for the broker's thread, for no longer than it needs to answer a request.
    ///
    /// # Panics
    ///
    /// While the broker is stopped.
    #[must_use]
    pub fn messages(&self, topic: &str) -> Vec<StoredMessage> {
        let topic = topic.to_owned();
        self.call_blocking(move |state| state.broker().messages(&topic))
    }

    /// Creates a topic, or changes how many queues it has, and tells the name server.
    ///
    /// # Panics
    ///
    /// While the broker is stopped.
    pub async fn create_topic(&self, topic: &str, queues: u32) {
        let topic = topic.to_owned();
        self.call(move |state| state.set_topic(&topic, queue_count(queues))).await;
    }

    /// Stops the broker as the end of its process would: ports and connections close, who was connected is forgotten.
    /// Messages, topics and offsets are kept. A store on disk is closed and can be opened by others until
    /// [`restart`](Self::restart). Nothing to do if it is stopped.
    ///
    /// # Errors
    ///
    /// When the store cannot be saved; the broker is stopped nevertheless.
    pub async fn stop(&self) -> Result<(), StartError> {
        let (done, result) = oneshot::channel();
        self.send(Control::Stop(done));
        result.await.unwrap_or(Err(StartError(Cause::Gone)))
    }

    /// Starts the broker again, on the ports that it had. It serves when this returns. Nothing to do if it runs.
    ///
    /// # Errors
    ///
    /// When a port was taken by somebody else meanwhile, or the store cannot be opened; it may be tried again.
    pub async fn restart(&self) -> Result<(), StartError> {
        let (done, result) = oneshot::channel();
        self.send(Control::Restart(done));
        result.await.unwrap_or(Err(StartError(Cause::Gone)))
    }

    /// As [`stop`](Self::stop), for code that is not asynchronous.
    ///
    /// # Errors
    ///
    /// As [`stop`](Self::stop).
    pub fn stop_blocking(&self) -> Result<(), StartError> {
        block_on(self.stop())
    }

    /// As [`restart`](Self::restart), for code that is not asynchronous.
    ///
    /// # Errors
    ///
    /// As [`restart`](Self::restart).
    pub fn restart_blocking(&self) -> Result<(), StartError> {
        block_on(self.restart())
    }

    fn send(&self, message: Control) {
        if let Some(control) = &self.control {
            // A thread that is gone drops what was sent, and the waiting side notices.
            let _ = control.send(message);
        }
    }

    async fn call<T: Send + 'static>(&self, call: impl FnOnce(&mut State) -> T + Send + 'static) -> T {
        let (done, result) = oneshot::channel();
        self.send(Control::Call(Box::new(move |state| {
            // The caller may have stopped waiting.
            let _ = done.send(call(state));
        })));
        result.await.expect(STOPPED)
    }

    fn call_blocking<T: Send + 'static>(&self, call: impl FnOnce(&mut State) -> T + Send + 'static) -> T {
        block_on(self.call(call))
    }
}

const STOPPED: &str = "the broker is stopped: call `restart` first";

impl Drop for MockBroker {
    fn drop(&mut self) {
        // Without a sender the thread ends.
        self.control = None;
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the broker's thread panicked");
        }
    }
}

impl MockBrokerBuilder {
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
        self.manual_time = true;
        self
    }

    /// Sets an Apache property of a broker by its name: `brokerClusterName`, `brokerName`, `brokerIP1`, `regionId`,
    /// `traceOn`, `autoCreateTopicEnable`, `autoCreateSubscriptionGroup`, `defaultTopicQueueNums`,
    /// `longPollingEnable`, `shortPollingTimeMills`, `notifyConsumerIdsChangedEnable`, `maxMessageSize`,
    /// `messageDelayLevel`, `storePathRootDir`, `mappedFileSizeCommitLog`, `mappedFileSizeConsumeQueue`,
    /// `flushIntervalCommitLog` or `flushConsumerOffsetInterval`; and `compatibility`, which is ours.
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
        let thread = Some(spawn(move || run(self, receiver, ready))?);
        // Until the addresses are known the value exists for its drop alone.
        let (name_server, broker) = (String::new(), String::new());
        let mut broker = MockBroker { control: Some(control), thread, name_server, broker, store };
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

fn queue_count(queues: u32) -> i32 {
    i32::try_from(queues).unwrap_or(i32::MAX)
}

fn spawn(run: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>> {
    std::thread::Builder::new().name("rocketmq-mock-broker".to_owned()).spawn(run)
}

/// Waits for a future that another thread completes. Nothing that the future needs runs on this thread.
fn block_on<T>(future: impl Future<Output = T>) -> T {
    struct Unpark(std::thread::Thread);
    impl std::task::Wake for Unpark {
        fn wake(self: std::sync::Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = std::sync::Arc::new(Unpark(std::thread::current())).into();
    let mut context = std::task::Context::from_waker(&waker);
    let mut future = std::pin::pin!(future);
    loop {
        match future.as_mut().poll(&mut context) {
            std::task::Poll::Ready(value) => return value,
            std::task::Poll::Pending => std::thread::park(),
        }
    }
}

/// Where a broker is to be reached.
#[derive(Debug)]
struct Addresses {
    name_server: String,
    broker: String,
}

/// The broker's thread: serves, stops and serves again until nobody holds the broker.
fn run(
    builder: MockBrokerBuilder,
    mut control: mpsc::UnboundedReceiver<Control>,
    ready: oneshot::Sender<Result<Addresses, StartError>>,
) {
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build() {
        Ok(runtime) => runtime,
        Err(error) => return drop(ready.send(Err(error.into()))),
    };
    runtime.block_on(async move {
        let mut incarnation = match Incarnation::first(&builder) {
            Ok(first) => first,
            Err(error) => return drop(ready.send(Err(error))),
        };
        let addresses = incarnation.addresses();
        // Once it serves, whoever waits for that is told.
        let mut announce: Option<Box<dyn FnOnce()>> = Some(Box::new(move || drop(ready.send(Ok(addresses)))));
        loop {
            let Incarnation { listeners, identity, broker, clock } = incarnation;
            let bound = listeners.addresses();
            let served = server::serve(
                builder.settings.compatibility,
                listeners,
                identity,
                broker,
                clock,
                &mut control,
                announce.take().unwrap_or_else(|| Box::new(|| {})),
            );
            let (mut broker, mut clock, ended) = match served.await {
                Ok(ended) => ended,
                Err(error) => return tracing::error!(%error, "the broker cannot serve"),
            };
            let now = clock.now();
            let kept = if builder.settings.store.is_some() {
                let closed = broker.close(now).map_err(StartError::from);
                match ended {
                    Ended::Stopped(done) => drop(done.send(closed)),
                    Ended::Abandoned => return closed.unwrap_or_else(|error| tracing::error!(%error, "not saved")),
                }
                None
            } else {
                match ended {
                    Ended::Stopped(done) => drop(done.send(Ok(()))),
                    Ended::Abandoned => return,
                }
                broker.forget_sessions();
                Some(broker)
            };
            let Ok(bound) = bound else { return };
            match wait_for_restart(&builder, bound, kept, clock, &mut control).await {
                Some((next, done)) => {
                    incarnation = next;
                    announce = Some(Box::new(move || drop(done.send(Ok(())))));
                }
                None => return,
            }
        }
    });
}

/// Everything that is needed to serve.
struct Incarnation {
    listeners: Listeners,
    identity: BrokerIdentity,
    broker: Broker,
    clock: Clock,
}

impl Incarnation {
    fn first(builder: &MockBrokerBuilder) -> Result<Self, StartError> {
        let clock = if builder.manual_time { Clock::manual() } else { Clock::real() };
        Self::start(builder, builder.name_server, builder.broker, None, clock).map_err(|(error, ..)| error)
    }

    /// Listens and opens the store, unless there is a broker from before. On failure what was given comes back.
    #[expect(clippy::result_large_err, reason = "happens once, and the parts are needed again")]
    fn start(
        builder: &MockBrokerBuilder,
        name_server: SocketAddr,
        broker: SocketAddr,
        mut kept: Option<Broker>,
        mut clock: Clock,
    ) -> Result<Self, (StartError, Option<Broker>, Clock)> {
        let now = clock.now();
        let mut start = || -> Result<_, StartError> {
            let advertised = builder.settings.advertised.as_deref();
            let host = match advertised {
                Some(host) => resolve(host)?,
                None if broker.ip().is_unspecified() => {
                    let text = format!("listening on {broker} needs a host to put into routes: say which to advertise");
                    return Err(StartError(Cause::Address(text)));
                }
                None => broker.ip(),
            };
            let listeners = Listeners::bind(name_server, broker)?;
            let (_, bound) = listeners.addresses()?;
            let store_host = SocketAddr::new(host, bound.port());
            let identity = BrokerIdentity {
                cluster: builder.settings.cluster.clone(),
                name: builder.settings.broker_name.clone(),
                id: 0,
                address: advertised.map_or(store_host.to_string(), |host| format!("{host}:{}", bound.port())),
                ha_address: SocketAddr::new(host, bound.port().saturating_add(1)).to_string(),
            };
            let broker = match kept.take() {
                Some(broker) => broker,
                None => {
                    Broker::open(builder.settings.clone(), store_host, now, RandomState::new().build_hasher().finish())?
                }
            };
            Ok((listeners, identity, broker))
        };
        match start() {
            Ok((listeners, identity, broker)) => Ok(Incarnation { listeners, identity, broker, clock }),
            Err(error) => Err((error, kept, clock)),
        }
    }

    fn addresses(&self) -> Addresses {
        let name_server = self.listeners.addresses().map(|(name_server, _)| name_server.to_string());
        Addresses { name_server: name_server.unwrap_or_default(), broker: self.identity.address.clone() }
    }
}

/// The address that stored messages name for a host.
fn resolve(host: &str) -> Result<IpAddr, StartError> {
    let failed = |why: String| {
        StartError(Cause::Address(format!("the host `{host}` cannot be advertised: {why}; name one that resolves")))
    };
    let found: Vec<IpAddr> =
        (host, 0).to_socket_addrs().map_err(|error| failed(error.to_string()))?.map(|address| address.ip()).collect();
    let preferred = found.iter().find(|address| address.is_ipv4()).or(found.first());
    preferred.copied().ok_or_else(|| failed("it has no address".to_owned()))
}

/// Waits, stopped, until the broker is to serve again; none if nobody can ask for that any more.
async fn wait_for_restart(
    builder: &MockBrokerBuilder,
    (name_server, broker): (SocketAddr, SocketAddr),
    mut kept: Option<Broker>,
    mut clock: Clock,
    control: &mut mpsc::UnboundedReceiver<Control>,
) -> Option<(Incarnation, oneshot::Sender<Result<(), StartError>>)> {
    loop {
        match control.recv().await? {
            // Dropping the call tells the caller that the broker is stopped.
            Control::Call(_) => {}
            Control::Stop(done) => drop(done.send(Ok(()))),
            Control::Restart(done) => match Incarnation::start(builder, name_server, broker, kept, clock) {
                Ok(next) => return Some((next, done)),
                Err((error, broker, stopped_clock)) => {
                    drop(done.send(Err(error)));
                    (kept, clock) = (broker, stopped_clock);
                }
            },
        }
    }
}
