//! The master's side of replication: sends its log to slaves as it grows, and hears how far they are.
//!
//! A slave says in eight bytes where its log ends, over and over. The master sends frames of an offset (8 bytes), a
//! size (4) and so many bytes of the log; a frame without bytes says that it is alive.

use std::cell::RefCell;
use std::io;
use std::rc::Rc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};

use super::state::State;
use super::{REST_AFTER_FAILED_ACCEPT, rest};
use crate::broker::SlaveId;

/// A slave hears something at least this often (`haSendHeartbeatInterval`).
const HEARTBEAT: Duration = Duration::from_secs(5);
/// A slave that says nothing for so long is gone (`haHousekeepingInterval`).
const SILENCE: Duration = Duration::from_secs(20);

/// Accepts slaves.
pub(super) async fn accept(state: Rc<RefCell<State>>, listener: TcpListener) {
    loop {
        match listener.accept().await {
            Ok((stream, address)) => {
                let state = Rc::clone(&state);
                tokio::task::spawn_local(async move {
                    tracing::info!(slave = %address, "a slave connected");
                    let error = serve(&state, stream).await;
                    tracing::info!(slave = %address, %error, "a slave is gone");
                });
            }
            Err(error) => {
                tracing::error!(%error, "a slave could not be accepted");
                rest(REST_AFTER_FAILED_ACCEPT).await;
            }
        }
    }
}

/// A slave that is forgotten when this is dropped.
struct Connected<'a> {
    state: &'a RefCell<State>,
    id: SlaveId,
}

impl Drop for Connected<'_> {
    fn drop(&mut self) {
        self.state.borrow_mut().broker_mut().slave_disconnected(self.id);
    }
}

/// Serves a slave until one side gives up, and says why.
async fn serve(state: &RefCell<State>, stream: TcpStream) -> io::Error {
    let run = async {
        stream.set_nodelay(true)?;
        let (mut reader, writer) = stream.into_split();
        let offset = report(&mut reader).await?;
        let (id, start) = state.borrow_mut().broker_mut().slave_connected(offset).map_err(refused)?;
        let connected = Connected { state, id };
        tokio::select! {
            result = hear(&connected, reader) => result,
            result = tell(state, writer, start) => result,
        }
    };
    match run.await {
        Ok(never) => match never {},
        Err(error) => error,
    }
}

enum Never {}

fn refused(why: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

/// Reads where the slave's log ends.
async fn report(reader: &mut OwnedReadHalf) -> io::Result<i64> {
    tokio::select! {
        read = reader.read_i64() => read,
        () = rest(SILENCE) => Err(io::Error::new(io::ErrorKind::TimedOut, "it said nothing for 20 seconds")),
    }
}

async fn hear(connected: &Connected<'_>, mut reader: OwnedReadHalf) -> io::Result<Never> {
    loop {
        let offset = report(&mut reader).await?;
        connected.state.borrow_mut().slave_has(connected.id, offset).map_err(refused)?;
    }
}

async fn tell(state: &RefCell<State>, mut writer: OwnedWriteHalf, mut offset: u64) -> io::Result<Never> {
    let grown = Rc::clone(&state.borrow().log_grown);
    loop {
        // Before the log is looked at, so that nothing that comes after goes unnoticed.
        let grows = grown.notified();
        let bytes = state.borrow().replicated_bytes(offset);
        let mut header = [0; 12];
        header[..8].copy_from_slice(&offset.to_be_bytes());
        header[8..].copy_from_slice(&(bytes.len() as u32).to_be_bytes());
        if bytes.is_empty() {
            tokio::select! {
                () = grows => continue,
                () = rest(HEARTBEAT) => {}
            }
        }
        writer.write_all(&header).await?;
        writer.write_all(&bytes).await?;
        offset += bytes.len() as u64;
    }
}
