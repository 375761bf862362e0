//! The Java and Go clients on our broker, among themselves and with our client.

use std::sync::LazyLock;

use rocketmq_tests::{
    party::{go, java, java_4_4_0, java_4_4_0_binary, java_binary, ours},
    scenario::scaled,
    scenarios,
    server::Server,
};

static SERVER: LazyLock<Server> = LazyLock::new(|| Server::mock(&[]));
static SERVER_4_4: LazyLock<Server> = LazyLock::new(|| Server::mock(&[("compatibility", "4.4")]));

scenarios! {
    java_to_java: SERVER, java(), java();
    nothing_lost_none_duplicated(scaled(2_000)),
    tags_filter,
    non_ascii_tag,
    take_over,
    fails_twice_then_succeeds,
    restart_continues,
    bodies,
    unicode_properties,
    broker_restarts_while_sending,
}
scenarios! {
    java_binary_to_java_binary: SERVER, java_binary(), java_binary();
    nothing_lost_none_duplicated(scaled(2_000)),
    tags_filter,
    take_over,
    fails_twice_then_succeeds,
    restart_continues,
    bodies,
    unicode_properties,
}
scenarios! {
    java_4_4_0_to_java_4_4_0: SERVER, java_4_4_0(), java_4_4_0();
    nothing_lost_none_duplicated(scaled(2_000)),
    tags_filter,
    take_over,
    fails_twice_then_succeeds,
    restart_continues,
    bodies,
    unicode_properties,
}
scenarios! {
    java_4_4_0_on_4_4: SERVER_4_4, java_4_4_0(), java_4_4_0_binary();
    nothing_lost_none_duplicated(scaled(1_000)), fails_twice_then_succeeds, restart_continues, unicode_properties,
}
scenarios! {
    go_to_go: SERVER, go(), go();
    nothing_lost_none_duplicated(scaled(2_000)),
    tags_filter,
    take_over,
    fails_twice_then_succeeds,
    restart_continues,
    bodies,
    unicode_properties,
}
scenarios! { java_to_ours: SERVER, java(), ours(); bodies, unicode_properties, non_ascii_tag, fails_twice_then_succeeds }
scenarios! { ours_to_java: SERVER, ours(), java(); bodies, unicode_properties, non_ascii_tag, fails_twice_then_succeeds }
scenarios! { go_to_ours: SERVER, go(), ours(); bodies, unicode_properties, fails_twice_then_succeeds }
scenarios! { ours_to_go: SERVER, ours(), go(); bodies, unicode_properties, fails_twice_then_succeeds }
scenarios! { java_4_4_0_to_ours: SERVER, java_4_4_0(), ours(); bodies, unicode_properties, fails_twice_then_succeeds }
