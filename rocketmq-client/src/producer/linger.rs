//! Automatic batching: sends that happen at about the same time share requests.
//!
//! A send adds its message to the open batch of its topic and queue, and awaits its part of the outcome. A batch is sent,
//! by a task of the producer's own, when it is full or has been open for the time to linger. So no message waits longer
//! than that, and a caller that goes away takes nothing from the others.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use rocketmq_wire::message::{names, properties};
use tokio::sync::{Notify, oneshot};

use super::attempt::First;
use super::batch::Batch;
use super::options::{Choice, SendOptions};
use super::sending::Stamp;
use super::{Inner, SendReceipt};
use crate::env::Env;
use crate::error::{Error, ErrorKind, Outcome, Result};
use crate::message::{Form, Message, MessageQueue};

/// The batches of one producer.
#[derive(Debug)]
pub(super) struct Linger {
    time: Duration,
    max_bytes: usize,
    state: Mutex<State>,
    /// Wakes the task when there is something new for it.
    work: Notify,
    /// Wakes those who wait for batches to end.
    ended: Notify,
}

#[derive(Debug, Default)]
struct State {
    open: BTreeMap<Key, Open>,
    ready: VecDeque<(Key, Open)>,
    /// Batches are numbered in the order in which they were opened.
    next_number: u64,
    unfinished: BTreeSet<u64>,
}

/// What the messages of one batch have in common.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    topic: Arc<str>,
    destination: Destination,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Destination {
    Turn,
    Queue(MessageQueue),
    Hash(i32),
}

#[derive(Debug)]
struct Open {
    number: u64,
    batch: Batch,
    /// For the case that no other comes: it is then sent by itself.
    first: (Message, Stamp),
    waiters: Vec<oneshot::Sender<Result<SendReceipt>>>,
    due: Instant,
    deadline: Instant,
}

