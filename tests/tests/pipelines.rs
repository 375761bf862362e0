//! The pipelines of brokers as the Java and Go clients use them: on our broker in each of its behaviours, and on Apache's.

use std::sync::LazyLock;

use rocketmq_tests::{
    party::{go, java, java_4_4_0, java_4_9_7, java_binary},
    pipelines,
    server::Server,
};

const FILTER: [(&str, &str); 1] = [("enablePropertyFilter", "true")];

static OURS: LazyLock<Server> = LazyLock::new(|| Server::mock(&FILTER));
static OURS_4_9: LazyLock<Server> = LazyLock::new(|| Server::mock(&[FILTER[0], ("compatibility", "4.9")]));
static OURS_4_4: LazyLock<Server> = LazyLock::new(|| Server::mock(&[FILTER[0], ("compatibility", "4.4")]));
static APACHE_4_9: LazyLock<Server> = LazyLock::new(|| Server::apache("4.9.7"));
static APACHE_5_3: LazyLock<Server> = LazyLock::new(|| Server::apache("5.3.3"));

// 5.3.3's `request` does not wait for the reply.
pipelines! {
    java_on_ours: OURS, java();
    transactions, delay_levels, timers, order, broadcasting, sql92, reset_offset(java().driver()),
}
pipelines! {
    java_binary_on_ours: OURS, java_binary();
    transactions, delay_levels, timers, order, broadcasting, sql92, reset_offset(java().driver()),
}
pipelines! {
    java_4_9_7_on_ours: OURS_4_9, java_4_9_7();
    transactions, delay_levels, order, broadcasting, sql92, request_and_reply, reset_offset(java_4_9_7().driver()),
}
pipelines! {
    java_4_4_0_on_ours: OURS_4_4, java_4_4_0();
    transactions, delay_levels, order, broadcasting, sql92, reset_offset(java_4_9_7().driver()),
}
pipelines! {
    go_on_ours: OURS, go();
    transactions, delay_levels, order, broadcasting, sql92, request_and_reply, reset_offset(java().driver()),
}

// The harness judged by itself, and the pipelines with it: what fails here is no fault of ours.
pipelines! {
    java_4_9_7_on_apache: APACHE_4_9, java_4_9_7();
    transactions, delay_levels, order, broadcasting, sql92, request_and_reply, reset_offset(java_4_9_7().driver()),
}
pipelines! {
    java_on_apache: APACHE_5_3, java();
    transactions, delay_levels, timers, order, broadcasting, sql92, reset_offset(java().driver()),
}
// Without requests: Apache's broker asks the asker whether the reply has come, who may be gone by then, and has it sent again.
pipelines! {
    go_on_apache: APACHE_5_3, go();
    transactions, delay_levels, order, broadcasting, sql92, reset_offset(java().driver()),
}
