//! Where topics live: asked of name servers.

use std::borrow::Cow;

use super::{EmptyResponse, bare_request, request};
use crate::header::header;

header! {
    /// Asks for the route of a topic. No body; the answer's body is [`crate::model::TopicRoute`] as JSON.
    pub struct TopicRouteRequest<'a> {
        /// The topic.
        pub topic: Cow<'a, str> = "topic",
        /// Whether the answer must be standard JSON; name servers since 4.9.4.
        pub accept_standard_json_only: Option<bool> = "acceptStandardJsonOnly",
    }
}
request!(TopicRouteRequest<'a> = GET_ROUTEINFO_BY_TOPIC -> EmptyResponse);

bare_request! {
    /// Asks for all clusters and brokers. The answer's body is [`crate::model::ClusterInfo`] as JSON.
    ClusterInfoRequest = GET_BROKER_CLUSTER_INFO
}

bare_request! {
    /// Asks for the names of all topics. The answer's body is [`crate::model::TopicList`] as JSON.
    TopicListRequest = GET_ALL_TOPIC_LIST_FROM_NAMESERVER
}
