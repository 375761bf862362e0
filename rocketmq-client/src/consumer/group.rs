//! What the parts of one consumer share.

use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use rocketmq_wire::message::names;
use tokio::sync::watch;

use super::allocate::AllocateStrategy;
use super::delay_levels::DelayLevels;
use super::dispatch::Dispatch;
use super::flow_control::{Excess, Limits, TopicLimits};
use super::handler::Handlers;
use super::message_view::MessageView;
use super::offset_store::{BrokerOffsets, OffsetStore};
use super::order::Order;
use super::owned_queue::Content;
use super::push::UnfinishedQueue;
use super::rebalance::QueueChange;
use super::redelivery::Redelivery;
use super::reports::Reports;
use super::retry::Delay;
use super::settle::Settlements;
use super::start_offset::ConsumeFrom;
use super::subscription::{Subscription, Subscriptions};
use crate::cluster::Cluster;
use crate::env::Env;
use crate::message::MessageQueue;

type BeforeDeadLetter = dyn Fn(MessageView) -> BoxFuture<'static, ()> + Send + Sync;
type OnQueueChange = dyn Fn(&QueueChange) + Send + Sync;
type MessageFilter = dyn Fn(&MessageView) -> bool + Send + Sync;

/// Functions of the user's that are called beside the handler.
#[derive(Clone, Default)]
pub(super) struct Hooks {
    pub(super) before_dead_letter: Option<Arc<BeforeDeadLetter>>,
    pub(super) on_queue_change: Option<Arc<OnQueueChange>>,
    pub(super) filter: Option<Arc<MessageFilter>>,
}

impl std::fmt::Debug for Hooks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Hooks").finish_non_exhaustive()
    }
}

/// Settings of a push consumer. The defaults are those of the Java client 5.3.3 unless said otherwise.
#[derive(Debug, Clone)]
pub(super) struct Options {
    pub(super) concurrency: usize,
    pub(super) consume_from: ConsumeFrom,
    pub(super) strict_start: bool,
    pub(super) order: Order,
    pub(super) broadcasting: bool,
    pub(super) limits: Limits,
    pub(super) topic_limits: TopicLimits,
    /// Messages handed to a handler at once.
    pub(super) batch_size: usize,
    /// Messages asked for in one pull; brokers have a limit of their own, 32 by default.
    pub(super) pull_batch_size: i32,
    pub(super) pull_interval: Duration,
    /// Java: 16 for concurrent consumers, no limit for ordered ones.
    pub(super) max_reconsume_times: Option<i32>,
    pub(super) retry_schedule: Vec<Duration>,
    pub(super) delay_levels: DelayLevels,
    pub(super) suspend_time: Duration,
    pub(super) consume_timeout: Duration,
    pub(super) commit_interval: Duration,
    pub(super) max_body_bytes: usize,
    /// How long handlers that run may go on when their queue is given away or the consumer is shut down. Java: not at all.
    pub(super) drain_timeout: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            concurrency: 20,
            consume_from: ConsumeFrom::default(),
            strict_start: false,
            order: Order::Free,
            broadcasting: false,
            limits: Limits::default(),
            topic_limits: TopicLimits::default(),
            batch_size: 1,
            pull_batch_size: 32,
            pull_interval: Duration::ZERO,
            max_reconsume_times: None,
            retry_schedule: Vec::new(),
            delay_levels: DelayLevels::default(),
            suspend_time: Duration::from_secs(1),
            consume_timeout: Duration::from_secs(15 * 60),
            commit_interval: Duration::from_secs(5),
            max_body_bytes: 16 << 20,
            drain_timeout: Duration::from_secs(30),
        }
    }
}

impl Options {
    pub(super) fn is_broadcasting(&self) -> bool {
        self.broadcasting
    }

    /// Whether the broker has to lock a queue before its messages are handled.
    pub(super) fn needs_locks(&self) -> bool {
        self.order.is_ordered() && !self.broadcasting
    }

    pub(super) fn max_reconsume_times(&self) -> i32 {
        self.max_reconsume_times.unwrap_or(if self.order.is_ordered() { i32::MAX } else { 16 })
    }

