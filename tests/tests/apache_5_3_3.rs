//! tmp
use rocketmq_tests::{apache::*, foreign::*};

#[tokio::test(flavor = "multi_thread")]
async fn proof() {
    let version = std::env::var("V").unwrap_or("5.3.3".into());
    let started = std::time::Instant::now();
    let cluster = ApacheCluster::start(&version, ApacheOptions::default());
    println!("started {:?}", started.elapsed());
    let java = Driver::java("5.3.3", Headers::Json);
    let go = Driver::go();
    cluster.create_topic("JG", 4);
    println!("topic {:?}", started.elapsed());
    let base = Arguments::new().set("name_server", cluster.name_server()).set("topic", "JG");
    let sent = java
        .produce(
            &base.clone().set("count", 100).set("tags", "a,b").set("keys", "k-{}").set("property.unicode", "ü=日本😀"),
        )
        .sent()
        .await;
    println!("java sent {:?} {:?}", sent[0], started.elapsed());
    let mut go_consumer = go
        .consume(&base.clone().set("group", "GG").set("expression", "a").set("fail_first", 1).set("retry_level", 1))
        .await;
    let got = go_consumer.messages(100).await;
    println!("{:?} {:?}", got[99], started.elapsed());
    assert!(go_consumer.stop().await.is_empty());
    println!("stopped {:?}", started.elapsed());
    let sent = go
        .produce(&base.clone().set("count", 100).set("tags", "c").set("kind", "bytes").set("size", 5000))
        .sent()
        .await;
    println!("go sent {:?} {:?}", sent[0], started.elapsed());
    let mut java_consumer = java
        .consume(&base.clone().set("group", "GJ").set("expression", "c").set("fail_first", 1).set("retry_level", 1))
        .await;
    let got = java_consumer.messages(200).await;
    println!("{:?} {:?}", got[199], started.elapsed());
    assert!(java_consumer.stop().await.is_empty());
    println!("stopped {:?}", started.elapsed());
    println!("{}", java.mqadmin(&cluster.name_server(), "clusterList").await);
    let mut cluster = cluster;
    let t = std::time::Instant::now();
    cluster.stop_broker();
    println!("stop {:?}", t.elapsed());
    cluster.start_broker();
    println!("start {:?}", t.elapsed());
    cluster.kill_broker();
    cluster.start_broker();
    println!("kill start {:?}", t.elapsed());
}
