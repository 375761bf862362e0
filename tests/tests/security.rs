//! Our client with access control and TLS, on Apache's servers.

use std::time::Duration;

use rocketmq_native::{
    ChangeableCredentials, Client, ConsumeFrom, Credentials, Error, ErrorKind, Message, SendReceipt, Tls,
    producer::Attempts,
};
use rocketmq_tests::{
    access::{self, ADMIN, Account, CLERK, GROUPS, TOPIC},
    apache::{ApacheCluster, ApacheOptions},
    certificates::Certificates,
};
use tokio::{runtime::Runtime, sync::mpsc};

fn credentials(account: Account) -> Credentials {
    Credentials::new(account.access_key, account.secret_key)
}

async fn send(client: &Client, topic: &str, body: &'static str) -> Result<SendReceipt, Error> {
    let producer = client.producer("interop-producer").start().await.expect("the producer starts");
    let sent = producer.send(Message::new(topic, body)).await;
    producer.shutdown().await;
    sent
}

async fn send_as(cluster: &ApacheCluster, who: Option<Account>, topic: &str) -> Result<SendReceipt, Error> {
    let mut builder = Client::builder(cluster.name_server());
    if let Some(who) = who {
        builder = builder.credentials(credentials(who));
    }
    let client = builder.connect().await.expect("name servers check nothing");
    let sent = send(&client, topic, "as somebody").await;
    client.close().await;
    sent
}

/// A message sent and consumed with the same credentials arrives, after it has failed once and come back.
async fn round_trip(cluster: &ApacheCluster, tls: Option<Tls>, who: Account, group: &str) {
    let mut builder = Client::builder(cluster.name_server()).credentials(credentials(who));
    if let Some(tls) = tls {
        builder = builder.tls(tls);
    }
    let client = builder.connect().await.expect("the client connects");
    let body = if group == GROUPS[0] { "first" } else { "second" };
    send(&client, TOPIC, body).await.expect("sends are permitted");
    let (deliver, mut delivered) = mpsc::unbounded_channel();
    let consumer = client
        .push_consumer(group)
        .subscribe(TOPIC, "*")
        .consume_from(ConsumeFrom::First)
        .start(move |message| {
            let times = message.reconsume_times();
            deliver.send((message.body(), times)).expect("the test listens");
            async move { if times == 0 { Err("not yet") } else { Ok(()) } }
        })
        .await
        .expect("consuming is permitted");
    let mut seen = Vec::new();
    while seen.len() < 2 {
        let next = tokio::time::timeout(Duration::from_secs(60), delivered.recv()).await;
        let (received, times) = next.expect("within a minute").expect("the handler sends");
        // There is an older one in the topic, by which it was created.
        seen.extend((body == received).then_some(times));
    }
    assert_eq!(seen, [0, 1]);
    consumer.shutdown().await.expect("the consumer shuts down");
    client.close().await;
}

/// Servers that cannot be verified are not spoken to.
async fn unverified(cluster: &ApacheCluster, certificates: &Certificates) {
    let others = Certificates::new();
    let ca = certificates.path("ca.pem");
    for (tls, reason) in [
        (Tls::new().ca_file(others.path("ca.pem")), "another authority"),
        (Tls::new().ca_file(&ca).server_name("elsewhere.test"), "another name"),
        (Tls::new(), "the authorities of the operating system"),
    ] {
        let error = Client::builder(cluster.name_server()).tls(tls).connect().await.expect_err(reason);
        assert_eq!(error.kind(), ErrorKind::Connection, "{error}");
        assert!(error.to_string().contains("invalid peer certificate"), "{error}");
    }
    for tls in [Tls::new().ca_file(&ca).server_name("brokers.test"), Tls::new().danger_accept_any_server()] {
        let client = Client::builder(cluster.name_server()).tls(tls).connect().await.expect("good enough");
        client.close().await;
    }
}

/// Refusals are told from one another, and are not tried again.
async fn refusals(cluster: &ApacheCluster, expected: &[(Option<Account>, &str, ErrorKind)]) {
    for &(who, topic, kind) in expected {
        let error = send_as(cluster, who, topic).await.expect_err("refused");
        println!("{who:?} to {topic}: {error}");
        assert_eq!((error.kind(), Attempts::of(&error).len()), (kind, 1), "{error}");
        let secret = who.map_or("none", |who| who.secret_key);
        assert!(!format!("{error} {error:?}").contains(secret), "{error:?}");
    }
}

/// A client goes on with credentials that replace those it began with.
async fn replaced(cluster: &ApacheCluster, who: Account) {
    let changeable = ChangeableCredentials::new(credentials(who));
    let client = Client::builder(cluster.name_server()).credentials(changeable.clone()).connect().await;
    let client = client.expect("the client connects");
    send(&client, TOPIC, "before").await.expect("the first credentials are good");
    changeable.replace(Credentials::new(who.access_key, "revoked"));
    let error = send(&client, TOPIC, "between").await.expect_err("the secret is wrong");
    assert_eq!(error.kind(), ErrorKind::Unauthenticated);
    changeable.replace(credentials(who));
    send(&client, TOPIC, "after").await.expect("the credentials are good again");
    client.close().await;
}

