//! The control API, as a program in another language uses it.

mod support;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use rocketmq_mock_broker::MockBroker;
use rocketmq_wire::RequestCode;
use serde_json::{Value, json};
use support::{Peer, heartbeat, send_fields};

const START: i64 = 1_700_000_000_000;

fn broker() -> MockBroker {
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    MockBroker::builder().topic("orders", 2).manual_time_at(START).console(any).start_blocking().unwrap()
}

/// Sends bytes and reads all that is answered.
fn raw(address: SocketAddr, request: &[u8]) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(150))).unwrap();
    stream.write_all(request).unwrap();
    let mut answer = Vec::new();
    // A server that has closed its side for reading may reset the connection.
    let _ = stream.read_to_end(&mut answer);
    String::from_utf8_lossy(&answer).into_owned()
}

fn ask_with(broker: &MockBroker, method: &str, path: &str, body: &str, headers: &str) -> (u16, String) {
    let address = broker.console_address().expect("there is a console");
    let request = format!(
        "{method} {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n{headers}content-length: {}\r\n\r\n{body}",
        body.len()
    );
    let answer = raw(address, request.as_bytes());
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no answer: {answer:?}"));
    (head[9..12].parse().unwrap(), body.to_owned())
}

fn ask(broker: &MockBroker, method: &str, path: &str, body: Value) -> (u16, Value) {
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let (status, text) = ask_with(broker, method, path, &body, "");
    let value = if text.is_empty() { Value::Null } else { serde_json::from_str(&text).unwrap() };
    (status, value)
}

fn get(broker: &MockBroker, path: &str) -> Value {
    let (status, value) = ask(broker, "GET", path, Value::Null);
    assert_eq!(status, 200, "{path}: {value}");
    value
}

#[test]
fn messages_are_put_waited_for_found_and_followed() {
    let broker = broker();
    let message = json!({"topic": "orders", "body": "hi", "tag": "created", "keys": ["k-1"], "queue": 1});
    assert_eq!(ask(&broker, "POST", "/v1/messages", message).0, 201);
    let bytes = json!({"topic": "orders", "body": {"base64": "/wA="}, "properties": {"UNIQ_KEY": "AB CD"}});
    assert_eq!(ask(&broker, "POST", "/v1/messages", bytes).0, 201);
    assert_eq!(ask(&broker, "POST", "/v1/messages/wait", json!({"topic": "orders", "count": 2})).1["count"], 2);
    let (status, unmet) =
        ask(&broker, "POST", "/v1/messages/wait", json!({"topic": "orders", "count": 3, "timeout_ms": 1}));
    assert_eq!((status, unmet["error"].as_str()), (408, Some("expected 3 messages in `orders`, saw 2")));
    for (query, count) in
        [("", 2), ("&key=k-1", 1), ("&tag=created", 1), ("&text=h", 1), ("&id=AB+CD", 1), ("&key=no", 0)]
    {
        let found = get(&broker, &format!("/v1/messages?topic=orders{query}"));
        assert_eq!(found.as_array().unwrap().len(), count, "{query}: {found}");
    }
    let from = get(&broker, "/v1/messages?topic=orders&queue=1&offset=0&limit=1");
    assert_eq!((from[0]["body"].as_str(), from[0]["keys"][0].as_str()), (Some("hi"), Some("k-1")));
    let id = from[0]["message_id"].as_str().unwrap();
    let way = get(&broker, &format!("/v1/messages/way?topic=orders&id={id}"));
    assert_eq!((way[0]["step"].as_str(), way[1]["step"].as_str()), (Some("sent"), Some("stored")));
    let topics = get(&broker, "/v1/topics");
    assert!(topics.as_array().unwrap().iter().any(|topic| topic["topic"] == "orders" && topic["messages"] == 2));
    assert_eq!(ask(&broker, "POST", "/v1/topics", json!({"topic": "made", "queues": 3})).0, 201);
    assert_eq!(ask(&broker, "POST", "/v1/topics", json!({"topic": "a b"})).0, 400);
    assert_eq!(broker.topics().iter().find(|topic| topic.topic == "made").unwrap().write_queues, 3);
}

