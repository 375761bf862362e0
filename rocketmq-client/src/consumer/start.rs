//! From settings to a consumer that runs.

use std::sync::Arc;
use std::time::Instant;

use futures_util::future::join_all;
use rocketmq_wire::model::{ConsumerData, consume_from, consume_type, model};
use rocketmq_wire::{ResponseCode, filter};
use tokio::sync::watch;

use super::concurrent::Workers;
use super::group::{Group, Options, Parts};
use super::rebalance::Rebalance;
use super::redelivery::Redelivery;
use super::settle::Settlements;
use super::start_offset::ConsumeFrom;
use super::subscription::{Subscription, Subscriptions};
use super::{requests, sweep};
use crate::cluster::{Broker, Cluster, MASTER_ID, consume};
use crate::env::Task;
use crate::error::{Error, ErrorKind, Result};

/// A consumer that runs, in parts.
pub(super) struct Started {
    pub(super) group: Arc<Group>,
    pub(super) workers: Arc<Workers>,
    pub(super) rebalance: Task,
    pub(super) background: Vec<Task>,
    pub(super) stop: watch::Sender<Option<Instant>>,
}

/// Looks up the topics, has filters checked, joins the group, and starts the tasks; with so many handlers, none for a
/// stream.
///
/// Dropping the future leaves the group again.
pub(super) async fn start(parts: Parts, handlers: usize) -> Result<Started> {
    let cluster = parts.cluster.clone();
    let name = |error: Error| error.with_operation("start the consumer");
    look_up_topics(&cluster, &parts.name, parts.subscriptions.keys()).await.map_err(name)?;
    for subscription in parts.subscriptions.values() {
        check_at_broker(&cluster, &parts.name, subscription).await.map_err(name)?;
    }
    let data = consumer_data(&parts.name, &parts.options, &parts.subscriptions);
    let mut membership = cluster.groups().join_as_consumer(data)?;
    let incoming = membership.take_requests();
    let group = Arc::new(Group::new(parts));
    // A broker answers pulls only of those that it knows.
    cluster.groups().tell_brokers().await;

    let env = cluster.env();
    let (stop, stopped) = watch::channel(None);
    let rebalance = env.spawn(Rebalance::new(Arc::clone(&group)).run(membership, stopped));
    let workers = Arc::new(Workers::start(&group, handlers));
    let mut background =
        vec![env.spawn(Redelivery::run(Arc::clone(&group))), env.spawn(Settlements::run(Arc::clone(&group)))];
    if !group.options.order.is_ordered() && !group.options.is_broadcasting() {
        background.push(env.spawn(sweep::run(Arc::clone(&group))));
    }
    if let Some(incoming) = incoming {
        background.push(env.spawn(requests::serve(Arc::clone(&group), Arc::clone(&workers), incoming)));
    }
    Ok(Started { group, workers, rebalance, background, stop })
}

/// What heartbeats say of a consumer.
pub(super) fn consumer_data(group: &str, options: &Options, subscriptions: &Subscriptions) -> ConsumerData {
    let from = match options.consume_from {
        ConsumeFrom::Last => consume_from::LAST_OFFSET,
        ConsumeFrom::First => consume_from::FIRST_OFFSET,
        ConsumeFrom::Timestamp(_) => consume_from::TIMESTAMP,
    };
    let model = if options.is_broadcasting() { model::BROADCASTING } else { model::CLUSTERING };
    ConsumerData {
        group_name: group.to_owned(),
        consume_type: consume_type::PASSIVELY.to_owned(),
        message_model: model.to_owned(),
        consume_from_where: from.to_owned(),
        subscription_data_set: subscriptions.values().map(|subscription| subscription.to_data()).collect(),
        unit_mode: false,
    }
}

/// Learns which brokers the topics are on, so that they can be told of the consumer. A topic that does not exist will be
/// looked up again.
pub(super) async fn look_up_topics<'a>(
    cluster: &Cluster,
    group: &str,
    topics: impl IntoIterator<Item = &'a Arc<str>>,
) -> Result<()> {
    let routes = cluster.routes();
    let deadline = cluster.env().now() + cluster.config().request_timeout;
    let look_up = |name: &'a Arc<str>| {
        let topic = routes.topic(name);
        async move { (name, routes.look_up(&topic, deadline).await) }
    };
    for (name, known) in join_all(topics.into_iter().map(look_up)).await {
        let known = known?;
        match (known.route, known.failure) {
            (Some(_), _) | (None, None) => {}
            (None, Some(failure)) if failure.kind() == ErrorKind::NoRoute => {
                tracing::debug!(group, topic = &**name, "a subscribed topic does not exist yet");
            }
            (None, Some(failure)) => return Err(failure),
        }
    }
    Ok(())
}

/// Has one of the topic's brokers check a filter that is not by tags, so that one that it cannot work with is found now.
/// A topic that does not exist yet is not checked: its broker refuses pulls then.
pub(super) async fn check_at_broker(cluster: &Cluster, group: &str, subscription: &Subscription) -> Result<()> {
    if subscription.kind() == filter::TAG {
        return Ok(());
    }
    let topic = cluster.routes().topic(&subscription.topic);
    let Some(route) = topic.known().route.clone() else { return Ok(()) };
    let brokers: Vec<_> = route.brokers().filter_map(|broker: &Broker| broker.reading_from(MASTER_ID)).collect();
    let Some((_, address)) = brokers.get(cluster.env().random_below(brokers.len())) else { return Ok(()) };
    let deadline = cluster.env().now() + cluster.config().request_timeout;
    let peer = cluster.peer(address);
    let mut data = subscription.to_data();
    data.topic = cluster.namespace().wrap(&data.topic).into_owned();
    let group = cluster.namespace().wrap(group);
    let checked = consume::check_subscription(&peer, cluster.client_id(), &group, data, deadline).await;
    checked.map_err(|error| {
        if error.response_code() != Some(ResponseCode::SYSTEM_ERROR.0) {
            return error;
        }
        let message = format!(
            "the broker does not take the condition `{}` for topic `{}`: set `enablePropertyFilter=true` in its \
             configuration if it does not filter by properties",
            subscription.text(),
            subscription.topic
        );
        Error::new(ErrorKind::Unsupported, message).with_operation("check the subscription").with_source(error)
    })
}

pub(super) fn check_concurrency(handlers: usize) -> Result<()> {
    if (1..=10_000).contains(&handlers) {
        return Ok(());
    }
    Err(Error::new(ErrorKind::InvalidArgument, "`concurrency` is from 1 to 10,000")
        .with_operation("set the concurrency"))
}

/// The group's retry topic has no business with broadcasting: nothing is handed back.
pub(super) fn has_retry_topic(options: &Options) -> bool {
    !options.is_broadcasting()
}
