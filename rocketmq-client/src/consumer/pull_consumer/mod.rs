//! The pull consumer: messages are asked for.
//!
//! `balance` gives it queues, or the user does. Each has a task (`fetch`) that keeps some messages ready (`assigned`), which
//! [`PullConsumer::poll`] takes in turn. What was returned by a poll is committed after the next one, so nothing is lost.
//! `reader` is the way to brokers, and for users who want to do everything themselves.

mod assigned;
mod balance;
mod builder;
mod fetch;
mod reader;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use futures_util::future::join_all;
use tokio::sync::{Notify, watch};

pub use builder::PullConsumerBuilder;
pub use reader::{PullResult, QueueReader};

use super::message_view::MessageView;
use super::subscription::Subscription;
use crate::env::Task;
use crate::error::{Error, ErrorKind, Result};
use crate::message::MessageQueue;
use assigned::AssignedQueue;
use builder::Options;

/// A consumer that is asked for messages, made by [`Client::pull_consumer`](crate::Client::pull_consumer).
///
/// With [`subscribe`](PullConsumerBuilder::subscribe) it is a member of its group, and the members share the queues. With
/// [`assign`](PullConsumerBuilder::assign) it reads the queues it was given, whoever else does.
///
/// Calling [`poll`](Self::poll) says that the messages returned before are handled: with
/// [`auto_commit`](PullConsumerBuilder::auto_commit), their offsets are stored within the commit interval. So a message is
/// consumed at least once, and those of the last poll come again after a crash.
///
/// Dropping the consumer ends it at once: what was not committed comes again. [`shutdown`](Self::shutdown) takes leave.
///
/// ```no_run
/// # use std::time::Duration;
/// # async fn example(client: rocketmq_native::Client) -> Result<(), rocketmq_native::Error> {
/// let consumer = client.pull_consumer("audit").subscribe("orders", "*").start().await?;
/// loop {
///     for message in consumer.poll(Duration::from_secs(5)).await? {
///         println!("{}: {:?}", message.message_id(), message.body());
///     }
/// }
/// # }
/// ```
#[must_use = "dropping a consumer ends it"]
pub struct PullConsumer {
    shared: Arc<Shared>,
    /// Of a consumer that subscribes.
    balance: Mutex<Option<Task>>,
    committer: Mutex<Option<Task>>,
    stop: watch::Sender<bool>,
}

/// What the tasks of a consumer share.
struct Shared {
    reader: QueueReader,
    options: Options,
    /// By topic. Topics of assigned queues that are not here are read whole.
    subscriptions: BTreeMap<Arc<str>, Arc<Subscription>>,
    state: Mutex<State>,
    /// Notified when messages are ready, when the queues change, and at the end.
    arrived: Notify,
}

#[derive(Default)]
struct State {
    queues: BTreeMap<MessageQueue, Owned>,
    /// The queue that the last messages were taken from; the next in order is the next to take from.
    last: Option<MessageQueue>,
    ended: bool,
}

struct Owned {
    queue: AssignedQueue,
    /// Notified when there is room, and when the queue was sought.
    wake: Arc<Notify>,
    _task: Task,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        // Every change is one step that cannot panic half way.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Commits what is handled, of these queues or of all. The first failure counts; what failed stays to be committed.
    async fn commit_handled(&self, only: Option<&BTreeSet<MessageQueue>>) -> Result<()> {
        let due: Vec<(MessageQueue, i64)> = {
            let state = self.state();
            let queues = state.queues.iter().filter(|(queue, _)| only.is_none_or(|only| only.contains(*queue)));
            queues.filter_map(|(queue, owned)| Some((queue.clone(), owned.queue.uncommitted()?))).collect()
        };
        let commits = due.into_iter().map(|(queue, offset)| async move {
            self.reader.commit(&queue, offset).await?;
            if let Some(owned) = self.state().queues.get_mut(&queue) {
                owned.queue.set_committed(offset);
            }
            Ok(())
        });
        join_all(commits).await.into_iter().collect()
    }
}

impl State {
    /// Takes the messages of the next queue that has some.
    fn take(&mut self, max: usize) -> Vec<MessageView> {
        use std::ops::Bound::{Excluded, Unbounded};
        let after = self.last.as_ref().map_or(Unbounded, Excluded);
        let later = self.queues.range((after, Unbounded)).find(|(_, owned)| owned.queue.has_ready());
        let found = later.or_else(|| self.queues.iter().find(|(_, owned)| owned.queue.has_ready()));
        let Some(name) = found.map(|(name, _)| name.clone()) else { return Vec::new() };
        self.last = Some(name.clone());
        let Some(owned) = self.queues.get_mut(&name) else { return Vec::new() };
        let messages = owned.queue.take(max);
        owned.wake.notify_one();
        messages
    }
}

impl PullConsumer {
    /// The name of the group.
    pub fn group(&self) -> &str {
        self.shared.reader.group()
    }