const NOBODY: Account = Account { access_key: "nobody", secret_key: "12345678" };

fn wrong_secret(who: Account) -> Account {
    Account { secret_key: "a-wrong-one", ..who }
}

fn create_topic_as_admin(cluster: &ApacheCluster, topic: &str) {
    Runtime::new().expect("a runtime").block_on(async {
        send_as(cluster, Some(ADMIN), topic).await.expect("the first send of an administrator creates the topic");
    });
}

#[test]
fn plain_acl_of_4_9_7() {
    let certificates = Certificates::new();
    let cluster = access::start("4.9.7", ApacheOptions::default().flags(certificates.server_flags()));
    create_topic_as_admin(&cluster, TOPIC);
    create_topic_as_admin(&cluster, "closed");
    Runtime::new().expect("a runtime").block_on(async {
        use ErrorKind::{NotPermitted, Unauthenticated};
        let expected = [
            (None, TOPIC, Unauthenticated),
            (Some(NOBODY), TOPIC, Unauthenticated),
            (Some(wrong_secret(CLERK)), TOPIC, Unauthenticated),
            (Some(CLERK), "closed", NotPermitted),
        ];
        refusals(&cluster, &expected).await;
        round_trip(&cluster, None, CLERK, GROUPS[0]).await;
        let tls = Tls::new().ca_file(certificates.path("ca.pem"));
        round_trip(&cluster, Some(tls), CLERK, GROUPS[1]).await;
        unverified(&cluster, &certificates).await;
        replaced(&cluster, CLERK).await;
    });
}

#[test]
fn authentication_of_5_3_3() {
    let certificates = Certificates::new();
    let options = ApacheOptions::default().flags(certificates.server_flags());
    let cluster = access::start("5.3.3", options.flags(certificates.client_authentication_flags()));
    Runtime::new().expect("a runtime").block_on(async {
        send_as(&cluster, Some(ADMIN), TOPIC).await.expect("the topic is created");
        let expected = [
            (None, TOPIC, ErrorKind::Unauthenticated),
            (Some(NOBODY), TOPIC, ErrorKind::Unauthenticated),
            (Some(wrong_secret(ADMIN)), TOPIC, ErrorKind::Unauthenticated),
        ];
        refusals(&cluster, &expected).await;
        round_trip(&cluster, None, ADMIN, GROUPS[0]).await;
        let tls = Tls::new().ca_file(certificates.path("ca.pem"));
        let error = Client::builder(cluster.name_server()).tls(tls.clone()).connect().await;
        assert_eq!(error.expect_err("the server asks for a certificate").kind(), ErrorKind::Connection);
        let tls = tls.client_certificate_files(certificates.path("client.pem"), certificates.path("client.key"));
        round_trip(&cluster, Some(tls), ADMIN, GROUPS[1]).await;
        replaced(&cluster, ADMIN).await;
        namespaces(&cluster).await;
    });
}

/// A namespace keeps its topics and groups apart, users of it see plain names, and others the names as they are.
async fn namespaces(cluster: &ApacheCluster) {
    let connect = |namespace: &'static str| {
        Client::builder(cluster.name_server()).credentials(credentials(ADMIN)).namespace(namespace).connect()
    };
    let inside = connect("tenant").await.expect("the client connects");
    let outside = connect("").await.expect("the client connects");
    let receipt = send(&inside, "shared-name", "inside").await.expect("the topic is created");
    assert_eq!(receipt.queue().topic(), "shared-name");
    send(&outside, "shared-name", "outside").await.expect("the topic is created");
    for (client, topic, expected) in [
        (&inside, "shared-name", vec![("inside", 0, "shared-name"), ("inside", 1, "shared-name")]),
        (&outside, "shared-name", vec![("outside", 0, "shared-name"), ("outside", 1, "shared-name")]),
        (
            &outside,
            "tenant%shared-name",
            vec![("inside", 0, "tenant%shared-name"), ("inside", 1, "tenant%shared-name")],
        ),
    ] {
        let (deliver, mut delivered) = mpsc::unbounded_channel();
        let consumer = client
            .push_consumer(format!("group-of-{}", topic.replace('%', "-")))
            .subscribe(topic, "*")
            .consume_from(ConsumeFrom::First)
            .start(move |message| {
                let times = message.reconsume_times();
                deliver.send((message.body(), times, message.topic().to_owned())).expect("the test listens");
                async move { if times == 0 { Err("not yet") } else { Ok(()) } }
            })
            .await
            .expect("the consumer starts");
        for (body, times, topic) in expected {
            let next = tokio::time::timeout(Duration::from_secs(60), delivered.recv()).await;
            let next = next.expect("within a minute").expect("the handler sends");
            assert_eq!((&next.0[..], next.1, next.2.as_str()), (body.as_bytes(), times, topic));
        }
        consumer.shutdown().await.expect("the consumer shuts down");
    }
    inside.close().await;
    outside.close().await;
}
