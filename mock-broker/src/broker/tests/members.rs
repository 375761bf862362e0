use super::*;

/// The body of a heartbeat with one consumer group.
pub(super) fn heartbeat(
    client_id: &str,
    group: &str,
    topic: &str,
    expression: &str,
    sub_version: i64,
    message_model: &str,
) -> String {
    use rocketmq_wire::filter::TagExpression;
    use rocketmq_wire::model::{ConsumerData, HeartbeatData, SubscriptionData};
    let subscription = SubscriptionData {
        topic: topic.to_owned(),
        sub_string: expression.to_owned(),
        expression_type: "TAG".to_owned(),
        code_set: TagExpression::parse(expression).unwrap().codes().to_vec(),
        sub_version,
        ..SubscriptionData::default()
    };
    let consumer = ConsumerData {
        group_name: group.to_owned(),
        message_model: message_model.to_owned(),
        subscription_data_set: vec![subscription],
        ..ConsumerData::default()
    };
    let data = HeartbeatData {
        client_id: client_id.to_owned(),
        consumer_data_set: vec![consumer],
        ..HeartbeatData::default()
    };
    serde_json::to_string(&data).unwrap()
}

fn join(bench: &mut Bench, from: ConnectionId, client_id: &str, message_model: &str) -> RemotingCommand {
    let body = heartbeat(client_id, "g", "orders", "*", 1, message_model);
    bench.ask(from, RequestCode::HEART_BEAT, &[], body.as_bytes())
}

fn told(bench: &mut Bench) -> Vec<ConnectionId> {
    bench.effects().1.into_iter().flat_map(|(_, members)| members).collect()
}

#[test]
fn a_heartbeat_makes_the_retry_topic() {
    for compatibility in ALL {
        let mut bench = Bench::new(compatibility);
        let answer = join(&mut bench, A, "a", "CLUSTERING");
        let is_5 = compatibility == Compatibility::V5_3;
        assert_eq!(answer.field("IS_SUPPORT_HEART_BEAT_V2"), is_5.then_some("true"));
        assert_eq!(answer.fields.is_some(), is_5);
        let retry = bench.broker.topics.get("%RETRY%g").unwrap();
        assert_eq!((retry.read_queue_nums, retry.perm), (1, 6));
    }
    let mut closed = Bench::with(|settings| settings.auto_create_groups = false);
    assert_eq!(join(&mut closed, A, "a", "CLUSTERING").code, 0);
    assert!(closed.broker.topics.get("%RETRY%g").is_none());
}

