//! The server of a scenario: our broker or one of Apache's.

use std::sync::{
    Arc,
    atomic::{AtomicU32, Ordering},
};

use tokio::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard};

use crate::{
    apache::{self, ApacheCluster},
    mock_process::MockProcess,
};

/// A name server and a broker that the scenarios of a test binary share.
///
/// Scenarios keep apart by topics and groups of their own ([`Server::name`]). One that stops the broker has the server
/// to itself: [`Server::exclusive`] waits for all that [`Server::share`] it.
#[derive(Debug)]
pub struct Server {
    label: String,
    name_server: String,
    broker: String,
    namespace: String,
    control: Arc<RwLock<Control>>,
}

/// The running servers of any kind.
#[derive(Debug)]
pub enum Control {
    /// Apache's.
    Apache(Box<ApacheCluster>),
    /// Ours, as the program that users run.
    Mock(MockProcess),
}

impl Server {
    /// Starts Apache's servers of one version.
    pub fn apache(version: &str) -> Self {
        let cluster = ApacheCluster::start(version, apache::ApacheOptions::default());
        Self {
            label: format!("Apache {version}"),
            name_server: cluster.name_server(),
            broker: cluster.broker(),
            namespace: String::new(),
            control: Arc::new(RwLock::new(Control::Apache(Box::new(cluster)))),
        }
    }

    /// Starts our broker with its store on disk, and with these settings besides delays that are as short as those that
    /// Apache's brokers are started with here.
    pub fn mock(settings: &[(&str, &str)]) -> Self {
        let short = [
            ("messageDelayLevel", apache::DELAY_LEVELS),
            ("transactionTimeOut", "2000"),
            ("transactionCheckInterval", "2000"),
            ("transactionCheckMax", "1000"),
            ("recallMessageEnable", "true"),
        ];
        let process = MockProcess::start(&[&short, settings].concat());
        Self {
            label: "rocketmq-mock-broker".to_owned(),
            name_server: process.addresses().name_server.clone(),
            broker: process.addresses().broker.clone(),
            namespace: String::new(),
            control: Arc::new(RwLock::new(Control::Mock(process))),
        }
    }

    /// The same server for clients in a namespace.
    #[must_use]
    pub fn in_namespace(&self, namespace: &str) -> Self {
        Self {
            label: format!("{}, in a namespace", self.label),
            name_server: self.name_server.clone(),
            broker: self.broker.clone(),
            namespace: namespace.to_owned(),
            control: Arc::clone(&self.control),
        }
    }

    /// The namespace that clients are to be in; empty for none.
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// What the server calls a topic or group of its clients.
    pub fn wire_name(&self, name: &str) -> String {
        if self.namespace.is_empty() {
            return name.to_owned();
        }
        match name.strip_prefix("%RETRY%") {
            Some(group) => format!("%RETRY%{}%{group}", self.namespace),
            None => format!("{}%{name}", self.namespace),
        }
    }

    /// What it is, for messages.
    pub fn label(&self) -> &str {
        &self.label
    }

    /// The name server's address.
    pub fn name_server(&self) -> &str {
        &self.name_server
    }

    /// The broker's address.
    pub fn broker(&self) -> &str {
        &self.broker
    }

    /// A name for a topic or group that no other scenario has.
    pub fn name(&self, what: &str) -> String {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        format!("{what}-{}", NEXT.fetch_add(1, Ordering::Relaxed))
    }

    /// Creates a topic and waits until it has a route.
    pub fn create_topic(&self, topic: &str, queues: u32) {
        apache::create_topic(&self.name_server, &self.broker, &self.wire_name(topic), queues);
    }

    /// Keeps the server running for as long as the guard lives.
    pub async fn share(&self) -> RwLockReadGuard<'_, Control> {
        self.control.read().await
    }

    /// Waits until nobody shares the server, and keeps it so.
    pub async fn exclusive(&self) -> RwLockWriteGuard<'_, Control> {
        self.control.write().await
    }
}

impl Control {
    /// Stops the broker cleanly. Apache's name server goes on; ours is in the same process and stops as well.
    pub fn stop_broker(&mut self) {
        match self {
            Self::Apache(cluster) => cluster.stop_broker(),
            Self::Mock(process) => process.stop(),
        }
    }

    /// Ends the broker as `kill -9` does.
    pub fn kill_broker(&mut self) {
        match self {
            Self::Apache(cluster) => cluster.kill_broker(),
            Self::Mock(process) => process.kill(),
        }
    }

    /// Starts the broker again on the same port and store and waits until it answers.
    pub fn start_broker(&mut self) {
        match self {
            Self::Apache(cluster) => cluster.start_broker(),
            Self::Mock(process) => process.start_again(),
        }
    }
}
