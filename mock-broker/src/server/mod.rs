//! Sockets and timers: one thread with a runtime of its own, on which everything of a broker happens.

mod connection;
mod encrypted;
mod encryption;
mod gate;
mod ha;
mod listen;
mod outbox;
mod registrar;
mod replica;
mod security;
mod state;
mod watch;

use std::cell::RefCell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::{mpsc, oneshot};
use tokio::task::LocalSet;

pub(crate) use encryption::{TlsMode, TlsSettings};
pub(crate) use listen::{ListenError, Listeners};
pub(crate) use security::Security;
pub(crate) use state::{Kept, State};
pub(crate) use watch::Watch;

use crate::compatibility::Compatibility;
use crate::name_server::BrokerIdentity;
use crate::pattern::Port;
use gate::Gate;
use registrar::Registrar;

/// How long the acceptor rests when the process has no descriptor left for a connection.
const REST_AFTER_FAILED_ACCEPT: Duration = Duration::from_millis(50);

/// How long name servers of other processes may take to answer when the broker comes and goes.
const REGISTRATION_LIMIT: Duration = Duration::from_secs(3);

/// What is asked of a server from outside its thread.
pub(crate) enum Control {
    /// Do something with the state.
    Call(Box<dyn FnOnce(&mut State) + Send>),
    /// Close the ports and the connections, and signal when the store is saved.
    Stop(oneshot::Sender<Result<(), crate::StartError>>),
    /// Listen again, and signal when requests are served.
    Restart(oneshot::Sender<Result<(), crate::StartError>>),
    /// Start over with nothing stored, no faults and an empty journal, on the same ports, and signal when requests are served.
    Reset(oneshot::Sender<Result<(), crate::StartError>>),
}

/// Why a server ended.
pub(crate) enum Ended {
    /// It was asked to, by somebody who waits for the result.
    Stopped(oneshot::Sender<Result<(), crate::StartError>>),
    /// It is to start over with nothing, for somebody who waits for the result.
    Emptied(oneshot::Sender<Result<(), crate::StartError>>),
    /// Nobody can ask it for anything any more.
    Abandoned,
}

/// What a server does besides serving.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ServeOptions {
    /// Message time skips to what is due next.
    pub(crate) skip_time: bool,
    /// The broker is not registered at the name server beside it.
    pub(crate) name_server_only: bool,
}

/// Serves until it is told to stop, or until nobody holds the sending side of `control`. Everything that it started is
/// over when it returns, and it gives back what outlives a server.
///
/// # Errors
///
/// When the listeners cannot be handed to the runtime.
pub(crate) async fn serve(
    (compatibility, security): (Compatibility, Security),
    listeners: Listeners,
    (identity, name_servers): (BrokerIdentity, &[String]),
    kept: Kept,
    options: ServeOptions,
    control: &mut mpsc::UnboundedReceiver<Control>,
    ready: impl FnOnce(),
) -> std::io::Result<(Kept, Ended)> {
    let ha = listeners.ha.map(TcpListener::from_std).transpose()?;
    let is_slave = kept.0.is_slave();
    let gates = vec![
        Gate::new(Port::NameServer, listeners.name_server)?,
        Gate::new(Port::Broker, listeners.broker)?,
        Gate::new(Port::Broker, listeners.second)?,
    ];
    let state = Rc::new(RefCell::new(State::new(compatibility, kept, identity, security)));
    let tasks = LocalSet::new();
    for gate in &gates {
        tasks.spawn_local(accept(Rc::clone(&state), Rc::clone(gate)));
    }
    state.borrow_mut().gates = gates;
    state.borrow_mut().set_skipping(options.skip_time);
    if options.name_server_only {
        state.borrow_mut().forget_own_broker();
    }
    state.borrow().apply_port_faults();
    tasks.spawn_local(keep_time(Rc::clone(&state)));
    tasks.spawn_local(answer_flushed(Rc::clone(&state)));
    let registrars: Vec<Rc<Registrar>> = name_servers.iter().map(|address| Registrar::new(address)).collect();
    state.borrow_mut().registrars.clone_from(&registrars);
    let registering: Vec<_> = registrars
        .iter()
        .map(|registrar| tasks.spawn_local(Rc::clone(registrar).keep_registered(Rc::clone(&state))))
        .collect();
    let attempted = async {
        for registrar in &registrars {
            registrar.attempted.notified().await;
        }
    };
    tasks.run_until(limited(attempted)).await;
    if let Some(listener) = ha {
        tasks.spawn_local(ha::accept(Rc::clone(&state), listener));
    }
    if is_slave {
        tasks.spawn_local(replica::follow_log(Rc::clone(&state)));
        tasks.spawn_local(replica::follow_settings(Rc::clone(&state)));
    }
    ready();
    let ended = tasks.run_until(obey(&state, control)).await;
    let left = async {
        registrars.iter().for_each(|registrar| registrar.leave());
        for task in registering {
            // One that failed has nothing to take back.
            let _ = task.await;
        }
    };
    tasks.run_until(limited(left)).await;
    // Dropping the tasks closes the sockets and leaves the state to us.
    drop(tasks);
    let state = Rc::into_inner(state).expect("all tasks that shared the state are gone");
    Ok((state.into_inner().into_parts(), ended))
}

