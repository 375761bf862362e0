//! Requests and answers when all goes well.

use rocketmq_wire::header::{EncodeFields, FieldWriter, NoFields};
use rocketmq_wire::request::Request;
use rocketmq_wire::request::group::UnregisterClientRequest;
use rocketmq_wire::{RequestCode, ResponseCode};

use super::*;

#[tokio::test]
async fn an_answer_finds_its_call() {
    let mut f = fixture(1 << 16, &ConnectionOptions::default());
    let body = Bytes::from_static(b"hello");
    let (offset, ()) = tokio::join!(send(&f.connection, &f.env, &body), async {
        let request = f.script.request().await;
        assert_eq!((request.code, request.flag, request.language), (310, 0, LanguageCode::RUST));
        assert_eq!((request.version, request.serialize_type), (Version::V5_3_3, SerializeType::Json));
        assert_eq!(request.field("b"), Some("topic"));
        assert_eq!(&request.body[..], b"hello");
        f.script.send(&stored(&request, 77)).await;
    });
    assert_eq!(offset.expect("answered"), 77);
    assert_clean(&f.connection);
    assert_eq!(f.connection.peer_version(), Some(Version::V5_3_3));
}

#[tokio::test]
async fn answers_may_come_in_any_order() {
    let mut f = fixture(1 << 16, &ConnectionOptions::default());
    let tasks: Vec<_> = (0..100).map(|_| f.spawn_send()).collect();
    let mut requests = Vec::new();
    for _ in 0..100 {
        requests.push(f.script.request().await);
    }
    for request in requests.iter().rev() {
        f.script.send(&stored(request, request.opaque.into())).await;
    }
    let mut offsets = Vec::new();
    for task in tasks {
        offsets.push(task.await.expect("not cancelled").expect("answered"));
    }
    // Slots are used in order, and the callers ran in order.
    assert_eq!(offsets, (0..100).collect::<Vec<_>>());
    assert_clean(&f.connection);
}

#[tokio::test]
async fn callers_at_the_same_time_share_a_write_and_one_alone_does_not_wait() {
    let mut f = fixture(1 << 20, &ConnectionOptions::default());
    let tasks: Vec<_> = (0..32).map(|_| f.spawn_send()).collect();
    settle().await;
    // The first was alone, the others let each other in.
    assert_eq!(f.connection.stats().writes, 2);
    f.script.answer(32).await;
    for task in tasks {
        task.await.expect("not cancelled").expect("answered");
    }
    let mut call = Box::pin(send(&f.connection, &f.env, &EMPTY));
    assert!(futures_util::poll!(&mut call).is_pending());
    assert_eq!(f.connection.stats().writes, 3, "written by the first poll");
}

#[tokio::test]
async fn frames_are_the_same_through_a_one_byte_pipe() {
    let (mut wide, mut narrow) =
        (fixture(1 << 20, &ConnectionOptions::default()), fixture(1, &ConnectionOptions::default()));
    let body = Bytes::from(vec![0xAB; 300]);
    let mut frames = Vec::new();
    for f in [&mut wide, &mut narrow] {
        let (sent, requests) = tokio::join!(
            async { tokio::join!(send(&f.connection, &f.env, &body), send(&f.connection, &f.env, &body)) },
            async {
                let mut requests = Vec::new();
                for offset in 0..2 {
                    let request = f.script.request().await;
                    f.script.send(&stored(&request, offset)).await;
                    requests.push(request);
                }
                requests
            }
        );
        assert_eq!((sent.0.expect("answered"), sent.1.expect("answered")), (0, 1));
        assert_clean(&f.connection);
        frames.push(requests);
    }
    assert_eq!(frames[0], frames[1]);
}

#[tokio::test]
async fn large_bodies_arrive_whole_between_small_ones() {
    for (buffer, longest) in [(1 << 16, 5 << 20), (7, 40 << 10)] {
        let mut f = fixture(buffer, &ConnectionOptions::default());
        let lengths = [10, longest, 0, 32 << 10, (32 << 10) - 1, 100 << 10, 1].map(|length: usize| length.min(longest));
        let bodies = lengths.map(|length| (0..length).map(|at| (at * 7 + length) as u8).collect::<Vec<_>>());
        let tasks: Vec<_> = bodies
            .iter()
            .map(|body| {
                let (connection, env, body) = (f.connection.clone(), f.env.clone(), Bytes::copy_from_slice(body));
                f.env.spawn(async move { send(&connection, &env, &body).await })
            })
            .collect();
        for body in &bodies {
            let request = f.script.request().await;
            assert!(request.body == body, "{} bytes", body.len());
            f.script.send(&stored(&request, 0)).await;
        }
        for task in tasks {
            task.await.expect("not cancelled").expect("answered");
        }
        assert_clean(&f.connection);
    }
}

