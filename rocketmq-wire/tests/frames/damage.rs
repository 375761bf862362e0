//! Frames that were cut short or changed give an error or a value, never a panic.

use bytes::{Bytes, BytesMut};
use rocketmq_wire::frame::{DEFAULT_MAX_FRAME_LENGTH, FrameLayout};
use rocketmq_wire::header::{DecodeFields, Fields, Header, SerializeType};
use rocketmq_wire::request::pull::{PullMessageRequest, PullMessageResponse};
use rocketmq_wire::request::send::{SendMessageRequestV2, SendMessageResponse};
use rocketmq_wire::{DecodeError, Frame, RemotingCommand, fastjson};

use crate::golden_frames::{all, one_of_each_shape};

/// Reads a header in every way there is.
fn read_header(serialize_type: SerializeType, bytes: &[u8]) -> Result<(), DecodeError> {
    let header = Header::decode(serialize_type, bytes)?;
    let _ = SendMessageRequestV2::decode_fields(header.fields);
    let _ = SendMessageResponse::decode_fields(header.fields);
    let _ = PullMessageRequest::decode_fields(header.fields);
    let _ = PullMessageResponse::decode_fields(header.fields);
    Ok(())
}

#[test]
fn a_frame_cut_short_anywhere_waits_for_more() {
    for golden in all() {
        let bytes = &golden.bytes;
        for end in 0..bytes.len() {
            let peek = FrameLayout::peek(&bytes[..end], DEFAULT_MAX_FRAME_LENGTH);
            assert_eq!(peek, Ok(None), "{} cut to {end}", golden.name());
        }
    }
    for golden in one_of_each_shape() {
        for end in 0..golden.bytes.len() {
            let cut = Frame::parse(golden.bytes.slice(..end));
            assert!(matches!(cut, Err(DecodeError::Truncated { .. })), "{} cut to {end}", golden.name());
        }
    }
}

#[test]
fn a_header_cut_short_anywhere_is_an_error() {
    for golden in one_of_each_shape() {
        let frame = golden.frame();
        for end in 0..frame.header.len() {
            let cut = read_header(frame.serialize_type, &frame.header[..end]);
            assert!(cut.is_err(), "{} cut to {end}", golden.name());
        }
    }
}

#[test]
fn a_frame_with_any_byte_changed_does_no_harm() {
    let mut buffer = BytesMut::new();
    for golden in one_of_each_shape() {
        let header_length = golden.frame().header.len();
        let mut damaged = golden.bytes.to_vec();
        for at in 0..8 + header_length {
            for change in [0x01, 0x80] {
                damaged[at] ^= change;
                if at < 8 {
                    buffer.clear();
                    buffer.extend_from_slice(&damaged);
                    let _ = Frame::next(&mut buffer, DEFAULT_MAX_FRAME_LENGTH);
                } else {
                    let _ = read_header(golden.frame().serialize_type, &damaged[8..8 + header_length]);
                }
                damaged[at] ^= change;
            }
        }
    }
}

#[test]
fn a_body_with_any_byte_changed_does_no_harm() {
    for golden in one_of_each_shape() {
        if !matches!(golden.body_kind(), "json" | "fastjson-dialect") || golden.code() == 26 {
            continue;
        }
        let mut body = golden.frame().body.to_vec();
        let step = body.len() / 200 + 1;
        for at in (0..body.len()).step_by(step) {
            for change in [0x01, 0x80] {
                body[at] ^= change;
                let _ = fastjson::from_slice::<serde_json::Value>("body", &body);
                body[at] ^= change;
            }
            let cut = fastjson::from_slice::<serde_json::Value>("body", &body[..at]);
            assert!(cut.is_err(), "{} cut to {at}", golden.name());
        }
    }
}

/// Nothing is reserved for what a prefix merely announces.
#[test]
fn announced_lengths_reserve_nothing() {
    for length in [0x00FF_FFF0u32, 0x0100_0000, 0x7FFF_FFFF, 0x8000_0000, u32::MAX] {
        let mut buffer = BytesMut::with_capacity(64);
        buffer.extend_from_slice(&length.to_be_bytes());
        buffer.extend_from_slice(&[0, 0, 0, 2, b'{', b'}']);
        let capacity = buffer.capacity();
        let next = Frame::next(&mut buffer, DEFAULT_MAX_FRAME_LENGTH);
        assert_eq!(next.is_ok(), length as usize + 4 <= DEFAULT_MAX_FRAME_LENGTH, "{length:#x}");
        assert_eq!((buffer.len(), buffer.capacity()), (10, capacity));
    }
    // Lengths inside a binary header: of the remark, of all fields, of a name, of a value.
    let header = |remark: u32, fields: u32, name: u16, value: u32| {
        let mut bytes = vec![0, 105, 0, 0, 1, 0, 0, 0, 7, 0, 0, 0, 0];
        bytes.extend_from_slice(&remark.to_be_bytes());
        bytes.extend_from_slice(&fields.to_be_bytes());
        bytes.extend_from_slice(&name.to_be_bytes());
        bytes.push(b'a');
        bytes.extend_from_slice(&value.to_be_bytes());
        bytes.push(b'b');
        bytes
    };
    let decode = |bytes: Vec<u8>| {
        let mut frame = vec![0, 0, 0, 4 + bytes.len() as u8, 1, 0, 0, bytes.len() as u8];
        frame.extend_from_slice(&bytes);
        RemotingCommand::decode(&Frame::parse(Bytes::from(frame)).expect("a frame"))
    };
    assert!(decode(header(0, 8, 1, 1)).is_ok());
    for lie in [2, 9, 0x7FFF_FFFF, 0x8000_0000, u32::MAX] {
        assert!(decode(header(lie, 8, 1, 1)).is_err());
        assert!(decode(header(0, lie, 1, 1)).is_err());
        assert!(decode(header(0, 8, 1, lie)).is_err());
        assert!(decode(header(0, 8, lie as u16 | 8, 1)).is_err());
    }
    assert!(Fields::from_bytes(SerializeType::Json, &[0xFF]).is_err());
}
