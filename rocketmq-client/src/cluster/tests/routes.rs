use std::sync::Arc;
use std::time::Duration;

use rocketmq_wire::{RequestCode, ResponseCode};

use crate::cluster::{Cluster, Topic};
use crate::error::ErrorKind;
use crate::message::Message;
use crate::scripted::{Reaction, Scripted, Server, answer, broker, name_server, route};

const ROUTE: RequestCode = RequestCode::GET_ROUTEINFO_BY_TOPIC;
const REFRESH: Duration = Duration::from_secs(30);

fn look_ups(scripted: &Scripted, topic: &str) -> usize {
    scripted.name_server.requests(ROUTE).iter().filter(|request| request.field("topic") == Some(topic)).count()
}

fn queues(topic: &Topic) -> Option<usize> {
    topic.known().route.as_ref().map(|route| route.read_queues().len())
}

async fn looked_up(cluster: &Cluster, name: &str) -> Arc<Topic> {
    let topic = cluster.routes().topic(&name.into());
    cluster.routes().look_up(&topic, cluster.env().now() + REFRESH).await.expect("in time");
    topic
}

#[tokio::test]
async fn routes_are_refreshed_and_published() {
    let scripted = Scripted::start(1);
    let client = scripted.client().await;
    let topic = looked_up(client.cluster(), "t").await;
    let mut published = topic.subscribe();
    let first = published.borrow_and_update().route.clone();
    assert_eq!((queues(&topic), look_ups(&scripted, "t")), (Some(2), 1));
    scripted.clock.advance(REFRESH).await;
    assert_eq!(look_ups(&scripted, "t"), 2);
    let same = published.borrow_and_update().route.clone();
    assert!(first.zip(same).is_some_and(|(first, same)| Arc::ptr_eq(&first, &same)), "nothing changed");
    scripted.set_topic("t", 5);
    scripted.clock.advance(REFRESH).await;
    assert!(published.has_changed().expect("alive"));
    assert_eq!(queues(&topic), Some(5));
}

#[tokio::test]
async fn a_route_outlives_its_name_server() {
    let scripted = Scripted::start(1);
    let client = scripted.client().await;
    let topic = looked_up(client.cluster(), "t").await;
    for reaction in [ResponseCode::SYSTEM_ERROR, ResponseCode::SYSTEM_BUSY] {
        scripted.name_server.react(move |request| answer(request, reaction));
        scripted.clock.advance(4 * REFRESH).await;
        assert_eq!(queues(&topic), Some(2));
        assert!(topic.known().failure.is_some());
    }
    scripted.name_server.react(name_server(&scripted.topics));
    scripted.set_topic("t", 3);
    scripted.clock.advance(REFRESH).await;
    assert_eq!(queues(&topic), Some(3));
    assert!(topic.known().failure.is_none());
}

#[tokio::test]
async fn a_topic_is_gone_when_it_is_denied_for_two_intervals() {
    let scripted = Scripted::start(1);
    let client = scripted.client().await;
    let topic = looked_up(client.cluster(), "t").await;
    scripted.remove_topic("t");
    // A name server that was restarted denies every topic until brokers have registered again.
    scripted.clock.advance(2 * REFRESH).await;
    assert_eq!(queues(&topic), Some(2));
    scripted.set_topic("t", 2);
    scripted.clock.advance(REFRESH).await;
    scripted.remove_topic("t");
    scripted.clock.advance(3 * REFRESH).await;
    assert_eq!(queues(&topic), None);
    assert_eq!(topic.known().failure.as_ref().map(|failure| failure.kind()), Some(ErrorKind::NoRoute));
}

#[tokio::test]
async fn a_topic_that_appears_is_found() {
    let scripted = Scripted::start(1);
    let client = scripted.client().await;
    let topic = looked_up(client.cluster(), "later").await;
    assert_eq!(queues(&topic), None);
    scripted.set_topic("later", 4);
    scripted.clock.advance(REFRESH).await;
    assert_eq!(queues(&topic), Some(4));
}

