//! What cannot work is refused with an error that says so, or costs the one connection, and everything else goes on.

use std::{
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    time::Duration,
};

use rocketmq_mock_broker::MockBroker;
use rocketmq_native::{Client, Error, ErrorKind, Message, Producer};
use rocketmq_tests::proxy::Proxy;
use tokio::{sync::mpsc, time};

/// Not a frame in any way, one in some way, or not to the end.
const GARBAGE: [&[u8]; 7] = [
    b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"\xff\xff\xff\xff\xff\xff\xff\xff",
    b"\x7f\xff\xff\xff\x00\x00\x00\x10",
    b"\x00\x00\x00\x00",
    // A header longer than its frame.
    b"\x00\x00\x00\x08\x00\xff\xff\xff\x00\x00\x00\x00",
    // A serialize type that there is none of.
    b"\x00\x00\x00\x06\x09\x00\x00\x02{}",
    // A JSON header that is no JSON.
    b"\x00\x00\x00\x08\x00\x00\x00\x04nope",
];

async fn producer(broker: &MockBroker) -> Producer {
    let client = Client::builder(broker.name_server()).connect().await.unwrap();
    client.producer("p").start().await.unwrap()
}

async fn refusal(producer: &Producer, message: Message) -> Error {
    let error = producer.send(message).await.unwrap_err();
    producer.send(Message::new("fine", "afterwards")).await.unwrap();
    error
}

#[tokio::test]
async fn an_unreachable_name_server_is_named() {
    // A port that was free a moment ago.
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let error = Client::builder(address.as_str()).connect().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Connection);
    assert!(error.to_string().contains(&address), "{error}");
}

#[tokio::test]
async fn an_unknown_topic_without_auto_creation_has_no_route() {
    let broker = MockBroker::builder().auto_create_topics(false).topic("fine", 4).start().await.unwrap();
    let producer = producer(&broker).await;
    let error = refusal(&producer, Message::new("unknown", "hi")).await;
    assert_eq!(error.kind(), ErrorKind::NoRoute);
    assert!(error.to_string().contains("unknown"), "{error}");
    broker.create_topic("unknown", 4).await;
    producer.send(Message::new("unknown", "known now")).await.unwrap();
    assert_eq!(broker.messages("unknown").len(), 1);
}

#[tokio::test]
async fn an_empty_body_is_refused_before_it_is_sent() {
    let broker = MockBroker::start().await.unwrap();
    let error = refusal(&producer(&broker).await, Message::new("empty", "")).await;
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert_eq!(broker.messages("empty").len(), 0);
}

#[tokio::test]
async fn a_body_over_the_limit_is_too_large() {
    let broker = MockBroker::start().await.unwrap();
    let body = vec![1; (4 << 20) + 1];
    let producer = producer(&broker).await;
    let error = refusal(&producer, Message::new("large", body.clone())).await;
    assert_eq!(error.kind(), ErrorKind::MessageTooLarge);

    // The broker has the same limit.
    let client = Client::builder(broker.name_server()).connect().await.unwrap();
    let generous = client.producer("p").max_message_size(5 << 20).compress_over(usize::MAX).start().await.unwrap();
    let error = refusal(&generous, Message::new("large", body)).await;
    // Its code says that the message is illegal, not what about it.
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert_eq!(error.response_code(), Some(13));
    assert_eq!(broker.messages("large").len(), 0);
}

#[tokio::test]
async fn illegal_names_are_refused() {
    let broker = MockBroker::start().await.unwrap();
    let client = Client::builder(broker.name_server()).connect().await.unwrap();
    let producer = client.producer("p").start().await.unwrap();
    let too_long = "x".repeat(256);
    for name in ["", "a b", "a.b", "a/b", "名", too_long.as_str()] {
        let error = refusal(&producer, Message::new(name, "hi")).await;
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "topic {name:?}: {error}");
        let error = client.producer(name).start().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "producer group {name:?}: {error}");
        let error = client.push_consumer(name).subscribe("t", "*").start(async |_| {}).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "consumer group {name:?}: {error}");
        let error = client.push_consumer("g").subscribe(name, "*").start(async |_| {}).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "subscribed topic {name:?}: {error}");
    }
}

#[tokio::test]
async fn separators_in_properties_are_refused() {
    let broker = MockBroker::start().await.unwrap();
    let producer = producer(&broker).await;
    let message = || Message::new("separators", "hi");
    for bad in [
        message().property("name", "a\u{1}b"),
        message().property("name", "a\u{2}b"),
        message().property("na\u{1}me", "value"),
        message().property("na\u{2}me", "value"),
        message().tag("a\u{1}b"),
        message().key("a\u{2}b"),
    ] {
        let text = format!("{bad:?}");
        let error = refusal(&producer, bad).await;
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{text}: {error}");
    }
    assert_eq!(broker.messages("separators").len(), 0);
}

#[tokio::test]
async fn garbage_to_a_server_costs_the_one_connection() {
    let broker = MockBroker::start().await.unwrap();
    let producer = producer(&broker).await;
    producer.send(Message::new("fine", "before")).await.unwrap();
    for address in [broker.name_server(), broker.broker_address()] {
        for garbage in GARBAGE {
            let mut socket = TcpStream::connect(address).unwrap();
            socket.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
            socket.write_all(garbage).unwrap();
            // The end, or a reset when the server has not read all: an answer or silence is wrong.
            let read = socket.read(&mut [0; 64]);
            let closed = match &read {
                Ok(count) => *count == 0,
                Err(error) => error.kind() == std::io::ErrorKind::ConnectionReset,
            };
            assert!(closed, "{read:?} after {garbage:?} to {address}");
            producer.send(Message::new("fine", "after")).await.unwrap();
        }
    }
    let stored = broker.messages("fine").len();
    assert_eq!(stored, 1 + 2 * GARBAGE.len());
}

#[tokio::test]
async fn garbage_to_the_client_costs_the_one_connection() {
    let broker = MockBroker::start().await.unwrap();
    let to_broker = Proxy::start(broker.broker_address()).await;
    let moved = (broker.broker_address().to_owned(), to_broker.address());
    let to_name_server = Proxy::rewriting(broker.name_server(), vec![moved]).await;

    let client = Client::builder(to_name_server.address()).connect().await.unwrap();
    let producer = client.producer("p").start().await.unwrap();
    let (deliver, mut delivered) = mpsc::unbounded_channel();
    let consumer = client
        .push_consumer("g")
        .subscribe("t", "*")
        .start(move |message| {
            let _ = deliver.send(message.body());
            async {}
        })
        .await
        .unwrap();
    for (round, garbage) in GARBAGE.into_iter().enumerate() {
        let before = to_broker.connections();
        let body = format!("round {round}");
        producer.send(Message::new("t", body.clone())).await.unwrap();
        while time::timeout(Duration::from_secs(30), delivered.recv()).await.unwrap().unwrap() != body {}

        to_broker.insert(garbage);
        // The consumer needs a connection, whether or not anything is sent.
        to_broker.connected_again(before).await;
        let body = format!("round {round}, after garbage");
        producer.send(Message::new("t", body.clone())).await.unwrap();
        while time::timeout(Duration::from_secs(30), delivered.recv()).await.unwrap().unwrap() != body {}
    }
    consumer.shutdown().await.unwrap();
    client.close().await;
}
