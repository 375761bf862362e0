//! A RocketMQ name server and broker to test against, in one process and without a JVM.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), rocketmq_mock_broker::StartError> {
//! let broker = rocketmq_mock_broker::MockBroker::start().await?;
//! println!("clients connect to {}", broker.name_server());
//! assert!(broker.messages("orders").is_empty());
//! # Ok(())
//! # }
//! ```
//!
//! The Java, Go and C++ clients of Apache RocketMQ 4.4 to 5.x speak to it as to a broker of their own version
//! ([`Compatibility`]). Ports are free ones on 127.0.0.1, messages live in memory and time can be turned
//! ([`MockBroker::advance`]), so tests need no sleep and leave nothing behind.

mod acl;
mod broker;
pub mod clock;
mod compatibility;
mod console;
mod content;
mod embedded;
mod fault;
pub mod files;
mod filter;
mod journal;
mod json;
mod name_server;
mod pattern;
mod reply;
mod server;
mod settings;
pub mod store;

pub use compatibility::{Compatibility, UnknownCompatibility};
pub use content::{ClockView, GroupView, MemberView, MessageView, Outgoing, ProgressView, QueueView, TopicView};
pub use embedded::{FaultGuard, MockBroker, MockBrokerBuilder, MockCluster, MockClusterBuilder, StartError};
pub use fault::{Action, Fault, FaultStatus};
pub use journal::{EntryKind, JournalEntry, JournalFilter, Unmet};
pub use pattern::{Family, Port, RequestPattern, Requests};
pub use settings::SettingError;
