//! Sending messages, and handing failed ones back.

use std::borrow::Cow;

use super::{EmptyResponse, request};
use crate::header::{EncodeFields, EncodedFields, FieldValue, FieldWriter, header};
use crate::message::id::UniqueIdSuffix;

macro_rules! send_header {
    ($(#[$meta:meta])* $name:ident, $($wire:literal)*) => {
        send_header!(@ $(#[$meta])* $name, $($wire,)*);
    };
    (@ $(#[$meta:meta])* $name:ident, $group:literal, $topic:literal, $default_topic:literal, $default_queues:literal,
     $queue:literal, $sys_flag:literal, $born:literal, $flag:literal, $properties:literal, $reconsume:literal,
     $unit:literal, $max_reconsume:literal, $batch:literal, $broker:literal,) => {
        header! {
            $(#[$meta])*
            pub struct $name<'a> {
                /// The producer's group.
                pub producer_group: Cow<'a, str> = $group,
                /// The topic.
                pub topic: Cow<'a, str> = $topic,
                /// The topic whose settings an automatically created topic inherits, `TBW102`.
                pub default_topic: Cow<'a, str> = $default_topic,
                /// How many queues an automatically created topic gets.
                pub default_topic_queue_nums: i32 = $default_queues,
                /// The queue; negative lets the broker choose.
                pub queue_id: i32 = $queue,
                /// System flag of the message, see [`crate::message::sys_flag`].
                pub sys_flag: i32 = $sys_flag,
                /// When the message was made, in milliseconds since 1970.
                pub born_timestamp: i64 = $born,
                /// The user's flag.
                pub flag: i32 = $flag,
                /// Encoded properties, see [`crate::message::properties`].
                pub properties: Option<Cow<'a, str>> = $properties,
                /// How often the message has been consumed without success.
                pub reconsume_times: Option<i32> = $reconsume,
                /// Whether the sender works in unit mode.
                pub unit_mode: Option<bool> = $unit,
                /// The limit of `reconsume_times`, for sends to a retry topic.
                pub max_reconsume_times: Option<i32> = $max_reconsume,
                /// Whether the body holds several messages.
                pub batch: Option<bool> = $batch,
                /// The broker that the message is meant for.
                pub broker_name: Option<Cow<'a, str>> = $broker,
            }
        }
    };
}

send_header! {
    /// Sends one message; the body is the message's. The long form, which the Go client uses.
    SendMessageRequest,
    "producerGroup" "topic" "defaultTopic" "defaultTopicQueueNums" "queueId" "sysFlag" "bornTimestamp" "flag"
    "properties" "reconsumeTimes" "unitMode" "maxReconsumeTimes" "batch" "bname"
}
request!(SendMessageRequest<'a> = SEND_MESSAGE -> SendMessageResponse<'r>);

send_header! {
    /// Sends one message; the body is the message's. One-letter field names, the usual form.
    SendMessageRequestV2,
    "a" "b" "c" "d" "e" "f" "g" "h" "i" "j" "k" "l" "m" "n"
}
request!(SendMessageRequestV2<'a> = SEND_MESSAGE_V2 -> SendMessageResponse<'r>);

impl<'a> From<SendMessageRequest<'a>> for SendMessageRequestV2<'a> {
    fn from(long: SendMessageRequest<'a>) -> Self {
        Self {
            producer_group: long.producer_group,
            topic: long.topic,
            default_topic: long.default_topic,
            default_topic_queue_nums: long.default_topic_queue_nums,
            queue_id: long.queue_id,
            sys_flag: long.sys_flag,
            born_timestamp: long.born_timestamp,
            flag: long.flag,
            properties: long.properties,
            reconsume_times: long.reconsume_times,
            unit_mode: long.unit_mode,
            max_reconsume_times: long.max_reconsume_times,
            batch: long.batch,
            broker_name: long.broker_name,
        }
    }
}

/// What the headers of all messages of one producer to one queue have in common, encoded ahead of time.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SendTemplate {
    /// Group, topic, default topic, queue and broker.
    common: EncodedFields,
    /// Both flags, for the usual case that there are none.
    no_flags: EncodedFields,
    /// The property of the unique id, as far as it is the same for all messages.
    unique_id_begin: Box<str>,
}

impl SendTemplate {
    /// Encodes the group, topic, default topic, number of queues, queue and broker. What else a header can say is left
    /// out: it is zero and false then at brokers of all versions, as it is for a message that is sent for the first time.
    ///
    /// `unique_id_prefix` is [what the unique ids of all messages begin with](crate::message::UniqueIdFactory::prefix).
    #[must_use]
    pub fn new(request: &SendMessageRequestV2<'_>, unique_id_prefix: &str) -> Self {
        Self {
            common: EncodedFields::new(&Common(request)),
            no_flags: EncodedFields::new(&Flags { sys_flag: 0, flag: 0 }),
            unique_id_begin: [UNIQUE_ID_BEGIN, unique_id_prefix].concat().into(),
        }
    }

    /// The whole unique id of a message that was sent with this template.
    #[must_use]
    pub fn unique_id(&self, suffix: UniqueIdSuffix) -> String {
        let prefix = self.unique_id_begin.get(UNIQUE_ID_BEGIN.len()..).unwrap_or_default();
        let digits = suffix.digits();
        [prefix, text(&digits)].concat()
    }
}

/// Hex digits, as text.
#[inline]
fn text(digits: &[u8]) -> &str {
    std::str::from_utf8(digits).unwrap_or_default()
}

struct Common<'a>(&'a SendMessageRequestV2<'a>);

impl EncodeFields for Common<'_> {
    fn encode_fields<W: FieldWriter>(&self, writer: &mut W) {
        writer.text("a", &self.0.producer_group);
        writer.text("b", &self.0.topic);
        writer.text("c", &self.0.default_topic);
        writer.integer("d", self.0.default_topic_queue_nums.into());
        writer.integer("e", self.0.queue_id.into());
        self.0.broker_name.write("n", writer);
    }
}

struct Flags {
    sys_flag: i32,
    flag: i32,
}

impl EncodeFields for Flags {
    fn encode_fields<W: FieldWriter>(&self, writer: &mut W) {
        writer.integer("f", self.sys_flag.into());
        writer.integer("h", self.flag.into());
    }
}

const UNIQUE_ID_BEGIN: &str = "UNIQ_KEY\u{1}";
const PROPERTY_END: u8 = 2;

/// A [`SendMessageRequestV2`] for one message, most of it encoded already. It has the same fields, in another order.
#[derive(Debug, Clone, Copy)]
pub struct TemplatedSend<'a> {
    /// What does not depend on the message.
    pub template: &'a SendTemplate,
    /// System flag of the message.
    pub sys_flag: i32,
    /// When the message was made, in milliseconds since 1970.
    pub born_timestamp: i64,
    /// The user's flag.
    pub flag: i32,
    /// Encoded properties, without the unique id.
    pub properties: &'a str,
    /// The id that the producer gives the message: one more property, the last.
    pub unique_id: UniqueIdSuffix,
}

