//! Finding messages by key.

use std::fs;
use std::path::{Path, PathBuf};

use rocketmq_wire::message::StoredMessage;

use crate::store::test_support::*;
use crate::store::{PutMessage, Store, StoreConfig};

/// Files of 5 slots and 9 keys.
fn config() -> StoreConfig {
    StoreConfig { index_slots: 5, index_entries: 10, ..small() }
}

fn put_with(store: &mut Store, topic: &str, properties: &str, body: &[u8], time: i64) {
    store.put(time, &PutMessage { properties: properties.as_bytes(), ..message(topic, body) }).unwrap();
}

fn found(store: &mut Store, topic: &str, key: &str, times: std::ops::RangeInclusive<i64>) -> Vec<Vec<u8>> {
    let outcome = store.query(topic, key, 32, times);
    outcome.messages.into_iter().map(|bytes| StoredMessage::parse(bytes).unwrap().0.body().to_vec()).collect()
}

/// Twenty messages, one a second, each with a unique key, `same` and the parity of its number.
fn fill(store: &mut Store) {
    for index in 0..20_u8 {
        let parity = if index % 2 == 0 { "even" } else { "odd" };
        let properties = format!("UNIQ_KEY\x01U{index}\x02KEYS\x01same  {parity}\x02");
        put_with(store, "T", &properties, &[index], NOW + i64::from(index) * 1000);
    }
    dispatch(store);
}

fn check(store: &mut Store) {
    for index in 0..20_u8 {
        assert_eq!(found(store, "T", &format!("U{index}"), 0..=i64::MAX), [[index]]);
    }
    let all: Vec<[u8; 1]> = (0..20).map(|index| [index]).collect();
    assert_eq!(found(store, "T", "same", 0..=i64::MAX), all);
    let odd: Vec<[u8; 1]> = (1..20).step_by(2).map(|index| [index]).collect();
    assert_eq!(found(store, "T", "odd", 0..=i64::MAX), odd);
    assert_eq!(found(store, "T", "same", NOW + 3000..=NOW + 5000), [[3], [4], [5]]);
    assert!(found(store, "T", "same", NOW + 60_000..=i64::MAX).is_empty());
    assert!(found(store, "Other", "same", 0..=i64::MAX).is_empty());
    assert!(found(store, "T", "sam", 0..=i64::MAX).is_empty());
    let outcome = store.query("T", "same", 3, 0..=i64::MAX);
    assert_eq!(outcome.messages.len(), 3, "the newest of more");
    assert_eq!(StoredMessage::parse(outcome.messages[0].clone()).unwrap().0.body(), [17_u8].as_slice());
    assert_eq!(outcome.index_last_update_timestamp, NOW + 19_000);
}

fn index_files(path: &Path) -> Vec<PathBuf> {
    let mut files: Vec<_> = fs::read_dir(path.join("index")).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

#[test]
fn keys_find_messages_in_memory_and_on_disk() {
    let mut memory = Store::memory(config());
    fill(&mut memory);
    check(&mut memory);
    let directory = tempfile::tempdir().unwrap();
    let mut disk = Store::open(directory.path(), config()).unwrap();
    fill(&mut disk);
    check(&mut disk);
    disk.close(NOW).unwrap();
    // Three keys each, nine to a file.
    assert_eq!(index_files(directory.path()).len(), 7);
    check(&mut Store::open(directory.path(), config()).unwrap());
}

#[test]
fn the_index_goes_on_where_it_stopped() {
    let directory = tempfile::tempdir().unwrap();
    let mut whole = Store::open(&directory.path().join("whole"), config()).unwrap();
    fill(&mut whole);
    check(&mut whole);
    whole.close(NOW).unwrap();
    let mut parts = Store::open(&directory.path().join("parts"), config()).unwrap();
    for index in 0..20_u8 {
        let parity = if index % 2 == 0 { "even" } else { "odd" };
        let properties = format!("UNIQ_KEY\x01U{index}\x02KEYS\x01same  {parity}\x02");
        put_with(&mut parts, "T", &properties, &[index], NOW + i64::from(index) * 1000);
        parts.close(NOW).unwrap();
        parts = Store::open(&directory.path().join("parts"), config()).unwrap();
    }
    check(&mut parts);
    drop(parts);
    let [whole, parts] = ["whole", "parts"].map(|name| index_files(&directory.path().join(name)));
    assert_eq!(whole.len(), parts.len());
    for (whole, parts) in whole.iter().zip(&parts) {
        assert_eq!(whole.file_name(), parts.file_name());
        assert!(fs::read(whole).unwrap() == fs::read(parts).unwrap(), "{} differs", whole.display());
    }
}

#[test]
fn lost_damaged_and_leading_index_files_are_made_anew() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let mut store = Store::open(path, config()).unwrap();
    fill(&mut store);
    store.close(NOW).unwrap();
    let expected: Vec<_> = index_files(path).iter().map(|file| fs::read(file).unwrap()).collect();
    let damages: [&dyn Fn(); 5] = [
        &|| fs::remove_dir_all(path.join("index")).unwrap(),
        &|| fs::remove_file(index_files(path).last().unwrap()).unwrap(),
        &|| fs::write(&index_files(path)[3], b"short").unwrap(),
        // The end offset of the newest file, beyond the log.
        &|| {
            let file = index_files(path).pop().unwrap();
            let mut bytes = fs::read(&file).unwrap();
            bytes[26] = 1;
            fs::write(file, bytes).unwrap();
        },
        // The store was not closed.
        &|| fs::write(path.join("abort"), "").unwrap(),
    ];
    for damage in damages {
        damage();
        let mut store = Store::open(path, config()).unwrap();
        check(&mut store);
        store.close(NOW).unwrap();
        let after: Vec<_> = index_files(path).iter().map(|file| fs::read(file).unwrap()).collect();
        assert!(after == expected, "the index differs");
    }
}

#[test]
fn rollbacks_are_not_indexed_and_half_messages_are() {
    let mut store = Store::memory(config());
    for (sys_flag, key) in [(4, "half"), (8, "commit"), (12, "rollback")] {
        let properties = format!("KEYS\x01{key}\x02");
        let message = PutMessage { sys_flag, properties: properties.as_bytes(), ..message("T", b"b") };
        store.put(NOW, &message).unwrap();
    }
    dispatch(&mut store);
    let count = |store: &mut Store, key| store.query("T", key, 32, 0..=i64::MAX).messages.len();
    assert_eq!(["half", "commit", "rollback"].map(|key| count(&mut store, key)), [1, 1, 0]);
}