impl Linger {
    pub(super) fn new(time: Duration, max_bytes: usize) -> Self {
        Self { time, max_bytes, state: Mutex::default(), work: Notify::new(), ended: Notify::new() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing that is done under it can panic half way.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a checked message to a batch, if it may be part of one; else returns it.
    pub(super) fn join(
        &self,
        message: Message,
        options: &SendOptions,
        stamp: &Stamp,
    ) -> std::result::Result<oneshot::Receiver<Result<SendReceipt>>, Message> {
        let destination = match &options.choice {
            Choice::Turn => Destination::Turn,
            Choice::Queue(queue) => Destination::Queue(queue.clone()),
            Choice::Hash(hash) => Destination::Hash(*hash),
            _ => return Err(message),
        };
        let size = Batch::size_of(&message, &stamp.unique_id);
        // A timeout of its own is its own; half messages and compressed ones are marked in the system flag.
        if options.timeout.is_some()
            || size > self.max_bytes
            || message.form() != Form::Plain
            || message.sys_flag() != 0
            || message.value(properties::DELAY).is_some()
            || names::is_retry_topic(message.topic())
        {
            return Err(message);
        }
        let key = Key { topic: Arc::clone(message.shared_topic()), destination };
        let (told, outcome) = oneshot::channel();
        let mut state = self.state();
        let is_full = state.open.get(&key).is_some_and(|open| open.batch.bytes() + size > self.max_bytes);
        let mut wake = is_full && state.close(&key);
        if let Some(open) = state.open.get_mut(&key) {
            if open.batch.push(&message, stamp.unique_id).is_err() {
                return Err(message);
            }
            open.waiters.push(told);
            open.deadline = open.deadline.min(stamp.deadline);
        } else {
            let mut batch = Batch::default();
            if batch.push(&message, stamp.unique_id).is_err() {
                return Err(message);
            }
            let number = state.next_number;
            state.next_number += 1;
            state.unfinished.insert(number);
            let due = stamp.began + self.time;
            let open =
                Open { number, batch, first: (message, *stamp), waiters: vec![told], due, deadline: stamp.deadline };
            state.open.insert(key, open);
            wake = true;
        }
        drop(state);
        if wake {
            self.work.notify_one();
        }
        Ok(outcome)
    }

    /// Sends what lingers now, and waits until it has come to an end, well or not. Dropping the future ends the wait.
    pub(super) async fn flush(&self) {
        let until = {
            let mut state = self.state();
            while let Some((key, open)) = state.open.pop_first() {
                state.ready.push_back((key, open));
            }
            state.next_number
        };
        self.work.notify_one();
        loop {
            let ended = self.ended.notified();
            if self.state().unfinished.range(..until).next().is_none() {
                return;
            }
            ended.await;
        }
    }

    /// Takes what is to be sent at `now`; else tells when there will be something.
    fn take(&self, now: Instant) -> (VecDeque<(Key, Open)>, Option<Instant>) {
        let mut state = self.state();
        let due: Vec<_> = state.open.iter().filter(|(_, open)| open.due <= now).map(|(key, _)| key.clone()).collect();
        for key in due {
            state.close(&key);
        }
        (std::mem::take(&mut state.ready), state.open.values().map(|open| open.due).min())
    }

    fn finish(&self, number: u64) {
        self.state().unfinished.remove(&number);
        self.ended.notify_waiters();
    }
}

impl State {
    /// Makes an open batch ready to be sent.
    fn close(&mut self, key: &Key) -> bool {
        let Some((key, open)) = self.open.remove_entry(key) else { return false };
        self.ready.push_back((key, open));
        true
    }
}

/// The task that sends batches, until the producer is gone. Any number of them is under way at the same time.
pub(super) async fn run(linger: Arc<Linger>, env: Env, producer: Weak<Inner>) {
    let mut under_way = FuturesUnordered::new();
    loop {
        let (ready, next) = linger.take(env.now());
        for (key, open) in ready {
            let Some(producer) = producer.upgrade() else { return };
            under_way.push(send(producer, Arc::clone(&linger), key, open));
        }
        let next = async {
            match next {
                Some(due) => env.sleep_until(due).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            Some(()) = under_way.next() => {}
            () = linger.work.notified() => {}
            () = next => {}
        }
    }
}

/// Sends one batch and tells everybody.
async fn send(producer: Arc<Inner>, linger: Arc<Linger>, key: Key, open: Open) {
    let Open { number, batch, first, waiters, deadline, .. } = open;
    let _finished = Finished { linger: &linger, number };
    let choice = match key.destination {
        Destination::Turn => Choice::Turn,
        Destination::Queue(queue) => Choice::Queue(queue),
        Destination::Hash(hash) => Choice::Hash(hash),
    };
    let (message, stamp) = first;
    let choice = match producer.settled(&choice, &message, deadline).await {
        Ok(choice) => choice,
        Err(error) => return tell_all(waiters, &error),
    };
    let result = if waiters.len() == 1 {
        let one = match &choice {
            Choice::Queue(queue) => producer.send_to_queue(queue, &message, &stamp).await,
            _ => producer.send_anywhere(message, stamp, First::NotMade).await,
        };
        one.map(|receipt| vec![receipt])
    } else {
        producer.send_one_batch(batch, &key.topic, &choice, deadline).await
    };
    match result {
        Ok(receipts) => {
            for (waiter, receipt) in waiters.into_iter().zip(receipts) {
                // Who does not wait any more has given up to know.
                let _ = waiter.send(Ok(receipt));
            }
        }
        Err(error) => tell_all(waiters, &error),
    }
}

fn tell_all(waiters: Vec<oneshot::Sender<Result<SendReceipt>>>, error: &Error) {
    for waiter in waiters {
        let _ = waiter.send(Err(error.clone()));
    }
}

/// Marks a batch as ended, whatever became of it.
struct Finished<'a> {
    linger: &'a Linger,
    number: u64,
}

impl Drop for Finished<'_> {
    fn drop(&mut self) {
        self.linger.finish(self.number);
    }
}

/// The outcome of a message that is part of a batch.
pub(super) async fn outcome(receipt: oneshot::Receiver<Result<SendReceipt>>) -> Result<SendReceipt> {
    receipt.await.unwrap_or_else(|_| {
        let error = Error::new(ErrorKind::Closed, "the producer ended while the message was part of a batch");
        Err(error.with_operation("send").with_outcome(Outcome::Unknown))
    })
}
