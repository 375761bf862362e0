//! The routes that Apache's name servers answered, in the dialects of their versions.

use std::io::Read;
use std::path::PathBuf;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use rocketmq_wire::{Frame, RemotingCommand, RequestCode, ResponseCode};

use crate::cluster::Route;

fn golden(name: &str) -> Vec<u8> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../rocketmq-wire/tests/golden/frames").join(name);
    let packed = std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let mut content = Vec::new();
    flate2::read::GzDecoder::new(packed.as_slice()).read_to_end(&mut content).expect("gzip");
    content
}

/// The bodies of all good answers to route requests.
fn route_bodies(label: &str) -> Vec<Bytes> {
    let index = String::from_utf8(golden(&format!("{label}.jsonl.gz"))).expect("UTF-8");
    let mut frames = BytesMut::from(golden(&format!("{label}.bin.gz")).as_slice());
    let mut bodies = Vec::new();
    for line in index.lines() {
        let line: serde_json::Value = serde_json::from_str(line).expect("JSON");
        let frame = Frame::next(&mut frames, usize::MAX).expect("a frame").expect("a line for each frame");
        let command = RemotingCommand::decode(&frame).expect("a command");
        if line["request_code"] == RequestCode::GET_ROUTEINFO_BY_TOPIC.0 && command.code == ResponseCode::SUCCESS.0 {
            bodies.push(command.body);
        }
    }
    assert!(frames.is_empty(), "{} bytes have no line", frames.len());
    bodies
}

#[test]
fn every_recorded_route_is_understood() {
    let topic: Arc<str> = "t".into();
    for label in ["4.4.0", "4.9.7", "5.3.3", "5.3.3-binary", "5.3.3-go"] {
        let bodies = route_bodies(label);
        assert!(!bodies.is_empty(), "{label} has no route");
        for body in bodies {
            let route = Route::parse(&topic, &body).unwrap_or_else(|error| panic!("{label}: {error}"));
            let [broker] = &route.brokers().collect::<Vec<_>>()[..] else { panic!("{label}: one broker") };
            assert_eq!(&*broker.name, "broker-a", "{label}");
            let master = broker.master().expect("a master");
            assert!(master.starts_with("127.0.0.1:"), "{label}: {master}");
            assert!(!route.read_queues().is_empty(), "{label}");
            assert!(route.write_queues().iter().all(|queue| &queue.master == master && queue.queue.topic() == "t"));
        }
    }
}
