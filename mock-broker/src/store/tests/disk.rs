//! What is on disk, and what comes back from there.

use std::fs;
use std::path::Path;

use crate::store::consume_queue::ENTRY_SIZE;
use crate::store::test_support::*;
use crate::store::{PutMessage, Store, StoreConfig};

fn open(path: &Path) -> Store {
    Store::open(path, small()).expect("the store can be opened")
}

/// Puts messages of many sizes into three queues, enough for several files of each kind.
fn fill(store: &mut Store) {
    for index in 0..60_usize {
        let topic = if index % 3 == 0 { "A" } else { "B" };
        let body = vec![index as u8; index * 37 % 500];
        put(store, &PutMessage { queue_id: (index % 2) as i32, properties: b"TAGS\x01a\x02", ..message(topic, &body) });
    }
}

fn contents(store: &Store) -> Vec<(String, i32, Vec<Vec<u8>>)> {
    let queue = |topic: &str, id| read_all(store, topic, id).iter().map(|found| found.as_bytes().to_vec()).collect();
    let queues = store.topics().into_iter().flat_map(|topic| store.queue_ids(topic).map(move |id| (topic, id)));
    queues.map(|(topic, id)| (topic.to_owned(), id, queue(topic, id))).collect()
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &to.join(entry.file_name()));
        } else {
            fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
        }
    }
}

#[test]
fn memory_and_files_have_the_same_layout() {
    let directory = tempfile::tempdir().unwrap();
    let mut disk = open(directory.path());
    let mut memory = Store::memory(small());
    fill(&mut disk);
    fill(&mut memory);
    assert!(contents(&disk) == contents(&memory), "the contents differ");

    let end = memory.max_physical_offset();
    assert!(end > 5 * 1024, "several files");
    for base in (0..end).step_by(1024) {
        let file = fs::read(directory.path().join(format!("commitlog/{base:020}"))).unwrap();
        let expected = memory.read_raw(base, 1024).unwrap();
        assert_eq!(file.len(), 1024);
        assert_eq!(file[..expected.len()], expected);
        assert!(file[expected.len()..].iter().all(|&byte| byte == 0));
    }
    for (topic, queue_id) in [("A", 0), ("A", 1), ("B", 0), ("B", 1)] {
        let queue = memory.queues.queue(topic, queue_id).unwrap();
        assert!(queue.max_offset() >= 10);
        for base in (0..queue.max_offset()).step_by(4) {
            let offset = base as usize * ENTRY_SIZE;
            let path = format!("consumequeue/{topic}/{queue_id}/{offset:020}");
            let file = fs::read(directory.path().join(path)).unwrap();
            let entries: Vec<_> = queue.entries(base).take(4).flat_map(|(_, entry)| entry.encode()).collect();
            assert_eq!(file.len(), 4 * ENTRY_SIZE);
            assert_eq!(file[..entries.len()], entries);
        }
    }
}

#[test]
fn closing_and_opening_changes_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let mut expected = Store::memory(small());
    for _ in 0..3 {
        let mut store = open(directory.path());
        assert!(contents(&store) == contents(&expected), "the contents differ");
        fill(&mut store);
        fill(&mut expected);
        assert!(directory.path().join("abort").exists());
        store.close(NOW).unwrap();
        assert!(!directory.path().join("abort").exists());
    }
    assert!(contents(&open(directory.path())) == contents(&expected), "the contents differ");
}

#[test]
fn a_store_that_was_only_dropped_has_everything() {
    let directory = tempfile::tempdir().unwrap();
    let mut expected = Store::memory(small());
    for _ in 0..3 {
        let mut store = open(directory.path());
        assert!(contents(&store) == contents(&expected), "the contents differ");
        fill(&mut store);
        fill(&mut expected);
    }
    assert!(contents(&open(directory.path())) == contents(&expected), "the contents differ");
}

#[test]
fn a_killed_process_loses_nothing() {
    // What a kill leaves behind is what the files hold while the store is open, at every moment.
    let directory = tempfile::tempdir().unwrap();
    let mut store = open(&directory.path().join("alive"));
    for index in 0..30_u8 {
        // Not dispatched: in the log, but in no queue.
        store.put(NOW, &message("T", &vec![index; 7 * usize::from(index)])).unwrap();
        if index % 3 == 0 {
            dispatch(&mut store);
        }
        let killed = directory.path().join(format!("killed{index}"));
        copy(&directory.path().join("alive"), &killed);
        let mut survivor = open(&killed);
        let expected: Vec<_> = (0..=index).map(|index| vec![index; 7 * usize::from(index)]).collect();
        assert_eq!(bodies(&survivor, "T"), expected);
        assert_eq!(survivor.max_physical_offset(), store.max_physical_offset());
        assert_eq!(put(&mut survivor, &message("T", b"more")).queue_offset, u64::from(index) + 1);
    }
}

