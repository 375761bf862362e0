//! Sends that are answered only when they are safe: on disk, with synchronous flush.

use std::collections::VecDeque;
use std::time::Duration;

use rocketmq_wire::{RequestCode, ResponseCode};

use crate::broker::Broker;
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
    /// Session time at which it is answered whatever the disk has done.
    flush_by: Duration,
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

    /// Session time at which the first wait is over.
    pub(super) fn next_deadline(&self) -> Option<Duration> {
        self.waiting.front().map(|waiting| waiting.flush_by)
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
        let Some(limit) = self.durability.flush_timeout else { return outcome };
        match outcome {
            Outcome::Reply(reply) if reply.code == ResponseCode::SUCCESS && self.store.flushed_offset() < end => {
                self.timers_changed |= self.durability.waiting.is_empty();
                self.durability.waiting.push_back(Waiting {
                    end,
                    to: command.return_address(peer),
                    request: command.code(),
                    reply: reply.into_owned(),
                    flush_by: now.session + limit,
                });
                Outcome::Pending
            }
            other => other,
        }
    }

    /// Has the disk written to if somebody waits for it: once for all requests that came together.
    pub(super) fn flush_for_waiting(&mut self) {
        if let Some(last) = self.durability.waiting.back().filter(|last| last.end > self.durability.asked) {
            self.durability.asked = last.end;
            self.store.commit();
        }
    }

    /// Answers those who waited for what is safe by now, and those whose time is up.
    pub(crate) fn answer_safe(&mut self, now: Now) {
        let flushed = self.store.flushed_offset();
        while let Some(first) = self.durability.waiting.front() {
            let is_flushed = first.end <= flushed;
            if !is_flushed && first.flush_by > now.session {
                break;
            }
            let Some(Waiting { to, request, mut reply, .. }) = self.durability.waiting.pop_front() else { break };
            if !is_flushed {
                fail(&mut reply, request, ResponseCode::FLUSH_DISK_TIMEOUT, "FLUSH_DISK_TIMEOUT");
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
