//! Time that stands still until it is turned.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant, SystemTime};

/// The wall clock begins here: 2024-01-01 00:00:00 UTC.
const WALL_CLOCK_ORIGIN: Duration = Duration::from_secs(1_704_067_200);

/// How often [`ManualClock::advance`] lets everything ready run after each step of time.
const TURNS_PER_STEP: usize = 64;

/// The clock of [`Env::manual`](super::Env::manual); clones are one clock.
#[derive(Debug, Clone)]
pub struct ManualClock(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    origin: Instant,
    time: Mutex<Time>,
}

#[derive(Debug, Default)]
struct Time {
    elapsed: Duration,
    wall_clock_ahead: Duration,
    /// By due time, then by age: waits that end together end in the order in which they began.
    sleepers: BTreeMap<(Duration, u64), Waker>,
    next_sleeper: u64,
}

impl ManualClock {
    pub(super) fn new(origin: Instant) -> Self {
        Self(Arc::new(Shared { origin, time: Mutex::default() }))
    }

    fn time(&self) -> MutexGuard<'_, Time> {
        // No step of a change can panic half way.
        self.0.time.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Monotonic time.
    pub fn now(&self) -> Instant {
        self.0.origin + self.time().elapsed
    }

    /// Wall-clock time.
    pub fn wall_clock(&self) -> SystemTime {
        let time = self.time();
        SystemTime::UNIX_EPOCH + WALL_CLOCK_ORIGIN + time.elapsed + time.wall_clock_ahead
    }

    /// Sets the wall clock forward by `by`, leaving monotonic time alone.
    pub fn jump_wall_clock(&self, by: Duration) {
        self.time().wall_clock_ahead += by;
    }

    /// Turns time on, stopping at every wait that ends on the way, and lets tasks run at each stop.
    ///
    /// Meant for a current-thread runtime, where "let tasks run" is a fixed number of turns. Dropping the future
    /// leaves time wherever it had got to.
    pub async fn advance(&self, by: Duration) {
        let target = self.time().elapsed + by;
        settle().await;
        while self.step(target) {
            settle().await;
        }
    }

    /// Moves to the next wait that ends by `target` and ends it, or to `target` when there is none.
    fn step(&self, target: Duration) -> bool {
        let mut due = Vec::new();
        {
            let mut time = self.time();
            let next = time.sleepers.keys().next().map(|&(at, _)| at).filter(|&at| at <= target);
            time.elapsed = next.unwrap_or(target).max(time.elapsed);
            if next.is_none() {
                return false;
            }
            let now = time.elapsed;
            while let Some(first) = time.sleepers.first_entry().filter(|first| first.key().0 <= now) {
                due.push(first.remove());
            }
        }
        due.into_iter().for_each(Waker::wake);
        true
    }

    pub(super) fn sleep_until(&self, at: Instant) -> ManualSleep {
        let due = at.saturating_duration_since(self.0.origin);
        ManualSleep { clock: self.clone(), due, registered: None }
    }
}

/// Lets every task that is ready run, and those that they make ready.
async fn settle() {
    for _ in 0..TURNS_PER_STEP {
        tokio::task::yield_now().await;
    }
}

/// A wait on a [`ManualClock`].
#[derive(Debug)]
pub(super) struct ManualSleep {
    clock: ManualClock,
    due: Duration,
    registered: Option<u64>,
}

impl Future for ManualSleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let clock = self.clock.clone();
        let mut time = clock.time();
        if let Some(id) = self.registered.take() {
            time.sleepers.remove(&(self.due, id));
        }
        if time.elapsed >= self.due {
            return Poll::Ready(());
        }
        let id = time.next_sleeper;
        time.next_sleeper += 1;
        time.sleepers.insert((self.due, id), cx.waker().clone());
        drop(time);
        self.registered = Some(id);
        Poll::Pending
    }
}

impl Drop for ManualSleep {
    fn drop(&mut self) {
        if let Some(id) = self.registered.take() {
            self.clock.time().sleepers.remove(&(self.due, id));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::env::Env;
    use crate::transport::MemoryNetwork;

    #[tokio::test]
    async fn waits_end_in_order_each_at_its_own_time() {
        let (env, clock) = Env::manual(1, Arc::new(MemoryNetwork::default())).expect("inside a runtime");
        let start = env.now();
        let ended = Arc::new(Mutex::new(Vec::new()));
        let tasks: Vec<_> = [30, 10, 20, 10]
            .into_iter()
            .enumerate()
            .map(|(index, ms)| {
                let (env, ended) = (env.clone(), Arc::clone(&ended));
                env.clone().spawn(async move {
                    env.sleep(Duration::from_millis(ms)).await;
                    ended.lock().expect("not poisoned").push((index, (env.now() - start).as_millis()));
                })
            })
            .collect();
        clock.advance(Duration::from_millis(25)).await;
        assert_eq!(*ended.lock().expect("not poisoned"), [(1, 10), (3, 10), (2, 20)]);
        assert_eq!((env.now() - start).as_millis(), 25);
        clock.advance(Duration::from_millis(5)).await;
        assert_eq!(ended.lock().expect("not poisoned").last(), Some(&(0, 30)));
        assert!(tasks.iter().all(crate::env::Task::is_finished));
    }

    #[tokio::test]
    async fn a_dropped_wait_leaves_nothing() {
        let (env, clock) = Env::manual(1, Arc::new(MemoryNetwork::default())).expect("inside a runtime");
        let mut sleep = env.sleep(Duration::from_secs(1));
        std::future::poll_fn(|cx| {
            assert!(Pin::new(&mut sleep).poll(cx).is_pending());
            Poll::Ready(())
        })
        .await;
        assert_eq!(clock.time().sleepers.len(), 1);
        drop(sleep);
        assert_eq!(clock.time().sleepers.len(), 0);
    }
}
