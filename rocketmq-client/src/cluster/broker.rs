//! One function for each request to a broker that belongs to no other room.

use std::borrow::Cow;
use std::time::Instant;

use bytes::Bytes;
use rocketmq_wire::request::group::{HeartbeatRequest, UnregisterClientRequest};

use super::heartbeat::Group;
use crate::error::Result;
use crate::remoting::Peer;

/// Announces a client; `body` is [`rocketmq_wire::model::HeartbeatData`] as JSON.
pub(super) async fn heartbeat(peer: &Peer, body: &Bytes, deadline: Instant) -> Result<()> {
    let answer = peer.call(&HeartbeatRequest, body, deadline).await;
    answer.and_then(|answer| answer.success()).map(drop).map_err(|error| error.with_operation("heartbeat"))
}

/// Takes a client out of a group.
pub(super) async fn unregister(peer: &Peer, client_id: &str, group: &Group, deadline: Instant) -> Result<()> {
    let mut request = UnregisterClientRequest { client_id: Cow::Borrowed(client_id), ..Default::default() };
    match group {
        Group::Producer(name) => request.producer_group = Some(Cow::Borrowed(name)),
        Group::Consumer(name) => request.consumer_group = Some(Cow::Borrowed(name)),
    }
    let answer = peer.call(&request, &Bytes::new(), deadline).await;
    answer.and_then(|answer| answer.success()).map(drop).map_err(|error| error.with_operation("unregister"))
}
