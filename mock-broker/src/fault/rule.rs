//! A fault as a value: which requests it meets, how often, and what it does.

use std::time::Duration;

use rocketmq_wire::ResponseCode;
use serde::{Deserialize, Serialize};

use crate::pattern::{Family, Port, RequestPattern, Requests};

/// Something that is to go wrong. Begin with what happens, then say to which requests and how often; without more it happens
/// to all requests until it is removed.
///
/// ```
/// use rocketmq_mock_broker::{Family, Fault};
/// use rocketmq_wire::ResponseCode;
///
/// let fault = Fault::answer(ResponseCode::SYSTEM_BUSY, "try later").on(Family::Send).topic("orders").times(2);
/// let text = r#"{"on":{"request":"send","topic":"orders"},"times":2,"do":{"answer":{"code":2,"remark":"try later"}}}"#;
/// assert_eq!(serde_json::to_string(&fault).unwrap(), text);
/// assert_eq!("request=send,topic=orders,times=2,answer=2:try later".parse::<Fault>().unwrap(), fault);
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fault {
    /// Which requests it meets.
    #[serde(default, rename = "on")]
    pub pattern: RequestPattern,
    /// How many matching requests pass before the first one is met. Default none.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub after: u32,
    /// How many requests it meets before it is used up. Default all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub times: Option<u32>,
    /// What happens to them.
    #[serde(rename = "do")]
    pub action: Action,
}

fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// What happens to a request that a [`Fault`] meets. Times are those of sessions: real, plus what
/// [`advance_sessions`](crate::MockBroker::advance_sessions) turned.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
#[non_exhaustive]
pub enum Action {
    /// It is not acted on, and answered so.
    Answer {
        /// The response code.
        code: i32,
        /// The remark of the answer.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        remark: Option<String>,
    },
    /// It is acted on, and then answered so instead: a message is stored though its sender hears of a failure.
    AnswerAfter {
        /// The response code.
        code: i32,
        /// The remark of the answer.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        remark: Option<String>,
    },
    /// It is acted on at once, and its answer leaves so much later.
    Delay {
        /// Milliseconds.
        ms: u64,
    },
    /// As [`Delay`](Self::Delay), by times of a log-normal distribution. The same seed gives the same times in turn.
    Latency {
        /// Half of the answers take no longer, in milliseconds.
        median_ms: f64,
        /// 99 of 100 answers take no longer, in milliseconds.
        p99_ms: f64,
        /// Where the times come from.
        #[serde(default)]
        seed: u64,
    },
    /// It is lost on its way: not acted on, never answered.
    DropRequest,
    /// Its answer is lost: it is acted on.
    DropAnswer,
    /// The connection is closed instead; it is not acted on.
    Close,
    /// The connection is reset: at once, without acting on the request, or after so many bytes of the answer.
    Reset {
        /// Bytes of the answer that go out before.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        after_bytes: Option<usize>,
    },
    /// From here on nothing is read from the connection or written to it, though it stays open.
    HalfOpen,
    /// The answer ends after so many bytes, and with it the connection.
    Truncate {
        /// Bytes of the answer that go out.
        bytes: usize,
    },
    /// A byte of the answer is changed.
    Corrupt {
        /// Which; 0 to 3 are the frame's length, 4 to 7 the header's length and kind. Default 8, the first of the header.
        #[serde(default = "first_of_header")]
        at: usize,
    },
    /// The answer comes twice.
    Duplicate,
    /// The answer, and what is behind it, comes a few bytes at a time.
    Drip {
        /// Bytes written at once.
        bytes: usize,
        /// Milliseconds between two writes.
        every_ms: u64,
    },
    /// The port takes no new connections, as if nobody listened; those that exist stay. Of the pattern only the port counts;
    /// default the broker's.
    Refuse,
    /// As [`Refuse`](Self::Refuse), and connections that exist are closed: to clients the server is gone. It is back when
    /// the fault is removed.
    Off,
    /// The name server answers routes from what it knew when the fault was put: later topics, queues and brokers are missing.
    StaleRoutes,
    /// The name server knows no topic.
    NoRoutes,
    /// The disk is full: messages are refused and not stored.
    DiskFull,
    /// The disk is too slow: messages are stored, and answered with `FLUSH_DISK_TIMEOUT`.
    FlushTimeout,
    /// Slaves get nothing of what the master stores from here on, until the fault is removed. Nothing of the pattern counts.
    SlaveLag,
}

