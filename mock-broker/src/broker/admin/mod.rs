//! What administrators ask of a broker, and do to it. One file for each thing that is asked about.

mod config;
mod groups;
mod members;
mod progress;
mod queries;
mod relay;
mod reset;
mod runtime;
mod topics;

use rocketmq_wire::model::MessageQueue;
use rocketmq_wire::{DecodeError, RequestCode, ResponseCode};

pub(super) use relay::{Relay, Surveys};

use super::Broker;
use crate::clock::Now;
use crate::reply::{Command, Outcome, Peer, Reply};

/// What a handler comes to.
type Handled<'a> = Result<Outcome<'a>, DecodeError>;

impl Broker {
    /// Serves a request of an administrator; none if this broker, or the version it behaves like, has no such request.
    pub(super) fn admin<'a>(&mut self, now: Now, peer: &Peer, command: &'a Command<'a>) -> Option<Handled<'a>> {
        let version = self.compatibility;
        Some(match command.code() {
            RequestCode::QUERY_MESSAGE => self.query_message(now, command),
            RequestCode::UPDATE_AND_CREATE_TOPIC_LIST if version.creates_lists() => self.create_topics(now, command),
            RequestCode::GET_ALL_TOPIC_CONFIG => self.all_topic_config(),
            RequestCode::UPDATE_BROKER_CONFIG => self.update_config(now, command),
            RequestCode::GET_BROKER_CONFIG => self.broker_config(),
            RequestCode::GET_BROKER_RUNTIME_INFO => self.runtime_info(now),
            RequestCode::VIEW_MESSAGE_BY_ID => self.view_message(command),
            RequestCode::GET_ALL_CONSUMER_OFFSET => self.all_consumer_offsets(),
            RequestCode::GET_ALL_DELAY_OFFSET => self.all_delay_offsets(),
            RequestCode::UPDATE_AND_CREATE_SUBSCRIPTIONGROUP => self.create_group(now, command),
            RequestCode::UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST if version.creates_lists() => {
                self.create_groups(now, command)
            }
            RequestCode::GET_ALL_SUBSCRIPTIONGROUP_CONFIG => self.all_group_config(),
            RequestCode::GET_SUBSCRIPTIONGROUP_CONFIG if version.has_topic_config_request() => {
                self.group_config(command)
            }
            RequestCode::DELETE_SUBSCRIPTIONGROUP => self.delete_group(now, command),
            RequestCode::GET_TOPIC_STATS_INFO => self.topic_stats(command),
            RequestCode::GET_CONSUMER_CONNECTION_LIST => self.consumer_connections(command),
            RequestCode::GET_PRODUCER_CONNECTION_LIST => self.producer_connections(command),
            RequestCode::GET_ALL_PRODUCER_INFO if version.has_requests_of_4_9() => self.all_producers(now),
            RequestCode::GET_CONSUME_STATS => self.consume_stats(command),
            RequestCode::GET_BROKER_CONSUME_STATS => self.broker_consume_stats(command),
            RequestCode::DELETE_TOPIC_IN_BROKER => self.delete_topic(now, command),
            RequestCode::INVOKE_BROKER_TO_RESET_OFFSET => self.reset_offset(command),
            RequestCode::QUERY_TOPIC_CONSUME_BY_WHO => self.topic_consumers(command),
            RequestCode::QUERY_TOPICS_BY_CONSUMER if version.has_requests_of_4_9() => self.topics_of_group(command),
            RequestCode::QUERY_SUBSCRIPTION_BY_CONSUMER if version.has_requests_of_4_9() => {
                self.subscription_of_group(command)
            }
            RequestCode::QUERY_CONSUME_TIME_SPAN => self.consume_time_span(now, command),
            RequestCode::GET_SYSTEM_TOPIC_LIST_FROM_BROKER => self.system_topics(),
            RequestCode::QUERY_CORRECTION_OFFSET => self.correction_offsets(command),
            RequestCode::CLONE_GROUP_OFFSET => self.clone_offsets(command),
            RequestCode::GET_CONSUMER_RUNNING_INFO => self.running_info(now, peer, command),
            RequestCode::CONSUME_MESSAGE_DIRECTLY => self.consume_directly(now, peer, command),
            RequestCode::INVOKE_BROKER_TO_GET_CONSUMER_STATUS => self.consumer_status(now, peer, command),
            RequestCode::VIEW_BROKER_STATS_DATA => self.stats_data(command),
            RequestCode::QUERY_CONSUME_QUEUE => self.query_consume_queue(command),
            RequestCode::DELETE_EXPIRED_COMMITLOG if version.has_requests_of_4_9() => {
                self.store.clean_at_any_hour();
                Ok(Reply::success().into())
            }
            // Queue entries that point before the log are never kept here, and of topics that were deleted nothing is.
            RequestCode::CLEAN_EXPIRED_CONSUMEQUEUE | RequestCode::CLEAN_UNUSED_TOPIC => Ok(Reply::success().into()),
            _ => return None,
        })
    }

    fn message_queue(&self, topic: &str, queue_id: i32) -> MessageQueue {
        MessageQueue { broker_name: self.settings.broker_name.clone(), queue_id, topic: topic.to_owned() }
    }
}

/// The refusal of an unknown topic.
fn no_such_topic<'a>(topic: &str) -> Handled<'a> {
    Ok(Reply::new(ResponseCode::TOPIC_NOT_EXIST).remark(format!("topic[{topic}] not exist")).into())
}
