//! The task of one queue: it begins, pulls, commits, and lets go.

use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rocketmq_wire::ResponseCode;
use rocketmq_wire::request::pull::{PullMessageRequest, pull_flag};
use tokio::sync::watch;

use super::flow_control::Limits;
use super::group::Group;
use super::lock;
use super::message_view::Origin;
use super::offset_store::unknown_broker;
use super::owned_queue::OwnedQueue;
use super::queue_offset::QueueOffset;
use super::received;
use crate::backoff::Backoff;
use crate::cluster::consume::{self, PullStatus, Pulled};
use crate::cluster::{MASTER_ID, Topic};
use crate::error::{Error, ErrorKind, Result};
use crate::message::MessageQueue;

/// How long a broker may hold a pull that finds nothing, and how long its answer may take: Java's constants.
const SUSPEND: Duration = Duration::from_secs(15);
const PULL_TIMEOUT: Duration = Duration::from_secs(30);

/// The most body bytes asked for in one pull: what Java 5 asks for. Older brokers do not read it.
const BATCH_BYTES: i32 = 256 * 1024;

/// Waits after pulls that failed: soon again at first, as the broker may just have been restarted, then Java's 3 s.
const FIRST_RETRY: Duration = Duration::from_millis(200);
const LONGEST_RETRY: Duration = Duration::from_secs(3);

/// The wait after a broker's own flow control (response code 215).
const BROKER_FLOW_CONTROL: Duration = Duration::from_millis(20);

/// The wait while another member has the lock of the queue: Java's constant.
const UNLOCKED: Duration = Duration::from_secs(1);

/// Waits after answers that bring nothing, lead nowhere and were not held: a broker without long polling.
const FIRST_IDLE: Duration = Duration::from_millis(20);
const LONGEST_IDLE: Duration = Duration::from_secs(1);

/// How long to wait before a move backwards is believed: a broker that is just loading its queues says it too.
const CONFIRMATION: Duration = Duration::from_secs(1);

/// A queue from the moment it is this consumer's until it is let go.
pub(super) struct QueueWorker {
    pub(super) group: Arc<Group>,
    pub(super) topic: Arc<Topic>,
    pub(super) queue: MessageQueue,
    pub(super) limits: Limits,
    /// How long the last owner gets to commit.
    pub(super) delay: Duration,
    /// Holds the time by which handlers must have ended, once the queue is to be let go.
    pub(super) stop: watch::Receiver<Option<Instant>>,
}

/// What pulling has come to know, beside what lies in the queue.
struct Progress {
    failures: Backoff,
    idle: Backoff,
    /// The replica that the broker wants to be asked.
    replica: i64,
    /// Where an unconfirmed move backwards leads.
    going_back: bool,
}

impl QueueWorker {
    /// Works until told to stop; then stores the offset, lets running handlers end in time, stores it again and gives the
    /// lock back.
    ///
    /// Dropping the future lets the queue go as it is: what is not committed will be delivered again.
    pub(super) async fn run(self) {
        let _reported = ReportReleased(&self.group, &self.queue);
        let Some((offset, position, locked_until)) = self.until_stopped(self.begin()).await else {
            if self.group.options.needs_locks() {
                // It may have been given meanwhile.
                lock::unlock(&self.group, &self.queue).await;
            }
            return;
        };
        let is_own_retry_topic = self.queue.topic() == &*self.group.retry_topic;
        let namespace = self.group.cluster.namespace().clone();
        let origin = Arc::new(Origin::new(self.queue.clone(), is_own_retry_topic, namespace));
        let options = &self.group.options;
        let queue = OwnedQueue::new(origin, self.limits, position, options.order.clone(), options.needs_locks());
        let queue = Arc::new(queue);
        if let Some(until) = locked_until {
            queue.lock_until(until, self.group.env().wall_clock_ms());
        }
        queue.pause(*self.group.paused.borrow());
        let released = ReleaseOnDrop(Arc::clone(&queue));
        self.group.reports.begun(&self.queue, &queue);
        // Requests about the offset of one queue must not overtake each other.
        let offset = tokio::sync::Mutex::new(offset);

        // The commit under way is awaited, not cut short.
        tokio::join!(
            self.until_stopped(self.pull_all(&queue)),
            self.commit_regularly(&queue, &offset),
            self.until_stopped(self.keep_locked(&queue, &offset)),
        );

        queue.stop();
        let env = self.group.env();
        let deadline = self.stop.borrow().unwrap_or_else(|| env.now());
        // The next owner asks for it as soon as it may.
        self.commit(&queue, &offset, false).await;
        let ended = env.within(deadline, queue.idle()).await.is_some();
        if !ended {
            self.group.left_undone(&self.queue, queue.content());
        }
        let is_locked = queue.is_locked(env.now());
        let committable = queue.committable();
        drop(released);
        if is_locked {
            offset.lock().await.commit(committable, false).await;
        }
        // A handler that still runs is protected as long as the lock lasts.
        if options.needs_locks() && ended && is_locked {
            lock::unlock(&self.group, &self.queue).await;
        }
    }

