//! Our broker and Apache's copy each other's log.

use std::{fs, path::Path, time::Duration};

use rocketmq_tests::{
    apache::{ApacheCluster, ApacheOptions, create_topic},
    cache,
    foreign::Arguments,
    mock_process::MockProcess,
    process::poll,
    stored,
};

const FILE_SIZE: &str = "65536";
/// An Apache slave of 4.9.7 asks for the master's settings 3 s after it started, and then every 10 s.
/// 4.4.0 and 5.3.3 wait a minute.
const LIMIT: Duration = Duration::from_secs(180);

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

/// What makes a master of a version wait for its slave, and a slave serve.
fn pair(version: &str) -> Vec<(&'static str, &'static str)> {
    let mut settings = vec![("mappedFileSizeCommitLog", FILE_SIZE), ("mapedFileSizeCommitLog", FILE_SIZE)];
    if version.starts_with("5.") {
        // 5.x counts itself, and has its slaves refuse reads.
        settings.extend([("inSyncReplicas", "2"), ("slaveReadEnable", "true")]);
    }
    settings
}

/// What a master answers while nobody copies it.
fn alone(version: &str) -> i64 {
    if version.starts_with("5.") { 12 } else { 11 }
}

fn apache(version: &str, role: &str, store: &Path, name_server: Option<&str>) -> ApacheCluster {
    let mut options = ApacheOptions {
        store: Some(store.to_owned()),
        name_server: name_server.map(str::to_owned),
        ..ApacheOptions::default()
    };
    for (key, value) in pair(version) {
        options = options.set(key, value);
    }
    options = options.set("brokerRole", role);
    ApacheCluster::start(version, if role == "SLAVE" { options.set("brokerId", "1") } else { options })
}

fn ours<'a>(version: &'a str, role: &'a str, more: &[(&'a str, &'a str)]) -> Vec<(&'a str, &'a str)> {
    let known = pair(version).into_iter().filter(|(key, _)| !key.starts_with("maped"));
    let own = [("brokerRole", role), ("compatibility", &version[..3])];
    known.chain(own).chain(more.iter().copied()).collect()
}

fn our_slave_copies_a_master_of_apache_s(version: &str) {
    let directory = cache::run_directory(&format!("replication-ours-{version}"));
    let store = directory.join("apache");
    let mut master = apache(version, "SYNC_MASTER", &store, None);
    master.create_topic("Copied", 1);
    let ha = ha_address(&master.broker());
    let slave = MockProcess::start_in(&directory, &ours(version, "SLAVE", &[("haMasterAddress", &ha)]));
    let ours = slave.addresses().broker.clone();
    poll("a send that our slave has", LIMIT, || {
        (stored::try_send(&master.broker(), "Copied", 0, "", b"first").code == 0).then_some(())
    });
    // The master answers 0 only when our slave has each.
    fill(&master.broker(), "Copied");
    // 5.3 commits only for a group that it knows, as from a pull.
    stored::pull(&master.broker(), "Copied", 0, 0);
    stored::commit(&master.broker(), "Copied", 0, 5);
    poll("the master's queue", LIMIT, || (stored::max_offset(&master.broker(), "Copied", 0) > 30).then_some(()));
    let theirs = stored::queue(&master.broker(), "Copied", 0);
    poll("the master's offsets", LIMIT, || (stored::committed(&ours, "Copied", 0) == 5).then_some(()));
    assert!(stored::queue(&ours, "Copied", 0) == theirs, "the queues differ");
    let length = theirs.records.len() as u64;
    assert!(log(&store, length) == log(&directory.join("store"), length), "the logs differ");
    let refused = stored::try_send(&ours, "Copied", 0, "", b"to a slave").code;
    assert_eq!(refused, if version.starts_with("5.") { 2 } else { 14 });
    master.kill_broker();
    assert!(stored::queue(&ours, "Copied", 0) == theirs, "without the master");
}

