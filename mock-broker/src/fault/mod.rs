//! Faults on purpose: an ordered list of rules. The first that a request matches decides, and counts.

mod rule;
mod text;

use std::time::Duration;

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use serde::{Deserialize, Serialize};

pub use rule::{Action, Fault};

use crate::name_server::NameServer;
use crate::pattern::{Facts, Port, RequestPattern};

/// Rules that are used up stay to be asked about, but not more than so many.
const MOST_USED_UP: usize = 1000;

/// A fault that was put, and what it has done so far.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FaultStatus {
    /// Its number, from 1 on.
    pub id: u64,
    /// The fault.
    pub fault: Fault,
    /// How many requests it met.
    pub hits: u64,
    /// How many more it will meet; none if there is no end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left: Option<u32>,
}

/// The rules of one server, in the order in which they were put.
#[derive(Debug, Default)]
pub(crate) struct Faults {
    rules: Vec<Rule>,
    last_id: u64,
}

#[derive(Debug)]
struct Rule {
    id: u64,
    fault: Fault,
    pattern: RequestPattern,
    passed: u32,
    hits: u64,
    left: Option<u32>,
    random: SmallRng,
    /// What the name server knew when the rule was put.
    routes: Option<Box<NameServer>>,
}

impl Rule {
    fn is_active(&self) -> bool {
        self.left != Some(0)
    }
}

/// A rule that met a request.
pub(crate) struct Hit<'a> {
    pub(crate) id: u64,
    pub(crate) action: Action,
    /// How much later the answer is due, for those that are late.
    pub(crate) late: Option<Duration>,
    pub(crate) routes: Option<&'a mut NameServer>,
}

impl Faults {
    /// Whether no rule can meet a request.
    pub(crate) fn is_idle(&self) -> bool {
        !self.rules.iter().any(|rule| rule.is_active() && rule.fault.meets_requests())
    }

    /// Puts a rule behind the others.
    pub(crate) fn put(&mut self, fault: Fault, routes: impl FnOnce() -> NameServer) -> u64 {
        self.last_id += 1;
        let seed = if let Action::Latency { seed, .. } = fault.action { seed } else { 0 };
        let routes = (fault.action == Action::StaleRoutes).then(|| Box::new(routes()));
        let used_up = self.rules.iter().filter(|rule| !rule.is_active()).count();
        if used_up >= MOST_USED_UP
            && let Some(oldest) = self.rules.iter().position(|rule| !rule.is_active())
        {
            self.rules.remove(oldest);
        }
        self.rules.push(Rule {
            id: self.last_id,
            pattern: fault.effective_pattern(),
            left: fault.times,
            fault,
            passed: 0,
            hits: 0,
            random: SmallRng::seed_from_u64(seed),
            routes,
        });
        self.last_id
    }

    /// Takes a rule away. Returns whether it was there.
    pub(crate) fn remove(&mut self, id: u64) -> bool {
        let before = self.rules.len();
        self.rules.retain(|rule| rule.id != id);
        self.rules.len() < before
    }

    pub(crate) fn clear(&mut self) {
        self.rules.clear();
    }

    pub(crate) fn status(&self) -> Vec<FaultStatus> {
        let status =
            |rule: &Rule| FaultStatus { id: rule.id, fault: rule.fault.clone(), hits: rule.hits, left: rule.left };
        self.rules.iter().map(status).collect()
    }

