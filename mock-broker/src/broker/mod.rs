//! The broker: decodes requests, acts on its tables and its store, and says how to answer.
//!
//! One file for each family of requests. Nothing here waits, sleeps, reads a clock or knows a socket: time comes as
//! an argument, and what has to happen outside is left in [`Broker::take_effects`].

mod admin;
mod client_calls;
mod client_requests;
mod clients;
mod consumer_offsets;
mod contents;
mod counters;
mod durability;
mod groups;
mod held_pulls;
mod lock_requests;
mod offset_requests;
mod pull;
mod queue_locks;
mod recall;
mod replication;
mod replies;
mod send;
mod send_back;
mod sql_filters;
mod stored_properties;
#[cfg(test)]
mod tests;
mod timer_requests;
mod topic_requests;
mod topics;
mod transaction_checks;
mod transactions;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use rand::SeedableRng;
use rand::rngs::SmallRng;
use rocketmq_wire::message::{StoredMessage, UniqueIdFactory, names};
use rocketmq_wire::model::{DataVersion, TopicConfig, TopicConfigTable, perm};
use rocketmq_wire::{DecodeError, RequestCode, ResponseCode};

use crate::clock::Now;
use crate::compatibility::Compatibility;
use crate::reply::{Command, ConnectionId, Effect, Outcome, Peer, Reply};
use crate::settings::Settings;
use crate::store::{Arrival, Retention, Store, StoreConfig, StoreError};
use admin::Surveys;
use client_calls::ClientCalls;
use clients::Clients;
use consumer_offsets::ConsumerOffsets;
use counters::{Counters, SAMPLE_INTERVAL};
use durability::Durability;
use groups::Groups;
use held_pulls::{HeldPulls, SCAN_INTERVAL};
use queue_locks::QueueLocks;
use replication::Replication;
pub(crate) use replication::{MasterAddresses, SlaveId};
use sql_filters::SqlFilters;
use topics::Topics;

/// How often silent clients are looked for.
const CLIENT_SCAN_INTERVAL: Duration = Duration::from_secs(10);

/// How often the progress of delayed messages is saved.
const SAVE_PROGRESS_INTERVAL: Duration = Duration::from_secs(10);

/// How often the index on disk catches up with what it lacks, and how soon again while it lacks much.
const INDEX_INTERVAL: Duration = Duration::from_secs(1);
const INDEX_SOON: Duration = Duration::from_millis(5);

/// How often old messages are looked for, in milliseconds of message time.
const CLEAN_INTERVAL_MS: i64 = 10_000;

/// What is said to a request that is not even looked at.
const REJECTED: &str = "[REJECTREQUEST]system busy, start flow control for a while";

/// Waits this long before messages that could not be dispatched are tried again.
const RETRY_DISPATCH: Duration = Duration::from_millis(100);

/// A broker, without its sockets and its clock.
#[derive(Debug)]
pub(crate) struct Broker {
    settings: Settings,
    compatibility: Compatibility,
    region: Arc<str>,
    /// What stored messages and their ids name as the broker's address.
    store_host: SocketAddr,
    store: Store,
    topics: Topics,
    groups: Groups,
    clients: Clients,
    calls: ClientCalls,
    surveys: Surveys,
    offsets: ConsumerOffsets,
    counters: Counters,
    locks: QueueLocks,
    held: HeldPulls,
    sql_filters: SqlFilters,
    durability: Durability,
    replication: Replication,
    effects: Vec<Effect>,
    random: SmallRng,
    unique_ids: UniqueIdFactory,
    unique_id_counter: u16,
    /// Property strings are built here, so that a send allocates none.
    scratch: Vec<u8>,
    next_hold_scan: Duration,
    next_client_scan: Duration,
    next_offset_save: Duration,
    next_progress_save: Duration,
    next_index: Duration,
    /// Message time at which old messages are looked for next, in milliseconds since 1970.
    next_clean_ms: i64,
    /// Message time of the next run over half messages, in milliseconds since 1970.
    next_transaction_check: i64,
    /// Which producer of a group is asked next.
    next_checked_producer: usize,
    /// Whether copies of half messages that the broker before left behind were looked for.
    knows_half_copies: bool,
    next_sample: Duration,
    /// When the broker was started, and where its log ended then.
    started: Now,
    log_end_at_start: u64,
    /// The state of the properties, as an administrator changed them.
    config_version: DataVersion,
    /// Set while messages wait for space in a queue.
    retry_dispatch_at: Option<Duration>,
    /// Set when something is due that was not before.
    timers_changed: bool,
    /// How many timed messages waited for which topic when that was last saved, and how often it was.
    saved_timer_counts: Option<(BTreeMap<String, i64>, i64)>,
}

