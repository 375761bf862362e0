//! Our consumer on Apache RocketMQ 4.4.0. Its dead-letter topics cannot be read until an administrator, which `dead_letters`
//! is, makes them so.

use std::sync::LazyLock;

use rocketmq_tests::{on_server, server::Server};

static SERVER: LazyLock<Server> = LazyLock::new(|| Server::apache("4.4.0"));

on_server! {
    consuming, our_consumer: SERVER;
    a_queue_waits_for_the_message_that_failed, a_batch_is_acknowledged_in_part, a_stream_is_acknowledged_one_by_one,
    sql92_filters, topics_come_and_go,
}
