//! What brokers ask of a consumer, on behalf of the console and of `mqadmin`.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use rocketmq_wire::fastjson::{self, ObjectKey};
use rocketmq_wire::header::NoFields;
use rocketmq_wire::message::StoredMessage;
use rocketmq_wire::model::{
    ConsumeDirectlyResult, ConsumeStatus, ConsumerRunningInfo, ConsumerStatus, MessageQueue as WireQueue,
    ProcessQueueInfo, QueueOffsets, SubscriptionData, consume_type, running_property,
};
use rocketmq_wire::request::admin::{
    ConsumeDirectlyRequest, ConsumerStatusFromClientRequest, ResetConsumerOffsetRequest,
};
use rocketmq_wire::{RequestCode, ResponseCode};
use tokio::sync::mpsc;

use super::concurrent::Workers;
use super::group::Group;
use super::handler::ConsumeResult;
use super::message_view::{MessageView, Origin};
use super::owned_queue::OwnedQueue;
use super::subscription::Subscription;
use super::window::Rates;
use crate::error::{Error, ErrorKind, Result};
use crate::message::MessageQueue;
use crate::remoting::Incoming;

/// Serves requests one after the other; ends when the consumer has left the group.
pub(super) async fn serve(group: Arc<Group>, workers: Arc<Workers>, mut incoming: mpsc::Receiver<Incoming>) {
    while let Some(request) = incoming.recv().await {
        let answer = match request.code() {
            RequestCode::RESET_CONSUMER_CLIENT_OFFSET => reset(&group, &request).map(|()| Bytes::new()),
            RequestCode::GET_CONSUMER_STATUS_FROM_CLIENT => status(&group, &request),
            RequestCode::GET_CONSUMER_RUNNING_INFO => running_info(&group, &workers),
            RequestCode::CONSUME_MESSAGE_DIRECTLY => consume_directly(&group, &request).await,
            code => Err(Error::new(ErrorKind::Unsupported, format!("a consumer does not serve request {code}"))),
        };
        match answer {
            Ok(body) => {
                if let Err(error) = request.respond(ResponseCode::SUCCESS, None, &NoFields, &body) {
                    tracing::warn!(group = &*group.name, %error, "an answer for an administrator could not be sent");
                }
            }
            Err(error) => {
                tracing::warn!(group = &*group.name, %error, "a request of an administrator was not carried out");
                request.refuse(ResponseCode::SYSTEM_ERROR, &error.to_string());
            }
        }
    }
}

/// A queue as servers know it.
fn to_wire(group: &Group, queue: &MessageQueue) -> ObjectKey<WireQueue> {
    let topic = group.cluster.namespace().wrap(queue.topic()).into_owned();
    ObjectKey(WireQueue { broker_name: queue.broker().to_owned(), queue_id: queue.id(), topic })
}

fn body<T: serde::Serialize>(value: &T) -> Result<Bytes> {
    let body = fastjson::to_vec("answer for an administrator", value);
    body.map(Into::into)
        .map_err(|error| Error::new(ErrorKind::Protocol, "the answer cannot be written").with_source(error))
}

/// Moves queues to the offsets that an administrator has set. Those that this member does not read are others' business.
fn reset(group: &Arc<Group>, request: &Incoming) -> Result<()> {
    let header: ResetConsumerOffsetRequest<'_> = request.decode()?;
    let offsets: QueueOffsets = fastjson::from_slice("offsets to reset to", request.body()).map_err(|error| {
        Error::new(ErrorKind::Protocol, "the offsets to reset to cannot be read").with_source(error)
    })?;
    for (queue, owned) in group.reports.owned().into_iter().filter(|(queue, _)| queue.topic() == header.topic) {
        let Some(offset) = offsets.offset_table.get(&to_wire(group, &queue)).copied() else { continue };
        tracing::warn!(group = &*group.name, %queue, offset, "an administrator has reset the offset of a queue");
        group.counters.offset_corrections.one();
        owned.reset_to(offset.max(0));
    }
    Ok(())
}

/// Where this member is in the queues of a topic, or of all.
fn status(group: &Arc<Group>, request: &Incoming) -> Result<Bytes> {
    let header: ConsumerStatusFromClientRequest<'_> = request.decode()?;
    let topic = header.topic.trim();
    let owned = group.reports.owned().into_iter().filter(|(queue, _)| topic.is_empty() || queue.topic() == topic);
    let message_queue_table = owned.map(|(queue, owned)| (to_wire(group, &queue), owned.committable())).collect();
    body(&ConsumerStatus { message_queue_table, ..ConsumerStatus::default() })
}

