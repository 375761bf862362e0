//! Counts of instructions as they were when they were last recorded, so that growth shows that no goal tells.

use std::{collections::BTreeMap, fs, path::PathBuf};

use crate::report::{self, Goal};

/// How much more than recorded is taken for noise, and for what other compilers make of the same source.
const MOST: f64 = 1.03;

const HEAD: &str = "# Instructions per message, as `BENCH_RECORD=1 make bench` counted them. Who makes one of them grow by more than 3 %
# records the new one, and says why in the change.
";

/// The recorded counts, by the line that reports them.
#[derive(Debug, Default)]
pub struct Recorded {
    counts: BTreeMap<String, f64>,
}

impl Recorded {
    /// Reads the file; without it nothing is recorded.
    #[must_use]
    pub fn read() -> Self {
        Self::parse(&fs::read_to_string(path()).unwrap_or_default())
    }

    fn parse(text: &str) -> Self {
        let counts = text.lines().filter_map(|line| {
            let (id, count) = line.split_once(' ')?;
            Some((id.to_owned(), count.parse().ok()?))
        });
        Self { counts: counts.collect() }
    }

    /// Writes the file.
    ///
    /// # Errors
    ///
    /// When it cannot be written.
    pub fn write(&self) -> Result<(), String> {
        let path = path();
        fs::write(&path, self.to_text()).map_err(|error| format!("{}: {error}", path.display()))
    }

    fn to_text(&self) -> String {
        let lines = self.counts.iter().map(|(id, count)| format!("{id} {count:.0}\n"));
        HEAD.to_owned() + &lines.collect::<String>()
    }

    /// Prints how a count compares with the one recorded, tells whether it has not grown, and records it.
    pub fn compare(&mut self, id: &str, counted: &Result<f64, String>) -> bool {
        let change = match (self.counts.get(id), counted) {
            (Some(recorded), Ok(count)) => Ok(count / recorded),
            (None, Ok(_)) => Err("not recorded yet: run with BENCH_RECORD=1".to_owned()),
            (_, Err(reason)) => Err(reason.clone()),
        };
        if let Ok(count) = counted {
            self.counts.insert(id.to_owned(), *count);
        }
        report::print(&format!("P19.{id}"), "of-recorded", Goal::AtMost(MOST), &change)
    }
}

fn path() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("counts.txt")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growth_beyond_three_per_cent_shows() {
        let mut recorded = Recorded::parse("# a line for people\nP1.json 1000\n");
        assert!(recorded.compare("P1.json", &Ok(1029.0)));
        assert!(!recorded.compare("P1.json", &Ok(1100.0)));
        assert!(!recorded.compare("P1.binary", &Ok(5.0)));
        assert!(recorded.compare("P1.binary", &Ok(5.0)));
        assert_eq!(Recorded::parse(&recorded.to_text()).counts, recorded.counts);
    }
}
