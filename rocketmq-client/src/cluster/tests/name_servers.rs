use std::time::Duration;

use rocketmq_wire::{RequestCode, ResponseCode};

use crate::client::Client;
use crate::error::ErrorKind;
use crate::message::Message;
use crate::scripted::{NAME_SERVER, Reaction, Scripted, Server, answer, name_server};

const ROUTE: RequestCode = RequestCode::GET_ROUTEINFO_BY_TOPIC;

fn second(scripted: &Scripted, address: &str) -> Server {
    Server::start(&scripted.env, &scripted.network, address, name_server(&scripted.topics))
}

#[tokio::test]
async fn any_of_the_list_will_do() {
    let scripted = Scripted::start(1);
    let _second = second(&scripted, "10.0.0.2:9876");
    // Whichever is asked first, nothing waits: refused at once.
    for seed in 0..8 {
        let list = ["10.0.0.9:9876", "10.0.0.8:9876", if seed % 2 == 0 { NAME_SERVER } else { "10.0.0.2:9876" }];
        let client = Client::builder(list).env(scripted.env.clone()).connect().await.expect("one answers");
        assert_eq!(client.name_server(), list[2]);
    }
}

#[tokio::test]
async fn host_names_are_resolved() {
    let scripted = Scripted::start(1);
    scripted.network.add_host("names.example", &[NAME_SERVER.parse().expect("an address")]);
    let connect = |list: &str| Client::builder(list).env(scripted.env.clone()).connect();
    connect("names.example").await.expect("resolved");
    let error = connect("nowhere.invalid:1;unknown.invalid").await.expect_err("not resolved");
    assert_eq!((error.kind(), error.operation()), (ErrorKind::Connection, Some("connect")));
    let text = error.to_string();
    assert!(text.contains("nowhere.invalid") && text.contains("unknown.invalid"), "{text}");
    assert_eq!(connect("a:b").await.expect_err("no address").kind(), ErrorKind::InvalidArgument);
}

#[tokio::test]
async fn a_silent_name_server_costs_half_a_second_once() {
    let scripted = Scripted::start(1);
    scripted.network.swallow("10.0.0.9:9876".parse().expect("an address"));
    let list = format!("10.0.0.9:9876,{NAME_SERVER}");
    for _ in 0..4 {
        let began = scripted.env.now();
        let connecting = scripted.env.spawn(Client::builder(&list).env(scripted.env.clone()).connect());
        scripted.clock.advance(Duration::from_millis(600)).await;
        let client = connecting.await.expect("not cancelled").expect("one answers");
        assert_eq!(client.name_server(), NAME_SERVER);
        // Time stands still: the one that answered is asked first.
        let producer = client.producer("g").start().await.expect("a good group");
        producer.send(Message::new("t", "body")).await.expect("stored");
        assert_eq!(scripted.env.now() - began, Duration::from_millis(600));
    }
}

#[tokio::test]
async fn a_name_server_that_is_not_ready_is_passed_over() {
    let scripted = Scripted::start(1);
    let second = second(&scripted, "10.0.0.2:9876");
    scripted.name_server.react(|request| answer(request, ResponseCode::SYSTEM_ERROR));
    let list = [NAME_SERVER, "10.0.0.2:9876"];
    let client = Client::builder(list).env(scripted.env.clone()).connect().await.expect("the second is ready");
    assert_eq!(client.name_server(), "10.0.0.2:9876");
    second.react(|_| Reaction::HangUp);
    let error = Client::builder(list).env(scripted.env.clone()).connect().await.expect_err("none is ready");
    let text = error.to_string();
    assert!(text.contains(NAME_SERVER) && text.contains("10.0.0.2:9876"), "{text}");
}

#[tokio::test]
async fn connecting_has_a_limit_and_says_what_was_awaited() {
    let scripted = Scripted::start(1);
    scripted.name_server.react(|_| Reaction::Silence);
    let connecting = scripted.env.spawn(scripted.builder().connect());
    scripted.clock.advance(Duration::from_secs(7)).await;
    let error = connecting.await.expect("not cancelled").expect_err("no answer");
    assert_eq!(error.kind(), ErrorKind::Timeout);
    assert!(error.to_string().contains(NAME_SERVER), "{error}");
    assert_eq!(scripted.name_server.requests(ROUTE).len(), 1);
}

#[tokio::test]
async fn settings_that_make_no_sense_are_refused() {
    let scripted = Scripted::start(1);
    for builder in [
        scripted.builder().request_timeout(Duration::ZERO),
        scripted.builder().connect_timeout(Duration::MAX),
        scripted.builder().route_interval(Duration::ZERO),
        scripted.builder().heartbeat_interval(Duration::ZERO),
        scripted.builder().instance_name("a b"),
    ] {
        assert_eq!(builder.connect().await.expect_err("refused").kind(), ErrorKind::InvalidArgument);
    }
    assert!(scripted.name_server.requests(ROUTE).is_empty());
}

#[test]
fn outside_of_a_runtime_connecting_says_what_to_do() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    let connect = Client::builder("127.0.0.1:1").connect();
    let error = futures_util::FutureExt::now_or_never(connect).expect("at once").expect_err("no runtime");
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    drop(runtime);
}

#[tokio::test]
async fn client_ids_are_unique_or_named() {
    let scripted = Scripted::start(1);
    let (one, two) = (scripted.client().await, scripted.client().await);
    assert_ne!(one.client_id(), two.client_id());
    assert!(one.client_id().starts_with("127.0.0.1@"), "{}", one.client_id());
    let named = scripted.builder().instance_name("billing").connect().await.expect("up");
    assert_eq!(named.client_id(), "127.0.0.1@billing");
}
