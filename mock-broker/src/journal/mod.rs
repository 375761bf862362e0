//! What came in and went out: a bounded ring of frames, decoded when somebody looks at them.

mod entry;
mod unmet;

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use rocketmq_wire::RequestCode;
use rocketmq_wire::frame::PREFIX_LENGTH;
use rocketmq_wire::header::SerializeType;
use tokio::sync::watch;

pub use entry::{EntryKind, JournalEntry};
pub use unmet::{JournalFilter, Unmet};

use crate::clock::Now;
use crate::pattern::Port;

/// Bodies are kept up to this length.
const LONGEST_BODY: usize = 64 << 10;

/// What a journal keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Limits {
    /// Entries; with 0 there is no journal.
    pub(crate) entries: usize,
    /// Bytes of frames.
    pub(crate) bytes: usize,
}

impl Limits {
    /// Nothing is kept.
    pub(crate) const OFF: Limits = Limits { entries: 0, bytes: 0 };
}

impl Default for Limits {
    fn default() -> Self {
        Limits { entries: 10_000, bytes: 32 << 20 }
    }
}

/// Whose frame an entry is of.
#[derive(Debug, Clone)]
pub(crate) struct Origin {
    pub(crate) port: Port,
    pub(crate) connection: u64,
    pub(crate) peer: SocketAddr,
    pub(crate) client: Option<Arc<str>>,
}

/// A frame as it was, without its prefix.
#[derive(Debug, Clone)]
struct Raw {
    time_ms: i64,
    session_ms: u64,
    kind: EntryKind,
    origin: Origin,
    request: RequestCode,
    /// The entry that this one answers.
    answers: Option<u64>,
    /// How this request was answered.
    answered: Option<i32>,
    fault: Option<u64>,
    serialize_type: SerializeType,
    header: Bytes,
    body: Bytes,
    body_length: usize,
}

/// The latest requests and answers.
#[derive(Debug)]
pub(crate) struct Journal {
    limits: Limits,
    entries: VecDeque<Raw>,
    bytes: usize,
    /// The sequence number of the next entry; the first of all is 1.
    next: u64,
    grown: watch::Sender<u64>,
}

impl Journal {
    pub(crate) fn new(limits: Limits) -> Self {
        Journal { limits, entries: VecDeque::new(), bytes: 0, next: 1, grown: watch::Sender::new(0) }
    }

    /// Whether anything is kept.
    pub(crate) fn is_on(&self) -> bool {
        self.limits.entries > 0
    }

    /// Shows the number of the latest entry, and when there is another.
    pub(crate) fn grown(&self) -> watch::Receiver<u64> {
        self.grown.subscribe()
    }

    /// Adds a frame and returns its number. `header` is the header alone.
    pub(crate) fn add(
        &mut self,
        now: Now,
        kind: EntryKind,
        origin: Origin,
        request: RequestCode,
        (serialize_type, header, body): (SerializeType, &[u8], &[u8]),
    ) -> u64 {
        let kept = &body[..body.len().min(LONGEST_BODY)];
        let raw = Raw {
            time_ms: now.message_ms,
            session_ms: u64::try_from(now.session.as_millis()).unwrap_or(u64::MAX),
            kind,
            origin,
            request,
            answers: None,
            answered: None,
            fault: None,
            serialize_type,
            header: Bytes::copy_from_slice(header),
            body: Bytes::copy_from_slice(kept),
            body_length: body.len(),
        };
        self.bytes += raw.header.len() + raw.body.len();
        self.entries.push_back(raw);
        while self.entries.len() > self.limits.entries || (self.bytes > self.limits.bytes && self.entries.len() > 1) {
            let Some(oldest) = self.entries.pop_front() else { break };
            self.bytes -= oldest.header.len() + oldest.body.len();
        }
        let sequence = self.next;
        self.next += 1;
        self.grown.send_replace(sequence);
        sequence
    }

    /// Adds a whole frame that a server sent: an answer, or a request of its own.
    pub(crate) fn add_frame(
        &mut self,
        now: Now,
        kind: EntryKind,
        origin: Origin,
        request: RequestCode,
        frame: &[u8],
    ) -> Option<u64> {
        let word = frame.get(4..PREFIX_LENGTH)?.first_chunk::<4>()?;
        let serialize_type = SerializeType::from_byte(word[0])?;
        let length = u32::from_be_bytes([0, word[1], word[2], word[3]]) as usize;
        let (header, body) = frame[PREFIX_LENGTH..].split_at_checked(length)?;
        Some(self.add(now, kind, origin, request, (serialize_type, header, body)))
    }

