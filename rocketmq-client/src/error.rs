//! The one error type of this crate.

use std::borrow::Cow;
use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;

mod refusal;

/// The result of an operation of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What went wrong, where, and what can be done about it.
///
/// [`kind`](Error::kind) is what programs decide by; the text is for people and may change. Cloning is cheap: the
/// callers that one lost connection fails all get the same cause.
#[derive(Clone)]
pub struct Error(Box<Context>);

#[derive(Clone)]
struct Context {
    kind: ErrorKind,
    message: Cow<'static, str>,
    operation: Option<&'static str>,
    broker: Option<Arc<str>>,
    response_code: Option<i32>,
    /// Refused by access control, which would refuse it again.
    by_access_control: bool,
    outcome: Outcome,
    source: Option<Arc<dyn StdError + Send + Sync>>,
}

/// The kinds of error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The server could not be reached, or the connection to it was lost.
    Connection,
    /// The time given to the operation is over.
    Timeout,
    /// No broker is known to serve the topic.
    NoRoute,
    /// The server knows the caller and refuses the operation, or the topic does not permit it.
    NotPermitted,
    /// The server does not accept the caller's credentials.
    Unauthenticated,
    /// The server is overloaded, or starting or stopping.
    Busy,
    /// An argument is not valid.
    InvalidArgument,
    /// The message is larger than allowed.
    MessageTooLarge,
    /// The broker took the message but could not store it as safely as it is configured to.
    NotStored,
    /// The offset, message, group or client asked for does not exist.
    NotFound,
    /// The server does not know the operation.
    Unsupported,
    /// The server refused the operation for another reason.
    Rejected,
    /// The peer sent something that cannot be understood.
    Protocol,
    /// The client, producer, consumer or connection has been shut down.
    Closed,
    /// It would have had to wait, and was not to.
    WouldBlock,
}

/// What is known of the effect of a request that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// The request did not leave this process.
    NotSent,
    /// The server answered that it did not do what was asked.
    Refused,
    /// The request may have been carried out: it was handed to the connection and no answer came.
    Unknown,
}

impl ErrorKind {
    /// Its name in small letters, for metrics and logs.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Connection => "connection",
            Self::Timeout => "timeout",
            Self::NoRoute => "no_route",
            Self::NotPermitted => "not_permitted",
            Self::Unauthenticated => "unauthenticated",
            Self::Busy => "busy",
            Self::InvalidArgument => "invalid_argument",
            Self::MessageTooLarge => "message_too_large",
            Self::NotStored => "not_stored",
            Self::NotFound => "not_found",
            Self::Unsupported => "unsupported",
            Self::Rejected => "rejected",
            Self::Protocol => "protocol",
            Self::Closed => "closed",
            Self::WouldBlock => "would_block",
        }
    }
}

impl Error {
    /// An error of this kind; the message says what went wrong and what to do about it.
    pub fn new(kind: ErrorKind, message: impl Into<Cow<'static, str>>) -> Self {
        Self(Box::new(Context {
            kind,
            message: message.into(),
            operation: None,
            broker: None,
            response_code: None,
            by_access_control: false,
            outcome: Outcome::NotSent,
            source: None,
        }))
    }

    /// The error that a response code other than success stands for.
    ///
    /// An empty remark is replaced by the code's number.
    pub fn from_response(code: i32, remark: Option<&str>) -> Self {
        let by_access_control = remark.and_then(|remark| refusal::by_access_control(code, remark));
        let kind = by_access_control.unwrap_or_else(|| refusal::kind_of(code));
        let mut message = match remark {
            Some(remark) if !remark.is_empty() => format!("{} (response code {code})", printable(remark)),
            _ => format!("refused with response code {code}"),
        };
        if let Some(kind) = by_access_control {
            message.push_str(match kind {
                ErrorKind::Unauthenticated => {
                    ": check the access key and the secret given to the client, and the broker's"
                }
                _ => ": ask for this permission for the access key, or use another",
            });
        } else if let Some(advice) = refusal::advice(code) {
            message.push_str(": ");
            message.push_str(advice);
        }
        let mut error = Self::new(kind, message);
        error.0.response_code = Some(code);
        error.0.by_access_control = by_access_control.is_some();
        error.0.outcome = Outcome::Refused;
        error
    }

    /// An error of the same kind and refusal with another message, which names no operation, server or cause yet.
    pub(crate) fn renewed(&self, message: impl Into<Cow<'static, str>>) -> Self {
        let mut error = Self::new(self.0.kind, message);
        error.0.response_code = self.0.response_code;
        error.0.by_access_control = self.0.by_access_control;
        error
    }

