//! The broker's clock: real time plus an offset, or time that stands still until it is turned.
//!
//! There are two times. *Message time* decides what happens to messages (delay levels, timers, transaction checks,
//! retention) and is what a test turns. *Session time* decides about clients (heartbeats, locks, long polls): it goes
//! on as real time does, because a client whose clock was not turned would otherwise drop out.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// A moment, as handlers get it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Now {
    /// Message time in milliseconds since 1970.
    pub message_ms: i64,
    /// Session time since the clock was made.
    pub session: Duration,
}

/// A broker's clock.
#[derive(Debug)]
pub struct Clock {
    started: Instant,
    /// Message time is real time, plus this many milliseconds.
    message_offset_ms: i64,
    /// Session time is real time, plus this.
    session_offset: Duration,
    /// Message time while it stands still.
    frozen_at_ms: Option<i64>,
    /// A moment in message time and when it was. From there on message time goes at least as fast as real time does: where
    /// the machine's clock is set back, a message that waits a second waits a second, not an hour and a second.
    floor_ms: i64,
    floor_at: Instant,
}

impl Clock {
    /// A clock that shows real time.
    pub fn real() -> Self {
        let now = instant();
        Clock {
            started: now,
            message_offset_ms: 0,
            session_offset: Duration::ZERO,
            frozen_at_ms: None,
            floor_ms: i64::MIN,
            floor_at: now,
        }
    }

    /// A clock whose message time stands still, now.
    pub fn manual() -> Self {
        let mut clock = Self::real();
        clock.freeze();
        clock
    }

    /// A clock whose message time stands still at `message_ms` (milliseconds since 1970).
    pub fn manual_at(message_ms: i64) -> Self {
        Clock { frozen_at_ms: Some(message_ms), floor_ms: message_ms, ..Self::real() }
    }

    /// Returns the moment.
    pub fn now(&mut self) -> Now {
        Now { message_ms: self.message_ms(), session: self.session() }
    }

    fn message_ms(&mut self) -> i64 {
        self.message_ms_at(wall_clock_ms(), instant())
    }

    /// What message time is when the machine's clock shows `wall_ms`.
    fn message_ms_at(&mut self, wall_ms: i64, at: Instant) -> i64 {
        if let Some(frozen) = self.frozen_at_ms {
            self.floor_ms = self.floor_ms.max(frozen);
            self.floor_at = at;
            return self.floor_ms;
        }
        let gone = at.saturating_duration_since(self.floor_at).as_millis();
        let floor = self.floor_ms.saturating_add(i64::try_from(gone).unwrap_or(i64::MAX));
        let shown = wall_ms.saturating_add(self.message_offset_ms);
        if shown <= floor {
            return floor;
        }
        (self.floor_ms, self.floor_at) = (shown, at);
        shown
    }

    fn session(&self) -> Duration {
        instant().saturating_duration_since(self.started) + self.session_offset
    }

    /// Turns message time forward.
    pub fn advance(&mut self, by: Duration) {
        let by_ms = i64::try_from(by.as_millis()).unwrap_or(i64::MAX);
        match &mut self.frozen_at_ms {
            Some(frozen) => *frozen = frozen.saturating_add(by_ms),
            None => self.message_offset_ms = self.message_offset_ms.saturating_add(by_ms),
        }
    }

    /// Turns message time forward to a moment in milliseconds since 1970. It never goes back: a moment that is past leaves it.
    pub fn set(&mut self, message_ms: i64) {
        let by_ms = message_ms.saturating_sub(self.message_ms());
        if let Ok(by_ms) = u64::try_from(by_ms) {
            self.advance(Duration::from_millis(by_ms));
        }
    }

    /// Lets message time go on with real time again, from where it is.
    pub fn unfreeze(&mut self) {
        // Real time counts from now on, not from when the clock was looked at last.
        let _ = self.message_ms();
        if let Some(frozen) = self.frozen_at_ms.take() {
            self.message_offset_ms = frozen.saturating_sub(wall_clock_ms());
        }
    }

    /// Turns session time forward: clients that do not report in time are dropped, long polls end.
    pub fn advance_sessions(&mut self, by: Duration) {
        self.session_offset = self.session_offset.saturating_add(by);
    }

