//! What goes over the socket, as values.
//!
//! A pure codec for RocketMQ's remoting protocol, versions 4.4 to 5.x: no sockets, no clock, no randomness, no threads.
//!
//! * [`frame`] cuts a byte stream into frames,
//! * [`header`] reads and writes command headers, JSON or binary,
//! * [`request`] has a type for each request and answer, [`model`] the JSON bodies,
//! * [`message`] has messages as they are stored, batched, flagged and identified,
//! * [`acl`] signs requests,
//! * [`fastjson`] reads the dialect of JSON that Apache's servers write,
//! * [`command`] is the generic form, for tools.

pub mod acl;
pub mod code;
pub mod command;
pub mod error;
pub mod fastjson;
pub mod filter;
pub mod frame;
pub mod header;
pub mod message;
pub mod model;
pub mod request;

pub use code::{LanguageCode, RequestCode, ResponseCode, Version};
pub use command::RemotingCommand;
pub use error::{DecodeError, EncodeError};
pub use frame::Frame;
