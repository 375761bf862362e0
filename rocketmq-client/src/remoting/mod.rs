//! Requests and answers over connections.
//!
//! * [`Pool::new`]`(env, options) -> (Pool, mpsc::Receiver<Incoming>)`: one [`Peer`] for each address, and what servers
//!   ask of this client.
//! * [`Pool::peer`]`(&str) -> Peer`: a cheap handle on one server that outlives its connections.
//! * [`Peer::call`]`(&request, &body, deadline) -> Result<Response>` connects when needed, waits for leave, sends and
//!   awaits the answer; [`Peer::call_one_way`] returns when the request is handed to the connection. Any response code
//!   is an `Ok`; [`Response::success`] turns all but zero into an error.
//! * [`Response`]: `code()`, `remark()`, `decode::<R>()` (the typed header of the answer to request `R`), `body()`.
//! * [`Incoming`]: `code()`, `decode()`, `body()`, `respond(..)`. One that is dropped is answered with an error.
//! * [`Pool::events`]: connections that open, close or cannot be opened.
//! * [`Connection::open`]`(stream, ..) -> (Connection, Driver)`: one connection without a pool, for tests.
//!
//! # How a request travels
//!
//! `Pending` lets it through (or queues the caller, within its deadline) and gives it a number; the caller encodes it
//! into the connection's output; one of the callers that do so at the same time writes for all; the connection's own task,
//! [`Driver`], reads answers, hands each to the waiter that its number names, writes when the socket was full, ends requests
//! whose time is over, and notices that the peer is gone. No task, timer or channel is made for a request.
//!
//! # Dropping a call
//!
//! Before the request has been handed to the connection, nothing was sent. After, it is sent whole, and its answer is
//! dropped when it comes. In both cases whatever the call occupied is free at once.

mod call;
mod connection;
mod dial;
mod driver;
mod incoming;
mod options;
mod output;
mod peer;
mod pending;
mod pool;
mod response;
mod stamp;
mod supervisor;

pub(crate) use call::{InFlight, Way};
pub use connection::Connection;
pub use dial::Dial;
pub(crate) use dial::split as split_address;
pub use driver::Driver;
pub use incoming::Incoming;
pub use options::{ConnectionOptions, ConnectionStats, HeaderType};
pub use peer::Peer;
pub(crate) use peer::never_left;
pub use pool::{ConnectionEvent, Pool, PoolOptions};
pub(crate) use response::Answered;
pub use response::Response;
pub use stamp::Stamp;

#[cfg(test)]
mod tests;