#[tokio::test]
async fn topics_that_nobody_asks_for_and_that_do_not_exist_are_forgotten() {
    let scripted = Scripted::start(1);
    let client = scripted.client().await;
    drop(looked_up(client.cluster(), "typo").await);
    let kept = looked_up(client.cluster(), "wanted").await;
    scripted.clock.advance(3 * REFRESH).await;
    assert_eq!((look_ups(&scripted, "typo"), look_ups(&scripted, "wanted")), (1, 4));
    assert_eq!(queues(&kept), None);
}

#[tokio::test]
async fn a_broken_route_is_an_error_and_changes_nothing() {
    let scripted = Scripted::start(1);
    let client = scripted.client().await;
    let topic = looked_up(client.cluster(), "t").await;
    scripted.name_server.react(|request| {
        let mut reaction = broker(request);
        if let Reaction::Answer(answer) = &mut reaction {
            answer.body = "{\"brokerDatas\":[".into();
        }
        reaction
    });
    scripted.clock.advance(REFRESH).await;
    assert_eq!(queues(&topic), Some(2));
    assert_eq!(topic.known().failure.as_ref().map(|failure| failure.kind()), Some(ErrorKind::Protocol));
}

#[tokio::test]
async fn a_broker_that_moved_is_found_before_the_next_refresh() {
    let mut scripted = Scripted::start(1);
    let producer = scripted.client().await.producer("g").start().await.expect("a good group");
    let message = || Message::new("t", "body");
    producer.send(message()).await.expect("stored");
    let moved = Server::start(&scripted.env, &scripted.network, "10.0.2.0:10911", broker);
    drop(scripted.brokers.remove(0));
    scripted.topics.lock().expect("not poisoned").insert("t".to_owned(), route(&[("a", moved.address)], 2));
    scripted.clock.advance(Duration::from_secs(2)).await;
    let sending = scripted.env.spawn({
        let producer = producer.clone();
        async move { producer.send(message()).await }
    });
    scripted.clock.advance(Duration::from_secs(3)).await;
    sending.await.expect("not cancelled").expect("stored where the broker is now");
    assert_eq!(moved.requests(RequestCode::SEND_MESSAGE_V2).len(), 1);
}

#[tokio::test]
async fn a_look_up_that_is_given_up_is_finished_for_the_others() {
    let scripted = Scripted::start(1);
    let client = scripted.client().await;
    let cluster = client.cluster();
    let topic = cluster.routes().topic(&"t".into());
    let deadline = cluster.env().now() + REFRESH;
    let mut given_up = Box::pin(cluster.routes().look_up(&topic, deadline));
    assert!(futures_util::poll!(given_up.as_mut()).is_pending());
    drop(given_up);
    let known = cluster.routes().look_up(&topic, deadline).await.expect("in time");
    assert!(known.route.is_some());
    assert_eq!(look_ups(&scripted, "t"), 1);
}

#[tokio::test]
async fn a_look_up_ends_with_its_caller_s_deadline_and_with_the_client() {
    let scripted = Scripted::start(1);
    let client = scripted.client().await;
    scripted.name_server.react(|_| Reaction::Silence);
    let look_up = |wait| {
        let cluster = client.cluster().clone();
        scripted.env.spawn(async move {
            let topic = cluster.routes().topic(&"t".into());
            cluster.routes().look_up(&topic, cluster.env().now() + wait).await
        })
    };
    let (short, long) = (look_up(Duration::from_millis(100)), look_up(REFRESH));
    scripted.clock.advance(Duration::from_millis(200)).await;
    assert_eq!(short.await.expect("not cancelled").expect_err("no answer").kind(), ErrorKind::Timeout);
    client.close().await;
    let known = long.await.expect("not cancelled").expect("ended");
    assert_eq!(known.failure.map(|failure| failure.kind()), Some(ErrorKind::Closed));
}
