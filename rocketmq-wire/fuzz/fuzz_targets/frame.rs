//! Any bytes as a stream of frames.

#![no_main]

use bytes::BytesMut;
use libfuzzer_sys::fuzz_target;
use rocketmq_wire::{Frame, RemotingCommand};

const MAX_LENGTH: usize = 1 << 20;

fuzz_target!(|bytes: &[u8]| {
    let mut whole = BytesMut::from(bytes);
    let mut frames = Vec::new();
    while let Ok(Some(frame)) = Frame::next(&mut whole, MAX_LENGTH) {
        let _ = RemotingCommand::decode(&frame);
        frames.push(frame);
    }

    // The same stream in pieces gives the same frames.
    let mut pieces = BytesMut::new();
    let mut again = Vec::new();
    for piece in bytes.chunks(3) {
        pieces.extend_from_slice(piece);
        while let Ok(Some(frame)) = Frame::next(&mut pieces, MAX_LENGTH) {
            again.push(frame);
        }
    }
    assert_eq!(again, frames);
});
