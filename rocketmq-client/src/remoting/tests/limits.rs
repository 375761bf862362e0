//! Limits make callers wait.

use super::*;

#[tokio::test]
async fn ten_thousand_callers_pass_a_narrow_limit_without_failure() {
    let options = ConnectionOptions { max_in_flight: 64, ..ConnectionOptions::default() };
    let mut f = fixture(1 << 16, &options);
    let tasks: Vec<_> = (0..10_000).map(|_| f.spawn_send()).collect();
    while f.connection.stats().waiting < 10_000 - 64 {
        settle().await;
        assert!(f.connection.stats().in_flight <= 64);
    }
    f.script.answer(10_000).await;
    for task in tasks {
        task.await.expect("not cancelled").expect("answered");
    }
    assert_clean(&f.connection);
}

#[tokio::test]
async fn a_caller_waits_for_its_turn_until_its_deadline() {
    let options = ConnectionOptions { max_in_flight: 1, ..ConnectionOptions::default() };
    let mut f = fixture(1 << 16, &options);
    let (connection, env) = (f.connection.clone(), f.env.clone());
    // A long poll occupies the connection.
    let first = f.env.spawn(async move {
        let deadline = env.now() + Duration::from_secs(30);
        connection.call(&*REQUEST, &EMPTY, deadline).await
    });
    let request = f.script.request().await;
    let second = f.spawn_send();
    f.clock.advance(TIMEOUT - Duration::from_millis(1)).await;
    assert!(!second.is_finished());
    f.clock.advance(Duration::from_millis(1)).await;
    let error = second.await.expect("not cancelled").expect_err("there was no room");
    assert_eq!((error.kind(), error.outcome()), (ErrorKind::Timeout, Outcome::NotSent));
    let third = f.spawn_send();
    f.script.send(&stored(&request, 0)).await;
    first.await.expect("not cancelled").expect("answered");
    f.script.answer(1).await;
    third.await.expect("not cancelled").expect("answered");
    assert_clean(&f.connection);
}

#[tokio::test]
async fn a_peer_that_does_not_read_is_given_no_more_than_the_limit() {
    let options = ConnectionOptions { max_in_flight_bytes: 100_000, ..ConnectionOptions::default() };
    let mut f = fixture(1000, &options);
    let body = Bytes::from(vec![4; 10_000]);
    let tasks: Vec<_> = (0..50)
        .map(|_| {
            let (connection, env, body) = (f.connection.clone(), f.env.clone(), body.clone());
            f.env.spawn(async move { connection.call_one_way(&*REQUEST, &body, env.now() + TIMEOUT).await })
        })
        .collect();
    settle().await;
    let stats = f.connection.stats();
    assert!(stats.unwritten_bytes <= 100_000, "{stats:?}");
    assert!(stats.waiting >= 40, "{stats:?}");
    for _ in 0..50 {
        assert_eq!(f.script.request().await.body, body);
    }
    for task in tasks {
        task.await.expect("not cancelled").expect("handed over");
    }
    settle().await;
    assert_clean(&f.connection);
}

#[tokio::test]
async fn a_request_larger_than_the_limit_goes_alone() {
    let options = ConnectionOptions { max_in_flight_bytes: 1000, ..ConnectionOptions::default() };
    let mut f = fixture(1 << 16, &options);
    let body = Bytes::from(vec![5; 50_000]);
    let (sent, ()) = tokio::join!(send(&f.connection, &f.env, &body), f.script.answer(1));
    sent.expect("answered");
    assert_clean(&f.connection);
}
