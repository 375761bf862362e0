//! Masters and slaves over sockets: ours with ours, and our slave with what Apache's masters sent.

mod support;

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::time::Duration;

use rocketmq_mock_broker::{Compatibility, MockBroker};
use rocketmq_wire::RequestCode;
use support::{Peer, send_fields};

/// Longer than anything takes that works.
const LIMIT: Duration = Duration::from_secs(40);

/// Waits until `done`; what it waits for goes on in another thread.
fn until(what: &str, mut done: impl FnMut() -> bool) {
    // Each look is answered by that thread, so this takes half a minute at least.
    let happened = (0..1_000_000).any(|_| {
        std::thread::yield_now();
        done()
    });
    assert!(happened, "{what} did not happen");
}

fn start(settings: &[(&str, &str)]) -> MockBroker {
    let mut builder = MockBroker::builder().compatibility(Compatibility::V4_9).topic("orders", 1);
    for (property, value) in settings {
        builder = builder.set(property, value).unwrap();
    }
    builder.start_blocking().unwrap()
}

fn ha_address(broker: &str) -> String {
    let (host, port) = broker.rsplit_once(':').unwrap();
    format!("{host}:{}", port.parse::<u16>().unwrap() + 1)
}

#[test]
fn a_slave_has_what_a_synchronous_master_answered() {
    let master = start(&[("brokerRole", "SYNC_MASTER"), ("mappedFileSizeCommitLog", "65536")]);
    let mut producer = Peer::connect(master.broker_address());
    let mut send = |body: &str| {
        let body = body.to_owned();
        producer.request(RequestCode::SEND_MESSAGE_V2, &send_fields("orders", "0", ""), body)
    };
    let before = send("without a slave");
    assert_eq!(before.code, 11);
    let ha = ha_address(master.broker_address());
    let slave = start(&[
        ("brokerRole", "SLAVE"),
        ("brokerName", "slave"),
        ("haMasterAddress", &ha),
        ("mappedFileSizeCommitLog", "65536"),
    ]);
    until("the first copy", || slave.messages("orders").len() == 1);
    // Over several files of the log.
    for index in 0..40_u8 {
        let answer = send(&char::from(b'a' + index % 26).to_string().repeat(7000));
        assert_eq!(answer.code, 0, "{:?}", answer.remark);
        assert_eq!(slave.messages("orders").len(), usize::from(index) + 2, "the slave has what was answered");
    }
    let bodies = |broker: &MockBroker| -> Vec<Vec<u8>> {
        broker.messages("orders").iter().map(|message| message.as_bytes().to_vec()).collect()
    };
    assert!(bodies(&master) == bodies(&slave), "the messages differ");
    let mut refused = Peer::connect(slave.broker_address());
    let answer = refused.request(RequestCode::SEND_MESSAGE_V2, &send_fields("orders", "0", ""), "to the slave");
    assert_eq!(answer.code, 14);
    drop(master);
    assert_eq!(slave.messages("orders").len(), 41, "the slave goes on alone");
}

/// What a master of Apache's sent on one connection.
fn recorded(name: &str) -> Vec<u8> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("tests/golden/ha/{name}-m2s.bin.gz"));
    let packed = std::fs::File::open(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let mut bytes = Vec::new();
    flate2::read::GzDecoder::new(packed).read_to_end(&mut bytes).unwrap();
    bytes
}

/// The log that the frames of a recorded connection carry.
fn log_of(mut stream: &[u8]) -> Vec<u8> {
    let mut log = Vec::new();
    while let Some((header, rest)) = stream.split_first_chunk::<12>() {
        let size = u32::from_be_bytes(header[8..].try_into().unwrap()) as usize;
        log.extend_from_slice(&rest[..size]);
        stream = &rest[size..];
    }
    log
}

/// Reads reports until one says `end`.
fn await_report(master: &mut TcpStream, end: u64) {
    let mut report = [0; 8];
    loop {
        master.read_exact(&mut report).expect("the slave reports");
        if u64::from_be_bytes(report) == end {
            return;
        }
    }
}

#[test]
fn what_apache_s_masters_sent_becomes_their_log() {
    for (name, file_size) in
        [("4.4.0-fresh", 65536), ("4.9.7-fresh", 65536), ("4.9.7-large", 2 << 20), ("5.3.3-fresh", 65536)]
    {
        let stream = recorded(name);
        let log = log_of(&stream);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let directory = tempfile::tempdir().unwrap();
        let slave = MockBroker::builder()
            .store_directory(directory.path())
            .set("brokerRole", "SLAVE")
            .and_then(|builder| builder.set("haMasterAddress", &listener.local_addr().unwrap().to_string()))
            .and_then(|builder| builder.set("mappedFileSizeCommitLog", &file_size.to_string()))
            .unwrap()
            .start_blocking()
            .unwrap();
        let (mut master, _) = listener.accept().unwrap();
        master.set_read_timeout(Some(LIMIT)).unwrap();
        await_report(&mut master, 0);
        // In pieces that end anywhere.
        for piece in stream.chunks(4099) {
            master.write_all(piece).unwrap();
        }
        await_report(&mut master, log.len() as u64);
        drop(slave);
        let mut written = Vec::new();
        for base in (0..log.len()).step_by(file_size) {
            written.extend(std::fs::read(directory.path().join(format!("commitlog/{base:020}"))).unwrap());
        }
        assert!(written[..log.len()] == log, "{name}: the log differs");
    }
}

#[test]
fn a_master_closes_what_is_no_slave_of_its_log() {
    let master = start(&[("brokerRole", "ASYNC_MASTER")]);
    for report in [-7_i64, 1 << 40] {
        let mut slave = TcpStream::connect(ha_address(master.broker_address())).unwrap();
        slave.set_read_timeout(Some(LIMIT)).unwrap();
        slave.write_all(&report.to_be_bytes()).unwrap();
        let mut received = Vec::new();
        // Closed, with or without a reset.
        let _ = slave.read_to_end(&mut received);
        assert!(received.is_empty(), "{report}: {received:?}");
    }
}
