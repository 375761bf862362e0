//! What became of a message that a broker took.

use std::borrow::Cow;
use std::fmt;
use std::sync::{Arc, OnceLock};

use rocketmq_wire::ResponseCode;
use rocketmq_wire::message::id::{self, OffsetMessageId, UniqueId, UniqueIdSuffix};

use super::delay::Delay;
use super::lanes::KnownWay;
use crate::error::{Error, ErrorKind, Outcome, Result};
use crate::message::MessageQueue;
use crate::remoting::Answered;

/// Stands for an offset that the broker did not tell.
const UNKNOWN_OFFSET: i64 = -1;

/// How safely a broker has stored a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SendStatus {
    /// As safely as the broker is configured to.
    Ok,
    /// Stored, but not written to disk within the time that the broker allows for it.
    FlushDiskTimeout,
    /// Stored on the master only: no slave is near enough.
    SlaveNotAvailable,
    /// Stored on the master, but no slave had it within the time that the broker allows for it.
    FlushSlaveTimeout,
}

impl SendStatus {
    /// The status that a response code stands for; `None` for refusals.
    pub(super) fn from_code(code: ResponseCode) -> Option<Self> {
        match code {
            ResponseCode::SUCCESS => Some(Self::Ok),
            ResponseCode::FLUSH_DISK_TIMEOUT => Some(Self::FlushDiskTimeout),
            ResponseCode::SLAVE_NOT_AVAILABLE => Some(Self::SlaveNotAvailable),
            ResponseCode::FLUSH_SLAVE_TIMEOUT => Some(Self::FlushSlaveTimeout),
            _ => None,
        }
    }
}

/// What a broker said when it took a message.
#[derive(Clone)]
pub struct SendReceipt {
    status: SendStatus,
    sent_to: SentTo,
    /// The queue, if it is not the one that was asked for.
    elsewhere: Option<Box<MessageQueue>>,
    queue_offset: i64,
    offset_id: OffsetIdText,
    /// What few messages have.
    more: Option<Box<More>>,
}

/// What the answer to a send can say besides.
#[derive(Debug, Clone, Default)]
pub(super) struct More {
    /// How the broker holds the message back.
    pub(super) delay: Option<Delay>,
    recall_handle: Option<String>,
    pub(super) region: Option<String>,
    /// Whether the broker does not want the message traced.
    pub(super) is_untraced: bool,
    /// The ids of all parts of a batch, joined by commas.
    offset_ids: Option<String>,
}

/// The queue that a message was sent to and the id that it was given, as whoever sent it has them at hand.
#[derive(Clone)]
pub(super) enum SentTo {
    /// Sharing the way costs one count, and the text of the id is made when it is asked for.
    Way {
        way: Arc<KnownWay>,
        id: UniqueIdSuffix,
        text: OnceLock<Box<str>>,
    },
    Named(Box<(MessageQueue, UniqueId)>),
}

impl SentTo {
    pub(super) fn way(way: Arc<KnownWay>, id: UniqueIdSuffix) -> Self {
        Self::Way { way, id, text: OnceLock::new() }
    }

    pub(super) fn named(queue: MessageQueue, id: UniqueId) -> Self {
        Self::Named(Box::new((queue, id)))
    }

    fn queue(&self) -> &MessageQueue {
        match self {
            Self::Way { way, .. } => &way.target.queue,
            Self::Named(named) => &named.0,
        }
    }

    fn message_id(&self) -> &str {
        match self {
            Self::Way { way, id, text } => text.get_or_init(|| way.target.template.unique_id(*id).into()),
            Self::Named(named) => named.1.as_str(),
        }
    }
}

impl SendReceipt {
    /// Reads an answer to a send; `None` for a refusal.
    pub(super) fn read(answer: &Answered, sent_to: SentTo) -> Option<Self> {
        Some(Self::stored(SendStatus::from_code(answer.code())?, answer, sent_to))
    }

    /// Reads an answer that is known to be of that status.
    #[inline]
    pub(super) fn stored(status: SendStatus, answer: &Answered, sent_to: SentTo) -> Self {
        // A message that is stored must not be sent again only because the answer does not say where.
        // Only what a receipt tells is looked at; an answer has as much again that nobody asks for.
        let [offset_id, queue_id, queue_offset] =
            answer.find(["msgId", "queueId", "queueOffset"]).unwrap_or([const { None }; 3]);
        let number = |digits: Option<Cow<'_, [u8]>>| digits.as_deref().and_then(decimal);
        let asked = sent_to.queue();
        let stored_in = number(queue_id).and_then(|id| id.try_into().ok()).filter(|id| *id != asked.id());
        let elsewhere = stored_in.map(|id| asked.sibling(id));
        let queue_offset = number(queue_offset).unwrap_or(UNKNOWN_OFFSET);
        Self {
            status,
            sent_to,
            elsewhere: elsewhere.map(Box::new),
            queue_offset,
            offset_id: OffsetIdText::new(offset_id.as_deref().unwrap_or_default()),
            more: None,
        }
    }

