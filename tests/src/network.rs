//! Ways to servers that are not a plain connection to a known address.

use std::collections::BTreeSet;

use rocketmq_native::{Client, ErrorKind, Message, Socks5};

use crate::{
    scene::{LIMIT, Reader, topic},
    server::Server,
    socks::{HttpEndpoint, SocksProxy},
};

/// What only the proxy knows the address of.
const NAME_SERVER: &str = "name-server.test:9876";

/// An endpoint says where the name server is, and a proxy is the only way there and to the broker: sends and consumption,
/// with a failure in between, go through it.
pub async fn a_proxy_and_an_endpoint_lead_to_servers(server: &'static Server) {
    let _running = server.share().await;
    let topic = topic(server, "tunnelled", 2);
    let proxy = SocksProxy::start("somebody", "hidden-password", &[(NAME_SERVER, server.name_server())]).await;
    let endpoint = HttpEndpoint::start(format!("{NAME_SERVER}\n")).await;
    let builder = |password: &str| {
        let socks = Socks5::new(proxy.address()).login("somebody", password);
        Client::builder("").name_server_endpoint(endpoint.url()).socks5(socks)
    };
    assert!(!format!("{:?}", builder("hidden-password")).contains("hidden"));
    let error = builder("another").connect().await.expect_err("the proxy refuses");
    assert_eq!(error.kind(), ErrorKind::Connection, "{error}");
    assert!(proxy.refused_logins() > 0 && proxy.targets().is_empty());

    let client = builder("hidden-password").connect().await.expect("the client connects");
    let producer = client.producer("tunnellers").send_timeout(LIMIT).start().await.expect("the producer starts");
    let mut reader = Reader::start(&client, server, &topic).await;
    for number in 0..20 {
        let body = if number == 0 { "x".repeat(1 << 20) } else { format!("number {number:02}") };
        producer.send(Message::new(topic.as_str(), body)).await.expect("stored");
    }
    let bodies = reader.bodies(20).await;
    assert_eq!(bodies[..2], ["number 01", "number 02"]);
    assert_eq!(bodies[19].len(), 1 << 20);
    assert_eq!(reader.stop().await, [""; 0]);
    producer.shutdown().await;
    let targets: BTreeSet<_> = proxy.targets().into_iter().collect();
    assert_eq!(targets, [NAME_SERVER.to_owned(), server.broker().to_owned()].into());
    assert_eq!(client.connections().len(), 2, "and there is no other way");
    client.close().await;
}
