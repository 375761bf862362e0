//! Calls that are dropped, at every point where they can be.

use std::future::Future;
use std::pin::pin;

use super::*;

/// Polls a future so many times, letting the rest run in between, then drops it. True if it was done by then.
async fn poll_times<F: Future>(future: F, times: usize) -> bool {
    let mut future = pin!(future);
    for _ in 0..times {
        if futures_util::poll!(&mut future).is_ready() {
            return true;
        }
        tokio::task::yield_now().await;
    }
    false
}

/// Answers everything up to a request whose body is `last`, and returns the bodies.
async fn serve(mut script: Script) -> Vec<Bytes> {
    let mut bodies = Vec::new();
    loop {
        let request = script.request().await;
        script.send(&stored(&request, 1)).await;
        if &request.body[..] == b"last" {
            return bodies;
        }
        bodies.push(request.body);
    }
}

/// Through `buffer` bytes at a time; with another call under way or not, a limit reached or not, answers coming
/// meanwhile or only later. True if the call was done before it was dropped.
async fn dropped_after(polls: usize, buffer: usize, busy: bool, limited: bool, answered: bool) -> bool {
    let options = ConnectionOptions { max_in_flight: if limited { 1 } else { 10 }, ..ConnectionOptions::default() };
    let f = fixture(buffer, &options);
    let other = (busy || limited).then(|| f.spawn_send());
    settle().await;
    let body = Bytes::from(vec![1; if buffer == 1 { 40 } else { 40_000 }]);
    let mut script = Some(f.script);
    let mut served = answered.then(|| script.take()).flatten().map(|script| f.env.spawn(serve(script)));
    let done = poll_times(f.connection.call(&*REQUEST, &body, f.env.now() + TIMEOUT), polls).await;
    // The other call and a new one are not disturbed, and the stream holds nothing but whole frames.
    let (connection, env) = (f.connection.clone(), f.env.clone());
    let last = f.env.spawn(async move { send(&connection, &env, &Bytes::from_static(b"last")).await });
    served = served.or_else(|| script.map(|script| f.env.spawn(serve(script))));
    let bodies = served.expect("one or the other").await.expect("not cancelled");
    assert!(bodies.iter().all(|sent| sent.is_empty() || *sent == body));
    last.await.expect("not cancelled").expect("answered");
    if let Some(other) = other {
        other.await.expect("not cancelled").expect("answered");
    }
    settle().await;
    assert_clean(&f.connection);
    done
}

#[tokio::test]
async fn a_call_dropped_at_any_await_leaves_nothing() {
    for (busy, limited) in [(false, false), (true, false), (false, true)] {
        for buffer in [1 << 20, 100, 1] {
            let mut ended = 0;
            for polls in 0..12 {
                ended += usize::from(dropped_after(polls, buffer, busy, limited, true).await);
                assert!(!dropped_after(polls, buffer, busy, limited, false).await);
            }
            assert!(buffer < 1 << 20 || ended > 0, "none got as far as its answer");
        }
    }
}

#[tokio::test]
async fn a_one_way_request_dropped_half_way_is_sent_whole_or_not_at_all() {
    for polls in 0..4 {
        let mut f = fixture(16, &ConnectionOptions::default());
        let body = Bytes::from(vec![2; 1000]);
        poll_times(f.connection.call_one_way(&*REQUEST, &body, f.deadline()), polls).await;
        let last = f.spawn_send();
        loop {
            let request = f.script.request().await;
            if request.flag == 0 {
                f.script.send(&stored(&request, 1)).await;
                break;
            }
            assert_eq!(request.body, body);
        }
        last.await.expect("not cancelled").expect("answered");
        assert_clean(&f.connection);
    }
}

/// A call under way, so that the next ones gather before they write.
async fn busy(f: &mut Fixture) -> Task<Result<i64>> {
    let other = f.spawn_send();
    f.script.frame().await;
    other
}

#[tokio::test]
async fn when_the_leader_is_dropped_its_followers_are_written() {
    let mut f = fixture(1 << 16, &ConnectionOptions::default());
    let _other = busy(&mut f).await;
    let (leader_body, follower_body) = (Bytes::from_static(b"leader"), Bytes::from_static(b"follower"));
    let mut leader = Box::pin(send(&f.connection, &f.env, &leader_body));
    let mut follower = Box::pin(send(&f.connection, &f.env, &follower_body));
    assert!(futures_util::poll!(&mut leader).is_pending());
    assert!(futures_util::poll!(&mut follower).is_pending());
    settle().await;
    assert_eq!(f.connection.stats().writes, 1, "only the leader may write, and it is not polled");
    drop(leader);
    assert_eq!(&f.script.request().await.body[..], b"leader");
    assert_eq!(&f.script.request().await.body[..], b"follower");
}

#[tokio::test]
async fn a_leader_that_is_not_polled_again_is_replaced() {
    let mut f = fixture(1 << 16, &ConnectionOptions::default());
    let _other = busy(&mut f).await;
    for _ in 0..2 {
        let (leader_body, follower_body) = (Bytes::from_static(b"leader"), Bytes::from_static(b"follower"));
        let mut leader = Box::pin(send(&f.connection, &f.env, &leader_body));
        let mut follower = Box::pin(send(&f.connection, &f.env, &follower_body));
        assert!(futures_util::poll!(&mut leader).is_pending());
        assert!(futures_util::poll!(&mut follower).is_pending());
        let written = f.connection.stats().writes;
        settle().await;
        assert_eq!(f.connection.stats().writes, written);
        f.clock.advance(Duration::from_millis(60)).await;
        assert_eq!(&f.script.request().await.body[..], b"leader");
        let request = f.script.request().await;
        assert_eq!(&request.body[..], b"follower");
        f.script.send(&stored(&request, 9)).await;
        assert_eq!(follower.await.expect("answered"), 9);
        // Polled after all, the leader finds its work done.
        assert!(futures_util::poll!(&mut leader).is_pending());
        // Long enough for the watch to end, so that the second round begins it anew.
        f.clock.advance(Duration::from_millis(200)).await;
    }
}

#[tokio::test]
async fn a_great_backlog_does_not_wait_for_a_slow_leader() {
    let mut f = fixture(1 << 20, &ConnectionOptions::default());
    let _other = busy(&mut f).await;
    let body = Bytes::from(vec![3; 30_000]);
    let mut leader = Box::pin(send(&f.connection, &f.env, &body));
    assert!(futures_util::poll!(&mut leader).is_pending());
    let mut followers: Vec<_> = (0..10).map(|_| Box::pin(send(&f.connection, &f.env, &body))).collect();
    for follower in &mut followers {
        assert!(futures_util::poll!(follower).is_pending());
    }
    assert!(f.connection.stats().writes > 1);
    for _ in 0..9 {
        assert_eq!(f.script.request().await.body, body);
    }
}