fn a_slave_of_apache_s_copies_ours(version: &str) {
    let directory = cache::run_directory(&format!("replication-apache-{version}"));
    let mut master = MockProcess::start_in(&directory, &ours(version, "SYNC_MASTER", &[]));
    let addresses = master.addresses().clone();
    create_topic(&addresses.name_server, &addresses.broker, "Copied", 1);
    let answer = stored::try_send(&addresses.broker, "Copied", 0, "", b"first");
    assert_eq!(answer.code, alone(version), "nobody copies yet");
    let store = directory.join("apache");
    let slave = apache(version, "SLAVE", &store, Some(&addresses.name_server));
    poll("a send that Apache's slave has", LIMIT, || {
        (stored::try_send(&addresses.broker, "Copied", 0, "", b"second").code == 0).then_some(())
    });
    fill(&addresses.broker, "Copied");
    stored::pull(&addresses.broker, "Copied", 0, 0);
    stored::commit(&addresses.broker, "Copied", 0, 5);
    let ours = stored::queue(&addresses.broker, "Copied", 0);
    poll("the master's topics and messages on the slave", LIMIT, || {
        let pulled = stored::pull(&slave.broker(), "Copied", 0, ours.max_offset - 1);
        (pulled.code == 0).then_some(())
    });
    assert!(stored::queue(&slave.broker(), "Copied", 0) == ours, "the queues differ");
    let length = ours.records.len() as u64;
    assert!(log(&store, length) == log(&directory.join("store"), length), "the logs differ");
    poll("the master's offsets", LIMIT, || (stored::committed(&slave.broker(), "Copied", 0) == 5).then_some(()));
    // Our name server goes with it.
    master.kill();
    assert!(stored::queue(&slave.broker(), "Copied", 0) == ours, "without the master");
}

/// The Java client reads from our slave when our master is gone, as routes and suggestions lead it there.
#[test]
fn java_reads_from_our_slave_when_the_master_is_gone() {
    let name_server = MockProcess::start(&[("brokerName", "nothing-is-here")]);
    let name_server = name_server.addresses().name_server.clone();
    let directory = cache::run_directory("replication-java");
    for role in ["master", "slave"] {
        fs::create_dir(directory.join(role)).unwrap();
    }
    let master_settings = ours("4.9", "SYNC_MASTER", &[("namesrvAddr", &name_server), ("brokerName", "broker-pair")]);
    let mut master = MockProcess::start_in(&directory.join("master"), &master_settings);
    let broker = master.addresses().broker.clone();
    create_topic(&name_server, &broker, "Survives", 2);
    let ha = ha_address(&broker);
    let slave_settings = ours(
        "4.9",
        "SLAVE",
        &[("namesrvAddr", &name_server), ("brokerName", "broker-pair"), ("brokerId", "1"), ("haMasterAddress", &ha)],
    );
    let slave = MockProcess::start_in(&directory.join("slave"), &slave_settings);
    poll("a send that the slave has", LIMIT, || {
        (stored::try_send(&broker, "Survives", 0, "KEYS\u{1}k-0\u{2}", b"first").code == 0).then_some(())
    });
    let slave_broker = slave.addresses().broker.clone();
    poll("the master's topics on the slave", LIMIT, || {
        (stored::pull(&slave_broker, "Survives", 0, 0).code == 0).then_some(())
    });
    rocketmq_tests::administration::run(async {
        let driver = rocketmq_tests::party::java_4_9_7().driver();
        let arguments = Arguments::new().set("name_server", &name_server).set("topic", "Survives");
        driver.produce(&arguments.clone().set("count", 10).set("keys", "j-{}")).outcome().await;
        let count = stored::max_offset(&broker, "Survives", 0) + stored::max_offset(&broker, "Survives", 1);
        tokio::task::block_in_place(|| {
            master.kill();
            poll("the slave alone in the route", LIMIT, || {
                let answer = rocketmq_tests::raw::ask(&name_server, 105, &[("topic", "Survives")], &[]).ok()?;
                let route = String::from_utf8_lossy(&answer.body).into_owned();
                (route.contains(&slave_broker) && !route.contains(&broker)).then_some(())
            });
        });
        let mut consumer = driver.consume(&arguments.set("group", "survivors")).await;
        let received = consumer.messages(usize::try_from(count).expect("few")).await;
        let keys: std::collections::BTreeSet<_> = received.iter().map(|message| message.keys.clone()).collect();
        assert!((0..10).all(|index| keys.contains(&format!("j-{index}"))), "{keys:?}");
        consumer.stop().await;
    });
}

#[test]
fn our_slave_of_4_4_0() {
    our_slave_copies_a_master_of_apache_s("4.4.0");
}

#[test]
fn our_slave_of_4_9_7() {
    our_slave_copies_a_master_of_apache_s("4.9.7");
}

#[test]
fn our_slave_of_5_3_3() {
    our_slave_copies_a_master_of_apache_s("5.3.3");
}

#[test]
fn a_slave_of_4_4_0() {
    a_slave_of_apache_s_copies_ours("4.4.0");
}

#[test]
fn a_slave_of_4_9_7() {
    a_slave_of_apache_s_copies_ours("4.9.7");
}

#[test]
fn a_slave_of_5_3_3() {
    a_slave_of_apache_s_copies_ours("5.3.3");
}