impl Broker {
    /// Opens the store and loads the tables. `seed` decides what the broker leaves to chance.
    ///
    /// # Errors
    ///
    /// When the store cannot be opened or its settings cannot be read.
    pub(crate) fn open(settings: Settings, store_host: SocketAddr, now: Now, seed: u64) -> Result<Self, StoreError> {
        let config = store_config(&settings);
        let store = match &settings.store {
            Some(directory) => Store::open(directory, config)?,
            None => Store::memory(config),
        };
        let topics = Topics::load(store.config_file("topics.json"), &settings, now.message_ms)?;
        let groups = Groups::load(store.config_file("subscriptionGroup.json"), settings.auto_create_groups)?;
        let offsets = ConsumerOffsets::load(store.config_file("consumerOffset.json"))?;
        let dialect = settings.compatibility.sql_dialect();
        let sql_filters = SqlFilters::load(store.config_file("consumerFilter.json"), dialect, now.message_ms)?;
        Ok(Broker {
            compatibility: settings.compatibility,
            region: settings.region.as_str().into(),
            store_host,
            topics,
            groups,
            clients: Clients::default(),
            calls: ClientCalls::default(),
            surveys: Surveys::default(),
            offsets,
            counters: Counters::new(&store),
            locks: QueueLocks::default(),
            held: HeldPulls::default(),
            sql_filters,
            durability: Durability::new(&settings),
            replication: Replication::new(&settings),
            effects: Vec::new(),
            random: SmallRng::seed_from_u64(seed),
            unique_ids: UniqueIdFactory::new(store_host.ip(), std::process::id(), seed as i32, 0),
            unique_id_counter: 0,
            scratch: Vec::new(),
            next_hold_scan: now.session + SCAN_INTERVAL,
            next_client_scan: now.session + CLIENT_SCAN_INTERVAL,
            next_offset_save: now.session + Duration::from_millis(settings.save_offsets_every_ms),
            next_progress_save: now.session + SAVE_PROGRESS_INTERVAL,
            next_index: now.session + INDEX_SOON,
            next_clean_ms: now.message_ms + CLEAN_INTERVAL_MS,
            next_transaction_check: now.message_ms.saturating_add(settings.transaction_check_interval_ms()),
            next_checked_producer: 0,
            knows_half_copies: false,
            next_sample: now.session + SAMPLE_INTERVAL,
            started: now,
            log_end_at_start: store.max_physical_offset(),
            config_version: DataVersion { timestamp: now.message_ms, ..DataVersion::default() },
            retry_dispatch_at: None,
            timers_changed: false,
            saved_timer_counts: None,
            store,
            settings,
        })
    }