    /// Lets message time stand still from now on; only [`advance`](Self::advance) moves it.
    pub fn freeze(&mut self) {
        self.frozen_at_ms = Some(self.message_ms());
    }

    /// Returns whether message time stands still.
    pub fn is_frozen(&self) -> bool {
        self.frozen_at_ms.is_some()
    }

    /// Returns how long to sleep in real time until message time reaches `message_ms`, nothing if it has; none while
    /// message time stands still before it.
    pub fn until_message(&mut self, message_ms: i64) -> Option<Duration> {
        let left = message_ms.saturating_sub(self.message_ms());
        match u64::try_from(left) {
            Ok(left) if left > 0 => (!self.is_frozen()).then(|| Duration::from_millis(left)),
            _ => Some(Duration::ZERO),
        }
    }

    /// Returns how long to sleep in real time until session time reaches `session`, nothing if it has.
    pub fn until_session(&self, session: Duration) -> Duration {
        session.saturating_sub(self.session())
    }
}

/// Returns the real time that goes on whatever the broker's clock shows: for the machine's own work, such as flushing.
#[expect(clippy::disallowed_methods, reason = "this is the broker's clock")]
pub(crate) fn instant() -> Instant {
    Instant::now()
}

#[expect(clippy::disallowed_methods, reason = "this is the broker's clock")]
fn wall_clock_ms() -> i64 {
    // A machine set to a time before 1970 counts as being there.
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since_1970.as_millis()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);

    #[test]
    fn a_manual_clock_moves_only_when_turned() {
        let mut clock = Clock::manual_at(1000);
        assert_eq!(clock.now().message_ms, 1000);
        assert_eq!(clock.until_message(1001), None);
        assert_eq!(clock.until_message(1000), Some(Duration::ZERO));
        clock.advance(HOUR);
        assert_eq!(clock.now().message_ms, 3_601_000);
    }

    #[test]
    fn turning_message_time_leaves_sessions_alone() {
        let mut clock = Clock::real();
        let before = clock.now();
        clock.advance(HOUR);
        let after = clock.now();
        assert!(after.message_ms >= before.message_ms + 3_600_000);
        assert!(after.session - before.session < HOUR);
        clock.advance_sessions(HOUR);
        assert!(clock.now().session >= before.session + HOUR);
        assert_eq!(clock.until_session(Duration::ZERO), Duration::ZERO);
        assert!(clock.until_session(HOUR * 2) <= HOUR);
    }

    #[test]
    fn message_time_can_be_set_frozen_and_set_free() {
        let mut clock = Clock::manual_at(1000);
        clock.set(5000);
        clock.set(2000);
        assert_eq!(clock.now().message_ms, 5000);
        clock.unfreeze();
        assert!(!clock.is_frozen() && clock.now().message_ms >= 5000);
        assert!(clock.now().message_ms < 5000 + 3_600_000);
    }

    #[test]
    fn message_time_goes_on_where_the_machine_s_clock_jumps() {
        let mut clock = Clock::real();
        let (wall, at) = (10 * 3_600_000, instant());
        assert_eq!(clock.message_ms_at(wall, at), wall);
        // An hour back: message time goes on as real time does, to the millisecond.
        let second = Duration::from_secs(1);
        for passed in 1..=10_u32 {
            let wall = wall - 3_600_000 + i64::from(passed) * 1000;
            assert_eq!(clock.message_ms_at(wall, at + passed * second), 36_000_000 + i64::from(passed) * 1000);
        }
        // And an hour forward again, and another: it follows.
        assert_eq!(clock.message_ms_at(wall + 20_000, at + 20 * second), wall + 20_000);
        assert_eq!(clock.message_ms_at(wall + 3_630_000, at + 30 * second), wall + 3_630_000);
        assert_eq!(clock.message_ms_at(wall + 3_631_000, at + 31 * second), wall + 3_631_000);
    }

    #[test]
    fn message_time_never_goes_back() {
        let mut clock = Clock::real();
        clock.advance(HOUR);
        let turned = clock.now().message_ms;
        clock.message_offset_ms = 0;
        assert!(clock.now().message_ms >= turned, "it was turned on by an hour");
        clock.freeze();
        assert!(clock.is_frozen());
        assert!(clock.now().message_ms >= turned);
    }
}
