//! A RocketMQ name server and broker to test against.

pub mod clock;
pub mod store;
