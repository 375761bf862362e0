//! Peers that misbehave, are slow, or go away.

use super::*;

/// What peers have been seen to send instead of frames.
fn garbage() -> Vec<(&'static str, Vec<u8>)> {
    let frame =
        |length: u32, word: u32, rest: &[u8]| [&length.to_be_bytes()[..], &word.to_be_bytes()[..], rest].concat();
    vec![
        ("HTTP", b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec()),
        ("the largest length", vec![0x7f, 0xff, 0xff, 0xff]),
        ("a negative length", vec![0xff; 4]),
        ("zero length", vec![0; 4]),
        ("one more than the limit", frame((16 << 20) - 3, 0, &[])),
        ("a header longer than its frame", frame(8, 100, b"{}{}")),
        ("an unknown serialize type", frame(8, 7 << 24, b"{}{}")),
        ("broken JSON", frame(6, 2, b"{]")),
        ("a header without a code", frame(6, 2, b"{}")),
        ("a broken binary header", frame(8, 1 << 24 | 4, &[0, 0, 0, 0])),
    ]
}

#[tokio::test]
async fn garbage_fails_everything_on_the_one_connection_with_one_cause() {
    for (what, bytes) in garbage() {
        let mut f = fixture(1 << 16, &ConnectionOptions::default());
        let calls = [f.spawn_send(), f.spawn_send(), f.spawn_send()];
        let answered = f.script.request().await;
        f.script.request().await;
        f.script.request().await;
        // What came before the damage is good.
        f.script.send(&stored(&answered, 8)).await;
        f.script.write(&bytes).await;
        let mut results = Vec::new();
        for call in calls {
            results.push(call.await.expect("not cancelled"));
        }
        assert_eq!(*results[0].as_ref().expect("answered before"), 8, "{what}");
        for result in &results[1..] {
            let error = result.as_ref().expect_err(what);
            assert_eq!((error.kind(), error.outcome()), (ErrorKind::Protocol, Outcome::Unknown), "{what}");
            assert_eq!(error.broker(), Some(ADDRESS));
        }
        let later = f.connection.call(&*REQUEST, &EMPTY, f.deadline()).await.expect_err(what);
        assert_eq!((later.kind(), later.outcome()), (ErrorKind::Protocol, Outcome::NotSent));
        assert_eq!(later.to_string(), results[2].as_ref().expect_err(what).to_string());
        assert_eq!(f.driver.await.expect("not cancelled").kind(), ErrorKind::Protocol);
        assert_clean(&f.connection);
    }
}

#[tokio::test]
async fn an_announced_length_reserves_no_memory() {
    let f = fixture(1 << 16, &ConnectionOptions::default());
    let mut f = f;
    f.script.write(&(15u32 << 20).to_be_bytes()).await;
    f.script.write(&[0; 100]).await;
    settle().await;
    assert!(f.connection.lost().is_none());
    // The driver's buffer is private to it; that the frame is still awaited shows that nothing was decided too early.
    drop(f.script);
    let error = f.driver.await.expect("not cancelled");
    assert_eq!(error.kind(), ErrorKind::Connection);
}

#[tokio::test]
async fn a_connection_cut_at_any_byte_of_an_answer_fails_its_calls_at_once() {
    let answer = {
        let mut f = fixture(1 << 16, &ConnectionOptions::default());
        let _call = f.spawn_send();
        stored(&f.script.request().await, 1).to_bytes().expect("fits a frame")
    };
    for cut in 0..=answer.len() {
        let mut f = fixture(1 << 16, &ConnectionOptions::default());
        let call = f.spawn_send();
        f.script.frame().await;
        f.script.write(&answer[..cut]).await;
        drop(f.script);
        // Time stands still: nobody waits for a timeout.
        let result = call.await.expect("not cancelled");
        if cut == answer.len() {
            assert_eq!(result.expect("answered"), 1);
        } else {
            let error = result.expect_err("cut off");
            assert_eq!((error.kind(), error.outcome()), (ErrorKind::Connection, Outcome::Unknown));
            assert!(error.is_retriable());
        }
        assert_eq!(f.driver.await.expect("not cancelled").kind(), ErrorKind::Connection);
        assert_clean(&f.connection);
    }
}

