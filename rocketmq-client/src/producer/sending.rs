//! One send, from its first poll to its receipt.
//!
//! Nearly every send goes the short way, which is all here: the queue and its connection are known, nothing has to be
//! waited for but the answer, and the answer is a success. Everything else is [`Inner::send_anywhere`], in memory of its
//! own, so that the thousands that wait for an answer are small.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use rocketmq_wire::ResponseCode;
use rocketmq_wire::message::id::{UniqueId, UniqueIdSuffix};
use rocketmq_wire::request::send::TemplatedSend;

use super::attempt::First;
use super::choice::would_block;
use super::lanes::KnownWay;
use super::receipt::{SendReceipt, SentTo};
use super::under_way::Counted;
use super::verdict::{self, Verdict};
use super::{Inner, SendOptions, SendStatus, Target, shut_down};
use crate::error::Result;
use crate::message::Message;
use crate::remoting::{Answered, InFlight, Response, never_left};

/// What stays the same over all attempts of one send.
#[derive(Debug, Clone, Copy)]
pub(super) struct Stamp {
    pub(super) began: Instant,
    pub(super) deadline: Instant,
    /// When the message was made, in milliseconds since 1970.
    pub(super) born_ms: i64,
    pub(super) unique_id: UniqueId,
}

type LongWay<'a> = Pin<Box<dyn Future<Output = Result<SendReceipt>> + Send + 'a>>;

/// Sends a message when it is first polled, and ends with the receipt.
///
/// Its fields are filled where they stand: what is moved about costs as much as what is sent.
pub(super) struct Sending<'a> {
    producer: &'a Inner,
    timeout: Option<Duration>,
    /// Whether to fail instead of waiting for room.
    only_at_once: bool,
    /// Handed on when the send goes the long way.
    message: Option<Message>,
    under_way: Option<Counted<'a>>,
    /// The answer to come, and the way that the message went.
    sent: Option<InFlight<Arc<KnownWay>>>,
    kept: Option<Kept>,
    long_way: Option<LongWay<'a>>,
}

/// What a [`Stamp`] can be made of again.
#[derive(Clone, Copy)]
struct Kept {
    began: Instant,
    born_ms: i64,
    unique_id: UniqueIdSuffix,
}

impl<'a> Sending<'a> {
    #[inline]
    pub(super) fn new(producer: &'a Inner, message: Message, timeout: Option<Duration>) -> Self {
        Self {
            producer,
            timeout,
            only_at_once: false,
            message: Some(message),
            under_way: None,
            sent: None,
            kept: None,
            long_way: None,
        }
    }

    /// One that fails instead of waiting for room.
    pub(super) fn at_once(producer: &'a Inner, message: Message) -> Self {
        Self { only_at_once: true, ..Self::new(producer, message, None) }
    }

    /// Checks the message and sends it: by the short way if there is one.
    fn begin(&mut self, cx: &mut Context<'_>) -> Result<()> {
        let producer = self.producer;
        let cluster = &producer.cluster;
        // As any future that is polled once more after its end may do.
        let Some(message) = &self.message else { return Ok(()) };
        if !producer.is_plain(message) {
            self.go_another_way();
            return Ok(());
        }
        if cluster.is_closed() {
            return Err(shut_down());
        }
        message.check(producer.config.max_message_size).map_err(|error| error.with_operation("send"))?;
        let (counted, way) = producer.sends.begin(|lanes| lanes.next(message.topic())).ok_or_else(shut_down)?;
        self.under_way = Some(counted);
        let began = cluster.env().recent();
        let born_ms = cluster.env().wall_clock_ms_at(began);
        let unique_id = cluster.unique_id_suffix(born_ms);
        self.kept = Some(Kept { began, born_ms, unique_id });
        let first = match way {
            Some(way) => {
                let request = message.send_request(&way.target, born_ms, unique_id);
                let deadline = producer.attempt_deadline(0, began, producer.deadline(began, self.timeout));
                match way.connection.try_call(&request, message.body(), deadline, cx.waker()) {
                    Ok(Some(handed)) => {
                        self.sent = Some(InFlight::new(way, handed));
                        return Ok(());
                    }
                    Ok(None) if self.only_at_once => return Err(would_block().with_operation("send")),
                    Err(error) if !never_left(&error) => First::Made(Arc::clone(&way.target), Err(error)),
                    Ok(None) | Err(_) => First::NotMade,
                }
            }
            None => First::NotMade,
        };
        self.go_the_long_way(first);
        Ok(())
    }

