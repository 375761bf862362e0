//! A RocketMQ name server and broker to test against.
