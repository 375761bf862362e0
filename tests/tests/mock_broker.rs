//! The scenarios with our client on our broker, the program that users run.

use std::sync::LazyLock;

use rocketmq_native::HeaderType;
use rocketmq_tests::{
    every_scenario, on_server,
    party::{Party, java, ours},
    scenario::scaled,
    scenarios,
    server::Server,
};

static TENANT: LazyLock<Server> = LazyLock::new(|| SERVER.in_namespace("tenant"));
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
    go_replies_to_our_requests, we_reply_to_go, java_and_we_answer_for_each_other,
}
on_server! {
    producing, our_producer_in_a_namespace: TENANT;
    transactions_decide_what_is_delivered, java_and_we_answer_for_each_other, requests_are_replied_to,
    java_replies_to_our_requests, we_reply_to_java,
}
scenarios! { java_and_we_in_a_namespace: TENANT, java(), ours(); fails_twice_then_succeeds, unicode_properties }
scenarios! { we_and_java_in_a_namespace: TENANT, ours(), java(); fails_twice_then_succeeds, unicode_properties }
on_server! { network, our_client: SERVER; a_proxy_and_an_endpoint_lead_to_servers }
on_server! {
    producing, our_producer_like_4_9: SERVER_4_9;
    transactions_decide_what_is_delivered, requests_are_replied_to, timed_messages_are_not_early,
}
