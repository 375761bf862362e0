//! Making large bodies small before they are sent.

use rocketmq_wire::message::{Compression, sys_flag};
use tokio::sync::Semaphore;

use crate::env::Env;
use crate::message::Message;

/// Bodies up to this size are compressed where the send runs, in less time than a hop to another thread and back may
/// take; larger ones would hold up other tasks there.
const INLINE_BYTES: usize = 8 * 1024;

/// How bodies are compressed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Settings {
    pub(super) algorithm: Compression,
    /// Level of zlib and Zstandard.
    pub(super) level: i32,
    /// The smallest body to compress.
    pub(super) over: usize,
}

impl Default for Settings {
    fn default() -> Self {
        let over = if cfg!(feature = "zlib") { 4096 } else { usize::MAX };
        Self { algorithm: Compression::Zlib, level: Compression::DEFAULT_LEVEL, over }
    }
}

/// Compresses for one producer.
#[derive(Debug)]
pub(super) struct Compressor {
    settings: Settings,
    /// Compression off the event loop takes half of the processors at most, so that small sends are not held up.
    threads: Semaphore,
}

impl Compressor {
    pub(super) fn new(settings: Settings, env: &Env) -> Self {
        Self { settings, threads: Semaphore::new((env.workers() / 2).max(1)) }
    }

    /// The smallest body that is compressed.
    pub(super) fn over(&self) -> usize {
        self.settings.over
    }

    /// Compresses the body if it is large enough and gets smaller by it. One that is compressed already stays as it is.
    ///
    /// Dropping the future leaves the message as it was.
    pub(super) async fn compress(&self, message: &mut Message, env: &Env) {
        let Settings { algorithm, level, over } = self.settings;
        if message.body().len() < over || sys_flag::is_compressed(message.sys_flag()) {
            return;
        }
        let body = message.body().clone();
        let packed = if body.len() <= INLINE_BYTES {
            algorithm.compress(&body, level)
        } else {
            // The semaphore is never closed.
            let _thread = self.threads.acquire().await.ok();
            let plain = body.clone();
            match env.spawn_blocking(move || algorithm.compress(&plain, level)).await {
                Ok(packed) => packed,
                // It panicked, or the runtime ends: the body is as good without.
                Err(_) => return,
            }
        };
        match packed {
            Ok(packed) if packed.len() < body.len() => message.set_compressed(packed.into(), algorithm.sys_flag_bits()),
            Ok(_) => {}
            Err(error) => tracing::debug!(%error, "a body was not compressed"),
        }
    }
}
