//! What administrators ask of name servers, besides routes.

use std::borrow::Cow;

use super::{EmptyResponse, bare_request, request};
use crate::header::header;

header! {
    /// Deletes a topic from a name server. No body.
    pub struct DeleteTopicInNameServerRequest<'a> {
        /// The topic.
        pub topic: Cow<'a, str> = "topic",
        /// The cluster that it is deleted from; absent means all. Name servers since 4.9.
        pub cluster_name: Option<Cow<'a, str>> = "clusterName",
    }
}
request!(DeleteTopicInNameServerRequest<'a> = DELETE_TOPIC_IN_NAMESRV -> EmptyResponse);

header! {
    /// Asks for the topics of a cluster. No body; the answer's body is [`crate::model::TopicList`] as JSON.
    pub struct TopicsByClusterRequest<'a> {
        /// The cluster.
        pub cluster: Cow<'a, str> = "cluster",
    }
}
request!(TopicsByClusterRequest<'a> = GET_TOPICS_BY_CLUSTER -> EmptyResponse);

bare_request! {
    /// Asks for the topics named like clusters and brokers. The answer's body is [`crate::model::TopicList`] as JSON.
    SystemTopicsRequest = GET_SYSTEM_TOPIC_LIST_FROM_NS
}

header! {
    /// Stores a value of the key-value configuration. No body.
    pub struct PutKvConfigRequest<'a> {
        /// The namespace.
        pub namespace: Cow<'a, str> = "namespace",
        /// The key.
        pub key: Cow<'a, str> = "key",
        /// The value.
        pub value: Cow<'a, str> = "value",
    }
}
request!(PutKvConfigRequest<'a> = PUT_KV_CONFIG -> EmptyResponse);

header! {
    /// Asks for a value of the key-value configuration. No body.
    pub struct KvConfigRequest<'a> {
        /// The namespace.
        pub namespace: Cow<'a, str> = "namespace",
        /// The key.
        pub key: Cow<'a, str> = "key",
    }
}
request!(KvConfigRequest<'a> = GET_KV_CONFIG -> KvConfigResponse<'r>);

header! {
    /// A value of the key-value configuration.
    pub struct KvConfigResponse<'a> {
        /// The value, unless there is none.
        pub value: Option<Cow<'a, str>> = "value",
    }
}

header! {
    /// Deletes a value of the key-value configuration. No body.
    pub struct DeleteKvConfigRequest<'a> {
        /// The namespace.
        pub namespace: Cow<'a, str> = "namespace",
        /// The key.
        pub key: Cow<'a, str> = "key",
    }
}
request!(DeleteKvConfigRequest<'a> = DELETE_KV_CONFIG -> EmptyResponse);

header! {
    /// Asks for all values of a namespace of the key-value configuration. No body; the answer's body is
    /// [`crate::model::KeyValueTable`] as JSON.
    pub struct KvListRequest<'a> {
        /// The namespace.
        pub namespace: Cow<'a, str> = "namespace",
    }
}
request!(KvListRequest<'a> = GET_KVLIST_BY_NAMESPACE -> EmptyResponse);

header! {
    /// Takes the permission to write away from all topics of a broker, until it registers changed topics. No body.
    pub struct WipeWritePermRequest<'a> {
        /// The broker.
        pub broker_name: Cow<'a, str> = "brokerName",
    }
}
request!(WipeWritePermRequest<'a> = WIPE_WRITE_PERM_OF_BROKER -> WipeWritePermResponse);

header! {
    /// How many topics it was taken from.
    pub struct WipeWritePermResponse {
        /// Topics.
        pub wipe_topic_count: Option<i32> = "wipeTopicCount",
    }
}

header! {
    /// Gives the permission to write back to all topics of a broker. No body; name servers since 4.9.
    pub struct AddWritePermRequest<'a> {
        /// The broker.
        pub broker_name: Cow<'a, str> = "brokerName",
    }
}
request!(AddWritePermRequest<'a> = ADD_WRITE_PERM_OF_BROKER -> AddWritePermResponse);

header! {
    /// How many topics it was given to.
    pub struct AddWritePermResponse {
        /// Topics.
        pub add_topic_count: Option<i32> = "addTopicCount",
    }
}

bare_request! {
    /// Sets properties of a name server. Body: lines of `key=value`.
    UpdateNameServerConfigRequest = UPDATE_NAMESRV_CONFIG
}

bare_request! {
    /// Asks for a name server's properties. The answer's body is lines of `key=value`.
    NameServerConfigRequest = GET_NAMESRV_CONFIG
}
