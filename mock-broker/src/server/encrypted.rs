//! Connections over TLS: found out by their first byte, and served like plain ones.

use std::io;
use std::pin::pin;

use bytes::BytesMut;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::server::TlsStream;

use super::connection::{Received, Registered};
use super::encryption::{HANDSHAKE, TlsMode};
use super::rest;
use super::state::Ending;

impl Registered {
    /// Serves a connection of the kind that its first byte shows.
    pub(super) async fn serve_any(&self, stream: TcpStream) -> io::Result<()> {
        let encryption = self.state.borrow().encryption().clone();
        if encryption.mode() == TlsMode::Disabled {
            return self.run(&stream).await;
        }
        let mut first = [0; 1];
        let is_encrypted = tokio::select! {
            peeked = stream.peek(&mut first) => peeked? == 1 && first[0] == HANDSHAKE,
            // Silent for too long, and to be closed.
            () = self.connection.closed() => return Ok(()),
        };
        if !is_encrypted {
            if encryption.mode() == TlsMode::Enforcing {
                return Err(io::Error::new(io::ErrorKind::InvalidData, "a plain connection, where TLS is enforced"));
            }
            return self.run(&stream).await;
        }
        let acceptor = encryption.acceptor()?;
        let stream = tokio::select! {
            stream = acceptor.accept(stream) => stream?,
            () = self.connection.closed() => return Ok(()),
        };
        self.run_encrypted(stream).await
    }

    async fn run_encrypted(&self, mut stream: TlsStream<TcpStream>) -> io::Result<()> {
        let mut received = Received::new();
        while !self.connection.closing.get() {
            if self.connection.ending.get() == Ending::Silence {
                self.connection.closed().await;
                break;
            }
            self.write_encrypted(&mut stream).await?;
            if self.connection.ending.get() != Ending::None {
                self.end(stream.get_ref().0);
                break;
            }
            received.make_room();
            let buffer: &mut BytesMut = received.buffer();
            let read = tokio::select! {
                read = stream.read_buf(buffer) => Some(read?),
                () = self.connection.wake.notified() => None,
            };
            match read {
                Some(0) => return Ok(()),
                Some(_) => self.serve_received(&mut received)?,
                None => {}
            }
        }
        Ok(())
    }

    /// Writes all that is in the outbox, and what comes meanwhile. Nothing is read until then, as on plain connections.
    async fn write_encrypted(&self, stream: &mut TlsStream<TcpStream>) -> io::Result<()> {
        loop {
            let pieces = self.connection.outbox.borrow_mut().take();
            if pieces.is_empty() {
                return Ok(());
            }
            self.state.borrow_mut().written(&self.connection);
            let pace = self.connection.pace.take();
            let write = async {
                for piece in &pieces {
                    let Some(pace) = pace else {
                        stream.write_all(piece).await?;
                        continue;
                    };
                    for chunk in piece.chunks(pace.bytes) {
                        stream.write_all(chunk).await?;
                        stream.flush().await?;
                        rest(pace.every).await;
                    }
                }
                stream.flush().await
            };
            let mut write = pin!(write);
            tokio::select! {
                written = &mut write => written?,
                () = self.connection.closed() => return Ok(()),
            }
        }
    }
}
