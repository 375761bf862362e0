//! Every future of a producer that is not looked at elsewhere may be dropped at any await, and leaves nothing behind.

use rocketmq_wire::message::{Record, StoredMessage};

use super::*;
use crate::{MessageView, TransactionResolution};

/// Makes a topic that the producer does not know yet, for each round.
fn fresh(scripted: &Scripted, round: usize) -> String {
    let topic = format!("fresh-{round}");
    scripted.set_topic(&topic, 1);
    topic
}

#[tokio::test]
async fn sends_that_are_not_awaited_or_do_not_wait() {
    let scripted = Scripted::start(2);
    let producer = producer(&scripted).await;
    let one_way = |round: usize| producer.send_one_way(Message::new(fresh(&scripted, round), "body"));
    drop_at_every_await(&scripted, &producer, one_way).await.expect("handed over");
    let large = vec![b'x'; 20_000];
    let one_way = |round: usize| {
        let options = SendOptions::new().selector(|_, _| 0);
        producer.send_one_way_with(Message::new(fresh(&scripted, 1000 + round), large.clone()), options)
    };
    drop_at_every_await(&scripted, &producer, one_way).await.expect("handed over");
    let at_once = |round: usize| producer.try_send(Message::new(fresh(&scripted, 2000 + round), "body"));
    drop_at_every_await(&scripted, &producer, at_once).await.expect("stored");
}

#[tokio::test]
async fn questions_and_flushes() {
    let scripted = Scripted::start(2);
    let producer = producer(&scripted).await;
    producer.send(message()).await.expect("stored");
    let queues = |round: usize| {
        let topic = fresh(&scripted, round);
        let producer = &producer;
        async move { producer.queues(&topic).await }
    };
    assert_eq!(drop_at_every_await(&scripted, &producer, queues).await.expect("a route").len(), 2);
    drop_at_every_await(&scripted, &producer, |_| producer.flush()).await;
    producer.send(message()).await.expect("stored");
}

#[tokio::test]
async fn replies() {
    let scripted = Scripted::start(2);
    scripted.set_topic("c_REPLY_TOPIC", 1);
    for broker in &scripted.brokers {
        broker.react(|request| match RequestCode(request.code) {
            RequestCode::SEND_REPLY_MESSAGE_V2 => stored(request, ResponseCode::SUCCESS),
            _ => scripted::broker(request),
        });
    }
    let producer = producer(&scripted).await;
    let host = "10.0.0.2:10911".parse().expect("an address");
    let record = Record {
        version: Default::default(),
        queue_id: 0,
        flag: 0,
        queue_offset: 0,
        physical_offset: 0,
        sys_flag: 0,
        born_timestamp: 1,
        born_host: host,
        store_timestamp: 2,
        store_host: host,
        reconsume_times: 0,
        prepared_transaction_offset: 0,
        body: b"question",
        topic: "t",
        properties: b"CORRELATION_ID\x01id\x02REPLY_TO_CLIENT\x01asker\x02CLUSTER\x01c\x02",
    };
    let mut bytes = vec![0; record.encoded_len().expect("small")];
    record.encode(&mut bytes).expect("there is room");
    let stored = StoredMessage::parse(bytes.into()).expect("a record").0;
    let request = MessageView::of(stored, "a", producer.0.cluster.namespace());
    drop_at_every_await(&scripted, &producer, |_| producer.reply(&request, "answer")).await.expect("passed on");
}

#[tokio::test]
async fn ends_of_transactions() {
    let scripted = Scripted::start(2);
    let client = scripted.client().await;
    let checker = |_: MessageView| async { TransactionResolution::Unknown };
    let producer = client.transaction_producer("g", checker).start().await.expect("a good group");
    for commits in [true, false] {
        let make = |_| {
            let producer = &producer;
            async move {
                let transaction = producer.begin(message()).await?;
                if commits { transaction.commit().await } else { transaction.rollback().await }
            }
        };
        drop_at_every_await(&scripted, producer.producer(), make).await.expect("confirmed");
    }
}

#[tokio::test]
async fn starts_and_ends() {
    let scripted = Scripted::start(2);
    let client = scripted.client().await;
    let witness = client.producer("witness").start().await.expect("a good group");
    witness.send(message()).await.expect("stored");
    // A start that is dropped leaves no group behind: a transaction producer of it can be started again.
    let start = |_| {
        let checker = |_: MessageView| async { TransactionResolution::Unknown };
        client.transaction_producer("g", checker).with(|producer| producer.topic("t").trace()).start()
    };
    let producer = drop_at_every_await(&scripted, &witness, start).await.expect("started");
    drop_at_every_await(&scripted, &witness, |_| producer.shutdown()).await;
    drop(producer);
    drop_at_every_await(&scripted, &witness, start).await.expect("started again");
}