#[test]
fn the_clock_is_turned() {
    let broker = broker();
    ask(&broker, "POST", "/v1/messages", json!({"topic": "orders", "body": "later", "delay_level": 18}));
    assert_eq!(get(&broker, "/v1/delayed")[0]["due_ms"], START + 7_200_000);
    let clock = ask(&broker, "POST", "/v1/clock/advance", json!({"ms": 7_200_000})).1;
    assert_eq!((clock["message_ms"].as_i64(), clock["manual"].as_bool()), (Some(START + 7_200_000), Some(true)));
    assert_eq!(broker.messages("orders").len(), 1);
    let set = ask(&broker, "POST", "/v1/clock/set", json!({"message_ms": START + 9_000_000})).1;
    assert_eq!(set["message_ms"], START + 9_000_000);
    assert_eq!(ask(&broker, "POST", "/v1/clock/freeze", json!({"frozen": false})).1["manual"], false);
    assert_eq!(ask(&broker, "POST", "/v1/clock/skip", json!({"skip": true})).1["skipping"], true);
    assert_eq!(ask(&broker, "POST", "/v1/clock/advance_sessions", json!({"ms": 1})).0, 200);
    assert_eq!(ask(&broker, "POST", "/v1/clock/advance", json!({"minutes": 1})).0, 400);
}

/// The lines that a reader copies are understood, and do what is said of them.
#[test]
fn the_lines_of_the_readme_work() {
    let broker = broker();
    let readme = include_str!("../../README.md");
    let lines: Vec<_> = readme.lines().filter_map(|line| line.strip_prefix("curl -X POST localhost:8088")).collect();
    assert_eq!(lines.len(), 3, "{lines:?}");
    let mut peer = Peer::connect(broker.broker_address());
    for line in lines {
        let (path, body) = line.split_once(" -d ").expect("a body");
        if path.ends_with("/journal/wait") {
            let codes =
                [(); 3].map(|()| peer.request(RequestCode::SEND_MESSAGE_V2, &send_fields("orders", "0", ""), "x").code);
            assert_eq!(codes, [2, 2, 0]);
        }
        let (status, answer) = ask_with(&broker, "POST", path, body.trim_matches('\''), "");
        assert!((200..300).contains(&status), "{line}: {status} {answer}");
    }
    assert_eq!(get(&broker, "/v1/clock")["message_ms"], START + 7_200_000);
}

#[test]
fn faults_and_journal_are_reached() {
    let broker = broker();
    let fault = json!({"on": {"request": "send"}, "times": 1, "do": {"answer": {"code": 2, "remark": "busy"}}});
    let (status, put) = ask(&broker, "POST", "/v1/faults", fault);
    assert_eq!((status, put["id"].as_u64(), put["left"].as_u64()), (201, Some(1), Some(1)));
    let mut peer = Peer::connect(broker.broker_address());
    assert_eq!(peer.request(RequestCode::SEND_MESSAGE_V2, &send_fields("orders", "0", ""), "x").code, 2);
    assert_eq!(get(&broker, "/v1/faults")[0]["hits"], 1);
    let (status, wrong) = ask(&broker, "POST", "/v1/faults", json!({"on": {"topc": "x"}, "do": "close"}));
    assert!(status == 400 && wrong["error"].as_str().unwrap().contains("topc"), "{wrong}");
    assert_eq!(ask(&broker, "DELETE", "/v1/faults/1", Value::Null).0, 204);
    assert_eq!(ask(&broker, "DELETE", "/v1/faults/1", Value::Null).0, 404);

    let waited = ask(&broker, "POST", "/v1/journal/wait", json!({"on": {"request": "send", "topic": "orders"}})).1;
    assert_eq!((waited[0]["response"].as_i64(), waited[0]["fault"].as_i64()), (Some(2), Some(1)));
    let unmet = ask(&broker, "POST", "/v1/journal/wait", json!({"on": {"topic": "none"}, "timeout_ms": 1}));
    assert!(unmet.0 == 408 && unmet.1["error"].as_str().unwrap().contains("topic is `orders`, not `none`"));
    assert_eq!(get(&broker, "/v1/journal?kind=answer&request=310")[0]["remark"], "busy");
    assert_eq!(get(&broker, "/v1/journal?after=2").as_array().unwrap().len(), 0);
    assert_eq!(ask(&broker, "GET", "/v1/journal?requst=send", Value::Null).0, 400);
    assert_eq!(ask(&broker, "DELETE", "/v1/journal", Value::Null).0, 204);
    assert!(broker.journal().is_empty());
}

