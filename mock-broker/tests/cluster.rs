//! Several brokers and name servers in one process.

mod support;

use std::net::TcpStream;
use std::time::Duration;

use rocketmq_mock_broker::{Fault, MockBroker, MockCluster, Outgoing};
use rocketmq_wire::RequestCode;
use support::{Peer, send_fields};

fn route(name_server: &str, topic: &str) -> String {
    let mut names = Peer::connect(name_server);
    String::from_utf8(names.request(RequestCode::GET_ROUTEINFO_BY_TOPIC, &[("topic", topic)], "").body.to_vec())
        .unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_name_server_knows_every_broker_and_slaves_follow() {
    let cluster = MockCluster::builder().name_servers(2).masters(2).slaves(1).topic("orders", 2).start().await.unwrap();
    assert_eq!(cluster.brokers().count(), 4);
    for names in cluster.name_servers() {
        let route = route(names.name_server(), "orders");
        for broker in cluster.brokers() {
            assert!(route.contains(broker.broker_address()), "{} in {route}", broker.broker_address());
        }
        assert!(!route.contains(names.broker_address()), "the broker beside a name server serves nobody");
    }
    let master = cluster.master("broker-a").unwrap();
    let slave = cluster.slaves("broker-a").next().unwrap();
    master.put(Outgoing::new("orders", "first")).unwrap();
    slave.wait_for_messages("orders", 1).await.unwrap();

    // A slave that lags has nothing of what the master stores, until it goes on.
    let lag = master.fault(Fault::slave_lag());
    master.put(Outgoing::new("orders", "second")).unwrap();
    assert_eq!((master.messages("orders").len(), slave.messages("orders").len()), (2, 1));
    lag.remove();
    slave.wait_for_messages("orders", 2).await.unwrap();

    cluster.master("broker-b").unwrap().put(Outgoing::new("orders", "late").delay_level(18)).unwrap();
    cluster.advance(Duration::from_secs(7200)).await;
    assert_eq!(cluster.messages("orders").len(), 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_broker_stops_and_comes_back_on_its_port_with_its_store() {
    let directory = tempfile::tempdir().unwrap();
    let cluster = MockCluster::builder().store_directory(directory.path()).topic("orders", 1).start().await.unwrap();
    let (a, b) = (cluster.master("broker-a").unwrap(), cluster.master("broker-b").unwrap());
    let address = a.broker_address().to_owned();
    a.put(Outgoing::new("orders", "kept")).unwrap();
    a.stop().await.unwrap();
    assert!(TcpStream::connect(&address).is_err());
    let names = cluster.name_servers()[0].name_server();
    assert!(!route(names, "orders").contains(&address) && route(names, "orders").contains(b.broker_address()));
    a.restart().await.unwrap();
    assert!(route(names, "orders").contains(&address));
    assert_eq!(a.messages("orders").len(), 1);
    let mut peer = Peer::connect(&address);
    assert_eq!(peer.request(RequestCode::SEND_MESSAGE_V2, &send_fields("orders", "0", ""), "x").code, 0);
    drop(cluster);
    assert!(TcpStream::connect(&address).is_err());
}

/// What a process has: threads and open descriptors.
fn held() -> (usize, usize) {
    let count = |path: &str| std::fs::read_dir(path).unwrap().count();
    (count("/proc/self/task"), count("/proc/self/fd"))
}

/// Many tests in one process, each with brokers of its own. Other tests of this file run beside it and hold something too,
/// so it is run in a process of its own.
#[test]
fn a_thousand_brokers_come_and_go_and_leave_nothing() {
    if std::env::var_os("THOUSAND").is_none() {
        let mut alone = std::process::Command::new(std::env::current_exe().unwrap());
        alone.args(["--exact", "a_thousand_brokers_come_and_go_and_leave_nothing", "--nocapture"]).env("THOUSAND", "1");
        let directory = tempfile::tempdir().unwrap();
        let status = alone.env("TMPDIR", directory.path()).status().unwrap();
        assert!(status.success());
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0, "files are left");
        return;
    }
    let one = || {
        let broker = MockBroker::builder().topic("orders", 1).start_blocking().unwrap();
        let mut peer = Peer::connect(broker.broker_address());
        assert_eq!(peer.request(RequestCode::SEND_MESSAGE_V2, &send_fields("orders", "0", ""), "x").code, 0);
        broker
    };
    drop(one());
    let before = held();
    for _ in 0..90 {
        let brokers: Vec<MockBroker> = (0..10).map(|_| one()).collect();
        drop(brokers);
    }
    let hundred: Vec<MockBroker> = (0..100).map(|_| one()).collect();
    drop(hundred);
    assert_eq!(held(), before, "threads and descriptors");
}
