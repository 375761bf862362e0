//! Requests and replies, both by our client.

use std::time::Duration;

use rocketmq_native::{ConsumeFrom, ErrorKind, Message, MessageView, Outcome, Producer};

use crate::{
    party::{Party, arguments, go, java, java_4_9_7},
    scene::{LIMIT, Reader, connect, text, topic},
    server::Server,
};

/// Requests are answered by a consumer in another client, side by side, and each gets its own reply.
pub async fn requests_are_replied_to(server: &'static Server) {
    let _running = server.share().await;
    let topic = topic(server, "requests", 4);
    let (asking, answering) = (connect(server).await, connect(server).await);
    let replier =
        answering.producer(server.name("replier")).send_timeout(LIMIT).start().await.expect("the producer starts");
    let consumer = answering
        .push_consumer(server.name("answers"))
        .subscribe(&topic, "*")
        .consume_from(ConsumeFrom::First)
        .start(move |request: MessageView| answer(replier.clone(), request))
        .await
        .expect("the consumer starts");
    let producer =
        asking.producer(server.name("asker")).send_timeout(LIMIT).start().await.expect("the producer starts");
    let ask = |body: String| {
        let (producer, message) = (producer.clone(), Message::new(topic.as_str(), body).tag("q"));
        async move { producer.request(message, Duration::from_secs(30)).await }
    };
    let replies = futures_join((0..20).map(|number| ask(format!("number {number}")))).await;
    for (number, reply) in replies.into_iter().enumerate() {
        let reply = reply.expect("a reply");
        assert_eq!(text(&reply), format!("number {number}, yes"));
        assert_eq!(reply.property("answered"), Some("fully"));
        assert!(reply.topic().ends_with("_REPLY_TOPIC"), "{}", reply.topic());
    }
    assert_eq!(producer.stats().waiting_requests, 0);

    // A request that is consumed and not replied to.
    let silent = producer.request(Message::new(topic.as_str(), "silence"), Duration::from_secs(5)).await;
    let error = silent.expect_err("no reply");
    assert_eq!((error.kind(), error.outcome()), (ErrorKind::Timeout, Outcome::Unknown), "{error}");
    assert_eq!(producer.stats().waiting_requests, 0);
    consumer.shutdown().await.expect("the consumer shuts down");
    asking.close().await;
    answering.close().await;
}

/// Our requests are replied to by Java consumers, old and new.
pub async fn java_replies_to_our_requests(server: &'static Server) {
    our_requests_are_replied_to_by(server, &[java(), java_4_9_7()]).await;
}

/// Our requests are replied to by Go consumers, which send replies by a request code of their own.
pub async fn go_replies_to_our_requests(server: &'static Server) {
    our_requests_are_replied_to_by(server, &[go()]).await;
}

async fn our_requests_are_replied_to_by(server: &'static Server, repliers: &[Party]) {
    let _running = server.share().await;
    let client = connect(server).await;
    let builder = client.producer(server.name("asker")).send_timeout(LIMIT);
    let producer = builder.start().await.expect("the producer starts");
    for replier in repliers {
        let topic = topic(server, "foreign-answers", 2);
        let to_topic = arguments(server).set("topic", &topic);
        let group = server.name("foreign-repliers");
        let mut consumer = replier.driver().consume(&to_topic.set("group", group).set("reply", ", sí")).await;
        for body in ["¿de verdad?", "wirklich?"] {
            let message = Message::new(topic.as_str(), body);
            let reply = producer.request(message, Duration::from_secs(50)).await.expect("a reply");
            assert_eq!(text(&reply), format!("{body}, sí"), "{replier:?}");
        }
        // Told when the replies have been acknowledged.
        assert_eq!(consumer.messages(2).await.len(), 2);
        assert_eq!(consumer.stop().await, []);
    }
    client.close().await;
}

