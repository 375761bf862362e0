//! Our client under load, beside the floor, the peer and itself.

use super::{Group, ROUNDS, rounds};
use crate::{
    programs::{Headers, Load, Processors, Programs},
    report::{Case, Goal},
};

pub(super) const FLOOR_SHARE: Group = Group {
    id: "P3",
    cases: &[
        Case { id: "P3.32", unit: "of-floor", goal: Goal::AtLeast(0.4) },
        Case { id: "P3.1024", unit: "of-floor", goal: Goal::AtLeast(0.4) },
    ],
    measure: floor_share,
};

pub(super) const PEER: Group = Group {
    id: "P4",
    cases: &[
        Case { id: "P4.1", unit: "times-peer", goal: Goal::AtLeast(3.0) },
        Case { id: "P4.32-binary", unit: "times-peer", goal: Goal::AtLeast(15.0) },
        Case { id: "P4.32-json", unit: "times-peer", goal: Goal::AtLeast(5.0) },
    ],
    measure: peer,
};

pub(super) const MANY_CALLERS: Group = Group {
    id: "P5",
    cases: &[
        Case { id: "P5.1024", unit: "failed", goal: Goal::AtMost(0.0) },
        Case { id: "P5.10000", unit: "failed", goal: Goal::AtMost(0.0) },
    ],
    measure: many_callers,
};

pub(super) const RUNTIMES: Group = Group {
    id: "P10",
    cases: &[Case { id: "P10", unit: "times-current-thread", goal: Goal::AtMost(2.5) }],
    measure: runtimes,
};

fn floor_share(programs: &Programs) -> Result<Vec<f64>, String> {
    let stub = programs.stub(Processors::Last)?;
    [(32, 400_000), (1024, 1_000_000)]
        .into_iter()
        .map(|(in_flight, count)| {
            let load = Load::new(in_flight, count);
            let names = [format!("ours at {in_flight}, sends/s"), format!("floor at {in_flight}, sends/s")];
            let subjects = [
                programs.client(&stub.name_server, &load, Headers::Binary, &["runtime=current"]),
                programs.raw(&stub.broker, &load, Headers::Binary),
            ];
            let [ours, floor] = rounds(ROUNDS, names.each_ref().map(String::as_str), |index| {
                Ok(subjects[index].run(Processors::Last)?.rate())
            })?;
            Ok(ours / floor)
        })
        .collect()
}

/// The peer writes JSON headers and brings its own runtime, which has one thread on one processor.
fn peer(programs: &Programs) -> Result<Vec<f64>, String> {
    let stub = programs.stub(Processors::Last)?;
    let server = &stub.name_server;
    let (one, many) = (Load::new(1, 50_000), Load::new(32, 300_000));
    let subjects = [
        programs.client(server, &one, Headers::Json, &["runtime=current"]),
        programs.client(server, &many, Headers::Binary, &["runtime=current"]),
        programs.client(server, &many, Headers::Json, &["runtime=current"]),
        programs.peer(server, &Load::new(1, 20_000)),
        programs.peer(server, &Load::new(32, 40_000)),
    ];
    let names = [
        "ours at 1, sends/s",
        "ours at 32 binary, sends/s",
        "ours at 32 JSON, sends/s",
        "peer at 1, sends/s",
        "peer at 32, sends/s",
    ];
    let [ours_one, ours_binary, ours_json, peer_one, peer_many] =
        rounds(ROUNDS, names, |index| Ok(subjects[index].run(Processors::Last)?.rate()))?;
    Ok(vec![ours_one / peer_one, ours_binary / peer_many, ours_json / peer_many])
}

fn many_callers(programs: &Programs) -> Result<Vec<f64>, String> {
    let stub = programs.stub(Processors::Any)?;
    [1024, 10_000]
        .into_iter()
        .map(|in_flight| {
            let load = Load::new(in_flight, 1_000_000);
            let mut failed = 0.0;
            for runtime in ["runtime=current", "runtime=multi"] {
                for headers in [Headers::Binary, Headers::Json] {
                    let outcome =
                        programs.client(&stub.name_server, &load, headers, &[runtime]).run(Processors::Any)?;
                    eprintln!("  {in_flight} callers, {runtime}, {headers:?}: {:.0} sends/s", outcome.rate());
                    failed += (load.count - outcome.succeeded) as f64;
                }
            }
            Ok(failed)
        })
        .collect()
}

fn runtimes(programs: &Programs) -> Result<Vec<f64>, String> {
    let stub = programs.stub(Processors::Any)?;
    let load = Load::new(32, 300_000);
    let subjects = ["runtime=current", "runtime=multi"]
        .map(|runtime| programs.client(&stub.name_server, &load, Headers::Binary, &[runtime]));
    let names = ["current-thread, us of CPU per send", "multi-thread, us of CPU per send"];
    let [current, multi] = rounds(ROUNDS, names, |index| Ok(subjects[index].run(Processors::Any)?.cpu_micros_each()))?;
    Ok(vec![multi / current])
}
