//! Settings of a pull consumer.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rocketmq_wire::model::{ConsumerData, consume_from, consume_type, model};
use tokio::sync::{Notify, watch};

use super::{PullConsumer, QueueReader, Shared, State, balance};
use crate::cluster::Cluster;
use crate::consumer::allocate::{AllocateStrategy, Average};
use crate::consumer::start_offset::ConsumeFrom;
use crate::consumer::subscription::{self, FilterExpression, Subscription};
use crate::error::{Error, ErrorKind, Result};
use crate::message::MessageQueue;

/// Settings that the parts of a consumer share.
#[derive(Debug, Clone)]
pub(super) struct Options {
    pub(super) consume_from: ConsumeFrom,
    pub(super) auto_commit: bool,
    pub(super) commit_interval: Duration,
    pub(super) pull_batch_size: u32,
    pub(super) max_poll_messages: usize,
    pub(super) max_cached_messages: usize,
}

/// Settings of a [`PullConsumer`]; [`start`](Self::start) makes it.
#[derive(Debug, Clone)]
#[must_use = "`start` makes the consumer"]
pub struct PullConsumerBuilder {
    cluster: Cluster,
    group: String,
    subscriptions: Vec<(String, FilterExpression)>,
    assigned: Vec<MessageQueue>,
    strategy: Arc<dyn AllocateStrategy>,
    options: Options,
}

impl PullConsumerBuilder {
    pub(crate) fn new(cluster: Cluster, group: String) -> Self {
        Self {
            cluster,
            group,
            subscriptions: Vec::new(),
            assigned: Vec::new(),
            strategy: Arc::new(Average),
            options: Options {
                consume_from: ConsumeFrom::default(),
                auto_commit: true,
                commit_interval: Duration::from_secs(5),
                pull_batch_size: 32,
                max_poll_messages: 32,
                max_cached_messages: 1000,
            },
        }
    }

    /// Subscribes to a topic: `"*"` for all its messages, tags joined by `||`, or a
    /// [condition](FilterExpression::sql92). The members of the group share its queues.
    pub fn subscribe(mut self, topic: impl Into<String>, filter: impl Into<FilterExpression>) -> Self {
        self.subscriptions.push((topic.into(), filter.into()));
        self
    }

    /// Reads these queues, whole, whoever else reads them. Excludes [`subscribe`](Self::subscribe).
    pub fn assign(mut self, queues: impl IntoIterator<Item = MessageQueue>) -> Self {
        self.assigned.extend(queues);
        self
    }

    /// Sets where the group begins in queues that it has no offset for: [`ConsumeFrom::Last`] by default.
    pub fn consume_from(mut self, from: ConsumeFrom) -> Self {
        self.options.consume_from = from;
        self
    }

    /// Sets whether what earlier polls returned is committed by itself; true by default. Without it, only
    /// [`commit`](PullConsumer::commit) and its like do.
    pub fn auto_commit(mut self, auto_commit: bool) -> Self {
        self.options.auto_commit = auto_commit;
        self
    }

    /// Sets how often offsets are committed by themselves; 5 s by default.
    pub fn commit_interval(mut self, interval: Duration) -> Self {
        self.options.commit_interval = interval;
        self
    }

    /// Sets how many messages are asked for in one pull; 32 by default, from 1 to 1,024. Brokers have a limit of their own,
    /// 32 unless configured otherwise.
    pub fn pull_batch_size(mut self, messages: u32) -> Self {
        self.options.pull_batch_size = messages;
        self
    }

    /// Sets how many messages one poll returns at most; 32 by default, at least 1.
    pub fn max_poll_messages(mut self, messages: usize) -> Self {
        self.options.max_poll_messages = messages;
        self
    }

    /// Sets how many messages of one queue may lie ready; 1,000 by default, at least 1. At most one batch more does.
    pub fn max_cached_messages(mut self, messages: usize) -> Self {
        self.options.max_cached_messages = messages;
        self
    }

    /// Sets how members share queues: [`Average`] by default. All members must use the same.
    pub fn strategy(mut self, strategy: impl AllocateStrategy + 'static) -> Self {
        self.strategy = Arc::new(strategy);
        self
    }

