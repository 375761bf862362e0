//! Topics, groups and brokers as an administrator sees them.

use std::borrow::Cow;

use super::{EmptyResponse, bare_request, request};
use crate::header::{EncodeFields, FieldWriter, header};

header! {
    /// Creates a topic on a broker or changes it. No body.
    pub struct CreateTopicRequest<'a> {
        /// The topic.
        pub topic: Cow<'a, str> = "topic",
        /// The topic whose brokers get it; brokers themselves ignore it.
        pub default_topic: Cow<'a, str> = "defaultTopic",
        /// Queues to read from.
        pub read_queue_nums: i32 = "readQueueNums",
        /// Queues to write to.
        pub write_queue_nums: i32 = "writeQueueNums",
        /// Permission bits: 4 read, 2 write, 1 inherit.
        pub perm: i32 = "perm",
        /// `SINGLE_TAG` or `MULTI_TAG`.
        pub topic_filter_type: Cow<'a, str> = "topicFilterType",
        /// System flag of the topic.
        pub topic_sys_flag: Option<i32> = "topicSysFlag",
        /// Whether the topic is ordered.
        pub order: Option<bool> = "order",
        /// `+key=value` list joined by commas, since 5.0.
        pub attributes: Option<Cow<'a, str>> = "attributes",
        /// Whether checks may be skipped, since 5.0.
        pub force: Option<bool> = "force",
    }
}
request!(CreateTopicRequest<'a> = UPDATE_AND_CREATE_TOPIC -> EmptyResponse);

bare_request! {
    /// Creates several topics. Body: [`crate::model::TopicConfigList`] as JSON; brokers since 5.2.
    CreateTopicListRequest = UPDATE_AND_CREATE_TOPIC_LIST
}

header! {
    /// Deletes a topic, its queues and the offsets of all groups in it from a broker. No body.
    pub struct DeleteTopicRequest<'a> {
        /// The topic.
        pub topic: Cow<'a, str> = "topic",
    }
}
request!(DeleteTopicRequest<'a> = DELETE_TOPIC_IN_BROKER -> EmptyResponse);

header! {
    /// Asks for the settings of one topic. No body; the answer's body is [`crate::model::TopicConfig`] as JSON. Brokers
    /// since 5.0.
    pub struct TopicConfigRequest<'a> {
        /// The topic.
        pub topic: Cow<'a, str> = "topic",
        /// Whether a static topic is meant as a whole.
        pub logical: Option<bool> = "lo",
    }
}
request!(TopicConfigRequest<'a> = GET_TOPIC_CONFIG -> EmptyResponse);

bare_request! {
    /// Asks for the settings of all topics of a broker. The answer's body is [`crate::model::TopicConfigTable`] as JSON.
    AllTopicConfigRequest = GET_ALL_TOPIC_CONFIG
}

header! {
    /// Asks for the bounds of a topic's queues on a broker. No body; the answer's body is [`crate::model::TopicStats`]
    /// in fastjson's dialect.
    pub struct TopicStatsRequest<'a> {
        /// The topic.
        pub topic: Cow<'a, str> = "topic",
    }
}
request!(TopicStatsRequest<'a> = GET_TOPIC_STATS_INFO -> EmptyResponse);

bare_request! {
    /// Asks for a broker's system topics. The answer's body is [`crate::model::TopicList`] as JSON.
    SystemTopicsOfBrokerRequest = GET_SYSTEM_TOPIC_LIST_FROM_BROKER
}

bare_request! {
    /// Creates a consumer group on a broker or changes it. Body: [`crate::model::SubscriptionGroupConfig`] as JSON.
    CreateGroupRequest = UPDATE_AND_CREATE_SUBSCRIPTIONGROUP
}

bare_request! {
    /// Creates several consumer groups. Body: [`crate::model::SubscriptionGroupList`] as JSON; brokers since 5.2.
    CreateGroupListRequest = UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST
}

header! {
    /// Deletes a consumer group from a broker. No body.
    pub struct DeleteGroupRequest<'a> {
        /// The group.
        pub group_name: Cow<'a, str> = "groupName",
        /// Whether its offsets go too, as brokers since 5.0 call it.
        pub clean_offset: Option<bool> = "cleanOffset",
        /// Whether its offsets go too, as brokers 4.9 call it.
        pub remove_offset: Option<bool> = "removeOffset",
    }
}
request!(DeleteGroupRequest<'a> = DELETE_SUBSCRIPTIONGROUP -> EmptyResponse);

bare_request! {
    /// Asks for all consumer groups of a broker. The answer's body is [`crate::model::SubscriptionGroupTable`] as JSON.
    AllGroupConfigRequest = GET_ALL_SUBSCRIPTIONGROUP_CONFIG
}

header! {
    /// Asks for the settings of one consumer group. No body; the answer's body is
    /// [`crate::model::SubscriptionGroupConfig`] as JSON. Brokers since 5.0.
    pub struct GroupConfigRequest<'a> {
        /// The group.
        pub group: Cow<'a, str> = "group",
    }
}
request!(GroupConfigRequest<'a> = GET_SUBSCRIPTIONGROUP_CONFIG -> EmptyResponse);

header! {
    /// Asks how far a group is in its queues on a broker. No body; the answer's body is [`crate::model::ConsumeStats`]
    /// in fastjson's dialect.
    pub struct ConsumeStatsRequest<'a> {
        /// The group.
        pub consumer_group: Cow<'a, str> = "consumerGroup",
        /// The topic; absent or empty means all that the group has offsets for.
        pub topic: Option<Cow<'a, str>> = "topic",
    }
}
request!(ConsumeStatsRequest<'a> = GET_CONSUME_STATS -> EmptyResponse);

header! {
    /// Asks how far all groups are on a broker. No body; the answer's body is [`crate::model::BrokerConsumeStats`] in
    /// fastjson's dialect.
    pub struct BrokerConsumeStatsRequest {
        /// Whether ordered topics are asked for, or the others.
        pub is_order: bool = "isOrder",
    }
}
request!(BrokerConsumeStatsRequest = GET_BROKER_CONSUME_STATS -> EmptyResponse);

header! {
    /// Asks who consumes in a group. No body; the answer's body is [`crate::model::ConsumerConnection`] as JSON.
    pub struct ConsumerConnectionRequest<'a> {
        /// The group.
        pub consumer_group: Cow<'a, str> = "consumerGroup",
    }
}
request!(ConsumerConnectionRequest<'a> = GET_CONSUMER_CONNECTION_LIST -> EmptyResponse);

header! {
    /// Asks who produces in a group. No body; the answer's body is [`crate::model::ProducerConnection`] as JSON.
    pub struct ProducerConnectionRequest<'a> {
        /// The group.
        pub producer_group: Cow<'a, str> = "producerGroup",
    }
}
request!(ProducerConnectionRequest<'a> = GET_PRODUCER_CONNECTION_LIST -> EmptyResponse);

bare_request! {
    /// Asks for all producers. The answer's body is [`crate::model::ProducerTable`] as JSON.
    AllProducersRequest = GET_ALL_PRODUCER_INFO
}

header! {
    /// Asks which groups consume a topic. No body; the answer's body is [`crate::model::GroupList`] as JSON.
    pub struct TopicConsumersRequest<'a> {
        /// The topic.
        pub topic: Cow<'a, str> = "topic",
    }
}
request!(TopicConsumersRequest<'a> = QUERY_TOPIC_CONSUME_BY_WHO -> EmptyResponse);

header! {
    /// Asks which topics a group consumes. No body; the answer's body is [`crate::model::TopicList`] as JSON.
    pub struct TopicsOfGroupRequest<'a> {
        /// The group.
        pub group: Cow<'a, str> = "group",
    }
}
request!(TopicsOfGroupRequest<'a> = QUERY_TOPICS_BY_CONSUMER -> EmptyResponse);

header! {
    /// Asks for the times between which a group's queues lie. No body; the answer's body is
    /// [`crate::model::ConsumeTimeSpans`] as JSON.
    pub struct ConsumeTimeSpanRequest<'a> {
        /// The topic.
        pub topic: Cow<'a, str> = "topic",
        /// The group.
        pub group: Cow<'a, str> = "group",
    }
}
request!(ConsumeTimeSpanRequest<'a> = QUERY_CONSUME_TIME_SPAN -> EmptyResponse);

header! {
    /// Sets the offsets of a group in a topic to those of a time, or to one offset. No body; the answer's body is
    /// [`crate::model::QueueOffsets`] in fastjson's dialect.
    pub struct ResetOffsetRequest<'a> {
        /// The topic.
        pub topic: Cow<'a, str> = "topic",
        /// The group.
        pub group: Cow<'a, str> = "group",
        /// The queue; absent or -1 means all. Brokers since 5.0.
        pub queue_id: Option<i32> = "queueId",
        /// The offset to set; absent or -1 means that of the time. Brokers since 5.0.
        pub offset: Option<i64> = "offset",
        /// The time in milliseconds since 1970; -1 is the end.
        pub timestamp: i64 = "timestamp",
        /// Whether offsets may also go forward.
        pub is_force: bool = "isForce",
    }
}
request!(ResetOffsetRequest<'a> = INVOKE_BROKER_TO_RESET_OFFSET -> EmptyResponse);

header! {
    /// Tells a consumer that an administrator set its offsets; sent by the broker, one-way. Body:
    /// [`crate::model::QueueOffsets`] in fastjson's dialect.
    pub struct ResetConsumerOffsetRequest<'a> {
        /// The topic.
        pub topic: Cow<'a, str> = "topic",
        /// The group.
        pub group: Cow<'a, str> = "group",
        /// The queue, -1 for all; from brokers since 5.0.
        pub queue_id: Option<i32> = "queueId",
        /// The time asked for, in milliseconds since 1970.
        pub timestamp: i64 = "timestamp",
        /// Always false, whatever was asked for.
        pub is_force: bool = "isForce",
    }
}
request!(ResetConsumerOffsetRequest<'a> = RESET_CONSUMER_CLIENT_OFFSET -> EmptyResponse);

header! {
    /// Asks where the members of a group are, as they know it. No body; the answer's body is
    /// [`crate::model::ConsumerStatus`] in fastjson's dialect.
    pub struct ConsumerStatusRequest<'a> {
        /// The topic.
        pub topic: Cow<'a, str> = "topic",
        /// The group.
        pub group: Cow<'a, str> = "group",
        /// The client id of the member asked; absent or empty means all.
        pub client_address: Option<Cow<'a, str>> = "clientAddr",
    }
}
request!(ConsumerStatusRequest<'a> = INVOKE_BROKER_TO_GET_CONSUMER_STATUS -> EmptyResponse);

header! {
    /// Asks a consumer where it is; sent by the broker. No body; the answer's body is [`crate::model::ConsumerStatus`] in
    /// fastjson's dialect.
    pub struct ConsumerStatusFromClientRequest<'a> {
        /// The topic.
        pub topic: Cow<'a, str> = "topic",
        /// The group.
        pub group: Cow<'a, str> = "group",
    }
}
request!(ConsumerStatusFromClientRequest<'a> = GET_CONSUMER_STATUS_FROM_CLIENT -> EmptyResponse);

header! {
    /// Asks a consumer what it is doing; brokers pass it on to the client. No body; the answer's body is
    /// [`crate::model::ConsumerRunningInfo`] in fastjson's dialect.
    pub struct ConsumerRunningInfoRequest<'a> {
        /// The group.
        pub consumer_group: Cow<'a, str> = "consumerGroup",
        /// The client.
        pub client_id: Cow<'a, str> = "clientId",
        /// Whether the stacks of threads are wanted.
        pub jstack_enable: Option<bool> = "jstackEnable",
    }
}
request!(ConsumerRunningInfoRequest<'a> = GET_CONSUMER_RUNNING_INFO -> EmptyResponse);

header! {
    /// Has a consumer consume one message now; brokers pass it on to the client, with the stored message as body. The
    /// answer's body is [`crate::model::ConsumeDirectlyResult`] as JSON.
    pub struct ConsumeDirectlyRequest<'a> {
        /// The group.
        pub consumer_group: Cow<'a, str> = "consumerGroup",
        /// The client.
        pub client_id: Option<Cow<'a, str>> = "clientId",
        /// The offset id of the message.
        pub message_id: Option<Cow<'a, str>> = "msgId",
        /// The name of the broker that has the message.
        pub broker_name: Option<Cow<'a, str>> = "brokerName",
        /// The topic, since 5.0.
        pub topic: Option<Cow<'a, str>> = "topic",
        /// System flag of the topic, since 5.0.
        pub topic_sys_flag: Option<i32> = "topicSysFlag",
        /// System flag of the group, since 5.0.
        pub group_sys_flag: Option<i32> = "groupSysFlag",
    }
}
request!(ConsumeDirectlyRequest<'a> = CONSUME_MESSAGE_DIRECTLY -> EmptyResponse);

header! {
    /// Copies a group's offsets on a broker to another group. No body.
    pub struct CloneOffsetRequest<'a> {
        /// The group to copy from.
        pub source_group: Cow<'a, str> = "srcGroup",
        /// The group to copy to.
        pub target_group: Cow<'a, str> = "destGroup",
        /// The topic; absent or empty means all.
        pub topic: Option<Cow<'a, str>> = "topic",
        /// Not read by brokers.
        pub offline: Option<bool> = "offline",
    }
}
request!(CloneOffsetRequest<'a> = CLONE_GROUP_OFFSET -> EmptyResponse);

header! {
    /// Asks for the smallest offset of other groups in each queue of a topic. No body; the answer's body is
    /// [`crate::model::CorrectionOffsets`] in fastjson's dialect.
    pub struct CorrectionOffsetRequest<'a> {
        /// The topic.
        pub topic: Cow<'a, str> = "topic",
        /// The group whose offsets bound the others.
        pub compare_group: Cow<'a, str> = "compareGroup",
        /// Groups to leave out, joined by commas.
        pub filter_groups: Option<Cow<'a, str>> = "filterGroups",
    }
}
request!(CorrectionOffsetRequest<'a> = QUERY_CORRECTION_OFFSET -> EmptyResponse);

bare_request! {
    /// Asks for the offsets of all groups. The answer's body is in fastjson's dialect, as in `consumerOffset.json`.
    AllConsumerOffsetRequest = GET_ALL_CONSUMER_OFFSET
}

bare_request! {
    /// Asks for the progress of delayed messages. The answer's body is in fastjson's dialect, as in `delayOffset.json`.
    AllDelayOffsetRequest = GET_ALL_DELAY_OFFSET
}

header! {
    /// Asks for a number that the broker counts. No body; the answer's body is [`crate::model::BrokerStatsData`] as JSON.
    pub struct BrokerStatsDataRequest<'a> {
        /// What is counted, such as `TOPIC_PUT_NUMS`.
        pub stats_name: Cow<'a, str> = "statsName",
        /// For what, such as a topic, or a topic and a group joined by `@`.
        pub stats_key: Cow<'a, str> = "statsKey",
    }
}
request!(BrokerStatsDataRequest<'a> = VIEW_BROKER_STATS_DATA -> EmptyResponse);

header! {
    /// Asks for entries of a consume queue. No body; the answer's body is [`crate::model::ConsumeQueuePage`] as JSON.
    pub struct QueryConsumeQueueRequest<'a> {
        /// The topic.
        pub topic: Cow<'a, str> = "topic",
        /// The queue.
        pub queue_id: i32 = "queueId",
        /// The first offset.
        pub index: i64 = "index",
        /// How many entries.
        pub count: i32 = "count",
        /// The group whose filter is to be tried on them.
        pub consumer_group: Option<Cow<'a, str>> = "consumerGroup",
    }
}
request!(QueryConsumeQueueRequest<'a> = QUERY_CONSUME_QUEUE -> EmptyResponse);

bare_request! {
    /// Asks a broker how it is. The answer's body is [`crate::model::KeyValueTable`] as JSON.
    BrokerRuntimeInfoRequest = GET_BROKER_RUNTIME_INFO
}

bare_request! {
    /// Sets properties of a broker. Body: lines of `key=value`.
    UpdateBrokerConfigRequest = UPDATE_BROKER_CONFIG
}

/// Asks for a broker's properties. No body; the answer's body is lines of `key=value`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BrokerConfigRequest;

impl EncodeFields for BrokerConfigRequest {
    fn is_present(&self) -> bool {
        false
    }
    fn encode_fields<W: FieldWriter>(&self, _writer: &mut W) {}
}
request!(BrokerConfigRequest = GET_BROKER_CONFIG -> BrokerConfigResponse<'r>);

header! {
    /// The state of a broker's properties.
    pub struct BrokerConfigResponse<'a> {
        /// [`crate::model::DataVersion`] as JSON.
        pub version: Option<Cow<'a, str>> = "version",
    }
}

bare_request! {
    /// Deletes the consume queue files that lie before the log's beginning.
    CleanExpiredConsumeQueuesRequest = CLEAN_EXPIRED_CONSUMEQUEUE
}

bare_request! {
    /// Deletes the queues of topics that do not exist any more.
    CleanUnusedTopicsRequest = CLEAN_UNUSED_TOPIC
}

bare_request! {
    /// Deletes log files that are too old; brokers since 4.9.5.
    DeleteExpiredCommitLogRequest = DELETE_EXPIRED_COMMITLOG
}
