//! Offsets in a file.

use std::sync::atomic::{AtomicU32, Ordering};

use super::*;

/// A directory that is gone when the test is over.
struct Directory(PathBuf);

impl Directory {
    fn new() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let name = format!("rocketmq-offsets-{}-{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
        Self(std::env::temp_dir().join(name))
    }

    fn store(&self) -> LocalFileOffsets {
        LocalFileOffsets::new(Env::system().expect("a runtime"), &self.0, "10.0.0.1@member")
    }

    fn file(&self) -> PathBuf {
        self.0.join("10.0.0.1@member/g/offsets.json")
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn queue(id: i32) -> MessageQueue {
    MessageQueue::new("t", "a", id)
}

#[tokio::test]
async fn offsets_outlive_the_process_and_a_damaged_file() {
    let directory = Directory::new();
    let store = directory.store();
    assert_eq!(store.load("g", &queue(0)).await.expect("readable"), None);
    store.store("g", &queue(0), 123).await.expect("writable");
    store.store("g", &queue(1), 7).await.expect("writable");
    assert_eq!(directory.store().load("g", &queue(0)).await.expect("readable"), Some(123));

    std::fs::write(directory.file(), b"{\"offsetTable\":{{\"brok").expect("writable");
    let store = directory.store();
    let offsets =
        [store.load("g", &queue(0)).await.expect("the backup"), store.load("g", &queue(1)).await.expect("it")];
    assert_eq!(offsets, [Some(123), None], "the last write but one");

    std::fs::write(backup(&directory.file()), b"nonsense").expect("writable");
    let error = directory.store().load("g", &queue(0)).await.expect_err("nothing is taken for an offset");
    assert!(error.to_string().contains("offsets.json"), "{error}");
}

#[tokio::test]
async fn a_file_of_a_java_client_is_read() {
    let directory = Directory::new();
    std::fs::create_dir_all(directory.file().parent().expect("a directory")).expect("writable");
    let java = "{\n\t\"offsetTable\":{{\n\t\t\t\"brokerName\":\"a\",\n\t\t\t\"queueId\":0,\n\t\t\t\"topic\":\"t\"\n\t\t}:42\n\t}\n}";
    std::fs::write(directory.file(), java).expect("writable");
    assert_eq!(directory.store().load("g", &queue(0)).await.expect("readable"), Some(42));
}

#[tokio::test]
async fn a_crash_between_the_two_renames_loses_nothing() {
    let directory = Directory::new();
    directory.store().store("g", &queue(0), 5).await.expect("writable");
    std::fs::rename(directory.file(), backup(&directory.file())).expect("there");
    assert_eq!(directory.store().load("g", &queue(0)).await.expect("readable"), Some(5));
}
