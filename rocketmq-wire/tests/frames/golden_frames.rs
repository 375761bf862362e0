//! The recorded frames with what the index says of them.

use std::collections::BTreeMap;

use bytes::Bytes;
use rocketmq_wire::Frame;
use rocketmq_wire::frame::FrameLayout;
use serde_json::Value;

use crate::common::{golden, json_lines};

/// The recordings, with their numbers of frames.
pub(crate) const LABELS: [(&str, usize); 6] =
    [("4.4.0", 528), ("4.9.7", 595), ("4.9.7-binary", 53), ("5.3.3", 772), ("5.3.3-binary", 529), ("5.3.3-go", 106)];

/// One frame.
pub(crate) struct GoldenFrame {
    /// The recording it belongs to.
    pub(crate) label: &'static str,
    /// Its line of the index.
    pub(crate) index: Value,
    /// The whole frame.
    pub(crate) bytes: Bytes,
}

impl GoldenFrame {
    pub(crate) fn name(&self) -> String {
        format!("{}/{}", self.label, self.index["file"].as_str().expect("a name"))
    }

    pub(crate) fn frame(&self) -> Frame {
        Frame::parse(self.bytes.clone()).unwrap_or_else(|error| panic!("{}: {error}", self.name()))
    }

    pub(crate) fn is_response(&self) -> bool {
        self.index["flag"].as_i64().expect("a flag") & 1 == 1
    }

    /// The code of the request, of which this may be the answer.
    pub(crate) fn request_code(&self) -> i64 {
        self.index.get("request_code").unwrap_or(&self.index["code"]).as_i64().expect("a code")
    }

    pub(crate) fn code(&self) -> i64 {
        self.index["code"].as_i64().expect("a code")
    }

    pub(crate) fn body_kind(&self) -> &str {
        self.index["body_kind"].as_str().expect("a kind")
    }

    pub(crate) fn fields(&self) -> Option<BTreeMap<String, String>> {
        let fields = self.index.get("ext_fields")?.clone();
        Some(serde_json::from_value(fields).expect("a map of text"))
    }
}

/// The bytes of a recording.
pub(crate) fn stream(label: &str) -> Bytes {
    golden(&format!("frames/{label}.bin.gz")).into()
}

/// All frames of all recordings.
pub(crate) fn all() -> Vec<GoldenFrame> {
    let mut frames = Vec::new();
    for (label, count) in LABELS {
        let mut rest = stream(label);
        let index = json_lines(&format!("frames/{label}.jsonl.gz"));
        assert_eq!(index.len(), count, "{label}");
        for index in index {
            let layout = FrameLayout::peek(&rest, usize::MAX).expect("a frame").expect("a whole frame");
            frames.push(GoldenFrame { label, index, bytes: rest.split_to(layout.frame_length) });
        }
        assert!(rest.is_empty(), "{label}: frames that are not listed");
    }
    frames
}

/// One frame of each shape: header form, code, direction and names of the fields.
pub(crate) fn one_of_each_shape() -> Vec<GoldenFrame> {
    let mut seen = std::collections::BTreeSet::new();
    let mut frames = all();
    frames.retain(|frame| {
        let names: Option<Vec<String>> = frame.fields().map(|fields| fields.into_keys().collect());
        seen.insert((
            frame.index["serialize_type"].to_string(),
            frame.request_code(),
            frame.is_response(),
            names,
            frame.index.get("remark").is_some(),
            frame.body_kind().to_owned(),
        ))
    });
    assert!(frames.len() > 400, "{}", frames.len());
    frames
}
