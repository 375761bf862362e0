//! Why messages come, or do not.

use std::fmt;
use std::time::{Duration, SystemTime};

use super::flow_control::Excess;
use super::group::Group;
use super::owned_queue::OwnedQueue;
use crate::message::MessageQueue;

/// What a consumer knows of itself; made by [`PushConsumer::explain`](super::PushConsumer::explain). Its `Display` is a
/// text for people.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Explanation {
    /// The group.
    pub group: String,
    /// This member's id.
    pub client_id: String,
    /// The members of the group as its broker said last, this one included.
    pub members: Vec<String>,
    /// Whether the whole consumer is paused.
    pub is_paused: bool,
    /// Handlers that may run at once; 0 for a stream.
    pub concurrency: usize,
    /// The topics, the group's retry topic included.
    pub topics: Vec<TopicExplanation>,
    /// The queues that this member reads.
    pub queues: Vec<QueueExplanation>,
}

/// A topic of a consumer.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct TopicExplanation {
    /// The topic.
    pub topic: String,
    /// What is subscribed to.
    pub expression: String,
    /// How many of its queues this member reads.
    pub queues: usize,
    /// What is wrong with it, and since when; it does not exist, its members are not known, other members subscribe otherwise.
    pub trouble: Option<Trouble>,
    /// Whether it is the group's retry topic.
    pub is_retry_topic: bool,
}

/// A queue of a consumer.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct QueueExplanation {
    /// The queue.
    pub queue: MessageQueue,
    /// Whether it is being read; otherwise it is not known yet where it begins, or another member has its lock.
    pub is_read: bool,
    /// The offset that is, or will be, stored: all below it is consumed.
    pub offset: Option<i64>,
    /// Where the next pull begins.
    pub position: Option<i64>,
    /// The end of the queue, as its broker said last.
    pub end: Option<i64>,
    /// Messages from the offset to the end.
    pub lag: Option<u64>,
    /// Messages in memory, those in the hands of handlers included.
    pub cached: usize,
    /// Messages in the hands of handlers.
    pub running: usize,
    /// Why it is not pulled, if it is not.
    pub paused: Option<Paused>,
    /// When it was pulled last.
    pub last_pull: Option<SystemTime>,
    /// When a handler was last through with a message of it.
    pub last_consume: Option<SystemTime>,
    /// What went wrong last, and when.
    pub trouble: Option<Trouble>,
}

/// Something that went wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Trouble {
    /// When.
    pub time: SystemTime,
    /// What.
    pub text: String,
}

/// Why a queue is not pulled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Paused {
    /// The user has paused it, or the consumer.
    ByUser,
    /// Too many of its messages are in memory.
    ByMessages,
    /// Its messages take too much memory.
    ByBytes,
    /// An old message is still in work.
    BySpan,
    /// Another member has its lock, or the broker could not be asked.
    ByLock,
}

impl Explanation {
    /// Whether every topic exists and is shared out, and each queue is being read. A group may have more members than
    /// queues, so none need be there.
    pub fn is_ready(&self) -> bool {
        let topics_are = self.topics.iter().all(|topic| topic.is_retry_topic || topic.trouble.is_none());
        topics_are && !self.members_unknown() && self.queues.iter().all(|queue| queue.is_read)
    }

    fn members_unknown(&self) -> bool {
        self.members.is_empty() && self.topics.iter().all(|topic| topic.queues == 0)
    }

    /// What keeps messages away, one text a reason; empty if nothing does.
    pub fn reasons(&self) -> Vec<String> {
        let mut reasons = Vec::new();
        if self.is_paused {
            reasons.push("the consumer is paused: call `resume`".to_owned());
        }
        for topic in self.topics.iter().filter(|topic| !topic.is_retry_topic) {
            if let Some(trouble) = &topic.trouble {
                reasons.push(format!("topic `{}`: {}", topic.topic, trouble.text));
            } else if topic.queues == 0 && !self.members.is_empty() {
                let (members, topic) = (self.members.len(), &topic.topic);
                reasons.push(format!(
                    "topic `{topic}`: this member has none of its queues; the group has {members} members"
                ));
            }
        }
        if self.members_unknown() && reasons.is_empty() {
            reasons.push("the queues have not been shared out yet".to_owned());
        }
        for queue in &self.queues {
            match (&queue.paused, &queue.trouble) {
                (Some(paused), _) if !(self.is_paused && *paused == Paused::ByUser) => {
                    reasons.push(format!("queue {}: {paused}", queue.queue));
                }
                (None, Some(trouble)) if !queue.is_read || queue.lag.is_none_or(|lag| lag > 0) => {
                    reasons.push(format!("queue {}: {}", queue.queue, trouble.text));
                }
                _ => {}
            }
        }
        reasons
    }
}

