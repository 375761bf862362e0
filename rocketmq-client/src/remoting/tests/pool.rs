//! Peers over a network in memory.

use std::net::SocketAddr;

use super::*;
use crate::transport::MemoryListener;

struct World {
    env: Env,
    clock: ManualClock,
    network: MemoryNetwork,
    pool: Pool,
}

const SERVER: &str = "10.0.0.1:10911";

fn world() -> World {
    let network = MemoryNetwork::default();
    let (env, clock) = Env::manual(1, Arc::new(network.clone())).expect("inside a runtime");
    let (pool, _requests) = Pool::new(env.clone(), PoolOptions::default());
    World { env, clock, network, pool }
}

fn address(text: &str) -> SocketAddr {
    text.parse().expect("an address")
}

impl World {
    fn listen(&self, at: &str) -> MemoryListener {
        self.network.listen(address(at), 1 << 16)
    }

    fn spawn_send(&self, to: &str) -> Task<Result<i64>> {
        let (peer, env) = (self.pool.peer(to), self.env.clone());
        self.env.spawn(async move {
            let response = peer.call(&*REQUEST, &EMPTY, env.now() + TIMEOUT).await?.success()?;
            Ok(response.decode::<SendMessageRequestV2<'_>>()?.queue_offset)
        })
    }
}

async fn accept(listener: &mut MemoryListener) -> Script {
    Script::new(listener.accept().await)
}

async fn result<T>(task: Task<Result<T>>) -> Result<T> {
    task.await.expect("not cancelled")
}

#[tokio::test]
async fn one_connection_serves_all_who_call_at_once() {
    let w = world();
    let mut listener = w.listen(SERVER);
    let mut events = w.pool.events();
    let calls: Vec<_> = (0..50).map(|_| w.spawn_send(SERVER)).collect();
    let mut script = accept(&mut listener).await;
    script.answer(50).await;
    for call in calls {
        result(call).await.expect("answered");
    }
    assert!(futures_util::poll!(Box::pin(listener.accept())).is_pending(), "there is one connection");
    assert!(matches!(events.try_recv(), Ok(ConnectionEvent::Opened(at)) if &*at == SERVER));
    assert!(w.pool.peer(SERVER).is_connected());
    assert_eq!(w.pool.peer(SERVER).version(), Some(Version::V5_3_3));
}

#[tokio::test]
async fn a_lost_connection_fails_its_calls_at_once_and_is_made_again_at_once() {
    let w = world();
    let mut listener = w.listen(SERVER);
    let mut events = w.pool.events();
    for round in 0..3 {
        let call = w.spawn_send(SERVER);
        let mut script = accept(&mut listener).await;
        script.answer(1).await;
        result(call).await.expect("answered");
        let call = w.spawn_send(SERVER);
        script.frame().await;
        drop(script);
        let error = result(call).await.expect_err("lost");
        assert_eq!((error.kind(), error.outcome()), (ErrorKind::Connection, Outcome::Unknown), "round {round}");
        assert!(matches!(events.recv().await, Ok(ConnectionEvent::Opened(_))));
        assert!(
            matches!(events.recv().await, Ok(ConnectionEvent::Lost(_, error)) if error.kind() == ErrorKind::Connection)
        );
    }
}

#[tokio::test]
async fn a_call_on_a_connection_that_was_lost_meanwhile_uses_a_new_one() {
    let w = world();
    let mut listener = w.listen(SERVER);
    let call = w.spawn_send(SERVER);
    let mut script = accept(&mut listener).await;
    script.answer(1).await;
    result(call).await.expect("answered");
    let peer = w.pool.peer(SERVER);
    let connection = peer.connection(w.env.now() + TIMEOUT).await.expect("there is one");
    // Lost, but the peer has not been told yet when the call begins.
    connection.close(&Error::new(ErrorKind::Connection, "test"));
    let (response, ()) = tokio::join!(peer.call(&*REQUEST, &EMPTY, w.env.now() + TIMEOUT), async {
        accept(&mut listener).await.answer(1).await;
    });
    response.expect("answered");
}

#[tokio::test]
async fn refusals_are_explained_and_backed_off_from() {
    let w = world();
    let error = result(w.spawn_send(SERVER)).await.expect_err("nobody listens");
    assert_eq!((error.kind(), error.outcome()), (ErrorKind::Connection, Outcome::NotSent));
    assert_eq!((error.broker(), error.operation()), (Some(SERVER), Some("connect")));
    assert!(error.to_string().contains(SERVER), "{error}");
    let peer = w.pool.peer(SERVER);
    assert_eq!(peer.failure().expect("backing off").kind(), ErrorKind::Connection);
    // The next call waits for the next attempt instead of failing in no time.
    let mut listener = w.listen(SERVER);
    let call = w.spawn_send(SERVER);
    settle().await;
    assert!(futures_util::poll!(Box::pin(listener.accept())).is_pending());
    w.clock.advance(Duration::from_millis(100)).await;
    accept(&mut listener).await.answer(1).await;
    result(call).await.expect("answered");
    assert!(peer.failure().is_none());
}

#[tokio::test]
async fn back_off_grows_and_a_call_with_less_time_fails_at_once() {
    let w = world();
    let (mut failures, start) = (0, w.env.now());
    while w.env.now() - start < Duration::from_secs(30) {
        let call = w.spawn_send(SERVER);
        settle().await;
        if call.is_finished() {
            failures += 1;
            assert_eq!(result(call).await.expect_err("nobody listens").kind(), ErrorKind::Connection);
        }
        w.clock.advance(Duration::from_millis(500)).await;
    }
    assert!(failures < 60, "{failures} calls failed at once");
    // 5 s of back-off, and 3 s to wait.
    let peer = w.pool.peer(SERVER);
    assert!(peer.failure().is_some());
    let error = peer.call(&*REQUEST, &EMPTY, w.env.now() + Duration::from_millis(1)).await;
    assert_eq!(error.expect_err("backing off").kind(), ErrorKind::Connection);
}

#[tokio::test]
async fn a_server_that_hangs_up_at_once_is_backed_off_from() {
    let w = world();
    let mut listener = w.listen(SERVER);
    let call = w.spawn_send(SERVER);
    drop(accept(&mut listener).await);
    assert_eq!(result(call).await.expect_err("hung up").kind(), ErrorKind::Connection);
    let call = w.spawn_send(SERVER);
    settle().await;
    assert!(futures_util::poll!(Box::pin(listener.accept())).is_pending());
    w.clock.advance(Duration::from_millis(100)).await;
    accept(&mut listener).await.answer(1).await;
    result(call).await.expect("answered");
}

#[tokio::test]
async fn every_address_of_a_name_is_tried() {
    let w = world();
    w.network.add_host("broker", &[address("10.0.0.1:10911"), address("10.0.0.2:10911")]);
    let error = result(w.spawn_send("broker:10911")).await.expect_err("nobody listens");
    let text = error.to_string();
    assert!(["broker:10911", "10.0.0.1:10911", "10.0.0.2:10911"].iter().all(|part| text.contains(part)), "{text}");
    let mut listener = w.listen("10.0.0.2:10911");
    let call = w.spawn_send("broker:10911");
    w.clock.advance(Duration::from_millis(100)).await;
    accept(&mut listener).await.answer(1).await;
    result(call).await.expect("answered");
}

#[tokio::test]
async fn addresses_that_are_none_and_names_without_one_are_errors() {
    let w = world();
    let error = result(w.spawn_send("broker")).await.expect_err("no port");
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    let error = result(w.spawn_send("nowhere:1")).await.expect_err("no such host");
    assert_eq!(error.kind(), ErrorKind::Connection);
    assert!(error.to_string().contains("nowhere"), "{error}");
}

#[tokio::test]
async fn connecting_takes_no_longer_than_the_caller_has() {
    let w = world();
    w.network.swallow(address(SERVER));
    let (peer, env) = (w.pool.peer(SERVER), w.env.clone());
    let hasty =
        w.env.spawn(async move { peer.call(&*REQUEST, &EMPTY, env.now() + Duration::from_secs(1)).await.map(drop) });
    let patient = w.spawn_send(SERVER);
    w.clock.advance(Duration::from_secs(1)).await;
    let error = result(hasty).await.expect_err("no connection yet");
    assert_eq!((error.kind(), error.outcome()), (ErrorKind::Timeout, Outcome::NotSent));
    assert!(!patient.is_finished());
    w.clock.advance(Duration::from_secs(2)).await;
    assert!(result(patient).await.is_err());
    // The attempt has its own limit, and then says so.
    assert_eq!(w.pool.peer(SERVER).failure().expect("failed").kind(), ErrorKind::Connection);
}

#[tokio::test]
async fn a_server_that_is_going_away_is_left_for_a_new_connection() {
    let w = world();
    let mut listener = w.listen(SERVER);
    let going = w.spawn_send(SERVER);
    let mut old = accept(&mut listener).await;
    let slow = w.spawn_send(SERVER);
    let request = old.request().await;
    let slow_request = old.request().await;
    old.send(&RemotingCommand { code: 1500, ..stored(&request, 0) }).await;
    let mut new = accept(&mut listener).await;
    let again = new.request().await;
    assert_eq!((again.field("b"), again.code), (Some("topic"), 310));
    new.send(&stored(&again, 2)).await;
    assert_eq!(result(going).await.expect("answered"), 2);
    // What was under way on the old connection is answered there, then it is closed.
    old.send(&stored(&slow_request, 1)).await;
    assert_eq!(result(slow).await.expect("answered"), 1);
    assert!(old.rest().await.is_empty());
    // A server that keeps saying so is believed.
    let call = w.spawn_send(SERVER);
    let request = new.request().await;
    new.send(&RemotingCommand { code: 1500, ..stored(&request, 0) }).await;
    let mut newer = accept(&mut listener).await;
    let request = newer.request().await;
    newer.send(&RemotingCommand { code: 1500, ..stored(&request, 0) }).await;
    let error = result(call).await.expect_err("refused");
    assert_eq!((error.response_code(), error.is_retriable()), (Some(1500), true));
}

#[tokio::test]
async fn closing_writes_what_was_handed_over_and_ends_everything() {
    let w = world();
    let mut listener = w.network.listen(address(SERVER), 16);
    let call = w.spawn_send(SERVER);
    let mut script = accept(&mut listener).await;
    script.frame().await;
    let peer = w.pool.peer(SERVER);
    let body = Bytes::from(vec![7; 1000]);
    peer.call_one_way(&*REQUEST, &body, w.env.now() + TIMEOUT).await.expect("handed over");
    tokio::join!(w.pool.close(w.env.now() + TIMEOUT), async {
        assert_eq!(script.request().await.body, body);
        assert!(script.rest().await.is_empty());
    });
    assert_eq!(result(call).await.expect_err("closed").kind(), ErrorKind::Closed);
    assert_eq!(result(w.spawn_send(SERVER)).await.expect_err("closed").kind(), ErrorKind::Closed);
    assert_eq!(result(w.spawn_send("10.0.0.9:1")).await.expect_err("closed").kind(), ErrorKind::Closed);
    w.pool.close(w.env.now() + TIMEOUT).await;
}

#[tokio::test]
async fn closing_does_not_wait_longer_than_it_may() {
    let w = world();
    let mut listener = w.network.listen(address(SERVER), 16);
    let peer = w.pool.peer(SERVER);
    let body = Bytes::from(vec![7; 1000]);
    peer.call_one_way(&*REQUEST, &body, w.env.now() + TIMEOUT).await.expect("handed over");
    let _script = accept(&mut listener).await;
    let (pool, deadline) = (w.pool.clone(), w.env.now() + TIMEOUT);
    let closing = w.env.spawn(async move { pool.close(deadline).await });
    w.clock.advance(TIMEOUT - Duration::from_millis(1)).await;
    assert!(!closing.is_finished());
    w.clock.advance(Duration::from_millis(1)).await;
    closing.await.expect("not cancelled");
}

#[tokio::test]
async fn dropping_or_forgetting_ends_calls_and_connections() {
    for forget in [false, true] {
        let w = world();
        let mut listener = w.listen(SERVER);
        let (peer, env) = (w.pool.peer(SERVER), w.env.clone());
        let call = w.spawn_send(SERVER);
        let mut script = accept(&mut listener).await;
        script.frame().await;
        let elsewhere = w.spawn_send("10.0.0.3:1");
        w.network.swallow(address("10.0.0.3:1"));
        let pool = w.pool.clone();
        if forget {
            pool.forget(SERVER);
            pool.forget("10.0.0.3:1");
        } else {
            drop((pool, w.pool));
        }
        assert_eq!(result(call).await.expect_err("closed").kind(), ErrorKind::Closed);
        assert_eq!(result(elsewhere).await.expect_err("closed").kind(), ErrorKind::Closed);
        assert!(script.rest().await.is_empty());
        let later = peer.call(&*REQUEST, &EMPTY, env.now() + TIMEOUT).await;
        assert_eq!(later.expect_err("closed").kind(), ErrorKind::Closed);
    }
}