    /// Keeps what else the answer says.
    pub(super) fn with_more(mut self, answer: &Answered, delay: Option<Delay>) -> Self {
        let [offset_ids, recall_handle, region, trace_on] =
            answer.find(["msgId", "recallHandle", "MSG_REGION", "TRACE_ON"]).unwrap_or([const { None }; 4]);
        let text = |bytes: Option<Cow<'_, [u8]>>| {
            bytes.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).filter(|text| !text.is_empty())
        };
        self.more = Some(Box::new(More {
            delay,
            recall_handle: text(recall_handle),
            region: text(region),
            is_untraced: trace_on.as_deref() == Some(b"false"),
            offset_ids: text(offset_ids),
        }));
        self
    }

    pub(super) fn more(&self) -> Option<&More> {
        self.more.as_deref()
    }

    /// The receipts of the parts of a batch, whose ids these are: they lie one after the other in the queue.
    pub(super) fn of_each(&self, ids: &[UniqueId]) -> Vec<Self> {
        let mut offset_ids = self.more().and_then(|more| more.offset_ids.as_deref()).unwrap_or_default().split(',');
        let each = ids.iter().enumerate().map(|(index, unique_id)| Self {
            status: self.status,
            sent_to: SentTo::named(self.queue().clone(), *unique_id),
            elsewhere: None,
            queue_offset: match self.queue_offset {
                UNKNOWN_OFFSET => UNKNOWN_OFFSET,
                first => first.saturating_add(index as i64),
            },
            offset_id: OffsetIdText::new(offset_ids.next().unwrap_or_default().as_bytes()),
            more: None,
        });
        each.collect()
    }

    /// How safely the message is stored. Anything but [`SendStatus::Ok`] is rare and not an error: the message is
    /// there, and will be delivered unless the broker is lost.
    pub fn status(&self) -> SendStatus {
        self.status
    }

    /// The receipt itself when the message is stored as safely as the broker is configured to.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::NotStored`] otherwise.
    pub fn require_stored(self) -> Result<Self> {
        let (code, why) = match self.status {
            SendStatus::Ok => return Ok(self),
            SendStatus::FlushDiskTimeout => (ResponseCode::FLUSH_DISK_TIMEOUT, "it was not written to disk in time"),
            SendStatus::SlaveNotAvailable => (ResponseCode::SLAVE_NOT_AVAILABLE, "no slave is near enough"),
            SendStatus::FlushSlaveTimeout => (ResponseCode::FLUSH_SLAVE_TIMEOUT, "no slave had it in time"),
        };
        let message = format!("the broker has taken the message {}, but {why}", self.message_id());
        debug_assert_eq!(Error::from_response(code.0, None).kind(), ErrorKind::NotStored);
        Err(Error::from_response(code.0, None)
            .with_message(message)
            .with_operation("send")
            .with_outcome(Outcome::Unknown))
    }

    /// The queue that holds the message.
    pub fn queue(&self) -> &MessageQueue {
        self.elsewhere.as_deref().unwrap_or_else(|| self.sent_to.queue())
    }

    /// The message's offset in that queue; -1 when the broker did not say.
    pub fn queue_offset(&self) -> i64 {
        self.queue_offset
    }

    /// The id that this client gave the message: the one that consumers see and that tools search for.
    pub fn message_id(&self) -> &str {
        self.sent_to.message_id()
    }

    /// How the broker holds the message back; `None` unless it was sent with
    /// [`deliver_after`](crate::Message::deliver_after) or [`deliver_at`](crate::Message::deliver_at).
    pub fn delay(&self) -> Option<Delay> {
        self.more.as_ref()?.delay
    }

    /// What the message can be [recalled](crate::Producer::recall) with, if it has a time of its own and the broker is of
    /// 5.3.2 or later.
    pub fn recall_handle(&self) -> Option<&str> {
        self.more.as_ref()?.recall_handle.as_deref()
    }

    /// The id that says where the broker keeps the message; `None` when the broker gave none of the usual form.
    pub fn offset_message_id(&self) -> Option<OffsetMessageId> {
        self.offset_id.parse()
    }
}

/// A number of decimal digits; `None` for anything else.
fn decimal(digits: &[u8]) -> Option<i64> {
    /// No number of so few digits is too large.
    const SHORT: usize = 18;
    if digits.len() > SHORT {
        return std::str::from_utf8(digits).ok()?.parse().ok().filter(|number| *number >= 0);
    }
    let number = digits.iter().try_fold(0i64, |number, digit| {
        let digit = digit.wrapping_sub(b'0');
        (digit <= 9).then(|| number * 10 + i64::from(digit))
    });
    number.filter(|_| !digits.is_empty())
}

/// An offset message id as it came: few callers ask for it, so it is read when they do.
#[derive(Clone, Copy)]
#[repr(align(8))]
struct OffsetIdText {
    text: [u8; id::LENGTH_V6],
    /// Zero for a text that is too long to be an id.
    length: u8,
}

impl OffsetIdText {
    fn new(text: &[u8]) -> Self {
        let mut kept = Self { text: [0; id::LENGTH_V6], length: 0 };
        if let Some(place) = kept.text.get_mut(..text.len()) {
            place.copy_from_slice(text);
            kept.length = text.len() as u8;
        }
        kept
    }

    fn parse(&self) -> Option<OffsetMessageId> {
        std::str::from_utf8(&self.text[..usize::from(self.length)]).ok()?.parse().ok()
    }
}

impl fmt::Debug for SendReceipt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SendReceipt")
            .field("status", &self.status)
            .field("queue", self.queue())
            .field("queue_offset", &self.queue_offset)
            .field("message_id", &self.message_id())
            .field("offset_message_id", &self.offset_message_id().map(|id| id.to_string()))
            .finish()
    }
}