    /// Acts on a request and says how it is answered. Messages that were put can be read after [`settle`](Self::settle).
    pub(crate) fn handle<'a>(&mut self, now: Now, peer: &Peer, command: &'a Command<'a>) -> Outcome<'a> {
        if let Some(refused) = self.refuse_as_slave(command.code()).or_else(|| self.refuse_as_busy(command.code())) {
            return refused;
        }
        let outcome = match command.code() {
            RequestCode::SEND_MESSAGE_V2 | RequestCode::SEND_MESSAGE | RequestCode::SEND_BATCH_MESSAGE => {
                self.send(now, peer, command)
            }
            RequestCode::PULL_MESSAGE => self.pull(now, peer, command),
            RequestCode::LITE_PULL_MESSAGE if self.compatibility.has_lite_pull() => self.pull(now, peer, command),
            RequestCode::UPDATE_CONSUMER_OFFSET => self.update_consumer_offset(command),
            RequestCode::QUERY_CONSUMER_OFFSET => self.query_consumer_offset(command),
            RequestCode::GET_MAX_OFFSET => self.max_offset(command),
            RequestCode::GET_MIN_OFFSET => self.min_offset(command),
            RequestCode::SEARCH_OFFSET_BY_TIMESTAMP => self.search_offset(command),
            RequestCode::GET_EARLIEST_MSG_STORETIME => self.earliest_store_time(command),
            RequestCode::HEART_BEAT => self.heartbeat(now, peer, command),
            RequestCode::UNREGISTER_CLIENT => self.unregister_client(peer, command),
            RequestCode::GET_CONSUMER_LIST_BY_GROUP => self.consumer_list(command),
            RequestCode::CHECK_CLIENT_CONFIG => self.check_client(command),
            RequestCode::CONSUMER_SEND_MSG_BACK => self.send_back(now, command),
            RequestCode::RECALL_MESSAGE if self.compatibility.has_timer_messages() => self.recall(now, peer, command),
            RequestCode::GET_TIMER_CHECK_POINT if self.compatibility.has_timer_messages() => self.timer_checkpoint(),
            RequestCode::GET_TIMER_METRICS if self.compatibility.has_timer_messages() => self.timer_metrics(now),
            RequestCode::RESUME_CHECK_HALF_MESSAGE => self.resume_checks(now, command),
            RequestCode::END_TRANSACTION => self.end_transaction(now, command),
            RequestCode::SEND_REPLY_MESSAGE | RequestCode::SEND_REPLY_MESSAGE_V2
                if self.compatibility.has_request_reply() =>
            {
                self.send_reply(now, peer, command)
            }
            RequestCode::LOCK_BATCH_MQ => self.lock_queues(now, command),
            RequestCode::UNLOCK_BATCH_MQ => self.unlock_queues(command),
            RequestCode::UPDATE_AND_CREATE_TOPIC => self.create_topic(now, command),
            RequestCode::GET_TOPIC_CONFIG if self.compatibility.has_topic_config_request() => {
                self.topic_config(command)
            }
            code => match self.admin(now, peer, command) {
                Some(handled) => handled,
                None => {
                    tracing::warn!(%code, peer = %peer.address, "request to the broker that is not served");
                    if self.compatibility.broker_ignores(code) {
                        return Outcome::Silent;
                    }
                    Ok(Reply::not_supported(code).into())
                }
            },
        };
        let outcome = outcome.unwrap_or_else(|error: DecodeError| {
            tracing::warn!(code = %command.code(), peer = %peer.address, %error, "request that cannot be read");
            Reply::undecodable(&error).into()
        });
        match self.store.take_awaited() {
            None => outcome,
            Some(end) => self.answer_when_safe(now, peer, command, end, outcome),
        }
    }

    /// Makes what was put readable and answers the pulls that waited for it.
    pub(crate) fn settle(&mut self, now: Now) {
        if self.store.dispatch_behind() == 0 {
            return;
        }
        self.flush_for_waiting();
        self.dispatch(now);
        self.answer_woken(now);
    }

    fn dispatch(&mut self, now: Now) {
        let (held, timers_changed) = (&mut self.held, &mut self.timers_changed);
        let result = self.store.dispatch(&mut |arrival| {
            *timers_changed |= [names::SCHEDULE_TOPIC, names::HALF_TOPIC, names::TIMER_TOPIC].contains(&arrival.topic);
            held.message_arrived(&arrival);
        });
        self.retry_dispatch_at = result.err().map(|error| {
            tracing::error!(%error, "messages cannot be made readable yet");
            now.session + RETRY_DISPATCH
        });
        self.timers_changed |= self.retry_dispatch_at.is_some();
    }

