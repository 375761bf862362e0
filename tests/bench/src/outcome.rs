//! What a run of a load program came to, told in the JSON line that the Java and Go programs print as well.

use std::time::{Duration, Instant};

use cpu_time::ProcessTime;
use serde_json::{Value, json};

/// Starts when made; [`Stopwatch::outcome`] tells what happened since.
#[derive(Debug)]
pub struct Stopwatch {
    started: Instant,
    cpu: ProcessTime,
}

impl Stopwatch {
    /// Starts measuring.
    #[must_use]
    pub fn start() -> Self {
        Self { cpu: ProcessTime::now(), started: Instant::now() }
    }

    /// The time since the start, and the processor time of this process, user and system.
    #[must_use]
    pub fn outcome(&self, sent: u64, failed: u64) -> Outcome {
        let elapsed = self.started.elapsed();
        Outcome { sent, failed, elapsed, cpu: self.cpu.elapsed(), allocations: None, slowest_hundredth: None }
    }
}

/// What a run came to.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Outcome {
    /// Acknowledged sends.
    pub sent: u64,
    /// Sends that failed, for whatever reason.
    pub failed: u64,
    /// How long it took.
    pub elapsed: Duration,
    /// Processor time of the sending process.
    pub cpu: Duration,
    /// Heap allocations of the sending process, where they were counted.
    pub allocations: Option<u64>,
    /// How long all but the slowest hundredth of some sends took at most, where that was asked for.
    pub slowest_hundredth: Option<Duration>,
}

impl Outcome {
    /// Prints the line.
    pub fn print(&self) {
        let mut line = json!({
            "job": 0, "event": "done", "sent": self.sent, "failed": self.failed,
            "elapsed_us": self.elapsed.as_micros() as u64, "cpu_us": self.cpu.as_micros() as u64,
        });
        if let Some(allocations) = self.allocations {
            line["allocations"] = allocations.into();
        }
        if let Some(time) = self.slowest_hundredth {
            line["slowest_hundredth_us"] = (time.as_micros() as u64).into();
        }
        println!("{line}");
    }

    /// Finds the line in what a program printed.
    #[must_use]
    pub fn parse(output: &str) -> Option<Self> {
        let done = output
            .lines()
            .filter_map(|line| serde_json::from_str::<Value>(line).ok())
            .find(|event| event["event"] == "done")?;
        let micros = |key: &str| done[key].as_u64().map(Duration::from_micros);
        Some(Self {
            sent: done["sent"].as_u64()?,
            failed: done["failed"].as_u64()?,
            elapsed: micros("elapsed_us")?,
            cpu: micros("cpu_us")?,
            allocations: done["allocations"].as_u64(),
            slowest_hundredth: micros("slowest_hundredth_us"),
        })
    }

    /// Acknowledged sends per second.
    #[must_use]
    pub fn rate(&self) -> f64 {
        self.sent as f64 / self.elapsed.as_secs_f64()
    }

    /// Processor time per acknowledged send, in microseconds.
    #[must_use]
    pub fn cpu_micros_per_send(&self) -> f64 {
        self.cpu.as_secs_f64() * 1e6 / self.sent as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_is_found_among_others() {
        let output = "hello\n{\"job\":0,\"event\":\"started\"}\n\
            {\"job\":0,\"event\":\"done\",\"sent\":10,\"failed\":1,\"elapsed_us\":500,\"cpu_us\":20}\n";
        let outcome = Outcome::parse(output).unwrap();
        assert_eq!((outcome.sent, outcome.failed, outcome.rate()), (10, 1, 20_000.0));
        assert!((outcome.cpu_micros_per_send() - 2.0).abs() < 1e-9);
        assert_eq!(Outcome::parse("nothing"), None);
    }
}
