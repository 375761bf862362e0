//! Locks on queues for ordered consumption: codes 41 and 42.

use rocketmq_wire::model::{LockBatch, LockedQueues};
use rocketmq_wire::{DecodeError, fastjson};

use super::Broker;
use crate::clock::Now;
use crate::reply::{Command, Outcome, Reply};

impl Broker {
    /// Locks queues; those that another client holds are left out of the answer.
    pub(super) fn lock_queues<'a>(&mut self, now: Now, command: &Command<'a>) -> Result<Outcome<'a>, DecodeError> {
        let request: LockBatch = fastjson::from_slice("queues to lock", command.body)?;
        let locked = self.locks.lock(now.session, request.consumer_group, &request.client_id, request.mq_set);
        Ok(Reply::success().body(crate::json::to_vec(&LockedQueues { locked })).into())
    }

    /// Unlocks queues; those that another client holds stay locked.
    pub(super) fn unlock_queues<'a>(&mut self, command: &Command<'a>) -> Result<Outcome<'a>, DecodeError> {
        let request: LockBatch = fastjson::from_slice("queues to unlock", command.body)?;
        self.locks.unlock(&request.consumer_group, &request.client_id, &request.mq_set);
        Ok(Reply::success().into())
    }
}
