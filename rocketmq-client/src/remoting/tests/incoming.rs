//! Requests from the server.

use rocketmq_wire::request::group::NotifyConsumerIdsChangedRequest;
use rocketmq_wire::{RequestCode, ResponseCode};
use tokio::sync::mpsc;

use super::*;

struct WithInbox {
    env: Env,
    connection: Connection,
    _driver: Task<Error>,
    script: Script,
    requests: mpsc::Receiver<Incoming>,
}

/// With room for so many requests in the receiver's channel and so many bytes in the pipe.
fn with_inbox(room: usize, buffer: usize) -> WithInbox {
    let (env, _) = Env::manual(1, Arc::new(MemoryNetwork::default())).expect("inside a runtime");
    let (ours, theirs) = tokio::io::duplex(buffer);
    let (sender, requests) = mpsc::channel(room);
    let options = ConnectionOptions::default();
    let (connection, driver) = Connection::open(ADDRESS, Stream::Memory(ours), &env, &options, Some(sender));
    let driver = env.spawn(driver);
    WithInbox { env, connection, _driver: driver, script: Script::new(theirs), requests }
}

fn request(code: RequestCode, opaque: i32, flag: i32) -> RemotingCommand {
    RemotingCommand {
        serialize_type: SerializeType::Binary,
        code: code.0,
        language: LanguageCode::JAVA,
        version: Version::V5_3_3,
        opaque,
        flag,
        remark: None,
        fields: Some(vec![("consumerGroup".into(), "group".into())]),
        body: Bytes::from_static(b"body"),
    }
}

#[tokio::test]
async fn a_notification_is_handed_on_and_not_answered() {
    let mut w = with_inbox(8, 1 << 20);
    w.script.send(&request(RequestCode::NOTIFY_CONSUMER_IDS_CHANGED, 7, 2)).await;
    let incoming = w.requests.recv().await.expect("open");
    assert_eq!((incoming.code(), incoming.is_one_way()), (RequestCode::NOTIFY_CONSUMER_IDS_CHANGED, true));
    assert_eq!(&**incoming.broker(), ADDRESS);
    let notification: NotifyConsumerIdsChangedRequest<'_> = incoming.decode().expect("well-formed");
    assert_eq!(notification.consumer_group, "group");
    assert_eq!(&incoming.body()[..], b"body");
    drop(incoming);
    // The next thing on the stream is an answer to something else.
    w.script.send(&request(RequestCode(9999), 8, 0)).await;
    assert_eq!(w.script.request().await.opaque, 8);
}

#[tokio::test]
async fn requests_are_answered_in_their_own_header_type() {
    let mut w = with_inbox(8, 1 << 20);
    for serialize_type in [SerializeType::Binary, SerializeType::Json] {
        let command = request(RequestCode::GET_CONSUMER_RUNNING_INFO, -9, 0);
        w.script.send(&RemotingCommand { serialize_type, ..command }).await;
        let incoming = w.requests.recv().await.expect("open");
        let body = Bytes::from_static(b"{}");
        incoming.respond(ResponseCode::SUCCESS, None, &*REQUEST, &body).expect("fits a frame");
        let answer = w.script.request().await;
        assert_eq!((answer.opaque, answer.flag, answer.code), (-9, 1, 0));
        assert_eq!((answer.serialize_type, answer.remark.as_deref()), (serialize_type, None));
        assert_eq!((answer.field("b"), &answer.body), (Some("topic"), &body));
    }
}

#[tokio::test]
async fn what_is_not_served_or_not_handled_is_answered_all_the_same() {
    let mut w = with_inbox(8, 1 << 20);
    w.script.send(&request(RequestCode(9999), 1, 0)).await;
    let answer = w.script.request().await;
    assert_eq!((answer.opaque, answer.code), (1, ResponseCode::REQUEST_CODE_NOT_SUPPORTED.0));
    assert!(answer.remark.is_some());

    w.script.send(&request(RequestCode::CONSUME_MESSAGE_DIRECTLY, 2, 0)).await;
    drop(w.requests.recv().await.expect("open"));
    let answer = w.script.request().await;
    assert_eq!((answer.opaque, answer.code), (2, ResponseCode::SYSTEM_ERROR.0));

    drop(w.requests);
    w.script.send(&request(RequestCode(9999), 3, 2)).await;
    w.script.send(&request(RequestCode::CONSUME_MESSAGE_DIRECTLY, 4, 0)).await;
    let answer = w.script.request().await;
    assert_eq!((answer.opaque, answer.code), (4, ResponseCode::REQUEST_CODE_NOT_SUPPORTED.0));
}

#[tokio::test]
async fn a_receiver_that_does_not_keep_up_holds_no_answer_back_and_loses_nothing() {
    let mut w = with_inbox(2, 1 << 10);
    let notification = |number: usize| {
        let fields = Some(vec![("consumerGroup".into(), number.to_string())]);
        RemotingCommand { fields, ..request(RequestCode::NOTIFY_CONSUMER_IDS_CHANGED, 0, 2) }
    };
    for number in 0..1000 {
        w.script.send(&notification(number)).await;
    }
    let (sent, ()) = tokio::join!(send(&w.connection, &w.env, &EMPTY), w.script.answer(1));
    sent.expect("answered");
    // With more, reading stops; it goes on as requests are taken, and none is missing.
    let mut more = Box::pin(async {
        for number in 1000..2000 {
            w.script.send(&notification(number)).await;
        }
    });
    for _ in 0..2000 {
        assert!(futures_util::poll!(&mut more).is_pending());
        tokio::task::yield_now().await;
    }
    let take = async {
        for number in 0..2000 {
            let incoming = w.requests.recv().await.expect("open");
            let notification: NotifyConsumerIdsChangedRequest<'_> = incoming.decode().expect("well-formed");
            assert_eq!(notification.consumer_group, number.to_string());
        }
    };
    tokio::join!(&mut more, take);
    drop(more);
    let (sent, ()) = tokio::join!(send(&w.connection, &w.env, &EMPTY), w.script.answer(1));
    sent.expect("answered");
}

#[tokio::test]
async fn requests_beyond_the_backlog_are_told_that_the_client_is_busy() {
    let mut w = with_inbox(1, 1 << 20);
    for opaque in 0..1026 {
        w.script.send(&request(RequestCode::GET_CONSUMER_RUNNING_INFO, opaque, 0)).await;
    }
    // One in the channel, 1,024 kept, one refused.
    let answer = w.script.request().await;
    assert_eq!((answer.opaque, answer.code), (1025, ResponseCode::SYSTEM_BUSY.0));
    let (sent, ()) = tokio::join!(send(&w.connection, &w.env, &EMPTY), w.script.answer(1));
    sent.expect("answered");
}
