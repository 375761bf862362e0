//! Send requests encoded ahead of time, and the answers to them counted without being decoded.

use std::borrow::Cow;

use bytes::BytesMut;
use memchr::memmem;
use rocketmq_wire::{
    code::{LanguageCode, RequestCode, Version},
    header::{self, Head, SerializeType},
    request::send::SendMessageRequestV2,
};

/// The first opaque. All that follow have as many digits, so that a JSON header keeps its length.
const FIRST_OPAQUE: i32 = 1_000_000_000;
/// Where a binary frame has its opaque.
const BINARY_OPAQUE_AT: usize = 13;
/// Queues that the frames are spread over.
const QUEUES: usize = 4;

/// Ready-made `SEND_MESSAGE_V2` frames for the queues of one topic.
#[derive(Debug)]
pub struct SendFrames {
    templates: Vec<Vec<u8>>,
    serialize_type: SerializeType,
    opaque_at: usize,
    next: usize,
}

impl SendFrames {
    /// Encodes the frames; their body has `size` bytes, their header what a client says about a plain message.
    ///
    /// # Panics
    ///
    /// When topic or body are too long for a frame.
    #[must_use]
    pub fn new(serialize_type: SerializeType, topic: &str, size: usize) -> Self {
        let templates: Vec<_> = (0..QUEUES).map(|queue| template(serialize_type, topic, queue, size)).collect();
        let opaque_at = match serialize_type {
            SerializeType::Binary => BINARY_OPAQUE_AT,
            SerializeType::Json => {
                memmem::find(&templates[0], FIRST_OPAQUE.to_string().as_bytes()).expect("the header has its opaque")
            }
        };
        Self { templates, serialize_type, opaque_at, next: 0 }
    }

    /// Appends the next `count` frames.
    pub fn write(&mut self, out: &mut Vec<u8>, count: usize) {
        for _ in 0..count {
            let at = out.len() + self.opaque_at;
            out.extend_from_slice(&self.templates[self.next % QUEUES]);
            let opaque = FIRST_OPAQUE + self.next as i32;
            match self.serialize_type {
                SerializeType::Binary => out[at..at + 4].copy_from_slice(&opaque.to_be_bytes()),
                SerializeType::Json => put_digits(&mut out[at..at + 10], opaque as u32),
            }
            self.next += 1;
        }
    }
}

fn template(serialize_type: SerializeType, topic: &str, queue: usize, size: usize) -> Vec<u8> {
    let request = SendMessageRequestV2 {
        producer_group: "bench-producer".into(),
        topic: topic.into(),
        default_topic: "TBW102".into(),
        default_topic_queue_nums: QUEUES as i32,
        queue_id: queue as i32,
        born_timestamp: 1_700_000_000_000,
        properties: Some(Cow::Borrowed("UNIQ_KEY\u{1}7F0000010001DEADBEEF000000000000\u{2}WAIT\u{1}true\u{2}")),
        reconsume_times: Some(0),
        unit_mode: Some(false),
        batch: Some(false),
        broker_name: Some("broker-a".into()),
        ..Default::default()
    };
    let head = Head {
        code: RequestCode::SEND_MESSAGE_V2.0,
        language: LanguageCode::RUST,
        version: Version::V5_3_3,
        opaque: FIRST_OPAQUE,
        flag: 0,
        remark: None,
    };
    let mut out = BytesMut::new();
    header::encode(&mut out, serialize_type, &head, &request, size).expect("a plain message fits a frame");
    out.extend_from_slice(&vec![b'x'; size]);
    out.to_vec()
}

fn put_digits(out: &mut [u8], mut number: u32) {
    for digit in out.iter_mut().rev() {
        *digit = b'0' + (number % 10) as u8;
        number /= 10;
    }
}

/// What was found in a piece of the stream of answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Answers {
    /// How many said that the message is stored.
    pub acknowledged: u64,
    /// How many said anything else.
    pub refused: u64,
    /// Bytes of the whole frames found.
    pub length: usize,
}

impl Answers {
    /// Counts the whole frames at the start of `bytes`.
    #[must_use]
    pub fn count(bytes: &[u8]) -> Self {
        let mut answers = Self::default();
        while let Some((prefix, rest)) = bytes[answers.length..].split_first_chunk::<8>() {
            let [a, b, c, d, kind, ..] = *prefix;
            let length = u32::from_be_bytes([a, b, c, d]) as usize + 4;
            let Some(frame) = rest.get(..length.saturating_sub(8)) else { break };
            let stored = match kind {
                1 => frame.starts_with(&[0, 0]),
                _ => memmem::find(frame, b"\"code\":0").is_some(),
            };
            answers.length += length.max(8);
            if stored {
                answers.acknowledged += 1;
            } else {
                answers.refused += 1;
            }
        }
        answers
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use rocketmq_wire::{Frame, header::DecodeFields as _};

    #[test]
    fn every_frame_has_its_own_opaque_and_a_queue_in_turn() {
        for serialize_type in [SerializeType::Json, SerializeType::Binary] {
            let mut frames = SendFrames::new(serialize_type, "bench", 128);
            let mut out = Vec::new();
            frames.write(&mut out, 3);
            frames.write(&mut out, 3);
            let mut stream = BytesMut::from(&out[..]);
            for index in 0..6 {
                let frame = Frame::next(&mut stream, 4096).unwrap().unwrap();
                let header = frame.decode_header().unwrap();
                assert_eq!(header.head.opaque, FIRST_OPAQUE + index);
                let request = SendMessageRequestV2::decode_fields(header.fields).unwrap();
                assert_eq!((request.queue_id, frame.body.len()), (index % 4, 128));
            }
            assert!(stream.is_empty());
        }
    }

    #[test]
    fn answers_are_counted_by_their_code() {
        let json = |code: i32| {
            let header = format!("{{\"code\":{code},\"flag\":1,\"opaque\":7}}");
            let mut frame = (header.len() as u32 + 4).to_be_bytes().to_vec();
            frame.extend_from_slice(&(header.len() as u32).to_be_bytes());
            frame.extend_from_slice(header.as_bytes());
            Bytes::from(frame)
        };
        let mut stream = [json(0), json(2), json(0)].concat();
        let length = stream.len();
        stream.extend_from_slice(&json(0)[..9]);
        assert_eq!(Answers::count(&stream), Answers { acknowledged: 2, refused: 1, length });
    }
}
