//! What a consumer asks of a broker: one function a request, each one round trip.
//!
//! Every function takes the time by which it must have ended; its errors name the operation and the broker. Dropping a
//! future gives the answer up, not the request.

use std::time::Instant;

use bytes::Bytes;
use rocketmq_wire::ResponseCode;
use rocketmq_wire::fastjson;
use rocketmq_wire::model::{
    CheckClient, ConsumerConnection, ConsumerList, LockBatch, LockedQueues, MessageQueue as WireQueue, SubscriptionData,
};
use rocketmq_wire::request::Request;
use rocketmq_wire::request::admin::ConsumerConnectionRequest;
use rocketmq_wire::request::group::{CheckClientRequest, ConsumerListRequest, LockBatchRequest, UnlockBatchRequest};
use rocketmq_wire::request::offset::{
    MaxOffsetRequest, MinOffsetRequest, OffsetResponse, QueryConsumerOffsetRequest, SearchOffsetByTimestampRequest,
    UpdateConsumerOffsetRequest,
};
use rocketmq_wire::request::pull::{PullMessageRequest, PullMessageResponse};
use rocketmq_wire::request::send::{ConsumerSendMessageBackRequest, SendMessageRequestV2};

use crate::error::{Error, ErrorKind, Result};
use crate::message::MessageQueue;
use crate::remoting::{Peer, Response};

/// What a pull came to. Anything else is an error.
#[derive(Debug)]
pub(crate) struct Pulled {
    pub(crate) status: PullStatus,
    /// Where the broker wants the next pull to begin, which replica to ask then, and the bounds of the queue.
    pub(crate) header: PullMessageResponse,
    /// Stored messages back to back; empty unless some were found.
    pub(crate) body: Bytes,
    /// Whether an administrator has moved the group's offset, which the broker says only once.
    pub(crate) was_reset: bool,
}

/// The four answers to a pull (response codes 0, 19, 20 and 21).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PullStatus {
    Found,
    /// Nothing has been stored at the offset yet.
    NoNewMessage,
    /// Nothing up to the next offset is for this consumer.
    NoMatchedMessage,
    /// The queue does not reach from the offset on; the next offset is within.
    OffsetIllegal,
}

/// What a broker says of a pull after the administrator moved the group's offset on the server (5.0 and later).
const RESET_REMARK: &str = "OFFSET_RESET";

/// Pulls messages, or waits for some at the broker.
pub(crate) async fn pull(peer: &Peer, request: &PullMessageRequest<'_>, deadline: Instant) -> Result<Pulled> {
    let name = |error: crate::Error| error.with_operation("pull");
    let response = peer.call(request, &Bytes::new(), deadline).await.map_err(name)?;
    let status = match response.code() {
        ResponseCode::SUCCESS => PullStatus::Found,
        ResponseCode::PULL_NOT_FOUND => PullStatus::NoNewMessage,
        ResponseCode::PULL_RETRY_IMMEDIATELY => PullStatus::NoMatchedMessage,
        ResponseCode::PULL_OFFSET_MOVED => PullStatus::OffsetIllegal,
        _ => return Err(name(response.error())),
    };
    let header = response.decode::<PullMessageRequest<'_>>().map_err(name)?;
    let was_reset =
        status == PullStatus::OffsetIllegal && response.remark().is_some_and(|remark| remark == RESET_REMARK);
    let body = if status == PullStatus::Found { response.body().clone() } else { Bytes::new() };
    Ok(Pulled { status, header, body, was_reset })
}

/// The offset that a group has stored for a queue; `None` when the broker says that there is none. Brokers say 0 to a group
/// that they do not know while they have all of a queue in memory; if `is_strict`, those of 5.0 and later do not.
pub(crate) async fn query_consumer_offset(
    peer: &Peer,
    group: &str,
    queue: &MessageQueue,
    is_strict: bool,
    deadline: Instant,
) -> Result<Option<i64>> {
    let request = QueryConsumerOffsetRequest {
        consumer_group: group.into(),
        topic: queue.topic().into(),
        queue_id: queue.id(),
        set_zero_if_not_found: is_strict.then_some(false),
        broker_name: Some(queue.broker().into()),
    };
    let name = |error: crate::Error| error.with_operation("query the consumer offset");
    let response = peer.call(&request, &Bytes::new(), deadline).await.map_err(name)?;
    if response.code() == ResponseCode::QUERY_NOT_FOUND {
        return Ok(None);
    }
    offset_of::<QueryConsumerOffsetRequest<'_>>(response.success()).map(Some).map_err(name)
}

