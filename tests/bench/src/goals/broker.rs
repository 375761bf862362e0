//! The mock broker beside the fast stub, and what it takes of a machine.

use std::{fs, process::Command, time::Duration};

use rocketmq_tests::raw::Connection;

use super::{Group, ROUNDS, folder, rounds};
use crate::{
    counts, memory,
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

pub(super) const FLUSHES: Group = Group {
    id: "P15",
    cases: &[
        Case { id: "P15.32", unit: "fsyncs", goal: Goal::AtMost(0.1) },
        Case { id: "P15.1024", unit: "fsyncs", goal: Goal::AtMost(0.01) },
    ],
    measure: flushes,
};

pub(super) const FOOTPRINT: Group = Group {
    id: "P16",
    cases: &[
        Case { id: "P16.ready", unit: "ms", goal: Goal::AtMost(100.0) },
        Case { id: "P16.idle", unit: "MiB", goal: Goal::AtMost(8.0) },
        Case { id: "P16.connection", unit: "KiB", goal: Goal::AtMost(16.0) },
        Case { id: "P16.binary", unit: "MiB", goal: Goal::AtMost(12.0) },
    ],
    measure: footprint,
};

const GET_BROKER_RUNTIME_INFO: u32 = 28;

const MEBIBYTE: f64 = 1024.0 * 1024.0;

fn stub_share(programs: &Programs) -> Result<Vec<f64>, String> {
    let mut shares = Vec::new();
    for (in_flight, count) in [(32, 200_000), (1024, 500_000)] {
        let load = Load::new(in_flight, count);
        let names = ["stub", "in memory", "on disk"].map(|name| format!("{name} at {in_flight}, sends/s"));
        let [stub, memory, disk] = rounds(ROUNDS, names.each_ref().map(String::as_str), |index| {
            // Each run has a broker of its own, so that none is helped or hindered by what is already stored.
            let store = folder(programs)?;
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

fn flushes(programs: &Programs) -> Result<Vec<f64>, String> {
    [(32, 50_000), (1024, 500_000)]
        .into_iter()
        .map(|(in_flight, count)| {
            let store = folder(programs)?;
            let broker = programs.mock_broker_with(Some(store.path()), &["flushDiskType=SYNC_FLUSH"])?;
            let load = Load { warm_up: 0, count, in_flight };
            let load = programs.raw(&broker.broker, &load, Headers::Binary);
            let (flushes, outcome) = counts::flushes(&broker.process(), &load)?;
            eprintln!("  {in_flight} in flight: {:.0} sends/s, {flushes:.0} flushes", outcome.rate());
            if outcome.failed > 0 || flushes == 0.0 {
                return Err(format!("{} sends failed, the disk was written {flushes} times", outcome.failed));
            }
            Ok(flushes / outcome.succeeded as f64)
        })
        .collect()
}

/// Connections that are open at once and idle. With both ends they must stay below what a process may have open.
const CONNECTIONS: u16 = 500;

fn footprint(programs: &Programs) -> Result<Vec<f64>, String> {
    let (mut ready, mut idle, mut connection) = (Rounds::default(), Rounds::default(), Rounds::default());
    for _ in 0..ROUNDS {
        let broker = programs.mock_broker(None)?;
        let settled = || {
            std::thread::sleep(Duration::from_secs(1));
            memory::resident(&broker.process()).map(|bytes| bytes as f64)
        };
        ready.push(broker.ready_after.as_secs_f64() * 1e3);
        let alone = settled()?;
        idle.push(alone / MEBIBYTE);
        // Each has asked something, so that it has whatever a connection needs for that.
        let connections = (0..CONNECTIONS).map(|_| {
            let mut connection = Connection::open(&broker.broker)?;
            connection.ask(GET_BROKER_RUNTIME_INFO, &[], &[]).map(|_| connection)
        });
        let open: Vec<_> = connections.collect::<Result<_, _>>().map_err(|error| format!("a connection: {error}"))?;
        connection.push((settled()? - alone) / open.len() as f64 / 1024.0);
    }
    eprintln!("  start to ready, ms: {ready}\n  idle, MiB: {idle}\n  a connection, KiB: {connection}");
    Ok(vec![ready.median(), idle.median(), connection.median(), stripped_size(programs)? / MEBIBYTE])
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
