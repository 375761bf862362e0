//! A broker that registers at name servers of other processes.

#[path = "support/mod.rs"]
mod support;

use rocketmq_mock_broker::MockBroker;
use rocketmq_wire::RequestCode;
use support::Peer;

/// Asks until the answer is as wanted; the peer's own limit ends a wait in vain.
fn ask_until(
    peer: &mut Peer,
    code: RequestCode,
    fields: &[(&str, &str)],
    wanted: impl Fn(i32, &str) -> bool,
) -> String {
    for _ in 0..1_000_000 {
        let answer = peer.request(code, fields, "");
        let text = String::from_utf8(answer.body.to_vec()).unwrap();
        if wanted(answer.code, &text) {
            return text;
        }
    }
    panic!("the name server never said what was waited for");
}

fn cluster(name_server: &MockBroker) -> String {
    ask_until(&mut Peer::connect(name_server.name_server()), RequestCode::GET_BROKER_CLUSTER_INFO, &[], |code, _| {
        code == 0
    })
}

fn registered_at(name_servers: &[&MockBroker]) -> MockBroker {
    let addresses: Vec<&str> = name_servers.iter().map(|server| server.name_server()).collect();
    let builder = MockBroker::builder().set("brokerName", "broker-b").unwrap();
    builder.topic("orders", 3).set("namesrvAddr", &addresses.join(";")).unwrap().start_blocking().unwrap()
}

#[test]
fn all_name_servers_know_the_broker_from_start_to_end() {
    let (first, second) = (MockBroker::start_blocking().unwrap(), MockBroker::start_blocking().unwrap());
    let broker = registered_at(&[&first, &second]);
    for server in [&first, &second] {
        let listed = cluster(server);
        assert!(listed.contains("\"broker-a\"") && listed.contains("\"broker-b\""), "{listed}");
        assert!(listed.contains(broker.broker_address()), "{listed}");
        let mut peer = Peer::connect(server.name_server());
        let route = peer.request(RequestCode::GET_ROUTEINFO_BY_TOPIC, &[("topic", "orders")], "");
        assert!(String::from_utf8_lossy(&route.body).contains("\"writeQueueNums\":3"), "{route:?}");
    }
    // A topic that comes later is told at once.
    let fields = [
        ("topic", "later"),
        ("defaultTopic", "TBW102"),
        ("readQueueNums", "2"),
        ("writeQueueNums", "2"),
        ("perm", "6"),
        ("topicFilterType", "SINGLE_TAG"),
    ];
    let created = Peer::connect(broker.broker_address()).request(RequestCode::UPDATE_AND_CREATE_TOPIC, &fields, "");
    assert_eq!(created.code, 0);
    for server in [&first, &second] {
        let mut peer = Peer::connect(server.name_server());
        ask_until(&mut peer, RequestCode::GET_ROUTEINFO_BY_TOPIC, &[("topic", "later")], |code, _| code == 0);
    }
    drop(broker);
    for server in [&first, &second] {
        let listed = cluster(server);
        assert!(!listed.contains("\"broker-b\""), "it said that it goes: {listed}");
    }
}

#[test]
fn a_name_server_that_was_away_is_told_again() {
    let server = MockBroker::start_blocking().unwrap();
    let broker = registered_at(&[&server]);
    server.stop_blocking().unwrap();
    server.restart_blocking().unwrap();
    let mut peer = Peer::connect(server.name_server());
    ask_until(&mut peer, RequestCode::GET_BROKER_CLUSTER_INFO, &[], |_, listed| listed.contains("\"broker-b\""));
    drop(broker);
}

#[test]
fn a_broker_starts_though_a_name_server_is_not_there() {
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let broker = MockBroker::builder().set("namesrvAddr", &free).unwrap().start_blocking().unwrap();
    assert!(cluster(&broker).contains("broker-a"));
    assert!(MockBroker::builder().set("namesrvAddr", "nowhere").is_err());
}