    /// Returns the messages of one queue that are ready, at most a [batch](PullConsumerBuilder::max_poll_messages), and
    /// waits for so long until there are some; none when the time is over. Queues take turns.
    ///
    /// Says that what earlier polls returned is handled. Dropping the future loses nothing.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Closed`] after [`shutdown`](Self::shutdown), and when the client was closed.
    pub async fn poll(&self, timeout: Duration) -> Result<Vec<MessageView>> {
        let cluster = self.shared.reader.cluster();
        match &cluster.config().telemetry {
            None => self.poll_unobserved(timeout).await,
            Some(telemetry) => {
                let receive = self.poll_unobserved(timeout);
                telemetry.poll(cluster, self.group(), receive, |messages| messages.as_slice()).await
            }
        }
    }

    async fn poll_unobserved(&self, timeout: Duration) -> Result<Vec<MessageView>> {
        let shared = &self.shared;
        if shared.options.auto_commit {
            shared.state().queues.values_mut().for_each(|owned| owned.queue.handle_all());
        }
        let env = shared.reader.cluster().env();
        let deadline = env.now() + timeout;
        loop {
            let arrived = shared.arrived.notified();
            {
                let mut state = shared.state();
                if state.ended || shared.reader.cluster().closed().is_cancelled() {
                    return Err(Error::new(ErrorKind::Closed, "the consumer was shut down").with_operation("poll"));
                }
                let messages = state.take(shared.options.max_poll_messages);
                if !messages.is_empty() {
                    return Ok(messages);
                }
            }
            let closed = shared.reader.cluster().closed().cancelled();
            tokio::select! {
                () = arrived => {}
                () = closed => {}
                () = env.sleep_until(deadline) => return Ok(Vec::new()),
            }
        }
    }

    /// Commits that everything returned so far is handled, and awaits that brokers have stored it.
    ///
    /// # Errors
    ///
    /// When a broker does not answer or refuses; what failed is tried again by the next commit.
    pub async fn commit(&self) -> Result<()> {
        self.shared.state().queues.values_mut().for_each(|owned| owned.queue.handle_all());
        self.shared.commit_handled(None).await
    }

    /// Commits an offset of one queue, and awaits that the broker has stored it: messages below it are handled.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::NotFound`] for a queue that is not read here; else when the broker does not answer or refuses.
    pub async fn commit_offset(&self, queue: &MessageQueue, offset: i64) -> Result<()> {
        self.with(queue, |_| ())?;
        self.shared.reader.commit(queue, offset).await?;
        // It may have been given away meanwhile.
        let _ = self.with(queue, |owned| owned.queue.set_committed(offset));
        Ok(())
    }

    /// The offset that the group has committed for a queue, as its broker knows it.
    ///
    /// # Errors
    ///
    /// When the broker does not answer.
    pub async fn committed(&self, queue: &MessageQueue) -> Result<Option<i64>> {
        self.shared.reader.committed(queue).await
    }

    /// The offset of the next message that a poll can return of a queue; none for a queue that is not read here, or whose
    /// committed offset is not known yet.
    pub fn position(&self, queue: &MessageQueue) -> Option<i64> {
        self.shared.state().queues.get(queue)?.queue.position()
    }

    /// The queues read here, by topic, broker and number.
    pub fn assignment(&self) -> Vec<MessageQueue> {
        self.shared.state().queues.keys().cloned().collect()
    }

    /// Reads these queues from now on, and no others. Those that were read before go on where they are.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidArgument`] for a consumer that subscribes: its queues are shared out.
    pub async fn assign(&self, queues: impl IntoIterator<Item = MessageQueue>) -> Result<()> {
        if self.is_balanced() {
            let message = "a consumer that subscribes is given its queues: make another one without subscriptions";
            return Err(Error::new(ErrorKind::InvalidArgument, message).with_operation("assign"));
        }
        let wanted: BTreeSet<_> = queues.into_iter().collect();
        balance::apply(&self.shared, |_| true, &wanted, Duration::ZERO).await;
        Ok(())
    }

