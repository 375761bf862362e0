//! What was recorded: requests to Apache's servers, each with its answer.

use std::io::Read;
use std::path::PathBuf;

use bytes::{Buf, Bytes};
use rocketmq_wire::{Frame, RemotingCommand};
use serde_json::Value;

/// A request and its answer.
pub(crate) struct Exchange {
    /// Which recording it is from.
    pub(crate) label: &'static str,
    /// What the recorded client was doing.
    pub(crate) scenario: String,
    /// The name of the request's frame.
    pub(crate) file: String,
    pub(crate) to_name_server: bool,
    pub(crate) request: RemotingCommand,
    pub(crate) answer: RemotingCommand,
}

impl Exchange {
    pub(crate) fn describe(&self) -> String {
        format!("{}/{}", self.label, self.file)
    }
}

/// Every recorded exchange of a recording, in the order of the requests.
pub(crate) fn exchanges(label: &'static str) -> Vec<Exchange> {
    let lines = String::from_utf8(unpack(&format!("{label}.jsonl.gz"))).expect("UTF-8");
    let index: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let mut rest = Bytes::from(unpack(&format!("{label}.bin.gz")));
    let mut commands = Vec::new();
    while !rest.is_empty() {
        let length = rest.clone().get_u32() as usize + 4;
        let frame = Frame::parse(rest.split_to(length)).expect("a recorded frame");
        commands.push(RemotingCommand::decode(&frame).expect("a recorded header"));
    }
    assert_eq!(commands.len(), index.len(), "{label}");
    let text = |line: &Value, name: &str| line[name].as_str().unwrap_or_default().to_owned();
    let position = |file: &str| index.iter().position(|line| line["file"] == *file);
    let pairs = index.iter().zip(&commands).filter_map(|(line, request)| {
        let answer = &commands[position(line.get("response")?.as_str()?)?];
        let direction = text(line, "direction");
        (!direction.starts_with("broker->client")).then(|| Exchange {
            label,
            scenario: text(line, "scenario"),
            file: text(line, "file"),
            to_name_server: direction.ends_with("namesrv"),
            request: request.clone(),
            answer: answer.clone(),
        })
    });
    pairs.collect()
}

fn unpack(name: &str) -> Vec<u8> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../rocketmq-wire/tests/golden/frames");
    let path = folder.join(name);
    let packed = std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let mut content = Vec::new();
    flate2::read::GzDecoder::new(packed.as_slice()).read_to_end(&mut content).expect("gzip");
    content
}
