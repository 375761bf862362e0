//! The broker as a process.
#![allow(dead_code, reason = "not every test uses all of it")]

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Output, Stdio};

/// Ports chosen by the kernel.
pub(crate) const ANYWHERE: [&str; 4] = ["--listen", "127.0.0.1:0", "--broker-listen", "127.0.0.1:0"];

/// The path of the program.
pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_rocketmq-mock-broker");

pub(crate) fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rocketmq-mock-broker"));
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

pub(crate) fn fails(arguments: &[&str]) -> Output {
    command(arguments).output().expect("the command runs")
}

/// A running broker, ended with the test.
pub(crate) struct Running {
    pub(crate) child: Child,
    pub(crate) name_server: String,
    pub(crate) broker: String,
    pub(crate) ready: String,
}

impl Running {
    pub(crate) fn start(arguments: &[&str]) -> Self {
        Self::start_by(command(arguments))
    }

    /// Starts it by a command of the test's own.
    pub(crate) fn start_by(mut command: Command) -> Self {
        command.args(ANYWHERE).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the command runs");
        let mut ready = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut ready).unwrap();
        let field = |name: &str| {
            let value = ready.split_whitespace().find_map(|word| word.strip_prefix(name));
            value.unwrap_or_else(|| panic!("no {name} in {ready:?}")).to_owned()
        };
        let (name_server, broker) = (field("name_server="), field("broker="));
        Running { child, name_server, broker, ready }
    }

    /// Sends it a signal.
    pub(crate) fn signal(&self, name: &str) {
        let pid = self.id().to_string();
        assert!(Command::new("kill").args([&format!("-{name}"), &pid]).status().expect("kill runs").success());
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Ends it without warning.
    pub(crate) fn kill(mut self) {
        self.child.kill().expect("it runs");
        self.child.wait().expect("it was started by this test");
    }

    /// Ends it with SIGTERM, and returns its exit code and what it wrote to stdout after the ready line.
    pub(crate) fn terminate(mut self) -> (Option<i32>, String) {
        self.signal("TERM");
        let mut rest = String::new();
        self.child.stdout.as_mut().unwrap().read_to_string(&mut rest).unwrap();
        (self.child.wait().unwrap().code(), rest)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It has ended already if the test went well.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
