//! What the parts of one consumer share.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::dispatch::Dispatch;
use super::flow_control::{Excess, Limits};
use super::retry::Redelivery;
use super::start_offset::ConsumeFrom;
use super::subscription::Subscription;
use crate::cluster::Cluster;
use crate::env::Env;

/// Settings of a push consumer. The defaults are those of the Java client 5.3.3 unless said otherwise.
#[derive(Debug, Clone)]
pub(super) struct Options {
    pub(super) concurrency: usize,
    pub(super) consume_from: ConsumeFrom,
    pub(super) limits: Limits,
    /// Messages asked for in one pull; brokers have a limit of their own, 32 by default.
    pub(super) pull_batch_size: i32,
    pub(super) max_reconsume_times: i32,
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
            limits: Limits::default(),
            pull_batch_size: 32,
            max_reconsume_times: 16,
            commit_interval: Duration::from_secs(5),
            max_body_bytes: 16 << 20,
            drain_timeout: Duration::from_secs(30),
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
    pub(super) subscriptions: BTreeMap<Arc<str>, Arc<Subscription>>,
    pub(super) dispatch: Dispatch,
    pub(super) redelivery: Redelivery,
    pub(super) counters: Counters,
}

impl Group {
    pub(super) fn env(&self) -> &Env {
        self.cluster.env()
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
    /// Messages that brokers sent although their tag is not subscribed to: tags whose hashes are the same.
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
    /// Offsets stored at brokers.
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
