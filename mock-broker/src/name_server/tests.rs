//! The name server without sockets.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use rocketmq_wire::header::{Header, SerializeType};
use rocketmq_wire::{Frame, LanguageCode, RemotingCommand, RequestCode, Version};

use super::*;
use crate::reply::ReplyBody;

const BROKER: ConnectionId = ConnectionId(1);
const CLIENT: ConnectionId = ConnectionId(2);

fn ask(
    server: &mut NameServer,
    seconds: u64,
    from: ConnectionId,
    version: Version,
    code: RequestCode,
    fields: &[(&str, &str)],
    body: &str,
) -> Option<RemotingCommand> {
    let request = RemotingCommand {
        serialize_type: SerializeType::Json,
        code: code.0,
        language: LanguageCode::JAVA,
        version,
        opaque: 1,
        flag: 0,
        remark: None,
        fields: Some(fields.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()),
        body: Bytes::copy_from_slice(body.as_bytes()),
    };
    let frame = Frame::parse(request.to_bytes().unwrap()).unwrap();
    let header = Header::decode(frame.serialize_type, &frame.header).unwrap();
    let command = Command { header, serialize_type: frame.serialize_type, body: &frame.body };
    let peer = Peer { connection: from, address: ([127, 0, 0, 1], 4711).into() };
    let Outcome::Reply(reply) = server.handle(Duration::from_secs(seconds), &peer, &command) else { return None };
    let mut out = BytesMut::new();
    reply.encode(&mut out, &command.return_address(&peer), version).unwrap();
    if let ReplyBody::Bytes(bytes) = &reply.body {
        out.extend_from_slice(bytes);
    }
    Some(RemotingCommand::decode(&Frame::parse(out.freeze()).unwrap()).unwrap())
}

fn broker_fields<'a>(address: &'a str, id: &'a str) -> Vec<(&'a str, &'a str)> {
    vec![
        ("brokerName", "b"),
        ("brokerAddr", address),
        ("clusterName", "c"),
        ("haServerAddr", "10.0.0.1:10912"),
        ("brokerId", id),
    ]
}