#[test]
fn queues_are_made_anew_from_the_log() {
    let directory = tempfile::tempdir().unwrap();
    let mut store = open(directory.path());
    fill(&mut store);
    let expected = contents(&store);
    store.close(NOW).unwrap();

    fs::remove_dir_all(directory.path().join("consumequeue")).unwrap();
    let store = open(directory.path());
    assert!(contents(&store) == expected, "the contents differ");
    // One queue lost after a crash, with messages older than the files that are looked at.
    drop(store);
    fs::remove_dir_all(directory.path().join("consumequeue/A/0")).unwrap();
    assert!(contents(&open(directory.path())) == expected, "the contents differ");
}

#[test]
fn files_keep_their_size_and_spare_ones_go() {
    let directory = tempfile::tempdir().unwrap();
    let mut store = open(directory.path());
    fill(&mut store);
    let expected = contents(&store);
    let next = store.max_physical_offset().next_multiple_of(1024);
    drop(store);
    // A file made ahead that holds nothing yet, and one that a crash left without its size.
    let spare = directory.path().join(format!("commitlog/{next:020}"));
    let empty = directory.path().join(format!("commitlog/{:020}", next + 1024));
    fs::write(&spare, [0; 1024]).unwrap();
    fs::write(&empty, []).unwrap();
    let mut store = Store::open(directory.path(), StoreConfig::disk()).unwrap();
    assert!(!spare.exists() && !empty.exists());
    assert!(contents(&store) == expected, "the contents differ");
    fill(&mut store);
    drop(store);
    for entry in fs::read_dir(directory.path().join("commitlog")).unwrap() {
        assert_eq!(entry.unwrap().metadata().unwrap().len(), 1024);
    }
}

#[test]
fn files_that_do_not_belong_together_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let mut store = open(directory.path());
    fill(&mut store);
    store.close(NOW).unwrap();
    fs::remove_file(directory.path().join(format!("commitlog/{:020}", 1024))).unwrap();
    let error = Store::open(directory.path(), small()).unwrap_err().to_string();
    assert!(error.contains("does not continue files of 1024 bytes from 0 on"), "{error}");
    assert!(error.contains("00000000000000002048"), "{error}");
}

#[test]
fn one_store_holds_a_directory_at_a_time() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(directory.path());
    let error = Store::open(directory.path(), small()).unwrap_err().to_string();
    assert!(error.contains(&format!("process {} has the store open", std::process::id())), "{error}");
    drop(store);
    open(directory.path());
}

#[test]
fn a_directory_that_cannot_be_is_an_error_that_names_it() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("file");
    fs::write(&file, b"x").unwrap();
    let error = Store::open(&file.join("store"), small()).unwrap_err();
    assert!(error.to_string().contains("file/store"), "{error}");
}

#[test]
fn settings_are_replaced_whole_and_the_version_before_is_kept() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("config/topics.json");
    let parse = |text: &str| text.trim().parse::<u32>();
    let store = open(directory.path());
    let topics = store.config_file("topics.json");
    assert_eq!(topics.load(parse).unwrap(), None);
    for text in ["1", "2"] {
        topics.persist(text.into()).unwrap();
        store.flush();
    }
    assert_eq!(topics.load(parse).unwrap(), Some(2));
    assert_eq!(fs::read_to_string(directory.path().join("config/topics.json.bak")).unwrap(), "1");

    for damaged in ["", "{\"half", " \n"] {
        fs::write(&path, damaged).unwrap();
        assert_eq!(topics.load(parse).unwrap(), Some(1));
    }
    fs::remove_file(&path).unwrap();
    assert_eq!(topics.load(parse).unwrap(), Some(1));
    fs::write(&path, "x").unwrap();
    fs::write(directory.path().join("config/topics.json.bak"), "y").unwrap();
    let error = topics.load(parse).unwrap_err().to_string();
    assert!(error.contains("config/topics.json"), "{error}");

    store.close(NOW).unwrap();
    let error = topics.persist("3".into()).unwrap_err().to_string();
    assert!(error.contains("closed"), "{error}");

    let memory = Store::memory(small()).config_file("topics.json");
    memory.persist("1".into()).unwrap();
    assert_eq!(memory.load(parse).unwrap(), None);
}

#[test]
fn settings_that_are_written_are_there_at_once() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(directory.path());
    let topics = store.config_file("topics.json");
    for text in ["1", "2", "3"] {
        topics.write(text).unwrap();
        assert_eq!(fs::read_to_string(directory.path().join("config/topics.json")).unwrap(), text);
    }
    assert_eq!(fs::read_to_string(directory.path().join("config/topics.json.bak")).unwrap(), "2");
    store.flush();
    Store::memory(small()).config_file("topics.json").write("1").unwrap();
}

#[test]
fn the_checkpoint_tells_what_is_on_disk() {
    let directory = tempfile::tempdir().unwrap();
    let mut store = open(directory.path());
    for time in [NOW, NOW + 5000] {
        store.put(time, &message("T", b"body")).unwrap();
        dispatch(&mut store);
    }
    store.close(NOW).unwrap();
    let checkpoint = fs::read(directory.path().join("checkpoint")).unwrap();
    assert_eq!(checkpoint.len(), 4096);
    let times: Vec<i64> =
        checkpoint.chunks(8).take(3).map(|time| i64::from_be_bytes(time.try_into().unwrap())).collect();
    // The only index file still changes.
    assert_eq!(times, [NOW + 5000, NOW + 5000, 0]);
}

