//! What is written is read again, for any command.

use bytes::Bytes;
use proptest::collection::{btree_map, vec};
use proptest::option;
use proptest::prelude::*;
use rocketmq_wire::frame::{DEFAULT_MAX_FRAME_LENGTH, FrameLayout};
use rocketmq_wire::header::SerializeType;
use rocketmq_wire::{Frame, LanguageCode, RemotingCommand, Version, fastjson};

fn command() -> impl Strategy<Value = RemotingCommand> {
    let numbers = (any::<i32>(), 0u8..14, any::<i16>(), any::<i32>(), any::<i32>());
    let fields = option::of(btree_map(".{0,12}", ".{0,40}", 0..8));
    (any::<bool>(), numbers, option::of(".{0,60}"), fields, vec(any::<u8>(), 0..200)).prop_map(
        |(binary, (code, language, version, opaque, flag), remark, fields, body)| RemotingCommand {
            serialize_type: if binary { SerializeType::Binary } else { SerializeType::Json }.able_to_carry(code),
            code,
            language: LanguageCode(language),
            version: Version(version.into()),
            opaque,
            flag,
            remark,
            fields: fields.map(|fields| fields.into_iter().collect()),
            body: Bytes::from(body),
        },
    )
}

/// The binary form does not tell an absent remark from an empty one, nor absent fields from none.
fn as_written(mut command: RemotingCommand) -> RemotingCommand {
    if command.serialize_type == SerializeType::Binary {
        command.remark = command.remark.filter(|remark| !remark.is_empty());
        command.fields = command.fields.filter(|fields| !fields.is_empty());
    }
    command
}

proptest! {
    #[test]
    fn commands(command in command(), small in 0i32..32_768, make_small: bool) {
        let command = RemotingCommand { code: if make_small { small } else { command.code }, ..command };
        let bytes = command.to_bytes().unwrap();
        let layout = FrameLayout::peek(&bytes, DEFAULT_MAX_FRAME_LENGTH).unwrap().unwrap();
        prop_assert_eq!(layout.frame_length, bytes.len());
        let decoded = RemotingCommand::decode(&Frame::parse(bytes.clone()).unwrap()).unwrap();
        prop_assert_eq!(&decoded, &as_written(command));
        prop_assert_eq!(decoded.to_bytes().unwrap(), bytes);
    }

    #[test]
    fn any_bytes(bytes in vec(any::<u8>(), 0..300), binary: bool) {
        let mut frame = vec![0, 0, 0, 0, u8::from(binary), 0, 0, 0];
        frame.extend_from_slice(&bytes);
        let header_length = bytes.len() as u32;
        frame[..4].copy_from_slice(&(header_length + 4).to_be_bytes());
        frame[4..8].copy_from_slice(&(header_length | u32::from(binary) << 24).to_be_bytes());
        if let Ok(command) = RemotingCommand::decode(&Frame::parse(Bytes::from(frame)).unwrap()) {
            command.to_bytes().unwrap();
        }
        let _ = fastjson::from_slice::<serde_json::Value>("any bytes", &bytes);
    }

    #[test]
    fn dialect(text in "[\\[\\]{}:,\"0-9a-z\\\\ ]{0,60}") {
        let is_standard = serde_json::from_str::<serde_json::Value>(&text).is_ok();
        if let Ok(standard) = fastjson::to_standard_json("text", &text)
            && is_standard
        {
            prop_assert_eq!(&standard, &text, "standard JSON is left alone");
        }
    }

    #[test]
    fn standard_json_is_read_by_both_and_written_alike(value in json()) {
        let standard = serde_json::to_vec(&value).unwrap();
        prop_assert_eq!(&fastjson::from_slice::<serde_json::Value>("value", &standard).unwrap(), &value);
        let written = fastjson::to_vec("value", &value).unwrap();
        prop_assert_eq!(&serde_json::from_slice::<serde_json::Value>(&written).unwrap(), &value);
    }
}

fn json() -> impl Strategy<Value = serde_json::Value> {
    let leaf = prop_oneof![
        Just(serde_json::Value::Null),
        any::<bool>().prop_map(Into::into),
        any::<i64>().prop_map(Into::into),
        ".{0,20}".prop_map(Into::into),
    ];
    leaf.prop_recursive(4, 40, 6, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..6).prop_map(Into::into),
            btree_map("[^\0].{0,8}", inner, 0..6).prop_map(|map| serde_json::Value::Object(map.into_iter().collect())),
        ]
    })
}
