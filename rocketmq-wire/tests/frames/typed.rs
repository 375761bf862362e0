//! The typed form of each request and answer encodes to the fields that were recorded.

use std::collections::BTreeMap;

use bytes::BytesMut;
use rocketmq_wire::header::{DecodeFields, EncodeFields, Fields, NoFields, SerializeType, encode};
use rocketmq_wire::request::Request;
use rocketmq_wire::request::admin::*;
use rocketmq_wire::request::group::*;
use rocketmq_wire::request::name_server::*;
use rocketmq_wire::request::offset::*;
use rocketmq_wire::request::pull::*;
use rocketmq_wire::request::query::*;
use rocketmq_wire::request::registration::*;
use rocketmq_wire::request::reply::*;
use rocketmq_wire::request::route::*;
use rocketmq_wire::request::send::*;
use rocketmq_wire::{DecodeError, Frame, RemotingCommand, ResponseCode};

use crate::golden_frames::{GoldenFrame, all};

/// What any request may carry besides its own fields: a signature, and the marks of namespaces and of 5.3 clients.
const OF_EVERY_REQUEST: [&str; 4] = ["AccessKey", "Signature", "SecurityToken", "ReqT"];

type Check = fn(&GoldenFrame, &Frame);

/// The checks of a request type: of its frames and of its answers.
struct Checks {
    code: i32,
    request: Check,
    response: Check,
}

macro_rules! checks {
    ($($request:ty as $header:ty => $response:ty,)*) => {
        vec![$(Checks {
            code: <$request as Request>::CODE.0,
            request: |golden, frame| {
                let fields = frame.decode_header().expect("a header").fields;
                check(golden, frame, <$header>::decode_fields(fields));
            },
            response: |golden, frame| {
                let fields = frame.decode_header().expect("a header").fields;
                check(golden, frame, <$response>::decode_fields(fields));
            },
        },)*]
    };
}

