use std::time::Duration;

use rocketmq_wire::model::{ConsumerData, HeartbeatData, SubscriptionData};
use rocketmq_wire::{RemotingCommand, RequestCode};

use crate::client::Client;
use crate::error::ErrorKind;
use crate::message::Message;
use crate::scripted::{Reaction, Scripted, Server, broker};

const HEART_BEAT: RequestCode = RequestCode::HEART_BEAT;
const UNREGISTER: RequestCode = RequestCode::UNREGISTER_CLIENT;
const INTERVAL: Duration = Duration::from_secs(30);

fn beats(server: &Server) -> usize {
    server.requests(HEART_BEAT).len()
}

fn last_heartbeat(server: &Server) -> (HeartbeatData, RemotingCommand) {
    let request = server.requests(HEART_BEAT).pop().expect("a heartbeat");
    (serde_json::from_slice(&request.body).expect("standard JSON"), request)
}

/// Makes the client know the brokers of `t`.
async fn know_brokers(scripted: &Scripted, client: &Client) {
    let topic = client.cluster().routes().topic(&"t".into());
    client.cluster().routes().look_up(&topic, scripted.env.now() + INTERVAL).await.expect("in time");
}

fn consumer(group: &str, topic: &str) -> ConsumerData {
    ConsumerData {
        group_name: group.to_owned(),
        consume_type: "CONSUME_PASSIVELY".to_owned(),
        message_model: "CLUSTERING".to_owned(),
        consume_from_where: "CONSUME_FROM_LAST_OFFSET".to_owned(),
        subscription_data_set: vec![SubscriptionData { topic: topic.to_owned(), ..Default::default() }],
        unit_mode: false,
    }
}

#[tokio::test]
async fn brokers_are_told_of_groups_at_once_and_every_thirty_seconds() {
    let scripted = Scripted::start(2);
    let client = scripted.client().await;
    know_brokers(&scripted, &client).await;
    scripted.clock.advance(INTERVAL).await;
    assert_eq!(beats(&scripted.brokers[0]), 0, "there is nothing to tell");

    let producer = client.producer("p").start().await.expect("a good group");
    scripted.clock.advance(Duration::ZERO).await;
    assert_eq!((beats(&scripted.brokers[0]), beats(&scripted.brokers[1])), (1, 1));
    let _membership = client.cluster().groups().join_as_consumer(consumer("c", "t")).expect("not in it yet");
    scripted.clock.advance(Duration::ZERO).await;
    assert_eq!(beats(&scripted.brokers[0]), 2);

    let (data, request) = last_heartbeat(&scripted.brokers[0]);
    assert_eq!(data.client_id, client.client_id());
    assert_eq!(data.producer_data_set.iter().map(|group| group.group_name.as_str()).collect::<Vec<_>>(), ["p"]);
    assert_eq!(data.consumer_data_set, [consumer("c", "t")]);
    assert_eq!((data.heartbeat_fingerprint, data.without_sub), (0, false));
    assert_eq!(request.version.0, 479);

    for beat in 3..6 {
        scripted.clock.advance(INTERVAL).await;
        assert_eq!((beats(&scripted.brokers[0]), beats(&scripted.brokers[1])), (beat, beat));
    }
    producer.shutdown().await;
}

#[tokio::test]
async fn a_broker_that_appears_is_told_before_it_is_sent_to() {
    let scripted = Scripted::start(1);
    let producer = scripted.client().await.producer("p").start().await.expect("a good group");
    let new = Server::start(&scripted.env, &scripted.network, "10.0.2.0:10911", broker);
    let route = crate::scripted::route(&[("z", new.address)], 1);
    scripted.topics.lock().expect("not poisoned").insert("far".to_owned(), route);
    producer.send(Message::new("far", "body")).await.expect("stored");
    scripted.clock.advance(Duration::ZERO).await;
    assert_eq!(beats(&new), 1);
}

