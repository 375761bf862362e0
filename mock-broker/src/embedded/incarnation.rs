//! The broker's thread: a broker that serves, stops, and serves again.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener, ToSocketAddrs};
use std::thread::JoinHandle;

use tokio::sync::{mpsc, oneshot};

use super::builder::{MockBrokerBuilder, StartTime};
use super::start_error::{Cause, StartError};
use crate::broker::Broker;
use crate::clock::Clock;
use crate::console::{Access, Remote};
use crate::name_server::BrokerIdentity;
use crate::server::{self, Control, Ended, Listeners, Security, ServeOptions, Watch};
use crate::settings::Role;

pub(super) fn spawn(run: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>> {
    std::thread::Builder::new().name("rocketmq-mock-broker".to_owned()).spawn(run)
}

/// Where a console listens, who may use it, and the broker that it is of.
pub(super) type Console = (TcpListener, Access, Remote);

/// Where a broker is to be reached.
#[derive(Debug)]
pub(super) struct Addresses {
    pub(super) name_server: String,
    pub(super) broker: String,
}

/// The broker's thread: serves, stops and serves again until nobody holds the broker.
pub(super) fn run(
    builder: MockBrokerBuilder,
    console: Option<Console>,
    mut control: mpsc::UnboundedReceiver<Control>,
    ready: oneshot::Sender<Result<Addresses, StartError>>,
) {
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build() {
        Ok(runtime) => runtime,
        Err(error) => return drop(ready.send(Err(error.into()))),
    };
    let main = async move {
        let mut incarnation = match Incarnation::first(&builder) {
            Ok(first) => first,
            Err(error) => return drop(ready.send(Err(error))),
        };
        let addresses = incarnation.addresses();
        // Once it serves, whoever waits for that is told.
        let mut announce: Option<Box<dyn FnOnce()>> = Some(Box::new(move || drop(ready.send(Ok(addresses)))));
        loop {
            let Incarnation { listeners, identity, broker, lasting: (clock, watch), security } = incarnation;
            let bound = listeners.addresses();
            let served = server::serve(
                (builder.settings.compatibility, security),
                listeners,
                (identity, &builder.settings.name_servers),
                (broker, clock, watch),
                ServeOptions { skip_time: builder.skip_time, name_server_only: builder.name_server_only },
                &mut control,
                announce.take().unwrap_or_else(|| Box::new(|| {})),
            );
            let ((mut broker, mut clock, watch), ended) = match served.await {
                Ok(ended) => ended,
                Err(error) => return tracing::error!(%error, "the broker cannot serve"),
            };
            let Ok(bound) = bound else { return };
            let is_on_disk = builder.settings.store.is_some();
            let now = clock.now();
            let (kept, lasting) = match ended {
                Ended::Abandoned => {
                    if is_on_disk && let Err(error) = broker.close(now) {
                        tracing::error!(%error, "not saved");
                    }
                    return;
                }
                Ended::Stopped(done) if is_on_disk => {
                    drop(done.send(broker.close(now).map_err(StartError::from)));
                    (None, (clock, watch))
                }
                Ended::Stopped(done) => {
                    drop(done.send(Ok(())));
                    broker.forget_sessions();
                    (Some(broker), (clock, watch))
                }
                // Asked of brokers in memory only.
                Ended::Emptied(done) => {
                    drop(broker);
                    let lasting = (clock, Watch::new(builder.journal));
                    match Incarnation::start(&builder, bound.0, bound.1, None, lasting) {
                        Ok(next) => {
                            incarnation = next;
                            announce = Some(Box::new(move || drop(done.send(Ok(())))));
                            continue;
                        }
                        Err((error, kept, lasting)) => {
                            drop(done.send(Err(error)));
                            (kept, lasting)
                        }
                    }
                }
            };
            match wait_for_restart(&builder, bound, kept, lasting, &mut control).await {
                Some((next, done)) => {
                    incarnation = next;
                    announce = Some(Box::new(move || drop(done.send(Ok(())))));
                }
                None => return,
            }
        }
    };
    let main = Box::pin(main);
    runtime.block_on(async {
        match console {
            Some((listener, access, remote)) => {
                tokio::select! {
                    () = main => {}
                    () = crate::console::serve(listener, access, remote) => {}
                }
            }
            None => main.await,
        }
    });
}

/// Everything that is needed to serve.
struct Incarnation {
    listeners: Listeners,
    identity: BrokerIdentity,
    broker: Broker,
    lasting: Lasting,
    security: Security,
}

/// What lasts as long as the thread, whatever becomes of the broker.
type Lasting = (Clock, Watch);

impl Incarnation {
    fn first(builder: &MockBrokerBuilder) -> Result<Self, StartError> {
        let clock = match builder.time {
            StartTime::Real => Clock::real(),
            StartTime::Frozen => Clock::manual(),
            StartTime::FrozenAt(message_ms) => Clock::manual_at(message_ms),
        };
        let lasting = (clock, Watch::new(builder.journal));
        Self::start(builder, builder.name_server, builder.broker, None, lasting).map_err(|(error, ..)| error)
    }

    /// Listens and opens the store, unless there is a broker from before. On failure what was given comes back.
    #[expect(clippy::result_large_err, reason = "happens once, and the parts are needed again")]
    fn start(
        builder: &MockBrokerBuilder,
        name_server: SocketAddr,
        broker: SocketAddr,
        mut kept: Option<Broker>,
        mut lasting: Lasting,
    ) -> Result<Self, (StartError, Option<Broker>, Lasting)> {
        let now = lasting.0.now();
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
            let security = Security::new(&builder.settings).map_err(|error| StartError(Cause::Address(error)))?;
            let listeners = Listeners::bind(name_server, broker, builder.settings.role != Role::Alone)?;
            let (_, bound) = listeners.addresses()?;
            let store_host = SocketAddr::new(host, bound.port());
            let identity = BrokerIdentity {
                cluster: builder.settings.cluster.clone(),
                name: builder.settings.broker_name.clone(),
                id: builder.settings.broker_id.unwrap_or(i64::from(builder.settings.role == Role::Slave)),
                address: advertised.map_or(store_host.to_string(), |host| format!("{host}:{}", bound.port())),
                ha_address: SocketAddr::new(host, bound.port().saturating_add(1)).to_string(),
            };
            let broker = match kept.take() {
                Some(broker) => broker,
                None => {
                    Broker::open(builder.settings.clone(), store_host, now, RandomState::new().build_hasher().finish())?
                }
            };
            Ok((listeners, identity, broker, security))
        };
        match start() {
            Ok((listeners, identity, broker, security)) => {
                Ok(Incarnation { listeners, identity, broker, lasting, security })
            }
            Err(error) => Err((error, kept, lasting)),
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
    mut lasting: Lasting,
    control: &mut mpsc::UnboundedReceiver<Control>,
) -> Option<(Incarnation, oneshot::Sender<Result<(), StartError>>)> {
    loop {
        match control.recv().await? {
            // Dropping the call tells the caller that the broker is stopped.
            Control::Call(_) => {}
            Control::Stop(done) => drop(done.send(Ok(()))),
            Control::Reset(done) => {
                let why = "the broker is stopped: start it before it is emptied";
                drop(done.send(Err(StartError(Cause::Address(why.to_owned())))));
            }
            Control::Restart(done) => match Incarnation::start(builder, name_server, broker, kept, lasting) {
                Ok(next) => return Some((next, done)),
                Err((error, broker, stopped)) => {
                    drop(done.send(Err(error)));
                    (kept, lasting) = (broker, stopped);
                }
            },
        }
    }
}