#[test]
fn groups_half_messages_and_dead_letters_are_shown() {
    let broker = broker();
    let mut peer = Peer::connect(broker.broker_address());
    peer.request(RequestCode::HEART_BEAT, &[], heartbeat("c@1", "billing", "orders", "*", 1));
    let commit = [("consumerGroup", "billing"), ("topic", "orders"), ("queueId", "0"), ("commitOffset", "0")];
    peer.request(RequestCode::UPDATE_CONSUMER_OFFSET, &commit, "");
    let wait = json!({"group": "billing", "topic": "orders", "count": 0});
    assert_eq!(ask(&broker, "POST", "/v1/groups/wait", wait).0, 200);
    let group = get(&broker, "/v1/groups?group=billing");
    assert_eq!((group[0]["members"][0]["client"].as_str(), group[0]["lag"].as_i64()), (Some("c@1"), Some(0)));
    assert_eq!(get(&broker, "/v1/half"), json!([]));
    let dead = json!({"topic": "%DLQ%billing", "body": "dead", "keys": ["d"], "properties": {"own": "1"}});
    ask(&broker, "POST", "/v1/messages", dead);
    assert_eq!(get(&broker, "/v1/dead_letters?group=billing")[0]["body"], "dead");
    assert_eq!(get(&broker, "/v1/dead_letters").as_array().unwrap().len(), 1);
    assert_eq!(ask(&broker, "POST", "/v1/dead_letters/replay", json!({"group": "billing"})).1["replayed"], 1);
    let again = get(&broker, "/v1/messages?topic=%25RETRY%25billing");
    assert_eq!((again[0]["keys"][0].as_str(), again[0]["properties"]["own"].as_str()), (Some("d"), Some("1")));
}

#[test]
fn the_broker_is_stopped_started_and_emptied() {
    let broker = broker();
    let status = get(&broker, "/v1/status");
    assert_eq!(status["broker"], broker.broker_address());
    assert_eq!(
        (status["name_server"].as_str(), status["compatibility"].as_str()),
        (Some(broker.name_server()), Some("5.3"))
    );
    ask(&broker, "POST", "/v1/messages", json!({"topic": "orders", "body": "kept"}));
    assert_eq!(ask(&broker, "POST", "/v1/broker/stop", Value::Null).0, 204);
    assert!(TcpStream::connect(broker.broker_address()).is_err());
    let (status, stopped) = ask(&broker, "GET", "/v1/topics", Value::Null);
    assert!(status == 503 && stopped["error"].as_str().unwrap().contains("/v1/broker/start"));
    assert_eq!(ask(&broker, "POST", "/v1/reset", Value::Null).0, 503);
    assert_eq!(ask(&broker, "POST", "/v1/broker/start", Value::Null).0, 204);
    assert_eq!(broker.messages("orders").len(), 1);
    ask(&broker, "POST", "/v1/faults", json!({"do": "close"}));
    assert_eq!(ask(&broker, "POST", "/v1/reset", Value::Null).0, 204);
    assert!(broker.messages("orders").is_empty() && broker.faults().is_empty() && broker.journal().is_empty());
    let mut peer = Peer::connect(broker.broker_address());
    assert_eq!(peer.request(RequestCode::SEND_MESSAGE_V2, &send_fields("orders", "0", ""), "x").code, 0);

    let directory = tempfile::tempdir().unwrap();
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    let on_disk = MockBroker::builder().store_directory(directory.path()).console(any).start_blocking().unwrap();
    assert_eq!(ask(&on_disk, "POST", "/v1/reset", Value::Null).0, 409);
}

