//! The signals that end the process.

#[cfg(unix)]
pub(crate) struct Signals {
    terminate: tokio::signal::unix::Signal,
    interrupt: tokio::signal::unix::Signal,
}

#[cfg(unix)]
impl Signals {
    pub(crate) fn listen() -> std::io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Signals { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? })
    }

    pub(crate) async fn any(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

#[cfg(not(unix))]
pub(crate) struct Signals;

#[cfg(not(unix))]
impl Signals {
    pub(crate) fn listen() -> std::io::Result<Self> {
        Ok(Signals)
    }

    pub(crate) async fn any(&mut self) {
        // Without the signal the process is ended in another way.
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending().await
        }
    }
}

/// Tells systemd, or whoever started the process in its manner, that it serves.
#[cfg(target_os = "linux")]
pub(crate) fn notify_ready() {
    use std::os::linux::net::SocketAddrExt;
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::net::{SocketAddr, UnixDatagram};

    let Some(name) = std::env::var_os("NOTIFY_SOCKET") else { return };
    let notify = || {
        let address = match name.as_bytes().strip_prefix(b"@") {
            Some(abstract_name) => SocketAddr::from_abstract_name(abstract_name)?,
            None => SocketAddr::from_pathname(&name)?,
        };
        UnixDatagram::unbound()?.send_to_addr(b"READY=1", &address)
    };
    if let Err(error) = notify() {
        tracing::warn!(%error, "NOTIFY_SOCKET is not told that the broker serves");
    }
}

/// Nobody is told.
#[cfg(not(target_os = "linux"))]
pub(crate) fn notify_ready() {}
