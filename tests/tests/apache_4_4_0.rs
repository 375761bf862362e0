//! The scenarios on Apache RocketMQ 4.4.0.

use std::sync::LazyLock;

use rocketmq_tests::{
    every_scenario, on_server,
    party::{go, java, ours},
    scenarios,
    server::Server,
};

static SERVER: LazyLock<Server> = LazyLock::new(|| Server::apache("4.4.0"));

every_scenario! { ours_to_ours: SERVER, ours(), ours() }
scenarios! { java_to_ours: SERVER, java(), ours(); bodies, unicode_properties }
scenarios! { ours_to_go: SERVER, ours(), go(); bodies, unicode_properties }
// The harness judged by itself: what fails here is no fault of ours.
scenarios! { go_to_java: SERVER, go(), java(); tags_filter, fails_twice_then_succeeds, unicode_properties }

#[test]
fn our_admin() {
    rocketmq_tests::administration::run(rocketmq_tests::administration::our_admin(&SERVER));
}

#[test]
fn our_pull_consumer() {
    rocketmq_tests::administration::run(async {
        rocketmq_tests::pulling::pull_consumer(&SERVER).await;
        rocketmq_tests::pulling::pull_consumers_share(&SERVER).await;
    });
}

#[test]
fn dead_letters() {
    rocketmq_tests::administration::run(rocketmq_tests::pulling::dead_letters(&SERVER));
}
on_server! {
    producing, our_producer: SERVER;
    transactions_decide_what_is_delivered, batches_are_read_by_all, a_key_keeps_its_order,
    timed_messages_are_not_early, lingering_sends_arrive_where_receipts_say,
}
