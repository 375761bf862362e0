//! What brokers ask of a consumer for administrators.

use bytes::Bytes;
use rocketmq_wire::RequestCode;

use super::fake_broker::BROKER_NAME;
use super::*;

const SOON: Duration = Duration::from_millis(100);

fn reset_to(fixture: &Fixture, offset: i64) {
    let queue = format!(r#"{{"brokerName":"{BROKER_NAME}","queueId":0,"topic":"{TOPIC}"}}"#);
    let body = format!(r#"{{"offsetTable":{{{queue}:{offset}}}}}"#);
    let fields = vec![
        ("topic", TOPIC.to_owned()),
        ("group", GROUP.to_owned()),
        ("timestamp", "0".to_owned()),
        ("isForce", "false".to_owned()),
    ];
    fixture.broker.ask_member(RequestCode::RESET_CONSUMER_CLIENT_OFFSET, GROUP, fields, Bytes::from(body));
}

#[tokio::test]
async fn an_offset_is_reset_back_and_forth_while_a_pull_is_held() {
    let fixture = Fixture::new(1);
    fixture.broker.append_numbered(TOPIC, 1, 0..10);
    let consumer = fixture.consumer().await;
    fixture.until(SOON, "all are handled", || fixture.handled.count() == 10).await;
    reset_to(&fixture, 6);
    fixture.until(SOON, "four come again", || consumer.stats().consumed == 14).await;
    fixture.until(SOON, "it is stored", || fixture.broker.committed(GROUP, TOPIC, 0).is_some()).await;
    assert_eq!(fixture.handled.deliveries("6"), [0, 0]);
    assert_eq!(fixture.handled.deliveries("5"), [0]);

    // What lies below is passed over.
    consumer.pause();
    fixture.clock.advance(Duration::from_secs(16)).await;
    fixture.broker.append_numbered(TOPIC, 1, 10..20);
    reset_to(&fixture, 15);
    consumer.resume();
    fixture.until(SOON, "the rest comes", || fixture.handled.deliveries("19") == [0]).await;
    assert_eq!(fixture.handled.deliveries("14"), [] as [u32; 0]);
    fixture.drive(consumer.shutdown()).await.expect("nothing is under way");
    assert_eq!(fixture.broker.committed(GROUP, TOPIC, 0), Some(20));
}

#[tokio::test]
async fn a_consumer_tells_what_it_does() {
    let fixture = Fixture::new(1);
    fixture.broker.append_numbered(TOPIC, 1, 0..10);
    let _consumer = fixture.consumer().await;
    fixture.until(SOON, "all are handled", || fixture.handled.count() == 10).await;
    let ask = |code, fields: &[(&'static str, &str)]| {
        let fields = fields.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
        fixture.broker.ask_member(code, GROUP, fields, Bytes::new());
    };
    ask(RequestCode::GET_CONSUMER_RUNNING_INFO, &[("consumerGroup", GROUP), ("clientId", "x")]);
    ask(RequestCode::GET_CONSUMER_STATUS_FROM_CLIENT, &[("topic", TOPIC), ("group", GROUP)]);
    ask(RequestCode::GET_CONSUMER_RUNNING_INFO, &[("consumerGroup", "stranger"), ("clientId", "x")]);
    fixture.until(SOON, "it has answered", || fixture.broker.state().answered.len() == 3).await;
    let answers = std::mem::take(&mut fixture.broker.state().answered);
    let text = |index: usize| String::from_utf8_lossy(&answers[index].body).into_owned();
    let refusal = answers.iter().find(|answer| answer.code != 0).expect("one for the stranger");
    assert!(refusal.remark.as_deref().is_some_and(|remark| remark.contains("<stranger> not exist")));
    let infos: Vec<_> = (0..3).map(text).filter(|text| text.contains("PROP_CONSUME_TYPE")).collect();
    assert_eq!(infos.len(), 1);
    for part in
        ["\"commitOffset\":10", "\"cachedMsgCount\":0", "\"consumeOKTPS\":", "CONSUME_PASSIVELY", "\"subString\":\"*\""]
    {
        assert!(infos[0].contains(part), "no {part} in {}", infos[0]);
    }
    assert!((0..3).any(|index| text(index).contains("\"messageQueueTable\":{{") && text(index).contains("}:10}")));
}

#[tokio::test]
async fn a_message_is_consumed_directly_and_nothing_moves() {
    let fixture = Fixture::new(1);
    let fails = fixture.handled.clone();
    let handler = move |message: MessageView| {
        fails.note(&message);
        let result = if message.body() == "bad"[..] { Err("as asked") } else { Ok(()) };
        async move { result }
    };
    let consumer = fixture.builder().await.start(handler).await.expect("the broker answers");
    fixture.until(SOON, "it reads", || consumer.is_ready()).await;
    for (body, result) in [(&b"good"[..], "CR_SUCCESS"), (b"bad", "CR_THROW_EXCEPTION")] {
        let message =
            fake_broker::Stored { topic: TOPIC, body, properties: &[("KEYS", "direct")], ..Default::default() };
        let record = fake_broker::encode(0, 7, 70, &message);
        let fields = vec![("consumerGroup", GROUP.to_owned()), ("brokerName", BROKER_NAME.to_owned())];
        fixture.broker.ask_member(RequestCode::CONSUME_MESSAGE_DIRECTLY, GROUP, fields, record);
        fixture.until(SOON, "it has answered", || !fixture.broker.state().answered.is_empty()).await;
        let answer = fixture.broker.state().answered.pop().expect("an answer");
        assert!(String::from_utf8_lossy(&answer.body).contains(result), "{answer:?}");
    }
    assert_eq!((consumer.stats().consumed, fixture.broker.count(RequestCode::CONSUMER_SEND_MSG_BACK)), (0, 0));
}
