//! Brokers and name servers of two makes: Apache's broker registers at ours, and ours at Apache's.

use std::time::Duration;

use rocketmq_tests::apache::{ApacheCluster, ApacheOptions};
use rocketmq_tests::mock_process::MockProcess;
use rocketmq_tests::process::poll;
use rocketmq_tests::raw;

const GET_ROUTE: u32 = 105;
const GET_CLUSTER: u32 = 106;
const LIMIT: Duration = Duration::from_secs(60);

fn cluster(name_server: &str) -> String {
    let answer = raw::ask(name_server, GET_CLUSTER, &[], &[]).expect("the name server answers");
    String::from_utf8(answer.body.to_vec()).expect("UTF-8")
}

fn await_route(name_server: &str, topic: &str, broker: &str) {
    poll(&format!("{broker} in the route of {topic} at {name_server}"), LIMIT, || {
        let answer = raw::ask(name_server, GET_ROUTE, &[("topic", topic)], &[]).ok()?;
        String::from_utf8_lossy(&answer.body).contains(broker).then_some(())
    });
}

fn brokers_register_at_each_other_s_name_servers(version: &str, options: ApacheOptions) {
    let ours = MockProcess::start(&[("brokerName", "broker-of-ours")]);
    let our_name_server = ours.addresses().name_server.clone();
    let options = ApacheOptions { more_name_servers: vec![our_name_server.clone()], ..options };
    let mut apache = ApacheCluster::start(version, options);

    // Apache's broker at our name server, with a topic that comes later.
    await_route(&our_name_server, "TBW102", &apache.broker());
    apache.create_topic("of-apache", 3);
    await_route(&our_name_server, "of-apache", "\"writeQueueNums\":3");

    // Our broker at Apache's name server.
    let mut second = MockProcess::start(&[("brokerName", "broker-b"), ("namesrvAddr", &apache.name_server())]);
    let listed = cluster(&apache.name_server());
    assert!(listed.contains(&second.addresses().broker), "registered when it is ready: {listed}");
    rocketmq_tests::apache::create_topic(&apache.name_server(), &second.addresses().broker, "of-ours", 5);
    await_route(&apache.name_server(), "of-ours", "\"writeQueueNums\":5");

    // Both say that they go.
    second.stop();
    poll("our broker gone from Apache's name server", LIMIT, || {
        (!cluster(&apache.name_server()).contains("broker-b")).then_some(())
    });
    apache.stop_broker();
    poll("Apache's broker gone from our name server", LIMIT, || {
        (!cluster(&our_name_server).contains(&apache.broker())).then_some(())
    });
}

#[test]
fn with_4_9_7_and_deflated_registrations() {
    let options = ApacheOptions::default().set("compressedRegister", "true");
    brokers_register_at_each_other_s_name_servers("4.9.7", options);
}

#[test]
fn with_5_3_3() {
    brokers_register_at_each_other_s_name_servers("5.3.3", ApacheOptions::default());
}
