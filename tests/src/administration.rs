//! What an administrator does, by our client's `admin` and by Apache's `mqadmin`.

use std::{
    future::Future,
    time::{Duration, SystemTime},
};

use rocketmq_native::{
    Admin, Client, ConsumeFrom, ErrorKind, Message, SendReceipt,
    admin::{GroupSettings, OffsetTarget, TopicSettings},
};
use tokio::{sync::mpsc, time};

use crate::{
    foreign::Driver,
    scene::{LIMIT, connect, eventually},
    server::Server,
};

/// Messages that the scenarios send.
const COUNT: u64 = 10;

async fn send_numbered(client: &Client, topic: &str) -> Vec<SendReceipt> {
    let producer = client.producer("administration").send_timeout(LIMIT).start().await.expect("a producer");
    let mut receipts = Vec::new();
    for number in 0..COUNT {
        let message = Message::new(topic, format!("body {number}")).tag("made").key(format!("key-{number}"));
        receipts.push(producer.send(message).await.expect("sent"));
    }
    producer.shutdown().await;
    receipts
}

/// Runs a scenario.
pub fn run(scenario: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.expect("a runtime").block_on(scenario);
}

/// Our administrator's whole day on a broker.
pub async fn our_admin(server: &Server) {
    let _shared = server.share().await;
    let client = connect(server).await;
    let admin = client.admin().timeout(Duration::from_secs(30));
    let (topic, group) = (server.name("administered"), server.name("administered-group"));
    topics_and_groups(&admin, &topic, &group).await;
    let receipts = send_numbered(&client, &topic).await;
    messages(&admin, &topic, &receipts).await;
    offsets(&client, &admin, &topic, &group).await;
    brokers(&admin, server).await;

    admin.delete_group(&group).await.expect("the group can be deleted");
    assert!(!admin.groups().await.expect("groups").contains(&group), "{}", server.label());
    admin.delete_topic(&topic).await.expect("the topic can be deleted");
    admin.delete_topic(&topic).await.expect("again makes no difference");
    assert!(!admin.topics().await.expect("topics").contains(&topic));
    client.close().await;
}

async fn topics_and_groups(admin: &Admin, topic: &str, group: &str) {
    admin.create_topic(topic, 2).await.expect("a topic");
    admin.set_topic(&TopicSettings::new(topic, 4).write_queues(3)).await.expect("a changed topic");
    let found = admin.topic(topic).await.expect("the topic");
    assert_eq!(found.len(), 1, "{found:?}");
    let settings = found.values().next().expect("one broker");
    assert_eq!((settings.read_queue_count(), settings.write_queue_count()), (4, 3));
    assert!(settings.is_readable() && settings.is_writable());
    let topics = admin.topics().await.expect("topics");
    assert!(topics.contains(&topic.to_owned()) && !topics.contains(&"TBW102".to_owned()), "{topics:?}");
    assert!(admin.all_topics().await.expect("topics").contains(&"TBW102".to_owned()));
    let missing = admin.topic_ranges("no-such-topic").await.expect_err("there is none");
    assert_eq!(missing.kind(), ErrorKind::NoRoute);

    admin.set_group(&GroupSettings::new(group).max_reconsume_times(3)).await.expect("a group");
    let groups = admin.groups().await.expect("groups");
    assert!(groups.contains(&group.to_owned()) && !groups.contains(&"TOOLS_CONSUMER".to_owned()), "{groups:?}");
    let found = admin.group(group).await.expect("the group");
    assert!(found.values().all(|settings| settings.max_redeliveries() == 3 && settings.is_enabled()), "{found:?}");
    assert!(admin.group("no-such-group").await.expect("an answer").is_empty());
    assert!(admin.members(group).await.expect("members").members.is_empty());
}

async fn messages(admin: &Admin, topic: &str, receipts: &[SendReceipt]) {
    let ranges = admin.topic_ranges(topic).await.expect("ranges");
    assert_eq!(ranges.iter().map(|range| range.end - range.begin).sum::<i64>(), COUNT as i64, "{ranges:?}");
    assert!(ranges.iter().any(|range| range.last_stored.is_some()));
    let receipt = &receipts[3];
    let by_place = admin.message(topic, &receipt.offset_message_id().expect("one message").to_string()).await;
    assert_eq!(&by_place.expect("the message").body()[..], b"body 3");
    // Keys are indexed a moment after messages can be consumed.
    let by_id = eventually("a message by its id", || async { admin.message(topic, receipt.message_id()).await.ok() });
    let by_id = by_id.await;
    assert_eq!((&by_id.body()[..], by_id.tag(), by_id.topic()), (&b"body 3"[..], Some("made"), topic));
    let by_key = admin.messages_by_key(topic, "key-7", 10).await.expect("messages");
    assert_eq!(by_key.iter().map(|message| message.body()).collect::<Vec<_>>(), ["body 7"]);
    assert!(admin.messages_by_key(topic, "no-such-key", 10).await.expect("an answer").is_empty());
    for id in ["no id at all", "7F0000010000000100000000000000FF"] {
        let missing = admin.message(topic, id).await.expect_err("there is none");
        assert_eq!(missing.kind(), ErrorKind::NotFound, "{missing}");
    }
}