pub(super) fn first_of_header() -> usize {
    rocketmq_wire::frame::PREFIX_LENGTH
}

impl Fault {
    /// A fault of any kind, for all requests.
    #[must_use]
    pub fn new(action: Action) -> Self {
        Fault { pattern: RequestPattern::any(), after: 0, times: None, action }
    }

    /// Answers with a code and a remark, without acting on the request.
    #[must_use]
    pub fn answer(code: ResponseCode, remark: impl Into<String>) -> Self {
        Self::new(Action::Answer { code: code.0, remark: Some(remark.into()) })
    }

    /// Acts on the request, and then answers with a code and a remark.
    #[must_use]
    pub fn answer_after(code: ResponseCode, remark: impl Into<String>) -> Self {
        Self::new(Action::AnswerAfter { code: code.0, remark: Some(remark.into()) })
    }

    /// Answers later.
    #[must_use]
    pub fn delay(by: Duration) -> Self {
        Self::new(Action::Delay { ms: u64::try_from(by.as_millis()).unwrap_or(u64::MAX) })
    }

    /// Answers later, by times of which half are below `median` and 99 of 100 below `p99`.
    #[must_use]
    pub fn latency(median: Duration, p99: Duration, seed: u64) -> Self {
        let ms = |time: Duration| time.as_secs_f64() * 1000.0;
        Self::new(Action::Latency { median_ms: ms(median), p99_ms: ms(p99), seed })
    }

    /// Loses requests.
    #[must_use]
    pub fn drop_request() -> Self {
        Self::new(Action::DropRequest)
    }

    /// Loses answers.
    #[must_use]
    pub fn drop_answer() -> Self {
        Self::new(Action::DropAnswer)
    }

    /// Closes the connection instead of acting on the request.
    #[must_use]
    pub fn close() -> Self {
        Self::new(Action::Close)
    }

    /// Resets the connection instead of acting on the request.
    #[must_use]
    pub fn reset() -> Self {
        Self::new(Action::Reset { after_bytes: None })
    }

    /// Resets the connection after so many bytes of the answer.
    #[must_use]
    pub fn reset_after(bytes: usize) -> Self {
        Self::new(Action::Reset { after_bytes: Some(bytes) })
    }

    /// Makes a black hole of the connection.
    #[must_use]
    pub fn half_open() -> Self {
        Self::new(Action::HalfOpen)
    }

    /// Ends the answer, and the connection, after so many bytes; 0 closes after acting on the request.
    #[must_use]
    pub fn truncate(bytes: usize) -> Self {
        Self::new(Action::Truncate { bytes })
    }

    /// Changes a byte of the answer.
    #[must_use]
    pub fn corrupt(at: usize) -> Self {
        Self::new(Action::Corrupt { at })
    }

    /// Answers twice.
    #[must_use]
    pub fn duplicate() -> Self {
        Self::new(Action::Duplicate)
    }

    /// Answers a few bytes at a time.
    #[must_use]
    pub fn drip(bytes: usize, every: Duration) -> Self {
        Self::new(Action::Drip { bytes, every_ms: u64::try_from(every.as_millis()).unwrap_or(u64::MAX) })
    }

    /// Takes no new connections at a port.
    #[must_use]
    pub fn refuse(port: Port) -> Self {
        Self::new(Action::Refuse).port(port)
    }

