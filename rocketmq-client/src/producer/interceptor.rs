//! Code of the application that runs before and after each send.

use std::time::Duration;

use super::sending::Stamp;
use super::{Inner, SendOptions, SendReceipt};
use crate::error::{Error, Result};
use crate::message::Message;

/// Sees each message before it is sent, and what came of it.
///
/// Interceptors run in the order in which they were added, before and after alike, where the send runs: they must not
/// block. They see messages as the application made them, before compression; each message of a batch by itself. A send
/// whose future is dropped has no `after`.
///
/// ```
/// use rocketmq_native::producer::{SendInterceptor, Sent};
/// use rocketmq_native::{Message, Result};
///
/// struct Region;
///
/// impl SendInterceptor for Region {
///     fn before(&self, message: Message) -> Result<Message> {
///         Ok(message.property("region", "eu"))
///     }
///
///     fn after(&self, sent: &Sent<'_>) {
///         if let Some(error) = sent.error() {
///             eprintln!("{} after {:?}: {error}", sent.message().topic(), sent.elapsed());
///         }
///     }
/// }
/// ```
pub trait SendInterceptor: Send + Sync + 'static {
    /// Runs before a message is sent, and returns it, changed or not. An error refuses the message: it is not sent, and
    /// interceptors added later do not see it.
    ///
    /// # Errors
    ///
    /// What the send shall fail with.
    fn before(&self, message: Message) -> Result<Message> {
        Ok(message)
    }

    /// Runs when the send has ended, in whichever way.
    fn after(&self, sent: &Sent<'_>) {
        let _ = sent;
    }
}

/// A send that has ended.
#[derive(Debug, Clone, Copy)]
pub struct Sent<'a> {
    message: &'a Message,
    outcome: std::result::Result<Option<&'a SendReceipt>, &'a Error>,
    elapsed: Duration,
}

impl<'a> Sent<'a> {
    /// The message as it was sent.
    pub fn message(&self) -> &'a Message {
        self.message
    }

    /// The broker's receipt; `None` for a failure, and for a message that no broker acknowledges.
    pub fn receipt(&self) -> Option<&'a SendReceipt> {
        self.outcome.ok().flatten()
    }

    /// Why the send failed, if it did.
    pub fn error(&self) -> Option<&'a Error> {
        self.outcome.err()
    }

    /// How long it took, all attempts together.
    pub fn elapsed(&self) -> Duration {
        self.elapsed
    }
}

/// What interceptors have seen of one send, and who of them has.
pub(super) struct Seen {
    /// The message to send, and as it is shown afterwards.
    pub(super) message: Message,
    count: usize,
}

impl Inner {
    /// Runs what is to run before a send.
    pub(super) fn intercept(&self, message: Message) -> (Seen, Option<Error>) {
        let mut seen = Seen { message, count: 0 };
        for interceptor in &self.interceptors {
            seen.count += 1;
            match interceptor.before(seen.message.clone()) {
                Ok(message) => seen.message = message,
                Err(error) => return (seen, Some(error)),
            }
        }
        let refusal = seen.message.check(self.config.max_message_size).err();
        (seen, refusal)
    }

    /// Runs what is to run after a send, and traces it.
    pub(super) fn report(&self, seen: &Seen, outcome: Result<Option<&SendReceipt>, &Error>, stamp: &Stamp) {
        let elapsed = self.cluster.env().now().saturating_duration_since(stamp.began);
        let sent = Sent { message: &seen.message, outcome, elapsed };
        for interceptor in &self.interceptors[..seen.count] {
            interceptor.after(&sent);
        }
        if let (Some(tracer), Ok(Some(receipt))) = (&self.tracer, outcome) {
            tracer.sent(self, &seen.message, receipt, stamp.born_ms, elapsed);
        }
    }

    /// Sends as [`send_unwatched`](Self::send_unwatched) does, under the eyes of interceptors.
    pub(super) async fn send_watched(
        &self,
        message: Message,
        options: SendOptions,
        stamp: Stamp,
    ) -> Result<SendReceipt> {
        let (seen, refusal) = self.intercept(message);
        let result = match refusal {
            None => self.send_unwatched(seen.message.clone(), options, stamp).await,
            Some(error) => Err(error.with_operation("send")),
        };
        self.report(&seen, result.as_ref().map(Some), &stamp);
        result
    }
}