fn checks() -> Vec<Checks> {
    checks![
        SendMessageRequest<'_> as SendMessageRequest<'_> => SendMessageResponse<'_>,
        SendMessageRequestV2<'_> as SendMessageRequestV2<'_> => SendMessageResponse<'_>,
        SendBatchMessageRequest<'_> as SendMessageRequestV2<'_> => SendMessageResponse<'_>,
        ConsumerSendMessageBackRequest<'_> as ConsumerSendMessageBackRequest<'_> => NoFields,
        PullMessageRequest<'_> as PullMessageRequest<'_> => PullMessageResponse,
        LitePullMessageRequest<'_> as PullMessageRequest<'_> => PullMessageResponse,
        QueryConsumerOffsetRequest<'_> as QueryConsumerOffsetRequest<'_> => OffsetResponse,
        UpdateConsumerOffsetRequest<'_> as UpdateConsumerOffsetRequest<'_> => NoFields,
        MaxOffsetRequest<'_> as MaxOffsetRequest<'_> => OffsetResponse,
        MinOffsetRequest<'_> as MinOffsetRequest<'_> => OffsetResponse,
        SearchOffsetByTimestampRequest<'_> as SearchOffsetByTimestampRequest<'_> => OffsetResponse,
        EarliestStoreTimeRequest<'_> as EarliestStoreTimeRequest<'_> => StoreTimeResponse,
        HeartbeatRequest as NoFields => HeartbeatResponse,
        UnregisterClientRequest<'_> as UnregisterClientRequest<'_> => NoFields,
        ConsumerListRequest<'_> as ConsumerListRequest<'_> => NoFields,
        NotifyConsumerIdsChangedRequest<'_> as NotifyConsumerIdsChangedRequest<'_> => NoFields,
        LockBatchRequest as NoFields => NoFields,
        UnlockBatchRequest as NoFields => NoFields,
        CheckClientRequest as NoFields => NoFields,
        RegisterBrokerRequest<'_> as RegisterBrokerRequest<'_> => RegisterBrokerResponse<'_>,
        UnregisterBrokerRequest<'_> as UnregisterBrokerRequest<'_> => NoFields,
        QueryDataVersionRequest<'_> as QueryDataVersionRequest<'_> => QueryDataVersionResponse,
        TopicRouteRequest<'_> as TopicRouteRequest<'_> => NoFields,
        ClusterInfoRequest as NoFields => NoFields,
        TopicListRequest as NoFields => NoFields,
        CreateTopicRequest<'_> as CreateTopicRequest<'_> => NoFields,
        EndTransactionRequest<'_> as EndTransactionRequest<'_> => NoFields,
        CheckTransactionStateRequest<'_> as CheckTransactionStateRequest<'_> => NoFields,
        SendReplyMessageRequestV2<'_> as SendMessageRequestV2<'_> => SendMessageResponse<'_>,
        PushReplyMessageRequest<'_> as PushReplyMessageRequest<'_> => NoFields,
        RecallMessageRequest<'_> as RecallMessageRequest<'_> => RecallMessageResponse<'_>,
        CreateTopicListRequest as NoFields => NoFields,
        DeleteTopicRequest<'_> as DeleteTopicRequest<'_> => NoFields,
        TopicConfigRequest<'_> as TopicConfigRequest<'_> => NoFields,
        AllTopicConfigRequest as NoFields => NoFields,
        TopicStatsRequest<'_> as TopicStatsRequest<'_> => NoFields,
        SystemTopicsOfBrokerRequest as NoFields => NoFields,
        CreateGroupRequest as NoFields => NoFields,
        CreateGroupListRequest as NoFields => NoFields,
        DeleteGroupRequest<'_> as DeleteGroupRequest<'_> => NoFields,
        AllGroupConfigRequest as NoFields => NoFields,
        ConsumeStatsRequest<'_> as ConsumeStatsRequest<'_> => NoFields,
        BrokerConsumeStatsRequest as BrokerConsumeStatsRequest => NoFields,
        ConsumerConnectionRequest<'_> as ConsumerConnectionRequest<'_> => NoFields,
        ProducerConnectionRequest<'_> as ProducerConnectionRequest<'_> => NoFields,
        AllProducersRequest as NoFields => NoFields,
        TopicConsumersRequest<'_> as TopicConsumersRequest<'_> => NoFields,
        ConsumeTimeSpanRequest<'_> as ConsumeTimeSpanRequest<'_> => NoFields,
        ResetOffsetRequest<'_> as ResetOffsetRequest<'_> => NoFields,
        ResetConsumerOffsetRequest<'_> as ResetConsumerOffsetRequest<'_> => NoFields,
        ConsumerStatusRequest<'_> as ConsumerStatusRequest<'_> => NoFields,
        ConsumerStatusFromClientRequest<'_> as ConsumerStatusFromClientRequest<'_> => NoFields,
        ConsumerRunningInfoRequest<'_> as ConsumerRunningInfoRequest<'_> => NoFields,
        ConsumeDirectlyRequest<'_> as ConsumeDirectlyRequest<'_> => NoFields,
        CloneOffsetRequest<'_> as CloneOffsetRequest<'_> => NoFields,
        CorrectionOffsetRequest<'_> as CorrectionOffsetRequest<'_> => NoFields,
        AllConsumerOffsetRequest as NoFields => NoFields,
        AllDelayOffsetRequest as NoFields => NoFields,
        BrokerStatsDataRequest<'_> as BrokerStatsDataRequest<'_> => NoFields,
        QueryConsumeQueueRequest<'_> as QueryConsumeQueueRequest<'_> => NoFields,
        BrokerRuntimeInfoRequest as NoFields => NoFields,
        UpdateBrokerConfigRequest as NoFields => NoFields,
        BrokerConfigRequest as NoFields => BrokerConfigResponse<'_>,
        CleanExpiredConsumeQueuesRequest as NoFields => NoFields,
        CleanUnusedTopicsRequest as NoFields => NoFields,
        DeleteTopicInNameServerRequest<'_> as DeleteTopicInNameServerRequest<'_> => NoFields,
        TopicsByClusterRequest<'_> as TopicsByClusterRequest<'_> => NoFields,
        SystemTopicsRequest as NoFields => NoFields,
        PutKvConfigRequest<'_> as PutKvConfigRequest<'_> => NoFields,
        KvConfigRequest<'_> as KvConfigRequest<'_> => KvConfigResponse<'_>,
        DeleteKvConfigRequest<'_> as DeleteKvConfigRequest<'_> => NoFields,
        KvListRequest<'_> as KvListRequest<'_> => NoFields,
        WipeWritePermRequest<'_> as WipeWritePermRequest<'_> => WipeWritePermResponse,
        AddWritePermRequest<'_> as AddWritePermRequest<'_> => AddWritePermResponse,
        UpdateNameServerConfigRequest as NoFields => NoFields,
        NameServerConfigRequest as NoFields => NoFields,
        QueryMessageRequest<'_> as QueryMessageRequest<'_> => QueryMessageResponse,
        ViewMessageRequest<'_> as ViewMessageRequest<'_> => NoFields,
    ]
}

