//! Messages: found by id and by key.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use futures_util::future::join_all;
use rocketmq_wire::ResponseCode;
use rocketmq_wire::message::{OffsetMessageId, StoredMessage, names};
use rocketmq_wire::request::query::{QueryMessageRequest, ViewMessageRequest};

use super::{Admin, Master, call};
use crate::consumer::{MessageView, Origin};
use crate::error::{Error, ErrorKind, Result};
use crate::message::MessageQueue;
use crate::remoting::Response;

/// The most messages that a broker returns to one query.
const MOST_MESSAGES: i32 = 64;

/// The largest body accepted after decompression.
const MAX_BODY_BYTES: usize = 16 << 20;

impl Admin {
    /// Finds a message by its id: the one that its producer gave it, or the offset id of its place at a broker.
    ///
    /// The two cannot be told apart by looking; an id that names a broker of this cluster is tried as a place first.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::NotFound`] when no broker of the topic has it; [`ErrorKind::NoRoute`] for a topic that does not exist;
    /// else when no broker answers.
    pub async fn message(&self, topic: &str, id: &str) -> Result<MessageView> {
        const OPERATION: &str = "find a message by id";
        let deadline = self.deadline();
        let find = async {
            if let Ok(place) = id.parse::<OffsetMessageId>()
                && let Some(broker) = self.broker_at(place.store_host, deadline).await?
            {
                match self.message_at(&broker, topic, place, deadline).await {
                    Ok(message) => return Ok(message),
                    // A unique id may look like a place.
                    Err(error) if error.kind() == ErrorKind::NotFound => {}
                    Err(error) => return Err(error),
                }
            }
            let found = self.query(topic, id, true, MOST_MESSAGES, deadline).await?;
            let mut with_id = found.into_iter().filter(|message| message.message_id() == id);
            with_id.next().ok_or_else(|| {
                let message =
                    format!("no broker of the topic `{topic}` has a message with the id `{}`", id.escape_debug());
                Error::new(ErrorKind::NotFound, message)
            })
        };
        find.await.map_err(|error| error.with_operation(OPERATION))
    }

    /// Finds the messages of a topic that have a key, oldest first; of more than `limit`, the newest of each broker. Brokers
    /// return 64 at most.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::NoRoute`] for a topic that does not exist; else when no broker answers. When only some do, what they
    /// have is returned.
    pub async fn messages_by_key(&self, topic: &str, key: &str, limit: u32) -> Result<Vec<MessageView>> {
        const OPERATION: &str = "find messages by key";
        let limit = i32::try_from(limit).unwrap_or(MOST_MESSAGES).min(MOST_MESSAGES);
        let found = self.query(topic, key, false, limit, self.deadline()).await;
        let mut messages = found.map_err(|error| error.with_operation(OPERATION))?;
        messages.retain(|message| message.keys().any(|own| own == key));
        messages.sort_by_key(|message| message.store_time());
        Ok(messages)
    }

    async fn query(
        &self,
        topic: &str,
        key: &str,
        is_unique_key: bool,
        limit: i32,
        deadline: Instant,
    ) -> Result<Vec<MessageView>> {
        let request = QueryMessageRequest {
            topic: topic.into(),
            key: key.into(),
            max_count: limit,
            begin_timestamp: 0,
            end_timestamp: i64::MAX,
            is_unique_key: Some(is_unique_key),
        };
        let ask = |master: Master| {
            let request = &request;
            async move {
                let answer = master.peer.call(request, &Bytes::new(), deadline).await?;
                match answer.code() {
                    ResponseCode::SUCCESS => self.messages(&answer, &master.name),
                    ResponseCode::QUERY_NOT_FOUND => Ok(Vec::new()),
                    _ => Err(answer.error()),
                }
            }
        };
        let masters = self.masters_of(topic, deadline).await?;
        let (mut found, mut failure) = (Vec::new(), None);
        for answer in join_all(masters.into_iter().map(ask)).await {
            match answer {
                Ok(messages) => found.extend(messages),
                Err(error) => failure = Some(error),
            }
        }
        match failure {
            Some(failure) if found.is_empty() => Err(failure),
            Some(failure) => {
                tracing::warn!(topic, error = %failure, "a broker did not answer a query");
                Ok(found)
            }
            None => Ok(found),
        }
    }

    /// The broker of this cluster that stores messages under an address.
    async fn broker_at(&self, host: SocketAddr, deadline: Instant) -> Result<Option<Master>> {
        let text = host.to_string();
        let info = self.cluster_info(deadline).await?;
        let mut brokers = info.broker_addr_table.iter();
        let found = brokers.find(|(_, broker)| broker.broker_addrs.values().any(|address| *address == text));
        Ok(found.map(|(name, _)| Master { name: name.as_str().into(), peer: self.cluster.peer(&text) }))
    }

    async fn message_at(
        &self,
        broker: &Master,
        topic: &str,
        place: OffsetMessageId,
        deadline: Instant,
    ) -> Result<MessageView> {
        let request = ViewMessageRequest { topic: Some(topic.into()), offset: place.physical_offset };
        let answer = call(&broker.peer, &request, deadline).await.map_err(|error| {
            // Brokers say in words alone that there is none.
            if error.response_code() == Some(ResponseCode::SYSTEM_ERROR.0) {
                let message = format!("the broker `{}` has no message at {}", broker.name, place.physical_offset);
                return Error::new(ErrorKind::NotFound, message).with_source(error);
            }
            error
        })?;
        let none = || Error::new(ErrorKind::NotFound, "the broker answered without a message");
        self.messages(&answer, &broker.name)?.into_iter().next().ok_or_else(none)
    }

    /// Reads the messages of an answer.
    fn messages(&self, answer: &Response, broker: &Arc<str>) -> Result<Vec<MessageView>> {
        let namespace = self.cluster.namespace();
        let read = |stored: std::result::Result<StoredMessage, rocketmq_wire::DecodeError>| {
            let stored = stored.map_err(|error| answer.malformed(error))?;
            let queue = MessageQueue::new(&*namespace.unwrap(stored.topic()), Arc::clone(broker), stored.queue_id());
            // Of a message that came again, the topic that it was sent to is told.
            let is_retry_topic = names::is_retry_topic(stored.topic());
            let origin = Origin::new(queue, is_retry_topic, namespace.clone());
            let mut message = MessageView::new(stored, Arc::new(origin));
            message.inflate(MAX_BODY_BYTES)?;
            Ok(message)
        };
        StoredMessage::records(answer.body().clone()).map(read).collect()
    }
}
