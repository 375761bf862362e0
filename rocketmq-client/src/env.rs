//! Everything this crate takes from its surroundings: time, randomness, tasks and the network.
//!
//! An [`Env`] is handed down from the client to whatever needs it, and nothing else reaches for a clock, a random
//! source or a socket. With [`Env::manual`] a whole client runs on time that a test turns, random numbers that a seed
//! repeats and a network in memory.

use std::fmt;
use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant, SystemTime};

use tokio::runtime::Handle;
use tokio::task::{JoinError, JoinHandle};

use self::coarse::CoarseClock;
use crate::error::{Error, ErrorKind, Result};
use crate::transport::{Network, Stream, TcpNetwork};

mod coarse;
mod manual;

pub use manual::ManualClock;

/// The surroundings of a client; clones share them.
#[derive(Clone)]
pub struct Env(Arc<Surroundings>);

struct Surroundings {
    runtime: Handle,
    clock: Clock,
    random: AtomicU64,
    network: Arc<dyn Network>,
    reckoning: Reckoning,
}

/// What wall-clock time is reckoned from; see [`Env::wall_clock_ms_at`].
struct Reckoning {
    coarse: CoarseClock,
    wall_at_origin_ms: AtomicI64,
    /// When to read the wall clock next, in milliseconds since the origin.
    read_at_ms: AtomicI64,
}

enum Clock {
    System,
    Manual(ManualClock),
}

impl Env {
    /// The real surroundings: the system's clocks and randomness, TCP, and the Tokio runtime this is called in.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidArgument`] outside of a Tokio runtime.
    pub fn system() -> Result<Self> {
        #[expect(clippy::disallowed_methods, reason = "the one place that draws a seed")]
        let seed = rand::Rng::next_u64(&mut rand::rng());
        Self::new(Clock::System, seed, Arc::new(TcpNetwork))
    }

    /// Surroundings whose time stands still until it is turned, whose random numbers follow from the seed, and whose
    /// servers are where `network` says. Tasks run on the Tokio runtime this is called in.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidArgument`] outside of a Tokio runtime.
    pub fn manual(seed: u64, network: Arc<dyn Network>) -> Result<(Self, ManualClock)> {
        #[expect(clippy::disallowed_methods, reason = "an instant can only be had from the system; it is the origin")]
        let origin = Instant::now();
        let clock = ManualClock::new(origin);
        Ok((Self::new(Clock::Manual(clock.clone()), seed, network)?, clock))
    }

    fn new(clock: Clock, seed: u64, network: Arc<dyn Network>) -> Result<Self> {
        let runtime = Handle::try_current().map_err(|error| {
            Error::new(
                ErrorKind::InvalidArgument,
                "there is no Tokio runtime here: call this inside one, as under `#[tokio::main]`, in a task, or after \
                 `Runtime::enter`",
            )
            .with_source(error)
        })?;
        let reckoning = Reckoning { coarse: CoarseClock::new(), wall_at_origin_ms: 0.into(), read_at_ms: 0.into() };
        Ok(Self(Arc::new(Surroundings { runtime, clock, random: AtomicU64::new(seed), network, reckoning })))
    }

    /// Monotonic time.
    pub fn now(&self) -> Instant {
        match &self.0.clock {
            #[expect(clippy::disallowed_methods, reason = "the one place that reads the monotonic clock")]
            Clock::System => Instant::now(),
            Clock::Manual(clock) => clock.now(),
        }
    }

    /// Monotonic time to within 10 ms, never ahead: for what is counted in milliseconds and asked for with every message.
    #[inline]
    pub(crate) fn recent(&self) -> Instant {
        match &self.0.clock {
            Clock::System => self.0.reckoning.coarse.now(),
            Clock::Manual(clock) => clock.now(),
        }
    }

    /// Wall-clock time.
    pub fn wall_clock(&self) -> SystemTime {
        match &self.0.clock {
            #[expect(clippy::disallowed_methods, reason = "the one place that reads the wall clock")]
            Clock::System => SystemTime::now(),
            Clock::Manual(clock) => clock.wall_clock(),
        }
    }