#[tokio::test]
async fn a_connection_made_anew_is_followed_by_a_heartbeat_and_a_look_at_the_group() {
    let scripted = Scripted::start(2);
    let client = scripted.client().await;
    know_brokers(&scripted, &client).await;
    let membership = client.cluster().groups().join_as_consumer(consumer("c", "t")).expect("not in it yet");
    let producer = client.producer("p").start().await.expect("a good group");
    client.cluster().groups().tell_brokers().await;
    let before = (beats(&scripted.brokers[0]), beats(&scripted.brokers[1]));
    assert!(futures_util::FutureExt::now_or_never(membership.changed()).is_none());
    scripted.brokers[0].hang_up();
    scripted.clock.advance(Duration::from_secs(1)).await;
    for _ in 0..2 {
        producer.send(Message::new("t", "body")).await.expect("stored");
    }
    for _ in 0..2 {
        producer.send(Message::new("t", "body")).await.expect("stored");
    }
    scripted.clock.advance(Duration::ZERO).await;
    assert_eq!((beats(&scripted.brokers[0]), beats(&scripted.brokers[1])), (before.0 + 1, before.1));
    membership.changed().await;
}

#[tokio::test]
async fn slaves_are_told_only_of_consumers() {
    let scripted = Scripted::start(1);
    let slave = Server::start(&scripted.env, &scripted.network, "10.0.2.1:10911", broker);
    let route = format!(
        r#"{{"brokerDatas":[{{"brokerAddrs":{{0:"{}",1:"{}"}},"brokerName":"a"}}],"queueDatas":[]}}"#,
        scripted.brokers[0].address, slave.address
    );
    scripted.topics.lock().expect("not poisoned").insert("TBW102".to_owned(), route);
    let client = scripted.client().await;
    let topic = client.cluster().routes().topic(&"TBW102".into());
    client.cluster().routes().look_up(&topic, scripted.env.now() + INTERVAL).await.expect("in time");
    let _producer = client.producer("p").start().await.expect("a good group");
    client.cluster().groups().tell_brokers().await;
    assert_eq!(beats(&slave), 0);
    let _membership = client.cluster().groups().join_as_consumer(consumer("c", "t")).expect("not in it yet");
    client.cluster().groups().tell_brokers().await;
    assert!(beats(&slave) > 0);
}

#[tokio::test]
async fn a_dead_broker_does_not_keep_the_others_waiting() {
    let scripted = Scripted::start(2);
    scripted.brokers[0].react(|_| Reaction::Silence);
    let producer = scripted.client().await.producer("p").start().await.expect("a good group");
    producer.queues("t").await.expect("a route");
    scripted.clock.advance(Duration::ZERO).await;
    assert_eq!(beats(&scripted.brokers[1]), 1);
    scripted.clock.advance(2 * INTERVAL).await;
    assert_eq!(beats(&scripted.brokers[1]), 3);
}

/// Until a broker knows the group it asks nothing of it, such as what became of a transaction.
#[tokio::test]
async fn a_broker_that_could_not_be_told_is_told_again_soon() {
    let scripted = Scripted::start(1);
    let client = scripted.client().await;
    know_brokers(&scripted, &client).await;
    scripted.brokers[0].react(|_| Reaction::Silence);
    let _producer = client.producer("p").start().await.expect("a good group");
    scripted.clock.advance(Duration::from_secs(3)).await;
    assert_eq!(beats(&scripted.brokers[0]), 1);
    scripted.brokers[0].react(broker);
    scripted.clock.advance(Duration::from_secs(1)).await;
    assert_eq!(beats(&scripted.brokers[0]), 2);
    scripted.clock.advance(INTERVAL - Duration::from_secs(5)).await;
    assert_eq!(beats(&scripted.brokers[0]), 2, "told is told");
}