/// Stores the offset of a group for a queue, and awaits that it is stored.
pub(crate) async fn update_consumer_offset(
    peer: &Peer,
    group: &str,
    queue: &MessageQueue,
    offset: i64,
    deadline: Instant,
) -> Result<()> {
    let request = UpdateConsumerOffsetRequest {
        consumer_group: group.into(),
        topic: queue.topic().into(),
        queue_id: queue.id(),
        commit_offset: offset,
        broker_name: Some(queue.broker().into()),
    };
    let answer = peer.call(&request, &Bytes::new(), deadline).await.and_then(Response::success);
    answer.map(drop).map_err(|error| error.with_operation("commit the consumer offset"))
}

/// One more than the largest offset of a queue.
pub(crate) async fn max_offset(peer: &Peer, queue: &MessageQueue, deadline: Instant) -> Result<i64> {
    let request = MaxOffsetRequest {
        topic: queue.topic().into(),
        queue_id: queue.id(),
        committed: None,
        broker_name: Some(queue.broker().into()),
    };
    offset(peer, &request, deadline).await.map_err(|error| error.with_operation("ask for the largest offset"))
}

/// The smallest offset of a queue.
pub(crate) async fn min_offset(peer: &Peer, queue: &MessageQueue, deadline: Instant) -> Result<i64> {
    let request = MinOffsetRequest {
        topic: queue.topic().into(),
        queue_id: queue.id(),
        broker_name: Some(queue.broker().into()),
    };
    offset(peer, &request, deadline).await.map_err(|error| error.with_operation("ask for the smallest offset"))
}

/// The offset of the first message stored at a time, in milliseconds since 1970, or later.
pub(crate) async fn search_offset(peer: &Peer, queue: &MessageQueue, timestamp: i64, deadline: Instant) -> Result<i64> {
    let request = SearchOffsetByTimestampRequest {
        topic: queue.topic().into(),
        queue_id: queue.id(),
        timestamp,
        boundary_type: None,
        broker_name: Some(queue.broker().into()),
    };
    offset(peer, &request, deadline).await.map_err(|error| error.with_operation("search the offset of a time"))
}

async fn offset<R>(peer: &Peer, request: &R, deadline: Instant) -> Result<i64>
where
    R: for<'r> Request<Response<'r> = OffsetResponse>,
{
    offset_of::<R>(peer.call(request, &Bytes::new(), deadline).await.and_then(Response::success))
}

fn offset_of<R>(response: Result<Response>) -> Result<i64>
where
    R: for<'r> Request<Response<'r> = OffsetResponse>,
{
    Ok(response?.decode::<R>()?.offset)
}

/// The ids of a group's members, in no order.
pub(crate) async fn consumer_list(peer: &Peer, group: &str, deadline: Instant) -> Result<Vec<String>> {
    let request = ConsumerListRequest { consumer_group: group.into() };
    let answer = async {
        let response = peer.call(&request, &Bytes::new(), deadline).await?.success()?;
        let list: Option<ConsumerList> =
            fastjson::from_slice("consumer list", response.body()).map_err(|error| response.malformed(error))?;
        Ok(list.unwrap_or_default().consumer_id_list)
    };
    answer.await.map_err(|error: crate::Error| error.with_operation("ask for the members of the group"))
}

/// Asks a broker whether it can work with a subscription.
///
/// Its words are in the error: a bad expression, or that it does not filter by properties.
pub(crate) async fn check_subscription(
    peer: &Peer,
    client_id: &str,
    group: &str,
    subscription: SubscriptionData,
    deadline: Instant,
) -> Result<()> {
    let check =
        CheckClient { client_id: client_id.to_owned(), group: group.to_owned(), subscription_data: subscription };
    let answer = async { peer.call(&CheckClientRequest, &json(&check)?, deadline).await.and_then(Response::success) };
    answer.await.map(drop).map_err(|error: Error| error.with_operation("check the subscription"))
}

