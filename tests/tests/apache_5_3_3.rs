//! The scenarios on Apache RocketMQ 5.3.3.

use std::sync::LazyLock;

use rocketmq_tests::{
    every_scenario, on_server,
    party::{go, java, ours},
    scenarios,
    server::Server,
};

static SERVER: LazyLock<Server> = LazyLock::new(|| Server::apache("5.3.3"));

every_scenario! { ours_to_ours: SERVER, ours(), ours() }
scenarios! { java_to_ours: SERVER, java(), ours(); bodies, unicode_properties }
scenarios! { ours_to_go: SERVER, ours(), go(); bodies, unicode_properties }
// The harness judged by itself: what fails here is no fault of ours.
scenarios! { go_to_java: SERVER, go(), java(); tags_filter, fails_twice_then_succeeds, unicode_properties }
on_server! {
    producing, our_producer: SERVER;
    transactions_decide_what_is_delivered, another_producer_of_the_group_is_asked,
    requests_are_replied_to, late_and_unknown_replies_are_counted,
    compressed_bodies_are_read_by_all, zlib_is_read_by_java_4_4, batches_are_read_by_all, a_key_keeps_its_order,
    timed_messages_are_not_early, timed_messages_are_recalled,
    java_replies_to_our_requests, we_reply_to_java, traces_are_read_by_apaches_tool,
    lingering_sends_arrive_where_receipts_say,
}

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
