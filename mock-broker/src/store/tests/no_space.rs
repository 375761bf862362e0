//! A full disk: puts are refused, reads go on, and everything resumes when there is space.

use crate::store::platform::limit;
use crate::store::test_support::*;
use crate::store::{PutError, PutMessage, Store};

/// Lifts the limit when a test ends, however it does.
struct Limit;

impl Limit {
    fn bytes(left: u64) -> Self {
        limit::set(Some(left));
        Limit
    }
}

impl Drop for Limit {
    fn drop(&mut self) {
        limit::set(None);
    }
}

#[test]
fn every_file_that_finds_no_space_refuses_cleanly() {
    // Each budget runs out at another place: queue files, log files, the first or a later one.
    for budget in 0..40 {
        let directory = tempfile::tempdir().unwrap();
        let mut store = Store::open(directory.path(), small()).unwrap();
        let full = Limit::bytes(budget * 100);
        let mut stored = 0_u64;
        let error = loop {
            let queue_id = (stored % 2) as i32;
            match store.put(NOW, &PutMessage { queue_id, ..message("T", &[stored as u8; 200]) }) {
                Ok(outcome) => assert_eq!(outcome.queue_offset, stored / 2),
                Err(error) => break error,
            }
            stored += 1;
            assert!(stored < 100, "the disk is never full");
        };
        assert!(matches!(error, PutError::NoSpace(_)), "{error:?}");
        assert!(error.to_string().contains("no space is left"), "{error}");
        assert!(error.to_string().contains(directory.path().to_str().unwrap()), "{error}");

        dispatch(&mut store);
        assert_eq!(read_all(&store, "T", 0).len() as u64, stored.div_ceil(2));
        assert_eq!(read_all(&store, "T", 1).len() as u64, stored / 2);

        drop(full);
        for more in stored..stored + 20 {
            let outcome =
                put(&mut store, &PutMessage { queue_id: (more % 2) as i32, ..message("T", &[more as u8; 200]) });
            assert_eq!(outcome.queue_offset, more / 2);
        }
        drop(store);
        let store = Store::open(directory.path(), small()).unwrap();
        let both = [read_all(&store, "T", 0), read_all(&store, "T", 1)];
        for (index, message) in (0..stored + 20).map(|index| (index, &both[index as usize % 2][index as usize / 2])) {
            assert_eq!(message.body(), vec![index as u8; 200]);
        }
    }
}

#[test]
fn a_delayed_message_waits_for_space() {
    let directory = tempfile::tempdir().unwrap();
    let mut store = Store::open(directory.path(), small()).unwrap();
    put(&mut store, &PutMessage { properties: b"DELAY\x011\x02", ..message("T", &[1; 700]) });
    let full = Limit::bytes(0);
    let delivered = store.deliver_scheduled(NOW + 1000, &mut |_| {}).unwrap();
    assert_eq!((delivered.count, delivered.next_due), (0, Some(NOW + 1100)));
    drop(full);
    let delivered = store.deliver_scheduled(NOW + 1100, &mut |_| {}).unwrap();
    assert_eq!((delivered.count, delivered.next_due), (1, None));
    assert_eq!(bodies(&store, "T"), [vec![1; 700]]);
}

#[test]
fn an_index_that_finds_no_space_catches_up_later() {
    let directory = tempfile::tempdir().unwrap();
    let mut store = Store::open(directory.path(), small()).unwrap();
    for key in ["KEYS\x01a\x02", "KEYS\x01b\x02"] {
        put(&mut store, &PutMessage { properties: key.as_bytes(), ..message("T", b"body") });
    }
    let full = Limit::bytes(0);
    let behind = store.index_behind();
    store.index_some();
    assert_eq!(store.index_behind(), behind);
    assert!(store.query("T", "a", 32, 0..=i64::MAX).messages.is_empty());
    assert_eq!(bodies(&store, "T").len(), 2, "reads go on");
    drop(full);
    for key in ["a", "b"] {
        assert_eq!(store.query("T", key, 32, 0..=i64::MAX).messages.len(), 1);
    }
    assert_eq!(store.index_behind(), 0);
}
