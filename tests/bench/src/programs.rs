//! The programs that are measured, as child processes.

use std::{
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use crate::outcome::Outcome;

/// What every load program is asked for.
#[derive(Debug, Clone)]
pub struct Load {
    /// Sends before anything is measured.
    pub warm_up: u64,
    /// Sends that are measured.
    pub count: u64,
    /// Sends under way at the same time.
    pub in_flight: u64,
}

impl Load {
    /// `count` sends after a tenth as many.
    #[must_use]
    pub fn new(in_flight: u64, count: u64) -> Self {
        Self { warm_up: count / 10, count, in_flight }
    }
}

/// How a header is written, as the programs are told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Headers {
    /// `header=binary`
    Binary,
    /// `header=json`
    Json,
}

impl Headers {
    fn argument(self) -> &'static str {
        match self {
            Self::Binary => "header=binary",
            Self::Json => "header=json",
        }
    }
}

/// The processors that a program may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Processors {
    /// All.
    Any,
    /// The last one alone: the kernel serves most interrupts on the first.
    Last,
}

/// Where the built programs are.
#[derive(Debug, Clone)]
pub struct Programs {
    directory: PathBuf,
    peer: PathBuf,
}

impl Programs {
    /// The programs beside this one; the peer, which is built on its own, where `BENCH_PEER_RUST` says.
    ///
    /// # Errors
    ///
    /// When the path of this program cannot be found.
    pub fn locate() -> Result<Self, String> {
        let this = std::env::current_exe().map_err(|error| format!("the path of this program: {error}"))?;
        let directory = this.parent().unwrap_or(Path::new(".")).to_owned();
        let peer = match std::env::var_os("BENCH_PEER_RUST") {
            Some(path) => path.into(),
            None => directory.join("bench-peer-rust"),
        };
        Ok(Self { directory, peer })
    }

    /// The path of a program that is built together with this one.
    #[must_use]
    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    fn bench(&self) -> PathBuf {
        self.path("bench")
    }

    /// Starts the fast stub broker.
    ///
    /// # Errors
    ///
    /// When it does not start.
    pub fn stub(&self, processors: Processors) -> Result<Server, String> {
        Server::start(command(&self.bench(), processors).arg("stub"))
    }

    /// Starts the mock broker on ports of its own, in memory or with a store.
    ///
    /// # Errors
    ///
    /// When it does not start.
    pub fn mock_broker(&self, store: Option<&Path>) -> Result<Server, String> {
        self.mock_broker_with(store, &[])
    }

    /// As [`Self::mock_broker`], with these settings, each `key=value`.
    ///
    /// # Errors
    ///
    /// When it does not start.
    pub fn mock_broker_with(&self, store: Option<&Path>, settings: &[&str]) -> Result<Server, String> {
        let mut command = command(&self.path("rocketmq-mock-broker"), Processors::Any);
        command.args(["--listen", "127.0.0.1:0", "--broker-listen", "127.0.0.1:0"]);
        if let Some(store) = store {
            command.arg("--store").arg(store);
        }
        for setting in settings {
            command.args(["--set", setting]);
        }
        Server::start(&mut command)
    }

    /// Our client under load. `options` are more of its arguments.
    #[must_use]
    pub fn client(&self, server: &str, load: &Load, headers: Headers, options: &[&str]) -> Invocation {
        let mut invocation = Invocation::new(&self.bench(), &["client"], load);
        invocation.words.extend([format!("name_server={server}"), headers.argument().to_owned()]);
        invocation.words.extend(options.iter().map(|&option| option.to_owned()));
        invocation
    }

    /// Our push consumer, which takes `count` messages of `topic`. `options` are more of its arguments.
    #[must_use]
    pub fn consumer(&self, server: &str, topic: &str, count: u64, options: &[&str]) -> Invocation {
        let mut words = vec!["consume".to_owned(), format!("name_server={server}"), format!("topic={topic}")];
        words.push(format!("count={count}"));
        words.extend(options.iter().map(|&option| option.to_owned()));
        Invocation { program: self.bench(), words }
    }

    /// A part of this program that needs nothing but a count.
    #[must_use]
    pub fn part(&self, part: &str, count: u64) -> Invocation {
        Invocation { program: self.bench(), words: vec![part.to_owned(), format!("count={count}")] }
    }

    /// Our client, its allocations counted.
    #[must_use]
    pub fn client_allocations(&self, server: &str, load: &Load) -> Invocation {
        let mut invocation = self.client(server, load, Headers::Binary, &["runtime=current"]);
        invocation.words.remove(0);
        Invocation { program: self.path("bench-client-allocations"), ..invocation }
    }

