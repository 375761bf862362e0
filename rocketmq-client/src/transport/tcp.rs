//! Sockets of the operating system.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::time::Duration;

use async_trait::async_trait;
use socket2::{SockRef, TcpKeepalive};
use tokio::net::{TcpSocket, lookup_host};

use super::{Network, Stream};

/// How long a socket is silent before the kernel asks whether its peer is still there.
const KEEPALIVE_AFTER: Duration = Duration::from_secs(30);
const KEEPALIVE_EVERY: Duration = Duration::from_secs(10);

/// TCP, with names resolved by the operating system.
///
/// Sockets have `TCP_NODELAY` and keep-alive (first probe after 30 s of silence, then every 10 s) set; their buffers
/// are left to the kernel.
#[derive(Debug, Clone, Copy, Default)]
pub struct TcpNetwork;

#[async_trait]
impl Network for TcpNetwork {
    async fn resolve(&self, host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
        Ok(lookup_host((host, port)).await?.collect())
    }

    async fn connect(&self, address: SocketAddr) -> io::Result<Stream> {
        let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
        socket.set_nodelay(true)?;
        let keepalive = TcpKeepalive::new().with_time(KEEPALIVE_AFTER).with_interval(KEEPALIVE_EVERY);
        SockRef::from(&socket).set_tcp_keepalive(&keepalive)?;
        socket.connect(address).await.map(Stream::Tcp)
    }

    fn local_address(&self, server: SocketAddr) -> io::Result<IpAddr> {
        let any: IpAddr = if server.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
        // Connecting a datagram socket chooses its address and sends nothing.
        let socket = UdpSocket::bind((any, 0))?;
        socket.connect(server)?;
        Ok(socket.local_addr()?.ip())
    }
}
