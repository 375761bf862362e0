//! Pulling messages, at once or when some arrive: codes 11 and 361.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use rocketmq_wire::filter::SqlExpression;
use rocketmq_wire::header::DecodeFields;
use rocketmq_wire::model::perm;
use rocketmq_wire::request::pull::{PullMessageRequest, PullMessageResponse, pull_flag};
use rocketmq_wire::{DecodeError, ResponseCode};

use super::Broker;
use super::held_pulls::{HeldPull, SCAN_INTERVAL};
use crate::clock::Now;
use crate::filter::{Filter, TagFilter, is_tag_type};
use crate::reply::{Command, Effect, Outcome, Peer, Reply, ReplyBody, ReplyFields, ReturnAddress};
use crate::store::{GetOutcome, GetStatus};

/// Why a pull is forbidden, as 5.x says it in the header.
mod forbidden {
    pub(super) const BROKER: i32 = 1;
    pub(super) const GROUP: i32 = 2;
    pub(super) const TOPIC: i32 = 3;
    pub(super) const BROADCASTING: i32 = 4;
}

/// Why nothing can be pulled.
struct Refusal {
    code: ResponseCode,
    remark: Cow<'static, str>,
    /// One of [`forbidden`].
    forbidden: Option<i32>,
}

impl Refusal {
    fn new(code: ResponseCode, remark: impl Into<Cow<'static, str>>) -> Self {
        Refusal { code, remark: remark.into(), forbidden: None }
    }

    fn forbidden(kind: i32, remark: String) -> Self {
        Refusal { code: ResponseCode::NO_PERMISSION, remark: remark.into(), forbidden: Some(kind) }
    }

    fn no_sql_filter() -> Self {
        Self::new(ResponseCode::SYSTEM_ERROR, "The broker does not support consumer to filter message by SQL92")
    }
}