    /// Notes which fault met a request, or changed an answer.
    pub(crate) fn set_fault(&mut self, sequence: u64, fault: u64) {
        if let Some(raw) = self.raw_mut(sequence) {
            raw.fault = Some(fault);
        }
    }

    /// Notes that an entry answers another.
    pub(crate) fn set_answer(&mut self, request: u64, answer: u64, code: i32) {
        if let Some(raw) = self.raw_mut(request) {
            raw.answered = Some(code);
        }
        if let Some(raw) = self.raw_mut(answer) {
            raw.answers = Some(request);
        }
    }

    fn first(&self) -> u64 {
        self.next - self.entries.len() as u64
    }

    fn raw_mut(&mut self, sequence: u64) -> Option<&mut Raw> {
        let index = usize::try_from(sequence.checked_sub(self.first())?).ok()?;
        self.entries.get_mut(index)
    }

    /// The entries after number `after`, the oldest first.
    pub(crate) fn entries(&self, after: u64) -> impl DoubleEndedIterator<Item = JournalEntry> + '_ {
        let first = self.first();
        let skip = usize::try_from((after + 1).saturating_sub(first)).unwrap_or(usize::MAX);
        let raws = self.entries.iter().enumerate().skip(skip);
        raws.map(move |(index, raw)| JournalEntry::decode(first + index as u64, raw))
    }

    /// Forgets all entries; numbers go on.
    pub(crate) fn clear(&mut self) {
        self.entries.clear();
        self.bytes = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pattern::{Family, RequestPattern};
    use rocketmq_wire::{LanguageCode, RemotingCommand, Version};
    use std::time::Duration;

    fn put(journal: &mut Journal, topic: &str, body: &'static [u8]) -> u64 {
        let command = RemotingCommand {
            serialize_type: SerializeType::Json,
            code: 310,
            language: LanguageCode::RUST,
            version: Version::V5_3_3,
            opaque: 4,
            flag: 0,
            remark: None,
            fields: Some(vec![("b".to_owned(), topic.to_owned()), ("e".to_owned(), "1".to_owned())]),
            body: Bytes::from_static(body),
        };
        let origin =
            Origin { port: Port::Broker, connection: 3, peer: ([127, 0, 0, 1], 5).into(), client: Some("c".into()) };
        let now = Now { message_ms: 77, session: Duration::from_millis(5) };
        let frame = command.to_bytes().unwrap();
        journal.add_frame(now, EntryKind::Request, origin, RequestCode(310), &frame).unwrap()
    }

    #[test]
    fn entries_are_decoded_and_the_oldest_go() {
        let mut journal = Journal::new(Limits { entries: 2, bytes: 1 << 20 });
        for topic in ["a", "b", "c"] {
            put(&mut journal, topic, b"hello");
        }
        let entries: Vec<_> = journal.entries(0).collect();
        assert_eq!(entries.iter().map(|entry| entry.topic.as_deref().unwrap()).collect::<Vec<_>>(), ["b", "c"]);
        let entry = &entries[0];
        assert_eq!((entry.sequence, entry.time_ms, entry.session_ms, entry.connection), (2, 77, 5, 3));
        assert_eq!((entry.queue, entry.client.as_deref(), &entry.body[..]), (Some(1), Some("c"), &b"hello"[..]));
        assert_eq!((entry.language.as_str(), entry.version, entry.name.as_str()), ("RUST", 479, "SEND_MESSAGE_V2"));
        assert!(entry.matches(&RequestPattern::of(Family::Send).topic("b").queue(1).client("c")));
        assert_eq!(journal.entries(2).count(), 1);
        assert_eq!(journal.entries(3).count(), 0);
        assert_eq!(*journal.grown().borrow(), 3);
        journal.clear();
        assert_eq!(put(&mut journal, "d", b""), 4);
        assert_eq!(journal.entries(0).next().unwrap().sequence, 4);
    }

    #[test]
    fn bytes_are_bounded_and_long_bodies_cut() {
        let mut journal = Journal::new(Limits { entries: 100, bytes: 1000 });
        static LONG: [u8; LONGEST_BODY + 5] = [b'x'; LONGEST_BODY + 5];
        put(&mut journal, "a", b"1");
        put(&mut journal, "b", &LONG);
        let entries: Vec<_> = journal.entries(0).collect();
        assert_eq!(entries.len(), 1);
        assert_eq!((entries[0].body.len(), entries[0].body_length), (LONGEST_BODY, LONGEST_BODY + 5));
        put(&mut journal, "c", b"2");
        assert_eq!(journal.entries(0).count(), 1);
    }
}
