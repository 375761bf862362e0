//! Our consumer on our broker, the program that users run.

use std::sync::LazyLock;

use rocketmq_tests::{on_server, server::Server};

static TENANT: LazyLock<Server> = LazyLock::new(|| SERVER.in_namespace("tenant"));
static SERVER: LazyLock<Server> = LazyLock::new(|| Server::mock(&[("enablePropertyFilter", "true")]));
static SERVER_4_9: LazyLock<Server> =
    LazyLock::new(|| Server::mock(&[("compatibility", "4.9"), ("enablePropertyFilter", "true")]));

on_server! {
    consuming, our_consumer: SERVER;
    a_queue_waits_for_the_message_that_failed, keys_of_one_queue_do_not_wait_for_each_other,
    a_poisonous_message_leaves_its_queue, order_outlives_joins_and_leaves,
    results_decide_what_becomes_of_messages, failing_too_often_ends_among_the_dead_letters,
    a_batch_is_acknowledged_in_part, a_stream_is_acknowledged_one_by_one,
    sql92_filters, topics_come_and_go, pausing_holds_messages_back, broadcasting_reaches_every_member,
    mqadmin_reaches_the_consumer, strategies_share_all_queues, every_queue_has_one_owner_in_a_mixed_group,
    differing_subscriptions_are_told, the_limit_of_a_topic_holds, what_takes_too_long_is_given_up_in_real_time,
}
on_server! {
    consuming, our_consumer_like_4_9: SERVER_4_9;
    a_queue_waits_for_the_message_that_failed, a_poisonous_message_leaves_its_queue,
    results_decide_what_becomes_of_messages, sql92_filters, mqadmin_reaches_the_consumer,
}
on_server! {
    consuming, our_consumer_in_a_namespace: TENANT;
    a_queue_waits_for_the_message_that_failed, failing_too_often_ends_among_the_dead_letters, sql92_filters,
    broadcasting_reaches_every_member, mqadmin_reaches_the_consumer, every_queue_has_one_owner_in_a_mixed_group,
    a_stream_is_acknowledged_one_by_one,
}
