//! The power fails: of what was not flushed, pages reach the disk in any selection.

use std::fs;
use std::path::Path;

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

use crate::store::test_support::*;
use crate::store::{PutMessage, Store, StoreConfig};

const PAGE: usize = 4096;

fn config() -> StoreConfig {
    StoreConfig {
        commit_log_file_size: 64 << 10,
        consume_queue_file_entries: 1000,
        index_slots: 100,
        index_entries: 1000,
        ..StoreConfig::disk()
    }
}

/// Copies a folder as the disk has it: of the log everything below `flushed`, of all else any selection of pages.
fn copy(from: &Path, to: &Path, flushed: u64, random: &mut SmallRng) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let (path, target) = (entry.path(), to.join(entry.file_name()));
        if path.is_dir() {
            copy(&path, &target, flushed, random);
            continue;
        }
        let mut bytes = fs::read(&path).unwrap();
        let is_log = from.ends_with("commitlog");
        let base = entry.file_name().to_str().and_then(|name| name.parse::<u64>().ok()).filter(|_| is_log);
        // The lock and the mark are small and old; settings are written whole or not at all.
        if is_log || from.ancestors().any(|folder| folder.ends_with("consumequeue") || folder.ends_with("index")) {
            for (index, page) in bytes.chunks_mut(PAGE).enumerate() {
                let start = base.map_or(u64::MAX / 2, |base| base + (index * PAGE) as u64);
                // What is on disk of the page that was being written is on disk.
                let kept = flushed.saturating_sub(start).min(page.len() as u64) as usize;
                let kept = if is_log { kept } else { 0 };
                if random.random_bool(0.5) {
                    page[kept..].fill(0);
                }
            }
        }
        fs::write(&target, bytes).unwrap();
    }
}

#[test]
fn what_was_flushed_is_there_and_what_follows_is_whole() {
    for seed in 0..12 {
        let mut random = SmallRng::seed_from_u64(seed);
        let (directory, after) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let mut store = Store::open(directory.path(), config()).unwrap();
        let mut put_so_far: Vec<(u64, Vec<u8>)> = Vec::new();
        let count = random.random_range(1..200);
        let flush_after = random.random_range(0..=count);
        for index in 0..count {
            let length = random.random_range(1..3000);
            let body: Vec<u8> = (0..length).map(|_| random.random_range(1..=255)).collect();
            let outcome = put(&mut store, &PutMessage { properties: b"TAGS\x01a\x02", ..message("T", &body) });
            put_so_far.push((outcome.physical_offset + outcome.size as u64, body));
            if index == flush_after {
                store.flush();
            }
        }
        let flushed = store.flushed_offset();
        copy(directory.path(), after.path(), flushed, &mut random);
        drop(store);

        let store = Store::open(after.path(), config()).unwrap();
        let found = bodies(&store, "T");
        let acknowledged = put_so_far.iter().filter(|(end, _)| *end <= flushed).count();
        assert!(found.len() >= acknowledged, "seed {seed}: {} of {acknowledged} flushed messages", found.len());
        for (index, body) in found.iter().enumerate() {
            assert!(*body == put_so_far[index].1, "seed {seed}: message {index} is another one");
        }
        // And it goes on.
        let mut store = store;
        assert_eq!(put(&mut store, &message("T", b"after")).queue_offset, found.len() as u64);
        store.close(NOW).unwrap();
        let store = Store::open(after.path(), config()).unwrap();
        assert_eq!(bodies(&store, "T").len(), found.len() + 1);
    }
}