/// What a pull comes to.
enum Pulled {
    Answer(Reply<'static>),
    /// Nothing is there yet, and the client is ready to wait for messages that pass the filter.
    Wait(Filter),
}

impl Broker {
    /// Reads messages of a queue, or holds the request until there are some.
    pub(super) fn pull<'a>(
        &mut self,
        now: Now,
        peer: &Peer,
        command: &'a Command<'a>,
    ) -> Result<Outcome<'a>, DecodeError> {
        let request = PullMessageRequest::decode_fields(command.header.fields)?;
        // What was put before on the same connection must be found.
        self.settle(now);
        match self.try_pull(now, peer, &request, true) {
            Pulled::Answer(reply) => Ok(reply.into()),
            Pulled::Wait(filter) => {
                let wait = if self.settings.long_polling {
                    u64::try_from(request.suspend_timeout_millis).unwrap_or(0)
                } else {
                    self.settings.short_polling_ms
                };
                let to = command.return_address(peer);
                self.hold(now, peer, to, &request, filter, Duration::from_millis(wait));
                Ok(Outcome::Pending)
            }
        }
    }

    fn hold(
        &mut self,
        now: Now,
        peer: &Peer,
        to: ReturnAddress,
        request: &PullMessageRequest<'_>,
        filter: Filter,
        wait: Duration,
    ) {
        if self.held.is_empty() {
            self.next_hold_scan = now.session + SCAN_INTERVAL;
            self.timers_changed = true;
        }
        self.held.hold(HeldPull {
            peer: *peer,
            to,
            request: to_owned(request),
            filter,
            deadline: now.session.saturating_add(wait),
        });
    }

    /// Answers the pulls that were woken.
    pub(super) fn answer_woken(&mut self, now: Now) {
        for pull in self.held.take_woken() {
            let reply = match self.try_pull(now, &pull.peer, &pull.request, false) {
                Pulled::Answer(reply) => reply,
                // Only a first try waits.
                Pulled::Wait(_) => continue,
            };
            self.effects.push(Effect::Answer(pull.to, reply));
        }
    }

    fn try_pull(&mut self, now: Now, peer: &Peer, request: &PullMessageRequest<'_>, first_try: bool) -> Pulled {
        let filter = match self.check_pull(now, peer, request) {
            Ok(filter) => filter,
            Err(refusal) => return Pulled::Answer(self.refuse(refusal)),
        };
        if first_try && request.sys_flag & pull_flag::COMMIT_OFFSET != 0 {
            self.offsets.set(&request.consumer_group, &request.topic, request.queue_id, request.commit_offset);
        }
        let reset = self.offsets.take_reset(&request.consumer_group, &request.topic, request.queue_id);
        if let Some(offset) = reset {
            return Pulled::Answer(self.send_to_reset_offset(request, offset));
        }
        let max_count = usize::try_from(request.max_message_count).unwrap_or(0);
        let max_bytes =
            request.max_message_bytes.and_then(|bytes| usize::try_from(bytes).ok()).filter(|bytes| *bytes > 0);
        let found = match u64::try_from(request.queue_offset) {
            Ok(offset) => self.store.get(
                &request.topic,
                request.queue_id,
                offset,
                max_count,
                max_bytes.unwrap_or(usize::MAX),
                &filter,
            ),
            Err(_) => self.before_the_beginning(request),
        };
        let code = response_code(found.status, request.queue_offset);
        let may_wait = request.sys_flag & pull_flag::SUSPEND != 0;
        if code == ResponseCode::PULL_NOT_FOUND && first_try && may_wait && self.held.has_room() {
            return Pulled::Wait(filter);
        }
        self.offsets.set_pulled(
            &request.consumer_group,
            &request.topic,
            request.queue_id,
            found.next_begin_offset as i64,
        );
        if !found.messages.is_empty() {
            self.counters.got(&request.consumer_group, &request.topic, found.messages.len());
        }
        Pulled::Answer(self.pull_answer(code, found.status.name(), found))
    }

    /// The answer to the first pull after an administrator set the group's offset.
    fn send_to_reset_offset(&self, request: &PullMessageRequest<'_>, offset: i64) -> Reply<'static> {
        let mut found = self.store.get(&request.topic, request.queue_id, 0, 0, 0, &|_| false);
        found.next_begin_offset = u64::try_from(offset).unwrap_or(0);
        self.pull_answer(ResponseCode::PULL_OFFSET_MOVED, "OFFSET_RESET", found)
    }

    /// A negative offset is before the beginning of any queue.
    fn before_the_beginning(&self, request: &PullMessageRequest<'_>) -> GetOutcome {
        let mut found = self.store.get(&request.topic, request.queue_id, 0, 0, 0, &|_| false);
        if found.status != GetStatus::NoMessageInQueue {
            found.status = GetStatus::OffsetTooSmall;
            found.next_begin_offset = found.min_offset;
        }
        found
    }

    fn pull_answer(&self, code: ResponseCode, status: &'static str, found: GetOutcome) -> Reply<'static> {
        let flags = self.compatibility.pull_answers_flags().then_some(0);
        let fields = PullMessageResponse {
            suggest_which_broker_id: 0,
            next_begin_offset: found.next_begin_offset as i64,
            min_offset: found.min_offset as i64,
            max_offset: found.max_offset as i64,
            offset_delta: None,
            topic_sys_flag: flags,
            group_sys_flag: flags,
            forbidden_type: None,
        };
        let mut reply = Reply::new(code).remark(status).fields(ReplyFields::Pulled(fields));
        if code == ResponseCode::SUCCESS {
            reply.body = ReplyBody::Records(found.messages);
        }
        reply
    }

    /// Checks who may pull what, and finds what the consumer subscribed to.
    fn check_pull(&mut self, now: Now, peer: &Peer, request: &PullMessageRequest<'_>) -> Result<Filter, Refusal> {
        let (group, topic): (&str, &str) = (&request.consumer_group, &request.topic);
        let details = self.compatibility.further_details();
        if self.settings.permission & perm::READ == 0 {
            let remark = format!("the broker[{}] pulling message is forbidden", self.store_host.ip());
            return Err(Refusal::forbidden(forbidden::BROKER, remark));
        }
        let Some(config) = self.groups.get_or_create(group, now.message_ms) else {
            let remark = format!("subscription group [{group}] does not exist, {details}");
            return Err(Refusal::new(ResponseCode::SUBSCRIPTION_GROUP_NOT_EXIST, remark));
        };
        if !config.consume_enable {
            return Err(Refusal::forbidden(forbidden::GROUP, format!("subscription group no permission, {group}")));
        }
        let Some(settings) = self.topics.get(topic) else {
            let remark = format!("topic[{topic}] not exist, apply first please! {details}");
            return Err(Refusal::new(ResponseCode::TOPIC_NOT_EXIST, remark));
        };
        if settings.perm & perm::READ == 0 {
            return Err(Refusal::forbidden(
                forbidden::TOPIC,
                format!("the topic[{topic}] pulling message is forbidden"),
            ));
        }
        if request.queue_id < 0 || request.queue_id >= settings.read_queue_nums {
            let remark = format!(
                "queueId[{}] is illegal, topic:[{topic}] topicConfig.readQueueNums:[{}] consumer:[/{}]",
                request.queue_id, settings.read_queue_nums, peer.address
            );
            return Err(Refusal::new(self.compatibility.invalid_argument(), remark));
        }
        if request.sys_flag & pull_flag::SUBSCRIPTION != 0 {
            self.filter_of_request(request)
        } else {
            self.filter_of_heartbeat(request)
        }
    }

    fn filter_of_request(&self, request: &PullMessageRequest<'_>) -> Result<Filter, Refusal> {
        let subscription = request.subscription.as_deref().unwrap_or_default();
        if !is_tag_type(request.expression_type.as_deref()) {
            if !self.settings.filters_by_property {
                return Err(Refusal::no_sql_filter());
            }
            let parsed = SqlExpression::parse(subscription, self.compatibility.sql_dialect());
            return Ok(Filter::Sql(parsed.ok().map(Arc::new)));
        }
        TagFilter::parse(subscription).map(Filter::Tags).ok_or_else(|| {
            Refusal::new(ResponseCode::SUBSCRIPTION_PARSE_FAILED, "parse the consumer's subscription failed")
        })
    }

    fn filter_of_heartbeat(&self, request: &PullMessageRequest<'_>) -> Result<Filter, Refusal> {
        let (group, topic): (&str, &str) = (&request.consumer_group, &request.topic);
        let details = self.compatibility.further_details();
        let missing = |what: &str| {
            Refusal::new(ResponseCode::SUBSCRIPTION_NOT_EXIST, format!("the consumer's {what} not exist{details}"))
        };
        let Some(online) = self.clients.consumer_group(group) else { return Err(missing("group info")) };
        let may_broadcast = self.groups.get(group).is_none_or(|config| config.consume_broadcast_enable);
        if online.is_broadcasting() && !may_broadcast {
            let remark = format!("the consumer group[{group}] can not consume by broadcast way");
            return Err(Refusal::forbidden(forbidden::BROADCASTING, remark));
        }
        let Some(subscription) = online.subscription(topic) else { return Err(missing("subscription")) };
        if subscription.sub_version < request.sub_version {
            return Err(Refusal::new(ResponseCode::SUBSCRIPTION_NOT_LATEST, "the consumer's subscription not latest"));
        }
        if is_tag_type(Some(&subscription.expression_type)) {
            return Ok(Filter::Tags(TagFilter::of(subscription)));
        }
        let Some(known) = self.sql_filters.find(group, topic) else {
            let remark = "The broker's consumer filter data is not exist!Your expression may be wrong!";
            return Err(Refusal::new(ResponseCode::FILTER_DATA_NOT_EXIST, remark));
        };
        if known.version < request.sub_version {
            let remark = "the consumer's consumer filter data not latest";
            return Err(Refusal::new(ResponseCode::FILTER_DATA_NOT_LATEST, remark));
        }
        if !self.settings.filters_by_property {
            return Err(Refusal::no_sql_filter());
        }
        Ok(Filter::Sql(Some(Arc::clone(&known.parsed))))
    }

    fn refuse(&self, refusal: Refusal) -> Reply<'static> {
        let kind = refusal.forbidden.filter(|_| self.compatibility.pull_answers_flags());
        let fields = kind.map_or(ReplyFields::Empty, ReplyFields::PullForbidden);
        Reply::new(refusal.code).remark(refusal.remark).fields(fields)
    }
}