    /// Ready-made frames against a broker.
    #[must_use]
    pub fn raw(&self, broker: &str, load: &Load, headers: Headers) -> Invocation {
        let mut invocation = Invocation::new(&self.bench(), &["raw"], load);
        invocation.words.extend([format!("broker={broker}"), headers.argument().to_owned()]);
        invocation
    }

    /// The peer under load.
    #[must_use]
    pub fn peer(&self, name_server: &str, load: &Load) -> Invocation {
        let mut invocation = Invocation::new(&self.peer, &[], load);
        invocation.words.push(format!("name_server={name_server}"));
        invocation
    }
}

/// A load program with its arguments.
#[derive(Debug, Clone)]
pub struct Invocation {
    /// The program.
    pub program: PathBuf,
    /// Its part, where it has several, and its arguments, `key=value`.
    pub words: Vec<String>,
}

impl Invocation {
    fn new(program: &Path, first_words: &[&str], load: &Load) -> Self {
        let Load { warm_up, count, in_flight } = load;
        let mut words: Vec<_> = first_words.iter().map(|&word| word.to_owned()).collect();
        words.extend([format!("warm_up={warm_up}"), format!("count={count}"), format!("in_flight={in_flight}")]);
        Self { program: program.to_owned(), words }
    }

    /// Runs it to its end on these processors.
    ///
    /// # Errors
    ///
    /// When it cannot be started or fails, with the end of what it said.
    pub fn run(&self, processors: Processors) -> Result<Outcome, String> {
        self.run_by(command(&self.program, processors)).map(|(outcome, _)| outcome)
    }

    /// Runs it by `command`, to which its arguments are added; also returns what was printed on standard error.
    ///
    /// # Errors
    ///
    /// As [`Self::run`].
    pub fn run_by(&self, command: Command) -> Result<(Outcome, String), String> {
        let mut command = command;
        command.args(&self.words);
        run(command)
    }
}

/// Runs a load program to its end and finds its outcome; also returns what it printed on standard error.
///
/// # Errors
///
/// When it cannot be started or fails, with the end of what it said.
pub fn run(mut command: Command) -> Result<(Outcome, String), String> {
    let name = command.get_program().to_string_lossy().into_owned();
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|error| format!("{name} cannot be started: {error}"))?;
    // Some end at the end of their standard input, which stays open until they have ended by themselves.
    let input = child.stdin.take();
    let output = child.wait_with_output().map_err(|error| format!("{name} cannot be waited for: {error}"))?;
    drop(input);
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    match Outcome::parse(&stdout) {
        Some(outcome) if output.status.success() => Ok((outcome, stderr.into_owned())),
        _ => Err(format!("{name} failed ({}): {}", output.status, stderr.lines().last().unwrap_or("no message"))),
    }
}

/// A command for `program` that keeps to `processors`.
#[must_use]
pub fn command(program: &Path, processors: Processors) -> Command {
    match processors {
        Processors::Any => Command::new(program),
        Processors::Last => {
            let last = std::thread::available_parallelism().map_or(1, usize::from) - 1;
            let mut command = Command::new("taskset");
            command.arg("-c").arg(last.to_string()).arg(program);
            command
        }
    }
}

/// A running server that printed where it listens. It is killed when dropped.
#[derive(Debug)]
pub struct Server {
    child: Child,
    /// How long it took from its start to its `ready` line.
    pub ready_after: Duration,
    /// The address of its name server.
    pub name_server: String,
    /// The address of its broker.
    pub broker: String,
}

impl Server {
    fn start(command: &mut Command) -> Result<Self, String> {
        let name = format!("{:?}", command.get_program());
        let started = Instant::now();
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| format!("{name} cannot be started: {error}"))?;
        let mut line = String::new();
        if let Some(stdout) = child.stdout.take() {
            let _ = BufReader::new(stdout).read_line(&mut line);
        }
        let ready_after = started.elapsed();
        let address = |key: &str| line.split_whitespace().find_map(|word| word.strip_prefix(key)).map(str::to_owned);
        match (address("name_server="), address("broker=")) {
            (Some(name_server), Some(broker)) => Ok(Self { child, ready_after, name_server, broker }),
            _ => {
                // It may have ended by itself.
                let _ = child.kill();
                let _ = child.wait();
                Err(format!("{name} did not say where it listens but `{}`", line.trim_end()))
            }
        }
    }

    /// Its process, as [`memory`](crate::memory) takes it.
    #[must_use]
    pub fn process(&self) -> String {
        self.child.id().to_string()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