async fn offsets(client: &Client, admin: &Admin, topic: &str, group: &str) {
    let lag = || async { admin.progress(group).await.expect("progress").lag_of(topic) };
    consume_and_leave(client, admin, topic, group).await;
    assert_eq!(lag().await, 0);
    let groups = admin.groups_of_topic(topic).await.expect("groups");
    assert!(groups.contains(&group.to_owned()), "{groups:?}");

    let copy = format!("{group}-copy");
    admin.create_group(&copy).await.expect("a group");
    admin.copy_offsets(group, &copy, Some(topic)).await.expect("copied");
    let copied = admin.progress(&copy).await.expect("progress");
    assert_eq!((copied.lag(), copied.queues.iter().map(|queue| queue.committed).sum::<i64>()), (0, COUNT as i64));
    admin.delete_group(&copy).await.expect("deleted");

    // Nobody is online: the offsets are set all the same.
    let begin = admin.reset_offsets(group, topic, OffsetTarget::Begin).await.expect("set");
    assert!(!begin.is_empty() && begin.iter().all(|(_, offset)| *offset == 0), "{begin:?}");
    assert_eq!(lag().await, COUNT);
    admin.reset_offsets(group, topic, OffsetTarget::End).await.expect("set");
    assert_eq!(lag().await, 0);
    admin.reset_offsets(group, topic, OffsetTarget::Time(SystemTime::UNIX_EPOCH)).await.expect("set");
    assert_eq!(lag().await, COUNT);
    // What was set is where the group goes on.
    consume_and_leave(client, admin, topic, group).await;

    // A queue at a time.
    let queue = begin[0].0.clone();
    admin.set_offset(group, &queue, 0).await.expect("set");
    let progress = admin.progress(group).await.expect("progress");
    let of_queue = progress.queues.iter().find(|progress| progress.queue == queue).expect("the queue");
    assert_eq!((of_queue.committed, of_queue.lag()), (0, of_queue.end as u64));
}

/// Has a member of the group consume everything, and go.
async fn consume_and_leave(client: &Client, admin: &Admin, topic: &str, group: &str) {
    let (arrived, mut arrivals) = mpsc::unbounded_channel();
    let consumer = client
        .push_consumer(group)
        .subscribe(topic, "*")
        .consume_from(ConsumeFrom::First)
        .start(move |message| {
            let arrived = arrived.clone();
            async move { arrived.send(message.body()) }
        })
        .await
        .expect("a consumer");
    for _ in 0..COUNT {
        time::timeout(LIMIT, arrivals.recv()).await.expect("a message in time").expect("a message");
    }
    let online = admin.members(group).await.expect("members");
    assert!(online.members.iter().any(|member| member.client_id == client.client_id()), "{online:?}");
    assert_eq!(online.subscriptions.get(topic).map(String::as_str), Some("*"));
    consumer.shutdown().await.expect("it ends");
    eventually("the member is gone", || async {
        admin.members(group).await.expect("members").members.is_empty().then_some(())
    })
    .await;
}

async fn brokers(admin: &Admin, server: &Server) {
    let brokers = admin.brokers().await.expect("brokers");
    let master = brokers.iter().find(|broker| broker.is_master()).expect("a master");
    assert_eq!((master.cluster.as_str(), master.name.as_str()), ("DefaultCluster", "broker-a"));
    assert_eq!(master.address, server.broker());
    let status = admin.broker_status(&master.address).await.expect("a status");
    assert!(status.version().starts_with('V') && status.started().is_some(), "{status:?}");
    assert!(status.messages_put().expect("a number") >= COUNT, "{status:?}");
    let config = admin.broker_config(&master.address).await.expect("properties");
    assert_eq!(config.get("brokerName").map(String::as_str), Some("broker-a"));
    let trace_on = config.get("traceOn").expect("a property").clone();
    admin.set_broker_config(&master.address, &[("traceOn", &trace_on)]).await.expect("set");
}

