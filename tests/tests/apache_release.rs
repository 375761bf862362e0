//! The scenarios on one more release of Apache RocketMQ, named by the environment variable `APACHE`: a check before our
//! own releases, compiled only with the feature `release-check`.

use std::sync::LazyLock;

use rocketmq_tests::{
    party::{java, ours},
    scenario::scaled,
    scenarios,
    server::Server,
};

static SERVER: LazyLock<Server> = LazyLock::new(|| {
    let version = std::env::var("APACHE").expect("APACHE names the release, for example 5.5.0");
    Server::apache(&version)
});

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
