//! Messages that are asked for, on our broker.

use std::sync::LazyLock;

use rocketmq_tests::{administration::run, pulling, server::Server};

static SERVER: LazyLock<Server> = LazyLock::new(|| Server::mock(&[]));
static SERVER_4_9: LazyLock<Server> = LazyLock::new(|| Server::mock(&[("compatibility", "4.9")]));
static SERVER_4_4: LazyLock<Server> = LazyLock::new(|| Server::mock(&[("compatibility", "4.4")]));

#[test]
fn pull_consumer() {
    run(pulling::pull_consumer(&SERVER));
}

#[test]
fn pull_consumer_like_4_4() {
    run(pulling::pull_consumer(&SERVER_4_4));
}

#[test]
fn pull_consumers_share() {
    run(pulling::pull_consumers_share(&SERVER));
}

#[test]
fn dead_letters() {
    run(pulling::dead_letters(&SERVER));
}

#[test]
fn dead_letters_like_4_9() {
    run(pulling::dead_letters(&SERVER_4_9));
}

#[test]
fn dead_letters_like_4_4() {
    run(pulling::dead_letters(&SERVER_4_4));
}