async fn obey(state: &RefCell<State>, control: &mut mpsc::UnboundedReceiver<Control>) -> Ended {
    while let Some(message) = control.recv().await {
        match message {
            Control::Call(call) => call(&mut state.borrow_mut()),
            Control::Stop(done) => return Ended::Stopped(done),
            Control::Reset(done) => return Ended::Emptied(done),
            // It runs already.
            Control::Restart(done) => drop(done.send(Ok(()))),
        }
    }
    Ended::Abandoned
}

async fn accept(state: Rc<RefCell<State>>, gate: Rc<Gate>) {
    loop {
        match gate.accept().await {
            Ok((stream, address)) => {
                if let Err(error) = stream.set_nodelay(true) {
                    tracing::warn!(%error, peer = %address, "connection without nodelay");
                }
                let connection = state.borrow_mut().connected(gate.port, canonical(address));
                tokio::task::spawn_local(connection::serve(Rc::clone(&state), connection, stream));
            }
            Err(error) => {
                tracing::error!(%error, "a connection could not be accepted");
                rest(REST_AFTER_FAILED_ACCEPT).await;
            }
        }
    }
}

/// A client that came over IPv6 from an IPv4 address counts as one of IPv4.
fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

async fn keep_time(state: Rc<RefCell<State>>) {
    let changed = Rc::clone(&state.borrow().timer);
    loop {
        let wait = state.borrow_mut().tick();
        tokio::select! {
            () = rest(wait.max(Duration::from_millis(1))) => {}
            () = changed.notified() => {}
        }
    }
}

/// Answers sends when the disk has them.
async fn answer_flushed(state: Rc<RefCell<State>>) {
    let flushed = Arc::clone(&state.borrow().flushed);
    loop {
        flushed.notified().await;
        state.borrow_mut().flushed();
    }
}

/// Waits for name servers, but not for ever.
async fn limited(answers: impl Future<Output = ()>) {
    tokio::select! {
        () = answers => {}
        () = rest(REGISTRATION_LIMIT) => tracing::warn!("a name server does not answer"),
    }
}

/// Starts a task of the calling server that completes the result after a time.
pub(crate) fn after(duration: Duration) -> oneshot::Receiver<()> {
    let (done, over) = oneshot::channel();
    tokio::task::spawn_local(async move {
        rest(duration).await;
        // Nobody may wait any more.
        let _ = done.send(());
    });
    over
}

/// Waits in real time.
#[expect(clippy::disallowed_methods, reason = "timers belong to the server")]
pub(crate) async fn rest(duration: Duration) {
    tokio::time::sleep(duration).await;
}