    /// Finds the first rule that a request matches, and counts it.
    pub(crate) fn meet(&mut self, facts: &Facts<'_>) -> Option<Hit<'_>> {
        for rule in &mut self.rules {
            if !rule.is_active() || !rule.fault.meets_requests() || !rule.pattern.matches(facts) {
                continue;
            }
            if rule.passed < rule.fault.after {
                rule.passed += 1;
                continue;
            }
            rule.hits += 1;
            rule.left = rule.left.map(|left| left - 1);
            let late = match rule.fault.action {
                Action::Delay { ms } => Some(Duration::from_millis(ms)),
                Action::Latency { median_ms, p99_ms, .. } => Some(log_normal(&mut rule.random, median_ms, p99_ms)),
                _ => None,
            };
            let (id, action) = (rule.id, rule.fault.action.clone());
            return Some(Hit { id, action, late, routes: rule.routes.as_deref_mut() });
        }
        None
    }

    /// Whether a port takes no connections.
    pub(crate) fn refuses(&self, port: Port) -> bool {
        self.rules.iter().any(|rule| rule.is_active() && rule.fault.closed_port() == Some(port))
    }

    /// Whether a port is to close the connections that it has.
    pub(crate) fn is_off(&self, port: Port) -> bool {
        let off = |rule: &Rule| rule.fault.action == Action::Off && rule.fault.closed_port() == Some(port);
        self.rules.iter().any(off)
    }

    /// Whether slaves are to get nothing.
    pub(crate) fn stops_replication(&self) -> bool {
        self.rules.iter().any(|rule| rule.is_active() && rule.fault.action == Action::SlaveLag)
    }
}

/// A time of a log-normal distribution with that median and 99th percentile, at most a day.
fn log_normal(random: &mut SmallRng, median_ms: f64, p99_ms: f64) -> Duration {
    /// 99 of 100 values of the standard normal distribution are below this.
    const Z99: f64 = 2.326_347_874;
    let median_ms = median_ms.max(1e-6);
    let sigma = (p99_ms.max(median_ms) / median_ms).ln() / Z99;
    let (first, second): (f64, f64) = (random.random(), random.random());
    let normal = (-2.0 * (1.0 - first).ln()).sqrt() * (std::f64::consts::TAU * second).cos();
    let ms = (median_ms * (sigma * normal).exp()).min(86_400_000.0);
    Duration::from_secs_f64(ms / 1000.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pattern::Family;
    use rocketmq_wire::RequestCode;

    fn facts(code: RequestCode) -> Facts<'static> {
        Facts::read(Port::Broker, 1, code, |_| None, b"", None)
    }

    fn no_routes() -> NameServer {
        panic!("this fault has nothing to do with routes")
    }

    #[test]
    fn the_first_rule_decides_until_it_is_used_up() {
        let mut faults = Faults::default();
        assert!(faults.is_idle());
        let first = faults.put(Fault::close().on(Family::Send).times(2).after(1), no_routes);
        let second = faults.put(Fault::drop_answer(), no_routes);
        let mut met = |code| faults.meet(&facts(code)).map(|hit| hit.id);
        assert_eq!(met(RequestCode::PULL_MESSAGE), Some(second));
        assert_eq!(met(RequestCode::SEND_MESSAGE), Some(second));
        assert_eq!(met(RequestCode::SEND_MESSAGE), Some(first));
        assert_eq!(met(RequestCode::SEND_MESSAGE_V2), Some(first));
        assert_eq!(met(RequestCode::SEND_MESSAGE_V2), Some(second));
        assert!(faults.remove(second) && !faults.remove(second));
        assert!(faults.is_idle());
        let status = faults.status();
        assert_eq!((status[0].id, status[0].hits, status[0].left), (first, 2, Some(0)));
        faults.clear();
        assert!(faults.status().is_empty());
    }

    #[test]
    fn states_of_the_server_meet_no_request() {
        let mut faults = Faults::default();
        let off = faults.put(Fault::off(Port::NameServer), no_routes);
        faults.put(Fault::slave_lag(), no_routes);
        assert!(faults.is_idle() && faults.meet(&facts(RequestCode::SEND_MESSAGE)).is_none());
        assert!(faults.refuses(Port::NameServer) && faults.is_off(Port::NameServer) && faults.stops_replication());
        assert!(!faults.refuses(Port::Broker));
        faults.remove(off);
        assert!(!faults.refuses(Port::NameServer));
    }

    #[test]
    fn latencies_have_the_percentiles_asked_for_and_come_again_with_the_seed() {
        let draw = |seed| {
            let mut random = SmallRng::seed_from_u64(seed);
            (0..20_000).map(|_| log_normal(&mut random, 10.0, 100.0)).collect::<Vec<_>>()
        };
        let mut times = draw(7);
        assert_eq!(times, draw(7));
        assert_ne!(times, draw(8));
        times.sort();
        let (median, p99) = (times[10_000].as_secs_f64() * 1e3, times[19_800].as_secs_f64() * 1e3);
        assert!((9.0..11.0).contains(&median) && (80.0..125.0).contains(&p99), "{median} {p99}");
    }
}
