//! How long to wait before trying again.

use std::time::Duration;

/// Growing waits with jitter, so that clients that lost the same server do not come back in step.
///
/// The n-th wait is drawn from the upper half of `first * 2^n`, capped at `longest`: never zero, never in step.
#[derive(Debug, Clone)]
pub struct Backoff {
    first: Duration,
    longest: Duration,
    failures: u32,
}

impl Backoff {
    /// Waits that begin at `first` and double up to `longest`.
    pub fn new(first: Duration, longest: Duration) -> Self {
        Self { first, longest: longest.max(first), failures: 0 }
    }

    /// The next wait; `random` is any 64 random bits.
    pub fn next(&mut self, random: u64) -> Duration {
        let ceiling = self.first.saturating_mul(1 << self.failures.min(30)).min(self.longest);
        self.failures = self.failures.saturating_add(1);
        let half = ceiling / 2;
        // The upper 32 bits as a fraction of one: exact in an f64.
        half + half.mul_f64((random >> 32) as f64 / f64::from(u32::MAX))
    }

    /// Begins at the first wait again, after a success.
    pub fn reset(&mut self) {
        self.failures = 0;
    }

    /// How many waits were drawn since the last success.
    pub fn failures(&self) -> u32 {
        self.failures
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubles_up_to_the_longest_within_its_jitter() {
        let (first, longest) = (Duration::from_millis(100), Duration::from_secs(3));
        let (mut low, mut high) = (Backoff::new(first, longest), Backoff::new(first, longest));
        for ceiling_ms in [100, 200, 400, 800, 1600, 3000, 3000] {
            assert_eq!(low.next(0), Duration::from_millis(ceiling_ms / 2));
            assert_eq!(high.next(u64::MAX), Duration::from_millis(ceiling_ms));
        }
        assert_eq!(high.failures(), 7);
        high.reset();
        assert_eq!(high.next(u64::MAX), first);
    }

    #[test]
    fn never_overflows() {
        let mut backoff = Backoff::new(Duration::from_secs(1), Duration::MAX);
        for _ in 0..100 {
            assert!(backoff.next(u64::MAX) > Duration::ZERO);
        }
    }
}