#[tokio::test]
async fn a_large_answer_arrives_whole() {
    for buffer in [1 << 20, 4096] {
        let mut f = fixture(buffer, &ConnectionOptions::default());
        let body: Vec<u8> = (0..3 << 20).map(|at: usize| (at / 3) as u8).collect();
        let (response, ()) = tokio::join!(f.connection.call(&*REQUEST, &EMPTY, f.deadline()), async {
            let request = f.script.request().await;
            f.script.send(&RemotingCommand { body: body.clone().into(), ..stored(&request, 0) }).await;
        });
        assert!(response.expect("answered").body() == &body);
    }
}

#[tokio::test]
async fn headers_become_binary_when_the_server_is_known_to_read_them() {
    for (version, then) in [(Version::V4_4_0, SerializeType::Binary), (Version(292), SerializeType::Json)] {
        let mut f = fixture(1 << 16, &ConnectionOptions::default());
        for expected in [SerializeType::Json, then] {
            let (offset, ()) = tokio::join!(send(&f.connection, &f.env, &EMPTY), async {
                let request = f.script.request().await;
                assert_eq!(request.serialize_type, expected);
                let answer = stored(&request, 5);
                f.script.send(&RemotingCommand { version, serialize_type: SerializeType::Json, ..answer }).await;
            });
            assert_eq!(offset.expect("answered"), 5);
        }
        // Servers before 4.9.4 do not know the name of this language.
        let call = f.spawn_send();
        assert_eq!(f.script.request().await.language, LanguageCode::OTHER);
        drop(call);
    }
}

#[tokio::test]
async fn the_header_type_can_be_set() {
    for (header_type, expected) in
        [(HeaderType::Json, SerializeType::Json), (HeaderType::Binary, SerializeType::Binary)]
    {
        let mut f = fixture(1 << 16, &ConnectionOptions { header_type, ..ConnectionOptions::default() });
        for _ in 0..2 {
            let (offset, request) = tokio::join!(send(&f.connection, &f.env, &EMPTY), async {
                let request = f.script.request().await;
                f.script.send(&stored(&request, 5)).await;
                request
            });
            assert_eq!(request.serialize_type, expected);
            assert_eq!(offset.expect("answered"), 5);
        }
    }
}

/// A request whose code the binary header cannot carry.
struct Pop;

impl EncodeFields for Pop {
    fn encode_fields<W: FieldWriter>(&self, writer: &mut W) {
        writer.text("topic", "topic");
    }
}

impl Request for Pop {
    const CODE: RequestCode = RequestCode::POP_MESSAGE;
    type Response<'a> = NoFields;
}

#[tokio::test]
async fn codes_above_16_bits_stay_json() {
    let options = ConnectionOptions { header_type: HeaderType::Binary, ..ConnectionOptions::default() };
    let mut f = fixture(1 << 16, &options);
    let (response, ()) = tokio::join!(f.connection.call(&Pop, &EMPTY, f.deadline()), async {
        let request = f.script.request().await;
        assert_eq!((request.code, request.serialize_type), (200_050, SerializeType::Json));
        let refusal = RemotingCommand { code: 209, remark: Some("polling full".into()), ..stored(&request, 0) };
        f.script.send(&refusal).await;
    });
    let response = response.expect("answered");
    assert_eq!(response.code(), ResponseCode::POLLING_FULL);
    let error = response.success().expect_err("a refusal");
    assert_eq!((error.kind(), error.response_code(), error.broker()), (ErrorKind::Busy, Some(209), Some(ADDRESS)));
    assert_eq!(error.outcome(), Outcome::Refused);
    assert!(error.to_string().contains("polling full"), "{error}");
}

#[tokio::test]
async fn one_way_requests_are_marked_and_not_awaited() {
    let mut f = fixture(1 << 16, &ConnectionOptions::default());
    let request = UnregisterClientRequest {
        client_id: "client".into(),
        producer_group: Some("group".into()),
        ..Default::default()
    };
    f.connection.call_one_way(&request, &EMPTY, f.deadline()).await.expect("handed over");
    let request = f.script.request().await;
    assert_eq!((request.code, request.flag), (35, 2));
    assert_eq!(request.field("clientID"), Some("client"));
    // Should it be answered all the same, the answer has no owner.
    f.script.send(&stored(&request, 0)).await;
    settle().await;
    assert_eq!(f.connection.stats().unexpected_answers, 1);
    assert_clean(&f.connection);
}
