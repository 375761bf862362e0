//! Where the offsets of a group are kept.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use rocketmq_wire::fastjson::{self, ObjectKey};
use rocketmq_wire::model::{MessageQueue as WireQueue, QueueOffsets};

use crate::cluster::{Cluster, MASTER_ID, consume};
use crate::env::Env;
use crate::error::{Error, ErrorKind, Result};
use crate::message::MessageQueue;
use crate::remoting::Peer;

/// Keeps the offset at which a group goes on in each queue, in place of the brokers.
///
/// A consumer asks once for each queue that it takes over, and stores an offset every
/// [commit interval](super::PushConsumerBuilder::commit_interval) if it has changed, before it gives a queue away, and when
/// it is shut down. All messages below the offset have been consumed.
#[async_trait]
pub trait OffsetStore: fmt::Debug + Send + Sync {
    /// The offset stored for a queue; `None` if there is certainly none, so that the consumer begins where
    /// [`ConsumeFrom`](super::ConsumeFrom) says.
    ///
    /// # Errors
    ///
    /// When it cannot be told. The consumer asks again until it can: an error is never taken for "none".
    async fn load(&self, group: &str, queue: &MessageQueue) -> Result<Option<i64>>;

    /// Stores the offset of a queue. The future may be dropped at any await.
    ///
    /// # Errors
    ///
    /// When it may not be stored. The consumer tries again with the next offset.
    async fn store(&self, group: &str, queue: &MessageQueue, offset: i64) -> Result<()>;
}

/// The brokers themselves: what consumers use unless told otherwise.
#[derive(Debug)]
pub(crate) struct BrokerOffsets {
    pub(crate) cluster: Cluster,
    /// Whether "none" is asked for where brokers would say 0.
    pub(crate) is_strict: bool,
}

#[async_trait]
impl OffsetStore for BrokerOffsets {
    async fn load(&self, group: &str, queue: &MessageQueue) -> Result<Option<i64>> {
        let deadline = self.cluster.env().now() + self.cluster.config().request_timeout;
        consume::query_consumer_offset(&keeper(&self.cluster, queue)?, group, queue, self.is_strict, deadline).await
    }

    async fn store(&self, group: &str, queue: &MessageQueue, offset: i64) -> Result<()> {
        let deadline = self.cluster.env().now() + self.cluster.config().request_timeout;
        self.cluster.commit_offset(&keeper(&self.cluster, queue)?, group, queue, offset, deadline).await
    }
}

/// The broker that keeps the offsets of a queue: the master, or any replica while there is none.
pub(crate) fn keeper(cluster: &Cluster, queue: &MessageQueue) -> Result<Peer> {
    match cluster.replica(queue.broker(), MASTER_ID) {
        Some((_, peer)) => Ok(peer),
        None => Err(unknown_broker(queue)),
    }
}

pub(crate) fn unknown_broker(queue: &MessageQueue) -> Error {
    let message = format!(
        "no name server says where the broker `{}` is, which has queue {} of topic `{}`",
        queue.broker(),
        queue.id(),
        queue.topic()
    );
    Error::new(ErrorKind::NoRoute, message)
}

/// A file on this machine, in the format of Java's clients: `<directory>/<client id>/<group>/offsets.json`. What
/// broadcasting consumers use, since each member has offsets of its own.
///
/// The file is replaced in one step, and the one before is kept beside it as `offsets.json.bak`, which is read when the
/// file is damaged. Offsets only go forward in it.
pub(crate) struct LocalFileOffsets {
    env: Env,
    directory: PathBuf,
    /// By group, once its file was read.
    tables: Arc<Mutex<BTreeMap<String, BTreeMap<MessageQueue, i64>>>>,
    /// Files are written one after the other.
    writing: tokio::sync::Mutex<()>,
}

impl LocalFileOffsets {
    /// Keeps offsets under `directory`, which is made when the first one is stored.
    pub(crate) fn new(env: Env, directory: &Path, client_id: &str) -> Self {
        let directory = directory.join(client_id);
        Self { env, directory, tables: Arc::default(), writing: tokio::sync::Mutex::new(()) }
    }

    fn file(&self, group: &str) -> PathBuf {
        self.directory.join(group).join("offsets.json")
    }

