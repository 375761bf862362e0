//! Where the Apache jars and the compiled foreign drivers are kept.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    sync::atomic::{AtomicU32, Ordering},
};

use sha1::{Digest, Sha1};

const SETUP: &str = "scripts/interop-setup.sh";

/// The servers unmap files, and the old clients set up their network layer, through internals of Java that are closed
/// by default since version 16.
pub(crate) const JAVA_OPEN_PACKAGES: [&str; 4] = [
    "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED",
    "--add-opens=java.base/java.nio=ALL-UNNAMED",
    "--add-opens=java.base/jdk.internal.ref=ALL-UNNAMED",
    "--add-opens=java.base/jdk.internal.misc=ALL-UNNAMED",
];

/// The folder of everything fetched and compiled for the interoperability tests: `$ROCKETMQ_INTEROP_DIR`, by default
/// `target/interop` of the workspace.
pub fn directory() -> PathBuf {
    match std::env::var_os("ROCKETMQ_INTEROP_DIR") {
        Some(directory) => PathBuf::from(directory),
        None => workspace().join("target/interop"),
    }
}

/// The root of the workspace.
pub fn workspace() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the tests are a folder of the workspace")
}

/// The jars of one Apache version.
///
/// # Panics
///
/// Without them, naming the command that fetches them.
pub fn jars(version: &str) -> PathBuf {
    let folder = directory().join(version);
    assert!(
        folder.join("fetched").exists(),
        "the jars of Apache RocketMQ {version} are not in {}: run `{SETUP} {version}`",
        folder.display()
    );
    folder.join("lib")
}

/// The Java driver compiled against the jars of one Apache version.
///
/// # Panics
///
/// When it is missing or made from other sources, naming the command that compiles it.
pub fn java_classes(version: &str) -> PathBuf {
    let folder = directory().join(version).join("classes");
    assert_made_from(&workspace().join("tests/interop/java"), &folder.join("source.sha1"), version);
    folder
}

/// The compiled Go driver.
///
/// # Panics
///
/// When it is missing or made from other sources, naming the command that compiles it.
pub fn go_driver() -> PathBuf {
    let program = directory().join("go-driver");
    assert_made_from(&workspace().join("tests/interop/go"), &program.with_extension("sha1"), "");
    program
}

/// Makes a folder for what one run of servers writes. The folders of runs that have ended are removed, so the logs of
/// the last run stay until the next one.
pub fn run_directory(name: &str) -> PathBuf {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let runs = roomy_folder();
    for entry in fs::read_dir(&runs).expect("just made").flatten() {
        let file_name = entry.file_name();
        let owner = file_name.to_string_lossy().split('-').next().unwrap_or_default().to_owned();
        if !Path::new("/proc").join(owner).exists() {
            // Another test binary may be removing it as well.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
    let folder = runs.join(format!("{}-{}-{name}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed)));
    fs::create_dir_all(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    folder
}

/// A folder on a disk with room: Apache's brokers refuse every message when theirs is fuller than 90 %, and 5.x lets
/// nobody raise that. Memory serves when the disk of everything else is nearly full.
fn roomy_folder() -> PathBuf {
    let folders = [directory().join("runs"), PathBuf::from("/dev/shm/rocketmq-interop-runs")];
    for folder in &folders {
        let made = fs::create_dir_all(folder);
        if made.is_ok() && has_room(folder) {
            return folder.clone();
        }
    }
    panic!(
        "neither {} nor {} is on a disk with 2 GiB free and less than 85 % used, without which Apache's brokers refuse \
         messages: free some room, or let ROCKETMQ_INTEROP_DIR name a folder on another disk",
        folders[0].display(),
        folders[1].display(),
    )
}

fn has_room(folder: &Path) -> bool {
    const LEAST_KIB: u64 = 2 * 1024 * 1024;
    let output = Command::new("df").args(["-k", "--output=pcent,avail"]).arg(folder).output();
    let output = output.unwrap_or_else(|error| panic!("df, of Debian's coreutils, does not run: {error}"));
    let text = String::from_utf8_lossy(&output.stdout);
    let mut figures = text.lines().nth(1).unwrap_or_default().split_whitespace();
    let mut figure = || figures.next().and_then(|figure| figure.trim_end_matches('%').parse::<u64>().ok());
    matches!((figure(), figure()), (Some(used_percent), Some(free)) if used_percent < 85 && free >= LEAST_KIB)
}

/// Compares the digest that the setup wrote with that of the sources of today.
fn assert_made_from(sources: &Path, written: &Path, version: &str) {
    let mut files = files(sources);
    files.sort();
    let mut digest = Sha1::new();
    for file in files {
        digest.update(fs::read(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display())));
    }
    let digest: String = digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    assert!(
        fs::read_to_string(written).is_ok_and(|made_from| made_from.trim() == digest),
        "the driver of {} is not compiled, or from older sources: run `{}`",
        sources.display(),
        format!("{SETUP} {version}").trim(),
    );
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    entries
        .flatten()
        .map(|entry| entry.path())
        .flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] })
        .collect()
}
