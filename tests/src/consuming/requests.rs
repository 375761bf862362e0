//! What administrators ask of consumers, by Apache's own tool.

use std::sync::LazyLock;

use rocketmq_native::consumer::ConsumeResult;

use super::*;
use crate::foreign::{Driver, Headers};

static MQADMIN: LazyLock<Driver> = LazyLock::new(|| Driver::java("5.3.3", Headers::Json));

async fn mqadmin(server: &Server, line: &str) -> String {
    MQADMIN.mqadmin(server.name_server(), line).await
}

/// The tool shows a running consumer, moves its offsets back, and has it consume one message.
pub async fn mqadmin_reaches_the_consumer(server: &Server) {
    let _running = server.share().await;
    let topic = topic(server, "admin", 2);
    let group = server.name("admin-group");
    let client = connect(server).await;
    let (calls, mut seen) = calls();
    let decide = |call: &Call| {
        if call.key == "k-7" { ConsumeResult::RetryAfter(Duration::from_secs(7200)) } else { ConsumeResult::Success }
    };
    let builder = consumer(&client, &group, &topic).commit_interval(Duration::from_millis(200));
    let consumer = builder.start(calls.handler(decide)).await.expect("it starts");
    send(&client, &topic, "k-", 7, 2).await;
    let calls = seen.take(7).await;
    assert!(calls.iter().all(|call| call.times == 0));

    // The tool is in no namespace.
    let (wire_group, wire_topic) = (server.wire_name(&group), server.wire_name(&topic));

    // 307
    let id = client.client_id().to_owned();
    let status = mqadmin(server, &format!("consumerStatus -g {wire_group} -i {id}")).await;
    for part in
        [wire_topic.as_str(), "PROP_CONSUME_TYPE", "CONSUME_PASSIVELY", "#Consumer MQ Detail#", "#Consumer RT&TPS#"]
    {
        assert!(status.contains(part), "no {part} in:\n{status}");
    }

    // 220: everything comes again.
    let reset = mqadmin(server, &format!("resetOffsetByTime -g {wire_group} -t {wire_topic} -s 0")).await;
    assert!(!reset.is_empty(), "the tool says what it did");
    let again = seen.take(7).await;
    let mut keys: Vec<_> = again.iter().map(|call| call.key.as_str()).collect();
    keys.sort();
    assert_eq!(keys, ["k-0", "k-1", "k-2", "k-3", "k-4", "k-5", "k-6"], "{reset}");

    // 309: the message with this id, right now.
    let producer = client.producer("consuming-sender").send_timeout(LIMIT).start().await.expect("the producer starts");
    let receipt = producer.send(Message::new(topic.as_str(), "direct").key("direct")).await.expect("stored");
    assert_eq!(seen.next().await.key, "direct");
    let offset_id = receipt.offset_message_id().expect("the broker says it").to_string();
    let direct = mqadmin(server, &format!("queryMsgById -i {offset_id} -t {wire_topic} -g {wire_group} -d {id}")).await;
    assert!(direct.contains("CR_SUCCESS"), "{direct}");
    assert_eq!(seen.next().await.key, "direct");
    producer.shutdown().await;
    shut_down(consumer).await;
    client.close().await;
}