    /// Does what is due: delivers delayed messages, answers pulls whose time is up, drops silent clients, saves.
    pub(crate) fn tick(&mut self, now: Now) {
        if self.retry_dispatch_at.is_some_and(|at| at <= now.session) {
            self.dispatch(now);
        }
        let held = &mut self.held;
        let mut arrived = |arrival: Arrival<'_>| {
            held.message_arrived(&arrival);
        };
        // A slave gets what was delivered with the master's log.
        if self.replication.writes() {
            let delivered = self.store.deliver_scheduled(now.message_ms, &mut arrived);
            let delivered = delivered.and_then(|_| self.store.deliver_timed(now.message_ms, &mut arrived));
            if let Err(error) = delivered {
                tracing::error!(%error, "delayed messages cannot be delivered yet");
            }
        }
        if self.next_transaction_check <= now.message_ms && !self.is_slave() {
            self.next_transaction_check = now.message_ms.saturating_add(self.settings.transaction_check_interval_ms());
            self.check_transactions(now);
        }
        self.give_up_questions(now);
        if self.next_hold_scan <= now.session {
            self.next_hold_scan = now.session + SCAN_INTERVAL;
            let store = &self.store;
            self.held.scan(now.session, |topic, queue_id| store.max_offset(topic, queue_id));
        }
        if self.next_client_scan <= now.session {
            self.next_client_scan = now.session + CLIENT_SCAN_INTERVAL;
            self.locks.expire(now.session);
            self.effects.extend(self.clients.silent(now.session).into_iter().map(Effect::Close));
        }
        if self.next_offset_save <= now.session {
            self.next_offset_save = now.session + Duration::from_millis(self.settings.save_offsets_every_ms);
            self.offsets.save();
        }
        if self.next_sample <= now.session {
            self.next_sample = now.session + SAMPLE_INTERVAL;
            self.counters.sample(now.session, &self.store);
        }
        if self.next_progress_save <= now.session {
            self.next_progress_save = now.session + SAVE_PROGRESS_INTERVAL;
            if let Err(error) = self.store.save_delivery_progress(now.message_ms) {
                tracing::error!(%error, "the progress of delayed messages could not be saved");
            }
            self.save_timer_metrics(now);
            self.save_filters(now);
        }
        // Also when the clock was set back: the next look is never further away than one interval.
        if self.next_clean_ms <= now.message_ms || self.next_clean_ms > now.message_ms + CLEAN_INTERVAL_MS {
            self.next_clean_ms = now.message_ms + CLEAN_INTERVAL_MS;
            self.store.clean(now.message_ms);
        }
        if self.next_index <= now.session {
            let before = self.store.index_behind();
            self.store.index_some();
            let behind = self.store.index_behind();
            // Without progress there is no space, which does not change within milliseconds.
            let soon = behind > 0 && behind < before;
            self.next_index = now.session + if soon { INDEX_SOON } else { INDEX_INTERVAL };
        }
        // Nobody waits for what was delivered.
        let _ = self.store.take_awaited();
        self.answer_safe(now);
        self.answer_woken(now);
    }

    /// When [`tick`](Self::tick) has to be called next for the sake of message time, in milliseconds since 1970.
    pub(crate) fn next_delivery(&self, now: Now) -> Option<i64> {
        let clean = self.store.is_cleaned().then_some(self.next_clean_ms);
        self.next_due(now).into_iter().chain(clean).min()
    }

    /// When the next message or check of half messages is due, in milliseconds since 1970.
    pub(crate) fn next_due(&self, now: Now) -> Option<i64> {
        let writes = self.replication.writes();
        let check = (writes && self.has_half_messages()).then_some(self.next_transaction_check);
        let delayed = self.store.next_delivery(now.message_ms).filter(|_| writes);
        check.into_iter().chain(delayed).min()
    }

    /// When [`tick`](Self::tick) has to be called next for the sake of session time.
    pub(crate) fn next_session_event(&self) -> Duration {
        let saves = self.next_offset_save.min(self.next_progress_save);
        let fixed = self.next_client_scan.min(saves).min(self.next_sample);
        let fixed = if self.store.index_behind() > 0 { fixed.min(self.next_index) } else { fixed };
        let fixed = self.durability.next_deadline().map_or(fixed, |deadline| fixed.min(deadline));
        let scan = if self.held.is_empty() { fixed } else { fixed.min(self.next_hold_scan) };
        let others = self.retry_dispatch_at.into_iter().chain(self.calls.next_deadline());
        others.fold(scan, Duration::min)
    }

    /// Takes whether something is due earlier than the last [`tick`](Self::tick) could know.
    #[inline]
    pub(crate) fn take_timers_changed(&mut self) -> bool {
        std::mem::take(&mut self.timers_changed)
    }

    /// Forgets a connection that was closed.
    pub(crate) fn connection_closed(&mut self, connection: ConnectionId) {
        self.held.remove_connection(connection);
        self.give_up_connection(connection);
        for group in self.clients.remove_connection(connection) {
            self.notify_members(&group);
        }
    }

    /// The id of the client at the other end of a connection, if it has sent a heartbeat.
    pub(crate) fn client_id(&self, connection: ConnectionId) -> Option<&str> {
        self.clients.client_id(connection)
    }

    /// Takes what has to happen outside.
    pub(crate) fn take_effects(&mut self) -> Vec<Effect> {
        std::mem::take(&mut self.effects)
    }

    /// Whether there is something to take.
    #[inline]
    pub(crate) fn has_effects(&self) -> bool {
        !self.effects.is_empty()
    }

    /// Whether topics changed that name servers were not told of.
    #[inline]
    pub(crate) fn has_unregistered_topics(&self) -> bool {
        self.topics.has_unregistered()
    }

    /// Takes the topics that changed.
    pub(crate) fn take_unregistered_topics(&mut self) -> Vec<TopicConfig> {
        let mut topics = self.topics.take_unregistered();
        topics.iter_mut().for_each(|config| self.limit_permission(config));
        topics
    }

    /// All topics, as they are registered: with no more permission than the broker has.
    pub(crate) fn topic_table(&self) -> TopicConfigTable {
        let mut table = self.topics.to_table();
        table.topic_config_table.values_mut().for_each(|config| self.limit_permission(config));
        table
    }

    fn limit_permission(&self, config: &mut TopicConfig) {
        const BOTH: i32 = perm::READ | perm::WRITE;
        if self.settings.permission & BOTH != BOTH {
            config.perm &= self.settings.permission;
        }
    }

    /// Every message of a topic that can be read, queue by queue.
    pub(crate) fn messages(&self, topic: &str) -> Vec<StoredMessage> {
        let mut messages = Vec::new();
        for queue_id in self.store.queue_ids(topic) {
            let (mut offset, end) = (self.store.min_offset(topic, queue_id), self.store.max_offset(topic, queue_id));
            while offset < end {
                let found = self.store.get(topic, queue_id, offset, usize::MAX, usize::MAX, &|_| true);
                messages
                    .extend(found.messages.into_iter().filter_map(|bytes| Some(StoredMessage::parse(bytes).ok()?.0)));
                if found.next_begin_offset <= offset {
                    break;
                }
                offset = found.next_begin_offset;
            }
        }
        messages
    }

    /// Creates or changes a topic.
    pub(crate) fn set_topic(&mut self, now: Now, topic: &str, queues: i32) {
        self.topics.set(topics::config(topic, queues, perm::READ | perm::WRITE), now.message_ms);
    }

    /// Saves everything and closes the store; pulls that wait are not answered.
    ///
    /// # Errors
    ///
    /// When something cannot be saved.
    pub(crate) fn close(mut self, now: Now) -> Result<(), StoreError> {
        self.topics.save();
        self.offsets.save();
        self.save_timer_metrics(now);
        self.save_filters(now);
        self.store.close(now.message_ms)
    }

    fn save_filters(&mut self, now: Now) {
        let clients = &self.clients;
        self.sql_filters.save(now.message_ms, |group| clients.consumer_group(group).is_some());
    }

    /// Has sends refused as if the machine were busy with its page cache. Nothing else makes it so: one thread puts, so no
    /// put ever finds another one in its way.
    pub(crate) fn set_page_cache_busy(&mut self, busy: bool) {
        self.store.set_page_cache_busy(busy);
    }

    /// The answer to a request that puts a message while the page cache is busy; none if it is served.
    fn refuse_as_busy<'a>(&self, code: RequestCode) -> Option<Outcome<'a>> {
        let puts = [
            RequestCode::SEND_MESSAGE,
            RequestCode::SEND_MESSAGE_V2,
            RequestCode::SEND_BATCH_MESSAGE,
            RequestCode::CONSUMER_SEND_MSG_BACK,
        ];
        let is_refused = self.store.is_page_cache_busy() && puts.contains(&code);
        is_refused.then(|| Reply::new(ResponseCode::SYSTEM_BUSY).remark(REJECTED).into())
    }

    /// Forgets who is connected, as a process does that ends; messages, topics, groups and offsets stay.
    pub(crate) fn forget_sessions(&mut self) {
        self.clients = Clients::default();
        self.calls = ClientCalls::default();
        self.surveys = Surveys::default();
        self.locks = QueueLocks::default();
        self.held = HeldPulls::default();
        self.durability = Durability::new(&self.settings);
        self.replication = Replication::new(&self.settings);
        self.effects.clear();
    }

    fn notify_members(&mut self, group: &str) {
        let settings_allow = self.settings.notify_members
            && self.groups.get(group).is_none_or(|config| config.notify_consumer_ids_changed_enable);
        let Some(online) = self.clients.consumer_group(group).filter(|_| settings_allow) else { return };
        if online.is_broadcasting() && !self.compatibility.notifies_broadcasting_groups() {
            return;
        }
        let members = online.connections().collect();
        self.effects.push(Effect::NotifyMembers { group: group.to_owned(), members });
    }
}