/// Requests of the Java client are replied to by our consumer.
pub async fn we_reply_to_java(server: &'static Server) {
    we_reply_to(server, java_4_9_7()).await;
}

/// Requests of the Go client are replied to by our consumer. Brokers know that client only after its first heartbeat, up to
/// 30 s after its start; until then our replies are refused, and the requests handled again.
pub async fn we_reply_to_go(server: &'static Server) {
    we_reply_to(server, go()).await;
}

async fn we_reply_to(server: &'static Server, asker: Party) {
    let _running = server.share().await;
    let topic = topic(server, "foreign-asks", 2);
    let client = connect(server).await;
    let replier =
        client.producer(server.name("replier")).send_timeout(LIMIT).start().await.expect("the producer starts");
    let consumer = client
        .push_consumer(server.name("foreign-answered"))
        .subscribe(&topic, "*")
        .consume_from(ConsumeFrom::First)
        .start(move |request: MessageView| answer(replier.clone(), request))
        .await
        .expect("the consumer starts");
    let to_topic = arguments(server).set("topic", &topic);
    let replies = asker.driver().request(&to_topic.set("count", 3).set("timeout", 60_000).set("body", "número")).await;
    assert_eq!(replies, ["número 0, yes", "número 1, yes", "número 2, yes"]);
    consumer.shutdown().await.expect("the consumer shuts down");
    client.close().await;
}

async fn futures_join<F: Future<Output: Send + 'static> + Send + 'static>(
    futures: impl Iterator<Item = F>,
) -> Vec<F::Output> {
    let tasks: Vec<_> = futures.map(tokio::spawn).collect();
    let mut outputs = Vec::new();
    for task in tasks {
        outputs.push(task.await.expect("no panic"));
    }
    outputs
}

async fn answer(replier: Producer, request: MessageView) -> Result<(), rocketmq_native::Error> {
    let body = text(&request);
    if body == "silence" {
        return Ok(());
    }
    let reply = Message::reply_to(&request, format!("{body}, yes"))?.property("answered", "fully");
    replier.send(reply).await?;
    Ok(())
}

/// A reply that comes too late, or to a client that never asked, is dropped and counted; replying to what is no request
/// is refused, and so is a reply to a client that is gone.
pub async fn late_and_unknown_replies_are_counted(server: &'static Server) {
    let _running = server.share().await;
    let topic = topic(server, "late", 1);
    let client = connect(server).await;
    let producer =
        client.producer(server.name("late-asker")).send_timeout(LIMIT).start().await.expect("the producer starts");
    let mut reader = Reader::start(&client, server, &topic).await;
    let request = given_up(&producer, &topic, &mut reader).await;
    assert_eq!((producer.stats().waiting_requests, producer.stats().unknown_replies), (0, 0));
    producer.reply(&request, "too late").await.expect("the broker passes it on");
    assert_eq!(producer.stats().unknown_replies, 1);

    producer.send(Message::new(topic.as_str(), "plain")).await.expect("stored");
    let plain = reader.next().await;
    let error = producer.reply(&plain, "why").await.expect_err("not a request");
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");

    let gone = connect(server).await;
    let asker =
        gone.producer(server.name("gone-asker")).send_timeout(LIMIT).start().await.expect("the producer starts");
    let request = given_up(&asker, &topic, &mut reader).await;
    asker.shutdown().await;
    gone.close().await;
    let error = producer.reply(&request, "anybody there?").await.expect_err("the client is gone");
    assert_eq!((error.kind(), error.response_code()), (ErrorKind::Rejected, Some(1)), "{error}");
    reader.stop().await;
    client.close().await;
}

/// A request that was received, and whose sender then gave it up.
async fn given_up(producer: &Producer, topic: &str, reader: &mut Reader) -> MessageView {
    tokio::select! {
        reply = producer.request(Message::new(topic, "slow"), Duration::from_secs(120)) => panic!("{reply:?}"),
        request = reader.next() => request,
    }
}
