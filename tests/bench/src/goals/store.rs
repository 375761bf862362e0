//! What the store on disk takes to start.

use std::{fs, os::unix::fs::MetadataExt, path::Path, time::Instant};

use rocketmq_tests::{apache::ApacheCluster, raw::Connection};

use super::{Group, ROUNDS, apache, folder};
use crate::{
    counts, memory,
    programs::{Headers, Load, Processors, Programs},
    report::{Case, Goal, Rounds},
};

pub(super) const RECOVERY: Group = Group {
    id: "S1",
    cases: &[
        Case { id: "S1.recovery", unit: "GiB/s", goal: Goal::AtLeast(1.0) },
        Case { id: "S1.apache", unit: "times-apache", goal: Goal::AtLeast(3.0) },
    ],
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

pub(super) const DELAYED: Group = Group {
    id: "S3",
    cases: &[
        Case { id: "S3.out-of-tick", unit: "messages", goal: Goal::AtMost(0.0) },
        Case { id: "S3.more-waiting", unit: "times-instructions", goal: Goal::AtMost(1.1) },
    ],
    measure: delayed,
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
    let size = allocated(&log)? / GIBIBYTE;
    let mut ours = Rounds::default();
    for _ in 0..ROUNDS {
        ours.push(programs.mock_broker(Some(store.path()))?.ready_after.as_secs_f64());
    }
    eprintln!("  {size:.2} GiB, s to ready: {ours}");
    let rate = size / ours.median();
    let empty = folder(programs)?;
    let (mut theirs, mut starts) = (Rounds::default(), Rounds::default());
    for _ in 0..APACHE_ROUNDS {
        theirs.push(apache_ready_after(store.path())?);
        starts.push(apache_ready_after(empty.path())?);
    }
    eprintln!("  Apache, s to ready: {theirs}, with an empty store: {starts}");
    Ok(vec![rate, (theirs.median() - starts.median()) / ours.median()])
}

/// Rounds with Apache's broker, which takes long to start.
const APACHE_ROUNDS: usize = 2;

/// How long Apache's broker takes to start with a store, in seconds; it is killed afterwards.
fn apache_ready_after(store: &Path) -> Result<f64, String> {
    let mut options = apache::options().set("mappedFileSizeCommitLog", "1073741824");
    options.store = Some(store.to_owned());
    let mut cluster = ApacheCluster::start(apache::VERSION, options);
    // What was measured of a first start would have the name server in it, and what the store was like before.
    cluster.kill_broker();
    let started = Instant::now();
    cluster.start_broker();
    let ready_after = started.elapsed();
    cluster.kill_broker();
    Ok(ready_after.as_secs_f64())
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
        memory.push(memory::anonymous(&server.process())? as f64 / MEBIBYTE);
    }
    eprintln!("  start to ready, ms: {ready}\n  anonymous memory, MiB: {memory}");
    Ok(vec![ready.median(), memory.median()])
}

/// The messages are in memory and the clock is turned by hand. How much more each message costs when ten times as many wait
/// tells whether any is looked at before its time.
fn delayed(programs: &Programs) -> Result<Vec<f64>, String> {
    let failed = programs.part("delayed", 100_000).run(Processors::Any)?.failed;
    let each = |count| counts::instructions(count, |count| programs.part("delayed", count));
    // A third of what waits in the longer of two runs.
    let (few, many) = (each(3_333)?, each(33_333)?);
    eprintln!("  {few:.0} instructions per message when 10,000 wait, {many:.0} when 100,000 do");
    Ok(vec![failed as f64, many / few])
}

/// Bytes on disk of the files in a folder; they are longer than that.
fn allocated(folder: &Path) -> Result<f64, String> {
    let entries = fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let blocks = entries.flatten().filter_map(|entry| Some(entry.metadata().ok()?.blocks()));
    Ok((blocks.sum::<u64>() * 512) as f64)
}
