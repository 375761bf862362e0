//! Half messages: decided by the producer, by a check, by another producer.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex},
};

use rocketmq_native::{
    Client, ErrorKind, Message, MessageView, TransactionChecker, TransactionProducer, TransactionResolution,
};
use tokio::sync::watch;

use crate::{
    party::{arguments, java},
    scene::{LIMIT, Reader, connect, text, topic, within},
    server::Server,
};
use TransactionResolution::{Commit, Rollback, Unknown};

/// How often a checker was asked about each body.
#[derive(Clone)]
struct Asked(watch::Sender<BTreeMap<String, usize>>);

impl Asked {
    fn new() -> Self {
        Self(watch::Sender::default())
    }

    /// A checker that answers by the body: `commit..`, `rollback..`, or `later..`, which is committed the second time.
    fn checker(&self) -> impl TransactionChecker + use<> {
        let asked = self.clone();
        move |message: MessageView| {
            let body = text(&message);
            let mut times = 0;
            asked.0.send_modify(|asked| {
                let count = asked.entry(body.clone()).or_default();
                *count += 1;
                times = *count;
            });
            async move {
                match body.split('-').next() {
                    Some("commit") => Commit,
                    Some("rollback") => Rollback,
                    Some("panic") if times == 1 => panic!("a checker may panic"),
                    _ if times == 1 => Unknown,
                    _ => Commit,
                }
            }
        }
    }

    async fn until(&self, what: &str, enough: impl FnMut(&BTreeMap<String, usize>) -> bool) {
        within(what, self.0.subscribe().wait_for(enough)).await.expect("the sender lives");
    }
}

async fn producer(client: &Client, group: &str, asked: &Asked) -> TransactionProducer {
    let builder = client.transaction_producer(group, asked.checker()).with(|producer| producer.send_timeout(LIMIT));
    builder.start().await.expect("the producer starts")
}

/// Only what is committed is delivered, once, whether the producer decides in one of the two ways or the checker does.
pub async fn transactions_decide_what_is_delivered(server: &'static Server) {
    let _running = server.share().await;
    let (topic, client, asked) = (topic(server, "transactions", 4), connect(server).await, Asked::new());
    let producer = producer(&client, &server.name("transactions-group"), &asked).await;
    let mut reader = Reader::start(&client, server, &topic).await;
    let message = |body: &str| Message::new(topic.as_str(), body.to_owned()).key("k").tag("t");

    let half = producer.begin(message("committed")).await.expect("stored");
    let committed_id = half.message_id().to_owned();
    half.commit().await.expect("the broker confirms");
    producer.begin(message("rolled-back")).await.expect("stored").rollback().await.expect("the broker confirms");
    let seen = Arc::new(Mutex::new(String::new()));
    let local_id = Arc::clone(&seen);
    let local = move |id: String| async move {
        *local_id.lock().expect("no panic inside") = id;
        Ok::<(), String>(())
    };
    let receipt = producer.transact(message("transacted"), local).await.expect("stored");
    assert_eq!((receipt.resolution(), receipt.unconfirmed().is_none()), (Commit, true), "{receipt:?}");
    assert_eq!(receipt.message_id(), *seen.lock().expect("no panic inside"));
    let failing = |_| async { Err::<(), _>("no money") };
    let receipt = producer.transact(message("not-transacted"), failing).await.expect("stored");
    assert_eq!((receipt.resolution(), receipt.unconfirmed().is_none()), (Rollback, true), "{receipt:?}");
    for left in ["commit-left", "rollback-left", "later-left", "panic-left"] {
        drop(producer.begin(message(left)).await.expect("stored"));
    }
    let undecided = producer.transact(message("later-undecided"), |_| async { Unknown }).await.expect("stored");
    assert_eq!((undecided.resolution(), undecided.unconfirmed().is_none()), (Unknown, true));

    let mut delivered = BTreeMap::new();
    while delivered.len() < 6 {
        let message = reader.next().await;
        assert_eq!((message.tag(), message.topic()), (Some("t"), topic.as_str()), "{message:?}");
        delivered.insert(text(&message), message);
    }
    let bodies = ["commit-left", "committed", "later-left", "later-undecided", "panic-left", "transacted"];
    assert_eq!(delivered.keys().collect::<Vec<_>>(), bodies.each_ref());
    assert_eq!(delivered["committed"].message_id(), committed_id);
    asked.until("a check of what was left to be rolled back", |asked| asked.contains_key("rollback-left")).await;
    assert_eq!(reader.stop().await, [""; 0], "nothing twice, and nothing that was rolled back");
    let asked = asked.0.borrow().clone();
    assert!(asked.keys().all(|body| body.contains('-') && !body.ends_with("transacted")), "{asked:?}");

    let delayed = producer.begin(message("x").delay_level(1)).await.expect_err("not both");
    assert_eq!(delayed.kind(), ErrorKind::InvalidArgument);
    producer.shutdown().await;
    client.close().await;
}

