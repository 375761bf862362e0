//! One connection: reads requests, writes answers. Everything that one read brought is answered by one write.

use std::cell::RefCell;
use std::io;
use std::net::Shutdown;
use std::rc::Rc;
use std::time::Duration;

use bytes::BytesMut;
use rocketmq_wire::frame::{DEFAULT_MAX_FRAME_LENGTH, announced_length};
use socket2::SockRef;
use tokio::net::TcpStream;

use super::rest;
use super::state::{Connection, Ending, Pace, State};

/// Room for the next read of a connection that has sent little so far.
const FIRST_ROOM: usize = 4 << 10;

/// Room for the next read of a connection that always fills what it gets.
const BUSY_ROOM: usize = 64 << 10;

/// A buffer larger than this is given back once it is empty.
const KEEP_BUFFER: usize = 256 << 10;

/// Serves a connection until it ends, and forgets it however this future ends.
pub(super) async fn serve(state: Rc<RefCell<State>>, connection: Rc<Connection>, stream: TcpStream) {
    let served = Registered { state, connection };
    let peer = served.connection.peer.address;
    match served.serve_any(stream).await {
        Ok(()) => tracing::debug!(%peer, "connection closed"),
        Err(error) => tracing::info!(%peer, %error, "connection lost"),
    }
}

pub(super) struct Registered {
    pub(super) state: Rc<RefCell<State>>,
    pub(super) connection: Rc<Connection>,
}

impl Drop for Registered {
    fn drop(&mut self) {
        self.state.borrow_mut().disconnected(&self.connection);
    }
}

impl Registered {
    pub(super) async fn run(&self, stream: &TcpStream) -> io::Result<()> {
        let mut received = Received::new();
        while !self.connection.closing.get() {
            if self.connection.ending.get() == Ending::Silence {
                self.connection.closed().await;
                break;
            }
            if let Some(pace) = self.connection.pace.get() {
                self.drip(stream, pace).await?;
            }
            let pending = self.write(stream)?;
            if !pending && self.connection.ending.get() != Ending::None {
                self.end(stream);
                break;
            }
            tokio::select! {
                // Nothing more is read from a client that does not read its answers.
                readable = stream.readable(), if !pending => {
                    readable?;
                    if !self.read(stream, &mut received)? {
                        return Ok(());
                    }
                }
                writable = stream.writable(), if pending => writable?,
                () = self.connection.wake.notified() => {}
            }
        }
        Ok(())
    }

    /// Writes what is in the outbox a few bytes at a time, and what comes meanwhile.
    async fn drip(&self, stream: &TcpStream, pace: Pace) -> io::Result<()> {
        let drip = async {
            loop {
                let pieces = self.connection.outbox.borrow_mut().take();
                if pieces.is_empty() {
                    return Ok(());
                }
                for mut left in pieces.iter().flat_map(|piece| piece.chunks(pace.bytes)) {
                    while !left.is_empty() {
                        stream.writable().await?;
                        match stream.try_write(left) {
                            Ok(written) => left = &left[written..],
                            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                            Err(error) => return Err(error),
                        }
                    }
                    rest(pace.every).await;
                }
            }
        };
        self.connection.pace.set(None);
        tokio::select! {
            dripped = drip => dripped,
            () = self.connection.closed() => Ok(()),
        }
    }

    /// Lets the connection end as a fault has it.
    pub(super) fn end(&self, stream: &TcpStream) {
        // What fails here has ended already.
        let _ = match self.connection.ending.get() {
            Ending::Reset => SockRef::from(stream).set_linger(Some(Duration::ZERO)),
            _ => SockRef::from(stream).shutdown(Shutdown::Write),
        };
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
    fn read(&self, stream: &TcpStream, received: &mut Received) -> io::Result<bool> {
        let room = received.make_room();
        let buffer = &mut received.buffer;
        match stream.try_read_buf(buffer) {
            Ok(0) => return Ok(false),
            Ok(count) if count == room => received.room = (received.room * 2).min(BUSY_ROOM),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(true),
            Err(error) => return Err(error),
        }
        self.serve_received(received)?;
        Ok(true)
    }

    /// Serves what is whole.
    pub(super) fn serve_received(&self, received: &mut Received) -> io::Result<()> {
        let buffer = &mut received.buffer;
        let served = self.state.borrow_mut().serve(&self.connection, buffer);
        served.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
        if buffer.is_empty() && buffer.capacity() > KEEP_BUFFER {
            *buffer = BytesMut::new();
        }
        Ok(())
    }
}

/// What came and is not served yet.
pub(super) struct Received {
    buffer: BytesMut,
    /// How much the next read may bring at least.
    room: usize,
}

impl Received {
    pub(super) fn new() -> Self {
        Self { buffer: BytesMut::new(), room: FIRST_ROOM }
    }

    pub(super) fn buffer(&mut self) -> &mut BytesMut {
        &mut self.buffer
    }

    /// Makes room for the next read and returns how much there is. A large frame gets more the more of it is there,
    /// never as much as the peer merely announces.
    pub(super) fn make_room(&mut self) -> usize {
        let announced = announced_length(&self.buffer).unwrap_or(0).min(DEFAULT_MAX_FRAME_LENGTH);
        let missing = announced.saturating_sub(self.buffer.len());
        let wanted = missing.min(self.buffer.len().max(BUSY_ROOM)).max(self.room);
        // What was served has left its room at the front; reserving takes that back before it allocates.
        if self.buffer.capacity() - self.buffer.len() < wanted {
            self.buffer.reserve(wanted);
        }
        self.buffer.capacity() - self.buffer.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::{Buf, BufMut};

    #[test]
    fn room_follows_what_came_not_what_is_announced() {
        let mut received = Received { buffer: BytesMut::new(), room: FIRST_ROOM };
        assert!(received.make_room() < 2 * BUSY_ROOM);
        received.buffer.put_u32(15 << 20);
        assert!(received.make_room() < 2 * BUSY_ROOM);
        received.buffer.put_bytes(0, 1 << 20);
        assert!(received.make_room() >= 1 << 20 && received.buffer.capacity() < 4 << 20);
        received.buffer = BytesMut::new();
        received.buffer.put_u32(u32::MAX);
        assert!(received.make_room() < 2 * BUSY_ROOM);
    }

    #[test]
    fn room_at_the_front_is_used_again() {
        let mut received = Received { buffer: BytesMut::new(), room: FIRST_ROOM };
        received.make_room();
        let first = received.buffer.capacity();
        for _ in 0..100 {
            received.make_room();
            received.buffer.put_bytes(0, 3000);
            received.buffer.advance(2990);
            received.buffer.advance(10);
        }
        received.make_room();
        assert!(received.buffer.capacity() <= first.max(2 * FIRST_ROOM), "{}", received.buffer.capacity());
    }
}
