//! A port that can be shut and opened again while the server runs.

use std::cell::RefCell;
use std::io;
use std::net::{Shutdown, SocketAddr};
use std::rc::Rc;

use socket2::SockRef;
use tokio::net::TcpListener;
use tokio::sync::Notify;

use super::listen::listen;
use crate::pattern::Port;

/// A listening socket, and what it is for.
#[derive(Debug)]
pub(super) struct Gate {
    pub(super) port: Port,
    pub(super) address: SocketAddr,
    listener: RefCell<Option<Rc<TcpListener>>>,
    /// Signalled when the listener is another one.
    changed: Notify,
}

impl Gate {
    pub(super) fn new(port: Port, listener: std::net::TcpListener) -> io::Result<Rc<Self>> {
        let address = listener.local_addr()?;
        let listener = RefCell::new(Some(Rc::new(TcpListener::from_std(listener)?)));
        Ok(Rc::new(Gate { port, address, listener, changed: Notify::new() }))
    }

    /// Accepts the next connection. Waits while the port is shut.
    pub(super) async fn accept(&self) -> io::Result<(tokio::net::TcpStream, SocketAddr)> {
        loop {
            let listener = self.listener.borrow().clone();
            let Some(listener) = listener else {
                self.changed.notified().await;
                continue;
            };
            tokio::select! {
                accepted = listener.accept() => {
                    // A listener that was shut fails.
                    if self.listener.borrow().as_ref().is_some_and(|current| Rc::ptr_eq(current, &listener)) {
                        return accepted;
                    }
                }
                () = self.changed.notified() => {}
            }
        }
    }

    /// Lets nobody in: connecting is refused from now on.
    pub(super) fn shut(&self) {
        if let Some(listener) = self.listener.borrow_mut().take() {
            // Where this does not end the listening, dropping it does, as soon as the acceptor has noticed.
            let _ = SockRef::from(&*listener).shutdown(Shutdown::Both);
            self.changed.notify_one();
        }
    }

    /// Listens again. Nothing to do for a port that is open.
    pub(super) fn open(&self) {
        if self.listener.borrow().is_some() {
            return;
        }
        let opened = listen("port that was shut", self.address)
            .map_err(|error| error.to_string())
            .and_then(|listener| TcpListener::from_std(listener).map_err(|error| error.to_string()));
        match opened {
            Ok(listener) => {
                *self.listener.borrow_mut() = Some(Rc::new(listener));
                self.changed.notify_one();
            }
            Err(error) => tracing::error!(address = %self.address, error, "a port cannot be opened again"),
        }
    }
}
