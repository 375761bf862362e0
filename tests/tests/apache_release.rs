//! The scenarios on one more release of Apache RocketMQ, named by the environment variable `APACHE`: a check before our
//! own releases, compiled only with the feature `release-check`.

use std::sync::LazyLock;

use rocketmq_tests::{
    every_scenario,
    party::{java, ours},
    scenarios,
    server::Server,
};

static SERVER: LazyLock<Server> = LazyLock::new(|| {
    let version = std::env::var("APACHE").expect("APACHE names the release, for example 5.5.0");
    Server::apache(&version)
});

every_scenario! { ours_to_ours: SERVER, ours(), ours() }
scenarios! { java_to_ours: SERVER, java(), ours(); bodies, unicode_properties }