    /// Switches the name server or the broker off.
    #[must_use]
    pub fn off(port: Port) -> Self {
        Self::new(Action::Off).port(port)
    }

    /// Lets the name server's routes stand still.
    #[must_use]
    pub fn stale_routes() -> Self {
        Self::new(Action::StaleRoutes)
    }

    /// Lets the name server know no topic.
    #[must_use]
    pub fn no_routes() -> Self {
        Self::new(Action::NoRoutes)
    }

    /// Refuses messages as with a full disk.
    #[must_use]
    pub fn disk_full() -> Self {
        Self::new(Action::DiskFull)
    }

    /// Stores messages and says that the disk was too slow.
    #[must_use]
    pub fn flush_timeout() -> Self {
        Self::new(Action::FlushTimeout)
    }

    /// Sends slaves nothing.
    #[must_use]
    pub fn slave_lag() -> Self {
        Self::new(Action::SlaveLag)
    }

    /// Meets only requests of a code or a family.
    #[must_use]
    pub fn on(mut self, requests: impl Into<Requests>) -> Self {
        self.pattern.request = Some(requests.into());
        self
    }

    /// Meets only requests that a pattern describes.
    #[must_use]
    pub fn matching(mut self, pattern: RequestPattern) -> Self {
        self.pattern = pattern;
        self
    }

    /// Meets only requests that name this topic.
    #[must_use]
    pub fn topic(mut self, topic: impl Into<String>) -> Self {
        self.pattern = self.pattern.topic(topic);
        self
    }

    /// Meets only requests that name this group.
    #[must_use]
    pub fn group(mut self, group: impl Into<String>) -> Self {
        self.pattern = self.pattern.group(group);
        self
    }

    /// Meets only requests that name this queue id.
    #[must_use]
    pub fn queue(mut self, queue: i32) -> Self {
        self.pattern = self.pattern.queue(queue);
        self
    }

    /// Meets only requests of this client id.
    #[must_use]
    pub fn client(mut self, client: impl Into<String>) -> Self {
        self.pattern = self.pattern.client(client);
        self
    }

    /// Meets only requests of this connection.
    #[must_use]
    pub fn connection(mut self, connection: u64) -> Self {
        self.pattern = self.pattern.connection(connection);
        self
    }

    /// Meets only requests to this port.
    #[must_use]
    pub fn port(mut self, port: Port) -> Self {
        self.pattern = self.pattern.port(port);
        self
    }

    /// Is used up when it has met so many requests. Default: never.
    #[must_use]
    pub fn times(mut self, times: u32) -> Self {
        self.times = Some(times);
        self
    }

    /// Lets so many matching requests pass first. Default none.
    #[must_use]
    pub fn after(mut self, count: u32) -> Self {
        self.after = count;
        self
    }

    /// What the fault meets if it does not say so itself.
    pub(super) fn effective_pattern(&self) -> RequestPattern {
        let mut pattern = self.pattern.clone();
        let usual = match self.action {
            Action::DiskFull | Action::FlushTimeout => Some(Family::Send),
            Action::NoRoutes | Action::StaleRoutes => Some(Family::Route),
            _ => None,
        };
        pattern.request = pattern.request.or(usual.map(Requests::Family));
        if matches!(self.action, Action::NoRoutes | Action::StaleRoutes) {
            pattern.port = Some(Port::NameServer);
        }
        pattern
    }

    /// The port that takes no connections, if the fault is of that kind.
    pub(super) fn closed_port(&self) -> Option<Port> {
        matches!(self.action, Action::Refuse | Action::Off).then(|| self.pattern.port.unwrap_or(Port::Broker))
    }

    /// Whether it meets requests, rather than being a state of the server.
    pub(super) fn meets_requests(&self) -> bool {
        !matches!(self.action, Action::Refuse | Action::Off | Action::SlaveLag)
    }
}
