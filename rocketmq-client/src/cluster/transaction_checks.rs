//! Questions of brokers about transactions, on their way to the producer that knows.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rocketmq_wire::message::{StoredMessage, properties};
use rocketmq_wire::request::reply::CheckTransactionStateRequest;
use tokio::sync::Notify;

use crate::error::{Error, ErrorKind, Result};
use crate::remoting::Incoming;

/// Questions kept for one group. What comes when so many wait is left to the broker, which asks again: as the Java client
/// does it, with the same number.
const MOST_WAITING: usize = 2000;

/// A broker's question what became of a half message.
#[derive(Debug)]
pub(crate) struct Check {
    /// The address of the broker, to which the answer goes.
    pub(crate) broker: Arc<str>,
    /// The name of the broker, from brokers since 5.0.
    pub(crate) broker_name: Option<String>,
    pub(crate) queue_offset: i64,
    pub(crate) commit_log_offset: i64,
    pub(crate) transaction_id: Option<String>,
    /// The half message, in the topic and queue that it is meant for.
    pub(crate) message: StoredMessage,
}

/// The questions to one group, and who answers them.
#[derive(Debug, Default)]
pub(crate) struct CheckQueue {
    waiting: Mutex<VecDeque<Check>>,
    arrived: Notify,
    ended: AtomicBool,
    dropped: AtomicU64,
}

impl CheckQueue {
    fn waiting(&self) -> MutexGuard<'_, VecDeque<Check>> {
        // A push or a take is all that is done under the lock.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&self, check: Check) {
        let mut waiting = self.waiting();
        if waiting.len() >= MOST_WAITING {
            self.dropped.fetch_add(1, Ordering::Relaxed);
            return;
        }
        waiting.push_back(check);
        drop(waiting);
        self.arrived.notify_one();
    }

    /// The next question; `None` when there will be no more. Dropping the future loses none.
    pub(crate) async fn next(&self) -> Option<Check> {
        loop {
            if self.ended.load(Ordering::Acquire) {
                // The next in line learns it too.
                self.arrived.notify_one();
                return None;
            }
            let check = self.waiting().pop_front();
            if check.is_some() {
                return check;
            }
            self.arrived.notified().await;
        }
    }

    /// Ends [`next`](Self::next) for everybody; questions that wait are left to the broker.
    pub(crate) fn end(&self) {
        self.ended.store(true, Ordering::Release);
        self.arrived.notify_one();
    }

    /// Questions that were not kept because too many waited.
    pub(crate) fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }
}

/// Who answers for which group of one client; clones are the same.
#[derive(Debug, Clone, Default)]
pub(crate) struct TransactionChecks(Arc<Mutex<BTreeMap<Arc<str>, Arc<CheckQueue>>>>);

/// Being the one who answers for a group. Dropping it ends that.
#[derive(Debug)]
pub(crate) struct Answering {
    checks: TransactionChecks,
    group: Arc<str>,
}

impl TransactionChecks {
    fn groups(&self) -> MutexGuard<'_, BTreeMap<Arc<str>, Arc<CheckQueue>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the questions to a group from now on.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidArgument`] when somebody does already.
    pub(crate) fn answer(&self, group: &Arc<str>, queue: &Arc<CheckQueue>) -> Result<Answering> {
        let mut groups = self.groups();
        if groups.contains_key(group) {
            return Err(Error::new(
                ErrorKind::InvalidArgument,
                format!(
                    "this client already has a transaction producer of the group `{group}`: share that one, it can be \
                     cloned, or use a second client"
                ),
            ));
        }
        groups.insert(Arc::clone(group), Arc::clone(queue));
        Ok(Answering { checks: self.clone(), group: Arc::clone(group) })
    }

    /// Hands a question to the producer of the group that sent the half message.
    ///
    /// A question to a group without a transaction producer here is passed over: the broker asks another client, or again.
    pub(crate) fn deliver(&self, request: &Incoming) {
        let check = match read(request) {
            Ok(check) => check,
            Err(error) => {
                tracing::warn!(server.address = &**request.broker(), %error, "a transaction check was not understood");
                return;
            }
        };
        let group = check.message.property(properties::PRODUCER_GROUP).unwrap_or_default();
        let group = &*request.plain(group);
        let queue = self.groups().get(group).cloned();
        match queue {
            Some(queue) => queue.push(check),
            None => tracing::debug!(group, "no transaction producer of the group that a broker asks about"),
        }
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        self.checks.groups().remove(&self.group);
    }
}

fn read(request: &Incoming) -> Result<Check> {
    let header: CheckTransactionStateRequest<'_> = request.decode()?;
    let (message, _) = StoredMessage::parse(request.body().clone()).map_err(|error| {
        Error::new(ErrorKind::Protocol, format!("the message that a check is about cannot be read: {error}"))
            .with_source(error)
    })?;
    Ok(Check {
        broker: Arc::clone(request.broker()),
        broker_name: header.broker_name.map(Into::into),
        queue_offset: header.tran_state_table_offset,
        commit_log_offset: header.commit_log_offset,
        transaction_id: header.transaction_id.map(Into::into),
        message,
    })
}
