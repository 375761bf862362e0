//! Apache's tools print the same of our broker as of Apache's.

use rocketmq_tests::{
    columns::{Explained, compare},
    foreign::{Driver, Headers},
    server::Server,
};

/// What differs on purpose: nothing.
const EXPLAINED: &[Explained] = &[];

#[test]
fn of_5_3_3() {
    let tools = Driver::java("5.3.3", Headers::Json);
    compare(&Server::mock(&[("traceTopicEnable", "true")]), &Server::apache("5.3.3"), &tools, EXPLAINED);
}

#[test]
fn of_4_9_7() {
    let tools = Driver::java("4.9.7", Headers::Json);
    compare(
        &Server::mock(&[("compatibility", "4.9"), ("traceTopicEnable", "true")]),
        &Server::apache("4.9.7"),
        &tools,
        EXPLAINED,
    );
}
