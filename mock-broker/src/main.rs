//! The broker as a command: one process with a name server and a broker, until a signal ends it.

use std::io::{IsTerminal, Write};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, ValueEnum};
use rocketmq_mock_broker::{MockBroker, MockBrokerBuilder, StartError};
use tracing_subscriber::EnvFilter;

/// A RocketMQ name server and broker to test against.
///
/// Prints one line on stdout when it serves, logs to stderr (RUST_LOG sets what), ends on SIGTERM and Ctrl-C.
#[derive(Debug, Parser)]
#[command(version, name = "rocketmq-mock-broker")]
struct Arguments {
    /// Where the name server listens; port 0 takes a free one
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:9876")]
    listen: SocketAddr,

    /// Where the broker listens; it takes the port two below as well, for clients of 4.4
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:10911")]
    broker_listen: SocketAddr,

    /// The host that routes name; needed when the broker listens on an unspecified address
    #[arg(long, value_name = "HOST")]
    advertise: Option<String>,

    /// Keep messages, topics and offsets in this directory, in Apache's format; without it they are in memory
    #[arg(long, value_name = "DIRECTORY")]
    store: Option<PathBuf>,

    /// Whether message time goes on
    #[arg(long, value_enum, default_value_t = ClockKind::Real)]
    clock: ClockKind,

    /// Set a property by Apache's name, such as autoCreateTopicEnable=false, or compatibility=4.4|4.9|5.3; repeatable
    #[arg(long, value_name = "KEY=VALUE", value_parser = key_and_value)]
    set: Vec<(String, String)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ClockKind {
    /// Message time is real time
    Real,
    /// Message time stands still
    Manual,
}

fn key_and_value(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or_else(|| format!("`{text}` is not of the form key=value"))?;
    Ok((key.trim().to_owned(), value.trim().to_owned()))
}

/// Bad arguments.
const USAGE: u8 = 2;

fn main() -> ExitCode {
    // Ends the process with code 2 if the arguments are bad, with 0 for --help and --version.
    let arguments = Arguments::parse();
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("warn"));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .init();
    match run(arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err((code, message)) => {
            eprintln!("error: {message}");
            ExitCode::from(code)
        }
    }
}

fn run(arguments: Arguments) -> Result<(), (u8, String)> {
    let failed = |error: StartError| (if error.is_argument() { USAGE } else { 1 }, error.to_string());
    let io_failed = |error: std::io::Error| (1, error.to_string());
    let builder = builder(arguments).map_err(|message| (USAGE, message))?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().map_err(io_failed)?;
    runtime.block_on(async {
        // Before the ready line: whoever reads it may send a signal at once.
        let mut signals = Signals::listen().map_err(io_failed)?;
        let broker = builder.start().await.map_err(failed)?;
        let store = broker.store_directory().map_or("-".to_owned(), |directory| directory.display().to_string());
        let (name_server, address) = (broker.name_server(), broker.broker_address());
        let ready = format!("ready name_server={name_server} broker={address} console=- store={store}");
        let mut stdout = std::io::stdout().lock();
        // Nobody has to read it.
        let _ = writeln!(stdout, "{ready}").and_then(|()| stdout.flush());
        drop(stdout);
        signals.any().await;
        broker.stop().await.map_err(failed)
    })
}

fn builder(arguments: Arguments) -> Result<MockBrokerBuilder, String> {
    let mut builder = MockBroker::builder().listen(arguments.listen).broker_listen(arguments.broker_listen);
    if let Some(host) = &arguments.advertise {
        builder = builder.advertise(host);
    }
    if let Some(directory) = arguments.store {
        builder = builder.store_directory(directory);
    }
    if arguments.clock == ClockKind::Manual {
        builder = builder.manual_time();
    }
    for (key, value) in &arguments.set {
        builder = builder.set(key, value).map_err(|error| error.to_string())?;
    }
    Ok(builder)
}

/// The signals that end the process.
#[cfg(unix)]
struct Signals {
    terminate: tokio::signal::unix::Signal,
    interrupt: tokio::signal::unix::Signal,
}

#[cfg(unix)]
impl Signals {
    fn listen() -> std::io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Signals { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? })
    }

    async fn any(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

/// The signals that end the process.
#[cfg(not(unix))]
struct Signals;

#[cfg(not(unix))]
impl Signals {
    fn listen() -> std::io::Result<Self> {
        Ok(Signals)
    }

    async fn any(&mut self) {
        // Without the signal the process is ended in another way.
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending().await
        }
    }
}