fn response_code(status: GetStatus, offset: i64) -> ResponseCode {
    match status {
        GetStatus::Found => ResponseCode::SUCCESS,
        GetStatus::MessageWasRemoving | GetStatus::NoMatchedMessage => ResponseCode::PULL_RETRY_IMMEDIATELY,
        GetStatus::NoMessageInQueue if offset != 0 => ResponseCode::PULL_OFFSET_MOVED,
        GetStatus::NoMessageInQueue | GetStatus::OffsetFoundNull | GetStatus::OffsetOverflowOne => {
            ResponseCode::PULL_NOT_FOUND
        }
        GetStatus::OffsetOverflowBadly | GetStatus::OffsetTooSmall => ResponseCode::PULL_OFFSET_MOVED,
    }
}

fn to_owned(request: &PullMessageRequest<'_>) -> PullMessageRequest<'static> {
    let owned = |text: &Cow<'_, str>| Cow::Owned(text.clone().into_owned());
    PullMessageRequest {
        consumer_group: owned(&request.consumer_group),
        topic: owned(&request.topic),
        subscription: request.subscription.as_ref().map(owned),
        expression_type: request.expression_type.as_ref().map(owned),
        // Neither is looked at again.
        proxy_forward_client_id: None,
        broker_name: None,
        queue_id: request.queue_id,
        queue_offset: request.queue_offset,
        max_message_count: request.max_message_count,
        sys_flag: request.sys_flag,
        commit_offset: request.commit_offset,
        suspend_timeout_millis: request.suspend_timeout_millis,
        sub_version: request.sub_version,
        max_message_bytes: request.max_message_bytes,
        request_source: request.request_source,
    }
}
