//! Beside Apache's own: our client and theirs on their broker, our broker and theirs under one load.

use std::process::Command;

use rocketmq_tests::{
    apache::{ApacheCluster, ApacheOptions},
    cache, foreign,
};

use super::{Group, ROUNDS, folder, rounds};
use crate::{
    outcome::Outcome,
    programs::{Headers, Load, Processors, Programs, run},
    report::{Case, Goal},
};

pub(super) const CLIENTS: Group = Group {
    id: "P20",
    cases: &[
        Case { id: "P20.java", unit: "of-java", goal: Goal::AtMost(0.2) },
        Case { id: "P20.go", unit: "of-go", goal: Goal::AtMost(0.143) },
    ],
    measure: clients,
};

pub(super) const BROKERS: Group = Group {
    id: "P22",
    cases: &[
        Case { id: "P22.32", unit: "times-apache", goal: Goal::AtLeast(4.0) },
        Case { id: "P22.1024", unit: "times-apache", goal: Goal::AtLeast(4.0) },
    ],
    measure: brokers,
};

pub(super) const CONSUMERS: Group = Group {
    id: "P21",
    cases: &[
        Case { id: "P21.java", unit: "of-java", goal: Goal::AtMost(0.2) },
        Case { id: "P21.go", unit: "of-go", goal: Goal::AtMost(0.333) },
    ],
    measure: consumers,
};

pub(super) const VERSION: &str = "5.3.3";

/// The broker as it is measured: compiled by both compilers of the virtual machine, with room in memory and large
/// files, flushing in the background as it does by default.
pub(super) fn options() -> ApacheOptions {
    let mut options = ApacheOptions::default()
        .set("mappedFileSizeCommitLog", "268435456")
        .set("mappedFileSizeConsumeQueue", "6000000")
        .set("maxIndexNum", "2000000")
        .set("maxHashSlotNum", "500000")
        .set("flushDiskType", "ASYNC_FLUSH");
    options.broker_flags = ["-XX:TieredStopAtLevel=4", "-Xms1g", "-Xmx1g"].map(str::to_owned).to_vec();
    options
}

pub(super) fn start_apache() -> ApacheCluster {
    ApacheCluster::start(VERSION, options())
}

/// Rounds of the comparison of clients: each takes the better part of a minute, and what is compared is processor time,
/// which is steady.
const CLIENT_ROUNDS: usize = 3;

fn clients(programs: &Programs) -> Result<Vec<f64>, String> {
    let apache = start_apache();
    apache.create_topic("bench", 8);
    let server = apache.name_server();
    let load = Load { warm_up: 100_000, count: 50_000, in_flight: 32 };
    let ours = programs.client(&server, &load, Headers::Binary, &["runtime=current", "topic=bench"]);
    let names = ["ours", "Java", "Go"].map(|name| format!("{name}, us of CPU per send"));
    let [ours, java, go] = rounds(CLIENT_ROUNDS, names.each_ref().map(String::as_str), |index| {
        let outcome = match index {
            0 => ours.run(Processors::Any)?,
            1 => foreign(java_command(), &server, &load)?,
            _ => foreign(Command::new(cache::go_driver()), &server, &load)?,
        };
        if outcome.failed > 0 {
            return Err(format!("{} of {} sends failed", outcome.failed, load.count));
        }
        Ok(outcome.cpu_micros_each())
    })?;
    Ok(vec![ours / java, ours / go])
}

fn java_command() -> Command {
    let mut command = foreign::java_command(VERSION, foreign::Headers::Json);
    command.arg("interop.Driver");
    command
}

fn foreign(mut command: Command, server: &str, load: &Load) -> Result<Outcome, String> {
    let Load { warm_up, count, in_flight } = load;
    command.arg("produce").args(["topic=bench", "size=128", "quiet=true", "mode=sync"]);
    command.args([format!("name_server={server}"), format!("warm_up={warm_up}"), format!("count={count}")]);
    command.arg(format!("in_flight={in_flight}"));
    Ok(run(command)?.0)
}

/// A backlog of 1,000,000 messages of 100 bytes. Every client starts cold; their first messages are in the figures.
fn consumers(programs: &Programs) -> Result<Vec<f64>, String> {
    const BACKLOG: u64 = 1_000_000;
    let apache = start_apache();
    apache.create_topic("bench", 8);
    let server = apache.name_server();
    let load = Load { warm_up: 0, count: BACKLOG, in_flight: 1024 };
    let filled = programs.client(&server, &load, Headers::Binary, &["size=100", "linger_ms=2"]).run(Processors::Any)?;
    if filled.failed > 0 {
        return Err(format!("{} sends failed", filled.failed));
    }
    let names = ["ours, batches", "ours, single messages", "Java", "Go"].map(|name| format!("{name}, us of CPU each"));
    let mut group = 0;
    let [ours, _, java, go] = rounds(1, names.each_ref().map(String::as_str), |index| {
        group += 1;
        let group = format!("group=bench-{group}");
        let outcome = match index {
            0 => programs.consumer(&server, "bench", BACKLOG, &[&group]).run(Processors::Any)?,
            1 => programs.consumer(&server, "bench", BACKLOG, &[&group, "listener=single"]).run(Processors::Any)?,
            2 => foreign_consumer(java_command(), &server, BACKLOG, &group)?,
            _ => foreign_consumer(Command::new(cache::go_driver()), &server, BACKLOG, &group)?,
        };
        Ok(outcome.cpu_micros_each())
    })?;
    Ok(vec![ours / java, ours / go])
}

fn foreign_consumer(mut command: Command, server: &str, count: u64, group: &str) -> Result<Outcome, String> {
    command.arg("consume").args(["topic=bench", "quiet=true", "threads=20", group]);
    command.args([format!("name_server={server}"), format!("count={count}")]);
    Ok(run(command)?.0)
}

fn brokers(programs: &Programs) -> Result<Vec<f64>, String> {
    let apache = start_apache();
    apache.create_topic("bench", 4);
    let warm_up = Load { warm_up: 0, count: 200_000, in_flight: 256 };
    programs.raw(&apache.broker(), &warm_up, Headers::Json).run(Processors::Any)?;
    [32, 1024]
        .into_iter()
        .map(|in_flight| {
            let names = ["ours", "Apache"].map(|name| format!("{name} at {in_flight}, sends/s"));
            let [ours, theirs] = rounds(ROUNDS, names.each_ref().map(String::as_str), |index| {
                if index == 1 {
                    let load = Load::new(in_flight, 60_000);
                    return Ok(programs.raw(&apache.broker(), &load, Headers::Json).run(Processors::Any)?.rate());
                }
                let store = folder(programs)?;
                let broker = programs.mock_broker(Some(store.path()))?;
                let load = Load::new(in_flight, 200_000);
                Ok(programs.raw(&broker.broker, &load, Headers::Json).run(Processors::Any)?.rate())
            })?;
            Ok(ours / theirs)
        })
        .collect()
}
