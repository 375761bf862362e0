//! The ports: name server, broker, the broker's second port, which Java clients of 4.4 send to, and the one for slaves.

use std::fmt;
use std::io;
use std::net::{SocketAddr, TcpListener};

use socket2::{Domain, Protocol, Socket, Type};

/// Connections that wait to be accepted.
const BACKLOG: i32 = 1024;

/// The second port is this much below the broker's.
const SECOND_PORT_BELOW: u16 = 2;

/// The port for slaves is this much above the broker's.
const HA_PORT_ABOVE: u16 = 1;

/// How often ports of the kernel's choice are tried until the one two below is free as well.
const ATTEMPTS: usize = 200;

/// Sockets that accept connections.
#[derive(Debug)]
pub(crate) struct Listeners {
    pub(crate) name_server: TcpListener,
    pub(crate) broker: TcpListener,
    pub(crate) second: TcpListener,
    /// For slaves, on a broker that takes part in replication.
    pub(crate) ha: Option<TcpListener>,
}

/// A port that cannot be listened on.
#[derive(Debug)]
pub(crate) struct ListenError {
    what: &'static str,
    address: SocketAddr,
    source: io::Error,
}

impl fmt::Display for ListenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ListenError { what, address, source } = self;
        write!(f, "cannot listen on {address} for the {what}: {source}; choose another address, or port 0")
    }
}

impl std::error::Error for ListenError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.source)
    }
}

impl Listeners {
    /// Listens for the name server and the broker. With port 0 the kernel chooses; for the broker it is asked again
    /// until the port two below is free too, and for `with_ha` the one above.
    ///
    /// # Errors
    ///
    /// When an address cannot be listened on.
    pub(crate) fn bind(name_server: SocketAddr, broker: SocketAddr, with_ha: bool) -> Result<Self, ListenError> {
        let name_server = listen("name server", name_server)?;
        let mut attempt = 1;
        loop {
            match bind_broker(broker, with_ha) {
                Ok((broker, second, ha)) => return Ok(Listeners { name_server, broker, second, ha }),
                Err(error) if broker.port() != 0 || attempt == ATTEMPTS => return Err(error),
                Err(_) => attempt += 1,
            }
        }
    }

    /// The address of the name server and that of the broker.
    ///
    /// # Errors
    ///
    /// What the operating system says.
    pub(crate) fn addresses(&self) -> io::Result<(SocketAddr, SocketAddr)> {
        Ok((self.name_server.local_addr()?, self.broker.local_addr()?))
    }
}

type BrokerListeners = (TcpListener, TcpListener, Option<TcpListener>);

fn bind_broker(address: SocketAddr, with_ha: bool) -> Result<BrokerListeners, ListenError> {
    let broker = listen("broker", address)?;
    let what = "second port of the broker, two below the first";
    let bound = broker.local_addr().map_err(|source| ListenError { what: "broker", address, source })?;
    let Some(port) = bound.port().checked_sub(SECOND_PORT_BELOW).filter(|port| *port != 0) else {
        let source = io::Error::new(io::ErrorKind::InvalidInput, "there is no such port");
        return Err(ListenError { what, address: bound, source });
    };
    let second = listen(what, SocketAddr::new(bound.ip(), port))?;
    let above = SocketAddr::new(bound.ip(), bound.port().saturating_add(HA_PORT_ABOVE));
    let ha = with_ha.then(|| listen("slaves of the broker, one port above the first", above)).transpose()?;
    Ok((broker, second, ha))
}

/// Listens on one address.
///
/// # Errors
///
/// When that is not possible.
pub(super) fn listen(what: &'static str, address: SocketAddr) -> Result<TcpListener, ListenError> {
    let open = || {
        let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
        // A broker that starts again must get its port though connections of the one before linger.
        socket.set_reuse_address(true)?;
        socket.set_nonblocking(true)?;
        socket.bind(&address.into())?;
        socket.listen(BACKLOG)?;
        Ok(socket.into())
    };
    open().map_err(|source| ListenError { what, address, source })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_other_ports_are_beside_the_first() {
        let any: SocketAddr = "127.0.0.1:0".parse().unwrap();
        for _ in 0..20 {
            let listeners = Listeners::bind(any, any, true).unwrap();
            let port = |listener: &TcpListener| listener.local_addr().unwrap().port();
            assert_eq!(port(&listeners.broker) - 2, port(&listeners.second));
            assert_eq!(port(&listeners.broker) + 1, port(listeners.ha.as_ref().unwrap()));
        }
    }

    #[test]
    fn a_port_in_use_is_named() {
        let any: SocketAddr = "127.0.0.1:0".parse().unwrap();
        let listeners = Listeners::bind(any, any, true).unwrap();
        let taken = listeners.name_server.local_addr().unwrap();
        let error = Listeners::bind(taken, any, false).unwrap_err().to_string();
        assert!(error.contains(&taken.to_string()) && error.contains("name server"), "{error}");
        let second = listeners.second.local_addr().unwrap();
        let above = SocketAddr::new(second.ip(), second.port() + 2);
        drop(listeners.broker);
        let error = Listeners::bind(any, above, false).unwrap_err().to_string();
        assert!(error.contains("second port"), "{error}");
    }
}