#[tokio::test]
async fn a_request_ends_at_its_deadline_and_its_late_answer_is_dropped() {
    let mut f = fixture(1 << 16, &ConnectionOptions::default());
    let start = f.env.now();
    let slow = f.spawn_send();
    let slow_request = f.script.request().await;
    f.clock.advance(TIMEOUT - Duration::from_millis(1)).await;
    assert!(!slow.is_finished());
    f.clock.advance(Duration::from_millis(1)).await;
    let error = slow.await.expect("not cancelled").expect_err("not answered");
    assert_eq!((error.kind(), error.outcome(), error.broker()), (ErrorKind::Timeout, Outcome::Unknown, Some(ADDRESS)));
    assert_eq!(f.env.now() - start, TIMEOUT);
    // The late answer meets a new request in flight, and is not taken for its answer.
    let next = f.spawn_send();
    let next_request = f.script.request().await;
    f.script.send(&stored(&slow_request, 1)).await;
    f.script.send(&stored(&next_request, 2)).await;
    assert_eq!(next.await.expect("not cancelled").expect("answered"), 2);
    assert_eq!(f.connection.stats().unexpected_answers, 1);
    assert_clean(&f.connection);
}

#[tokio::test]
async fn deadlines_of_many_lengths_are_kept() {
    let mut f = fixture(1 << 16, &ConnectionOptions::default());
    let start = f.env.now();
    let calls: Vec<_> = [700, 30, 2000, 90, 31, 1500, 32]
        .into_iter()
        .map(|ms| {
            let (connection, env) = (f.connection.clone(), f.env.clone());
            let call = f.env.spawn(async move {
                let result = connection.call(&*REQUEST, &EMPTY, start + Duration::from_millis(ms)).await.map(drop);
                (result, (env.now() - start).as_millis() as u64)
            });
            (ms, call)
        })
        .collect();
    for _ in &calls {
        f.script.frame().await;
    }
    // Bytes of some kind, so that the peer is not taken for dead.
    for _ in 0..20 {
        f.script.send(&RemotingCommand { opaque: -1, ..stored(&noise(), 0) }).await;
        f.clock.advance(Duration::from_millis(100)).await;
    }
    for (ms, call) in calls {
        let (result, at) = call.await.expect("not cancelled");
        assert_eq!(result.expect_err("not answered").kind(), ErrorKind::Timeout);
        assert!((ms..=ms + 50).contains(&at), "{ms} ms ended after {at} ms");
    }
}

fn noise() -> RemotingCommand {
    let (code, language, version) = (0, LanguageCode::JAVA, Version(0));
    let (fields, body, remark) = (None, Bytes::new(), None);
    RemotingCommand {
        serialize_type: SerializeType::Json,
        code,
        language,
        version,
        opaque: 0,
        flag: 1,
        remark,
        fields,
        body,
    }
}

#[tokio::test]
async fn unknown_and_doubled_answers_change_nothing() {
    let mut f = fixture(1 << 16, &ConnectionOptions::default());
    for round in 0..3 {
        let call = f.spawn_send();
        let request = f.script.request().await;
        f.script.send(&RemotingCommand { opaque: request.opaque ^ 0x40_0000, ..stored(&request, -1) }).await;
        f.script.send(&RemotingCommand { opaque: i32::MIN, ..stored(&request, -1) }).await;
        f.script.send(&stored(&request, round)).await;
        f.script.send(&stored(&request, -1)).await;
        assert_eq!(call.await.expect("not cancelled").expect("answered"), round);
    }
    settle().await;
    assert_eq!(f.connection.stats().unexpected_answers, 9);
    assert_clean(&f.connection);
}

