//! Reading from slaves, and while the master is away.

use rocketmq_wire::{RequestCode, ResponseCode};

use super::fake_broker::Scripted;
use super::*;

const SOON: Duration = Duration::from_millis(100);

/// The flags of pulls that the slave got for the topic.
fn flags_of_pulls_at_slave(fixture: &Fixture) -> Vec<i32> {
    let state = fixture.broker.state();
    let pulls = state.requests.iter().filter(|asked| asked.of_slave && asked.code() == RequestCode::PULL_MESSAGE);
    pulls.map(|asked| asked.request.field("sysFlag").expect("a flag").parse().expect("a number")).collect()
}

#[tokio::test]
async fn a_slave_is_read_when_the_master_says_so_and_gets_no_offsets() {
    let fixture = Fixture::new(1);
    fixture.broker.keep_retry_topics_away();
    fixture.broker.state().has_slave = true;
    fixture.broker.state().suggested = 1;
    fixture.broker.append_numbered(TOPIC, 1, 0..200);
    let consumer = fixture.consumer().await;
    fixture.until(SOON, "all are handled", || fixture.handled.count() == 200).await;
    let flags = flags_of_pulls_at_slave(&fixture);
    assert!(flags.len() >= 5 && flags.iter().all(|flag| flag & 1 == 0), "no offset with a pull: {flags:?}");
    // Its correction is followed as the master's is: there, and back when the next answer says so.
    let moved = Scripted::pull(ResponseCode::PULL_OFFSET_MOVED, "moved", 250, bytes::Bytes::new());
    fixture.clock.advance(Duration::from_secs(14)).await;
    fixture.broker.script(RequestCode::PULL_MESSAGE, [moved]);
    let is_followed = || {
        let state = fixture.broker.state();
        let mut pulls = state.requests.iter().filter(|asked| asked.code() == RequestCode::PULL_MESSAGE);
        pulls.any(|asked| asked.request.field("queueOffset") == Some("250"))
    };
    fixture.until(Duration::from_secs(20), "it is followed", is_followed).await;
    fixture.drive(consumer.shutdown()).await.expect("nothing is under way");
    let state = fixture.broker.state();
    let commits = state.requests.iter().filter(|asked| asked.code() == RequestCode::UPDATE_CONSUMER_OFFSET);
    assert!(commits.into_iter().all(|asked| !asked.of_slave), "offsets go to the master");
}

#[tokio::test]
async fn while_the_master_is_away_the_slave_is_read_and_offsets_follow() {
    let fixture = Fixture::new(1);
    fixture.broker.state().has_slave = true;
    fixture.broker.append_numbered(TOPIC, 1, 0..10);
    let consumer = fixture.consumer().await;
    fixture.until(SOON, "all are handled", || fixture.handled.count() == 10).await;
    fixture.broker.state().master_is_away = true;
    fixture.clock.advance(Duration::from_secs(20)).await;
    fixture.broker.append_numbered(TOPIC, 1, 10..20);
    fixture.until(Duration::from_secs(10), "the slave is read", || fixture.handled.count() == 20).await;
    assert!(!flags_of_pulls_at_slave(&fixture).is_empty());
    assert!(fixture.broker.committed(GROUP, TOPIC, 0).is_none_or(|offset| offset <= 10));
    fixture.broker.state().master_is_away = false;
    let follows = || fixture.broker.committed(GROUP, TOPIC, 0) == Some(20);
    fixture.until(Duration::from_secs(10), "offsets follow", follows).await;
    fixture.handled.assert_each_once(20);
    drop(consumer);
}