    /// Wall-clock time as the protocol carries it: milliseconds since 1970.
    pub fn wall_clock_ms(&self) -> i64 {
        let since_1970 = self.wall_clock().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        i64::try_from(since_1970.as_millis()).unwrap_or(i64::MAX)
    }

    /// Waits until an instant; at once when it is past. Dropping the future ends the wait.
    pub fn sleep_until(&self, at: Instant) -> Sleep {
        match &self.0.clock {
            Clock::System => {
                // A timer belongs to a runtime; the caller may be polled outside of one.
                let _inside = self.0.runtime.enter();
                #[expect(clippy::disallowed_methods, reason = "the one place that makes timers")]
                Sleep(Timer::System(Box::pin(tokio::time::sleep_until(at.into()))))
            }
            Clock::Manual(clock) => Sleep(Timer::Manual(clock.sleep_until(at))),
        }
    }

    /// Waits for a time. Dropping the future ends the wait.
    pub fn sleep(&self, time: Duration) -> Sleep {
        self.sleep_until(self.now() + time)
    }

    /// Awaits a future until a deadline; `None` when the deadline comes first, and the future is dropped.
    pub async fn within<F: Future>(&self, deadline: Instant, future: F) -> Option<F::Output> {
        tokio::select! {
            biased;
            output = future => Some(output),
            () = self.sleep_until(deadline) => None,
        }
    }

    /// Wall-clock time as the protocol carries it, at a moment that has just been read from the monotonic clock.
    ///
    /// The system's wall clock is read once a second; in between, time is reckoned from the monotonic clock. So a step
    /// of the wall clock is noticed up to a second late, and a message costs one look at a clock instead of two.
    pub(crate) fn wall_clock_ms_at(&self, now: Instant) -> i64 {
        const READ_EVERY_MS: i64 = 1000;
        let Clock::System = &self.0.clock else { return self.wall_clock_ms() };
        let Reckoning { coarse, wall_at_origin_ms, read_at_ms } = &self.0.reckoning;
        let of = |at: Instant| {
            let since_origin = at.saturating_duration_since(coarse.origin());
            since_origin.as_secs() as i64 * 1000 + i64::from(since_origin.subsec_millis())
        };
        let since_origin_ms = of(now);
        if since_origin_ms >= read_at_ms.load(Ordering::Relaxed) {
            // Two that come at the same time read the clock twice, and both are right. `now` may be a little old.
            wall_at_origin_ms.store(self.wall_clock_ms() - of(self.now()), Ordering::Relaxed);
            read_at_ms.store(since_origin_ms + READ_EVERY_MS, Ordering::Relaxed);
        }
        wall_at_origin_ms.load(Ordering::Relaxed) + since_origin_ms
    }

    /// 64 random bits.
    pub fn random(&self) -> u64 {
        // SplitMix64: every state is reached once, and its mixing passes the usual statistical tests.
        const STEP: u64 = 0x9e37_79b9_7f4a_7c15;
        let mut z = self.0.random.fetch_add(STEP, Ordering::Relaxed).wrapping_add(STEP);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A random number below `bound`; zero when `bound` is zero.
    pub fn random_below(&self, bound: usize) -> usize {
        ((u128::from(self.random()) * bound as u128) >> 64) as usize
    }

    /// Starts a task. The value returned owns it: dropping it cancels the task.
    pub fn spawn<F>(&self, future: F) -> Task<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        Task(self.0.runtime.spawn(future))
    }

    /// How many threads run tasks.
    pub fn workers(&self) -> usize {
        self.0.runtime.metrics().num_workers()
    }

