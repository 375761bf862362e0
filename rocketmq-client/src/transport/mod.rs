//! Byte streams to a server, and the networks that open them.
//!
//! [`Stream`] is an enum rather than a boxed trait: a write is one match away from the socket. [`Network`] is the seam
//! for opening streams; it is used once per connection, so a boxed future is fine there.

mod memory;
mod socks;
mod tcp;
#[cfg(feature = "tls")]
mod tls;

use std::fmt;
use std::io::{self, IoSlice};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::pin::Pin;
use std::task::{Context, Poll};

use async_trait::async_trait;
use tokio::io::{AsyncRead, AsyncWrite, DuplexStream, ReadBuf};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};

pub use memory::{MemoryListener, MemoryNetwork};
pub use socks::Socks5;
pub use tcp::TcpNetwork;
#[cfg(feature = "tls")]
pub use tls::Tls;
#[cfg(feature = "tls")]
pub(crate) use tls::TlsClient;

/// Finds and reaches servers.
#[async_trait]
pub trait Network: fmt::Debug + Send + Sync {
    /// The addresses a host name stands for, in the order to try them.
    ///
    /// # Errors
    ///
    /// When the name cannot be resolved.
    async fn resolve(&self, host: &str, port: u16) -> io::Result<Vec<SocketAddr>>;

    /// Opens a stream. There is no time limit here; the caller sets one by dropping the future, which leaves nothing
    /// open.
    ///
    /// # Errors
    ///
    /// When the address cannot be reached.
    async fn connect(&self, address: SocketAddr) -> io::Result<Stream>;

    /// The address of this machine that a server there sees, as far as it can be told without asking the server. It goes
    /// into client ids and message ids. The loopback address unless implemented.
    ///
    /// # Errors
    ///
    /// When there is no way to the server.
    fn local_address(&self, server: SocketAddr) -> io::Result<IpAddr> {
        let _ = server;
        Ok(Ipv4Addr::LOCALHOST.into())
    }
}

/// Opens streams in a way of the application's own, such as a tunnel. To be given to
/// [`ClientBuilder::connector`](crate::ClientBuilder::connector).
#[async_trait]
pub trait Connector: fmt::Debug + Send + Sync {
    /// Opens a stream to a server, by the host and port that it registered with, or that they are mapped to; see
    /// [`Stream::from_io`]. There is no time limit here; the caller sets one by dropping the future.
    ///
    /// # Errors
    ///
    /// When the server cannot be reached.
    async fn connect(&self, host: &str, port: u16) -> io::Result<Stream>;
}

/// Whatever can be read and written.
pub trait Duplex: AsyncRead + AsyncWrite + fmt::Debug + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + fmt::Debug + Send + Unpin> Duplex for T {}

/// An open stream to a server.
#[derive(Debug)]
#[non_exhaustive]
pub enum Stream {
    /// A socket.
    Tcp(TcpStream),
    /// One end of an in-memory pipe.
    Memory(DuplexStream),
    /// Anything else.
    Boxed(Box<dyn Duplex>),
}

impl Stream {
    /// A stream of anything that can be read and written, whose writes need no flush.
    pub fn from_io(io: impl Duplex + 'static) -> Self {
        Self::Boxed(Box::new(io))
    }

    /// The two directions, which may be polled from different tasks.
    pub fn into_split(self) -> (ReadHalf, WriteHalf) {
        match self {
            Self::Tcp(stream) => {
                let (read, write) = stream.into_split();
                (ReadHalf::Tcp(read), WriteHalf::Tcp(write))
            }
            Self::Memory(stream) => {
                let (read, write) = tokio::io::split(stream);
                (ReadHalf::Memory(read), WriteHalf::Memory(write))
            }
            Self::Boxed(stream) => {
                let (read, write) = tokio::io::split(stream);
                (ReadHalf::Boxed(read), WriteHalf::Boxed(write))
            }
        }
    }
}

/// The reading direction of a [`Stream`].
#[derive(Debug)]
#[non_exhaustive]
pub enum ReadHalf {
    /// Of a socket.
    Tcp(OwnedReadHalf),
    /// Of an in-memory pipe.
    Memory(tokio::io::ReadHalf<DuplexStream>),
    /// Of anything else.
    Boxed(tokio::io::ReadHalf<Box<dyn Duplex>>),
}

/// The writing direction of a [`Stream`].
#[derive(Debug)]
#[non_exhaustive]
pub enum WriteHalf {
    /// Of a socket.
    Tcp(OwnedWriteHalf),
    /// Of an in-memory pipe.
    Memory(tokio::io::WriteHalf<DuplexStream>),
    /// Of anything else.
    Boxed(tokio::io::WriteHalf<Box<dyn Duplex>>),
}

impl AsyncRead for ReadHalf {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(half) => Pin::new(half).poll_read(cx, buf),
            Self::Memory(half) => Pin::new(half).poll_read(cx, buf),
            Self::Boxed(half) => Pin::new(half).poll_read(cx, buf),
        }
    }
}

impl AsyncWrite for WriteHalf {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Tcp(half) => Pin::new(half).poll_write(cx, buf),
            Self::Memory(half) => Pin::new(half).poll_write(cx, buf),
            Self::Boxed(half) => Pin::new(half).poll_write(cx, buf),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Tcp(half) => Pin::new(half).poll_write_vectored(cx, bufs),
            Self::Memory(half) => Pin::new(half).poll_write_vectored(cx, bufs),
            Self::Boxed(half) => Pin::new(half).poll_write_vectored(cx, bufs),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Self::Tcp(half) => half.is_write_vectored(),
            Self::Memory(half) => half.is_write_vectored(),
            Self::Boxed(half) => half.is_write_vectored(),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(half) => Pin::new(half).poll_flush(cx),
            Self::Memory(half) => Pin::new(half).poll_flush(cx),
            Self::Boxed(half) => Pin::new(half).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(half) => Pin::new(half).poll_shutdown(cx),
            Self::Memory(half) => Pin::new(half).poll_shutdown(cx),
            Self::Boxed(half) => Pin::new(half).poll_shutdown(cx),
        }
    }
}

/// Reading and writing before the stream is split: for what is exchanged with a proxy, and for TLS.
impl AsyncRead for Stream {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_read(cx, buf),
            Self::Memory(stream) => Pin::new(stream).poll_read(cx, buf),
            Self::Boxed(stream) => Pin::new(stream).poll_read(cx, buf),
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_write(cx, buf),
            Self::Memory(stream) => Pin::new(stream).poll_write(cx, buf),
            Self::Boxed(stream) => Pin::new(stream).poll_write(cx, buf),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_flush(cx),
            Self::Memory(stream) => Pin::new(stream).poll_flush(cx),
            Self::Boxed(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_shutdown(cx),
            Self::Memory(stream) => Pin::new(stream).poll_shutdown(cx),
            Self::Boxed(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}
