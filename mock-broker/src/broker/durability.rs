//! Sends that are answered only when they are safe: on disk, with synchronous flush, and on other brokers, with
//! synchronous replication.

use std::collections::VecDeque;
use std::time::Duration;

use rocketmq_wire::{RequestCode, ResponseCode};

use crate::broker::Broker;
use crate::broker::replication::Copies;
use crate::clock::Now;
use crate::reply::{Command, Effect, Outcome, Peer, Reply, ReturnAddress};
use crate::settings::Settings;

/// A request whose answer waits.
#[derive(Debug)]
struct Waiting {
    /// Physical offset after its last message.
    end: u64,
    to: ReturnAddress,
    request: RequestCode,
    reply: Reply<'static>,
    /// Session time at which the disk has had time enough; none if it is not waited for.
    flush_by: Option<Duration>,
    /// Session time at which slaves have had time enough; none if they are not waited for.
    copied_by: Option<Duration>,
    /// There was no slave when the message was put.
    without_slave: bool,
}

/// What is waited for, in the order of the log.
#[derive(Debug)]
pub(super) struct Durability {
    /// How long the disk may take; none if nobody waits for it.
    flush_timeout: Option<Duration>,
    waiting: VecDeque<Waiting>,
    /// Physical offset up to which the disk was asked to go.
    asked: u64,
}

impl Durability {
    pub(super) fn new(settings: &Settings) -> Self {
        let flush_timeout = settings.flush_sync.then(|| Duration::from_millis(settings.flush_timeout_ms));
        Durability { flush_timeout, waiting: VecDeque::new(), asked: 0 }
    }

    /// Session time at which the first wait may be over.
    pub(super) fn next_deadline(&self) -> Option<Duration> {
        self.waiting.front().and_then(|first| first.flush_by.into_iter().chain(first.copied_by).min())
    }
}

impl Broker {
    /// Keeps the answer to a request that put messages until those are safe.
    pub(super) fn answer_when_safe<'a>(
        &mut self,
        now: Now,
        peer: &Peer,
        command: &Command<'_>,
        end: u64,
        outcome: Outcome<'a>,
    ) -> Outcome<'a> {
        let Outcome::Reply(mut reply) = outcome else { return outcome };
        if reply.code != ResponseCode::SUCCESS {
            return reply.into();
        }
        let unflushed = self.store.flushed_offset() < end;
        let flush_by = self.durability.flush_timeout.filter(|_| unflushed).map(|limit| now.session + limit);
        let copies = self.replication.copies(end, self.compatibility);
        let copied_by = (copies == Copies::Wait).then(|| now.session + self.replication.timeout());
        let without_slave = copies == Copies::NoSlave;
        if flush_by.is_none() && copied_by.is_none() {
            if without_slave {
                fail(&mut reply, command.code(), ResponseCode::SLAVE_NOT_AVAILABLE, "SLAVE_NOT_AVAILABLE");
            }
            return reply.into();
        }
        self.timers_changed |= self.durability.waiting.is_empty();
        self.durability.waiting.push_back(Waiting {
            end,
            to: command.return_address(peer),
            request: command.code(),
            reply: reply.into_owned(),
            flush_by,
            copied_by,
            without_slave,
        });
        Outcome::Pending
    }

    /// Answers a send at once, although its message is not safe, if it says so (`WAIT=false`); some versions do not store
    /// that it does.
    #[inline]
    pub(super) fn forget_unless_waiting(&mut self, wait: Option<&str>) {
        if wait == Some("false") {
            let _ = self.store.take_awaited();
        }
    }

    /// Has the disk written to if somebody waits for it: once for all requests that came together.
    pub(super) fn flush_for_waiting(&mut self) {
        if self.durability.flush_timeout.is_some()
            && let Some(last) = self.durability.waiting.back().filter(|last| last.end > self.durability.asked)
        {
            self.durability.asked = last.end;
            self.store.commit();
        }
    }

    /// Answers those who waited for what is safe by now, and those whose time is up.
    pub(crate) fn answer_safe(&mut self, now: Now) {
        let flushed = self.store.flushed_offset();
        while let Some(first) = self.durability.waiting.front() {
            let is_flushed = first.flush_by.is_none() || first.end <= flushed;
            let is_copied =
                first.copied_by.is_none() || self.replication.copies(first.end, self.compatibility) == Copies::Enough;
            let over = |by: Option<Duration>| by.is_some_and(|by| by <= now.session);
            if (!is_flushed && !over(first.flush_by)) || (!is_copied && !over(first.copied_by)) {
                break;
            }
            let Some(waited) = self.durability.waiting.pop_front() else { break };
            let Waiting { to, request, mut reply, without_slave, .. } = waited;
            if !is_flushed {
                fail(&mut reply, request, ResponseCode::FLUSH_DISK_TIMEOUT, "FLUSH_DISK_TIMEOUT");
            }
            // Apache's broker says the later of two things that went wrong.
            if !is_copied {
                fail(&mut reply, request, ResponseCode::FLUSH_SLAVE_TIMEOUT, "FLUSH_SLAVE_TIMEOUT");
            } else if without_slave {
                fail(&mut reply, request, ResponseCode::SLAVE_NOT_AVAILABLE, "SLAVE_NOT_AVAILABLE");
            }
            self.effects.push(Effect::Answer(to, reply));
        }
    }

    /// Sets what is called, on another thread, when more has become safe.
    pub(crate) fn wake_with(&self, wake: impl Fn() + Send + 'static) {
        self.store.wake_with(wake);
    }
}

/// Says in an answer that the message is stored but not safe: a send in its own code, a message handed back as a failure;
/// the end of a transaction counts.
fn fail(reply: &mut Reply<'_>, request: RequestCode, code: ResponseCode, status: &'static str) {
    match request {
        RequestCode::SEND_MESSAGE | RequestCode::SEND_MESSAGE_V2 | RequestCode::SEND_BATCH_MESSAGE => reply.code = code,
        RequestCode::CONSUMER_SEND_MSG_BACK => {
            reply.code = ResponseCode::SYSTEM_ERROR;
            reply.remark = Some(status.into());
        }
        _ => {}
    }
}
