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
use rocketmq_wire::message::id::UniqueId;
use rocketmq_wire::request::send::TemplatedSend;

use super::attempt::First;
use super::choice::would_block;
use super::receipt::{ReceiptQueue, SendReceipt};
use super::under_way::Counted;
use super::verdict::{self, Verdict};
use super::{Inner, SendOptions, shut_down};
use crate::cluster::WriteQueue;
use crate::error::Result;
use crate::message::Message;
use crate::remoting::{InFlight, Response, never_left};

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
pub(super) struct Sending<'a> {
    producer: &'a Inner,
    timeout: Option<Duration>,
    /// Whether to fail instead of waiting for room.
    only_at_once: bool,
    /// Handed on when the send goes the long way.
    message: Option<Message>,
    under_way: Option<Counted<'a>>,
    /// What was handed to a connection.
    sent: Option<Sent>,
    long_way: Option<LongWay<'a>>,
}

struct Sent {
    queue: Arc<WriteQueue>,
    stamp: Stamp,
    answer: InFlight,
}

impl<'a> Sending<'a> {
    pub(super) fn new(producer: &'a Inner, message: Message, timeout: Option<Duration>) -> Self {
        Self {
            producer,
            timeout,
            only_at_once: false,
            message: Some(message),
            under_way: None,
            sent: None,
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
        // As any future that is polled once more after its end may do.
        let Some(message) = &self.message else { return Ok(()) };
        if producer.cluster.is_closed() {
            return Err(shut_down());
        }
        message.check(producer.config.max_message_size).map_err(|error| error.with_operation("send"))?;
        if !producer.is_plain(message) {
            self.go_another_way();
            return Ok(());
        }
        let (counted, way) = producer.sends.begin(|lanes| lanes.next(message.topic())).ok_or_else(shut_down)?;
        self.under_way = Some(counted);
        let stamp = producer.stamp(self.timeout);
        let Some((queue, connection)) = way else {
            self.go_the_long_way(stamp, First::NotMade);
            return Ok(());
        };
        let request = message.send_request(&queue, &producer.group, &stamp);
        let deadline = producer.attempt_deadline(0, stamp.began, stamp.deadline);
        match connection.try_call(&request, message.body(), deadline, cx.waker()) {
            Ok(Some(answer)) => self.sent = Some(Sent { queue, stamp, answer }),
            Ok(None) if self.only_at_once => return Err(would_block().with_operation("send")),
            Ok(None) => self.go_the_long_way(stamp, First::NotMade),
            Err(error) if never_left(&error) => self.go_the_long_way(stamp, First::NotMade),
            Err(error) => self.go_the_long_way(stamp, First::Made(queue, Err(error))),
        }
        Ok(())
    }

    /// Ends with the receipt, or goes on the long way.
    fn end(&mut self, sent: Sent, answer: Result<crate::remoting::Answered>) -> Option<SendReceipt> {
        let Sent { queue, stamp, answer: in_flight } = sent;
        let result = match answer {
            Ok(answered) => {
                let known = ReceiptQueue::Known(Arc::clone(&queue));
                match SendReceipt::read(&answered, known, stamp.unique_id) {
                    Some(receipt)
                        if verdict::of_status(receipt.status(), self.producer.config.retry_not_stored)
                            == Verdict::Final =>
                    {
                        return Some(receipt);
                    }
                    Some(receipt) => Ok(receipt),
                    None if answered.code() == ResponseCode::GO_AWAY => {
                        // The server has not taken it and wants to be asked on a new connection.
                        self.producer.cluster.peer(&queue.master).leave(in_flight.connection());
                        self.go_the_long_way(stamp, First::NotMade);
                        return None;
                    }
                    None => Err(Response::new(answered, Arc::clone(in_flight.connection().address())).error()),
                }
            }
            Err(error) => Err(error),
        };
        self.go_the_long_way(stamp, First::Made(queue, result));
        None
    }

    /// For messages that are more than plain: all that comes is done there, from the start.
    #[cold]
    fn go_another_way(&mut self) {
        if let Some(message) = self.message.take() {
            let options = SendOptions { timeout: self.timeout, ..SendOptions::default() };
            self.long_way = Some(Box::pin(self.producer.send_with_options(message, options)));
        }
    }

    #[cold]
    fn go_the_long_way(&mut self, stamp: Stamp, first: First) {
        if let Some(message) = self.message.take() {
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
        if let Some(sent) = &mut this.sent {
            let answer = ready!(Pin::new(&mut sent.answer).poll(cx));
            if let Some(sent) = this.sent.take()
                && let Some(receipt) = this.end(sent, answer)
            {
                this.message = None;
                this.under_way = None;
                return Poll::Ready(Ok(receipt));
            }
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
        queue: &'a WriteQueue,
        producer_group: &'a str,
        stamp: &'a Stamp,
    ) -> TemplatedSend<'a> {
        TemplatedSend {
            template: &queue.template,
            producer_group,
            sys_flag: self.sys_flag(),
            born_timestamp: stamp.born_ms,
            flag: self.user_flag(),
            properties: self.encoded_properties(),
            unique_id: stamp.unique_id.as_str(),
        }
    }
}
