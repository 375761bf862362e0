//! Messages that become visible only when a local transaction has succeeded.
//!
//! A [`TransactionProducer`] sends a half message, which brokers keep but deliver to nobody. The application then does its
//! own work, and commits or rolls back. When it does neither, because it ended or because the broker did not hear of it,
//! the broker asks some producer of the group what became of the message: this is what the checker answers.

mod builder;
mod check;
mod end;
mod undecided;

use std::fmt;
use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rocketmq_wire::message::{properties, sys_flag};

use super::{Producer, SendReceipt, SendStatus};
use crate::cluster::{Answering, CheckQueue};
use crate::env::Task;
use crate::error::{Error, ErrorKind, Result};
use crate::message::{Message, invalid};

pub use builder::TransactionProducerBuilder;
pub use check::TransactionChecker;
pub use undecided::Transaction;

/// What becomes of a half message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum TransactionResolution {
    /// It is delivered to consumers.
    Commit,
    /// It is never delivered.
    Rollback,
    /// Not known yet: the broker asks again later.
    #[default]
    Unknown,
}

impl<E> From<Result<TransactionResolution, E>> for TransactionResolution {
    /// An error means that the local transaction failed, so the message is rolled back.
    fn from(result: Result<Self, E>) -> Self {
        result.unwrap_or(Self::Rollback)
    }
}

impl<E> From<Result<(), E>> for TransactionResolution {
    /// Success commits the message, an error rolls it back.
    fn from(result: Result<(), E>) -> Self {
        if result.is_ok() { Self::Commit } else { Self::Rollback }
    }
}

/// Sends messages that belong to local transactions; clones are the same producer.
///
/// Made by [`Client::transaction_producer`](crate::Client::transaction_producer) of a group and a checker. The group
/// matters here: brokers ask any of its producers about a message that was not decided, also one that another process has
/// sent. So every producer of the group must be able to tell from a message alone what became of its transaction, for
/// instance by looking up the message's key in the same database.
///
/// ```no_run
/// # async fn example(client: rocketmq_native::Client) -> Result<(), Box<dyn std::error::Error>> {
/// # async fn is_paid(order: &str) -> Option<bool> { None }
/// # async fn pay(order: &str) -> Result<(), std::io::Error> { Ok(()) }
/// use rocketmq_native::{Message, MessageView, TransactionResolution};
///
/// let checker = |message: MessageView| async move {
///     match is_paid(message.keys().next().unwrap_or_default()).await {
///         Some(true) => TransactionResolution::Commit,
///         Some(false) => TransactionResolution::Rollback,
///         None => TransactionResolution::Unknown,
///     }
/// };
/// let producer = client.transaction_producer("payments", checker).start().await?;
///
/// // In one call: `Ok` commits, an error rolls back.
/// producer.transact(Message::new("paid", "42").key("42"), |_| pay("42")).await?;
///
/// // Or step by step.
/// let transaction = producer.begin(Message::new("paid", "43").key("43")).await?;
/// match pay("43").await {
///     Ok(()) => transaction.commit().await?,
///     Err(_) => transaction.rollback().await?,
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct TransactionProducer(Arc<Shared>);

struct Shared {
    producer: Producer,
    checks: Arc<CheckQueue>,
    check_immunity: Option<Duration>,
    tasks: Mutex<Vec<Task>>,
    answering: Mutex<Option<Answering>>,
}

/// How a transaction ended.
#[derive(Debug, Clone)]
pub struct TransactionReceipt {
    message_id: String,
    resolution: TransactionResolution,
    unconfirmed: Option<Error>,
}

impl TransactionReceipt {
    /// The id of the message, which consumers see.
    pub fn message_id(&self) -> &str {
        &self.message_id
    }

    /// What the local transaction came to.
    pub fn resolution(&self) -> TransactionResolution {
        self.resolution
    }

    /// Why the broker may not know of it, if so. The message is then decided by the checker, when the broker asks.
    pub fn unconfirmed(&self) -> Option<&Error> {
        self.unconfirmed.as_ref()
    }
}

impl TransactionProducer {
    /// Sends a half message, runs `local`, and tells the broker what it came to.
    ///
    /// `local` gets the id of the message, and returns a [`TransactionResolution`], or a result: `Ok(())` commits, an error
    /// rolls back. It runs only when the broker has the half message safely. A panic in it, or dropping this future while
    /// it runs, leaves the message undecided: the broker asks the checker.
    ///
    /// # Errors
    ///
    /// As [`begin`](Self::begin), and then `local` has not run. That the broker could not be told what `local` came to is no
    /// error, as the local transaction stands: [`TransactionReceipt::unconfirmed`] tells.
    pub async fn transact<F, R>(&self, message: Message, local: F) -> Result<TransactionReceipt>
    where
        F: FnOnce(String) -> R,
        R: Future,
        R::Output: Into<TransactionResolution>,
    {
        let transaction = self.begin(message).await?;
        let message_id = transaction.message_id().to_owned();
        let resolution = local(message_id.clone()).await.into();
        let unconfirmed = transaction.resolve(resolution).await.err();
        Ok(TransactionReceipt { message_id, resolution, unconfirmed })
    }

