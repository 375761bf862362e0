//! A broker inside the process that tests with it.

mod builder;
mod cluster;
mod contents;
mod faults;
mod incarnation;
mod journal;
mod start_error;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;
use std::time::Duration;

use rocketmq_wire::message::StoredMessage;
use tokio::sync::{mpsc, oneshot};

pub use builder::MockBrokerBuilder;
pub use cluster::{MockCluster, MockClusterBuilder};
pub use faults::FaultGuard;
pub use start_error::StartError;

use crate::server::{Control, State};
use builder::queue_count;
use start_error::Cause;

/// A name server and a broker on a thread of their own.
///
/// Clients connect to [`name_server`](Self::name_server) as to any other. Dropping the value closes the ports and the
/// connections, saves the store if it is on disk, and waits until the thread has ended.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), rocketmq_mock_broker::StartError> {
/// use rocketmq_mock_broker::{Compatibility, MockBroker};
///
/// let broker = MockBroker::builder().topic("orders", 4).compatibility(Compatibility::V4_9).start().await?;
/// assert!(broker.messages("orders").is_empty());
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct MockBroker {
    /// Not bounded: every caller waits for its answer, so there are no more entries than callers.
    control: Option<mpsc::UnboundedSender<Control>>,
    thread: Option<JoinHandle<()>>,
    name_server: String,
    broker: String,
    store: Option<PathBuf>,
    console: Option<SocketAddr>,
}

impl MockBroker {
    /// Starts a broker with the default settings: ports chosen by the kernel on 127.0.0.1, messages in memory, topics
    /// created by the first send, like Apache 5.3. It serves when this returns. Needs no runtime of a certain kind; if
    /// the future is dropped, the broker ends.
    ///
    /// # Errors
    ///
    /// When no port or no thread is to be had.
    pub async fn start() -> Result<Self, StartError> {
        Self::builder().start().await
    }

    /// As [`start`](Self::start), for code that is not asynchronous.
    ///
    /// # Errors
    ///
    /// As [`start`](Self::start).
    pub fn start_blocking() -> Result<Self, StartError> {
        Self::builder().start_blocking()
    }

    /// Begins to describe a broker.
    pub fn builder() -> MockBrokerBuilder {
        MockBrokerBuilder::new()
    }

    /// The address of the name server, for clients: `host:port`.
    #[must_use]
    pub fn name_server(&self) -> &str {
        &self.name_server
    }

    /// The address of the broker as routes name it: `host:port`.
    #[must_use]
    pub fn broker_address(&self) -> &str {
        &self.broker
    }

    /// The certificate that connections are encrypted with, as PEM: clients trust the broker when they trust this.
    ///
    /// # Panics
    ///
    /// While the broker is stopped, and when the machine has no randomness to make one of.
    #[must_use]
    pub fn certificate(&self) -> String {
        let certificate = self.call_blocking(|state| state.encryption().certificate());
        certificate.unwrap_or_else(|error| panic!("there is no certificate: {error}"))
    }

    /// The directory that keeps messages; none if they are in memory.
    #[must_use]
    pub fn store_directory(&self) -> Option<&Path> {
        self.store.as_deref()
    }

    /// Where the console listens; none if there is none.
    #[must_use]
    pub fn console_address(&self) -> Option<SocketAddr> {
        self.console
    }

    /// Starts over with nothing stored, no offsets, no faults and an empty journal, on the same ports; topics that the builder
    /// named are there again. Clients lose their connections and come back by themselves.
    ///
    /// # Errors
    ///
    /// For a broker with a store on disk, which is left as it is, and for one that is stopped.
    pub async fn reset(&self) -> Result<(), StartError> {
        if let Some(directory) = &self.store {
            let text = format!("the store in {} is not emptied: use another directory", directory.display());
            return Err(StartError(Cause::Address(text)));
        }
        let (done, result) = oneshot::channel();
        self.send(Control::Reset(done));
        result.await.unwrap_or(Err(StartError(Cause::Gone)))
    }

    /// Has everything that stores a message refused from now on as if the machine were busy with its page cache
    /// (`OS_PAGE_CACHE_BUSY`), until it is called with false. Sends are answered with `SYSTEM_BUSY` and
    /// `[REJECTREQUEST]`; delayed messages wait. If the future is dropped, it may have been done.
    ///
    /// # Panics
    ///
    /// While the broker is stopped.
    pub async fn set_page_cache_busy(&self, busy: bool) {
        self.call(move |state| state.set_page_cache_busy(busy)).await;
    }

    /// Turns message time forward and returns when everything that is due by then has been stored and the clients that
    /// wait for it have been answered. Delayed messages are delivered at once; heartbeats, locks and long polls keep to
    /// real time. If the future is dropped, time may have been turned.
    ///
    /// # Panics
    ///
    /// While the broker is stopped.
    pub async fn advance(&self, by: Duration) {
        self.call(move |state| state.advance(by)).await;
    }

    /// As [`advance`](Self::advance), for code that is not asynchronous.
    ///
    /// # Panics
    ///
    /// While the broker is stopped.
    pub fn advance_blocking(&self, by: Duration) {
        self.call_blocking(move |state| state.advance(by));
    }