    /// Goes on the long way after an answer that was no full success.
    #[cold]
    fn go_on(&mut self, answer: Result<Answered>) {
        let (Some(way), Some(kept)) = (self.sent.take().and_then(InFlight::into_way), self.kept) else { return };
        let target = Arc::clone(&way.target);
        let result = match answer {
            Ok(answered) if answered.code() == ResponseCode::GO_AWAY => {
                // The server has not taken it and wants to be asked on a new connection.
                target.master.leave(&way.connection);
                return self.go_the_long_way(First::NotMade);
            }
            Ok(answered) => {
                let address = Arc::clone(way.connection.address());
                let receipt = SendReceipt::read(&answered, SentTo::way(way, kept.unique_id));
                receipt.ok_or_else(|| Response::new(answered, address).error())
            }
            Err(error) => Err(error),
        };
        self.go_the_long_way(First::Made(target, result));
    }

    /// For messages that are more than plain: all that comes is done there, from the start, failures told of included.
    #[cold]
    fn go_another_way(&mut self) {
        if let Some(message) = self.message.take() {
            let only_at_once = self.only_at_once;
            let options = SendOptions { timeout: self.timeout, only_at_once, ..SendOptions::default() };
            self.long_way = Some(Box::pin(self.producer.send_with_options(message, options)));
        }
    }

    #[cold]
    fn go_the_long_way(&mut self, first: First) {
        if let (Some(message), Some(Kept { began, born_ms, unique_id })) = (self.message.take(), self.kept) {
            let deadline = self.producer.deadline(began, self.timeout);
            let stamp = Stamp { began, deadline, born_ms, unique_id: self.producer.cluster.unique_id_of(unique_id) };
            self.long_way = Some(Box::pin(self.producer.send_anywhere(message, stamp, first)));
        }
    }
}

impl Future for Sending<'_> {
    type Output = Result<SendReceipt>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        if this.sent.is_none() && this.long_way.is_none() {
            this.begin(cx)?;
        }
        if let Some(answer) = &mut this.sent {
            let answer = ready!(Pin::new(answer).poll(cx));
            let status = answer.as_ref().ok().and_then(|answered| SendStatus::from_code(answered.code()));
            if let (Some(status), Ok(answered), Some(kept)) = (status, &answer, this.kept)
                && verdict::of_status(status, this.producer.config.retry_not_stored) == Verdict::Final
                && let Some(way) = this.sent.take().and_then(InFlight::into_way)
            {
                this.message = None;
                this.under_way = None;
                let sent_to = SentTo::way(way, kept.unique_id);
                return Poll::Ready(Ok(SendReceipt::stored(status, answered, sent_to)));
            }
            this.go_on(answer);
        }
        let Some(long_way) = &mut this.long_way else { return Poll::Pending };
        let result = ready!(long_way.as_mut().poll(cx));
        this.long_way = None;
        this.under_way = None;
        Poll::Ready(result)
    }
}

impl Message {
    /// The request that sends the message to a queue of its topic's route.
    #[inline]
    pub(super) fn send_request<'a>(
        &'a self,
        target: &'a Target,
        born_ms: i64,
        unique_id: UniqueIdSuffix,
    ) -> TemplatedSend<'a> {
        TemplatedSend {
            template: &target.template,
            sys_flag: self.sys_flag(),
            born_timestamp: born_ms,
            flag: self.user_flag(),
            properties: self.encoded_properties(),
            unique_id,
        }
    }
}
