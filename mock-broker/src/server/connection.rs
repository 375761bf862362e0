//! One connection: reads requests, writes answers. Everything that one read brought is answered by one write.

use std::cell::RefCell;
use std::io;
use std::rc::Rc;

use bytes::BytesMut;
use rocketmq_wire::frame::{DEFAULT_MAX_FRAME_LENGTH, announced_length};
use tokio::net::TcpStream;

use super::state::{Connection, State};

/// The receive buffer of a connection that has sent nothing large yet.
const FIRST_BUFFER: usize = 4 << 10;

/// A busy connection reads up to this much at once.
const BUSY_BUFFER: usize = 64 << 10;

/// A buffer larger than this is given back once it is empty.
const KEEP_BUFFER: usize = 256 << 10;

/// Serves a connection until it ends, and forgets it however this future ends.
pub(super) async fn serve(state: Rc<RefCell<State>>, connection: Rc<Connection>, stream: TcpStream) {
    let served = Registered { state, connection };
    let peer = served.connection.peer.address;
    match served.run(&stream).await {
        Ok(()) => tracing::debug!(%peer, "connection closed"),
        Err(error) => tracing::info!(%peer, %error, "connection lost"),
    }
}

struct Registered {
    state: Rc<RefCell<State>>,
    connection: Rc<Connection>,
}

impl Drop for Registered {
    fn drop(&mut self) {
        self.state.borrow_mut().disconnected(&self.connection);
    }
}

impl Registered {
    async fn run(&self, stream: &TcpStream) -> io::Result<()> {
        let mut buffer = BytesMut::new();
        while !self.connection.closing.get() {
            let pending = self.write(stream)?;
            tokio::select! {
                // Nothing more is read from a client that does not read its answers.
                readable = stream.readable(), if !pending => {
                    readable?;
                    if !self.read(stream, &mut buffer)? {
                        return Ok(());
                    }
                }
                writable = stream.writable(), if pending => writable?,
                () = self.connection.wake.notified() => {}
            }
        }
        Ok(())
    }

    /// Writes what is in the outbox; true if something is left.
    fn write(&self, stream: &TcpStream) -> io::Result<bool> {
        let mut outbox = self.connection.outbox.borrow_mut();
        if outbox.is_empty() {
            return Ok(false);
        }
        let result = outbox.write_to(stream);
        self.state.borrow_mut().written(&self.connection);
        match result {
            Ok(()) => Ok(false),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(true),
            Err(error) => Err(error),
        }
    }

    /// Reads once and serves what is whole; false at the end of the stream.
    fn read(&self, stream: &TcpStream, buffer: &mut BytesMut) -> io::Result<bool> {
        make_room(buffer);
        match stream.try_read_buf(buffer) {
            Ok(0) => return Ok(false),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(true),
            Err(error) => return Err(error),
        }
        let served = self.state.borrow_mut().serve(&self.connection, buffer);
        served.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
        if buffer.is_empty() && buffer.capacity() > KEEP_BUFFER {
            *buffer = BytesMut::new();
        }
        Ok(true)
    }
}

/// Makes room for the next read: more if the last one filled the buffer, but never as much as a peer merely announces.
fn make_room(buffer: &mut BytesMut) {
    if buffer.capacity() == 0 {
        buffer.reserve(FIRST_BUFFER);
    }
    if buffer.len() < buffer.capacity() {
        return;
    }
    let announced = announced_length(buffer).unwrap_or(0).min(DEFAULT_MAX_FRAME_LENGTH);
    let missing = announced.saturating_sub(buffer.len());
    let double = buffer.len().max(BUSY_BUFFER);
    buffer.reserve(missing.clamp(FIRST_BUFFER, double));
}
