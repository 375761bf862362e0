//! How brokers make themselves known to name servers.

use std::borrow::Cow;

use super::{EmptyResponse, request};
use crate::header::header;

header! {
    /// Registers a broker and its topics. Body: [`crate::model::RegisterBrokerBody`] as JSON, or deflated in a layout of
    /// its own when `compressed`. The answer's body is the name server's ordered-topic table as JSON.
    pub struct RegisterBrokerRequest<'a> {
        /// The broker's name.
        pub broker_name: Cow<'a, str> = "brokerName",
        /// The address that clients are to use.
        pub broker_address: Cow<'a, str> = "brokerAddr",
        /// The cluster's name.
        pub cluster_name: Cow<'a, str> = "clusterName",
        /// The address that slaves are to use.
        pub ha_server_address: Cow<'a, str> = "haServerAddr",
        /// 0 for the master.
        pub broker_id: i64 = "brokerId",
        /// How long the registration lasts without another one, in milliseconds.
        pub heartbeat_timeout_millis: Option<i64> = "heartbeatTimeoutMillis",
        /// Whether a slave may act as master.
        pub enable_acting_master: Option<bool> = "enableActingMaster",
        /// Whether the body is deflated.
        pub compressed: Option<bool> = "compressed",
        /// CRC-32 of the body; 0 is not checked.
        pub body_crc32: Option<i64> = "bodyCrc32",
    }
}
request!(RegisterBrokerRequest<'a> = REGISTER_BROKER -> RegisterBrokerResponse<'r>);

header! {
    /// Who the master is.
    pub struct RegisterBrokerResponse<'a> {
        /// The master's address for slaves.
        pub ha_server_address: Option<Cow<'a, str>> = "haServerAddr",
        /// The master's address.
        pub master_address: Option<Cow<'a, str>> = "masterAddr",
    }
}

header! {
    /// Takes a broker out of the name server. No body.
    pub struct UnregisterBrokerRequest<'a> {
        /// The broker's name.
        pub broker_name: Cow<'a, str> = "brokerName",
        /// The address registered.
        pub broker_address: Cow<'a, str> = "brokerAddr",
        /// The cluster's name.
        pub cluster_name: Cow<'a, str> = "clusterName",
        /// 0 for the master.
        pub broker_id: i64 = "brokerId",
    }
}
request!(UnregisterBrokerRequest<'a> = UNREGISTER_BROKER -> EmptyResponse);

header! {
    /// Asks whether a broker's topics are newer than what the name server has. Body: [`crate::model::DataVersion`] as
    /// JSON; the answer's body is the recorded version, if any.
    pub struct QueryDataVersionRequest<'a> {
        /// The broker's name.
        pub broker_name: Cow<'a, str> = "brokerName",
        /// The address registered.
        pub broker_address: Cow<'a, str> = "brokerAddr",
        /// The cluster's name.
        pub cluster_name: Cow<'a, str> = "clusterName",
        /// 0 for the master.
        pub broker_id: i64 = "brokerId",
    }
}
request!(QueryDataVersionRequest<'a> = QUERY_DATA_VERSION -> QueryDataVersionResponse);

header! {
    /// Whether the topics differ.
    pub struct QueryDataVersionResponse {
        /// Whether the name server needs a registration.
        pub changed: bool = "changed",
    }
}
