//! Dead letters: the messages that a group could not consume, however often they were delivered.

use std::collections::VecDeque;
use std::fmt;

use rocketmq_wire::message::{names, properties};

use super::{Admin, REPLAYED_MESSAGE_ID};
use crate::consumer::{MessageView, QueueReader};
use crate::error::{Error, ErrorKind, Result};
use crate::message::{Message, MessageQueue};
use crate::producer::{Producer, SendReceipt};

/// Messages read at once.
const PAGE: u32 = 32;

/// How often a topic that was made readable is looked for.
const LOOK_AGAIN: std::time::Duration = std::time::Duration::from_millis(20);

/// The dead letters of a group, made by [`Admin::dead_letters`]. They lie in the topic `%DLQ%group` until brokers delete them
/// like other messages; nothing here deletes them.
#[derive(Debug, Clone)]
pub struct DeadLetters {
    admin: Admin,
    group: String,
    topic: String,
}

/// Sends dead letters again, one after the other, made by [`DeadLetters::replay`].
///
/// Each message is sent first and counted then: its offset is committed, for the group in the topic of its dead letters. So
/// a replay that was interrupted goes on where it stopped, in this process or another; at most the one message that was
/// under way is sent twice, and none is lost. What becomes a dead letter meanwhile is left to the next replay.
#[must_use = "nothing is sent before `next` is called"]
pub struct DeadLetterReplay<'a> {
    letters: DeadLetters,
    producer: &'a Producer,
    /// Where all messages are sent, unless each goes to the topic that it was sent to first.
    target: Option<String>,
    queues: VecDeque<Remaining>,
    /// Read and not sent yet, of the first queue.
    page: VecDeque<MessageView>,
    total: u64,
    done: u64,
}

/// What is left of a queue.
#[derive(Debug)]
struct Remaining {
    queue: MessageQueue,
    next: i64,
    end: i64,
}

impl Remaining {
    fn count(&self) -> u64 {
        u64::try_from(self.end - self.next).unwrap_or(0)
    }
}

/// How far a replay is, after one more message.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ReplayProgress {
    /// Dead letters done so far, by this replay.
    pub done: u64,
    /// Dead letters that there were to do when it began.
    pub total: u64,
    /// The dead letter that was just sent.
    pub dead_letter: MessageView,
    /// The receipt for it.
    pub receipt: SendReceipt,
}

impl Admin {
    /// The dead letters of a consumer group.
    pub fn dead_letters(&self, group: impl Into<String>) -> DeadLetters {
        let group = group.into();
        DeadLetters { admin: self.clone(), topic: names::dead_letter_topic(&group), group }
    }
}

impl DeadLetters {
    /// The topic that they lie in: `%DLQ%group`.
    pub fn topic(&self) -> &str {
        &self.topic
    }

    fn reader(&self) -> QueueReader {
        QueueReader::new(self.admin.cluster.clone(), self.group.clone())
    }

    /// The queues of the topic; none if there never was a dead letter.
    ///
    /// Brokers 4.4 make the topic so that it cannot be read, so it is made readable here.
    async fn queues(&self, reader: &QueueReader) -> Result<Vec<MessageQueue>> {
        match reader.queues(&self.topic).await {
            Ok(queues) if !queues.is_empty() => return Ok(queues),
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::NoRoute => return Ok(Vec::new()),
            Err(error) => return Err(error),
        }
        for settings in self.admin.topic(&self.topic).await?.into_values() {
            self.admin.set_topic(&settings.readable(true)).await?;
        }
        let env = self.admin.cluster.env();
        let deadline = self.admin.deadline();
        loop {
            let queues = reader.queues(&self.topic).await?;
            if !queues.is_empty() || env.now() >= deadline {
                return Ok(queues);
            }
            env.sleep(LOOK_AGAIN).await;
        }
    }

    /// Counts all dead letters that brokers still have, replayed or not.
    ///
    /// # Errors
    ///
    /// When a broker does not answer.
    pub async fn count(&self) -> Result<u64> {
        let count = async {
            let reader = self.reader();
            let mut count = 0;
            for queue in self.queues(&reader).await? {
                count += u64::try_from(reader.end(&queue).await? - reader.begin(&queue).await?).unwrap_or(0);
            }
            Ok(count)
        };
        count.await.map_err(|error: Error| error.with_operation("count dead letters"))
    }

    /// Reads at most `limit` dead letters, the oldest of each queue first, replayed or not. A dead letter's topic is that of
    /// the dead letters; [`original_topic`](Self::original_topic) tells where it was sent first.
    ///
    /// # Errors
    ///
    /// When a broker does not answer.
    pub async fn list(&self, limit: usize) -> Result<Vec<MessageView>> {
        let list = async {
            let reader = self.reader();
            let mut letters = Vec::new();
            for queue in self.queues(&reader).await? {
                let mut offset = reader.begin(&queue).await?;
                while letters.len() < limit {
                    let pulled = reader.pull(&queue, offset, PAGE).await?;
                    letters.extend(pulled.messages);
                    if pulled.next_offset <= offset || pulled.next_offset >= pulled.end {
                        break;
                    }
                    offset = pulled.next_offset;
                }
            }
            letters.truncate(limit);
            Ok(letters)
        };
        list.await.map_err(|error: Error| error.with_operation("list dead letters"))
    }

    /// The topic that a dead letter was sent to first, if it says so: those that brokers and clients of RocketMQ make do.
    pub fn original_topic(&self, dead_letter: &MessageView) -> Option<String> {
        let names = [properties::RETRY_TOPIC, properties::DLQ_ORIGIN_TOPIC];
        let topic = names.into_iter().find_map(|name| dead_letter.property(name))?;
        Some(self.admin.cluster.namespace().unwrap(topic).into_owned())
    }