    async fn until_stopped<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        let mut stop = self.stop.clone();
        tokio::select! {
            biased;
            () = told_to_stop(&mut stop) => None,
            output = work => Some(output),
        }
    }

    /// Finds out where to begin, however often it takes, and gets the lock if there must be one.
    async fn begin(&self) -> (QueueOffset, i64, Option<Instant>) {
        let env = self.group.env();
        env.sleep(self.delay).await;
        let locked_until = if self.group.options.needs_locks() { Some(self.get_lock().await) } else { None };
        let mut failures = Backoff::new(FIRST_RETRY, LONGEST_RETRY);
        loop {
            match QueueOffset::open(&self.group, &self.queue).await {
                Ok((offset, position)) => return (offset, position, locked_until),
                Err(error) => {
                    self.report(&error, "it is not known yet where a queue begins");
                    let why = format!("it is not known yet where it begins: {error}");
                    self.group.reports.not_begun(env, &self.queue, &why);
                    env.sleep(failures.next(env.random())).await;
                }
            }
        }
    }

    /// Asks for the lock until the broker gives it. Returns until when it lasts.
    async fn get_lock(&self) -> Instant {
        let env = self.group.env();
        let mut failures = Backoff::new(FIRST_RETRY, LONGEST_RETRY);
        loop {
            let asked_at = env.now();
            let (wait, why) = match lock::lock(&self.group, &self.queue).await {
                Ok(true) => return asked_at + lock::EXPIRES_AFTER,
                Ok(false) => (lock::ASK_AGAIN, "another member still has the lock of the queue".to_owned()),
                Err(error) => {
                    self.report(&error, "a queue could not be locked");
                    (failures.next(env.random()), format!("the queue could not be locked: {error}"))
                }
            };
            self.group.reports.not_begun(env, &self.queue, &why);
            env.sleep(wait).await;
        }
    }

    /// Renews the lock. When it was lost or has expired, another member may have gone on meanwhile: then the offset is
    /// asked for again, and what is in memory is forgotten.
    async fn keep_locked(&self, queue: &Arc<OwnedQueue>, offset: &tokio::sync::Mutex<QueueOffset>) {
        if !self.group.options.needs_locks() {
            return;
        }
        let env = self.group.env();
        let mut wait = lock::RENEW_EVERY;
        loop {
            env.sleep(wait).await;
            let asked_at = env.now();
            let was_locked = queue.is_locked(asked_at);
            wait = match lock::lock(&self.group, &self.queue).await {
                Ok(true) => {
                    if !was_locked {
                        match offset.lock().await.reopen().await {
                            // What was done here is done, even if it could not be stored in time.
                            Ok(position) => queue.jump_to(position.max(queue.committable())),
                            Err(error) => {
                                self.report(&error, "it is not known where a queue that was lost goes on");
                                wait = lock::ASK_AGAIN;
                                continue;
                            }
                        }
                    }
                    if queue.lock_until(asked_at + lock::EXPIRES_AFTER, env.wall_clock_ms()) {
                        self.group.dispatch.list(Arc::clone(queue));
                    }
                    lock::RENEW_EVERY
                }
                Ok(false) => {
                    if was_locked {
                        tracing::warn!(group = &*self.group.name, queue = %self.queue, "the lock of a queue was lost");
                        queue.note_trouble(env, "the broker gave the lock of the queue to another member");
                    }
                    queue.lose_lock();
                    lock::ASK_AGAIN
                }
                Err(error) => {
                    self.report(&error, "the lock of a queue could not be renewed");
                    queue.note_trouble(env, &format!("the lock of the queue could not be renewed: {error}"));
                    UNLOCKED
                }
            };
        }
    }

    async fn commit_regularly(&self, queue: &OwnedQueue, offset: &tokio::sync::Mutex<QueueOffset>) {
        let group = &self.group;
        loop {
            let due = async {
                tokio::select! {
                    () = group.env().sleep(group.options.commit_interval) => true,
                    () = queue.commit_wanted() => false,
                }
            };
            let Some(is_regular) = self.until_stopped(due).await else { return };
            self.commit(queue, offset, is_regular).await;
        }
    }

    async fn commit(&self, queue: &OwnedQueue, offset: &tokio::sync::Mutex<QueueOffset>, is_regular: bool) {
        let mut offset = offset.lock().await;
        // Without the lock it may be another member's turn to say how far all is done.
        if queue.is_locked(self.group.env().now()) {
            offset.commit(queue.committable(), is_regular).await;
        }
    }

    /// Keeps one pull under way while there is room.
    async fn pull_all(&self, queue: &Arc<OwnedQueue>) {
        let env = self.group.env();
        let mut progress = Progress {
            failures: Backoff::new(FIRST_RETRY, LONGEST_RETRY),
            idle: Backoff::new(FIRST_IDLE, LONGEST_IDLE),
            replica: MASTER_ID,
            going_back: false,
        };
        loop {
            queue.room(|excess| self.group.counters.count_pause(excess)).await;
            if !queue.is_locked(env.now()) {
                env.sleep(UNLOCKED).await;
                continue;
            }
            let position = queue.position();
            let asked_at = env.now();
            queue.note_pull(env);
            let answer = tokio::select! {
                biased;
                answer = self.pull(queue, position, &progress) => answer,
                // What the broker may still answer is about another place.
                () = queue.moved() => continue,
            };
            let wait = match answer {
                Ok(_) if queue.position() != position => continue,
                Ok(pulled) => {
                    self.group.counters.pulls.one();
                    progress.replica = pulled.header.suggest_which_broker_id;
                    match self.take_in(queue, position, asked_at, pulled, &mut progress) {
                        Ok(wait) => {
                            progress.failures.reset();
                            let was_held = env.now() - asked_at >= LONGEST_IDLE;
                            if queue.position() != position || was_held {
                                progress.idle.reset();
                                let interval = self.group.options.pull_interval;
                                wait.or_else(|| (!interval.is_zero()).then_some(interval))
                            } else {
                                // Neither held nor anything to go on with.
                                wait.or_else(|| Some(progress.idle.next(env.random())))
                            }
                        }
                        Err(error) => Some(self.fail(queue, &error, &mut progress)),
                    }
                }
                Err(error) if error.kind() == ErrorKind::Closed => return,
                Err(error) => {
                    let wait = self.fail(queue, &error, &mut progress);
                    if is_unknown_subscription(&error) {
                        // The broker has restarted, or the heartbeat has not reached it.
                        self.group.cluster.groups().tell_brokers().await;
                    }
                    Some(wait)
                }
            };
            if let Some(wait) = wait {
                env.sleep(wait).await;
            }
        }
    }

    async fn pull(&self, queue: &OwnedQueue, position: i64, progress: &Progress) -> Result<Pulled> {
        let group = &self.group;
        let subscription = group.subscription(self.queue.topic()).ok_or_else(|| {
            let message = format!("the topic of {} was unsubscribed from", self.queue);
            Error::new(ErrorKind::NotFound, message).with_operation("pull")
        })?;
        let replica = group.cluster.replica(self.queue.broker(), progress.replica);
        let (broker_id, peer) = replica.ok_or_else(|| unknown_broker(&self.queue))?;
        let commit_offset = queue.committable();
        let mut sys_flag = pull_flag::SUSPEND;
        // Slaves keep no offsets, and 0 is what a broker has before it is told anything.
        if broker_id == MASTER_ID && commit_offset > 0 && group.offsets_at_brokers {
            sys_flag |= pull_flag::COMMIT_OFFSET;
        }
        let request = PullMessageRequest {
            consumer_group: (&*group.name).into(),
            topic: self.queue.topic().into(),
            queue_id: self.queue.id(),
            queue_offset: position,
            max_message_count: group.options.pull_batch_size,
            sys_flag,
            commit_offset: if sys_flag & pull_flag::COMMIT_OFFSET == 0 { 0 } else { commit_offset },
            suspend_timeout_millis: SUSPEND.as_millis() as i64,
            subscription: None,
            sub_version: subscription.version,
            expression_type: Some(subscription.kind().into()),
            max_message_bytes: Some(BATCH_BYTES),
            request_source: None,
            proxy_forward_client_id: None,
            broker_name: Some(self.queue.broker().into()),
        };
        consume::pull(&peer, &request, group.env().now() + PULL_TIMEOUT).await
    }

    /// Does what an answer says. Returns how long to wait before the next pull, if at all.
    fn take_in(
        &self,
        queue: &Arc<OwnedQueue>,
        position: i64,
        asked_at: Instant,
        pulled: Pulled,
        progress: &mut Progress,
    ) -> Result<Option<Duration>> {
        let next = pulled.header.next_begin_offset;
        if next < 0 {
            let message = format!("the broker wants the next pull to begin at {next}");
            return Err(Error::new(ErrorKind::Protocol, message).with_operation("pull"));
        }
        let bounds = (pulled.header.min_offset, pulled.header.max_offset);
        if pulled.status == PullStatus::Found {
            progress.going_back = false;
            let took = self.group.env().now().saturating_duration_since(asked_at);
            let count = self.take_in_messages(queue, position, pulled)?;
            queue.note_pulled(self.group.env(), count, took, bounds);
            return Ok(None);
        }
        queue.note_bounds(bounds);
        if next < position {
            // Only a reset is said once; anything else will be said again if it is true.
            if !pulled.was_reset && !std::mem::replace(&mut progress.going_back, true) {
                return Ok(Some(CONFIRMATION));
            }
            self.report_move(position, next, "the broker moved this consumer back");
            queue.rewind(next);
        } else {
            if pulled.status == PullStatus::OffsetIllegal && next > position {
                self.report_move(position, next, "messages are gone from the broker before they were consumed");
            }
            queue.skip_to(next);
        }
        progress.going_back = false;
        Ok(None)
    }

    /// Returns how many messages came.
    fn take_in_messages(&self, queue: &Arc<OwnedQueue>, position: i64, pulled: Pulled) -> Result<usize> {
        let counters = &self.group.counters;
        let bytes = pulled.body.len();
        // Unsubscribed from meanwhile: the queue is about to be let go.
        let Some(subscription) = self.group.subscription(self.queue.topic()) else { return Ok(0) };
        let filter = self.group.hooks.filter.as_deref();
        let received = received::read(pulled.body, &pulled.header, position, &subscription, filter, queue.origin());
        let count = received.messages.len();
        counters.filtered.add(received.filtered);
        counters.unreadable.add(received.unreadable);
        let is_stuck = received.next <= position;
        if !is_stuck {
            let wanted = received.messages.len();
            let (left_out, list) = queue.insert(received.messages, bytes, received.next);
            counters.received.add(wanted - left_out);
            counters.repeated.add(left_out);
            if list {
                self.group.dispatch.list(Arc::clone(queue));
            }
        }
        let Some(failure) = received.failure else {
            // An answer with messages that leads nowhere is asked for again like one without.
            return Ok(count);
        };
        let message = format!(
            "an answer to a pull from offset {position} of {} holds {}: {failure}",
            self.queue,
            if received.is_cut { "something that is no message" } else { "a message that cannot be read" },
        );
        if received.is_cut {
            return Err(Error::new(ErrorKind::Protocol, message).with_operation("pull").with_source(failure));
        }
        let (group, queue, unreadable) = (&*self.group.name, &self.queue, received.unreadable);
        tracing::warn!(group, %queue, unreadable, "{message}; passed over");
        Ok(count)
    }

    /// Counts and reports a failed pull. Returns how long to wait.
    fn fail(&self, queue: &OwnedQueue, error: &Error, progress: &mut Progress) -> Duration {
        self.group.counters.failed_pulls.one();
        let failed = std::mem::replace(&mut progress.replica, MASTER_ID);
        if error.response_code() == Some(ResponseCode::FLOW_CONTROL.0) {
            return BROKER_FLOW_CONTROL;
        }
        if matches!(error.kind(), ErrorKind::Connection | ErrorKind::NoRoute | ErrorKind::Timeout) {
            // The broker may have moved, or be away: then a slave may help.
            self.group.cluster.routes().suspect(&self.topic);
            if failed == MASTER_ID {
                progress.replica = self.group.cluster.slave(self.queue.broker()).unwrap_or(MASTER_ID);
            }
        }
        self.report(error, "a pull failed");
        queue.note_trouble(self.group.env(), &format!("a pull failed: {error}"));
        progress.failures.next(self.group.env().random())
    }

    fn report(&self, error: &Error, what: &str) {
        tracing::warn!(group = &*self.group.name, queue = %self.queue, %error, "{what}");
    }

    fn report_move(&self, from: i64, to: i64, what: &str) {
        self.group.counters.offset_corrections.one();
        tracing::warn!(group = &*self.group.name, queue = %self.queue, from, to, "{what}");
    }
}

/// Waits until there is a time by which all must have ended.
pub(super) async fn told_to_stop(stop: &mut watch::Receiver<Option<Instant>>) {
    // An error means that nobody is left who could say so.
    let _ = stop.wait_for(Option::is_some).await;
}

/// Whether the broker does not know what this consumer subscribes to, or knows an older subscription.
fn is_unknown_subscription(error: &Error) -> bool {
    let codes = [ResponseCode::SUBSCRIPTION_NOT_EXIST, ResponseCode::SUBSCRIPTION_NOT_LATEST];
    error.response_code().is_some_and(|code| codes.contains(&ResponseCode(code)))
}

/// Takes a queue out of the reports, also when its task is cancelled.
struct ReportReleased<'a>(&'a Group, &'a MessageQueue);

impl Drop for ReportReleased<'_> {
    fn drop(&mut self) {
        self.0.reports.released(self.1);
    }
}

/// Lets a queue go, also when its task is cancelled: handlers that still run must not count.
struct ReleaseOnDrop(Arc<OwnedQueue>);

impl Drop for ReleaseOnDrop {
    fn drop(&mut self) {
        self.0.release();
    }
}