impl EncodeFields for TemplatedSend<'_> {
    #[inline]
    fn encode_fields<W: FieldWriter>(&self, writer: &mut W) {
        writer.encoded(&self.template.common);
        if self.sys_flag == 0 && self.flag == 0 {
            writer.encoded(&self.template.no_flags);
        } else {
            Flags { sys_flag: self.sys_flag, flag: self.flag }.encode_fields(writer);
        }
        writer.integer("g", self.born_timestamp);
        let mut end = [PROPERTY_END; UniqueIdSuffix::LENGTH + 1];
        end[..UniqueIdSuffix::LENGTH].copy_from_slice(&self.unique_id.digits());
        writer.texts("i", [self.properties, &self.template.unique_id_begin, text(&end)]);
    }
}
request!(TemplatedSend<'a> = SEND_MESSAGE_V2 -> SendMessageResponse<'r>);

/// Sends several messages of one topic and queue; the body is a batch, see [`crate::message::batch`].
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SendBatchMessageRequest<'a>(pub SendMessageRequestV2<'a>);

impl EncodeFields for SendBatchMessageRequest<'_> {
    #[inline]
    fn encode_fields<W: FieldWriter>(&self, writer: &mut W) {
        self.0.encode_fields(writer);
    }
}
request!(SendBatchMessageRequest<'a> = SEND_BATCH_MESSAGE -> SendMessageResponse<'r>);

/// Sends a reply to the client that asked; the body is the reply's. The long form, which the Go client uses.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SendReplyMessageRequest<'a>(pub SendMessageRequest<'a>);

impl EncodeFields for SendReplyMessageRequest<'_> {
    #[inline]
    fn encode_fields<W: FieldWriter>(&self, writer: &mut W) {
        self.0.encode_fields(writer);
    }
}
request!(SendReplyMessageRequest<'a> = SEND_REPLY_MESSAGE -> SendMessageResponse<'r>);

/// Sends a reply to the client that asked; the body is the reply's. One-letter field names, the usual form.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SendReplyMessageRequestV2<'a>(pub SendMessageRequestV2<'a>);

impl EncodeFields for SendReplyMessageRequestV2<'_> {
    #[inline]
    fn encode_fields<W: FieldWriter>(&self, writer: &mut W) {
        self.0.encode_fields(writer);
    }
}
request!(SendReplyMessageRequestV2<'a> = SEND_REPLY_MESSAGE_V2 -> SendMessageResponse<'r>);

header! {
    /// Where a sent message was stored.
    pub struct SendMessageResponse<'a> {
        /// The offset message id; of a batch the ids of all messages, joined by commas.
        pub message_id: Cow<'a, str> = "msgId",
        /// The queue that holds it.
        pub queue_id: i32 = "queueId",
        /// Its offset in that queue; of a batch the first message's.
        pub queue_offset: i64 = "queueOffset",
        /// The message's unique id, from brokers since 5.x.
        pub transaction_id: Option<Cow<'a, str>> = "transactionId",
        /// The broker's region.
        pub region: Option<Cow<'a, str>> = "MSG_REGION",
        /// Whether the broker wants the message traced.
        pub trace_on: Option<bool> = "TRACE_ON",
        /// What a timed message can be recalled with, from brokers since 5.3.2.
        pub recall_handle: Option<Cow<'a, str>> = "recallHandle",
        /// The unique id of a batch stored as one, from brokers since 5.0.
        pub batch_unique_id: Option<Cow<'a, str>> = "batchUniqId",
    }
}

