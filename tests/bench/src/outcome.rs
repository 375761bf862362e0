//! What a run of a load program came to, told in the JSON line that the Java and Go programs print as well.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

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
    pub fn outcome(&self, succeeded: u64, failed: u64) -> Outcome {
        let elapsed = self.started.elapsed();
        Outcome { succeeded, failed, elapsed, cpu: self.cpu.elapsed(), figures: BTreeMap::new() }
    }
}

/// What a run came to.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// Messages that were sent and acknowledged, or consumed.
    pub succeeded: u64,
    /// Messages with which that failed, for whatever reason.
    pub failed: u64,
    /// How long it took.
    pub elapsed: Duration,
    /// Processor time of the process.
    pub cpu: Duration,
    /// What else the program counted, by name.
    pub figures: BTreeMap<String, u64>,
}

impl Outcome {
    /// Adds something that the program counted.
    pub fn add(&mut self, name: &str, figure: u64) {
        self.figures.insert(name.to_owned(), figure);
    }

    /// Prints the line.
    pub fn print(&self) {
        let line = json!({
            "job": 0, "event": "done", "succeeded": self.succeeded, "failed": self.failed,
            "elapsed_us": self.elapsed.as_micros() as u64, "cpu_us": self.cpu.as_micros() as u64,
            "figures": self.figures,
        });
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
        let figures = done["figures"].as_object().into_iter().flatten();
        Some(Self {
            // Programs that send say `sent`.
            succeeded: done["sent"].as_u64().or(done["succeeded"].as_u64())?,
            failed: done["failed"].as_u64().unwrap_or(0),
            elapsed: micros("elapsed_us")?,
            cpu: micros("cpu_us")?,
            figures: figures.filter_map(|(name, figure)| Some((name.clone(), figure.as_u64()?))).collect(),
        })
    }

    /// Something that the program counted.
    ///
    /// # Errors
    ///
    /// When it did not.
    pub fn figure(&self, name: &str) -> Result<f64, String> {
        self.figures.get(name).map(|&figure| figure as f64).ok_or_else(|| format!("the program told no `{name}`"))
    }

    /// Messages per second.
    #[must_use]
    pub fn rate(&self) -> f64 {
        self.succeeded as f64 / self.elapsed.as_secs_f64()
    }

    /// Processor time per message, in microseconds.
    #[must_use]
    pub fn cpu_micros_each(&self) -> f64 {
        self.cpu.as_secs_f64() * 1e6 / self.succeeded as f64
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
        assert_eq!((outcome.succeeded, outcome.failed, outcome.rate()), (10, 1, 20_000.0));
        assert!((outcome.cpu_micros_each() - 2.0).abs() < 1e-9);
        assert!(outcome.figure("calls").is_err());
        assert_eq!(Outcome::parse("nothing"), None);
        let consumed = "{\"event\":\"done\",\"succeeded\":7,\"elapsed_us\":1,\"cpu_us\":2,\"figures\":{\"calls\":3}}";
        let outcome = Outcome::parse(consumed).unwrap();
        assert_eq!((outcome.succeeded, outcome.failed, outcome.figure("calls")), (7, 0, Ok(3.0)));
    }
}
