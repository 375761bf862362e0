//! Handing a message back to the brokers.

use std::time::Duration;

use rocketmq_wire::message::names::DEFAULT_TOPIC;
use rocketmq_wire::message::{PropertiesWriter, properties, sys_flag};
use rocketmq_wire::request::send::{ConsumerSendMessageBackRequest, SendMessageRequestV2};

use super::group::Group;
use super::message_view::MessageView;
use crate::cluster::{QUEUES_OF_NEW_TOPIC, consume};
use crate::error::{Error, ErrorKind, Result};

/// How long a broker may take to take a message back: Java's constant.
const SEND_BACK_TIMEOUT: Duration = Duration::from_secs(5);

/// After how long a message that could not be handed back goes to a handler again: Java's constant.
pub(super) const REDELIVER_AFTER: Duration = Duration::from_secs(5);

/// How many queues of the retry topic are tried when the broker does not take the message back.
const ATTEMPTS: usize = 2;

/// The delay level of the first redelivery (10 s); each later one has the next level.
const FIRST_LEVEL: u32 = 3;

/// The name under which Java consumers send messages to retry topics.
const PRODUCER_GROUP: &str = "CLIENT_INNER_PRODUCER";

/// When a message that is handed back comes again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Delay {
    /// After what belongs to the number of its failures.
    Usual,
    /// After the delay of a level, from 1 on.
    Level(i32),
    /// Never: it goes to the dead letters.
    DeadLetter,
}

/// Hands a message back, so that the group gets it again after the delay that belongs to the number of its failures, or
/// finds it among its dead letters when these are too many.
///
/// The broker that delivered it is asked to take it back; when it does not, the message is sent to the group's retry topic
/// on any broker.
///
/// # Errors
///
/// Why the broker did not take it back, when no other did either.
pub(super) async fn hand_back(group: &Group, message: &MessageView, delay: Delay) -> Result<()> {
    let Err(refusal) = send_back(group, message, delay).await else { return Ok(()) };
    match send_to_retry_topic(group, message, delay).await {
        Ok(()) => Ok(()),
        Err(error) => {
            tracing::debug!(group = &*group.name, %error, "a message could not be sent to the retry topic");
            Err(refusal)
        }
    }
}

async fn send_back(group: &Group, message: &MessageView, delay: Delay) -> Result<()> {
    let stored = message.stored();
    let request = ConsumerSendMessageBackRequest {
        offset: stored.physical_offset(),
        group: (&*group.name).into(),
        delay_level: match delay {
            Delay::Usual => 0,
            Delay::Level(level) => level,
            Delay::DeadLetter => -1,
        },
        origin_message_id: Some(message.message_id()),
        origin_topic: Some(message.topic().into()),
        unit_mode: Some(false),
        max_reconsume_times: Some(group.options.max_reconsume_times()),
        broker_name: Some(message.broker_name().into()),
    };
    let peer = match group.cluster.master(message.broker_name()) {
        Some(master) => master,
        None => group.cluster.peer(&stored.store_host().to_string()),
    };
    consume::send_back(&peer, &request, group.env().now() + SEND_BACK_TIMEOUT).await
}

/// Sends a message to the group's retry topic, as Java's inner producer does.
///
/// # Errors
///
/// Why the last broker tried did not take it.
pub(super) async fn send_to_retry_topic(group: &Group, message: &MessageView, delay: Delay) -> Result<()> {
    let stored = message.stored();
    let most = group.options.max_reconsume_times();
    let failures = message.reconsume_times();
    let level = match delay {
        Delay::Level(level) => level,
        Delay::Usual | Delay::DeadLetter => i32::try_from(FIRST_LEVEL.saturating_add(failures)).unwrap_or(i32::MAX),
    };
    let times = i32::try_from(failures.saturating_add(1)).unwrap_or(i32::MAX);
    let (times, most) = match delay {
        // Brokers of 5.0 and later put it among the dead letters when it has failed more often than allowed, older ones
        // when as often.
        Delay::DeadLetter => (times.max(1), most.min(times.max(1) - 1)),
        Delay::Usual | Delay::Level(_) => (times, most),
    };
    let properties = retry_properties(group, message, level)?;
    let topic = group.cluster.routes().topic(&group.retry_topic);
    let timeout = group.cluster.config().request_timeout;
    let route = group.cluster.routes().for_sending(&topic, group.env().now() + timeout).await?;
    let queues = route.write_queues();
    let first = group.env().random_below(queues.len());
    let mut failure = Error::new(ErrorKind::NoRoute, "no broker can be sent to");
    for turn in 0..ATTEMPTS.min(queues.len()) {
        let write = &queues[(first + turn * queues.len() / ATTEMPTS) % queues.len()];
        let request = SendMessageRequestV2 {
            producer_group: PRODUCER_GROUP.into(),
            topic: (&*group.retry_topic).into(),
            default_topic: DEFAULT_TOPIC.into(),
            default_topic_queue_nums: QUEUES_OF_NEW_TOPIC,
            queue_id: write.queue.id(),
            // The body goes as it came, so what is said of its compression goes too.
            sys_flag: stored.sys_flag() & (sys_flag::COMPRESSED | sys_flag::COMPRESSION_MASK),
            born_timestamp: stored.born_timestamp(),
            flag: stored.flag(),
            properties: Some(properties.as_str().into()),
            reconsume_times: Some(times),
            unit_mode: Some(false),
            max_reconsume_times: Some(most),
            batch: Some(false),
            broker_name: Some(write.queue.broker().into()),
        };
        let peer = group.cluster.peer(&write.master);
        match consume::send_to_retry_topic(&peer, &request, &stored.body(), group.env().now() + timeout).await {
            Ok(()) => return Ok(()),
            Err(error) => failure = error,
        }
    }
    Err(failure)
}

/// The properties of a message that this client itself sends to the retry topic: those it has, and how it came there.
fn retry_properties(group: &Group, message: &MessageView, level: i32) -> Result<String> {
    const REPLACED: [&str; 8] = [
        properties::RETRY_TOPIC,
        properties::ORIGIN_MESSAGE_ID,
        properties::DELAY,
        properties::RECONSUME_TIME,
        properties::MAX_RECONSUME_TIMES,
        properties::TRANSACTION_PREPARED,
        properties::REAL_TOPIC,
        properties::REAL_QUEUE_ID,
    ];
    let origin = message.property(properties::ORIGIN_MESSAGE_ID);
    let id = message.offset_message_id().to_string();
    let level = level.to_string();
    let topic = group.cluster.namespace().wrap(message.topic());
    let kept = message.properties().filter(|(name, _)| !REPLACED.contains(name));
    let added = [
        (properties::RETRY_TOPIC, &*topic),
        (properties::ORIGIN_MESSAGE_ID, origin.unwrap_or(&id)),
        (properties::DELAY, level.as_str()),
    ];
    let mut writer = PropertiesWriter::new();
    for (name, value) in kept.chain(added) {
        writer.push(name, value).map_err(|error| {
            Error::new(ErrorKind::Protocol, format!("message {id} has properties that cannot be sent again"))
                .with_source(error)
        })?;
    }
    Ok(writer.finish())
}