    fn is_balanced(&self) -> bool {
        self.balance.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    fn with<T>(&self, queue: &MessageQueue, act: impl FnOnce(&mut Owned) -> T) -> Result<T> {
        let mut state = self.shared.state();
        let owned = state.queues.get_mut(queue).ok_or_else(|| {
            let message = format!("the queue {queue} is not read here (any more)");
            Error::new(ErrorKind::NotFound, message)
        })?;
        Ok(act(owned))
    }

    /// Goes to an offset of a queue, which must not lie outside of it. The next poll returns messages from there on; with
    /// auto-commit the offset is committed too.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::NotFound`] for a queue that is not read here; [`ErrorKind::InvalidArgument`] for an offset that the queue
    /// does not reach to; else when the broker does not answer.
    pub async fn seek(&self, queue: &MessageQueue, offset: i64) -> Result<()> {
        self.with(queue, |_| ())?;
        let reader = &self.shared.reader;
        let (begin, end) = tokio::try_join!(reader.begin(queue), reader.end(queue))?;
        if !(begin..=end).contains(&offset) {
            let message = format!("{queue} reaches from {begin} to {end}, not to {offset}");
            return Err(Error::new(ErrorKind::InvalidArgument, message).with_operation("seek"));
        }
        self.go_to(queue, offset)
    }

    /// Goes to the oldest message of a queue.
    ///
    /// # Errors
    ///
    /// As [`seek`](Self::seek).
    pub async fn seek_to_begin(&self, queue: &MessageQueue) -> Result<()> {
        let offset = self.shared.reader.begin(queue).await?;
        self.go_to(queue, offset)
    }

    /// Goes to the end of a queue: only messages stored from now on are returned.
    ///
    /// # Errors
    ///
    /// As [`seek`](Self::seek).
    pub async fn seek_to_end(&self, queue: &MessageQueue) -> Result<()> {
        let offset = self.shared.reader.end(queue).await?;
        self.go_to(queue, offset)
    }

    /// Goes to the first message of a queue that was stored at a time, by the broker's clock, or later.
    ///
    /// # Errors
    ///
    /// As [`seek`](Self::seek).
    pub async fn seek_to_time(&self, queue: &MessageQueue, time: SystemTime) -> Result<()> {
        let offset = self.shared.reader.offset_at(queue, time).await?;
        self.go_to(queue, offset)
    }

    fn go_to(&self, queue: &MessageQueue, offset: i64) -> Result<()> {
        self.with(queue, |owned| {
            owned.queue.seek(offset);
            owned.wake.notify_one();
        })
        .map_err(|error| error.with_operation("seek"))
    }

    /// Pauses queues: they are pulled no further, and polls return nothing of them. Queues that are not read here are passed
    /// over.
    pub fn pause<'a>(&self, queues: impl IntoIterator<Item = &'a MessageQueue>) {
        self.set_paused(queues, true);
    }

    /// Ends the pause of queues.
    pub fn resume<'a>(&self, queues: impl IntoIterator<Item = &'a MessageQueue>) {
        self.set_paused(queues, false);
    }

    fn set_paused<'a>(&self, queues: impl IntoIterator<Item = &'a MessageQueue>, paused: bool) {
        for queue in queues {
            // A queue that was given away is nobody's to pause.
            let _ = self.with(queue, |owned| {
                owned.queue.pause(paused);
                owned.wake.notify_one();
            });
        }
        self.shared.arrived.notify_waiters();
    }

    /// The queues that are paused.
    pub fn paused(&self) -> Vec<MessageQueue> {
        let state = self.shared.state();
        state.queues.iter().filter(|(_, owned)| owned.queue.is_paused()).map(|(queue, _)| queue.clone()).collect()
    }

    /// Asks how many messages of each queue read here no poll has returned yet.
    ///
    /// # Errors
    ///
    /// When a broker does not answer.
    pub async fn lag(&self) -> Result<Vec<(MessageQueue, u64)>> {
        let queues = self.assignment().into_iter().map(|queue| async move {
            let end = self.shared.reader.end(&queue).await?;
            let position = match self.position(&queue) {
                Some(position) => position,
                None => self.shared.reader.begin(&queue).await?,
            };
            Ok((queue, u64::try_from(end - position).unwrap_or(0)))
        });
        join_all(queues).await.into_iter().collect()
    }

    /// The way to the brokers: queues of a topic, their ends, offsets by time.
    pub fn reader(&self) -> &QueueReader {
        &self.shared.reader
    }

    /// Ends the consumer in good order: with auto-commit, everything returned counts as handled; commits, and leaves the
    /// group, so that the other members take over at once. Polls end with an error. Calling it twice is fine.
    ///
    /// Dropping the future ends the consumer at once.
    ///
    /// # Errors
    ///
    /// When an offset could not be committed: its messages come again.
    pub async fn shutdown(&self) -> Result<()> {
        let shared = &self.shared;
        if shared.options.auto_commit {
            shared.state().queues.values_mut().for_each(|owned| owned.queue.handle_all());
        }
        self.stop.send_replace(true);
        let tasks = [&self.committer, &self.balance];
        for task in tasks {
            let task = task.lock().unwrap_or_else(PoisonError::into_inner).take();
            if let Some(task) = task
                && let Err(error) = task.await
            {
                tracing::error!(group = self.group(), %error, "a task of a pull consumer has died");
            }
        }
        let committed = shared.commit_handled(None).await;
        self.end();
        committed.map_err(|error| error.with_operation("shut the consumer down"))
    }

    fn end(&self) {
        let queues = {
            let mut state = self.shared.state();
            state.ended = true;
            std::mem::take(&mut state.queues)
        };
        // Not under the lock: this ends tasks.
        drop(queues);
        self.shared.arrived.notify_waiters();
    }
}

impl Drop for PullConsumer {
    fn drop(&mut self) {
        // The tasks of the queues hold what holds them.
        self.end();
    }
}

impl fmt::Debug for PullConsumer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PullConsumer")
            .field("group", &self.group())
            .field("assignment", &self.assignment())
            .finish_non_exhaustive()
    }
}
