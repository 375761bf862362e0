//! What a request is about: the topics and groups that its sender needs permission for. Pure.

use rocketmq_wire::RequestCode;
use rocketmq_wire::fastjson;
use rocketmq_wire::message::names::RETRY_PREFIX;
use rocketmq_wire::model::HeartbeatData;

use super::accounts::Permission;

/// Whether a request is for administrators alone.
pub(super) fn needs_administrator(code: RequestCode) -> bool {
    matches!(
        code,
        RequestCode::UPDATE_AND_CREATE_TOPIC
            | RequestCode::UPDATE_BROKER_CONFIG
            | RequestCode::DELETE_TOPIC_IN_BROKER
            | RequestCode::UPDATE_AND_CREATE_SUBSCRIPTIONGROUP
            | RequestCode::DELETE_SUBSCRIPTIONGROUP
    )
}

/// The topics, and groups by the names of their retry topics, with what is to be done with each.
pub(super) fn of<'a>(
    code: RequestCode,
    value: &dyn Fn(&str) -> Option<&'a str>,
    body: &[u8],
) -> Vec<(String, Permission)> {
    let mut resources = Vec::new();
    let topic = |field: &str, permission| value(field).map(|name| (name.to_owned(), permission));
    let group = |field: &str| value(field).map(|name| (retry_topic(name), Permission::SUB));
    match code {
        RequestCode::SEND_MESSAGE | RequestCode::SEND_REPLY_MESSAGE => resources.extend(sent_to(value("topic"))),
        RequestCode::SEND_MESSAGE_V2 | RequestCode::SEND_BATCH_MESSAGE | RequestCode::SEND_REPLY_MESSAGE_V2 => {
            resources.extend(sent_to(value("b")));
        }
        RequestCode::CONSUMER_SEND_MSG_BACK => resources.extend(group("group")),
        RequestCode::PULL_MESSAGE | RequestCode::LITE_PULL_MESSAGE | RequestCode::UPDATE_CONSUMER_OFFSET => {
            resources.extend(topic("topic", Permission::SUB));
            resources.extend(group("consumerGroup"));
        }
        RequestCode::QUERY_MESSAGE => resources.extend(topic("topic", Permission::SUB)),
        RequestCode::UNREGISTER_CLIENT | RequestCode::GET_CONSUMER_LIST_BY_GROUP => {
            resources.extend(group("consumerGroup"));
        }
        RequestCode::HEART_BEAT => {
            // A body that cannot be read is refused by who serves the request.
            let heartbeat = fastjson::from_slice::<HeartbeatData>("heartbeat", body).unwrap_or_default();
            for consumer in &heartbeat.consumer_data_set {
                resources.push((retry_topic(&consumer.group_name), Permission::SUB));
                let topics = consumer.subscription_data_set.iter().map(|subscription| subscription.topic.clone());
                resources.extend(topics.map(|topic| (topic, Permission::SUB)));
            }
        }
        _ => {}
    }
    resources
}

fn retry_topic(group: &str) -> String {
    if group.starts_with(RETRY_PREFIX) { group.to_owned() } else { format!("{RETRY_PREFIX}{group}") }
}

/// A message to a retry topic comes from a consumer of the group.
fn sent_to(topic: Option<&str>) -> Option<(String, Permission)> {
    let topic = topic?;
    let needed = if topic.starts_with(RETRY_PREFIX) { Permission::SUB } else { Permission::PUB };
    Some((topic.to_owned(), needed))
}
