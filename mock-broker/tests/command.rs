//! The broker as a command.
#![cfg(all(unix, feature = "cli"))]

#[path = "support/running.rs"]
mod running;
mod support;

use std::io::Read;

use rocketmq_wire::RequestCode;
use running::{Running, command, fails};
use support::{Peer, send_fields};

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
        &["--console", "0.0.0.0:0"],
        &["--fault", "explode"],
        &["--topic", "orders:0"],
        &["--compatibility", "3.2"],
        &["--log", "=="],
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

fn http(address: &str, request: &str) -> String {
    let mut stream = std::net::TcpStream::connect(address).unwrap();
    std::io::Write::write_all(&mut stream, request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn it_has_a_console_topics_and_faults_from_the_start() {
    let running = Running::start(&[
        "--console",
        "127.0.0.1:0",
        "--topic",
        "orders:3",
        "--fault",
        "request=send,times=1,answer=2:busy",
        "--compatibility",
        "4.9",
        "--clock",
        "manual",
        "--log",
        "warn",
    ]);
    let console = running.ready.split("console=").nth(1).unwrap().split(' ').next().unwrap().to_owned();
    let mut peer = Peer::connect(&running.broker);
    assert_eq!(peer.request(RequestCode::SEND_MESSAGE_V2, &send_fields("orders", "0", ""), "x").code, 2);
    assert_eq!(peer.request(RequestCode::SEND_MESSAGE_V2, &send_fields("orders", "2", ""), "x").code, 0);
    let get = format!("GET /v1/journal?request=send HTTP/1.1\r\nhost: {console}\r\nconnection: close\r\n\r\n");
    let journal = http(&console, &get);
    assert!(journal.contains("\"fault\":1") && journal.contains("\"topic\":\"orders\""), "{journal}");
    let status = format!("GET /v1/status HTTP/1.1\r\nhost: {console}\r\nconnection: close\r\n\r\n");
    assert!(http(&console, &status).contains("\"compatibility\":\"4.9\""));
}

#[test]
fn settings_come_from_files_of_both_kinds_and_flags_win() {
    let directory = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = directory.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let toml = file(
        "broker.toml",
        "[topics]\norders = 4\n[properties]\nbrokerName = 'from-file'\nautoCreateTopicEnable = false\n",
    );
    let running = Running::start(&["--config", &toml, "--set", "brokerName=from-flag"]);
    let mut names = Peer::connect(&running.name_server);
    let route = names.request(RequestCode::GET_ROUTEINFO_BY_TOPIC, &[("topic", "orders")], "");
    let route = String::from_utf8(route.body.to_vec()).unwrap();
    assert!(route.contains("from-flag") && route.contains("\"writeQueueNums\":4"), "{route}");
    let apache = file("broker.conf", "brokerName=b-2\nsendMessageThreadPoolNums=16\nautoCreateTopicEnable=false\n");
    let mut running = Running::start(&["--config", &apache]);
    let mut peer = Peer::connect(&running.broker);
    assert_eq!(peer.request(RequestCode::SEND_MESSAGE_V2, &send_fields("unknown", "0", ""), "x").code, 17);
    let _ = running.child.kill();
    let mut warned = String::new();
    running.child.stderr.take().unwrap().read_to_string(&mut warned).unwrap();
    assert!(warned.contains("does not honour sendMessageThreadPoolNums"), "{warned}");
    let wrong = file("wrong.conf", "maxMessageSize=huge\n");
    assert_eq!(fails(&["--config", &wrong]).status.code(), Some(2));
}

#[test]
fn whoever_started_it_is_notified_when_it_serves() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("notify");
    let socket = std::os::unix::net::UnixDatagram::bind(&path).unwrap();
    socket.set_read_timeout(Some(std::time::Duration::from_secs(150))).unwrap();
    let any = ["--listen", "127.0.0.1:0", "--broker-listen", "127.0.0.1:0"];
    let mut child = command(&any).env("NOTIFY_SOCKET", &path).spawn().unwrap();
    let mut text = [0; 64];
    let received = socket.recv(&mut text);
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(&text[..received.expect("a notification")], b"READY=1");
}

#[test]
fn stores_are_dumped_checked_and_loaded() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let (first, second, lines) = (path("first"), path("second"), path("lines"));
    let running = Running::start(&["--store", &first]);
    let mut peer = Peer::connect(&running.broker);
    for body in ["a", "b"] {
        peer.request(RequestCode::SEND_MESSAGE_V2, &send_fields("orders", "1", "TAGS\u{1}t\u{2}"), body);
    }
    assert_eq!(running.terminate().0, Some(0));
    let verified = fails(&["verify", &first]);
    assert_eq!(verified.status.code(), Some(0), "{verified:?}");
    let dumped = fails(&["dump", &first]);
    assert_eq!(dumped.status.code(), Some(0), "{dumped:?}");
    std::fs::write(&lines, &dumped.stdout).unwrap();
    let text = String::from_utf8(dumped.stdout).unwrap();
    assert!(text.lines().all(|line| serde_json::from_str::<serde_json::Value>(line).is_ok()), "{text}");
    let loaded = fails(&["load", &lines, "--store", &second]);
    assert_eq!(String::from_utf8_lossy(&loaded.stdout), "2 messages loaded\n", "{loaded:?}");
    let again = String::from_utf8(fails(&["dump", &second, "--topic", "orders"]).stdout).unwrap();
    assert!(
        again.lines().count() == 2 && again.contains("\"body\":\"b\"") && again.contains("\"tag\":\"t\""),
        "{again}"
    );
    let nothing = fails(&["verify", &lines]);
    assert_eq!(nothing.status.code(), Some(1));
    let bash = fails(&["completions", "bash"]);
    assert!(String::from_utf8_lossy(&bash.stdout).contains("rocketmq-mock-broker"), "{bash:?}");
}
