//! What both header targets do.

use bytes::{Bytes, BytesMut};
use rocketmq_wire::header::{DecodeFields, Header, SerializeType};
use rocketmq_wire::request::offset::QueryConsumerOffsetRequest;
use rocketmq_wire::request::pull::{PullMessageRequest, PullMessageResponse};
use rocketmq_wire::request::registration::RegisterBrokerRequest;
use rocketmq_wire::request::send::{SendMessageRequest, SendMessageRequestV2, SendMessageResponse};
use rocketmq_wire::{Frame, LanguageCode, RemotingCommand};

/// Reads `bytes` as a header in every way there is; a header that can be read can be written and read again.
pub fn read(serialize_type: SerializeType, bytes: &[u8]) {
    let Ok(header) = Header::decode(serialize_type, bytes) else { return };
    let fields = header.fields;
    let _ = SendMessageRequest::decode_fields(fields);
    let _ = SendMessageRequestV2::decode_fields(fields);
    let _ = SendMessageResponse::decode_fields(fields);
    let _ = PullMessageRequest::decode_fields(fields);
    let _ = PullMessageResponse::decode_fields(fields);
    let _ = QueryConsumerOffsetRequest::decode_fields(fields);
    let _ = RegisterBrokerRequest::decode_fields(fields);
    let _ = fields.get("topic");

    let frame = Frame { serialize_type, header: Bytes::copy_from_slice(bytes), body: Bytes::new() };
    let Ok(mut command) = RemotingCommand::decode(&frame) else { return };
    if serialize_type == SerializeType::Json {
        // A language without a name is written as another one.
        command.language = LanguageCode::from_name(command.language.name());
    }
    let mut out = BytesMut::new();
    if command.encode(&mut out).is_ok() {
        let again = Frame::parse(out.freeze()).expect("a frame that was just written");
        assert_eq!(RemotingCommand::decode(&again).expect("a command that was just written"), command);
    }
}
