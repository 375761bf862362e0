//! When a queue has received enough for now.

/// How much of a queue is in memory and not done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Load {
    /// Messages.
    pub(crate) messages: usize,
    /// Bytes of the answers that those messages lie in.
    pub(crate) bytes: usize,
    /// From the smallest offset that is not done to the largest one received.
    pub(crate) span: i64,
}

/// Beyond these a queue is not pulled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Limits {
    pub(crate) messages: usize,
    pub(crate) bytes: usize,
    pub(crate) span: i64,
}

/// Limits over all queues of a topic that this client reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct TopicLimits {
    pub(crate) messages: Option<usize>,
    pub(crate) bytes: Option<usize>,
}

impl TopicLimits {
    /// The limits of one of `queues` queues: an equal share, at least 1, in place of what is set for each queue.
    pub(crate) fn share(&self, each: Limits, queues: usize) -> Limits {
        let share = |of_topic: Option<usize>, of_queue| of_topic.map_or(of_queue, |all| (all / queues.max(1)).max(1));
        Limits { messages: share(self.messages, each.messages), bytes: share(self.bytes, each.bytes), span: each.span }
    }
}

impl Default for Limits {
    /// Java's: 1000 messages, 100 MiB, a span of 2000.
    fn default() -> Self {
        Self { messages: 1000, bytes: 100 << 20, span: 2000 }
    }
}

/// Which limit is exceeded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Excess {
    Messages,
    Bytes,
    Span,
}

impl Limits {
    /// The first limit that `load` is beyond. Reaching a limit is not exceeding it, so what is in memory may come to
    /// one answer more.
    pub(crate) fn exceeded_by(&self, load: Load) -> Option<Excess> {
        if load.messages > self.messages {
            Some(Excess::Messages)
        } else if load.bytes > self.bytes {
            Some(Excess::Bytes)
        } else if load.span > self.span {
            Some(Excess::Span)
        } else {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_of_a_topic_is_shared_by_its_queues() {
        let limits = TopicLimits { messages: Some(10), bytes: None };
        assert_eq!(limits.share(Limits::default(), 4), Limits { messages: 2, ..Limits::default() });
        assert_eq!(limits.share(Limits::default(), 40).messages, 1);
        assert_eq!(TopicLimits::default().share(Limits::default(), 4), Limits::default());
    }

    #[test]
    fn a_limit_may_be_reached_and_not_exceeded() {
        let limits = Limits::default();
        let full = Load { messages: 1000, bytes: 100 << 20, span: 2000 };
        assert_eq!(limits.exceeded_by(full), None);
        assert_eq!(limits.exceeded_by(Load { messages: 1001, ..full }), Some(Excess::Messages));
        assert_eq!(limits.exceeded_by(Load { bytes: (100 << 20) + 1, ..full }), Some(Excess::Bytes));
        assert_eq!(limits.exceeded_by(Load { span: 2001, ..full }), Some(Excess::Span));
    }
}
