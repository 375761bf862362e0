//! Members and brokers in rooms.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use super::{AllocateStrategy, Average, invalid, own_index};
use crate::error::Result;
use crate::message::MessageQueue;

/// Only the queues of certain rooms, evenly: brokers must be named `room@name`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MachineRoom {
    rooms: BTreeSet<String>,
}

impl MachineRoom {
    /// Reads the queues of these rooms; those of others are read by nobody in the group.
    pub fn new(rooms: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self { rooms: rooms.into_iter().map(Into::into).collect() }
    }
}

impl AllocateStrategy for MachineRoom {
    fn name(&self) -> String {
        "MACHINE_ROOM".to_owned()
    }

    fn allocate(
        &self,
        _: &str,
        own_id: &str,
        client_ids: &[String],
        queues: &[MessageQueue],
    ) -> Result<Vec<MessageQueue>> {
        let Some(own) = own_index(own_id, client_ids) else { return Ok(Vec::new()) };
        let is_in_a_room = |queue: &&MessageQueue| {
            let mut parts = queue.broker().split('@');
            let room = parts.next().unwrap_or_default();
            // `room@name` and nothing else; Java drops empty parts at the end.
            parts.next().is_some_and(|name| !name.is_empty()) && parts.all(str::is_empty) && self.rooms.contains(room)
        };
        let queues: Vec<_> = queues.iter().filter(is_in_a_room).collect();
        let (each, left_over) = (queues.len() / client_ids.len(), queues.len() % client_ids.len());
        let mut ours: Vec<_> = queues[own * each..(own + 1) * each].iter().map(|queue| (*queue).clone()).collect();
        if left_over > own {
            ours.push(queues[each * client_ids.len() + own].clone());
        }
        Ok(ours)
    }
}

/// Tells in which room brokers and members are. All members of a group must come to the same.
pub trait MachineRoomResolver: Send + Sync {
    /// The room of the broker that has a queue; empty if it cannot be told.
    fn of_broker(&self, queue: &MessageQueue) -> String;

    /// The room of a member, by its client id; empty if it cannot be told.
    fn of_client(&self, client_id: &str) -> String;
}

/// The queues of each room to the members in it, and those of rooms without members to all, shared out by another strategy.
#[derive(Clone)]
pub struct MachineRoomNearby {
    inner: Arc<dyn AllocateStrategy>,
    resolver: Arc<dyn MachineRoomResolver>,
}

impl MachineRoomNearby {
    /// With [`Average`] within a room.
    pub fn new(resolver: impl MachineRoomResolver + 'static) -> Self {
        Self { inner: Arc::new(Average), resolver: Arc::new(resolver) }
    }

    /// With another strategy within a room.
    #[must_use]
    pub fn within_rooms(mut self, strategy: impl AllocateStrategy + 'static) -> Self {
        self.inner = Arc::new(strategy);
        self
    }
}

impl fmt::Debug for MachineRoomNearby {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MachineRoomNearby").field("inner", &self.inner).finish_non_exhaustive()
    }
}

impl AllocateStrategy for MachineRoomNearby {
    fn name(&self) -> String {
        format!("MACHINE_ROOM_NEARBY-{}", self.inner.name())
    }

    fn allocate(
        &self,
        group: &str,
        own_id: &str,
        client_ids: &[String],
        queues: &[MessageQueue],
    ) -> Result<Vec<MessageQueue>> {
        if own_index(own_id, client_ids).is_none() {
            return Ok(Vec::new());
        }
        let mut by_room: BTreeMap<String, Vec<MessageQueue>> = BTreeMap::new();
        for queue in queues {
            let room = self.resolver.of_broker(queue);
            if room.is_empty() {
                return Err(invalid(format!("it cannot be told in which room the broker of {queue} is")));
            }
            by_room.entry(room).or_default().push(queue.clone());
        }
        let mut members: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for id in client_ids {
            let room = self.resolver.of_client(id);
            if room.is_empty() {
                return Err(invalid(format!("it cannot be told in which room the member `{id}` is")));
            }
            members.entry(room).or_default().push(id.clone());
        }
        let own_room = self.resolver.of_client(own_id);
        let mut ours = Vec::new();
        if let (Some(queues), Some(near)) = (by_room.remove(&own_room), members.get(&own_room)) {
            ours = self.inner.allocate(group, own_id, near, &queues)?;
        }
        for (_, queues) in by_room.iter().filter(|(room, _)| !members.contains_key(*room)) {
            ours.extend(self.inner.allocate(group, own_id, client_ids, queues)?);
        }
        Ok(ours)
    }
}
