//! The delays that brokers know. Pure.

use std::time::Duration;

/// The delays of Apache's brokers unless configured otherwise, in seconds: level 1 is the first.
const SECONDS: [u64; 18] = [1, 5, 10, 30, 60, 120, 180, 240, 300, 360, 420, 480, 540, 600, 1200, 1800, 3600, 7200];

/// Delays by level.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct DelayLevels(Vec<Duration>);

impl Default for DelayLevels {
    fn default() -> Self {
        Self(SECONDS.iter().map(|seconds| Duration::from_secs(*seconds)).collect())
    }
}

impl DelayLevels {
    /// The first level that is long enough, or the longest.
    pub(super) fn level_for(&self, wanted: Duration) -> i32 {
        let index = self.0.iter().position(|delay| *delay >= wanted).unwrap_or(self.0.len() - 1);
        // There are 18.
        index as i32 + 1
    }

    /// The delay of a level; that of the nearest one for a level that does not exist.
    pub(super) fn of(&self, level: i32) -> Duration {
        let index = usize::try_from(level - 1).unwrap_or(0).min(self.0.len() - 1);
        self.0[index]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_level_that_is_long_enough_is_taken() {
        let levels = DelayLevels::default();
        for (wanted_ms, level) in [(0, 1), (1000, 1), (1001, 2), (10_000, 3), (7_200_000, 18), (86_400_000, 18)] {
            assert_eq!(levels.level_for(Duration::from_millis(wanted_ms)), level, "{wanted_ms} ms");
        }
        assert_eq!(
            (levels.of(3), levels.of(0), levels.of(99)),
            (Duration::from_secs(10), Duration::from_secs(1), Duration::from_secs(7200))
        );
    }
}
