//! The scenarios on Apache RocketMQ 4.9.7.

use std::sync::LazyLock;

use rocketmq_tests::{
    party::{go, java, ours},
    scenario::scaled,
    scenarios,
    server::Server,
};

static SERVER: LazyLock<Server> = LazyLock::new(|| Server::apache("4.9.7"));

scenarios! {
    ours_to_ours: SERVER, ours(), ours();
    nothing_lost_none_duplicated(scaled(10_000)),
    tags_filter,
    non_ascii_tag,
    take_over,
    fails_twice_then_succeeds,
    restart_continues,
    bodies,
    unicode_properties,
    broker_restarts_while_sending,
    broker_is_killed_while_sending,
}
scenarios! { java_to_ours: SERVER, java(), ours(); bodies, unicode_properties }
scenarios! { ours_to_go: SERVER, ours(), go(); bodies, unicode_properties }
// The harness judged by itself: what fails here is no fault of ours.
scenarios! { go_to_java: SERVER, go(), java(); tags_filter, fails_twice_then_succeeds, unicode_properties }
