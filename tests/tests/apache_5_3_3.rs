//! The scenarios on Apache RocketMQ 5.3.3.

use std::sync::LazyLock;

use rocketmq_tests::{
    party::{go, java},
    scenarios,
    server::Server,
};

static SERVER: LazyLock<Server> = LazyLock::new(|| Server::apache("5.3.3"));

// The harness judged by itself: what fails here is no fault of ours.
scenarios! { java_to_go: SERVER, java(), go(); bodies, unicode_properties, tags_filter }
scenarios! { go_to_java: SERVER, go(), java(); bodies, unicode_properties, fails_twice_then_succeeds, broker_restarts_while_sending }