    async fn read(&self, group: &str) -> Result<()> {
        let is_known = || self.tables.lock().unwrap_or_else(PoisonError::into_inner).contains_key(group);
        if is_known() {
            return Ok(());
        }
        let file = self.file(group);
        let table = self.blocking(move || read_table(&file)).await?;
        let table = table.map_err(|error| unusable(&self.file(group), error))?;
        let mut tables = self.tables.lock().unwrap_or_else(PoisonError::into_inner);
        tables.entry(group.to_owned()).or_insert(table);
        Ok(())
    }

    async fn blocking<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> Result<T> {
        self.env.spawn_blocking(work).await.map_err(|error| {
            Error::new(ErrorKind::Closed, "the runtime ends, so a file of offsets was not used").with_source(error)
        })
    }
}

impl fmt::Debug for LocalFileOffsets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LocalFileOffsets").field("directory", &self.directory).finish_non_exhaustive()
    }
}

#[async_trait]
impl OffsetStore for LocalFileOffsets {
    async fn load(&self, group: &str, queue: &MessageQueue) -> Result<Option<i64>> {
        self.read(group).await?;
        let tables = self.tables.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(tables.get(group).and_then(|table| table.get(queue)).copied())
    }

    async fn store(&self, group: &str, queue: &MessageQueue, offset: i64) -> Result<()> {
        self.read(group).await?;
        let _turn = self.writing.lock().await;
        let text = {
            let mut tables = self.tables.lock().unwrap_or_else(PoisonError::into_inner);
            let table = tables.entry(group.to_owned()).or_default();
            table.insert(queue.clone(), offset);
            write_table(table)
        };
        let file = self.file(group);
        let written = self.blocking(move || replace(&file, &text)).await?;
        written.map_err(|error| unusable(&self.file(group), error))
    }
}

fn unusable(file: &Path, error: io::Error) -> Error {
    let message = format!("the file of offsets {} cannot be used: check who owns it, and the space", file.display());
    Error::new(ErrorKind::Rejected, message).with_source(error)
}

fn read_table(file: &Path) -> io::Result<BTreeMap<MessageQueue, i64>> {
    let read = |file: &Path| match std::fs::read(file) {
        Ok(text) if text.is_empty() => Ok(None),
        Ok(text) => parse_table(&text).map(Some),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    };
    match read(file) {
        Ok(Some(table)) => Ok(table),
        Ok(None) => Ok(read(&backup(file))?.unwrap_or_default()),
        Err(error) => match read(&backup(file)) {
            Ok(Some(table)) => {
                tracing::warn!(file = %file.display(), %error, "a file of offsets is damaged; the one before it is used");
                Ok(table)
            }
            _ => Err(error),
        },
    }
}

fn backup(file: &Path) -> PathBuf {
    file.with_extension("json.bak")
}

fn parse_table(text: &[u8]) -> io::Result<BTreeMap<MessageQueue, i64>> {
    let table: QueueOffsets = fastjson::from_slice("offsets", text).map_err(io::Error::other)?;
    let queue = |queue: WireQueue| MessageQueue::new(queue.topic, queue.broker_name, queue.queue_id);
    Ok(table.offset_table.into_iter().map(|(key, offset)| (queue(key.0), offset)).collect())
}

fn write_table(table: &BTreeMap<MessageQueue, i64>) -> Vec<u8> {
    let key = |queue: &MessageQueue| {
        ObjectKey(WireQueue {
            broker_name: queue.broker().to_owned(),
            queue_id: queue.id(),
            topic: queue.topic().to_owned(),
        })
    };
    let offset_table = table.iter().map(|(queue, offset)| (key(queue), *offset)).collect();
    // Plain data of our own; that it cannot be written would be a fault in here.
    fastjson::to_vec("offsets", &QueueOffsets { offset_table }).unwrap_or_default()
}

/// Replaces a file in one step, keeping the old one beside it. At every moment one of the two is whole.
fn replace(file: &Path, text: &[u8]) -> io::Result<()> {
    if let Some(directory) = file.parent() {
        std::fs::create_dir_all(directory)?;
    }
    let new = file.with_extension("json.new");
    let written = std::fs::File::create(&new).and_then(|mut written| {
        io::Write::write_all(&mut written, text)?;
        written.sync_all()
    });
    written?;
    match std::fs::rename(file, backup(file)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    std::fs::rename(&new, file)
}

#[cfg(test)]
#[path = "tests/local_offsets.rs"]
mod tests;
