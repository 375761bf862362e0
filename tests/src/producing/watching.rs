//! Traces and automatic batches of our producer.

use std::{collections::BTreeSet, time::Duration};

use rocketmq_native::{Message, MessageView, TransactionResolution};
use tokio::{task::JoinSet, time::sleep};

use crate::scene::{LIMIT, Reader, connect, text, topic, within};
use crate::{party::java, server::Server};

/// Apache's tool finds our traces by the id of a message: of a plain one, of one in a batch, and of a half message. It
/// passes over the record of a transaction's end, which is in the same body.
pub async fn traces_are_read_by_apaches_tool(server: &'static Server) {
    let _running = server.share().await;
    let topic = topic(server, "traced", 2);
    let client = connect(server).await;
    let group = server.name("traced-group");
    let checker = |_: MessageView| async { TransactionResolution::Unknown };
    let builder = client.transaction_producer(&group, checker).with(|producer| producer.trace().send_timeout(LIMIT));
    let producer = builder.start().await.expect("the producer starts");
    let message = |body: &str| Message::new(topic.as_str(), body.to_owned()).key("traced-key").tag("traced-tag");
    let plain = producer.producer().send(message("plain")).await.expect("stored");
    let batch = producer.producer().send_batch([message("one"), message("two")]).await.expect("stored");
    let transaction = producer.begin(message("half")).await.expect("stored");
    let half_id = transaction.message_id().to_owned();
    transaction.commit().await.expect("confirmed");
    // What waits is sent at the end.
    producer.shutdown().await;
    assert_eq!(producer.producer().stats().dropped_traces, 0);
    client.close().await;
    for id in [plain.message_id(), batch[1].message_id(), &half_id] {
        let line = format!("queryMsgTraceById -i {id} -n {}", server.name_server());
        // The index of a message is written a moment after the message.
        within("the trace", async {
            loop {
                let output = java().driver().mqadmin(server.name_server(), &line).await;
                if ["Pub", "success", &group].iter().all(|part| output.contains(part)) {
                    return;
                }
                println!("not yet: {output}");
                sleep(Duration::from_millis(300)).await;
            }
        })
        .await;
    }
}

/// Sends that linger arrive once each, where their receipts say.
pub async fn lingering_sends_arrive_where_receipts_say(server: &'static Server) {
    let _running = server.share().await;
    const COUNT: usize = 2000;
    let topic = topic(server, "lingering", 4);
    let client = connect(server).await;
    let builder = client.producer("lingerers").send_timeout(LIMIT).linger(Duration::from_millis(5));
    let producer = builder.start().await.expect("the producer starts");
    let mut sending = JoinSet::new();
    for number in 0..COUNT {
        let (producer, topic) = (producer.clone(), topic.clone());
        sending.spawn(async move {
            let receipt = producer.send(Message::new(topic, format!("number {number}"))).await.expect("stored");
            (receipt.queue().id(), receipt.queue_offset(), format!("number {number}"))
        });
    }
    let sent: BTreeSet<_> = sending.join_all().await.into_iter().collect();
    assert_eq!(sent.len(), COUNT);
    let mut reader = Reader::start(&client, server, &topic).await;
    let mut received = BTreeSet::new();
    for _ in 0..COUNT {
        let message = reader.next().await;
        received.insert((message.queue_id(), message.queue_offset(), text(&message)));
    }
    assert!(received == sent, "what arrived is not what was sent");
    assert_eq!(reader.stop().await, [""; 0]);
    client.close().await;
}