#[test]
fn the_page_is_served_with_a_policy_that_runs_nothing_else() {
    let broker = broker();
    let address = broker.console_address().unwrap();
    let page = raw(address, format!("GET / HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n").as_bytes());
    assert!(page.starts_with("HTTP/1.1 200") && page.contains("content-security-policy: default-src 'none'"), "{page}");
    assert!(!page.contains("http://") && !page.contains("https://"), "the page has everything from the broker");
    for (path, kind) in
        [("/console.js", "text/javascript"), ("/console.css", "text/css"), ("/icon.svg", "image/svg+xml")]
    {
        let asset =
            raw(address, format!("GET {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n").as_bytes());
        assert!(asset.starts_with("HTTP/1.1 200") && asset.contains(kind), "{path}");
    }
    assert_eq!(get(&broker, "/openapi.json")["openapi"], "3.1.0");
}

#[test]
fn other_sites_and_those_without_the_token_are_kept_out() {
    let broker = broker();
    assert_eq!(ask_with(&broker, "POST", "/v1/reset", "", "origin: http://evil.example\r\n").0, 403);
    let address = broker.console_address().unwrap();
    let rebound = raw(address, b"GET /v1/status HTTP/1.1\r\nhost: evil.example\r\nconnection: close\r\n\r\n");
    assert!(rebound.starts_with("HTTP/1.1 403"), "{rebound}");

    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    let guarded = MockBroker::builder().console(any).console_token("secret").start_blocking().unwrap();
    let status = |headers: &str| ask_with(&guarded, "GET", "/v1/status", "", headers).0;
    assert_eq!(status(""), 401);
    assert_eq!(status("authorization: Bearer secres\r\n"), 401);
    assert_eq!(status("authorization: Bearer secret2\r\n"), 401);
    assert_eq!(status("authorization: Bearer secret\r\n"), 200);
    let everywhere = SocketAddr::from(([0, 0, 0, 0], 0));
    let refused = MockBroker::builder().console(everywhere).start_blocking().unwrap_err();
    assert!(refused.is_argument() && refused.to_string().contains("token"), "{refused}");
}

#[test]
fn garbage_slowness_and_size_leave_it_serving() {
    let broker = broker();
    let address = broker.console_address().unwrap();
    for garbage in [
        &b"\x16\x03\x01\x02\x00\x01\x00\x01"[..],
        b"\x00\x00\x01\x10\x00\x00\x00\x20{}",
        b"GET\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"POST /v1/messages HTTP/1.1\r\ncontent-length: -1\r\n\r\n",
        b"POST /v1/messages HTTP/1.1\r\ncontent-length: 5\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
    ] {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(garbage).unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        let text = String::from_utf8_lossy(&answer);
        assert!(answer.is_empty() || text.starts_with("HTTP/1.1 4"), "{text}");
    }
    for path in [
        "/../../etc/passwd",
        "/%2e%2e/%2e%2e/etc/passwd",
        "/v1/../../x",
        "/v1/faults/%00",
        "//",
        "/console.js/../api.rs",
    ] {
        let (status, _) = ask_with(&broker, "GET", path, "", "");
        assert!([400, 404].contains(&status), "{path}: {status}");
    }
    let long = "x".repeat(200_000);
    let answer = raw(address, format!("GET /{long} HTTP/1.1\r\nhost: localhost\r\n\r\n").as_bytes());
    assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 4"), "{answer}");
    for body in ["{", "[]", "null", "\u{0}", "{\"ms\":-1}", "{\"ms\":1e999}", &"[".repeat(100_000)] {
        assert_eq!(ask_with(&broker, "POST", "/v1/clock/advance", body, "").0, 400, "{}", body.len());
    }
    // Connections that say nothing do not keep others out.
    let silent: Vec<TcpStream> = (0..50).map(|_| TcpStream::connect(address).unwrap()).collect();
    assert_eq!(get(&broker, "/v1/status")["connections"], 0);
    drop(silent);
}
