//! Who waits for which reply.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use rocketmq_wire::ResponseCode;
use rocketmq_wire::header::NoFields;
use rocketmq_wire::message::{PropertiesWriter, Record, StoredMessage, properties};
use rocketmq_wire::request::reply::PushReplyMessageRequest;
use tokio::sync::oneshot;

use crate::remoting::Incoming;

/// The requests of one client that wait for replies; clones are the same.
#[derive(Debug, Clone, Default)]
pub(crate) struct Replies(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    /// By correlation id. Its order is never looked at.
    waiting: Mutex<HashMap<String, oneshot::Sender<StoredMessage>>>,
    unknown: AtomicU64,
}

/// A wait for the reply to one request; dropped, it waits no more.
#[derive(Debug)]
pub(crate) struct Awaited {
    replies: Replies,
    correlation_id: String,
    reply: oneshot::Receiver<StoredMessage>,
}

impl Replies {
    fn waiting(&self) -> MutexGuard<'_, HashMap<String, oneshot::Sender<StoredMessage>>> {
        // An insert or a removal is all that is done under the lock.
        self.0.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the reply to the request of this id.
    pub(crate) fn wait(&self, correlation_id: String) -> Awaited {
        let (replied, reply) = oneshot::channel();
        self.waiting().insert(correlation_id.clone(), replied);
        Awaited { replies: self.clone(), correlation_id, reply }
    }

    /// Replies that nobody waited for, or not any more.
    pub(crate) fn unknown(&self) -> u64 {
        self.0.unknown.load(Ordering::Relaxed)
    }

    /// Requests that wait.
    pub(crate) fn count(&self) -> usize {
        self.waiting().len()
    }

    /// Hands a reply that a broker pushes to whoever waits for it, and tells the broker that it has come: also when nobody
    /// does, as the client that replied could not help it.
    pub(crate) fn deliver(&self, request: Incoming, now_ms: i64) {
        let stored = match read(&request, now_ms) {
            Ok(stored) => stored,
            Err(error) => {
                tracing::warn!(server.address = &**request.broker(), %error, "a reply was not understood");
                return request.refuse(ResponseCode::SYSTEM_ERROR, "the reply was not understood");
            }
        };
        let correlation_id = stored.property(properties::CORRELATION_ID).unwrap_or_default();
        let waiter = self.waiting().remove(correlation_id);
        let undelivered = match waiter {
            Some(waiter) => waiter.send(stored).err(),
            None => Some(stored),
        };
        if let Some(stored) = undelivered {
            self.0.unknown.fetch_add(1, Ordering::Relaxed);
            let correlation_id = stored.property(properties::CORRELATION_ID).unwrap_or_default();
            tracing::debug!(server.address = &**request.broker(), correlation_id, "nobody waits for a reply");
        }
        if let Err(error) = request.respond(ResponseCode::SUCCESS, None, &NoFields, &Bytes::new()) {
            tracing::debug!(%error, "a broker could not be told that its reply has come");
        }
    }
}

impl Awaited {
    /// The id that links the reply to its request.
    pub(crate) fn correlation_id(&self) -> &str {
        &self.correlation_id
    }

    /// The reply; `None` when another request took the id. Dropping the future loses nothing.
    pub(crate) async fn reply(&mut self) -> Option<StoredMessage> {
        (&mut self.reply).await.ok()
    }
}

impl Drop for Awaited {
    fn drop(&mut self) {
        self.replies.waiting().remove(&self.correlation_id);
    }
}

/// A pushed reply in the form in which pulled messages are, with the time at which it arrived.
fn read(request: &Incoming, now_ms: i64) -> crate::error::Result<StoredMessage> {
    let header: PushReplyMessageRequest<'_> = request.decode()?;
    // Brokers write addresses as Java does, at times with a slash in front.
    let address = |text: &str| text.trim_start_matches('/').parse().unwrap_or(SocketAddr::from(([0, 0, 0, 0], 0)));
    let mut writer = PropertiesWriter::continue_from(header.properties.as_deref().unwrap_or_default());
    let wrong = |error| {
        crate::Error::new(crate::ErrorKind::Protocol, format!("the reply cannot be kept: {error}")).with_source(error)
    };
    writer.push(properties::ARRIVE_TIME, &now_ms.to_string()).map_err(wrong)?;
    let text = writer.finish();
    let record = Record {
        version: Default::default(),
        queue_id: header.queue_id,
        flag: header.flag,
        queue_offset: 0,
        physical_offset: 0,
        sys_flag: header.sys_flag,
        born_timestamp: header.born_timestamp,
        born_host: address(&header.born_host),
        store_timestamp: header.store_timestamp,
        store_host: address(&header.store_host),
        reconsume_times: header.reconsume_times.unwrap_or(0),
        prepared_transaction_offset: 0,
        body: request.body(),
        topic: &header.topic,
        properties: text.as_bytes(),
    };
    let mut bytes = vec![0; record.encoded_len().map_err(wrong)?];
    record.encode(&mut bytes).map_err(wrong)?;
    let parsed = StoredMessage::parse(bytes.into());
    parsed.map(|(stored, _)| stored).map_err(|error| {
        crate::Error::new(crate::ErrorKind::Protocol, format!("the reply cannot be read: {error}")).with_source(error)
    })
}
