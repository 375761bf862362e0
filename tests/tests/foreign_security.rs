//! The Java and Go clients with accounts and encrypted connections, on our broker.

use std::{sync::LazyLock, time::Duration};

use rocketmq_tests::{
    access::{ADMIN, Account, CLERK, GROUPS, TOPIC, plain_acl},
    administration::run,
    certificates::Certificates,
    foreign::{Arguments, Driver, Headers},
    mock_process::MockProcess,
};

const LIMIT: Duration = Duration::from_secs(150);

static CERTIFICATES: LazyLock<Certificates> = LazyLock::new(Certificates::new);

/// A broker that serves nobody without an account, and nobody unencrypted.
fn broker(compatibility: &str) -> MockProcess {
    let directory = rocketmq_tests::cache::run_directory(&format!("secure-{compatibility}"));
    let file = directory.join("plain_acl.yml");
    std::fs::write(&file, plain_acl()).expect("written");
    let path = |name: &str| CERTIFICATES.path(name).display().to_string();
    MockProcess::start_in(
        &directory,
        &[
            ("compatibility", compatibility),
            ("aclEnable", "true"),
            ("aclFile", &file.display().to_string()),
            ("tls.server.mode", "enforcing"),
            ("tls.server.certPath", &path("server.pem")),
            ("tls.server.keyPath", &path("server.key")),
        ],
    )
}

/// A Java client that trusts the test's authority and nobody else.
fn java(version: &str) -> Driver {
    let trusted = CERTIFICATES.path("ca.pem");
    let flags = [
        "-Dtls.test.mode.enable=false".to_owned(),
        "-Dtls.client.authServer=true".to_owned(),
        format!("-Dtls.client.trustCertPath={}", trusted.display()),
    ];
    Driver::java_with(version, Headers::Json, &flags)
}

fn arguments(broker: &MockProcess, who: Option<Account>, topic: &str) -> Arguments {
    let arguments = Arguments::new().set("name_server", &broker.addresses().name_server).set("topic", topic);
    let arguments = arguments.set("tls", "true").set("retries", 0);
    match who {
        Some(who) => arguments.set("access_key", who.access_key).set("secret_key", who.secret_key),
        None => arguments,
    }
}

async fn send(driver: &Driver, broker: &MockProcess, who: Option<Account>, topic: &str, keys: &str) -> Vec<String> {
    let arguments = arguments(broker, who, topic).set("keys", keys).set("size", 3000);
    let events = driver.produce(&arguments).events(LIMIT).await;
    let failed = events.iter().filter(|event| event["event"] == "failed");
    failed.map(|event| event["message"].as_str().unwrap_or_default().to_owned()).collect()
}

async fn accounts_and_encryption(driver: &Driver, compatibility: &str) {
    let broker = broker(compatibility);
    for topic in [TOPIC, "closed"] {
        assert_eq!(send(driver, &broker, Some(ADMIN), topic, "by-admin").await, [] as [String; 0]);
    }
    assert_eq!(send(driver, &broker, Some(CLERK), TOPIC, "by-clerk").await, [] as [String; 0]);
    let wrong = Account { secret_key: "a-wrong-one", ..CLERK };
    let nobody = Account { access_key: "nobody-here", secret_key: "12345678" };
    for (who, topic) in [(None, TOPIC), (Some(nobody), TOPIC), (Some(wrong), TOPIC), (Some(CLERK), "closed")] {
        let failed = send(driver, &broker, who, topic, "refused").await;
        assert_eq!(failed.len(), 1, "{who:?} may send to {topic}");
        println!("{}: {who:?} to {topic}: {}", driver.name(), failed[0]);
    }
    let arguments = arguments(&broker, Some(CLERK), TOPIC).set("group", GROUPS[0]);
    let mut consumer = driver.consume(&arguments).await;
    let mut keys: Vec<_> = consumer.messages(2).await.into_iter().map(|message| message.keys).collect();
    keys.sort_unstable();
    assert_eq!(keys, ["by-admin", "by-clerk"]);
    assert_eq!(consumer.stop().await, []);
}

#[test]
fn java_4_9_7() {
    run(async { accounts_and_encryption(&java("4.9.7"), "4.9").await });
}

#[test]
fn java_5_3_3() {
    run(async { accounts_and_encryption(&java("5.3.3"), "5.3").await });
}

#[test]
fn go() {
    run(async { accounts_and_encryption(&Driver::go(), "5.3").await });
}

/// A Java client that does not know the authority gets nowhere.
#[test]
fn java_verifies_our_certificate() {
    run(async {
        let broker = broker("5.3");
        let stranger = Certificates::new();
        let flags = [
            "-Dtls.test.mode.enable=false".to_owned(),
            "-Dtls.client.authServer=true".to_owned(),
            format!("-Dtls.client.trustCertPath={}", stranger.path("ca.pem").display()),
        ];
        let driver = Driver::java_with("5.3.3", Headers::Json, &flags);
        assert_eq!(send(&driver, &broker, Some(ADMIN), TOPIC, "k").await.len(), 1);
    });
}