impl fmt::Display for Paused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ByUser => "paused: call `resume` or `resume_queue`",
            Self::ByMessages => "not pulled, as too many of its messages wait for handlers (`max_cached_messages`)",
            Self::ByBytes => "not pulled, as its messages take too much memory (`max_cached_bytes`)",
            Self::BySpan => "not pulled, as an old message is still in work (`max_span`)",
            Self::ByLock => "not handled, as this member does not have its lock",
        })
    }
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "group {}, member {} of {}", self.group, self.client_id, self.members.len())?;
        for reason in self.reasons() {
            writeln!(f, "! {reason}")?;
        }
        for topic in &self.topics {
            writeln!(f, "topic {} [{}]: {} queues", topic.topic, topic.expression, topic.queues)?;
        }
        for queue in &self.queues {
            let number = |number: Option<i64>| number.map_or_else(|| "?".to_owned(), |number| number.to_string());
            let lag = number(queue.lag.and_then(|lag| i64::try_from(lag).ok()));
            writeln!(
                f,
                "queue {}: offset {}, position {}, end {}, lag {lag}, {} in memory, {} running",
                queue.queue,
                number(queue.offset),
                number(queue.position),
                number(queue.end),
                queue.cached,
                queue.running
            )?;
        }
        Ok(())
    }
}

pub(super) fn explain(group: &Group, concurrency: usize) -> Explanation {
    let queues: Vec<_> = group
        .reports
        .queues()
        .into_iter()
        .map(|(queue, report)| match &report.queue {
            Some(owned) => read_queue(group, queue, owned),
            None => QueueExplanation {
                queue,
                is_read: false,
                offset: None,
                position: None,
                end: None,
                lag: None,
                cached: 0,
                running: 0,
                paused: None,
                last_pull: None,
                last_consume: None,
                trouble: report.trouble.map(trouble),
            },
        })
        .collect();
    let mut topics_in_trouble = group.reports.topic_trouble();
    let subscriptions = group.subscriptions.borrow().clone();
    let topics = subscriptions.values().map(|subscription| TopicExplanation {
        topic: subscription.topic.to_string(),
        expression: subscription.text().to_owned(),
        queues: queues.iter().filter(|queue| queue.queue.topic() == &*subscription.topic).count(),
        trouble: topics_in_trouble.remove(&subscription.topic).map(trouble),
        is_retry_topic: subscription.topic == group.retry_topic,
    });
    Explanation {
        group: group.name.to_string(),
        client_id: group.cluster.client_id().to_string(),
        members: group.reports.known_members(),
        is_paused: *group.paused.borrow(),
        concurrency,
        topics: topics.collect(),
        queues,
    }
}

fn read_queue(group: &Group, queue: MessageQueue, owned: &OwnedQueue) -> QueueExplanation {
    let (content, notes) = (owned.content(), owned.notes());
    let paused = if owned.is_paused() {
        Some(Paused::ByUser)
    } else if !owned.is_locked(group.env().now()) {
        Some(Paused::ByLock)
    } else {
        content.excess.map(|excess| match excess {
            Excess::Messages => Paused::ByMessages,
            Excess::Bytes => Paused::ByBytes,
            Excess::Span => Paused::BySpan,
        })
    };
    let end = notes.broker_bounds.map(|(_, end)| end.max(content.position));
    QueueExplanation {
        queue,
        is_read: true,
        offset: Some(content.committable),
        position: Some(content.position),
        end,
        lag: end.map(|end| u64::try_from(end - content.committable).unwrap_or(0)),
        cached: content.load.messages,
        running: content.running,
        paused,
        last_pull: time(notes.last_pull_ms),
        last_consume: time(notes.last_consume_ms),
        trouble: notes.trouble.map(trouble),
    }
}

fn trouble((at_ms, text): (i64, String)) -> Trouble {
    Trouble { time: time(at_ms).unwrap_or(SystemTime::UNIX_EPOCH), text }
}

fn time(ms: i64) -> Option<SystemTime> {
    let since_1970 = u64::try_from(ms).ok().filter(|ms| *ms > 0)?;
    Some(SystemTime::UNIX_EPOCH + Duration::from_millis(since_1970))
}