/// `mqadmin`'s whole day on a broker: every command prints what it should. Those of 4.9 do not take a topic beside an id.
pub async fn mqadmin(server: &Server, tools: &Driver, id_needs_topic: bool) {
    let _shared = server.share().await;
    let client = connect(server).await;
    let (topic, group) = (server.name("by-mqadmin"), server.name("by-mqadmin-group"));
    let run = |line: String| async move {
        let output = tools.mqadmin(server.name_server(), &line).await;
        println!("mqadmin {line}\n{output}");
        assert!(!output.contains("Exception"), "mqadmin {line}: {output}");
        output
    };
    let expect = |output: String, parts: &[&str]| {
        for part in parts {
            assert!(output.contains(part), "`{part}` is missing in: {output}");
        }
    };
    let update = run(format!("updateTopic -c DefaultCluster -t {topic} -r 3 -w 3")).await;
    expect(update, &["create topic to", "success"]);
    expect(
        run(format!("updateSubGroup -c DefaultCluster -g {group} -r 3")).await,
        &["create subscription group to", "success"],
    );
    expect(run("topicList".to_owned()).await, &[&topic]);
    expect(run("topicList -c DefaultCluster".to_owned()).await, &[&topic]);
    expect(run(format!("topicRoute -t {topic}")).await, &["broker-a", server.broker()]);
    expect(run("clusterList".to_owned()).await, &["broker-a", server.broker()]);
    expect(run(format!("brokerStatus -b {}", server.broker())).await, &["brokerVersionDesc", "bootTimestamp"]);
    expect(run(format!("getBrokerConfig -b {}", server.broker())).await, &["brokerName", "broker-a"]);
    let set = format!("updateBrokerConfig -b {} -k traceOn -v true", server.broker());
    expect(run(set).await, &["success"]);
    run("getNamesrvConfig".to_owned()).await;
    run(format!("updateKvConfig -s TESTS -k {topic} -v value")).await;
    run(format!("deleteKvConfig -s TESTS -k {topic}")).await;

    let receipts = send_numbered(&client, &topic).await;
    expect(run(format!("topicStatus -t {topic}")).await, &["broker-a"]);
    let place = receipts[2].offset_message_id().expect("one message").to_string();
    let of_topic = if id_needs_topic { format!(" -t {topic}") } else { String::new() };
    expect(run(format!("queryMsgById -i {place}{of_topic}")).await, &["key-2", &topic]);
    expect(run(format!("queryMsgByKey -t {topic} -k key-4")).await, &[receipts[4].message_id()]);
    expect(run(format!("queryMsgByUniqueKey -t {topic} -i {}", receipts[5].message_id())).await, &["key-5"]);
    expect(run(format!("queryCq -t {topic} -q 0 -i 0 -b {}", server.broker())).await, &["max: ", "min: 0"]);

    consume_and_leave(&client, &client.admin(), &topic, &group).await;
    expect(run(format!("consumerProgress -g {group}")).await, &[&topic, "Diff Total: 0"]);
    let reset = run(format!("resetOffsetByTime -g {group} -t {topic} -s 0")).await;
    expect(reset, &["broker-a"]);
    let progress = client.admin().progress(&group).await.expect("progress");
    assert_eq!(progress.lag_of(&topic), COUNT);
    run(format!("cloneGroupOffset -s {group} -d {group}-copy -t {topic}")).await;
    run("statsAll".to_owned()).await;
    run(format!("brokerConsumeStats -b {}", server.broker())).await;
    online(&client, &topic, &group, &run).await;

    expect(run(format!("wipeWritePerm -b broker-a -n {}", server.name_server())).await, &["OK, "]);
    run(format!("deleteSubGroup -c DefaultCluster -g {group}")).await;
    expect(run(format!("deleteTopic -c DefaultCluster -t {topic}")).await, &["success"]);
    let left = client.admin().topics().await.expect("topics");
    assert!(!left.contains(&topic), "{left:?}");
    client.close().await;
}

/// What `mqadmin` says of clients that are connected.
async fn online<F: Future<Output = String>>(client: &Client, topic: &str, group: &str, run: &impl Fn(String) -> F) {
    let producer = client.producer("mqadmin-producers").start().await.expect("a producer");
    producer.send(Message::new(topic, "one more")).await.expect("sent");
    let consumer = client.push_consumer(group).subscribe(topic, "*").start(|_| async {}).await.expect("a consumer");
    let connections = run(format!("consumerConnection -g {group}")).await;
    assert!(connections.contains(client.client_id()) && connections.contains(topic), "{connections}");
    let producers = run(format!("producerConnection -g mqadmin-producers -t {topic}")).await;
    assert!(producers.contains(client.client_id()), "{producers}");
    producer.shutdown().await;
    consumer.shutdown().await.expect("it ends");
}
