//! The mock broker beside the fast stub, and what it takes of a machine.

use std::{fs, process::Command, time::Duration};

use super::{Group, ROUNDS, rounds};
use crate::{
    programs::{Headers, Load, Processors, Programs},
    report::{Case, Goal, Rounds},
};

pub(super) const STUB_SHARE: Group = Group {
    id: "P14",
    cases: &[
        Case { id: "P14.memory-32", unit: "of-stub", goal: Goal::AtLeast(0.5) },
        Case { id: "P14.memory-1024", unit: "of-stub", goal: Goal::AtLeast(0.5) },
        Case { id: "P14.disk-32", unit: "of-stub", goal: Goal::AtLeast(0.35) },
        Case { id: "P14.disk-1024", unit: "of-stub", goal: Goal::AtLeast(0.35) },
    ],
    measure: stub_share,
};

pub(super) const FOOTPRINT: Group = Group {
    id: "P16",
    cases: &[
        Case { id: "P16.ready", unit: "ms", goal: Goal::AtMost(100.0) },
        Case { id: "P16.idle", unit: "MiB", goal: Goal::AtMost(8.0) },
        Case { id: "P16.binary", unit: "MiB", goal: Goal::AtMost(12.0) },
    ],
    measure: footprint,
};

const MEBIBYTE: f64 = 1024.0 * 1024.0;

fn stub_share(programs: &Programs) -> Result<Vec<f64>, String> {
    let mut shares = Vec::new();
    for (in_flight, count) in [(32, 200_000), (1024, 500_000)] {
        let load = Load::new(in_flight, count);
        let names = ["stub", "in memory", "on disk"].map(|name| format!("{name} at {in_flight}, sends/s"));
        let [stub, memory, disk] = rounds(ROUNDS, names.each_ref().map(String::as_str), |index| {
            // Each run has a broker of its own, so that none is helped or hindered by what is already stored.
            let store =
                tempfile::tempdir_in(programs.path("")).map_err(|error| format!("a folder for the store: {error}"))?;
            let server = match index {
                0 => programs.stub(Processors::Any)?,
                1 => programs.mock_broker(None)?,
                _ => programs.mock_broker(Some(store.path()))?,
            };
            Ok(programs.raw(&server.broker, &load, Headers::Binary).run(Processors::Any)?.rate())
        })?;
        shares.push([memory / stub, disk / stub]);
    }
    Ok(vec![shares[0][0], shares[1][0], shares[0][1], shares[1][1]])
}

fn footprint(programs: &Programs) -> Result<Vec<f64>, String> {
    let (mut ready, mut idle) = (Rounds::default(), Rounds::default());
    for _ in 0..ROUNDS {
        let broker = programs.mock_broker(None)?;
        ready.push(broker.ready_after.as_secs_f64() * 1e3);
        std::thread::sleep(Duration::from_secs(1));
        idle.push(broker.resident_bytes()? as f64 / MEBIBYTE);
    }
    eprintln!("  start to ready, ms: {ready}\n  idle, MiB: {idle}");
    Ok(vec![ready.median(), idle.median(), stripped_size(programs)? / MEBIBYTE])
}

fn stripped_size(programs: &Programs) -> Result<f64, String> {
    let binary = programs.path("rocketmq-mock-broker");
    let stripped = programs.path(&format!("rocketmq-mock-broker-stripped-{}", std::process::id()));
    let status = Command::new("strip").arg("-o").arg(&stripped).arg(&binary).status();
    let size = fs::metadata(&stripped).map(|metadata| metadata.len() as f64);
    // Nothing to remove when strip failed.
    let _ = fs::remove_file(&stripped);
    match status {
        Ok(status) if status.success() => size.map_err(|error| format!("the stripped binary: {error}")),
        Ok(status) => Err(format!("strip ended with {status}")),
        Err(error) => Err(format!("strip cannot be started: {error}")),
    }
}
