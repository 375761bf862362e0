//! How connections behave, and what they count.

use std::sync::Arc;

use rocketmq_wire::LanguageCode;
use rocketmq_wire::frame::DEFAULT_MAX_FRAME_LENGTH;

use super::pending::MOST_SLOTS;
use super::stamp::Stamp;

/// How headers of requests are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum HeaderType {
    /// JSON until the server has answered, then binary if it is known to read that (4.4.0 and later).
    #[default]
    Auto,
    /// JSON always.
    Json,
    /// Binary always, but for codes above 32,767, which only JSON can carry.
    Binary,
}

/// How a connection behaves.
#[derive(Debug, Clone)]
pub struct ConnectionOptions {
    /// How headers are written; [`HeaderType::Auto`] by default.
    pub header_type: HeaderType,
    /// The language this client claims: [`LanguageCode::RUST`] by default. Servers that cannot know it are told
    /// [`LanguageCode::OTHER`].
    pub language: LanguageCode,
    /// Requests awaiting an answer on one connection; 65,535 by default and at most. One more waits.
    pub max_in_flight: usize,
    /// Their size in bytes, and separately the size of what has not been written yet; 64 MiB each by default. A request
    /// counts its body and 256 bytes; one that is larger than the limit goes alone.
    pub max_in_flight_bytes: usize,
    /// The largest frame accepted, in bytes; 16 MiB by default. A larger one closes the connection.
    pub max_frame_bytes: usize,
    /// What every request gets besides its own fields; nothing by default.
    pub stamp: Option<Arc<Stamp>>,
}

impl Default for ConnectionOptions {
    fn default() -> Self {
        Self {
            header_type: HeaderType::Auto,
            language: LanguageCode::RUST,
            max_in_flight: MOST_SLOTS,
            max_in_flight_bytes: 64 * 1024 * 1024,
            max_frame_bytes: DEFAULT_MAX_FRAME_LENGTH,
            stamp: None,
        }
    }
}

/// What happens on a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct ConnectionStats {
    /// Requests that await an answer.
    pub in_flight: usize,
    /// Their size in bytes.
    pub in_flight_bytes: usize,
    /// Size in bytes of requests that have not been written yet.
    pub unwritten_bytes: usize,
    /// Callers that wait because a limit is reached.
    pub waiting: usize,
    /// Answers that came when nobody waited for them (any more).
    pub unexpected_answers: u64,
    /// Requests under way or ended whose caller has not looked yet.
    pub occupied: usize,
    /// Writes to the stream: fewer than requests when they are gathered.
    pub writes: u64,
}
