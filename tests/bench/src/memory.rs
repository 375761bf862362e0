//! How much memory a process holds, as the kernel tells.

use std::fs;

/// What it holds now, in bytes. `process` is a number, or `self`.
///
/// # Errors
///
/// When the process has ended.
pub fn resident(process: &str) -> Result<u64, String> {
    status(process, "VmRSS:")
}

/// The most that it ever held, in bytes.
///
/// # Errors
///
/// When the process has ended.
pub fn peak(process: &str) -> Result<u64, String> {
    status(process, "VmHWM:")
}

/// What it holds now that no file backs, in bytes.
///
/// # Errors
///
/// When the process has ended.
pub fn anonymous(process: &str) -> Result<u64, String> {
    status(process, "RssAnon:")
}

fn status(process: &str, name: &str) -> Result<u64, String> {
    let path = format!("/proc/{process}/status");
    let status = fs::read_to_string(&path).map_err(|error| format!("{path}: {error}"))?;
    status
        .lines()
        .find_map(|line| line.strip_prefix(name))
        .and_then(|rest| rest.trim().strip_suffix(" kB")?.parse::<u64>().ok())
        .map(|kibibytes| kibibytes * 1024)
        .ok_or_else(|| format!("{path} has no {name}"))
}