    /// The delay after which a message comes again that has been delivered so often before and failed once more.
    pub(super) fn usual_delay(&self, times: u32) -> Delay {
        let index = usize::try_from(times).unwrap_or(usize::MAX);
        match self.retry_schedule.get(index).or(self.retry_schedule.last()) {
            Some(delay) => Delay::Level(self.delay_levels.level_for(*delay)),
            None => Delay::Usual,
        }
    }
}

/// One consumer, as its tasks see it.
#[derive(Debug)]
pub(super) struct Group {
    pub(super) name: Arc<str>,
    pub(super) retry_topic: Arc<str>,
    pub(super) cluster: Cluster,
    pub(super) options: Options,
    pub(super) hooks: Hooks,
    pub(super) subscriptions: watch::Sender<Arc<Subscriptions>>,
    pub(super) strategy: Arc<dyn AllocateStrategy>,
    pub(super) offsets: Arc<dyn OffsetStore>,
    /// Whether offsets are kept by brokers, which may then be told with a pull.
    pub(super) offsets_at_brokers: bool,
    pub(super) handlers: Handlers,
    pub(super) dispatch: Dispatch,
    pub(super) redelivery: Redelivery,
    pub(super) settlements: Settlements,
    pub(super) paused: watch::Sender<bool>,
    /// Counts requests for a rebalance that do not come from a broker.
    pub(super) rebalance_wanted: watch::Sender<u64>,
    pub(super) reports: Reports,
    pub(super) counters: Counters,
    /// In milliseconds since 1970.
    pub(super) started_ms: i64,
    /// Queues that were let go although handlers still worked on them.
    left: Mutex<Vec<UnfinishedQueue>>,
    /// The offsets that this consumer has stored last.
    stored: Mutex<BTreeMap<MessageQueue, i64>>,
}

/// What a consumer was made of.
pub(super) struct Parts {
    pub(super) name: Arc<str>,
    pub(super) cluster: Cluster,
    pub(super) options: Options,
    pub(super) hooks: Hooks,
    pub(super) subscriptions: Subscriptions,
    pub(super) strategy: Arc<dyn AllocateStrategy>,
    /// In place of the brokers.
    pub(super) offsets: Option<Arc<dyn OffsetStore>>,
    pub(super) handlers: Handlers,
}

impl Group {
    pub(super) fn new(parts: Parts) -> Self {
        let Parts { name, cluster, options, hooks, subscriptions, strategy, offsets, handlers } = parts;
        let offsets_at_brokers = offsets.is_none();
        let offsets = offsets
            .unwrap_or_else(|| Arc::new(BrokerOffsets { cluster: cluster.clone(), is_strict: options.strict_start }));
        Self {
            retry_topic: names::retry_topic(&name).into(),
            name,
            started_ms: cluster.env().wall_clock_ms(),
            cluster,
            options,
            hooks,
            subscriptions: watch::Sender::new(Arc::new(subscriptions)),
            strategy,
            offsets,
            offsets_at_brokers,
            handlers,
            dispatch: Dispatch::new(),
            redelivery: Redelivery::default(),
            settlements: Settlements::default(),
            paused: watch::Sender::new(false),
            rebalance_wanted: watch::Sender::new(0),
            reports: Reports::default(),
            counters: Counters::default(),
            left: Mutex::default(),
            stored: Mutex::default(),
        }
    }

    /// The offset that this consumer has stored last for a queue.
    pub(super) fn known_offset(&self, queue: &MessageQueue) -> Option<i64> {
        self.stored.lock().unwrap_or_else(PoisonError::into_inner).get(queue).copied()
    }

    pub(super) fn note_offset(&self, queue: &MessageQueue, offset: i64) {
        // An insertion cannot panic half way.
        self.stored.lock().unwrap_or_else(PoisonError::into_inner).insert(queue.clone(), offset);
    }

    pub(super) fn left_undone(&self, queue: &MessageQueue, content: Content) {
        tracing::warn!(group = &*self.name, %queue, running = content.running, "handlers did not end in time");
        let left = UnfinishedQueue { queue: queue.clone(), running: content.running, offset: content.committable };
        // A push cannot panic half way.
        self.left.lock().unwrap_or_else(PoisonError::into_inner).push(left);
    }

