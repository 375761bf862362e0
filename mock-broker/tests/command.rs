//! The broker as a command.
#![cfg(all(unix, feature = "cli"))]

mod support;

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Output, Stdio};

use rocketmq_wire::RequestCode;
use support::{Peer, send_fields};

fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rocketmq-mock-broker"));
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn fails(arguments: &[&str]) -> Output {
    command(arguments).output().expect("the command runs")
}

/// A running broker, ended with the test.
struct Running {
    child: Child,
    name_server: String,
    broker: String,
    ready: String,
}

impl Running {
    fn start(arguments: &[&str]) -> Self {
        let any = ["--listen", "127.0.0.1:0", "--broker-listen", "127.0.0.1:0"];
        let mut child = command(&[&any, arguments].concat()).spawn().expect("the command runs");
        let mut ready = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut ready).unwrap();
        let field = |name: &str| {
            let value = ready.split_whitespace().find_map(|word| word.strip_prefix(name));
            value.unwrap_or_else(|| panic!("no {name} in {ready:?}")).to_owned()
        };
        let (name_server, broker) = (field("name_server="), field("broker="));
        Running { child, name_server, broker, ready }
    }

    /// Ends it with SIGTERM, and returns its exit code and what it wrote to stdout after the ready line.
    fn terminate(mut self) -> (Option<i32>, String) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &pid]).status().expect("kill runs").success());
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

#[test]
fn it_says_when_it_serves_and_ends_on_sigterm() {
    let running = Running::start(&["--clock", "manual"]);
    let expected = format!("ready name_server={} broker={} console=- store=-\n", running.name_server, running.broker);
    assert_eq!(running.ready, expected);
    let mut peer = Peer::connect(&running.broker);
    assert_eq!(peer.request(RequestCode::SEND_MESSAGE_V2, &send_fields("orders", "0", ""), "x").code, 0);
    let mut names = Peer::connect(&running.name_server);
    assert_eq!(names.request(RequestCode::GET_ROUTEINFO_BY_TOPIC, &[("topic", "orders")], "").code, 0);
    let (code, rest) = running.terminate();
    assert_eq!((code, rest.as_str()), (Some(0), ""));
}

#[test]
fn what_was_sent_is_there_after_a_restart() {
    let directory = tempfile::tempdir().unwrap();
    let store = directory.path().to_str().unwrap();
    for expected in ["0", "1"] {
        let running = Running::start(&["--store", store, "--set", "autoCreateTopicEnable=true"]);
        assert!(running.ready.ends_with(&format!("store={store}\n")), "{}", running.ready);
        let mut peer = Peer::connect(&running.broker);
        let sent = peer.request(RequestCode::SEND_MESSAGE_V2, &send_fields("orders", "0", ""), "kept");
        assert_eq!(sent.field("queueOffset"), Some(expected));
        assert_eq!(running.terminate().0, Some(0));
    }
}

#[test]
fn bad_arguments_end_it_with_2() {
    for arguments in [
        &["--nonsense"][..],
        &["--console", "127.0.0.1:0"],
        &["--config", "broker.conf"],
        &["--listen", "nowhere"],
        &["--set", "brokerName"],
        &["--set", "transientStorePoolEnable=true"],
        &["--set", "autoCreateTopicEnable=perhaps"],
        &["--clock", "late"],
        &["--listen", "127.0.0.1:0", "--broker-listen", "0.0.0.0:0"],
    ] {
        let output = fails(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {output:?}");
        assert!(output.stdout.is_empty() && !output.stderr.is_empty(), "{arguments:?}");
    }
}

#[test]
fn what_keeps_it_from_starting_ends_it_with_1() {
    let running = Running::start(&[]);
    let taken = fails(&["--listen", &running.name_server, "--broker-listen", "127.0.0.1:0"]);
    assert_eq!(taken.status.code(), Some(1));
    assert!(String::from_utf8(taken.stderr).unwrap().contains(&running.name_server));
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("file");
    std::fs::write(&file, "not a directory").unwrap();
    let no_store =
        fails(&["--listen", "127.0.0.1:0", "--broker-listen", "127.0.0.1:0", "--store", file.to_str().unwrap()]);
    assert_eq!(no_store.status.code(), Some(1), "{no_store:?}");
}
