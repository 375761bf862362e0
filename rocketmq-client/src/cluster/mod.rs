//! What a client knows of its cluster: who the name servers are, where topics live, which brokers there are.

mod route;

pub(crate) use route::{Broker, MASTER_ID, Route, WriteQueue};