/// Encodes `typed` in both forms and compares the fields with the recorded ones.
fn check<T: EncodeFields + std::fmt::Debug>(golden: &GoldenFrame, frame: &Frame, typed: Result<T, DecodeError>) {
    let typed = typed.unwrap_or_else(|error| panic!("{}: {error}", golden.name()));
    let head = frame.decode_header().expect("a header").head;
    let mut expected = golden.fields().unwrap_or_default();
    expected.retain(|name, _| !OF_EVERY_REQUEST.contains(&name.as_str()));
    for serialize_type in [SerializeType::Json, SerializeType::Binary] {
        let mut out = BytesMut::new();
        encode(&mut out, serialize_type, &head, &typed, frame.body.len()).expect("a header");
        out.extend_from_slice(&frame.body);
        let again = Frame::parse(out.freeze()).expect("a frame");
        assert_eq!(again.body, frame.body);
        // The binary form has no remark that is empty.
        let mut head = head.clone();
        head.remark = head.remark.filter(|remark| serialize_type == SerializeType::Json || !remark.is_empty());
        assert_eq!(again.decode_header().expect("a header").head, head, "{}", golden.name());
        let command = RemotingCommand::decode(&again).expect("a command");
        let count = command.fields.as_ref().map_or(0, Vec::len);
        let fields: BTreeMap<String, String> = command.fields.unwrap_or_default().into_iter().collect();
        assert_eq!(fields.len(), count, "no field twice");
        assert_eq!(fields, expected, "{}", golden.name());
    }
}

/// Whether an answer has the header of a success: failures have none, or a part of it.
fn has_response_header(golden: &GoldenFrame) -> bool {
    let code = ResponseCode(golden.code() as i32);
    let pull = [ResponseCode::PULL_NOT_FOUND, ResponseCode::PULL_RETRY_IMMEDIATELY, ResponseCode::PULL_OFFSET_MOVED];
    let stored =
        [ResponseCode::FLUSH_DISK_TIMEOUT, ResponseCode::FLUSH_SLAVE_TIMEOUT, ResponseCode::SLAVE_NOT_AVAILABLE];
    code == ResponseCode::SUCCESS || pull.contains(&code) || stored.contains(&code)
}

#[test]
fn typed_headers_encode_to_the_recorded_fields() {
    let checks = checks();
    let mut seen: BTreeMap<i32, (usize, usize)> = checks.iter().map(|check| (check.code, (0, 0))).collect();
    for golden in all() {
        let Some(check) = checks.iter().find(|check| i64::from(check.code) == golden.request_code()) else { continue };
        let counts = seen.get_mut(&check.code).expect("a code");
        let frame = golden.frame();
        // Sent on purpose to see the broker's answer.
        if golden.index["scenario"] == "send-missing-required-field" {
            let fields = frame.decode_header().expect("a header").fields;
            let typed = SendMessageRequest::decode_fields(fields);
            assert!(golden.is_response() || matches!(typed, Err(DecodeError::MissingField(_))), "{}", golden.name());
            continue;
        }
        if !golden.is_response() {
            counts.0 += 1;
            (check.request)(&golden, &frame);
        } else if has_response_header(&golden) {
            counts.1 += 1;
            (check.response)(&golden, &frame);
        }
    }
    for (code, (requests, responses)) in seen {
        assert!(requests > 0, "no request {code} was recorded");
        assert!(responses > 0 || [39, 40, 220].contains(&code), "no answer to {code} was recorded");
    }
}

#[test]
fn fields_kept_as_bytes_read_the_same() {
    for golden in all() {
        let frame = golden.frame();
        let fields = frame.decode_header().expect("a header").fields;
        let kept = Fields::from_bytes(frame.serialize_type, fields.as_bytes()).expect("fields");
        let entries = |fields: Fields<'_>| {
            let mut entries = Vec::new();
            let walk = fields.for_each(|name, value| {
                entries.push((name.to_owned(), value.into_owned()));
                Ok(())
            });
            walk.map(|()| entries).expect("well-formed fields")
        };
        assert_eq!(entries(kept), entries(fields), "{}", golden.name());
    }
}
