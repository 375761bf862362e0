//! Our client with access control and TLS, on our broker.

use std::time::Duration;

use rocketmq_mock_broker::{Compatibility, MockBroker};
use rocketmq_native::{Client, ConsumeFrom, Credentials, Error, ErrorKind, Message, Tls, producer::Attempts};
use rocketmq_tests::access::{self, ADMIN, Account, CLERK, GROUPS, TOPIC};
use tokio::sync::mpsc;

async fn send_as(broker: &MockBroker, who: Option<Account>, topic: &str) -> Result<(), Error> {
    let mut builder = Client::builder(broker.name_server());
    if let Some(who) = who {
        builder = builder.credentials(Credentials::new(who.access_key, who.secret_key));
    }
    let client = builder.connect().await.expect("name servers check nothing");
    let producer = client.producer("senders").start().await.expect("the producer starts");
    let sent = producer.send(Message::new(topic, "body")).await;
    producer.shutdown().await;
    client.close().await;
    sent.map(drop)
}

#[tokio::test]
async fn access_control_answers_as_apaches() {
    for (compatibility, unsigned) in [
        (Compatibility::V4_9, "AclException: No accessKey is configured"),
        (Compatibility::V5_3, "username cannot be null."),
    ] {
        let folder = tempfile::TempDir::new().expect("a folder");
        let file = folder.path().join("plain_acl.yml");
        std::fs::write(&file, access::plain_acl()).expect("written");
        let broker = MockBroker::builder().compatibility(compatibility).access_control(&file).topic("closed", 4);
        let broker = broker.topic(TOPIC, 4).start().await.expect("the broker starts");
        let wrong = Account { secret_key: "a-wrong-one", ..CLERK };
        let nobody = Account { access_key: "nobody-here", secret_key: "12345678" };
        for (who, topic, kind) in [
            (None, TOPIC, ErrorKind::Unauthenticated),
            (Some(nobody), TOPIC, ErrorKind::Unauthenticated),
            (Some(wrong), TOPIC, ErrorKind::Unauthenticated),
            (Some(CLERK), "closed", ErrorKind::NotPermitted),
        ] {
            let error = send_as(&broker, who, topic).await.expect_err("refused");
            assert_eq!((error.kind(), Attempts::of(&error).len()), (kind, 1), "{error}");
            assert_eq!(error.to_string().contains(unsigned), who.is_none(), "{error}");
        }
        send_as(&broker, Some(ADMIN), "closed").await.expect("administrators may do everything");
        send_as(&broker, Some(CLERK), TOPIC).await.expect("permitted");

        let credentials = Credentials::new(CLERK.access_key, CLERK.secret_key);
        let client = Client::builder(broker.name_server()).credentials(credentials).connect().await.expect("connected");
        let (deliver, mut delivered) = mpsc::unbounded_channel();
        let consumer = client
            .push_consumer(GROUPS[0])
            .subscribe(TOPIC, "*")
            .consume_from(ConsumeFrom::First)
            .start(move |message| {
                deliver.send(message.body()).expect("the test listens");
                async { Ok::<_, Error>(()) }
            })
            .await
            .expect("permitted");
        let body = tokio::time::timeout(Duration::from_secs(60), delivered.recv()).await.expect("within a minute");
        assert_eq!(body.as_deref(), Some(&b"body"[..]));
        consumer.shutdown().await.expect("the consumer shuts down");
        client.close().await;

        // The file is read again when it has changed.
        std::fs::write(&file, access::plain_acl().replace("open=PUB|SUB", "open=SUB")).expect("written");
        broker.advance_sessions(Duration::from_secs(1)).await;
        let error = send_as(&broker, Some(CLERK), TOPIC).await.expect_err("no longer permitted");
        assert_eq!(error.kind(), ErrorKind::NotPermitted);
    }
}

#[tokio::test]
async fn plain_and_encrypted_connections_share_the_ports() {
    let broker = MockBroker::start().await.expect("the broker starts");
    send_as(&broker, None, "mixed").await.expect("a plain connection");
    let tls = Tls::new().ca_pem(broker.certificate());
    let client = Client::builder(broker.name_server()).tls(tls).connect().await.expect("connected");
    let producer = client.producer("senders").send_timeout(Duration::from_secs(60)).start().await;
    let producer = producer.expect("the producer starts");
    let body: Vec<u8> = (0..600_000_u32).map(|number| (number.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let mut sends = tokio::task::JoinSet::new();
    for _ in 0..6 {
        let (producer, body) = (producer.clone(), body.clone());
        sends.spawn(async move { producer.send(Message::new("mixed", body)).await.map(drop) });
    }
    for sent in sends.join_all().await {
        sent.expect("an encrypted connection");
    }
    assert_eq!(broker.messages("mixed").len(), 7);
    let others = MockBroker::start().await.expect("the broker starts");
    let error = Client::builder(broker.name_server()).tls(Tls::new().ca_pem(others.certificate())).connect().await;
    assert_eq!(error.expect_err("another certificate").kind(), ErrorKind::Connection);
    client.close().await;

    let enforcing = MockBroker::builder().set("tls.server.mode", "enforcing").expect("a property").start().await;
    let enforcing = enforcing.expect("the broker starts");
    let plain = Client::builder(enforcing.name_server()).connect().await;
    assert_eq!(plain.expect_err("a plain connection").kind(), ErrorKind::Connection);
    let tls = Tls::new().ca_pem(enforcing.certificate());
    let client = Client::builder(enforcing.name_server()).tls(tls).connect().await.expect("connected");
    client.close().await;
}