    /// Queues that were let go although handlers still worked on them, since this was asked last.
    pub(super) fn take_left(&self) -> Vec<UnfinishedQueue> {
        std::mem::take(&mut *self.left.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(super) fn env(&self) -> &Env {
        self.cluster.env()
    }

    /// The subscription to a topic, unless it was unsubscribed from.
    pub(super) fn subscription(&self, topic: &str) -> Option<Arc<Subscription>> {
        self.subscriptions.borrow().get(topic).cloned()
    }

    pub(super) fn want_rebalance(&self) {
        self.rebalance_wanted.send_modify(|count| *count += 1);
    }

    /// Tells the user of a message that is about to become a dead letter. A panic of the user's function is only logged.
    pub(super) async fn before_dead_letter(&self, message: &MessageView) {
        self.counters.dead_lettered.one();
        let Some(hook) = &self.hooks.before_dead_letter else { return };
        let Ok(message) = message.plain(self.options.max_body_bytes, self.env().wall_clock_ms()) else { return };
        if AssertUnwindSafe(async { hook(message).await }).catch_unwind().await.is_err() {
            tracing::error!(group = &*self.name, "the function that is called before a dead letter panicked");
        }
    }
}

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// What a consumer has done since it was started.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
        #[non_exhaustive]
        pub struct ConsumerStats {
            $($(#[$doc])* pub $name: u64,)*
        }

        #[derive(Debug, Default)]
        pub(super) struct Counters {
            $(pub(super) $name: Counter,)*
        }

        impl Counters {
            pub(super) fn read(&self) -> ConsumerStats {
                ConsumerStats { $($name: self.$name.0.load(Ordering::Relaxed),)* }
            }
        }
    };
}

counters! {
    /// Pulls that were answered, with or without messages.
    pulls,
    /// Pulls that failed.
    failed_pulls,
    /// Messages received and wanted.
    received,
    /// Messages that brokers sent although they are not wanted: tags whose hashes are the same, and what the consumer's own
    /// filter refused.
    filtered,
    /// Messages that could not be read and were passed over.
    unreadable,
    /// Messages that brokers sent again, or from outside of what was asked for; left out.
    repeated,
    /// Messages that handlers consumed.
    consumed,
    /// Times that a handler returned an error.
    failed,
    /// Times that a handler panicked.
    panicked,
    /// Messages handed back to a broker, to be delivered again or put among the dead letters.
    sent_back,
    /// Times that a message could not be handed back; it is then kept and handed to a handler again.
    failed_send_backs,
    /// Messages that were dropped because a broadcasting consumer's handler failed.
    dropped,
    /// Messages that are among the dead letters because of this consumer.
    dead_lettered,
    /// Messages whose handler did not end within the consume timeout, and that were handed back.
    given_up,
    /// Offsets stored.
    commits,
    /// Offsets that could not be stored; the next ones make up for them.
    failed_commits,
    /// Times that a queue was not pulled because too many of its messages were in memory.
    paused_by_messages,
    /// Times that a queue was not pulled because its messages took too much memory.
    paused_by_bytes,
    /// Times that a queue was not pulled because an old message was still in work.
    paused_by_span,
    /// Times that a broker moved this consumer to another offset, because the one asked for does not exist or an
    /// administrator reset it.
    offset_corrections,
    /// Times that queues were shared out.
    rebalances,
    /// Queues taken over.
    queues_taken,
    /// Queues given away.
    queues_released,
}

/// A number that only grows.
#[derive(Debug, Default)]
pub(super) struct Counter(AtomicU64);

impl Counter {
    pub(super) fn add(&self, count: usize) {
        self.0.fetch_add(count as u64, Ordering::Relaxed);
    }

    pub(super) fn one(&self) {
        self.add(1);
    }
}

impl Counters {
    pub(super) fn count_pause(&self, excess: Excess) {
        match excess {
            Excess::Messages => self.paused_by_messages.one(),
            Excess::Bytes => self.paused_by_bytes.one(),
            Excess::Span => self.paused_by_span.one(),
        }
    }
}
