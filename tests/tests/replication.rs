//! Our broker and Apache's copy each other's log.

use std::{fs, path::Path, time::Duration};

use rocketmq_tests::{
    apache::{ApacheCluster, ApacheOptions, create_topic},
    cache,
    mock_process::MockProcess,
    process::poll,
    stored,
};

const FILE_SIZE: &str = "65536";
/// An Apache slave asks for the master's settings 3 s after it started, and then every 10 s.
const LIMIT: Duration = Duration::from_secs(90);

/// The first `length` bytes of a store's log.
fn log(store: &Path, length: u64) -> Vec<u8> {
    let mut names: Vec<_> = fs::read_dir(store.join("commitlog")).unwrap().map(|entry| entry.unwrap().path()).collect();
    names.sort();
    let mut bytes: Vec<u8> = names.iter().flat_map(|name| fs::read(name).unwrap()).collect();
    bytes.truncate(length as usize);
    bytes
}

fn ha_address(broker: &str) -> String {
    let (host, port) = broker.rsplit_once(':').expect("host and port");
    format!("{host}:{}", port.parse::<u16>().expect("a port") + 1)
}

/// Sends thirty messages, over several files of the log, and returns where the last one ended in the queue.
fn fill(broker: &str, topic: &str) {
    for index in 0..30_u8 {
        let properties = format!("TAGS\u{1}tag\u{2}KEYS\u{1}key{index}\u{2}WAIT\u{1}true\u{2}");
        let answer = stored::try_send(broker, topic, 0, &properties, &vec![index; 5000]);
        assert_eq!(answer.code, 0, "message {index}: {:?}", answer.remark);
    }
}

#[test]
fn our_slave_copies_a_master_of_apache_s() {
    let directory = cache::run_directory("replication-ours");
    let store = directory.join("apache");
    let options = ApacheOptions { store: Some(store.clone()), ..ApacheOptions::default() }
        .set("brokerRole", "SYNC_MASTER")
        .set("mappedFileSizeCommitLog", FILE_SIZE);
    let mut master = ApacheCluster::start("4.9.7", options);
    master.create_topic("Copied", 1);
    let ha = ha_address(&master.broker());
    let slave = MockProcess::start_in(
        &directory,
        &[
            ("brokerRole", "SLAVE"),
            ("compatibility", "4.9"),
            ("haMasterAddress", &ha),
            ("mappedFileSizeCommitLog", FILE_SIZE),
        ],
    );
    let ours = slave.addresses().broker.clone();
    poll("a send that our slave has", LIMIT, || {
        (stored::try_send(&master.broker(), "Copied", 0, "", b"first").code == 0).then_some(())
    });
    // The master answers 0 only when our slave has each.
    fill(&master.broker(), "Copied");
    stored::commit(&master.broker(), "Copied", 0, 5);
    let theirs = stored::queue(&master.broker(), "Copied", 0);
    assert!(stored::queue(&ours, "Copied", 0) == theirs, "the queues differ");
    let length = theirs.records.len() as u64;
    assert!(log(&store, length) == log(&directory.join("store"), length), "the logs differ");
    poll("the master's offsets", LIMIT, || (stored::committed(&ours, "Copied", 0) == 5).then_some(()));
    assert_eq!(stored::try_send(&ours, "Copied", 0, "", b"to a slave").code, 14);
    master.kill_broker();
    assert!(stored::queue(&ours, "Copied", 0) == theirs, "without the master");
}

#[test]
fn a_slave_of_apache_s_copies_ours() {
    let directory = cache::run_directory("replication-apache");
    let mut master = MockProcess::start_in(
        &directory,
        &[("brokerRole", "SYNC_MASTER"), ("compatibility", "4.9"), ("mappedFileSizeCommitLog", FILE_SIZE)],
    );
    let addresses = master.addresses().clone();
    create_topic(&addresses.name_server, &addresses.broker, "Copied", 1);
    assert_eq!(stored::try_send(&addresses.broker, "Copied", 0, "", b"first").code, 11, "nobody copies yet");
    let store = directory.join("apache");
    let options = ApacheOptions {
        store: Some(store.clone()),
        name_server: Some(addresses.name_server.clone()),
        ..ApacheOptions::default()
    }
    .set("brokerRole", "SLAVE")
    .set("brokerId", "1")
    .set("mappedFileSizeCommitLog", FILE_SIZE);
    let slave = ApacheCluster::start("4.9.7", options);
    poll("a send that Apache's slave has", LIMIT, || {
        (stored::try_send(&addresses.broker, "Copied", 0, "", b"second").code == 0).then_some(())
    });
    fill(&addresses.broker, "Copied");
    stored::commit(&addresses.broker, "Copied", 0, 5);
    let ours = stored::queue(&addresses.broker, "Copied", 0);
    poll("the master's topics on the slave", LIMIT, || {
        (stored::pull(&slave.broker(), "Copied", 0, 0).code == 0).then_some(())
    });
    assert!(stored::queue(&slave.broker(), "Copied", 0) == ours, "the queues differ");
    let length = ours.records.len() as u64;
    assert!(log(&store, length) == log(&directory.join("store"), length), "the logs differ");
    poll("the master's offsets", LIMIT, || (stored::committed(&slave.broker(), "Copied", 0) == 5).then_some(()));
    // Our name server goes with it.
    master.kill();
    assert!(stored::queue(&slave.broker(), "Copied", 0) == ours, "without the master");
}