/// What the broker knows of the members of a group, and of what they subscribe to.
pub(crate) async fn consumer_connections(peer: &Peer, group: &str, deadline: Instant) -> Result<ConsumerConnection> {
    let request = ConsumerConnectionRequest { consumer_group: group.into() };
    let answer = async {
        let response = peer.call(&request, &Bytes::new(), deadline).await?.success()?;
        let known: Option<ConsumerConnection> =
            fastjson::from_slice("consumer connections", response.body()).map_err(|error| response.malformed(error))?;
        Ok(known.unwrap_or_default())
    };
    answer.await.map_err(|error: Error| error.with_operation("ask for the subscriptions of the group"))
}

/// Locks queues of one broker for a client. Returns those that are locked.
pub(crate) async fn lock_queues(
    peer: &Peer,
    client_id: &str,
    group: &str,
    queues: &[&MessageQueue],
    deadline: Instant,
) -> Result<Vec<MessageQueue>> {
    let answer = async {
        let body = json(&lock_batch(client_id, group, queues))?;
        let response = peer.call(&LockBatchRequest, &body, deadline).await?.success()?;
        let locked: Option<LockedQueues> =
            fastjson::from_slice("locked queues", response.body()).map_err(|error| response.malformed(error))?;
        let queue = |queue: WireQueue| MessageQueue::new(queue.topic, queue.broker_name, queue.queue_id);
        Ok(locked.unwrap_or_default().locked.into_iter().map(queue).collect())
    };
    answer.await.map_err(|error: Error| error.with_operation("lock queues"))
}

/// Gives locks back.
pub(crate) async fn unlock_queues(
    peer: &Peer,
    client_id: &str,
    group: &str,
    queues: &[&MessageQueue],
    deadline: Instant,
) -> Result<()> {
    let answer = async {
        let body = json(&lock_batch(client_id, group, queues))?;
        peer.call(&UnlockBatchRequest, &body, deadline).await.and_then(Response::success)
    };
    answer.await.map(drop).map_err(|error: Error| error.with_operation("unlock queues"))
}

fn lock_batch(client_id: &str, group: &str, queues: &[&MessageQueue]) -> LockBatch {
    let queue = |queue: &&MessageQueue| WireQueue {
        broker_name: queue.broker().to_owned(),
        queue_id: queue.id(),
        topic: queue.topic().to_owned(),
    };
    LockBatch {
        client_id: client_id.to_owned(),
        consumer_group: group.to_owned(),
        mq_set: queues.iter().map(queue).collect(),
        only_this_broker: false,
    }
}

fn json<T: serde::Serialize>(value: &T) -> Result<Bytes> {
    let body = serde_json::to_vec(value).map_err(|error| {
        Error::new(ErrorKind::InvalidArgument, "the body of a request cannot be written").with_source(error)
    })?;
    Ok(body.into())
}

/// Hands a message back to the broker, which delivers it to the group again later.
pub(crate) async fn send_back(
    peer: &Peer,
    request: &ConsumerSendMessageBackRequest<'_>,
    deadline: Instant,
) -> Result<()> {
    let answer = peer.call(request, &Bytes::new(), deadline).await.and_then(Response::success);
    answer.map(drop).map_err(|error| error.with_operation("send a message back"))
}

/// Sends a message to a group's retry topic, in place of the broker that did not take it back.
///
/// Any answer that says the message is stored counts, as safely or not.
pub(crate) async fn send_to_retry_topic(
    peer: &Peer,
    request: &SendMessageRequestV2<'_>,
    body: &Bytes,
    deadline: Instant,
) -> Result<()> {
    let answer = async {
        let response = peer.call(request, body, deadline).await?;
        match response.code() {
            ResponseCode::SUCCESS
            | ResponseCode::FLUSH_DISK_TIMEOUT
            | ResponseCode::FLUSH_SLAVE_TIMEOUT
            | ResponseCode::SLAVE_NOT_AVAILABLE => Ok(()),
            _ => Err(response.error()),
        }
    };
    answer.await.map_err(|error: crate::Error| error.with_operation("send to the retry topic"))
}
