//! Several brokers and name servers in one process.

use std::path::PathBuf;
use std::time::Duration;

use rocketmq_wire::message::StoredMessage;

use super::start_error::Cause;
use super::{MockBroker, MockBrokerBuilder, StartError, block_on};

/// Name servers, masters and their slaves, each on a thread and ports of its own, registered at each other.
///
/// Every member is a [`MockBroker`]: it can be stopped and started again on its ports, broken by faults, and asked for what it holds.
/// Dropping the value ends all of them.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), rocketmq_mock_broker::StartError> {
/// use rocketmq_mock_broker::MockCluster;
///
/// let cluster = MockCluster::builder().name_servers(2).masters(2).slaves(1).topic("orders", 4).start().await?;
/// println!("clients connect to {}", cluster.name_servers_text());
/// cluster.master("broker-a").expect("it is there").stop().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct MockCluster {
    brokers: Vec<Member>,
    name_servers: Vec<MockBroker>,
}

#[derive(Debug)]
struct Member {
    name: String,
    is_master: bool,
    broker: MockBroker,
}

/// What a [`MockCluster`] is to be like. Made by [`MockCluster::builder`].
#[derive(Debug, Clone)]
#[must_use = "a builder does nothing until it is started"]
pub struct MockClusterBuilder {
    name_servers: usize,
    masters: usize,
    slaves: usize,
    broker: MockBrokerBuilder,
    store: Option<PathBuf>,
}

impl MockCluster {
    /// Begins to describe a cluster: one name server and two masters without slaves, unless more is said.
    pub fn builder() -> MockClusterBuilder {
        MockClusterBuilder { name_servers: 1, masters: 2, slaves: 0, broker: MockBroker::builder(), store: None }
    }

    /// The addresses of the name servers, as clients take them: separated by semicolons.
    #[must_use]
    pub fn name_servers_text(&self) -> String {
        self.name_servers.iter().map(MockBroker::name_server).collect::<Vec<_>>().join(";")
    }

    /// The name servers. Their brokers serve nobody.
    #[must_use]
    pub fn name_servers(&self) -> &[MockBroker] {
        &self.name_servers
    }

    /// All brokers, masters first.
    pub fn brokers(&self) -> impl Iterator<Item = &MockBroker> {
        self.brokers.iter().map(|member| &member.broker)
    }

    /// A master by its name: `broker-a`, `broker-b`, ..
    #[must_use]
    pub fn master(&self, name: &str) -> Option<&MockBroker> {
        self.of(name, true).next()
    }

    /// The slaves of a master.
    pub fn slaves(&self, name: &str) -> impl Iterator<Item = &MockBroker> {
        self.of(name, false)
    }

    fn of(&self, name: &str, is_master: bool) -> impl Iterator<Item = &MockBroker> {
        let members = self.brokers.iter().filter(move |member| member.is_master == is_master && member.name == name);
        members.map(|member| &member.broker)
    }

    /// Turns message time of all brokers; see [`MockBroker::advance`].
    ///
    /// # Panics
    ///
    /// When a broker is stopped.
    pub async fn advance(&self, by: Duration) {
        for broker in self.brokers() {
            broker.advance(by).await;
        }
    }

    /// The messages of a topic on all masters; see [`MockBroker::messages`].
    ///
    /// # Panics
    ///
    /// When a master is stopped.
    #[must_use]
    pub fn messages(&self, topic: &str) -> Vec<StoredMessage> {
        let masters = self.brokers.iter().filter(|member| member.is_master);
        masters.flat_map(|member| member.broker.messages(topic)).collect()
    }
}

impl MockClusterBuilder {
    /// How many name servers. Default 1.
    pub fn name_servers(mut self, count: usize) -> Self {
        self.name_servers = count.max(1);
        self
    }

    /// How many masters, called `broker-a`, `broker-b`, .. Default 2, at most 26.
    pub fn masters(mut self, count: usize) -> Self {
        self.masters = count.clamp(1, 26);
        self
    }

    /// How many slaves each master has. Default none.
    pub fn slaves(mut self, count: usize) -> Self {
        self.slaves = count;
        self
    }

    /// Has a topic on all masters, with so many queues on each.
    pub fn topic(mut self, name: &str, queues: u32) -> Self {
        self.broker = self.broker.topic(name, queues);
        self
    }

    /// Sets what all brokers have in common; names, roles, addresses and stores are the cluster's.
    pub fn each(mut self, change: impl FnOnce(MockBrokerBuilder) -> MockBrokerBuilder) -> Self {
        self.broker = change(self.broker);
        self
    }

    /// Keeps each broker's store in a directory of its name below this one. Default in memory.
    pub fn store_directory(mut self, directory: impl Into<PathBuf>) -> Self {
        self.store = Some(directory.into());
        self
    }

    /// Starts the cluster: when this returns, all brokers are registered at all name servers.
    ///
    /// # Errors
    ///
    /// As [`MockBroker::start`]; what was started is ended.
    pub async fn start(self) -> Result<MockCluster, StartError> {
        let mut cluster = MockCluster { brokers: Vec::new(), name_servers: Vec::new() };
        for _ in 0..self.name_servers {
            let names = MockBroker::builder().compatibility(self.broker.settings.compatibility).name_server_only();
            cluster.name_servers.push(names.start().await?);
        }
        let addresses = cluster.name_servers_text();
        // Slaves find their masters where those are registered.
        for id in 0..=self.slaves {
            for number in 0..self.masters {
                let name = format!("broker-{}", char::from(b'a' + number as u8));
                let role = match (id, self.slaves) {
                    (0, 0) => None,
                    (0, _) => Some("ASYNC_MASTER"),
                    _ => Some("SLAVE"),
                };
                let mut builder = set(self.broker.clone(), "brokerName", &name)?;
                builder = set(builder, "namesrvAddr", &addresses)?;
                builder = set(builder, "brokerId", &id.to_string())?;
                if let Some(role) = role {
                    builder = set(builder, "brokerRole", role)?;
                }
                if let Some(directory) = &self.store {
                    let own = if id == 0 { name.clone() } else { format!("{name}-{id}") };
                    builder = builder.store_directory(directory.join(own));
                }
                let broker = builder.start().await?;
                cluster.brokers.push(Member { name, is_master: id == 0, broker });
            }
        }
        Ok(cluster)
    }

    /// As [`start`](Self::start), for code that is not asynchronous.
    ///
    /// # Errors
    ///
    /// As [`start`](Self::start).
    pub fn start_blocking(self) -> Result<MockCluster, StartError> {
        block_on(self.start())
    }
}

fn set(builder: MockBrokerBuilder, property: &str, value: &str) -> Result<MockBrokerBuilder, StartError> {
    builder.set(property, value).map_err(|error| StartError(Cause::Address(error.to_string())))
}
