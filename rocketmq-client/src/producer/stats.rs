//! What a producer counts.

/// Counts of what is easily overlooked, from [`Producer::stats`](super::Producer::stats).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct ProducerStats {
    /// Requests of this client that wait for a reply.
    pub waiting_requests: usize,
    /// Replies to this client that nobody waited for: they came too late, or twice.
    pub unknown_replies: u64,
    /// Records of message trace that were dropped: because too many waited, or because no broker took them.
    pub dropped_traces: u64,
}