/// A message whose producer is gone is asked about at another producer of its group, and of a group alone.
pub async fn another_producer_of_the_group_is_asked(server: &'static Server) {
    let _running = server.share().await;
    let (topic, group) = (topic(server, "orphans", 2), server.name("orphans-group"));
    let (gone, client) = (connect(server).await, connect(server).await);
    let (of_group, of_others) = (Asked::new(), Asked::new());
    let others = producer(&client, &server.name("others-group"), &of_others).await;
    // Brokers know a client by the groups that it is in, so it has to have sent something.
    others.producer().send(Message::new(topic.as_str(), "plain")).await.expect("stored");
    // Asked before it is gone, as it may be when this takes long, it does not know.
    let left = gone.transaction_producer(&group, async |_: MessageView| Unknown).start().await;
    let left = left.expect("the producer starts");
    drop(left.begin(Message::new(topic.as_str(), "commit-orphan")).await.expect("stored"));
    left.shutdown().await;
    gone.close().await;

    let heir = producer(&client, &group, &of_group).await;
    let mut reader = Reader::start(&client, server, &topic).await;
    assert_eq!(reader.bodies(2).await, ["commit-orphan", "plain"]);
    assert_eq!(reader.stop().await, [""; 0]);
    assert_eq!(of_group.0.borrow().keys().collect::<Vec<_>>(), ["commit-orphan"]);
    assert!(of_others.0.borrow().is_empty());
    heir.shutdown().await;
    client.close().await;
}

/// Java's transaction producer answers what brokers ask about half messages of ours when it is the only one left of the
/// group, and ours what they ask about half messages of Java's.
pub async fn java_and_we_answer_for_each_other(server: &'static Server) {
    let _running = server.share().await;
    let (topic, group) = (topic(server, "shared-halves", 2), server.name("shared-halves-group"));
    let (gone, client) = (connect(server).await, connect(server).await);
    let mut reader = Reader::start(&client, server, &topic).await;
    let begin = |bodies: &str| arguments(server).set("topic", &topic).set("group", &group).set("bodies", bodies);

    // Ours are left, and only Java is there to be asked.
    let left = gone.transaction_producer(&group, async |_: MessageView| Unknown);
    let left = left.with(|producer| producer.send_timeout(LIMIT)).start().await.expect("the producer starts");
    for body in ["commit-ours", "rollback-ours"] {
        drop(left.begin(Message::new(topic.as_str(), body)).await.expect("stored"));
    }
    left.shutdown().await;
    gone.close().await;
    let mut answering = java().driver().transact(&begin("now-java")).await;
    let mut checked = BTreeSet::new();
    while checked.len() < 2 {
        checked.insert(within("a question to Java", answering.checked()).await);
    }
    assert_eq!(checked.into_iter().collect::<Vec<_>>(), ["commit-ours", "rollback-ours"]);
    assert_eq!(reader.bodies(2).await, ["commit-ours", "now-java"]);
    answering.stop().await;

    // Java's are left, and only ours is there. The Java client may have been asked before it was gone.
    java().driver().transact(&begin("later-java")).await.stop().await;
    let asked = Asked::new();
    let heir = producer(&client, &group, &asked).await;
    heir.producer().send(Message::new(topic.as_str(), "plain")).await.expect("stored");
    assert_eq!(reader.bodies(2).await, ["later-java", "plain"]);
    assert_eq!(asked.0.borrow().keys().collect::<Vec<_>>(), ["later-java"]);
    heir.shutdown().await;
    assert_eq!(reader.stop().await, [""; 0]);
    client.close().await;
}
