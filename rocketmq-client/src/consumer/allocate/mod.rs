//! Which queues of a topic a member of a group reads.
//!
//! Every member computes the whole allocation for itself, whatever its language, so the result has to be the one of Java's
//! strategy of the same name to the last queue: a member that rounds or sorts in another way leaves queues unread or reads
//! them twice. All members of a group must use the same strategy.

mod consistent_hash;
mod machine_room;

use std::cmp::Ordering;
use std::fmt;
use std::ops::Range;

pub use consistent_hash::ConsistentHash;
pub use machine_room::{MachineRoom, MachineRoomNearby, MachineRoomResolver};

use crate::error::{Error, ErrorKind, Result};
use crate::message::MessageQueue;

/// Decides which queues of a topic a member of a consumer group reads.
///
/// Every member runs it by itself, so it must depend on its arguments alone, and give each queue to one member.
///
/// ```
/// use rocketmq_native::MessageQueue;
/// use rocketmq_native::consumer::AllocateStrategy;
///
/// /// All queues to the member that comes first.
/// #[derive(Debug)]
/// struct FirstTakesAll;
///
/// impl AllocateStrategy for FirstTakesAll {
///     fn name(&self) -> String {
///         "FIRST_TAKES_ALL".into()
///     }
///
///     fn allocate(
///         &self,
///         _group: &str,
///         own_id: &str,
///         client_ids: &[String],
///         queues: &[MessageQueue],
///     ) -> rocketmq_native::Result<Vec<MessageQueue>> {
///         let is_first = client_ids.first().is_some_and(|first| first == own_id);
///         Ok(if is_first { queues.to_vec() } else { Vec::new() })
///     }
/// }
/// ```
pub trait AllocateStrategy: fmt::Debug + Send + Sync {
    /// The strategy's name, by which it shows up in logs and at the console.
    fn name(&self) -> String;

    /// The queues that the member `own_id` reads when the members `client_ids` share `queues`; both lists are sorted as
    /// Java sorts them and not empty, and `own_id` is among the members.
    ///
    /// # Errors
    ///
    /// When it cannot be told. The consumer keeps the queues that it has, and asks again soon.
    fn allocate(
        &self,
        group: &str,
        own_id: &str,
        client_ids: &[String],
        queues: &[MessageQueue],
    ) -> Result<Vec<MessageQueue>>;
}

/// Neighbouring queues to each member, as many to all; the first ones get one more when that cannot be. The default.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Average;

/// The queues in turn, one to each member.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AverageByCircle;

/// Always these queues, whoever else is there: the user shares them out.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Configured(Vec<MessageQueue>);

impl Configured {
    /// Reads these queues; those of other topics than the one shared out are passed over.
    pub fn new(queues: impl IntoIterator<Item = MessageQueue>) -> Self {
        Self(queues.into_iter().collect())
    }
}

impl AllocateStrategy for Average {
    fn name(&self) -> String {
        "AVG".to_owned()
    }

    fn allocate(
        &self,
        _: &str,
        own_id: &str,
        client_ids: &[String],
        queues: &[MessageQueue],
    ) -> Result<Vec<MessageQueue>> {
        let own = own_index(own_id, client_ids);
        Ok(own.map_or_else(Vec::new, |index| queues[share(queues.len(), client_ids.len(), index)].to_vec()))
    }
}

impl AllocateStrategy for AverageByCircle {
    fn name(&self) -> String {
        "AVG_BY_CIRCLE".to_owned()
    }

    fn allocate(
        &self,
        _: &str,
        own_id: &str,
        client_ids: &[String],
        queues: &[MessageQueue],
    ) -> Result<Vec<MessageQueue>> {
        let Some(index) = own_index(own_id, client_ids) else { return Ok(Vec::new()) };
        Ok(queues.iter().skip(index).step_by(client_ids.len()).cloned().collect())
    }
}

impl AllocateStrategy for Configured {
    fn name(&self) -> String {
        "CONFIG".to_owned()
    }

    fn allocate(&self, _: &str, _: &str, _: &[String], queues: &[MessageQueue]) -> Result<Vec<MessageQueue>> {
        let topic = queues.first().map(MessageQueue::topic);
        Ok(self.0.iter().filter(|queue| topic.is_none_or(|topic| queue.topic() == topic)).cloned().collect())
    }
}

fn own_index(own_id: &str, client_ids: &[String]) -> Option<usize> {
    client_ids.iter().position(|id| id == own_id)
}

pub(super) fn invalid(message: String) -> Error {
    Error::new(ErrorKind::InvalidArgument, message).with_operation("share the queues out")
}

/// Sorts members as every member does before it allocates.
pub(crate) fn sort_client_ids(client_ids: &mut [String]) {
    client_ids.sort_by(|a, b| java_order(a, b));
}

/// Sorts queues as every member does before it allocates.
pub(crate) fn sort_queues(queues: &mut [MessageQueue]) {
    queues.sort_by(|a, b| {
        java_order(a.topic(), b.topic())
            .then_with(|| java_order(a.broker(), b.broker()))
            .then_with(|| a.id().cmp(&b.id()))
    });
}

/// The part of `queues` sorted queues that belongs to the member at `index`: the first ones get one more when the
/// queues cannot be shared evenly.
fn share(queues: usize, members: usize, index: usize) -> Range<usize> {
    let (each, left_over) = (queues / members, queues % members);
    let start = index * each + index.min(left_over);
    start..start + each + usize::from(index < left_over)
}

/// Compares as Java's `String.compareTo` does: by UTF-16 units, which puts characters beyond the basic plane before
/// those at its end.
fn java_order(a: &str, b: &str) -> Ordering {
    a.encode_utf16().cmp(b.encode_utf16())
}

#[cfg(test)]
mod tests;
