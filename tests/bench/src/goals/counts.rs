//! Counts, which repeat exactly: instructions and system calls of a send.

use super::Group;
use crate::{
    counts,
    programs::{Headers, Load, Processors, Programs},
    report::{Case, Goal},
};

pub(super) const INSTRUCTIONS: Group = Group {
    id: "P1",
    cases: &[
        Case { id: "P1.binary", unit: "instructions", goal: Goal::AtMost(5_000.0) },
        Case { id: "P1.json", unit: "instructions", goal: Goal::AtMost(14_000.0) },
    ],
    measure: instructions,
};

pub(super) const SYSTEM_CALLS: Group = Group {
    id: "P2",
    cases: &[
        Case { id: "P2.1", unit: "syscalls", goal: Goal::AtMost(3.1) },
        Case { id: "P2.32", unit: "syscalls", goal: Goal::AtMost(0.15) },
        Case { id: "P2.1024", unit: "syscalls", goal: Goal::AtMost(0.03) },
    ],
    measure: system_calls,
};

pub(super) const ENCRYPTION: Group = Group {
    id: "P18",
    cases: &[Case { id: "P18", unit: "times-plain", goal: Goal::AtMost(2.5) }],
    measure: encryption,
};

/// No warm-up of its own: what happens once is in both runs.
fn load(in_flight: u64, count: u64) -> Load {
    Load { warm_up: 0, count, in_flight }
}

fn instructions(programs: &Programs) -> Result<Vec<f64>, String> {
    let stub = programs.stub(Processors::Any)?;
    [Headers::Binary, Headers::Json]
        .into_iter()
        .map(|headers| {
            counts::instructions(20_000, |count| {
                programs.client(&stub.name_server, &load(32, count), headers, &["runtime=current"])
            })
        })
        .collect()
}

fn system_calls(programs: &Programs) -> Result<Vec<f64>, String> {
    let stub = programs.stub(Processors::Any)?;
    [(1, 10_000), (32, 100_000), (1024, 500_000)]
        .into_iter()
        .map(|(in_flight, count)| {
            counts::system_calls(count, |count| {
                programs.client(&stub.name_server, &load(in_flight, count), Headers::Binary, &["runtime=current"])
            })
        })
        .collect()
}

/// Against the mock broker, which takes both kinds of connections; one record of TLS holds all that is written at once.
fn encryption(programs: &Programs) -> Result<Vec<f64>, String> {
    let broker = programs.mock_broker(None)?;
    let counted = |tls: &str| {
        counts::instructions(20_000, |count| {
            programs.client(&broker.name_server, &load(32, count), Headers::Binary, &["runtime=current", tls])
        })
    };
    let (plain, encrypted) = (counted("tls=no")?, counted("tls=yes")?);
    eprintln!("  plain: {plain:.0} instructions per send, encrypted: {encrypted:.0}");
    Ok(vec![encrypted / plain])
}
