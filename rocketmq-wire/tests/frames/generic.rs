//! Every frame decodes to what the index says, and its generic form encodes to the same bytes.

use std::collections::BTreeMap;

use bytes::{BufMut, BytesMut};
use rocketmq_wire::frame::DEFAULT_MAX_FRAME_LENGTH;
use rocketmq_wire::header::SerializeType;
use rocketmq_wire::{Frame, LanguageCode, RemotingCommand};

use crate::golden_frames::{GoldenFrame, LABELS, all, stream};

fn type_name(serialize_type: SerializeType) -> &'static str {
    match serialize_type {
        SerializeType::Json => "JSON",
        SerializeType::Binary => "ROCKETMQ",
    }
}

#[test]
fn every_frame_is_what_the_index_says() {
    for golden in all() {
        let (name, index) = (golden.name(), &golden.index);
        let frame = golden.frame();
        assert_eq!(type_name(frame.serialize_type), index["serialize_type"], "{name}");
        assert_eq!(frame.header.len() as u64, index["header_length"], "{name}");
        assert_eq!(frame.body.len() as u64, index["body_length"], "{name}");
        let command = RemotingCommand::decode(&frame).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(i64::from(command.code), golden.code(), "{name}");
        assert_eq!(command.language.name(), index["language"], "{name}");
        assert_eq!(command.version.0, index["version"], "{name}");
        assert_eq!(command.opaque, index["opaque"], "{name}");
        assert_eq!(command.flag, index["flag"], "{name}");
        // The binary form cannot tell an absent remark from an empty one, nor absent fields from none.
        let binary = frame.serialize_type == SerializeType::Binary;
        let remark = index.get("remark").and_then(|remark| remark.as_str());
        assert_eq!(command.remark.as_deref(), remark.filter(|remark| !(binary && remark.is_empty())), "{name}");
        let fields: Option<BTreeMap<String, String>> =
            command.fields.clone().map(|fields| fields.into_iter().collect());
        assert_eq!(fields, golden.fields().filter(|fields| !(binary && fields.is_empty())), "{name}");
        for (field, value) in command.fields.iter().flatten() {
            assert_eq!(command.field(field), Some(value.as_str()));
        }
    }
}

/// Go's JSON library orders the keys in its own way, so its frames come back with equal values instead.
fn keeps_the_order_of_keys(golden: &GoldenFrame) -> bool {
    golden.index["language"] != "GO"
}

#[test]
fn the_generic_form_encodes_to_the_same_bytes() {
    let mut same = 0;
    for golden in all() {
        let command = RemotingCommand::decode(&golden.frame()).expect("a command");
        let again = command.to_bytes().expect("a frame");
        if keeps_the_order_of_keys(&golden) {
            assert_eq!(again, golden.bytes, "{}", golden.name());
            same += 1;
        }
        let decoded = RemotingCommand::decode(&Frame::parse(again).expect("a frame")).expect("a command");
        assert_eq!(decoded, command, "{}", golden.name());
    }
    assert_eq!(same, 2535);
}

#[test]
fn each_form_carries_what_the_other_carried() {
    for golden in all() {
        let command = RemotingCommand::decode(&golden.frame()).expect("a command");
        for serialize_type in [SerializeType::Json, SerializeType::Binary] {
            let other = RemotingCommand { serialize_type, ..command.clone() };
            let frame = Frame::parse(other.to_bytes().expect("a frame")).expect("a frame");
            let able = serialize_type.able_to_carry(command.code);
            assert_eq!(frame.serialize_type, able);
            let decoded = RemotingCommand::decode(&frame).expect("a command");
            let empty_is_absent = |mut command: RemotingCommand| {
                command.remark = command.remark.filter(|remark| !remark.is_empty());
                command.fields = command.fields.filter(|fields| !fields.is_empty());
                command
            };
            let expected = RemotingCommand { serialize_type: able, ..command.clone() };
            assert_eq!(empty_is_absent(decoded), empty_is_absent(expected), "{}", golden.name());
        }
        assert_ne!(LanguageCode::from_name(command.language.name()), LanguageCode::UNKNOWN);
    }
}

#[test]
fn a_stream_is_cut_at_any_chunk_size() {
    for (label, count) in LABELS {
        let stream = stream(label);
        for chunk_size in [1, 7, 1460, stream.len()] {
            let mut buffer = BytesMut::new();
            let mut frames = Vec::new();
            for chunk in stream.chunks(chunk_size) {
                buffer.put_slice(chunk);
                while let Some(frame) = Frame::next(&mut buffer, DEFAULT_MAX_FRAME_LENGTH).expect("a frame") {
                    frames.push(frame);
                }
            }
            assert!(buffer.is_empty());
            assert_eq!(frames.len(), count, "{label} in chunks of {chunk_size}");
        }
    }
}