fn table(counter: i32, topics: &[&str]) -> String {
    let topics: Vec<String> = topics
        .iter()
        .map(|topic| format!(r#""{topic}":{{"topicName":"{topic}","readQueueNums":4,"writeQueueNums":4,"perm":6}}"#))
        .collect();
    format!(
        r#"{{"topicConfigSerializeWrapper":{{"dataVersion":{{"counter":{counter},"timestamp":9}},"topicConfigTable":{{{}}}}}}}"#,
        topics.join(",")
    )
}

fn register(server: &mut NameServer, seconds: u64, address: &str, id: &str, body: &str) -> RemotingCommand {
    let fields = broker_fields(address, id);
    ask(server, seconds, BROKER, Version::V5_3_3, RequestCode::REGISTER_BROKER, &fields, body).unwrap()
}

fn route(server: &mut NameServer, version: Version, topic: &str) -> Result<String, i32> {
    let fields = [("topic", topic)];
    let answer = ask(server, 0, CLIENT, version, RequestCode::GET_ROUTEINFO_BY_TOPIC, &fields, "").unwrap();
    if answer.code == 0 { Ok(String::from_utf8(answer.body.to_vec()).unwrap()) } else { Err(answer.code) }
}

#[test]
fn routes_are_written_for_the_client_that_asks() {
    let of = |compatibility, version| {
        let mut server = NameServer::new(compatibility);
        assert_eq!(register(&mut server, 0, "10.0.0.1:10911", "0", &table(1, &["t", "u"])).code, 0);
        route(&mut server, version, "t").unwrap()
    };
    let (go, java) = (Version(317), Version::V5_3_3);
    assert!(of(Compatibility::V5_3, go).contains(r#"{"brokerAddrs":{0:"10.0.0.1:10911"},"#));
    let standard = of(Compatibility::V5_3, java);
    assert!(standard.contains(
        r#"{"brokerAddrs":{"0":"10.0.0.1:10911"},"brokerName":"b","cluster":"c","enableActingMaster":false}"#
    ));
    assert!(!standard.contains(' '), "{standard}");
    let old = of(Compatibility::V4_4, java);
    assert!(old.contains("{0:") && old.contains("topicSynFlag") && !old.contains("enableActingMaster"), "{old}");
}

#[test]
fn a_request_can_ask_for_standard_json() {
    let mut server = NameServer::new(Compatibility::V4_9);
    register(&mut server, 0, "10.0.0.1:10911", "0", &table(1, &["t", "u"]));
    let fields = [("topic", "t"), ("acceptStandardJsonOnly", "true")];
    let answer = ask(&mut server, 0, CLIENT, Version(293), RequestCode::GET_ROUTEINFO_BY_TOPIC, &fields, "").unwrap();
    assert!(answer.body.windows(5).any(|window| window == br#"{"0":"#));
    let nothing = ask(&mut server, 0, CLIENT, Version(293), RequestCode::GET_ROUTEINFO_BY_TOPIC, &[], "").unwrap();
    assert!(nothing.code == 17 && nothing.remark.unwrap().contains("the topic: null"));
}

#[test]
fn silent_brokers_and_lost_connections_take_their_topics_along() {
    let mut server = NameServer::new(Compatibility::V5_3);
    register(&mut server, 0, "10.0.0.1:10911", "0", &table(1, &["t", "u"]));
    server.expire(Duration::from_secs(120));
    assert!(route(&mut server, Version::V5_3_3, "t").is_ok());
    // The same state again is a sign of life.
    let fields = broker_fields("10.0.0.1:10911", "0");
    let same = r#"{"counter":1,"timestamp":9}"#;
    let query = |server: &mut NameServer, body| {
        ask(server, 100, BROKER, Version::V5_3_3, RequestCode::QUERY_DATA_VERSION, &fields, body).unwrap()
    };
    assert_eq!(query(&mut server, same).field("changed"), Some("false"));
    assert_eq!(query(&mut server, r#"{"counter":2,"timestamp":9}"#).field("changed"), Some("true"));
    server.expire(Duration::from_secs(220));
    assert!(route(&mut server, Version::V5_3_3, "t").is_ok());
    server.expire(Duration::from_secs(221));
    assert_eq!(route(&mut server, Version::V5_3_3, "t"), Err(17));

    register(&mut server, 0, "10.0.0.1:10911", "0", &table(1, &["t", "u"]));
    server.connection_closed(CLIENT);
    assert!(route(&mut server, Version::V5_3_3, "t").is_ok());
    server.connection_closed(BROKER);
    assert_eq!(route(&mut server, Version::V5_3_3, "t"), Err(17));
}

#[test]
fn masters_bring_topics_and_slaves_learn_of_their_master() {
    let mut server = NameServer::new(Compatibility::V5_3);
    let lone = register(&mut server, 0, "10.0.0.2:10911", "1", &table(1, &["t", "u"]));
    assert_eq!(lone.field("masterAddr"), None);
    assert_eq!(route(&mut server, Version::V5_3_3, "t"), Err(17));
    register(&mut server, 0, "10.0.0.1:10911", "0", &table(1, &["t", "u"]));
    let slave = register(&mut server, 0, "10.0.0.2:10911", "1", &table(1, &["t", "u"]));
    assert_eq!(slave.field("masterAddr"), Some("10.0.0.1:10911"));
    assert_eq!(slave.field("haServerAddr"), Some("10.0.0.1:10912"));
    assert!(
        route(&mut server, Version::V5_3_3, "t").unwrap().contains(r#"{"0":"10.0.0.1:10911","1":"10.0.0.2:10911"}"#)
    );
    let fields = broker_fields("10.0.0.1:10911", "0");
    ask(&mut server, 0, BROKER, Version::V5_3_3, RequestCode::UNREGISTER_BROKER, &fields, "").unwrap();
    assert!(route(&mut server, Version::V5_3_3, "t").unwrap().contains(r#"{"1":"10.0.0.2:10911"}"#));
}

#[test]
fn a_damaged_registration_is_refused() {
    let mut server = NameServer::new(Compatibility::V5_3);
    let mut fields = broker_fields("10.0.0.1:10911", "0");
    fields.push(("bodyCrc32", "1"));
    let body = table(1, &["t", "u"]);
    let refused = ask(&mut server, 0, BROKER, Version::V5_3_3, RequestCode::REGISTER_BROKER, &fields, &body).unwrap();
    assert_eq!((refused.code, refused.remark.as_deref()), (1, Some("crc32 not match")));
    assert_eq!(register(&mut server, 0, "10.0.0.1:10911", "0", "{").code, 1);
    // An update to a registration that 5.x does not have; 4.9 takes it for one.
    let update = table(1, &["t"]);
    assert_eq!(register(&mut server, 0, "10.0.0.1:10911", "0", &update).code, 1);
    let mut old = NameServer::new(Compatibility::V4_9);
    assert_eq!(register(&mut old, 0, "10.0.0.1:10911", "0", &update).code, 0);
}

#[test]
fn unknown_codes_are_answered_since_5() {
    for (compatibility, answered) in
        [(Compatibility::V4_4, false), (Compatibility::V4_9, false), (Compatibility::V5_3, true)]
    {
        let mut server = NameServer::new(compatibility);
        let answer = ask(&mut server, 0, CLIENT, Version::V5_3_3, RequestCode(9999), &[], "");
        assert_eq!(answer.map(|answer| answer.code), answered.then_some(3));
    }
}

#[test]
fn brokers_of_5_renew_by_heartbeats_and_ask_who_is_in_their_group() {
    let mut server = NameServer::new(Compatibility::V5_3);
    register(&mut server, 0, "10.0.0.1:10911", "0", &table(1, &["t", "u"]));
    register(&mut server, 0, "10.0.0.2:10911", "1", &table(1, &["t", "u"]));
    let group = [("clusterName", "c"), ("brokerName", "b")];
    let ask_group = |server: &mut NameServer| {
        let code = RequestCode::GET_BROKER_MEMBER_GROUP;
        let answer = ask(server, 0, BROKER, Version::V5_3_3, code, &group, "").unwrap();
        String::from_utf8(answer.body.to_vec()).unwrap()
    };
    let both = r#"{"brokerMemberGroup":{"brokerAddrs":{0:"10.0.0.1:10911",1:"10.0.0.2:10911"},"brokerName":"b","cluster":"c"}}"#;
    assert_eq!(ask_group(&mut server), both);
    let fields = [("clusterName", "c"), ("brokerName", "b"), ("brokerAddr", "10.0.0.1:10911")];
    let renewed = ask(&mut server, 100, BROKER, Version::V5_3_3, RequestCode::BROKER_HEARTBEAT, &fields, "").unwrap();
    assert_eq!(renewed.code, 0);
    server.expire(Duration::from_secs(150));
    assert!(ask_group(&mut server).contains(r#"{0:"10.0.0.1:10911"}"#), "the slave was silent");
    let mut old = NameServer::new(Compatibility::V4_9);
    assert!(ask(&mut old, 0, BROKER, Version::V5_3_3, RequestCode::BROKER_HEARTBEAT, &fields, "").is_none());
}

#[test]
fn a_topic_can_be_entered_for_brokers_that_are_known() {
    let mut server = NameServer::new(Compatibility::V5_3);
    register(&mut server, 0, "10.0.0.1:10911", "0", &table(1, &["t", "u"]));
    let body = r#"{"queueDatas":[{"brokerName":"b","perm":6,"readQueueNums":2,"writeQueueNums":2},{"brokerName":"x","perm":6}]}"#;
    let code = RequestCode::REGISTER_TOPIC_IN_NAMESRV;
    assert_eq!(ask(&mut server, 0, CLIENT, Version::V5_3_3, code, &[("topic", "new")], body).unwrap().code, 0);
    let found = route(&mut server, Version::V5_3_3, "new").unwrap();
    assert!(found.contains(r#""brokerName":"b""#) && !found.contains(r#""brokerName":"x""#), "{found}");
}

#[test]
fn a_replaced_master_does_not_come_back() {
    let mut server = NameServer::new(Compatibility::V5_3);
    let of_term =
        |term: i32| table(1, &["t", "u"]).replace("\"counter\"", &format!("\"stateVersion\":{term},\"counter\""));
    assert_eq!(register(&mut server, 0, "10.0.0.1:10911", "0", &of_term(1)).code, 0);
    assert_eq!(register(&mut server, 0, "10.0.0.2:10911", "0", &of_term(2)).code, 0);
    let late = register(&mut server, 0, "10.0.0.1:10911", "0", &of_term(1));
    assert_eq!((late.code, late.remark.as_deref()), (1, Some("register broker failed")));
}
