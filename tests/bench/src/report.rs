//! One line for each goal and case, in a form that a script can read.

use std::fmt;

/// Which side of a number is good.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Goal {
    /// The number or less.
    AtMost(f64),
    /// The number or more.
    AtLeast(f64),
}

impl Goal {
    fn is_reached(self, value: f64) -> bool {
        match self {
            Self::AtMost(number) => value <= number,
            Self::AtLeast(number) => value >= number,
        }
    }
}

impl fmt::Display for Goal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AtMost(number) => write!(f, "goal<={number}"),
            Self::AtLeast(number) => write!(f, "goal>={number}"),
        }
    }
}

/// One line of the report before it is measured.
#[derive(Debug, Clone, Copy)]
pub struct Case {
    /// `P2.32`: the goal, and the case where there are several.
    pub id: &'static str,
    /// What the value counts.
    pub unit: &'static str,
    /// What is aimed for.
    pub goal: Goal,
}

impl Case {
    /// Prints the line and tells whether the goal is reached.
    pub fn print(&self, measured: &Result<f64, String>) -> bool {
        print(self.id, self.unit, self.goal, measured)
    }
}

/// Prints a line and tells whether the goal is reached.
pub(crate) fn print(id: &str, unit: &str, goal: Goal, measured: &Result<f64, String>) -> bool {
    match measured {
        Ok(value) => {
            let reached = goal.is_reached(*value);
            println!("{id} {} {unit} {goal} {}", Figures(*value), if reached { "ok" } else { "miss" });
            reached
        }
        Err(reason) => {
            let reason = reason.lines().next().unwrap_or("no reason given");
            println!("{id} - - {goal} unmeasured: {reason}");
            false
        }
    }
}

/// A value in as many digits as mean something.
struct Figures(f64);

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.abs() {
            value if value >= 100.0 || value == 0.0 => write!(f, "{:.0}", self.0),
            value if value >= 1.0 => write!(f, "{:.2}", self.0),
            _ => write!(f, "{:.4}", self.0),
        }
    }
}

/// The values of several rounds.
#[derive(Debug, Clone, Default)]
pub struct Rounds(Vec<f64>);

impl Rounds {
    /// Adds the value of one round.
    pub fn push(&mut self, value: f64) {
        self.0.push(value);
        self.0.sort_by(f64::total_cmp);
    }

    /// The middle value; not a number without rounds.
    #[must_use]
    pub fn median(&self) -> f64 {
        match self.0.len() {
            0 => f64::NAN,
            count if count % 2 == 1 => self.0[count / 2],
            count => f64::midpoint(self.0[count / 2 - 1], self.0[count / 2]),
        }
    }
}

impl fmt::Display for Rounds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (first, last) = (self.0.first().copied(), self.0.last().copied());
        let [min, median, max] = [first, Some(self.median()), last].map(|value| Figures(value.unwrap_or(f64::NAN)));
        write!(f, "{min} / {median} / {max}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_goal_is_reached_at_its_number() {
        assert!(Goal::AtMost(3.0).is_reached(3.0) && !Goal::AtMost(3.0).is_reached(3.1));
        assert!(Goal::AtLeast(0.4).is_reached(0.4) && !Goal::AtLeast(0.4).is_reached(0.39));
        assert!(!Goal::AtLeast(0.4).is_reached(f64::NAN) && !Goal::AtMost(0.4).is_reached(f64::NAN));
        assert_eq!(Goal::AtMost(0.15).to_string(), "goal<=0.15");
    }

    #[test]
    fn the_median_is_the_middle() {
        let mut rounds = Rounds::default();
        for value in [3.0, 1.0, 200.0] {
            rounds.push(value);
        }
        assert_eq!((rounds.median(), rounds.to_string()), (3.0, "1.00 / 3.00 / 200".to_owned()));
        rounds.push(5.0);
        assert_eq!(rounds.median(), 4.0);
    }
}
