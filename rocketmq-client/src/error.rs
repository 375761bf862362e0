//! The one error type of this crate.

use std::borrow::Cow;
use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;

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

/// Response codes that the error kinds and the retry rule depend on.
mod code {
    pub(super) const SYSTEM_ERROR: i32 = 1;
    pub(super) const SYSTEM_BUSY: i32 = 2;
    pub(super) const REQUEST_CODE_NOT_SUPPORTED: i32 = 3;
    pub(super) const FLUSH_DISK_TIMEOUT: i32 = 10;
    pub(super) const SLAVE_NOT_AVAILABLE: i32 = 11;
    pub(super) const FLUSH_SLAVE_TIMEOUT: i32 = 12;
    pub(super) const MESSAGE_ILLEGAL: i32 = 13;
    pub(super) const SERVICE_NOT_AVAILABLE: i32 = 14;
    pub(super) const VERSION_NOT_SUPPORTED: i32 = 15;
    pub(super) const NO_PERMISSION: i32 = 16;
    pub(super) const TOPIC_NOT_EXIST: i32 = 17;
    pub(super) const QUERY_NOT_FOUND: i32 = 22;
    pub(super) const SUBSCRIPTION_PARSE_FAILED: i32 = 23;
    pub(super) const SUBSCRIPTION_GROUP_NOT_EXIST: i32 = 26;
    pub(super) const INVALID_PARAMETER: i32 = 29;
    pub(super) const NO_BUYER_ID: i32 = 204;
    pub(super) const NOT_IN_CURRENT_UNIT: i32 = 205;
    pub(super) const CONSUMER_NOT_ONLINE: i32 = 206;
    pub(super) const NO_MESSAGE: i32 = 208;
    pub(super) const POLLING_FULL: i32 = 209;
    pub(super) const BROKER_NOT_EXIST: i32 = 211;
    pub(super) const FLOW_CONTROL: i32 = 215;
    pub(super) const GO_AWAY: i32 = 1500;
    pub(super) const USER_NOT_EXIST: i32 = 3001;
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
        let by_access_control = remark.and_then(|remark| refused_by_access_control(code, remark));
        let kind = by_access_control.unwrap_or_else(|| kind_of(code));
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
            Some(
                code::SYSTEM_ERROR
                | code::SYSTEM_BUSY
                | code::SERVICE_NOT_AVAILABLE
                | code::NO_PERMISSION
                | code::TOPIC_NOT_EXIST
                | code::NO_BUYER_ID
                | code::NOT_IN_CURRENT_UNIT
                | code::FLOW_CONTROL
                | code::GO_AWAY,
            ) => true,
            Some(_) => false,
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

/// Codes of the Java client's table; what has no row of its own is [`ErrorKind::Rejected`].
fn kind_of(code: i32) -> ErrorKind {
    match code {
        code::SYSTEM_BUSY | code::SERVICE_NOT_AVAILABLE | code::POLLING_FULL | code::FLOW_CONTROL | code::GO_AWAY => {
            ErrorKind::Busy
        }
        code::REQUEST_CODE_NOT_SUPPORTED | code::VERSION_NOT_SUPPORTED => ErrorKind::Unsupported,
        code::FLUSH_DISK_TIMEOUT | code::SLAVE_NOT_AVAILABLE | code::FLUSH_SLAVE_TIMEOUT => ErrorKind::NotStored,
        code::MESSAGE_ILLEGAL | code::SUBSCRIPTION_PARSE_FAILED | code::INVALID_PARAMETER => ErrorKind::InvalidArgument,
        code::NO_PERMISSION => ErrorKind::NotPermitted,
        code::TOPIC_NOT_EXIST => ErrorKind::NoRoute,
        code::QUERY_NOT_FOUND
        | code::SUBSCRIPTION_GROUP_NOT_EXIST
        | code::CONSUMER_NOT_ONLINE
        | code::NO_MESSAGE
        | code::BROKER_NOT_EXIST => ErrorKind::NotFound,
        code::USER_NOT_EXIST => ErrorKind::Unauthenticated,
        _ => ErrorKind::Rejected,
    }
}

/// What a refusal is that access control gave as a general one: 4.x answers code 1 with the name of an exception, 5.3 and
/// later answer 16 as for topics that permit no writing.
fn refused_by_access_control(code: i32, remark: &str) -> Option<ErrorKind> {
    const UNKNOWN_CALLER_4: [&str; 3] = ["No accessKey is configured", "No acl config for", "Check signature failed"];
    const UNKNOWN_CALLER_5: [&str; 2] = ["username cannot be null", "check signature failed"];
    let names_one = |texts: &[&str]| texts.iter().any(|text| remark.contains(text));
    match code {
        code::SYSTEM_ERROR if remark.contains("acl.common.AclException") => {
            Some(if names_one(&UNKNOWN_CALLER_4) { ErrorKind::Unauthenticated } else { ErrorKind::NotPermitted })
        }
        code::NO_PERMISSION if names_one(&UNKNOWN_CALLER_5) => Some(ErrorKind::Unauthenticated),
        code::NO_PERMISSION if remark.starts_with("User:") && names_one(&["is not found", "is disabled"]) => {
            Some(ErrorKind::Unauthenticated)
        }
        code::NO_PERMISSION if remark.contains("has no permission to access") => Some(ErrorKind::NotPermitted),
        _ => None,
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
    fn codes_map_to_kinds_and_the_retry_set_is_the_java_clients() {
        for (code, kind, retriable) in [
            (1, ErrorKind::Rejected, true),
            (2, ErrorKind::Busy, true),
            (3, ErrorKind::Unsupported, false),
            (11, ErrorKind::NotStored, false),
            (13, ErrorKind::InvalidArgument, false),
            (14, ErrorKind::Busy, true),
            (16, ErrorKind::NotPermitted, true),
            (17, ErrorKind::NoRoute, true),
            (22, ErrorKind::NotFound, false),
            (204, ErrorKind::Rejected, true),
            (205, ErrorKind::Rejected, true),
            (215, ErrorKind::Busy, true),
            (1500, ErrorKind::Busy, true),
            (-1004, ErrorKind::Rejected, false),
        ] {
            let error = Error::from_response(code, None);
            assert_eq!(
                (error.kind(), error.is_retriable(), error.response_code(), error.outcome()),
                (kind, retriable, Some(code), Outcome::Refused)
            );
        }
    }

    #[test]
    fn refusals_by_access_control_are_told_from_others_and_final() {
        let acl =
            |text: &str| format!("org.apache.rocketmq.acl.common.AclException: {text}, org.apache.rocketmq.acl.x");
        let of_user = |text: &str| format!("User:nobody {text}");
        for (code, remark, kind) in [
            (1, acl("No accessKey is configured"), ErrorKind::Unauthenticated),
            (1, acl("No acl config for ak-unknown"), ErrorKind::Unauthenticated),
            (1, acl("Check signature failed for accessKey=ak-test"), ErrorKind::Unauthenticated),
            (1, acl("No default permission for topic:T"), ErrorKind::NotPermitted),
            (1, acl("Need admin permission for request code=17, but accessKey=x is not"), ErrorKind::NotPermitted),
            (16, "username cannot be null.".to_owned(), ErrorKind::Unauthenticated),
            (16, "check signature failed.".to_owned(), ErrorKind::Unauthenticated),
            (16, of_user("is not found."), ErrorKind::Unauthenticated),
            (16, of_user("is disabled."), ErrorKind::Unauthenticated),
            (
                16,
                of_user("has no permission to access Topic:T from ::1, no matched policies."),
                ErrorKind::NotPermitted,
            ),
        ] {
            let error = Error::from_response(code, Some(&remark));
            assert_eq!((error.kind(), error.is_retriable()), (kind, false), "{error}");
            let renewed = error.renewed("other");
            assert_eq!((renewed.kind(), renewed.is_retriable(), renewed.response_code()), (kind, false, Some(code)));
        }
        let topic = Error::from_response(16, Some("the topic[T] sending message is forbidden"));
        assert_eq!((topic.kind(), topic.is_retriable()), (ErrorKind::NotPermitted, true));
        assert_eq!(Error::from_response(1, Some("java.lang.NullPointerException")).kind(), ErrorKind::Rejected);
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
