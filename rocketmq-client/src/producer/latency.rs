//! Which brokers to leave alone for a while, because they were slow or failed. Pure: it is told the time.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// From which latency on a broker is left alone, and for how long: the table of the Java client since 5.1.4.
const TABLE: [(Duration, Duration); 5] = [
    (Duration::from_millis(15_000), Duration::from_secs(30)),
    (Duration::from_millis(5_000), Duration::from_secs(10)),
    (Duration::from_millis(3_000), Duration::from_secs(6)),
    (Duration::from_millis(1_800), Duration::from_secs(5)),
    (Duration::from_millis(550), Duration::from_secs(2)),
];

/// What a failure counts as.
const LATENCY_OF_FAILURE: Duration = Duration::from_secs(10);

/// What came of an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Attempted {
    /// The broker answered.
    Answered,
    /// The broker refused, or did not answer.
    Failed,
    /// The broker could not be reached.
    Unreachable,
}

/// What is remembered of each broker, by name.
#[derive(Debug, Default)]
pub(super) struct Latencies(Mutex<BTreeMap<Arc<str>, Remembered>>);

#[derive(Debug, Clone, Copy)]
struct Remembered {
    available_at: Instant,
    is_reachable: bool,
}

impl Latencies {
    fn brokers(&self) -> MutexGuard<'_, BTreeMap<Arc<str>, Remembered>> {
        // Each change is one assignment.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Remembers an attempt that ended at `now`.
    pub(super) fn note(&self, broker: &Arc<str>, attempted: Attempted, elapsed: Duration, now: Instant) {
        let latency = if attempted == Attempted::Answered { elapsed } else { LATENCY_OF_FAILURE };
        let row = TABLE.iter().find(|(from, _)| latency >= *from);
        let available_at = now + row.map_or(Duration::ZERO, |(_, pause)| *pause);
        let is_reachable = attempted != Attempted::Unreachable;
        let mut brokers = self.brokers();
        let known = brokers.entry(Arc::clone(broker)).or_insert(Remembered { available_at, is_reachable });
        // A success does not shorten what a failure has earned.
        known.available_at = known.available_at.max(available_at);
        known.is_reachable = is_reachable;
    }

    /// Whether a broker need not be left alone.
    pub(super) fn is_available(&self, broker: &str, now: Instant) -> bool {
        self.brokers().get(broker).is_none_or(|known| now >= known.available_at)
    }

    /// Whether a broker could be reached the last time.
    pub(super) fn is_reachable(&self, broker: &str) -> bool {
        self.brokers().get(broker).is_none_or(|known| known.is_reachable)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::env::Env;
    use crate::transport::MemoryNetwork;
    use Attempted::{Answered, Failed, Unreachable};

    #[tokio::test]
    async fn slow_brokers_are_left_alone_by_the_table() {
        let (env, _) = Env::manual(1, Arc::new(MemoryNetwork::default())).expect("inside a runtime");
        let (now, ms) = (env.now(), Duration::from_millis);
        for (attempted, elapsed, pause) in [
            (Answered, 0, 0),
            (Answered, 549, 0),
            (Answered, 550, 2000),
            (Answered, 1799, 2000),
            (Answered, 1800, 5000),
            (Answered, 3000, 6000),
            (Answered, 5000, 10_000),
            (Answered, 15_000, 30_000),
            (Failed, 1, 10_000),
            (Unreachable, 1, 10_000),
        ] {
            let latencies = Latencies::default();
            latencies.note(&"a".into(), attempted, ms(elapsed), now);
            assert!(latencies.is_available("a", now + ms(pause)), "{attempted:?} {elapsed}");
            assert_eq!(latencies.is_available("a", now + ms(pause.saturating_sub(1))), pause == 0);
            assert_eq!(latencies.is_reachable("a"), attempted != Unreachable);
            assert!(latencies.is_available("b", now) && latencies.is_reachable("b"));
        }
    }

    #[tokio::test]
    async fn a_success_makes_reachable_but_not_available() {
        let (env, _) = Env::manual(1, Arc::new(MemoryNetwork::default())).expect("inside a runtime");
        let (latencies, broker, now) = (Latencies::default(), "a".into(), env.now());
        latencies.note(&broker, Unreachable, Duration::ZERO, now);
        latencies.note(&broker, Answered, Duration::ZERO, now);
        assert!(latencies.is_reachable("a") && !latencies.is_available("a", now + Duration::from_secs(9)));
        assert!(latencies.is_available("a", now + Duration::from_secs(10)));
    }
}
