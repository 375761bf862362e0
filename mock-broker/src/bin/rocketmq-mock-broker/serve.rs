//! Serving until a signal comes.

use std::io::{IsTerminal, Write};
use std::net::SocketAddr;

use rocketmq_mock_broker::{Fault, MockBroker, MockBrokerBuilder, StartError};
use tracing_subscriber::EnvFilter;

use crate::arguments::{ClockKind, Serve};
use crate::config_file::ConfigFile;
use crate::signals::{Signals, notify_ready};
use crate::{Failure, USAGE};

/// Entries of the journal if there is a console.
const JOURNAL: usize = 10_000;

pub(crate) fn run(arguments: Serve) -> Result<(), Failure> {
    let usage = |message: String| (USAGE, message);
    let failed = |error: StartError| (if error.is_argument() { USAGE } else { 1 }, error.to_string());
    let io_failed = |error: std::io::Error| (1, error.to_string());
    let file = arguments.config.as_deref().map(ConfigFile::read).transpose().map_err(usage)?.unwrap_or_default();
    log(arguments.log.as_deref().or(file.log.as_deref())).map_err(usage)?;
    let mut faults = arguments.fault.clone();
    for text in &file.faults {
        faults.push(text.parse().map_err(usage)?);
    }
    let builder = builder(arguments, &file).map_err(usage)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().map_err(io_failed)?;
    runtime.block_on(async {
        // Before the ready line: whoever reads it may send a signal at once.
        let mut signals = Signals::listen().map_err(io_failed)?;
        let broker = builder.start().await.map_err(failed)?;
        for fault in faults {
            put(&broker, fault);
        }
        let store = broker.store_directory().map_or("-".to_owned(), |directory| directory.display().to_string());
        let console = broker.console_address().map_or("-".to_owned(), |address| address.to_string());
        let (name_server, address) = (broker.name_server(), broker.broker_address());
        let ready = format!("ready name_server={name_server} broker={address} console={console} store={store}");
        let mut stdout = std::io::stdout().lock();
        // Nobody has to read it.
        let _ = writeln!(stdout, "{ready}").and_then(|()| stdout.flush());
        drop(stdout);
        notify_ready();
        signals.any().await;
        // One that was stopped through its console is saved already.
        tokio::select! {
            stopped = broker.stop() => stopped.map_err(failed),
            // Waits for nothing more. As after `kill -9`, the next start looks at what was not closed.
            () = signals.any() => {
                eprintln!("error: a second signal came before everything was saved");
                std::process::exit(1)
            }
        }
    })
}

fn put(broker: &MockBroker, fault: Fault) {
    let id = broker.fault(fault).keep();
    tracing::info!(id, "fault put");
}

/// # Errors
///
/// A filter that cannot be read.
fn log(filter: Option<&str>) -> Result<(), String> {
    let filter = match filter {
        Some(filter) => EnvFilter::try_new(filter).map_err(|error| format!("--log: {error}"))?,
        None => EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("warn")),
    };
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .init();
    Ok(())
}

fn builder(arguments: Serve, file: &ConfigFile) -> Result<MockBrokerBuilder, String> {
    let local = |port| SocketAddr::from(([127, 0, 0, 1], port));
    let mut builder = MockBroker::builder()
        .listen(arguments.listen.or(file.listen).unwrap_or(local(9876)))
        .broker_listen(arguments.broker_listen.or(file.broker_listen).unwrap_or(local(10911)));
    let mut passed_over = Vec::new();
    for (key, value) in file.properties() {
        let before = builder.clone();
        builder = match builder.set(key, &value) {
            Ok(set) => set,
            // Files of Apache's brokers set much that means nothing here.
            Err(error) if file.is_apache && error.is_unknown() => {
                passed_over.push(key.to_owned());
                before
            }
            Err(error) => return Err(error.to_string()),
        };
    }
    if !passed_over.is_empty() {
        eprintln!("warning: this broker does not honour {}", passed_over.join(", "));
    }
    if let Some(compatibility) =
        arguments.compatibility.map_or_else(|| file.compatibility(), |given| Ok(Some(given)))?
    {
        builder = builder.compatibility(compatibility);
    }
    if let Some(host) = arguments.advertise.as_ref().or(file.advertise.as_ref()) {
        builder = builder.advertise(host);
    }
    if let Some(directory) = arguments.store.or_else(|| file.store.clone()) {
        builder = builder.store_directory(directory);
    }
    let console = arguments.console.or(file.console);
    if let Some(address) = console {
        builder = builder.console(address);
    }
    if let Some(token) = arguments.console_token.as_ref().or(file.console_token.as_ref()) {
        builder = builder.console_token(token);
    }
    builder =
        builder.journal(arguments.journal.or(file.journal).unwrap_or(if console.is_some() { JOURNAL } else { 0 }));
    for (topic, queues) in file.topics.iter().map(|(topic, queues)| (topic.clone(), *queues)).chain(arguments.topic) {
        builder = builder.topic(&topic, queues);
    }
    match arguments.clock.or(file.clock).unwrap_or(ClockKind::Real) {
        ClockKind::Real => {}
        ClockKind::Manual => builder = builder.manual_time(),
        ClockKind::Skipping => builder = builder.skip_time(),
    }
    for (key, value) in &arguments.set {
        builder = builder.set(key, value).map_err(|error| error.to_string())?;
    }
    Ok(builder)
}
