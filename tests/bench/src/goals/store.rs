//! What the store on disk takes to start.

use std::{fs, os::unix::fs::MetadataExt, path::Path};

use rocketmq_tests::raw::Connection;

use super::{Group, ROUNDS};
use crate::{
    programs::{Headers, Load, Processors, Programs},
    report::{Case, Goal, Rounds},
};

pub(super) const RECOVERY: Group = Group {
    id: "S1",
    cases: &[Case { id: "S1.recovery", unit: "GiB/s", goal: Goal::AtLeast(1.0) }],
    measure: recovery,
};

pub(super) const TOPICS: Group = Group {
    id: "S2",
    cases: &[
        Case { id: "S2.start", unit: "ms", goal: Goal::AtMost(1000.0) },
        Case { id: "S2.memory", unit: "MiB", goal: Goal::AtMost(64.0) },
    ],
    measure: topics,
};

const GIBIBYTE: f64 = (1_u64 << 30) as f64;
const MEBIBYTE: f64 = 1024.0 * 1024.0;

/// A store of at least 1 GiB whose broker was killed is opened, from the page cache.
fn recovery(programs: &Programs) -> Result<Vec<f64>, String> {
    let store = folder(programs)?;
    let log = store.path().join("commitlog");
    loop {
        let server = programs.mock_broker(Some(store.path()))?;
        programs.raw(&server.broker, &Load::new(1024, 1_000_000), Headers::Binary).run(Processors::Any)?;
        // Dropped, the broker is killed.
        drop(server);
        if allocated(&log)? >= GIBIBYTE {
            break;
        }
    }
    let size = allocated(&log)?;
    let mut rates = Rounds::default();
    for _ in 0..ROUNDS {
        let server = programs.mock_broker(Some(store.path()))?;
        rates.push(size / GIBIBYTE / server.ready_after.as_secs_f64());
    }
    eprintln!("  {:.2} GiB, GiB/s: {rates}", size / GIBIBYTE);
    Ok(vec![rates.median()])
}

/// A store of 10,000 topics with a message in each of their four queues is opened after a kill.
fn topics(programs: &Programs) -> Result<Vec<f64>, String> {
    let store = folder(programs)?;
    let server = programs.mock_broker(Some(store.path()))?;
    let told = |error| format!("a message for one of 10,000 topics: {error}");
    let mut connection = Connection::open(&server.broker).map_err(told)?;
    for index in 0..40_000 {
        let (topic, queue) = (format!("topic-{}", index / 4), (index % 4).to_string());
        let fields = [
            ("a", "p"),
            ("b", &*topic),
            ("c", "TBW102"),
            ("d", "4"),
            ("e", &*queue),
            ("f", "0"),
            ("g", "1700000000000"),
            ("h", "0"),
            ("i", ""),
            ("m", "false"),
        ];
        let answer = connection.ask(310, &fields, b"body").map_err(told)?;
        if answer.code != 0 {
            return Err(format!("{topic} was answered with {}: {:?}", answer.code, answer.remark));
        }
    }
    drop(server);
    let (mut ready, mut memory) = (Rounds::default(), Rounds::default());
    for _ in 0..ROUNDS {
        let server = programs.mock_broker(Some(store.path()))?;
        ready.push(server.ready_after.as_secs_f64() * 1e3);
        memory.push(server.anonymous_bytes()? as f64 / MEBIBYTE);
    }
    eprintln!("  start to ready, ms: {ready}\n  anonymous memory, MiB: {memory}");
    Ok(vec![ready.median(), memory.median()])
}

fn folder(programs: &Programs) -> Result<tempfile::TempDir, String> {
    tempfile::tempdir_in(programs.path("")).map_err(|error| format!("a folder for the store: {error}"))
}

/// Bytes on disk of the files in a folder; they are longer than that.
fn allocated(folder: &Path) -> Result<f64, String> {
    let entries = fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let blocks = entries.flatten().filter_map(|entry| Some(entry.metadata().ok()?.blocks()));
    Ok((blocks.sum::<u64>() * 512) as f64)
}
