//! Our broker as the program that users run.

use std::{
    path::{Path, PathBuf},
    process::Command,
    sync::{LazyLock, mpsc},
    time::Duration,
};

use crate::{cache, process::Process};

const START_LIMIT: Duration = Duration::from_secs(20);
const STOP_LIMIT: Duration = Duration::from_secs(20);

/// A running `rocketmq-mock-broker` with its store on disk.
///
/// It ends when dropped; the store is removed by the next run.
#[derive(Debug)]
pub struct MockProcess {
    directory: PathBuf,
    settings: Vec<String>,
    addresses: Addresses,
    process: Option<Process>,
}

/// Where it listens.
#[derive(Debug, Clone)]
pub struct Addresses {
    /// The name server.
    pub name_server: String,
    /// The broker.
    pub broker: String,
}

impl MockProcess {
    /// Builds the program if need be, and starts it with these settings on ports chosen by the kernel.
    ///
    /// # Panics
    ///
    /// When it cannot be built or does not get ready.
    pub fn start(settings: &[(&str, &str)]) -> Self {
        Self::start_in(&cache::run_directory("mock"), settings)
    }

    /// As [`start`](Self::start), with the store in `directory/store`, which may exist.
    ///
    /// # Panics
    ///
    /// As [`start`](Self::start).
    pub fn start_in(directory: &Path, settings: &[(&str, &str)]) -> Self {
        let settings: Vec<_> = settings.iter().map(|(key, value)| format!("--set={key}={value}")).collect();
        let directory = directory.to_owned();
        let anywhere = Addresses { name_server: "127.0.0.1:0".to_owned(), broker: "127.0.0.1:0".to_owned() };
        let (process, addresses) = launch(&directory, &settings, &anywhere);
        Self { directory, settings, addresses, process: Some(process) }
    }

    /// Where it listens, the same after a restart.
    pub fn addresses(&self) -> &Addresses {
        &self.addresses
    }

    /// The process id, while it runs.
    pub fn id(&self) -> Option<u32> {
        self.process.as_ref().map(Process::id)
    }

    /// Stops it with SIGTERM.
    ///
    /// # Panics
    ///
    /// When it does not exit with 0 in time.
    pub fn stop(&mut self) {
        let mut process = self.process.take().expect("the broker runs");
        process.terminate();
        let status = process.wait(STOP_LIMIT);
        assert!(status.success(), "after SIGTERM: {status}\n{}", process.log_tail());
    }

    /// Ends it without warning, as `kill -9` does.
    pub fn kill(&mut self) {
        self.process.take().expect("the broker runs").kill();
    }

    /// Starts it again on the same ports and store.
    pub fn start_again(&mut self) {
        assert!(self.process.is_none(), "the broker runs already");
        let (process, _) = launch(&self.directory, &self.settings, &self.addresses);
        self.process = Some(process);
    }
}

fn launch(directory: &Path, settings: &[String], addresses: &Addresses) -> (Process, Addresses) {
    let (ready, waiting) = mpsc::channel();
    let mut command = Command::new(program());
    command
        .args(["--listen", &addresses.name_server, "--broker-listen", &addresses.broker, "--store"])
        .arg(directory.join("store"))
        .args(settings);
    let process = Process::start("rocketmq-mock-broker", &mut command, &directory.join("broker.log"), move |line| {
        if let Some(addresses) = parse_ready(line) {
            // Nobody listens for a second one.
            let _ = ready.send(addresses);
        }
    });
    match waiting.recv_timeout(START_LIMIT) {
        Ok(addresses) => (process, addresses),
        Err(error) => panic!("rocketmq-mock-broker is not ready ({error}):\n{}", process.log_tail()),
    }
}

/// Reads `ready name_server=127.0.0.1:9876 broker=127.0.0.1:10911 ...`.
fn parse_ready(line: &str) -> Option<Addresses> {
    let fields = line.strip_prefix("ready ")?;
    let field =
        |name: &str| fields.split(' ').find_map(|field| Some(field.strip_prefix(name)?.strip_prefix('=')?.to_owned()));
    Some(Addresses { name_server: field("name_server")?, broker: field("broker")? })
}

/// The program, built by the same cargo in the same profile as the tests.
fn program() -> &'static Path {
    static PROGRAM: LazyLock<PathBuf> = LazyLock::new(|| {
        let test = std::env::current_exe().expect("a running program has a path");
        let folder = test.ancestors().find(|folder| folder.ends_with("deps")).and_then(Path::parent);
        let folder = folder.unwrap_or_else(|| panic!("{} is not in a cargo target folder", test.display()));
        let mut build = Command::new(env!("CARGO"));
        build
            .current_dir(cache::workspace())
            .args(["build", "--quiet", "--locked", "-p", "rocketmq-mock-broker", "--bin", "rocketmq-mock-broker"])
            .arg("--target-dir")
            .arg(folder.parent().expect("the profile's folder is in the target folder"));
        if folder.ends_with("release") {
            build.arg("--release");
        }
        let status = build.status().expect("the cargo that built this test can be run");
        assert!(status.success(), "rocketmq-mock-broker cannot be built: {status}");
        folder.join("rocketmq-mock-broker")
    });
    &PROGRAM
}