    /// Turns session time forward: clients that were not heard of in time are dropped, locks fall, long polls end.
    ///
    /// # Panics
    ///
    /// While the broker is stopped.
    pub async fn advance_sessions(&self, by: Duration) {
        self.call(move |state| state.advance_sessions(by)).await;
    }

    /// As [`advance_sessions`](Self::advance_sessions), for code that is not asynchronous.
    ///
    /// # Panics
    ///
    /// While the broker is stopped.
    pub fn advance_sessions_blocking(&self, by: Duration) {
        self.call_blocking(move |state| state.advance_sessions(by));
    }

    /// Every message that can be consumed from a topic, queue by queue in the order of the queue. Messages that are
    /// delayed are not there yet. Waits for the broker's thread, for no longer than it needs to answer a request.
    ///
    /// # Panics
    ///
    /// While the broker is stopped.
    #[must_use]
    pub fn messages(&self, topic: &str) -> Vec<StoredMessage> {
        let topic = topic.to_owned();
        self.call_blocking(move |state| state.broker().messages(&topic))
    }

    /// Creates a topic, or changes how many queues it has, and tells the name server.
    ///
    /// # Panics
    ///
    /// While the broker is stopped.
    pub async fn create_topic(&self, topic: &str, queues: u32) {
        let topic = topic.to_owned();
        self.call(move |state| state.set_topic(&topic, queue_count(queues))).await;
    }

    /// Stops the broker as the end of its process would: ports and connections close, who was connected is forgotten.
    /// Messages, topics and offsets are kept. A store on disk is closed and can be opened by others until
    /// [`restart`](Self::restart). Nothing to do if it is stopped.
    ///
    /// # Errors
    ///
    /// When the store cannot be saved; the broker is stopped nevertheless.
    pub async fn stop(&self) -> Result<(), StartError> {
        let (done, result) = oneshot::channel();
        self.send(Control::Stop(done));
        result.await.unwrap_or(Err(StartError(Cause::Gone)))
    }

    /// Starts the broker again, on the ports that it had. It serves when this returns. Nothing to do if it runs.
    ///
    /// # Errors
    ///
    /// When a port was taken by somebody else meanwhile, or the store cannot be opened; it may be tried again.
    pub async fn restart(&self) -> Result<(), StartError> {
        let (done, result) = oneshot::channel();
        self.send(Control::Restart(done));
        result.await.unwrap_or(Err(StartError(Cause::Gone)))
    }

    /// As [`stop`](Self::stop), for code that is not asynchronous.
    ///
    /// # Errors
    ///
    /// As [`stop`](Self::stop).
    pub fn stop_blocking(&self) -> Result<(), StartError> {
        block_on(self.stop())
    }

    /// As [`restart`](Self::restart), for code that is not asynchronous.
    ///
    /// # Errors
    ///
    /// As [`restart`](Self::restart).
    pub fn restart_blocking(&self) -> Result<(), StartError> {
        block_on(self.restart())
    }

    fn send(&self, message: Control) {
        if let Some(control) = &self.control {
            // A thread that is gone drops what was sent, and the waiting side notices.
            let _ = control.send(message);
        }
    }

    async fn call<T: Send + 'static>(&self, call: impl FnOnce(&mut State) -> T + Send + 'static) -> T {
        let control = self.control.as_ref().expect(STOPPED);
        ask(control, call).await.expect(STOPPED)
    }

    fn call_blocking<T: Send + 'static>(&self, call: impl FnOnce(&mut State) -> T + Send + 'static) -> T {
        block_on(self.call(call))
    }
}

/// Has something done on the broker's thread; none if the broker is stopped or gone.
async fn ask<T: Send + 'static>(
    control: &mpsc::UnboundedSender<Control>,
    call: impl FnOnce(&mut State) -> T + Send + 'static,
) -> Option<T> {
    let (done, result) = oneshot::channel();
    let call = Control::Call(Box::new(move |state| {
        // The caller may have stopped waiting.
        let _ = done.send(call(state));
    }));
    // A thread that is gone drops what was sent.
    let _ = control.send(call);
    result.await.ok()
}

const STOPPED: &str = "the broker is stopped: call `restart` first";

impl Drop for MockBroker {
    fn drop(&mut self) {
        // Without a sender the thread ends.
        self.control = None;
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the broker's thread panicked");
        }
    }
}

/// Waits for a future that another thread completes. Nothing that the future needs runs on this thread.
fn block_on<T>(future: impl Future<Output = T>) -> T {
    struct Unpark(std::thread::Thread);
    impl std::task::Wake for Unpark {
        fn wake(self: std::sync::Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = std::sync::Arc::new(Unpark(std::thread::current())).into();
    let mut context = std::task::Context::from_waker(&waker);
    let mut future = std::pin::pin!(future);
    loop {
        match future.as_mut().poll(&mut context) {
            std::task::Poll::Ready(value) => return value,
            std::task::Poll::Pending => std::thread::park(),
        }
    }
}