    /// Starts the consumer: joins the group if it subscribes, and begins to keep messages ready.
    ///
    /// A topic that does not exist yet is read as soon as it does. Dropping the future leaves the group again.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidArgument`] for a name, filter or setting that makes no sense, with both subscriptions and assigned
    /// queues or with neither, and when this client already has a consumer of the group.
    pub async fn start(self) -> Result<PullConsumer> {
        const OPERATION: &str = "start the consumer";
        self.check().map_err(|error| error.with_operation(OPERATION))?;
        let Self { cluster, group, subscriptions, assigned, strategy, options } = self;
        let env = cluster.env().clone();
        let version = env.wall_clock_ms();
        let subscriptions: BTreeMap<Arc<str>, Arc<Subscription>> = if subscriptions.is_empty() {
            let topics: BTreeSet<&str> = assigned.iter().map(MessageQueue::topic).collect();
            let whole = |topic: &str| {
                let all = subscription::subscription(&group, topic, &FilterExpression::all(), version)?;
                Ok((Arc::clone(&all.topic), Arc::new(all)))
            };
            topics.into_iter().map(whole).collect::<Result<_>>()?
        } else {
            subscription::subscriptions(&group, &subscriptions, false, version)?
        };
        let is_balanced = assigned.is_empty();
        let shared = Arc::new(Shared {
            reader: QueueReader::new(cluster.clone(), group.clone()),
            options,
            subscriptions,
            state: Mutex::new(State::default()),
            arrived: Notify::new(),
        });
        let (stop, stopped) = watch::channel(false);
        let balance = if is_balanced {
            let data = consumer_data(&shared, &group);
            balance::look_up_topics(&shared).await.map_err(|error| error.with_operation(OPERATION))?;
            let membership = cluster.groups().join_as_consumer(data)?;
            cluster.groups().tell_brokers().await;
            let balance = balance::Balance { shared: Arc::clone(&shared), strategy, membership };
            Some(env.spawn(balance.run(stopped.clone())))
        } else {
            let wanted = assigned.into_iter().collect();
            balance::apply(&shared, |_| true, &wanted, Duration::ZERO).await;
            None
        };
        let committer = env.spawn(balance::commit_regularly(Arc::clone(&shared), stopped));
        Ok(PullConsumer { shared, balance: Mutex::new(balance), committer: Mutex::new(Some(committer)), stop })
    }

    fn check(&self) -> Result<()> {
        let Options { commit_interval, pull_batch_size, max_poll_messages, max_cached_messages, .. } = &self.options;
        let day = Duration::from_secs(24 * 3600);
        for (is_valid, rule) in [
            (
                self.subscriptions.is_empty() != self.assigned.is_empty(),
                "a pull consumer either subscribes to topics or is assigned queues: call `subscribe` or `assign`",
            ),
            ((1..=1024).contains(pull_batch_size), "`pull_batch_size` is from 1 to 1,024"),
            (*max_poll_messages > 0, "`max_poll_messages` is at least 1"),
            (*max_cached_messages > 0, "`max_cached_messages` is at least 1"),
            (
                !commit_interval.is_zero() && *commit_interval <= day,
                "`commit_interval` is more than nothing and at most a day",
            ),
        ] {
            if !is_valid {
                return Err(Error::new(ErrorKind::InvalidArgument, rule));
            }
        }
        rocketmq_wire::message::names::check_group(&self.group).map_err(|error| {
            let group = self.group.escape_debug();
            Error::new(ErrorKind::InvalidArgument, format!("the consumer group `{group}` is not valid: {error}"))
        })
    }
}

/// What heartbeats say of the consumer: as Java's lite pull consumer does, whatever it begins with.
fn consumer_data(shared: &Shared, group: &str) -> ConsumerData {
    ConsumerData {
        group_name: group.to_owned(),
        consume_type: consume_type::ACTIVELY.to_owned(),
        message_model: model::CLUSTERING.to_owned(),
        consume_from_where: consume_from::LAST_OFFSET.to_owned(),
        subscription_data_set: shared.subscriptions.values().map(|subscription| subscription.to_data()).collect(),
        unit_mode: false,
    }
}