#[test]
fn members_are_told_of_each_other() {
    let mut bench = Bench::new(Compatibility::V5_3);
    join(&mut bench, A, "a", "CLUSTERING");
    assert_eq!(told(&mut bench), [A]);
    join(&mut bench, A, "a", "CLUSTERING");
    assert_eq!(told(&mut bench), []);
    join(&mut bench, B, "b", "CLUSTERING");
    assert_eq!(told(&mut bench), [A, B]);
    let list = bench.ask(A, RequestCode::GET_CONSUMER_LIST_BY_GROUP, &[("consumerGroup", "g")], b"");
    assert_eq!(&list.body[..], br#"{"consumerIdList":["a","b"]}"#);

    let leave = [("clientID", "a"), ("consumerGroup", "g")];
    assert_eq!(bench.ask(A, RequestCode::UNREGISTER_CLIENT, &leave, b"").code, 0);
    assert_eq!(told(&mut bench), [B]);
    // The id in the request is not what counts.
    assert_eq!(bench.ask(A, RequestCode::UNREGISTER_CLIENT, &[("clientID", "b"), ("consumerGroup", "g")], b"").code, 0);
    assert_eq!(told(&mut bench), []);
    join(&mut bench, A, "a", "CLUSTERING");
    told(&mut bench);
    bench.broker.connection_closed(B);
    assert_eq!(told(&mut bench), [A]);
    bench.broker.connection_closed(A);
    let nobody = bench.ask(A, RequestCode::GET_CONSUMER_LIST_BY_GROUP, &[("consumerGroup", "g")], b"");
    assert_eq!((nobody.code, nobody.remark.as_deref()), (1, Some("no consumer for this group, g")));
}

#[test]
fn members_of_broadcasting_groups_were_told_until_5() {
    for (compatibility, expected) in [(Compatibility::V4_9, vec![A]), (Compatibility::V5_3, vec![])] {
        let mut bench = Bench::new(compatibility);
        join(&mut bench, A, "a", "BROADCASTING");
        assert_eq!(told(&mut bench), expected);
    }
}

#[test]
fn silent_clients_are_closed() {
    let mut bench = Bench::new(Compatibility::V5_3);
    join(&mut bench, A, "a", "CLUSTERING");
    told(&mut bench);
    bench.pass(Duration::from_secs(119));
    assert_eq!(bench.effects().1, []);
    bench.pass(Duration::from_secs(11));
    assert_eq!(bench.effects().1, [("closed".to_owned(), vec![A])]);
}

#[test]
fn short_heartbeats_renew_known_members_only() {
    let mut bench = Bench::new(Compatibility::V5_3);
    let short = br#"{"clientID":"a","consumerDataSet":[{"groupName":"g"}],"heartbeatFingerprint":5,"withoutSub":true}"#;
    let unknown = bench.ask(A, RequestCode::HEART_BEAT, &[], short);
    assert_eq!(unknown.field("IS_SUB_CHANGE"), Some("true"));
    join(&mut bench, A, "a", "CLUSTERING");
    let known = bench.ask(A, RequestCode::HEART_BEAT, &[], short);
    assert_eq!(known.field("IS_SUB_CHANGE"), Some("false"));
    assert!(bench.broker.clients.consumer_group("g").unwrap().subscription("orders").is_some());
}

#[test]
fn only_tags_are_understood() {
    let mut bench = Bench::new(Compatibility::V5_3);
    let check = |expression_type| {
        format!(
            r#"{{"clientId":"a","group":"g","subscriptionData":{{"expressionType":"{expression_type}","subString":"a"}}}}"#
        )
    };
    assert_eq!(bench.ask(A, RequestCode::CHECK_CLIENT_CONFIG, &[], check("TAG").as_bytes()).code, 0);
    assert_eq!(bench.ask(A, RequestCode::CHECK_CLIENT_CONFIG, &[], check("SQL92").as_bytes()).code, 1);
}

#[test]
fn locks_that_others_hold_are_left_out() {
    let mut bench = Bench::new(Compatibility::V5_3);
    let body = |client: &str| {
        format!(
            r#"{{"clientId":"{client}","consumerGroup":"g","mqSet":[{{"brokerName":"b","queueId":0,"topic":"t"}}]}}"#
        )
    };
    let mine = bench.ask(A, RequestCode::LOCK_BATCH_MQ, &[], body("a").as_bytes());
    let locked: rocketmq_wire::model::LockedQueues = rocketmq_wire::fastjson::from_slice("locks", &mine.body).unwrap();
    assert_eq!((locked.locked.len(), locked.locked[0].topic.as_str()), (1, "t"));
    let others = bench.ask(B, RequestCode::LOCK_BATCH_MQ, &[], body("b").as_bytes());
    assert_eq!((others.code, &others.body[..]), (0, &br#"{"lockOKMQSet":[]}"#[..]));
    assert_eq!(bench.ask(B, RequestCode::UNLOCK_BATCH_MQ, &[], body("b").as_bytes()).code, 0);
    assert!(bench.broker.locks.is_any_locked(bench.now.session, "g"));
    assert_eq!(bench.ask(A, RequestCode::UNLOCK_BATCH_MQ, &[], body("a").as_bytes()).code, 0);
    assert!(!bench.broker.locks.is_any_locked(bench.now.session, "g"));
}
