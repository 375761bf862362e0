//! The attempts that it took to fail.

use std::error::Error as StdError;
use std::fmt;
use std::time::Duration;

use crate::error::{Error, Outcome};
use crate::message::MessageQueue;

/// One attempt to send that failed.
#[derive(Debug, Clone)]
pub struct Attempt {
    pub(super) queue: MessageQueue,
    pub(super) elapsed: Duration,
    pub(super) error: Error,
}

impl Attempt {
    /// The queue that was tried.
    pub fn queue(&self) -> &MessageQueue {
        &self.queue
    }

    /// How long the attempt took.
    pub fn elapsed(&self) -> Duration {
        self.elapsed
    }

    /// Why it failed; [`Error::broker`] is the address that was tried.
    pub fn error(&self) -> &Error {
        &self.error
    }
}

impl fmt::Display for Attempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} queue {} after {:.1?}: {}", self.queue.broker(), self.queue.id(), self.elapsed, self.error)
    }
}

/// All attempts of a send that failed, in their order: the source of its error.
///
/// ```
/// # fn example(error: &rocketmq_native::Error) {
/// use rocketmq_native::producer::Attempts;
///
/// for attempt in Attempts::of(error).iter() {
///     println!("{} took {:?}: {}", attempt.queue(), attempt.elapsed(), attempt.error());
/// }
/// # }
/// ```
#[derive(Debug, Clone, Default)]
pub struct Attempts(Vec<Attempt>);

impl Attempts {
    /// The attempts behind an error; none when nothing was tried.
    pub fn of(error: &Error) -> &[Attempt] {
        error.source().and_then(|source| source.downcast_ref::<Self>()).map_or(&[], |attempts| &attempts.0)
    }

    pub(super) fn push(&mut self, attempt: Attempt) {
        self.0.push(attempt);
    }

    pub(super) fn last(&self) -> Option<&Attempt> {
        self.0.last()
    }

    /// The error of the whole send, of the kind of its last attempt. `None` when nothing was tried.
    pub(super) fn into_error(self, topic: &str) -> Option<Error> {
        let last = self.last()?.error.clone();
        let outcome = if self.0.iter().any(|attempt| attempt.error.outcome() == Outcome::Unknown) {
            Outcome::Unknown
        } else {
            last.outcome()
        };
        let certainty = match outcome {
            Outcome::NotSent => "was not sent",
            Outcome::Refused => "was refused",
            Outcome::Unknown => "may or may not be stored",
        };
        let message = format!("the message for `{topic}` {certainty}: {self}");
        let error = last.renewed(message).with_operation("send").with_outcome(outcome).with_source(self);
        Some(match last.broker() {
            Some(broker) => error.with_broker(broker),
            None => error,
        })
    }
}

impl fmt::Display for Attempts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, attempt) in self.0.iter().enumerate() {
            let separator = if position == 0 { "" } else { "; " };
            write!(f, "{separator}attempt {} at {attempt}", position + 1)?;
        }
        Ok(())
    }
}

impl StdError for Attempts {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.last().map(|attempt| &attempt.error as &(dyn StdError + 'static))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;

    #[test]
    fn the_error_of_a_send_shows_each_attempt_and_the_worst_that_may_have_happened() {
        let attempt = |broker: &str, ms, error| Attempt {
            queue: MessageQueue::new("t", broker, 3),
            elapsed: Duration::from_millis(ms),
            error,
        };
        let mut attempts = Attempts::default();
        let lost = Error::new(ErrorKind::Connection, "lost").with_outcome(Outcome::Unknown).with_broker("a:1");
        attempts.push(attempt("a", 2, lost));
        attempts.push(attempt("b", 10, Error::from_response(2, Some("busy")).with_broker("b:1")));
        let error = attempts.into_error("t").expect("attempts were made");
        assert_eq!((error.kind(), error.response_code()), (ErrorKind::Busy, Some(2)));
        assert_eq!((error.outcome(), error.broker(), error.operation()), (Outcome::Unknown, Some("b:1"), Some("send")));
        assert_eq!(
            error.to_string(),
            "send at b:1: the message for `t` may or may not be stored: attempt 1 at a queue 3 after 2.0ms: a:1: lost; \
             attempt 2 at b queue 3 after 10.0ms: b:1: busy (response code 2)"
        );
        assert_eq!(Attempts::of(&error).len(), 2);
        assert!(Attempts::of(&Attempts::of(&error)[0].error).is_empty());
        assert!(Attempts::default().into_error("t").is_none());
    }
}