    /// Names the operation that failed; the innermost name stays.
    #[must_use]
    pub fn with_operation(mut self, operation: &'static str) -> Self {
        self.0.operation.get_or_insert(operation);
        self
    }

    /// Names the server concerned, by the address it is reached at; the innermost name stays.
    #[must_use]
    pub fn with_broker(mut self, broker: impl Into<Arc<str>>) -> Self {
        self.0.broker.get_or_insert_with(|| broker.into());
        self
    }

    /// Says what is known of the request's effect; a new error starts with [`Outcome::NotSent`].
    #[must_use]
    pub fn with_outcome(mut self, outcome: Outcome) -> Self {
        self.0.outcome = outcome;
        self
    }

    /// Replaces the message.
    #[must_use]
    pub fn with_message(mut self, message: impl Into<Cow<'static, str>>) -> Self {
        self.0.message = message.into();
        self
    }

    /// Adds the cause.
    #[must_use]
    pub fn with_source(mut self, source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        self.0.source = Some(Arc::from(source.into()));
        self
    }

    /// What went wrong, for programs to decide by.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// Whether the same operation may succeed when it is tried again, perhaps at another broker.
    ///
    /// With a response code the answer follows the retry set of the Java client 5.3.3 (1, 2, 14, 16, 17, 204, 205,
    /// 1500) and flow control (215), but for refusals by access control; without one, lost connections, timeouts and a busy server are worth another try.
    pub fn is_retriable(&self) -> bool {
        match self.0.response_code {
            _ if self.0.by_access_control => false,
            Some(code) => refusal::is_retriable(code),
            None => {
                matches!(
                    self.0.kind,
                    ErrorKind::Connection | ErrorKind::Timeout | ErrorKind::Busy | ErrorKind::Protocol
                )
            }
        }
    }

    /// The code the server answered with, if it answered.
    pub fn response_code(&self) -> Option<i32> {
        self.0.response_code
    }

    /// The address of the server concerned, as `host:port`.
    pub fn broker(&self) -> Option<&str> {
        self.0.broker.as_deref()
    }

    /// The operation that failed, such as `send` or `connect`.
    pub fn operation(&self) -> Option<&'static str> {
        self.0.operation
    }

    /// What is known of the request's effect.
    pub fn outcome(&self) -> Outcome {
        self.0.outcome
    }
}

/// A remark as it may be shown: control characters could forge log lines, and some brokers put a stack trace there.
fn printable(remark: &str) -> String {
    const LONGEST: usize = 512;
    remark.chars().take(LONGEST).map(|c| if c.is_control() { ' ' } else { c }).collect()
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.0.operation, &self.0.broker) {
            (Some(operation), Some(broker)) => write!(f, "{operation} at {broker}: {}", self.0.message),
            (Some(operation), None) => write!(f, "{operation}: {}", self.0.message),
            (None, Some(broker)) => write!(f, "{broker}: {}", self.0.message),
            (None, None) => f.write_str(&self.0.message),
        }
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Context { kind, message, operation, broker, response_code, outcome, source, by_access_control: _ } =
            &*self.0;
        f.debug_struct("Error")
            .field("kind", kind)
            .field("message", message)
            .field("operation", operation)
            .field("broker", broker)
            .field("response_code", response_code)
            .field("outcome", outcome)
            .field("source", source)
            .finish()
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.0.source.as_ref().map(|source| &**source as &(dyn StdError + 'static))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_one_word() {
        assert_eq!(size_of::<Error>(), size_of::<usize>());
        assert_eq!(size_of::<Result<()>>(), size_of::<usize>());
    }

    #[test]
    fn the_text_names_operation_server_and_remark_but_not_the_source() {
        let error = Error::from_response(2, Some("[PC_SYNCHRONIZED]broker busy\n\u{1b}[31m"))
            .with_operation("send")
            .with_broker("127.0.0.1:10911")
            .with_operation("outer")
            .with_source(std::io::Error::other("inner"));
        assert_eq!(error.to_string(), "send at 127.0.0.1:10911: [PC_SYNCHRONIZED]broker busy  [31m (response code 2)");
        assert_eq!(error.source().map(ToString::to_string), Some("inner".to_owned()));
        assert_eq!((error.operation(), error.broker()), (Some("send"), Some("127.0.0.1:10911")));
    }
}