#[tokio::test]
async fn leaving_unregisters_only_the_last_of_a_group() {
    let scripted = Scripted::start(1);
    let client = scripted.client().await;
    know_brokers(&scripted, &client).await;
    let one = client.producer("p").start().await.expect("a good group");
    let two = client.producer("p").start().await.expect("a group may be shared");
    client.cluster().groups().tell_brokers().await;
    one.shutdown().await;
    assert!(scripted.brokers[0].requests(UNREGISTER).is_empty());
    // Dropped, it leaves in the background.
    drop(two);
    scripted.clock.advance(Duration::ZERO).await;
    let left = scripted.brokers[0].requests(UNREGISTER);
    assert_eq!(left.len(), 1);
    assert_eq!((left[0].field("clientID"), left[0].field("producerGroup")), (Some(client.client_id()), Some("p")));
    let before = beats(&scripted.brokers[0]);
    scripted.clock.advance(2 * INTERVAL).await;
    assert_eq!(beats(&scripted.brokers[0]), before, "nothing is left to tell");
}

#[tokio::test]
async fn a_consumer_group_is_joined_once_and_left_by_name() {
    let scripted = Scripted::start(1);
    let client = scripted.client().await;
    know_brokers(&scripted, &client).await;
    let groups = client.cluster().groups();
    let membership = groups.join_as_consumer(consumer("c", "t")).expect("not in it yet");
    let error = groups.join_as_consumer(consumer("c", "u")).expect_err("in it already");
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    groups.tell_brokers().await;
    assert_eq!(last_heartbeat(&scripted.brokers[0]).0.consumer_data_set, [consumer("c", "t")]);
    membership.leave().await;
    let left = scripted.brokers[0].requests(UNREGISTER);
    assert_eq!((left[0].field("consumerGroup"), left[0].field("producerGroup")), (Some("c"), None));
    groups.join_as_consumer(consumer("c", "t")).expect("left before");
}

#[tokio::test]
async fn a_notice_wakes_the_consumer_of_that_group() {
    let scripted = Scripted::start(1);
    let client = scripted.client().await;
    know_brokers(&scripted, &client).await;
    let groups = client.cluster().groups();
    let (one, two) = (
        groups.join_as_consumer(consumer("one", "t")).expect("not in it yet"),
        groups.join_as_consumer(consumer("two", "t")).expect("not in it yet"),
    );
    groups.tell_brokers().await;
    scripted.brokers[0].tell(RequestCode::NOTIFY_CONSUMER_IDS_CHANGED, &[("consumerGroup", "two")]).await;
    two.changed().await;
    assert!(futures_util::FutureExt::now_or_never(one.changed()).is_none());
}

#[tokio::test]
async fn dropping_a_client_ends_its_tasks_and_connections() {
    let scripted = Scripted::start(1);
    let client = scripted.client().await;
    let producer = client.producer("p").start().await.expect("a good group");
    producer.send(Message::new("t", "body")).await.expect("stored");
    scripted.clock.advance(Duration::ZERO).await;
    let before = beats(&scripted.brokers[0]);
    drop(client);
    scripted.clock.advance(INTERVAL).await;
    assert_eq!(beats(&scripted.brokers[0]), before + 1, "the producer keeps the client alive");
    drop(producer);
    scripted.clock.advance(10 * INTERVAL).await;
    assert_eq!(beats(&scripted.brokers[0]), before + 1);
    assert_eq!(scripted.brokers[0].open_connections(), 0);
    assert_eq!(scripted.name_server.open_connections(), 0);
}

#[test]
fn a_client_may_be_dropped_without_its_runtime() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    let (client, producer, scripted) = runtime.block_on(async {
        let scripted = Scripted::start(1);
        let client = scripted.client().await;
        let producer = client.producer("p").start().await.expect("a good group");
        producer.send(Message::new("t", "body")).await.expect("stored");
        (client, producer, scripted)
    });
    drop(runtime);
    let other = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    // Nothing runs any more: an error, not a wait for ever.
    let error = other.block_on(producer.send(Message::new("other", "body"))).expect_err("its runtime is gone");
    assert_eq!(error.kind(), ErrorKind::Closed);
    other.block_on(producer.shutdown());
    drop((producer, client, scripted));
}