    /// Begins, or goes on, to send the dead letters again, each to the topic that it was sent to first.
    ///
    /// Every group that reads that topic gets them, with the property [`REPLAYED_MESSAGE_ID`].
    ///
    /// # Errors
    ///
    /// When a broker does not answer.
    pub async fn replay<'a>(&self, producer: &'a Producer) -> Result<DeadLetterReplay<'a>> {
        let begin = async {
            let reader = self.reader();
            let mut queues = VecDeque::new();
            for queue in self.queues(&reader).await? {
                let (begin, end) = (reader.begin(&queue).await?, reader.end(&queue).await?);
                let committed = reader.committed(&queue).await?.unwrap_or(begin);
                queues.push_back(Remaining { queue, next: committed.clamp(begin, end), end });
            }
            Ok(queues)
        };
        let queues = begin.await.map_err(|error: Error| error.with_operation("replay dead letters"))?;
        let total = queues.iter().map(Remaining::count).sum();
        Ok(DeadLetterReplay {
            letters: self.clone(),
            producer,
            target: None,
            queues,
            page: VecDeque::new(),
            total,
            done: 0,
        })
    }
}

impl DeadLetterReplay<'_> {
    /// Sends all messages to one topic, in place of the one that each was sent to first.
    pub fn to(mut self, topic: impl Into<String>) -> Self {
        self.target = Some(topic.into());
        self
    }

    /// Dead letters that are still to be sent.
    pub fn remaining(&self) -> u64 {
        self.total.saturating_sub(self.done)
    }

    /// Sends the next dead letter and commits that it is done; none when all are done.
    ///
    /// After an error the same message is tried again by the next call. Dropping the future may leave one message sent and
    /// not counted: it is sent again by the next replay.
    ///
    /// # Errors
    ///
    /// Why the message could not be sent or its offset not be committed; [`ErrorKind::NotFound`] for a message that does not
    /// say where it was sent first: give a topic with [`to`](Self::to), or [`skip`](Self::skip) it.
    pub async fn next(&mut self) -> Result<Option<ReplayProgress>> {
        let step = self.step().await;
        step.map_err(|error| error.with_operation("replay dead letters"))
    }

    async fn step(&mut self) -> Result<Option<ReplayProgress>> {
        let reader = self.letters.reader();
        let Some(dead_letter) = self.front(&reader).await? else { return Ok(None) };
        let message = self.again(&dead_letter)?;
        let receipt = self.producer.send(message).await?.require_stored()?;
        self.count(&reader, &dead_letter).await?;
        Ok(Some(ReplayProgress { done: self.done, total: self.total, dead_letter, receipt }))
    }

    /// Passes over the next dead letter without sending it; it counts as done. Returns it; none when all are done.
    ///
    /// # Errors
    ///
    /// When a broker does not answer.
    pub async fn skip(&mut self) -> Result<Option<MessageView>> {
        let reader = self.letters.reader();
        let skip = async {
            let Some(dead_letter) = self.front(&reader).await? else { return Ok(None) };
            self.count(&reader, &dead_letter).await?;
            Ok(Some(dead_letter))
        };
        skip.await.map_err(|error: Error| error.with_operation("replay dead letters"))
    }

    /// The next dead letter, which stays the next until it is counted.
    async fn front(&mut self, reader: &QueueReader) -> Result<Option<MessageView>> {
        loop {
            if let Some(front) = self.page.front() {
                return Ok(Some(front.clone()));
            }
            let Some(remaining) = self.queues.front_mut() else { return Ok(None) };
            if remaining.next >= remaining.end {
                self.queues.pop_front();
                continue;
            }
            let pulled = reader.pull(&remaining.queue, remaining.next, PAGE).await?;
            let end = remaining.end;
            self.page = pulled.messages.into_iter().filter(|message| message.queue_offset() < end).collect();
            if self.page.is_empty() {
                // They are gone from the broker, or cannot be read.
                remaining.next = pulled.next_offset.max(remaining.next + 1);
            }
        }
    }

    async fn count(&mut self, reader: &QueueReader, dead_letter: &MessageView) -> Result<()> {
        let Some(remaining) = self.queues.front_mut() else { return Ok(()) };
        let next = dead_letter.queue_offset() + 1;
        reader.commit(&remaining.queue, next).await?;
        remaining.next = next;
        self.page.pop_front();
        self.done += 1;
        Ok(())
    }

    /// The message that was given up on, as its sender made it.
    fn again(&self, dead_letter: &MessageView) -> Result<Message> {
        let topic = self.target.clone().or_else(|| self.letters.original_topic(dead_letter)).ok_or_else(|| {
            let message = format!(
                "the dead letter {} does not say which topic it was sent to: give one with `to`, or skip it",
                dead_letter.message_id()
            );
            Error::new(ErrorKind::NotFound, message)
        })?;
        let mut message = Message::new(topic, dead_letter.body()).flag(dead_letter.flag());
        if let Some(tag) = dead_letter.tag() {
            message = message.tag(tag);
        }
        message = message.keys(dead_letter.keys());
        for (name, value) in dead_letter.properties() {
            if !properties::is_reserved(name) && name != REPLAYED_MESSAGE_ID {
                message = message.property(name, value);
            }
        }
        Ok(message.property(REPLAYED_MESSAGE_ID, &*dead_letter.message_id()))
    }
}

impl fmt::Debug for DeadLetterReplay<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeadLetterReplay")
            .field("group", &self.letters.group)
            .field("done", &self.done)
            .field("total", &self.total)
            .finish_non_exhaustive()
    }
}
