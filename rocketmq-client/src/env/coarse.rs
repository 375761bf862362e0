//! A clock that is cheap to read.

use std::time::Instant;

/// Shows the monotonic time of the system's last tick, which is 10 ms ago at most, where the system tells it; else the
/// time now.
pub(super) struct CoarseClock {
    origin: Instant,
    #[cfg(target_os = "linux")]
    origin_on_system: std::time::Duration,
}

impl CoarseClock {
    #[expect(clippy::disallowed_methods, reason = "the origin of time")]
    pub(super) fn new() -> Self {
        Self {
            #[cfg(target_os = "linux")]
            origin_on_system: read(rustix::time::ClockId::Monotonic),
            origin: Instant::now(),
        }
    }

    #[inline]
    pub(super) fn now(&self) -> Instant {
        #[cfg(target_os = "linux")]
        {
            self.origin + read(rustix::time::ClockId::MonotonicCoarse).saturating_sub(self.origin_on_system)
        }
        #[cfg(not(target_os = "linux"))]
        #[expect(clippy::disallowed_methods, reason = "one of two places that read the monotonic clock")]
        Instant::now()
    }

    /// When the clock was made.
    pub(super) fn origin(&self) -> Instant {
        self.origin
    }
}

#[cfg(target_os = "linux")]
#[inline]
fn read(clock: rustix::time::ClockId) -> std::time::Duration {
    let time = rustix::time::clock_gettime(clock);
    // Monotonic time is not negative, and has less than a second of nanoseconds.
    std::time::Duration::new(time.tv_sec.cast_unsigned(), time.tv_nsec as u32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    #[expect(clippy::disallowed_methods, reason = "what the clock is compared with")]
    fn is_behind_the_clock_and_not_by_much() {
        let clock = CoarseClock::new();
        let first = clock.now();
        loop {
            let (now, then) = (clock.now(), Instant::now());
            assert!(first <= now && now <= then && clock.origin() <= now);
            if now > first + Duration::from_millis(30) {
                // Ticks were seen, so the clock goes.
                break;
            }
        }
    }
}