    /// Sends a half message: brokers keep it, and deliver it when the [`Transaction`] is committed.
    ///
    /// Dropping the future may leave a half message at a broker, which asks the checker about it.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidArgument`] for a message with a delay, which a transaction cannot have; [`ErrorKind::NotStored`]
    /// when the broker took the half message but did not store it as safely as it should, in which case it is rolled back;
    /// else as [`Producer::send`].
    pub async fn begin(&self, message: Message) -> Result<Transaction> {
        Box::pin(self.send_half(message)).await.map_err(|error| error.with_operation("begin a transaction"))
    }

    async fn send_half(&self, mut message: Message) -> Result<Transaction> {
        let timers = [properties::TIMER_DELAY_SEC, properties::TIMER_DELAY_MS, properties::TIMER_DELIVER_MS];
        if message.value(properties::DELAY).is_some() || timers.iter().any(|name| message.value(name).is_some()) {
            return Err(invalid(
                "a message of a transaction cannot be delayed, as brokers would forget one of the two: send it without a \
                 delay, or without a transaction",
            ));
        }
        message.set_own_property(properties::TRANSACTION_PREPARED, "true");
        message.set_own_property(properties::PRODUCER_GROUP, self.group());
        if let Some(time) = self.0.check_immunity {
            let seconds = time.as_secs() + u64::from(time.subsec_nanos() > 0);
            message.set_own_property(properties::CHECK_IMMUNITY_TIME_IN_SECONDS, &seconds.to_string());
        }
        message.add_sys_flag(sys_flag::TRANSACTION_PREPARED);
        let topic = Arc::clone(message.shared_topic());
        let mark = |name| message.value(name).unwrap_or_default().to_owned();
        let marks = Marks { tags: mark(properties::TAGS), keys: mark(properties::KEYS) };
        let half = self.0.producer.send(message).await?;
        let status = half.status();
        let transaction = Transaction::new(self.clone(), topic, marks, half);
        if status == SendStatus::Ok {
            return Ok(transaction);
        }
        let half = transaction.half().clone();
        // Not heard of, it is for the checker to decide; the error is the same.
        let _ = transaction.rollback().await;
        Err(half.require_stored().err().unwrap_or_else(|| Error::new(ErrorKind::NotStored, "not stored")))
    }

    /// The group that the producer belongs to.
    pub fn group(&self) -> &str {
        self.0.producer.group()
    }

    /// The producer below, for messages without a transaction.
    pub fn producer(&self) -> &Producer {
        &self.0.producer
    }

    /// Questions of brokers that were left to be asked again, because 2,000 waited for the checker already.
    pub fn dropped_checks(&self) -> u64 {
        self.0.checks.dropped()
    }

    /// Refuses further messages, waits for sends under way, stops answering checks, and leaves the group. Transactions that
    /// are begun can still be decided, until the client is closed. Calling it twice is fine.
    ///
    /// Dropping the future leaves the sends alone and the group in the background.
    pub async fn shutdown(&self) {
        self.0.stop_answering();
        let tasks = std::mem::take(&mut *self.0.tasks.lock().unwrap_or_else(PoisonError::into_inner));
        for task in tasks {
            // The checker may still be at work; an error says that it panicked outside of it.
            let _ = task.await;
        }
        self.0.producer.shutdown().await;
    }
}

impl Shared {
    fn stop_answering(&self) {
        self.checks.end();
        self.answering.lock().unwrap_or_else(PoisonError::into_inner).take();
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.stop_answering();
    }
}

impl fmt::Debug for TransactionProducer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TransactionProducer").field("producer", &self.0.producer).finish_non_exhaustive()
    }
}

/// What a message is found by.
#[derive(Debug, Default)]
struct Marks {
    tags: String,
    keys: String,
}

/// What a half message is known by at its broker.
#[derive(Debug)]
struct Half<'a> {
    topic: &'a str,
    group: &'a str,
    broker_name: Option<&'a str>,
    queue_offset: i64,
    commit_log_offset: i64,
    message_id: &'a str,
    transaction_id: &'a str,
    tags: &'a str,
    keys: &'a str,
    from_check: bool,
}

impl<'a> Half<'a> {
    /// As the broker has confirmed it.
    fn of_receipt(topic: &'a str, group: &'a str, marks: &'a Marks, receipt: &'a SendReceipt) -> Result<Self> {
        let place = receipt.offset_message_id().ok_or_else(|| {
            Error::new(
                ErrorKind::Protocol,
                "the broker did not say where it keeps the half message: it will ask the checker about it",
            )
        })?;
        Ok(Self {
            topic,
            group,
            broker_name: Some(receipt.queue().broker()),
            queue_offset: receipt.queue_offset(),
            commit_log_offset: place.physical_offset,
            message_id: receipt.message_id(),
            transaction_id: receipt.message_id(),
            tags: &marks.tags,
            keys: &marks.keys,
            from_check: false,
        })
    }
}
