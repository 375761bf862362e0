//! Groups with members of several kinds that come and go.

use std::collections::BTreeMap;

use rocketmq_native::{
    MessageQueue,
    consumer::{AverageByCircle, ConsistentHash, ConsumeResult},
};

use super::*;

/// The queues of a topic that a consumer reads.
fn owned(consumer: &PushConsumer, topic: &str) -> Vec<MessageQueue> {
    let queues = consumer.explain().queues.into_iter().map(|queue| queue.queue);
    queues.filter(|queue| queue.topic() == topic).collect()
}

/// With any strategy, every queue has one reader once members have come and gone.
pub async fn strategies_share_all_queues(server: &Server) {
    let _running = server.share().await;
    let topic = topic(server, "strategies", 7);
    for circle in [false, true] {
        let group = server.name("strategies-group");
        let mut members = Vec::new();
        for count in 1..=3 {
            let client = connect(server).await;
            let (calls, _) = calls();
            let builder = consumer(&client, &group, &topic);
            let builder = match circle {
                true => builder.strategy(AverageByCircle),
                false => builder.strategy(ConsistentHash::default()),
            };
            let member = builder.start(calls.handler(|_| ConsumeResult::Success)).await.expect("it starts");
            members.push((member, client));
            settle(&members, &topic, 7, count).await;
        }
        let (member, client) = members.remove(0);
        shut_down(member).await;
        client.close().await;
        settle(&members, &topic, 7, 2).await;
        for (member, client) in members {
            shut_down(member).await;
            client.close().await;
        }
    }
}

/// Waits until every queue has one reader and all members know of each other.
async fn settle(members: &[(PushConsumer, Client)], topic: &str, queues: usize, count: usize) {
    let settled = async {
        loop {
            let mut readers = BTreeMap::<i32, usize>::new();
            for queue in members.iter().flat_map(|(member, _)| owned(member, topic)) {
                *readers.entry(queue.id()).or_default() += 1;
            }
            let know = members.iter().all(|(member, _)| member.explain().members.len() == count);
            if know && readers.len() == queues && readers.values().all(|readers| *readers == 1) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    within("every queue has one reader", settled).await;
}
