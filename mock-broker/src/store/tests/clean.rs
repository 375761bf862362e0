//! Old messages are removed.

use std::fs;
use std::path::Path;

use crate::store::test_support::*;
use crate::store::{Cleaned, GetStatus, PutError, PutMessage, Retention, Store, StoreConfig};

const HOUR: i64 = 3_600_000;

fn config(change: impl FnOnce(&mut Retention)) -> StoreConfig {
    let mut retention = Retention { reserved_hours: Some(2), delete_when: (0..24).collect(), ..Retention::default() };
    change(&mut retention);
    StoreConfig { retention, index_slots: 10, index_entries: 11, ..small() }
}

/// Forty messages, one an hour from `NOW` on, three to a log file.
fn fill(store: &mut Store) {
    for index in 0..40_i64 {
        let key = format!("KEYS\x01k{index}\x02");
        let body = [index as u8; 200];
        let message = PutMessage { properties: key.as_bytes(), ..message("T", &body) };
        store.put(NOW + index * HOUR, &message).unwrap();
        dispatch(store);
    }
}

fn names(path: &Path) -> Vec<String> {
    let mut names: Vec<_> =
        fs::read_dir(path).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn check_gone(store: &mut Store, first: u64) {
    assert_eq!(store.min_offset("T", 0), first);
    assert_eq!(store.max_offset("T", 0), 40);
    let read = |offset| store.get("T", 0, offset, 32, usize::MAX, &|_| true);
    let before = read(first - 1);
    assert_eq!((before.status, before.next_begin_offset), (GetStatus::OffsetTooSmall, first));
    assert_eq!(read(first).status, GetStatus::Found);
    assert_eq!(bodies(store, "T").len() as u64, 40 - first);
    assert_eq!(store.query("T", &format!("k{}", first - 1), 32, 0..=i64::MAX).messages.len(), 0);
    assert_eq!(store.query("T", &format!("k{first}"), 32, 0..=i64::MAX).messages.len(), 1);
}

#[test]
fn old_files_go_and_everything_that_points_to_them() {
    let directory = tempfile::tempdir().unwrap();
    let mut store = Store::open(directory.path(), config(|_| {})).unwrap();
    fill(&mut store);
    let kept = store.get("T", 0, 0, 1, usize::MAX, &|_| true).messages.remove(0);
    let copy = kept.to_vec();
    // Files 0 to 4 end before hour 15, whose file is young enough at hour 16.
    assert_eq!(store.clean(NOW + 17 * HOUR), Cleaned { log_files: 5, other_files: 3 });
    assert_eq!(store.min_physical_offset(), 5 * 1024);
    check_gone(&mut store, 15);
    assert_eq!(store.clean(NOW + 17 * HOUR), Cleaned::default());
    // At most ten a pass, and never the last.
    assert_eq!(store.clean(NOW + 1000 * HOUR).log_files, 8);
    assert_eq!(store.clean(NOW + 1000 * HOUR).log_files, 0);
    check_gone(&mut store, 39);
    assert!(kept == copy, "a slice of a removed file stays as it was");
    store.close(NOW).unwrap();
    assert_eq!(names(&directory.path().join("commitlog")).len(), 1);
    assert_eq!(names(&directory.path().join("consumequeue/T/0")), ["00000000000000000720"]);

    let mut store = Store::open(directory.path(), config(|_| {})).unwrap();
    check_gone(&mut store, 39);
    assert_eq!(put(&mut store, &message("T", b"next")).queue_offset, 40);
}

#[test]
fn the_hour_decides_unless_somebody_asks() {
    let mut store = Store::memory(config(|retention| retention.delete_when = vec![4]));
    fill(&mut store);
    // NOW is 22:13 UTC.
    let late = NOW + 100 * 24 * HOUR;
    assert_eq!(store.clean(late), Cleaned::default());
    assert_eq!(store.clean(late + 6 * HOUR).log_files, 10);
    store.clean_at_any_hour();
    assert_eq!(store.clean(late).log_files, 3);
}

#[test]
fn messages_in_memory_stay() {
    let mut store = Store::memory(StoreConfig { commit_log_file_size: 1024, ..StoreConfig::memory() });
    fill(&mut store);
    for hour in 0..24 {
        assert_eq!(store.clean(NOW + (10_000 + hour) * HOUR), Cleaned::default());
    }
    assert_eq!(bodies(&store, "T").len(), 40);
}

#[test]
fn a_full_disk_is_cleaned_and_refuses() {
    let directory = tempfile::tempdir().unwrap();
    // Every disk has something on it.
    let settings = config(|retention| {
        retention.delete_when = Vec::new();
        retention.warning_percent = Some(0);
    });
    let mut store = Store::open(directory.path(), settings).unwrap();
    fill(&mut store);
    assert_eq!(store.clean(NOW).log_files, 10, "however young");
    let refused = store.put(NOW, &message("T", b"more")).unwrap_err();
    assert!(matches!(&refused, PutError::NoSpace(_)), "{refused}");
    assert!(refused.to_string().contains("diskSpaceWarningLevelRatio"), "{refused}");
    assert_eq!(bodies(&store, "T").len(), 10, "reads go on");
    drop(store);

    let settings = config(|retention| {
        (retention.delete_when, retention.max_used_percent) = (Vec::new(), Some(0));
        retention.reserved_hours = Some(1_000_000);
    });
    let mut store = Store::open(directory.path(), settings).unwrap();
    assert_eq!(store.clean(NOW).log_files, 0, "not as full as to remove what is young");
    put(&mut store, &message("T", b"more"));
}

#[test]
fn a_queue_without_messages_keeps_its_offset() {
    let mut store = Store::memory(config(|_| {}));
    for _ in 0..3 {
        put(&mut store, &message("Old", b"gone"));
    }
    fill(&mut store);
    store.clean(NOW + 1000 * HOUR);
    assert_eq!((store.min_offset("Old", 0), store.max_offset("Old", 0)), (3, 3));
    let read = |offset| store.get("Old", 0, offset, 32, usize::MAX, &|_| true).status;
    assert_eq!([0, 3].map(read), [GetStatus::OffsetTooSmall, GetStatus::OffsetOverflowOne]);
    assert_eq!(put(&mut store, &message("Old", b"new")).queue_offset, 3);
    assert_eq!(bodies(&store, "Old"), [b"new"]);
}
