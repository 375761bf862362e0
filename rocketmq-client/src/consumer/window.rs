//! Rates over the last minute, and failures within the last hour. Pure.

use std::time::Duration;

const SECONDS: usize = 60;
const MINUTES: usize = 60;

/// What was done to a queue lately.
#[derive(Debug, Clone, Default)]
pub(super) struct Window {
    /// One for each of the last 60 seconds, by the second modulo 60.
    seconds: Vec<Second>,
    /// Failures of each of the last 60 minutes, by the minute modulo 60.
    minutes: Vec<(i64, u64)>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Second {
    number: i64,
    rates: Sums,
}

#[derive(Debug, Clone, Copy, Default)]
struct Sums {
    succeeded: u64,
    failed: u64,
    consuming_us: u64,
    pulls: u64,
    pulling_us: u64,
    messages: u64,
}

/// Rates a second, and averages in milliseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Rates {
    pub(super) succeeded: f64,
    pub(super) failed: f64,
    pub(super) consume_ms: f64,
    pub(super) pull_ms: f64,
    pub(super) pulled: f64,
    /// Not a rate: how many within the last hour.
    pub(super) failed_within_hour: u64,
}

impl Window {
    /// So many messages were handled together, each of which took as long as all.
    pub(super) fn consumed(&mut self, now_ms: i64, messages: usize, succeeded: bool, took: Duration) {
        let count = messages as u64;
        let sums = self.second(now_ms);
        sums.consuming_us += count * took.as_micros() as u64;
        if succeeded {
            sums.succeeded += count;
            return;
        }
        sums.failed += count;
        self.minutes.resize(MINUTES, (0, 0));
        let number = now_ms / 60_000;
        let minute = &mut self.minutes[number.rem_euclid(MINUTES as i64) as usize];
        if minute.0 != number {
            *minute = (number, 0);
        }
        minute.1 += count;
    }

    pub(super) fn pulled(&mut self, now_ms: i64, messages: usize, took: Duration) {
        let sums = self.second(now_ms);
        sums.pulls += 1;
        sums.messages += messages as u64;
        sums.pulling_us += took.as_micros() as u64;
    }

    fn second(&mut self, now_ms: i64) -> &mut Sums {
        self.seconds.resize(SECONDS, Second::default());
        let number = now_ms / 1000;
        let second = &mut self.seconds[number.rem_euclid(SECONDS as i64) as usize];
        if second.number != number {
            *second = Second { number, rates: Sums::default() };
        }
        &mut second.rates
    }
}

impl Rates {
    /// Of several queues together.
    pub(super) fn of<'a>(windows: impl IntoIterator<Item = &'a Window>, now_ms: i64) -> Self {
        let (second, minute) = (now_ms / 1000, now_ms / 60_000);
        let (mut sums, mut failed_within_hour) = (Sums::default(), 0);
        for window in windows {
            for Second { number, rates } in &window.seconds {
                if (second - SECONDS as i64 + 1..=second).contains(number) {
                    sums.succeeded += rates.succeeded;
                    sums.failed += rates.failed;
                    sums.consuming_us += rates.consuming_us;
                    sums.pulls += rates.pulls;
                    sums.pulling_us += rates.pulling_us;
                    sums.messages += rates.messages;
                }
            }
            let recent =
                window.minutes.iter().filter(|(number, _)| (minute - MINUTES as i64 + 1..=minute).contains(number));
            failed_within_hour += recent.map(|(_, failed)| failed).sum::<u64>();
        }
        let a_second = |count: u64| count as f64 / SECONDS as f64;
        let average_ms = |sum_us: u64, count: u64| if count == 0 { 0.0 } else { sum_us as f64 / count as f64 / 1000.0 };
        Self {
            succeeded: a_second(sums.succeeded),
            failed: a_second(sums.failed),
            consume_ms: average_ms(sums.consuming_us, sums.succeeded + sums.failed),
            pull_ms: average_ms(sums.pulling_us, sums.pulls),
            pulled: a_second(sums.messages),
            failed_within_hour,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_of_the_last_minute_and_failures_of_the_last_hour() {
        let start = 1_700_000_000_000;
        let mut window = Window::default();
        for second in 0..60 {
            window.consumed(start + second * 1000, 1, true, Duration::from_millis(10));
            window.consumed(start + second * 1000, 1, second % 2 == 0, Duration::from_millis(20));
        }
        window.pulled(start + 59_000, 30, Duration::from_millis(5));
        let rates = Rates::of([&window], start + 59_000);
        assert_eq!((rates.succeeded, rates.failed, rates.consume_ms), (1.5, 0.5, 15.0));
        assert_eq!((rates.pulled, rates.pull_ms, rates.failed_within_hour), (0.5, 5.0, 30));
        let later = Rates::of([&window], start + 59_000 + 120_000);
        assert_eq!((later.succeeded, later.pulled, later.failed_within_hour), (0.0, 0.0, 30));
        assert_eq!(Rates::of([&window], start + 2 * 3_600_000), Rates::default());
        assert_eq!(Rates::of([&window, &window], start + 59_000).succeeded, 3.0);
    }
}