fn store_config(settings: &Settings) -> StoreConfig {
    let mut config = if settings.store.is_some() { StoreConfig::disk() } else { StoreConfig::memory() };
    config.max_message_size = settings.max_message_size;
    config.delay_levels = settings.delay_levels.clone();
    let kept = settings.reserved_hours.or(config.retention.reserved_hours);
    config.retention = Retention { reserved_hours: kept, ..settings.retention.clone() };
    config.flush_sync = settings.flush_sync;
    config.replicates_sync = settings.role == crate::settings::Role::SyncMaster;
    config.flush_least_pages = settings.flush_least_pages.unwrap_or(config.flush_least_pages);
    config.index_slots = settings.index_slots.unwrap_or(config.index_slots);
    config.index_entries = settings.index_entries.unwrap_or(config.index_entries);
    config.timers = settings.compatibility.has_timer_messages().then_some(settings.timers);
    config.overflow_restarts_at_zero = settings.compatibility.overflow_restarts_at_zero();
    if let Some(size) = settings.commit_log_file_size {
        config.commit_log_file_size = size;
    }
    config.queue_extensions = settings.queue_extensions;
    if let Some(size) = settings.queue_extension_file_size {
        config.queue_extension_file_size = size;
    }
    if let Some(size) = settings.consume_queue_file_size {
        config.consume_queue_file_entries = (size / 20).max(1);
    }
    if let Some(interval) = settings.flush_interval_ms {
        config.flush_interval_ms = interval;
    }
    config
}