header! {
    /// Hands a message that could not be consumed back to the broker, which delivers it again later. No body.
    pub struct ConsumerSendMessageBackRequest<'a> {
        /// The message's offset in the commit log.
        pub offset: i64 = "offset",
        /// The consumer's group.
        pub group: Cow<'a, str> = "group",
        /// Delay level; 0 lets the broker choose, a negative one sends the message to the dead letters.
        pub delay_level: i32 = "delayLevel",
        /// The message's id.
        pub origin_message_id: Option<Cow<'a, str>> = "originMsgId",
        /// The message's topic.
        pub origin_topic: Option<Cow<'a, str>> = "originTopic",
        /// Whether the consumer works in unit mode.
        pub unit_mode: Option<bool> = "unitMode",
        /// After how many redeliveries the message goes to the dead letters.
        pub max_reconsume_times: Option<i32> = "maxReconsumeTimes",
        /// The broker that the request is meant for.
        pub broker_name: Option<Cow<'a, str>> = "bname",
    }
}
request!(ConsumerSendMessageBackRequest<'a> = CONSUMER_SEND_MSG_BACK -> EmptyResponse);

header! {
    /// Takes back a timed message that is not delivered yet (brokers since 5.3.2). No body.
    pub struct RecallMessageRequest<'a> {
        /// The producer's group.
        pub producer_group: Cow<'a, str> = "producerGroup",
        /// The topic that the message was sent to.
        pub topic: Cow<'a, str> = "topic",
        /// What the answer to the send said the message can be recalled with.
        pub recall_handle: Cow<'a, str> = "recallHandle",
        /// The broker that the request is meant for.
        pub broker_name: Option<Cow<'a, str>> = "bname",
    }
}
request!(RecallMessageRequest<'a> = RECALL_MESSAGE -> RecallMessageResponse<'r>);

header! {
    /// Which message was recalled.
    pub struct RecallMessageResponse<'a> {
        /// The message's unique id.
        pub message_id: Cow<'a, str> = "msgId",
        /// The broker's region.
        pub region: Option<Cow<'a, str>> = "MSG_REGION",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::header::{DecodeFields as _, Head, SerializeType, encode};
    use crate::message::id::UniqueIdFactory;
    use crate::{Frame, LanguageCode, Version};
    use bytes::BytesMut;

    #[test]
    fn a_template_makes_a_header_of_the_same_fields() {
        let ids = UniqueIdFactory::new(std::net::Ipv4Addr::LOCALHOST.into(), 1, 2, 0);
        let id = ids.id(1_700_000_000_000, 0xA09);
        let whole = |sys_flag, flag| SendMessageRequestV2 {
            producer_group: "g".into(),
            topic: "t".into(),
            default_topic: "TBW102".into(),
            default_topic_queue_nums: 4,
            queue_id: 3,
            sys_flag,
            born_timestamp: 1_700_000_000_000,
            flag,
            properties: Some(format!("WAIT\u{1}true\u{2}UNIQ_KEY\u{1}{id}\u{2}").into()),
            broker_name: Some("broker-a".into()),
            ..Default::default()
        };
        let template = SendTemplate::new(&whole(0, 0), ids.prefix());
        for (now_ms, counter) in [(0, 0), (1_700_000_000_000, 0xA09F), (1_701_385_199_999, u16::MAX)] {
            let id = ids.id(now_ms, counter);
            assert_eq!(template.unique_id(id.suffix()), id.as_str());
        }
        let templated = |sys_flag, flag| TemplatedSend {
            template: &template,
            sys_flag,
            born_timestamp: 1_700_000_000_000,
            flag,
            properties: "WAIT\u{1}true\u{2}",
            unique_id: id.suffix(),
        };
        let head = Head {
            code: 310,
            language: LanguageCode::RUST,
            version: Version::V5_3_3,
            opaque: 1,
            flag: 0,
            remark: None,
        };
        for serialize_type in [SerializeType::Json, SerializeType::Binary] {
            for (sys_flag, flag) in [(0, 0), (1, 0), (0, 7), (1, 7)] {
                let (mut by_template, mut at_once) = (BytesMut::new(), BytesMut::new());
                encode(&mut by_template, serialize_type, &head, &templated(sys_flag, flag), 0).unwrap();
                encode(&mut at_once, serialize_type, &head, &whole(sys_flag, flag), 0).unwrap();
                assert_eq!(by_template.len(), at_once.len());
                let frame = Frame::parse(by_template.freeze()).unwrap();
                let fields = frame.decode_header().unwrap().fields;
                assert_eq!(SendMessageRequestV2::decode_fields(fields).unwrap(), whole(sys_flag, flag));
            }
        }
    }
}