fn running_info(group: &Arc<Group>, workers: &Workers) -> Result<Bytes> {
    let options = &group.options;
    let now_ms = group.env().wall_clock_ms();
    let owned = group.reports.owned();
    let mq_table = owned.iter().map(|(queue, owned)| (to_wire(group, queue), queue_info(group, owned))).collect();
    let mut windows: BTreeMap<&str, Vec<_>> = BTreeMap::new();
    for (queue, owned) in &owned {
        windows.entry(queue.topic()).or_default().push(owned.notes().window);
    }
    let status = |windows: Vec<_>| {
        let rates = Rates::of(&windows, now_ms);
        ConsumeStatus {
            consume_failed_msgs: i64::try_from(rates.failed_within_hour).unwrap_or(i64::MAX),
            consume_failed_tps: rates.failed,
            consume_ok_tps: rates.succeeded,
            consume_rt: rates.consume_ms,
            pull_rt: rates.pull_ms,
            pull_tps: rates.pulled,
        }
    };
    let status_table = windows
        .into_iter()
        .map(|(topic, windows)| (group.cluster.namespace().wrap(topic).into_owned(), status(windows)))
        .collect();
    let subscriptions = group.subscriptions.borrow().clone();
    let properties = [
        (running_property::NAME_SERVERS, format!("{};", group.cluster.name_server())),
        (running_property::THREADS, workers.count().to_string()),
        (running_property::ORDERED, options.order.is_ordered().to_string()),
        (running_property::CONSUME_TYPE, consume_type::PASSIVELY.to_owned()),
        (running_property::CLIENT_VERSION, "V5_3_3".to_owned()),
        (running_property::STARTED_AT, group.started_ms.to_string()),
        ("consumerGroup", group.name.to_string()),
        ("messageModel", if options.is_broadcasting() { "BROADCASTING" } else { "CLUSTERING" }.to_owned()),
        ("allocateMessageQueueStrategy", group.strategy.name()),
        ("consumeMessageBatchMaxSize", options.batch_size.to_string()),
        ("consumeTimeout", (options.consume_timeout.as_secs() / 60).to_string()),
        ("consumeConcurrentlyMaxSpan", options.limits.span.to_string()),
        ("pullThresholdForQueue", options.limits.messages.to_string()),
        ("pullThresholdSizeForQueue", (options.limits.bytes >> 20).to_string()),
        ("pullBatchSize", options.pull_batch_size.to_string()),
        ("maxReconsumeTimes", options.max_reconsume_times().to_string()),
        ("suspendCurrentQueueTimeMillis", options.suspend_time.as_millis().to_string()),
    ];
    body(&ConsumerRunningInfo {
        mq_table,
        properties: properties.into_iter().map(|(name, value)| (name.to_owned(), value)).collect(),
        status_table,
        subscription_set: subscriptions.values().map(|subscription| wire_subscription(group, subscription)).collect(),
        ..ConsumerRunningInfo::default()
    })
}

fn wire_subscription(group: &Group, subscription: &Subscription) -> SubscriptionData {
    let mut data = subscription.to_data();
    data.topic = group.cluster.namespace().wrap(&data.topic).into_owned();
    data
}

fn queue_info(group: &Group, owned: &OwnedQueue) -> ProcessQueueInfo {
    let (content, notes) = (owned.content(), owned.notes());
    let (min, max) = content.bounds.unwrap_or((0, 0));
    let number = |count: usize| i32::try_from(count).unwrap_or(i32::MAX);
    ProcessQueueInfo {
        cached_msg_count: number(content.load.messages),
        cached_msg_max_offset: max,
        cached_msg_min_offset: min,
        cached_msg_size_in_mi_b: number(content.load.bytes >> 20),
        commit_offset: content.committable,
        droped: owned.is_released(),
        last_consume_timestamp: notes.last_consume_ms,
        last_lock_timestamp: notes.last_lock_ms,
        last_pull_timestamp: notes.last_pull_ms,
        locked: group.options.needs_locks() && owned.is_locked(group.env().now()),
        transaction_msg_count: if owned.order().is_ordered() { number(content.running) } else { 0 },
        ..ProcessQueueInfo::default()
    }
}

/// Has the handler consume one message now. Nothing comes of it but the answer: no offset moves, nothing is handed back.
async fn consume_directly(group: &Arc<Group>, request: &Incoming) -> Result<Bytes> {
    let header: ConsumeDirectlyRequest<'_> = request.decode()?;
    let (stored, _) = StoredMessage::parse(request.body().clone())
        .map_err(|error| Error::new(ErrorKind::Protocol, "the message cannot be read").with_source(error))?;
    let broker = header.broker_name.as_deref().unwrap_or_default();
    let namespace = group.cluster.namespace();
    let queue = MessageQueue::new(&*namespace.unwrap(stored.topic()), broker, stored.queue_id());
    let is_own_retry_topic = queue.topic() == &*group.retry_topic;
    let message = MessageView::new(stored, Arc::new(Origin::new(queue, is_own_retry_topic, namespace.clone())));
    let message = message.plain(group.options.max_body_bytes, group.env().wall_clock_ms())?;
    let Some(handler) = group.handlers.of(message.topic()) else {
        let message = format!("this consumer has no handler for topic `{}`", message.topic());
        return Err(Error::new(ErrorKind::NotFound, message));
    };
    let started = group.env().now();
    let deadline = started + group.options.consume_timeout;
    let handled = group.env().within(deadline, handler.run_one(message)).await;
    let (result, remark) = match handled {
        Some(handled) if handled.panicked => ("CR_THROW_EXCEPTION", handled.reason),
        Some(handled) if handled.result == ConsumeResult::Success => ("CR_SUCCESS", None),
        Some(handled) if handled.reason.is_some() => ("CR_THROW_EXCEPTION", handled.reason),
        Some(_) => ("CR_LATER", None),
        None => ("CR_LATER", Some("the handler did not end in time".to_owned())),
    };
    let spent = group.env().now().saturating_duration_since(started);
    let answer = ConsumeDirectlyResult {
        auto_commit: true,
        consume_result: result.to_owned(),
        order: group.options.order.is_ordered(),
        remark,
        spent_time_mills: i64::try_from(spent.as_millis()).unwrap_or(i64::MAX),
    };
    body(&answer)
}
