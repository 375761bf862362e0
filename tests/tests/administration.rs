//! Administration of our broker: by our client, and by Apache's tools.

use std::sync::LazyLock;

use rocketmq_tests::{
    administration::{self, run},
    foreign::{Driver, Headers},
    server::Server,
};

#[test]
fn our_admin() {
    static SERVER: LazyLock<Server> = LazyLock::new(|| Server::mock(&[]));
    run(administration::our_admin(&SERVER));
}

#[test]
fn our_admin_like_4_9() {
    static SERVER: LazyLock<Server> = LazyLock::new(|| Server::mock(&[("compatibility", "4.9")]));
    run(administration::our_admin(&SERVER));
}

#[test]
fn our_admin_like_4_4() {
    static SERVER: LazyLock<Server> = LazyLock::new(|| Server::mock(&[("compatibility", "4.4")]));
    run(administration::our_admin(&SERVER));
}

#[test]
fn mqadmin_5_3_3() {
    let server = Server::mock(&[]);
    run(administration::mqadmin(&server, &Driver::java("5.3.3", Headers::Json), true));
}

#[test]
fn mqadmin_4_9_7() {
    let server = Server::mock(&[("compatibility", "4.9")]);
    run(administration::mqadmin(&server, &Driver::java("4.9.7", Headers::Json), false));
}
