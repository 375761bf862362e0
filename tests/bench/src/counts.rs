//! Counting what a program does, as the difference between a run and one three times as long, so that start and end
//! cancel out.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use crate::{outcome::Outcome, programs::Invocation};

/// User instructions per message, by callgrind.
///
/// # Errors
///
/// When valgrind is missing or a run fails.
pub fn instructions(count: u64, invocation: impl Fn(u64) -> Invocation) -> Result<f64, String> {
    per_message(count, |count| {
        let invocation = invocation(count);
        let mut command = Command::new("valgrind");
        command.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]).arg(&invocation.program);
        let (_, stderr) = invocation.run_by(command)?;
        stderr
            .lines()
            .find_map(|line| line.split_once("Collected : ")?.1.trim().parse().ok())
            .ok_or_else(|| "callgrind did not say how much it collected".to_owned())
    })
}

/// System calls per message: by the kernel's trace point where `perf` may use it, which does not slow the program down,
/// else by strace.
///
/// # Errors
///
/// When neither works or a run fails.
pub fn system_calls(count: u64, invocation: impl Fn(u64) -> Invocation) -> Result<f64, String> {
    if perf_may_count() {
        per_message(count, |count| traced(&invocation(count), perf, |report| perf_count(report, EVENT)))
    } else {
        eprintln!("perf may not count system calls here, strace does");
        per_message(count, |count| traced(&invocation(count), strace, strace_count))
    }
}

/// How often a running process has the disk written while a load runs, by `perf`.
///
/// # Errors
///
/// When `perf` cannot count that, or the load fails.
pub fn flushes(process: &str, load: &Invocation) -> Result<(f64, Outcome), String> {
    let file = counts_file();
    let mut command = Command::new("perf");
    command.args(["stat", "-x", ",", "-e", FLUSHES, "-p", process, "-o"]).arg(&file).arg("--").arg(&load.program);
    let ran = load.run_by(command);
    let counted = read_and_remove(&file);
    let (outcome, _) = ran?;
    let count = perf_count(&counted?, "syscalls:").ok_or("perf may not count system calls here")?;
    Ok((count, outcome))
}

fn counts_file() -> PathBuf {
    std::env::temp_dir().join(format!("bench-{}-counts", std::process::id()))
}

fn read_and_remove(file: &Path) -> Result<String, String> {
    let counted = fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()));
    // It may not have been written.
    let _ = fs::remove_file(file);
    counted
}

fn per_message(count: u64, run: impl Fn(u64) -> Result<f64, String>) -> Result<f64, String> {
    Ok((run(3 * count)? - run(count)?) / (2 * count) as f64)
}

fn traced(
    invocation: &Invocation,
    tracer: fn(&Path) -> Command,
    read: impl Fn(&str) -> Option<f64>,
) -> Result<f64, String> {
    let file = counts_file();
    let mut command = tracer(&file);
    command.arg(&invocation.program);
    let ran = invocation.run_by(command);
    let counted = read_and_remove(&file);
    ran?;
    read(&counted?).ok_or_else(|| "the tracer's counts cannot be read".to_owned())
}

fn perf_may_count() -> bool {
    let mut command = Command::new("perf");
    command.args(["stat", "-e", EVENT, "true"]);
    command.output().is_ok_and(|output| output.status.success())
}

const EVENT: &str = "raw_syscalls:sys_enter";
/// Everything that waits for the disk.
const FLUSHES: &str = "syscalls:sys_enter_fsync,syscalls:sys_enter_fdatasync,syscalls:sys_enter_msync";

fn perf(file: &Path) -> Command {
    let mut command = Command::new("perf");
    command.args(["stat", "-x", ",", "-e", EVENT, "-o"]).arg(file).arg("--");
    command
}

/// The sum of what the lines with this event say; none if one of them has no number.
fn perf_count(report: &str, event: &str) -> Option<f64> {
    let lines = report.lines().filter(|line| line.contains(event));
    let counts: Option<Vec<f64>> = lines.map(|line| line.split(',').next()?.parse().ok()).collect();
    counts.filter(|counts| !counts.is_empty()).map(|counts| counts.iter().sum())
}

fn strace(file: &Path) -> Command {
    let mut command = Command::new("strace");
    command.args(["-f", "-c", "-o"]).arg(file);
    command
}

fn strace_count(report: &str) -> Option<f64> {
    report.lines().find(|line| line.ends_with("total"))?.split_whitespace().nth(3)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_are_read() {
        assert_eq!(perf_count("# started\n\n1234,,raw_syscalls:sys_enter,1,100.00,,\n", EVENT), Some(1234.0));
        let flushes = "5,,syscalls:sys_enter_fsync,1,100.00,,\n7,,syscalls:sys_enter_msync,1,100.00,,\n";
        assert_eq!(perf_count(flushes, "syscalls:"), Some(12.0));
        assert_eq!(perf_count("<not counted>,,syscalls:sys_enter_fsync,0,0.00,,\n", "syscalls:"), None);
        let strace = "% time seconds usecs/call calls errors syscall\n------\n100.00 0.001 12 77 3 total\n";
        assert_eq!(strace_count(strace), Some(77.0));
    }
}
