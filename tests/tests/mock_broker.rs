//! The scenarios with our client on our broker, the program that users run.

use std::sync::LazyLock;

use rocketmq_native::HeaderType;
use rocketmq_tests::{
    every_scenario, on_server,
    party::{Party, ours},
    scenario::scaled,
    scenarios,
    server::Server,
};

static SERVER: LazyLock<Server> = LazyLock::new(|| Server::mock(&[]));
static SERVER_4_9: LazyLock<Server> = LazyLock::new(|| Server::mock(&[("compatibility", "4.9")]));
static SERVER_4_4: LazyLock<Server> = LazyLock::new(|| Server::mock(&[("compatibility", "4.4")]));

every_scenario! { ours_to_ours: SERVER, ours(), ours() }
scenarios! {
    json: SERVER, Party::Ours(HeaderType::Json), Party::Ours(HeaderType::Json);
    nothing_lost_none_duplicated(scaled(1_000)), fails_twice_then_succeeds, unicode_properties,
}
scenarios! {
    like_4_9: SERVER_4_9, ours(), ours();
    nothing_lost_none_duplicated(scaled(1_000)), take_over, fails_twice_then_succeeds, restart_continues,
}
scenarios! {
    like_4_4: SERVER_4_4, ours(), ours();
    nothing_lost_none_duplicated(scaled(1_000)), take_over, fails_twice_then_succeeds, restart_continues,
}
on_server! {
    producing, our_producer: SERVER;
    transactions_decide_what_is_delivered, another_producer_of_the_group_is_asked,
    requests_are_replied_to, late_and_unknown_replies_are_counted,
    a_key_keeps_its_order, timed_messages_are_not_early, timed_messages_are_recalled,
    java_replies_to_our_requests, we_reply_to_java, traces_are_read_by_apaches_tool,
    lingering_sends_arrive_where_receipts_say,
}
on_server! {
    producing, our_producer_like_4_9: SERVER_4_9;
    transactions_decide_what_is_delivered, requests_are_replied_to, timed_messages_are_not_early,
}
