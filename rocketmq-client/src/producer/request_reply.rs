//! Requests that another client answers by a message.
//!
//! The broker passes the reply on to the client that asked, by the id that it gave in its heartbeat. Nothing of a request
//! outlives the call that made it.

use std::fmt::Write as _;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use rocketmq_wire::message::{StoredMessage, names, properties};

use super::{Inner, Producer, SendOptions, SendReceipt};
use crate::consumer::MessageView;
use crate::error::{Error, ErrorKind, Outcome, Result};
use crate::message::{Form, Message, invalid};
use crate::namespace::Namespace;

/// The largest body of a reply after decompression: as of a consumed message unless set otherwise.
const MAX_REPLY_BYTES: usize = 16 * 1024 * 1024;

impl Producer {
    /// Sends a message to whichever consumer takes it, and awaits that consumer's reply.
    ///
    /// The reply is a message of the other side: its [`body`](MessageView::body) and properties are what was replied. All
    /// within `timeout`, which the consumer is told. The consumer may be of any client that knows request-reply: this one,
    /// Java since 4.6, Go. Like every message a request may be delivered more than once; only the first reply is returned.
    ///
    /// Dropping the future gives the request up: it may be consumed all the same, and the reply is then dropped and counted
    /// in [`ProducerStats`](super::ProducerStats).
    ///
    /// ```no_run
    /// # async fn example(producer: rocketmq_native::Producer) -> Result<(), rocketmq_native::Error> {
    /// use std::time::Duration;
    ///
    /// use rocketmq_native::Message;
    ///
    /// let reply = producer.request(Message::new("prices", "apple"), Duration::from_secs(3)).await?;
    /// println!("{:?}", reply.body());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// As [`send`](Self::send) when the request cannot be sent, [`ErrorKind::Timeout`] with
    /// [`Outcome::Unknown`] when no reply comes in time, [`ErrorKind::Protocol`] for a reply that cannot be read.
    pub async fn request(&self, message: Message, timeout: Duration) -> Result<MessageView> {
        // In memory of its own: it is larger than a plain send.
        Box::pin(self.0.request(self, message, timeout)).await
    }

    /// Answers a request that a consumer has received: `body` goes to the client that made the
    /// [`request`](Self::request).
    ///
    /// It is sent by the broker that delivered the request, or by another of its cluster when that one cannot be reached.
    /// [`Message::reply_to`] makes a reply with properties of its own, to be sent as any message.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidArgument`] when the message is no request; [`ErrorKind::Rejected`] when the client that asked is
    /// not connected to the broker any more; else as [`send`](Self::send).
    pub async fn reply(&self, request: &MessageView, body: impl Into<Bytes>) -> Result<SendReceipt> {
        let reply = Message::reply_to(request, body).map_err(|error| error.with_operation("reply"))?;
        self.send_with(reply, SendOptions::at_broker(request.broker_name())).await
    }
}

impl Message {
    /// Makes the reply to a request that a consumer has received; to be sent as any message.
    ///
    /// Topic, and what links it to the request, are set: the topic of a reply is its cluster's.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidArgument`] when `request` was not sent as a request, or by way of a broker that does not know
    /// requests, one before 4.6.
    pub fn reply_to(request: &MessageView, body: impl Into<Bytes>) -> Result<Self> {
        let property = |name: &'static str| {
            request.property(name).ok_or_else(|| {
                invalid(format!(
                    "the message {} cannot be replied to: it has no property `{name}`, so it was not sent by `request`",
                    request.message_id()
                ))
            })
        };
        let mut reply = Self::new(names::reply_topic(property(properties::CLUSTER)?), body);
        reply.set_own_property(properties::MSG_TYPE, "reply");
        for name in [properties::CORRELATION_ID, properties::REPLY_TO_CLIENT] {
            reply.set_own_property(name, property(name)?);
        }
        if let Some(time) = request.property(properties::TTL) {
            reply.set_own_property(properties::TTL, time);
        }
        reply.set_form(Form::Reply);
        Ok(reply)
    }
}

impl Inner {
    async fn request(&self, producer: &Producer, mut message: Message, timeout: Duration) -> Result<MessageView> {
        let name = |error: Error| error.with_operation("request");
        let env = self.cluster.env();
        let deadline = self.deadline(env.now(), Some(timeout));
        self.make_known(&message, deadline).await.map_err(name)?;
        let mut awaited = self.cluster.replies().wait(uuid(env.random(), env.random()));
        message.set_own_property(properties::CORRELATION_ID, awaited.correlation_id());
        message.set_own_property(properties::REPLY_TO_CLIENT, self.cluster.client_id());
        message.set_own_property(properties::TTL, &timeout.as_millis().clamp(1, i64::MAX as u128).to_string());
        let topic = message.topic().to_owned();
        let options = SendOptions::new().timeout(deadline.saturating_duration_since(env.now()));
        let sent = producer.send_with(message, options);
        let reply = tokio::select! {
            biased;
            // It may come before the broker's answer.
            reply = awaited.reply() => reply,
            sent = sent => {
                sent?;
                env.within(deadline, awaited.reply()).await.flatten()
            }
        };
        match reply {
            Some(reply) => view(reply).map_err(name),
            None => Err(name(no_reply(&topic, timeout))),
        }
    }

    /// Sees to it that the brokers of the message's topic know this client, before they have a reply to pass on to it.
    async fn make_known(&self, message: &Message, deadline: Instant) -> Result<()> {
        let topic = message.shared_topic();
        let asked = || self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        if asked().contains(topic) {
            return Ok(());
        }
        self.look_up(topic, deadline).await?;
        let told = self.cluster.env().within(deadline, self.cluster.groups().tell_brokers()).await;
        told.ok_or_else(|| Error::new(ErrorKind::Timeout, "the brokers could not be told of this client in time"))?;
        asked().insert(Arc::clone(topic));
        Ok(())
    }
}

fn view(reply: StoredMessage) -> Result<MessageView> {
    let mut view = MessageView::of(reply, "", &Namespace::default());
    view.inflate(MAX_REPLY_BYTES)?;
    Ok(view)
}

fn no_reply(topic: &str, timeout: Duration) -> Error {
    Error::new(
        ErrorKind::Timeout,
        format!("no reply to the request to `{topic}` within {timeout:?}: check that a consumer of the topic replies"),
    )
    .with_outcome(Outcome::Unknown)
}

/// A random UUID (version 4) in its usual form.
fn uuid(high: u64, low: u64) -> String {
    let bits = (u128::from(high) << 64) | u128::from(low);
    let bits = (bits & !(0xf << 76) & !(0b11 << 62)) | (4 << 76) | (0b10 << 62);
    let digits = format!("{bits:032x}");
    let mut text = String::with_capacity(36);
    for (index, part) in
        [&digits[..8], &digits[8..12], &digits[12..16], &digits[16..20], &digits[20..]].iter().enumerate()
    {
        let _ = write!(text, "{}{part}", if index == 0 { "" } else { "-" });
    }
    text
}

#[cfg(test)]
mod tests {
    use super::uuid;

    #[test]
    fn ids_are_random_uuids() {
        assert_eq!(uuid(0, 0), "00000000-0000-4000-8000-000000000000");
        assert_eq!(uuid(u64::MAX, u64::MAX), "ffffffff-ffff-4fff-bfff-ffffffffffff");
        assert_eq!(uuid(0x0123_4567_89ab_cdef, 0x0123_4567_89ab_cdef), "01234567-89ab-4def-8123-456789abcdef");
    }
}
