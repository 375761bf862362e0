//! What else a producer can do: automatic batches, large bodies, several producers of one client.

use super::{Group, ROUNDS, apache, rounds};
use crate::{
    programs::{Headers, Load, Processors, Programs},
    report::{Case, Goal},
};

pub(super) const LINGER: Group = Group {
    id: "linger",
    cases: &[
        Case { id: "linger.apache", unit: "times-plain", goal: Goal::AtLeast(3.0) },
        Case { id: "linger.stub", unit: "times-plain", goal: Goal::AtLeast(1.0) },
    ],
    measure: linger,
};

pub(super) const COMPRESSION: Group = Group {
    id: "compression",
    cases: &[Case { id: "compression.small-p99", unit: "ms-later", goal: Goal::AtMost(2.0) }],
    measure: compression,
};

pub(super) const PRODUCERS: Group = Group {
    id: "producers",
    cases: &[Case { id: "producers.10", unit: "times-one", goal: Goal::AtMost(1.1) }],
    measure: producers,
};

const CALLERS: u64 = 1024;

/// As a caller would set it: the time of a round trip or two.
const LINGERING: &str = "linger_ms=2";

fn linger(programs: &Programs) -> Result<Vec<f64>, String> {
    let apache = apache::start_apache();
    apache.create_topic("bench", 8);
    let stub = programs.stub(Processors::Any)?;
    let mut ratios = Vec::new();
    for (name, server, count) in
        [("Apache", apache.name_server(), 200_000), ("the stub", stub.name_server.clone(), 1_000_000)]
    {
        let load = Load { warm_up: count / 4, ..Load::new(CALLERS, count) };
        let subjects = [&["size=100", LINGERING][..], &["size=100"]]
            .map(|options| programs.client(&server, &load, Headers::Binary, options));
        let names = ["in batches", "by themselves"].map(|how| format!("{how} to {name}, sends/s"));
        let [batches, plain] = rounds(ROUNDS, names.each_ref().map(String::as_str), |index| {
            let outcome = subjects[index].run(Processors::Any)?;
            if outcome.failed > 0 {
                return Err(format!("{} sends failed", outcome.failed));
            }
            Ok(outcome.rate())
        })?;
        ratios.push(batches / plain);
    }
    Ok(ratios)
}

/// Bodies of 16 KiB that are compressed, beside bodies that are just too small to be: what differs is the compression.
fn compression(programs: &Programs) -> Result<Vec<f64>, String> {
    let stub = programs.stub(Processors::Any)?;
    let load = Load::new(8, 40_000);
    let subjects = ["size=16384", "size=4095"]
        .map(|size| programs.client(&stub.name_server, &load, Headers::Binary, &["runtime=multi", "small=2000", size]));
    let names = ["beside 16 KiB compressed, ms", "beside 4 KiB plain, ms"];
    let [packed, plain] =
        rounds(ROUNDS, names, |index| Ok(subjects[index].run(Processors::Any)?.figure("slowest_hundredth_us")? / 1e3))?;
    Ok(vec![packed - plain])
}

fn producers(programs: &Programs) -> Result<Vec<f64>, String> {
    let stub = programs.stub(Processors::Any)?;
    let load = Load::new(40, 300_000);
    let subjects = ["producers=10", "producers=1"]
        .map(|producers| programs.client(&stub.name_server, &load, Headers::Binary, &["runtime=current", producers]));
    let names = ["ten producers, us of CPU per send", "one producer, us of CPU per send"];
    let [ten, one] = rounds(ROUNDS, names, |index| Ok(subjects[index].run(Processors::Any)?.cpu_micros_each()))?;
    Ok(vec![ten / one])
}
