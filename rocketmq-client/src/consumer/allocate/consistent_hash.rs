//! Members and queues on a ring of hashes.

use std::collections::BTreeMap;

use md5::{Digest, Md5};

use super::{AllocateStrategy, own_index};
use crate::error::Result;
use crate::message::MessageQueue;

/// Java's number of places that a member has on the ring.
const PLACES: usize = 10;

/// Each queue to the member whose place follows it on a ring of hashes, so that few queues move when a member comes or
/// goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConsistentHash {
    places: usize,
}

impl ConsistentHash {
    /// With so many places for each member; Java has 10. With none, nobody reads anything.
    pub fn new(places: usize) -> Self {
        Self { places }
    }
}

impl Default for ConsistentHash {
    fn default() -> Self {
        Self { places: PLACES }
    }
}

impl AllocateStrategy for ConsistentHash {
    fn name(&self) -> String {
        "CONSISTENT_HASH".to_owned()
    }

    fn allocate(
        &self,
        _: &str,
        own_id: &str,
        client_ids: &[String],
        queues: &[MessageQueue],
    ) -> Result<Vec<MessageQueue>> {
        if own_index(own_id, client_ids).is_none() {
            return Ok(Vec::new());
        }
        let mut ring = BTreeMap::new();
        for id in client_ids {
            for place in 0..self.places {
                ring.insert(hash(&format!("{id}-{place}")), id.as_str());
            }
        }
        let is_ours = |queue: &&MessageQueue| {
            // As Java writes a queue.
            let key = format!(
                "MessageQueue [topic={}, brokerName={}, queueId={}]",
                queue.topic(),
                queue.broker(),
                queue.id()
            );
            let member = ring.range(hash(&key)..).next().or_else(|| ring.first_key_value());
            member.is_some_and(|(_, member)| *member == own_id)
        };
        Ok(queues.iter().filter(is_ours).cloned().collect())
    }
}

/// The first four bytes of the MD5 sum.
fn hash(text: &str) -> u32 {
    let [a, b, c, d, ..] = <[u8; 16]>::from(Md5::digest(text));
    u32::from_be_bytes([a, b, c, d])
}