    /// Runs a function that blocks, off the threads that run tasks.
    ///
    /// Dropping the task keeps the function from starting, but not from finishing. On manual time the function runs
    /// as an ordinary task, so that its turn does not depend on threads.
    pub fn spawn_blocking<F, T>(&self, function: F) -> Task<T>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        match &self.0.clock {
            Clock::System => Task(self.0.runtime.spawn_blocking(function)),
            Clock::Manual(_) => Task(self.0.runtime.spawn(async move { function() })),
        }
    }

    /// The addresses a host name stands for.
    ///
    /// # Errors
    ///
    /// When the name cannot be resolved.
    pub async fn resolve(&self, host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
        self.0.network.resolve(host, port).await
    }

    /// The address of this machine that a server there sees.
    ///
    /// # Errors
    ///
    /// When there is no way to the server.
    pub fn local_address(&self, server: SocketAddr) -> io::Result<IpAddr> {
        self.0.network.local_address(server)
    }

    /// Opens a stream; without a time limit. To be awaited in a task of [`spawn`](Self::spawn).
    ///
    /// # Errors
    ///
    /// When the address cannot be reached.
    pub async fn connect(&self, address: SocketAddr) -> io::Result<Stream> {
        self.0.network.connect(address).await
    }
}

impl fmt::Debug for Env {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Env").field("network", &self.0.network).finish_non_exhaustive()
    }
}

/// A task and the right to end it: dropping the value cancels the task, awaiting it waits for the end.
#[derive(Debug)]
#[must_use = "dropping a task cancels it"]
pub struct Task<T = ()>(JoinHandle<T>);

impl<T> Task<T> {
    /// Asks the task to end at its next await. Await the value to know that it has.
    pub fn cancel(&self) {
        self.0.abort();
    }

    /// Whether the task has ended, by itself or cancelled.
    pub fn is_finished(&self) -> bool {
        self.0.is_finished()
    }
}

impl<T> Future for Task<T> {
    type Output = Result<T, JoinError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.0).poll(cx)
    }
}

impl<T> Drop for Task<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// A wait for an instant, from [`Env::sleep_until`].
#[must_use = "a wait does nothing unless awaited"]
pub struct Sleep(Timer);

enum Timer {
    System(Pin<Box<tokio::time::Sleep>>),
    Manual(manual::ManualSleep),
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        match &mut self.0 {
            Timer::System(sleep) => sleep.as_mut().poll(cx),
            Timer::Manual(sleep) => Pin::new(sleep).poll(cx),
        }
    }
}

impl fmt::Debug for Sleep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sleep").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport::MemoryNetwork;

    #[test]
    fn says_what_to_do_without_a_runtime() {
        let error = Env::system().expect_err("no runtime here");
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        assert!(error.to_string().contains("tokio::main"), "{error}");
    }

    #[tokio::test]
    async fn a_seed_repeats_its_numbers() {
        let network: Arc<dyn Network> = Arc::new(MemoryNetwork::default());
        let numbers = |seed| {
            let (env, _) = Env::manual(seed, Arc::clone(&network)).expect("inside a runtime");
            (0..8).map(|_| env.random()).collect::<Vec<_>>()
        };
        assert_eq!(numbers(7), numbers(7));
        assert_ne!(numbers(7), numbers(8));
        let (env, _) = Env::manual(1, network).expect("inside a runtime");
        assert!((0..1000).all(|_| env.random_below(3) < 3));
        assert_eq!(env.random_below(0), 0);
    }

    #[tokio::test]
    async fn a_dropped_task_is_cancelled() {
        struct Ended(Option<tokio::sync::oneshot::Sender<()>>);
        impl Drop for Ended {
            fn drop(&mut self) {
                let _ = self.0.take().map(|sender| sender.send(()));
            }
        }
        let (env, _) = Env::manual(1, Arc::new(MemoryNetwork::default())).expect("inside a runtime");
        let (sender, ended) = tokio::sync::oneshot::channel();
        let guard = Ended(Some(sender));
        let task = env.spawn(async move {
            let _guard = guard;
            std::future::pending::<()>().await;
        });
        tokio::task::yield_now().await;
        drop(task);
        ended.await.expect("the guard was dropped with the task");
    }
}