#[tokio::test]
async fn an_answer_without_its_fields_is_an_error_of_that_call_alone() {
    let mut f = fixture(1 << 16, &ConnectionOptions::default());
    for fields in [None, Some(vec![("queueId".to_owned(), "x".to_owned())])] {
        let call = f.spawn_send();
        let request = f.script.request().await;
        f.script.send(&RemotingCommand { fields, ..stored(&request, 0) }).await;
        let error = call.await.expect("not cancelled").expect_err("fields are missing");
        assert_eq!((error.kind(), error.outcome()), (ErrorKind::Protocol, Outcome::Unknown));
    }
    let call = f.spawn_send();
    f.script.answer(1).await;
    call.await.expect("not cancelled").expect("answered");
}

#[tokio::test]
async fn a_peer_that_falls_silent_is_given_up_after_two_requests() {
    let mut f = fixture(1 << 16, &ConnectionOptions::default());
    let call = f.spawn_send();
    f.script.answer(1).await;
    call.await.expect("not cancelled").expect("answered");
    // Ones with much time left, such as long polls, are failed with the connection.
    let (connection, env) = (f.connection.clone(), f.env.clone());
    let poll =
        f.env.spawn(async move { connection.call(&*REQUEST, &EMPTY, env.now() + Duration::from_secs(60)).await });
    let first = f.spawn_send();
    f.clock.advance(TIMEOUT).await;
    assert_eq!(first.await.expect("not cancelled").expect_err("silence").kind(), ErrorKind::Timeout);
    assert!(f.connection.lost().is_none(), "once may be chance");
    let second = f.spawn_send();
    f.clock.advance(TIMEOUT).await;
    assert_eq!(second.await.expect("not cancelled").expect_err("silence").kind(), ErrorKind::Timeout);
    assert_eq!(poll.await.expect("not cancelled").expect_err("lost").kind(), ErrorKind::Connection);
    assert_eq!(f.driver.await.expect("not cancelled").kind(), ErrorKind::Connection);
    assert_clean(&f.connection);
}

#[tokio::test]
async fn a_peer_that_does_not_read_does_not_keep_calls_from_ending() {
    let mut f = fixture(10, &ConnectionOptions::default());
    let call = f.spawn_send();
    settle().await;
    f.clock.advance(TIMEOUT).await;
    assert_eq!(call.await.expect("not cancelled").expect_err("not answered").kind(), ErrorKind::Timeout);
    // The frame that had begun is completed: the stream stays in step.
    let next = f.spawn_send();
    f.script.answer(2).await;
    next.await.expect("not cancelled").expect("answered");
    assert_eq!(f.connection.stats().unexpected_answers, 1);
    assert_clean(&f.connection);
}

#[tokio::test]
async fn closing_and_dropping_the_driver_fail_what_is_under_way() {
    for drop_driver in [false, true] {
        let mut f = fixture(1 << 16, &ConnectionOptions::default());
        let call = f.spawn_send();
        f.script.frame().await;
        if drop_driver {
            drop(f.driver);
        } else {
            f.connection.close(&Error::new(ErrorKind::Closed, "enough"));
        }
        assert_eq!(call.await.expect("not cancelled").expect_err("closed").kind(), ErrorKind::Closed);
        assert!(f.script.rest().await.is_empty(), "the client hung up");
        let later = f.connection.call(&*REQUEST, &EMPTY, f.env.now() + TIMEOUT).await;
        assert_eq!(later.expect_err("closed").kind(), ErrorKind::Closed);
        assert_clean(&f.connection);
    }
}

#[tokio::test]
async fn finishing_writes_what_was_let_through() {
    let mut f = fixture(10, &ConnectionOptions::default());
    let body = Bytes::from(vec![6; 5000]);
    f.connection.call_one_way(&*REQUEST, &body, f.deadline()).await.expect("handed over");
    f.connection.finish(&Error::new(ErrorKind::Closed, "enough"));
    assert_eq!(f.script.request().await.body, body);
    assert_eq!(f.driver.await.expect("not cancelled").kind(), ErrorKind::Closed);
}
