//! Records that were not written to their end, at each byte where writing may have stopped.

use std::fs;
use std::path::Path;

use crate::store::test_support::*;
use crate::store::{PutMessage, Store, StoreConfig};

/// One file of each kind is enough here.
fn config() -> StoreConfig {
    StoreConfig { commit_log_file_size: 4096, consume_queue_file_entries: 16, ..StoreConfig::disk() }
}

/// A store with four messages that was not closed: its log, and where each record begins and the last one ends.
fn unclosed(path: &Path) -> (Vec<u8>, Vec<usize>) {
    let mut store = Store::open(path, config()).unwrap();
    let mut starts = Vec::new();
    for body in [b"first".as_slice(), b"second", b"third", b"fourth"] {
        let outcome = put(&mut store, &PutMessage { properties: b"TAGS\x01a\x02", ..message("T", body) });
        starts.push(outcome.physical_offset as usize);
    }
    starts.push(store.max_physical_offset() as usize);
    (fs::read(log_file(path)).unwrap(), starts)
}

fn log_file(path: &Path) -> std::path::PathBuf {
    path.join("commitlog/00000000000000000000")
}

fn write_log(path: &Path, log: &[u8]) {
    fs::write(log_file(path), log).unwrap();
    fs::write(path.join("abort"), "1").unwrap();
}

/// Opens the store and checks that `kept` messages are left, that new ones follow them, and that this stays so.
fn check(path: &Path, kept: usize, end: usize, what: &str) {
    let all = [b"first".to_vec(), b"second".to_vec(), b"third".to_vec(), b"fourth".to_vec()];
    let mut expected = all[..kept].to_vec();
    let mut store = Store::open(path, config()).unwrap();
    assert_eq!(bodies(&store, "T"), expected, "{what}");
    assert_eq!(store.max_physical_offset(), end as u64, "{what}");
    // As long as a record that was cut off: that one must not come to life again behind it.
    let outcome = put(&mut store, &PutMessage { properties: b"TAGS\x01a\x02", ..message("T", b"third") });
    assert_eq!((outcome.queue_offset, outcome.physical_offset), (kept as u64, end as u64), "{what}");
    drop(store);
    expected.push(b"third".to_vec());
    assert_eq!(bodies(&Store::open(path, config()).unwrap(), "T"), expected, "{what}");
}

#[test]
fn a_record_cut_at_any_byte_is_dropped_whole() {
    let directory = tempfile::tempdir().unwrap();
    let (log, starts) = unclosed(directory.path());
    for cut in starts[1]..starts[4] {
        let mut torn = log.clone();
        torn[cut..].fill(0);
        // Zeros at the end of the properties cannot be told from a cut, but no acknowledged message ends so.
        if torn == log {
            continue;
        }
        let kept = starts[1..].iter().filter(|&&end| end <= cut).count();
        let properties_only = starts[1..].iter().any(|&end| cut < end && cut + 7 >= end);
        if properties_only {
            // The size is written last, so a record cut in its properties has none.
            torn[starts[kept]..starts[kept] + 4].fill(0);
        }
        write_log(directory.path(), &torn);
        check(directory.path(), kept, starts[kept], &format!("cut at {cut}"));
    }
}

#[test]
fn a_record_whose_size_was_not_written_does_not_exist() {
    let directory = tempfile::tempdir().unwrap();
    let (log, starts) = unclosed(directory.path());
    for record in 0..4 {
        let mut torn = log.clone();
        torn[starts[record]..starts[record] + 4].fill(0);
        write_log(directory.path(), &torn);
        check(directory.path(), record, starts[record], &format!("record {record} without size"));
    }
}

#[test]
fn a_damaged_record_ends_the_log() {
    let directory = tempfile::tempdir().unwrap();
    let (log, starts) = unclosed(directory.path());
    // Size, magic, checksum, physical offset, body length and body of the third record.
    for at in [0, 1, 2, 3, 4, 7, 8, 11, 28, 35, 84, 87, 88, 92] {
        let mut damaged = log.clone();
        damaged[starts[2] + at] ^= 0x41;
        write_log(directory.path(), &damaged);
        check(directory.path(), 2, starts[2], &format!("byte {at} damaged"));
    }
}

#[test]
fn queue_entries_cut_at_any_byte_are_made_again() {
    let directory = tempfile::tempdir().unwrap();
    let (_, starts) = unclosed(directory.path());
    let path = directory.path().join("consumequeue/T/0/00000000000000000000");
    let queue = fs::read(&path).unwrap();
    let log = fs::read(log_file(directory.path())).unwrap();
    for cut in 0..80 {
        let mut torn = queue.clone();
        torn[cut..].fill(0);
        fs::write(&path, torn).unwrap();
        write_log(directory.path(), &log);
        check(directory.path(), 4, starts[4], &format!("queue cut at {cut}"));
    }
}
