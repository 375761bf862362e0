//! Our push consumer with a backlog before it.

use super::{Group, ROUNDS, rounds};
use crate::{
    counts,
    programs::{Headers, Invocation, Load, Processors, Programs},
    report::{Case, Goal},
};

pub(super) const INSTRUCTIONS: Group = Group {
    id: "P7",
    cases: &[
        Case { id: "P7.batch", unit: "instructions", goal: Goal::AtMost(1_500.0) },
        Case { id: "P7.single", unit: "instructions", goal: Goal::AtMost(3_000.0) },
        Case { id: "P7.decode", unit: "instructions", goal: Goal::AtMost(300.0) },
    ],
    measure: instructions,
};

pub(super) const SYSTEM_CALLS: Group = Group {
    id: "P8",
    cases: &[
        Case { id: "P8.syscalls", unit: "syscalls", goal: Goal::AtMost(0.15) },
        Case { id: "P8.copied", unit: "bytes", goal: Goal::AtMost(0.0) },
    ],
    measure: system_calls,
};

pub(super) const COMMITS: Group = Group {
    id: "P9",
    cases: &[Case { id: "P9", unit: "commits-per-interval", goal: Goal::AtMost(1.0) }],
    measure: commits,
};

pub(super) const CROSSINGS: Group = Group {
    id: "P13",
    cases: &[Case { id: "P13.rust", unit: "calls", goal: Goal::AtMost(0.0625) }],
    measure: crossings,
};

pub(super) const MEMORY: Group = Group {
    id: "P17",
    cases: &[
        Case { id: "P17.producer-32", unit: "MiB", goal: Goal::AtMost(4.0) },
        Case { id: "P17.producer-1024", unit: "MiB", goal: Goal::AtMost(4.0) },
        Case { id: "P17.consumer", unit: "MiB", goal: Goal::AtMost(16.0) },
    ],
    measure: memory,
};

pub(super) const START: Group = Group {
    id: "start",
    cases: &[Case { id: "start.first-message", unit: "ms", goal: Goal::AtMost(100.0) }],
    measure: start,
};

/// Queues of every topic of the stub.
const QUEUES: u64 = 4;
const MEBIBYTE: f64 = 1024.0 * 1024.0;

/// A consumer of a backlog of `count` messages in the stub, whole.
fn backlog(programs: &Programs, server: &str, body: u64, count: u64, options: &[&str]) -> Invocation {
    let topic = format!("backlog-{body}-{}", count / QUEUES);
    programs.consumer(server, &topic, count / QUEUES * QUEUES, options)
}

fn instructions(programs: &Programs) -> Result<Vec<f64>, String> {
    let stub = programs.stub(Processors::Any)?;
    let consumed = |listener: &str| {
        counts::instructions(40_000, |count| {
            backlog(programs, &stub.name_server, 128, count, &["runtime=current", "header=binary", listener])
        })
    };
    let decoded = counts::instructions(40_000, |count| programs.part("decode", count))?;
    Ok(vec![consumed("listener=batch")?, consumed("listener=single")?, decoded])
}

fn system_calls(programs: &Programs) -> Result<Vec<f64>, String> {
    let stub = programs.stub(Processors::Any)?;
    let options = ["runtime=current", "header=binary"];
    let calls = counts::system_calls(100_000, |count| backlog(programs, &stub.name_server, 128, count, &options))?;
    let options = ["runtime=current", "header=binary", "body=4096"];
    let copied = backlog(programs, &stub.name_server, 4096, 200_000, &options).run(Processors::Any)?;
    Ok(vec![calls, copied.figure("copied_bytes")?])
}

/// Offsets are stored every 100 ms here, so that a short run has many intervals.
fn commits(programs: &Programs) -> Result<Vec<f64>, String> {
    let stub = programs.stub(Processors::Any)?;
    let asked = format!("stub={}", stub.broker);
    let options = ["commit_ms=100", &asked];
    let outcome = backlog(programs, &stub.name_server, 128, 8_000_000, &options).run(Processors::Any)?;
    let intervals = (outcome.figure("running_us")? / 100_000.0).floor();
    eprintln!("  {:.0} messages/s, {intervals:.0} intervals", outcome.rate());
    Ok(vec![outcome.figure("commits")? / intervals])
}

fn crossings(programs: &Programs) -> Result<Vec<f64>, String> {
    let stub = programs.stub(Processors::Any)?;
    let outcome = backlog(programs, &stub.name_server, 128, 2_000_000, &[]).run(Processors::Any)?;
    Ok(vec![outcome.figure("calls")? / outcome.succeeded as f64])
}

/// What is allowed besides is taken off: the bodies under way, and the limits of the four queues, which the consumer is
/// made to reach before its handlers go on.
fn memory(programs: &Programs) -> Result<Vec<f64>, String> {
    const CACHED: u64 = 8 << 20;
    let stub = programs.stub(Processors::Any)?;
    let [few, many] = [32, 1024].map(|in_flight| {
        programs.client(&stub.name_server, &Load::new(in_flight, 500_000), Headers::Binary, &["size=1024"])
    });
    let cached = format!("cached_bytes={CACHED}");
    let consuming = backlog(programs, &stub.name_server, 1024, 1_000_000, &[&cached, "hold_ms=2000"]);
    let names = ["producer at 32, MiB more", "producer at 1024, MiB more", "consumer, MiB more"];
    let [few, many, consumed] = rounds(3, names, |index| {
        let outcome = [&few, &many, &consuming][index].run(Processors::Any)?;
        Ok(outcome.figure("grown_bytes")? / MEBIBYTE)
    })?;
    let under_way = |in_flight: f64| in_flight * 1024.0 / MEBIBYTE;
    let limits = (QUEUES * CACHED) as f64 / MEBIBYTE;
    Ok(vec![few - under_way(32.0), many - under_way(1024.0), consumed - limits])
}

/// From the call of `start` to the first message, each time in a group that is new to the broker.
fn start(programs: &Programs) -> Result<Vec<f64>, String> {
    let broker = programs.mock_broker(None)?;
    programs.raw(&broker.broker, &Load::new(32, 10_000), Headers::Binary).run(Processors::Any)?;
    let mut group = 0;
    let [first] = rounds(ROUNDS, ["start to first message, ms"], |_| {
        group += 1;
        let group = format!("group=first-{group}");
        let outcome = programs.consumer(&broker.name_server, "bench", 1, &[&group]).run(Processors::Any)?;
        Ok(outcome.figure("first_us")? / 1e3)
    })?;
    Ok(vec![first])
}
