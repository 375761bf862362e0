//! Stores looked at and checked without being opened, ours and Apache's.

use std::path::{Path, PathBuf};
use std::process::Command;

use rocketmq_mock_broker::files::{StoreFiles, is_of_clients, verify};
use rocketmq_mock_broker::{MockBroker, Outgoing};

fn golden(name: &str) -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    let archive = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("tests/golden/stores/{name}.tar.gz"));
    let unpacked = Command::new("tar").arg("-xzSf").arg(archive).arg("-C").arg(directory.path()).status();
    assert!(unpacked.expect("tar runs").success());
    directory
}

/// The directory below with the log in it.
fn store_in(directory: &Path) -> PathBuf {
    if directory.join("commitlog").is_dir() {
        return directory.to_owned();
    }
    let below = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    below
        .filter(|path| path.is_dir())
        .map(|path| store_in(&path))
        .find(|path| path.join("commitlog").is_dir())
        .unwrap_or_default()
}

fn ours(messages: usize) -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    let broker = MockBroker::builder().topic("orders", 2).store_directory(directory.path()).start_blocking().unwrap();
    for number in 0..messages {
        broker.put(Outgoing::new("orders", format!("body {number}")).tag("t").key(number.to_string())).unwrap();
    }
    broker.stop_blocking().unwrap();
    directory
}

#[test]
fn our_store_is_read_in_the_order_of_the_log_and_nothing_is_wrong_with_it() {
    let directory = ours(20);
    let store = StoreFiles::open(directory.path()).unwrap();
    let mut seen = Vec::new();
    let end = store
        .messages(store.begin(), &mut |message| {
            seen.push((is_of_clients(&message), message.text()));
            Ok(())
        })
        .unwrap();
    let expected: Vec<_> = (0..20).map(|number| (true, format!("body {number}"))).collect();
    assert_eq!(seen, expected);
    // From there on there is nothing, and then what comes later.
    let mut count = 0;
    assert_eq!(
        store
            .messages(end, &mut |_| {
                count += 1;
                Ok(())
            })
            .unwrap(),
        end
    );
    assert_eq!(count, 0);
    let names: Vec<String> = store.settings().unwrap().into_iter().map(|(name, _)| name).collect();
    assert!(names.contains(&"topics".to_owned()), "{names:?}");
    let report = verify(directory.path()).unwrap();
    assert_eq!(report.findings, []);
    assert_eq!((report.messages, report.queue_entries), (20, 20));
}

#[test]
fn apache_s_stores_are_read_and_found_whole() {
    for name in ["4.4.0", "4.9.7", "5.3.3"] {
        let directory = golden(name);
        let store = store_in(directory.path());
        let report = verify(&store).unwrap();
        assert_eq!(report.findings, [], "{name}");
        assert!(report.messages > 0 && report.queue_entries > 0, "{name}: {report:?}");
        let mut count = 0;
        StoreFiles::open(&store)
            .unwrap()
            .messages(0, &mut |_| {
                count += 1;
                Ok(())
            })
            .unwrap();
        assert_eq!(count, report.messages, "{name}");
    }
}

#[test]
fn damage_is_found_where_it_is() {
    let directory = ours(20);
    let log = directory.path().join("commitlog/00000000000000000000");
    let mut bytes = std::fs::read(&log).unwrap();
    let at = bytes.windows(6).position(|window| window == b"body 7").unwrap();
    bytes[at] = b'B';
    std::fs::write(&log, &bytes).unwrap();
    let report = verify(directory.path()).unwrap();
    assert_eq!(report.findings.len(), 1, "{:?}", report.findings);
    assert!(report.findings[0].file == log && (report.findings[0].offset as usize) < at);

    let queue = directory.path().join("consumequeue/orders/0/00000000000000000000");
    let mut entries = std::fs::read(&queue).unwrap();
    entries[20..28].copy_from_slice(&(1_u64 << 40).to_be_bytes());
    std::fs::write(&queue, &entries).unwrap();
    std::fs::write(directory.path().join("config/topics.json"), "{").unwrap();
    let report = verify(directory.path()).unwrap();
    let seen: Vec<String> = report.findings.iter().map(ToString::to_string).collect();
    assert!(seen.iter().any(|finding| finding.contains("orders/0") && finding.contains("at offset 20")), "{seen:?}");
    assert!(seen.iter().any(|finding| finding.contains("topics.json")), "{seen:?}");
    assert!(verify(&directory.path().join("config")).is_err());
}