#[test]
fn files_from_before_the_checkpoint_are_not_looked_at_again() {
    let directory = tempfile::tempdir().unwrap();
    let mut store = open(directory.path());
    for index in 0..100_u8 {
        store.put(NOW + i64::from(index) * 1000, &message("T", &[index; 100])).unwrap();
        dispatch(&mut store);
    }
    let end = store.max_physical_offset();
    store.close(NOW).unwrap();
    // Damage in the second file: found if the file is read.
    let path = directory.path().join("commitlog/00000000000000001024");
    let mut bytes = fs::read(&path).unwrap();
    bytes[90] ^= 1;
    fs::write(&path, bytes).unwrap();
    fs::write(directory.path().join("abort"), "").unwrap();
    let store = open(directory.path());
    assert_eq!(store.max_physical_offset(), end);
    drop(store);
    fs::write(directory.path().join("checkpoint"), [0; 4096]).unwrap();
    let store = open(directory.path());
    assert!(store.max_physical_offset() < 2048, "the damage is found without a checkpoint");
}

#[test]
fn a_deleted_topic_starts_anew() {
    let directory = tempfile::tempdir().unwrap();
    let mut store = open(directory.path());
    for _ in 0..9 {
        put(&mut store, &message("A", b"a"));
        put(&mut store, &message("B", b"b"));
    }
    store.delete_topic("A").unwrap();
    store.delete_topic("never there").unwrap();
    assert_eq!(store.topics(), ["B"]);
    assert!(!directory.path().join("consumequeue/A").exists());
    assert_eq!((store.max_offset("A", 0), store.max_offset("B", 0)), (0, 9));
    assert_eq!(put(&mut store, &message("A", b"new")).queue_offset, 0);
    store.close(NOW).unwrap();
    let store = open(directory.path());
    assert_eq!(bodies(&store, "A"), [b"new"]);
    assert_eq!(bodies(&store, "B").len(), 9);
    drop(store);
    assert!(!directory.path().join("removed").exists());
}

#[test]
fn extensions_of_queues_are_written_as_apache_s_and_read_from_records() {
    let directory = tempfile::tempdir().unwrap();
    let config = StoreConfig { queue_extensions: true, queue_extension_file_size: 64, ..small() };
    let mut store = Store::open(directory.path(), config.clone()).unwrap();
    for index in 0..5_u8 {
        let properties = format!("TAGS\u{1}{}\u{2}", if index % 2 == 0 { "a" } else { "b" });
        put(&mut store, &PutMessage { properties: properties.as_bytes(), ..message("T", &[index]) });
    }
    put(&mut store, &PutMessage { properties: b"DELAY\x011\x02", ..message("Later", b"later") });
    let file = fs::read(directory.path().join("consumequeue_ext/T/0/00000000000000000000")).unwrap();
    let unit = [&20_u16.to_be_bytes()[..], &97_i64.to_be_bytes(), &NOW.to_be_bytes(), &[0, 0]].concat();
    assert_eq!((file.len(), &file[..20]), (64, &unit[..]));
    // A unit and the mark of the end did not fit any more.
    assert_eq!(file[60..], [0xFF, 0xFF, 0, 0]);
    let queue = fs::read(directory.path().join("consumequeue/T/0/00000000000000000000")).unwrap();
    assert_eq!(queue[12..20], i64::MIN.to_be_bytes());
    assert_eq!(queue[72..80], (i64::MIN + 64).to_be_bytes());
    let wanted = |store: &Store| {
        let found = store.get("T", 0, 0, 32, usize::MAX, &|tags_code| tags_code == 97);
        found.messages.len()
    };
    assert_eq!(wanted(&store), 3);
    store.close(NOW).unwrap();

    // With and without extensions what is there is understood, and what comes follows it.
    let mut store = Store::open(directory.path(), small()).unwrap();
    assert_eq!(wanted(&store), 3);
    put(&mut store, &PutMessage { properties: b"TAGS\x01a\x02", ..message("T", b"plain") });
    assert_eq!(store.next_delivery(NOW), Some(NOW + 1000));
    store.close(NOW).unwrap();
    let mut store = Store::open(directory.path(), config).unwrap();
    put(&mut store, &PutMessage { properties: b"TAGS\x01a\x02", ..message("T", b"extended") });
    assert_eq!(wanted(&store), 5);
    let file = fs::read(directory.path().join("consumequeue_ext/T/0/00000000000000000064")).unwrap();
    assert_eq!(file[..44].chunks(20).map(|unit| unit[1]).collect::<Vec<_>>(), [20; 3]);
    assert_eq!(store.deliver_scheduled(NOW + 1000, &mut |_| {}).unwrap().count, 1);
    assert_eq!(bodies(&store, "Later"), [b"later"]);
    store.delete_topic("T").unwrap();
    assert!(!directory.path().join("consumequeue_ext/T").exists());
}
