//! SOCKS5 (RFC 1928): opening streams through a proxy.

use std::fmt;
use std::io;
use std::net::IpAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::Stream;

const VERSION: u8 = 5;
const NO_AUTHENTICATION: u8 = 0;
const USER_AND_PASSWORD: u8 = 2;
const NOTHING_ACCEPTABLE: u8 = 0xff;
const CONNECT: u8 = 1;
const IPV4: u8 = 1;
const NAME: u8 = 3;
const IPV6: u8 = 4;

/// A SOCKS5 proxy that servers are reached through. To be given to
/// [`ClientBuilder::socks5`](crate::ClientBuilder::socks5).
///
/// Names are resolved by the proxy; TLS runs inside of the tunnel.
#[derive(Clone, PartialEq, Eq)]
pub struct Socks5 {
    address: String,
    login: Option<(String, String)>,
    networks: Vec<(IpAddr, u8)>,
    /// What was given as a network and is none.
    refused: Option<String>,
}

impl Socks5 {
    /// The proxy at an address, `host:port`.
    pub fn new(address: impl Into<String>) -> Self {
        Self { address: address.into(), login: None, networks: Vec::new(), refused: None }
    }

    /// Sets who to present oneself as to a proxy that asks.
    #[must_use]
    pub fn login(mut self, user: impl Into<String>, password: impl Into<String>) -> Self {
        self.login = Some((user.into(), password.into()));
        self
    }

    /// Uses the proxy only for servers with a numeric address in this network, such as `10.0.0.0/8`, or in others given
    /// so; the rest is reached without it. Without a call of this it is used for all.
    #[must_use]
    pub fn only_for(mut self, network: &str) -> Self {
        match parse_network(network) {
            Some(network) => self.networks.push(network),
            None => self.refused = Some(network.to_owned()),
        }
        self
    }

    /// The proxy's address.
    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    /// What was given as a network and is none.
    pub(crate) fn refused_network(&self) -> Option<&str> {
        self.refused.as_deref()
    }

    /// Whether a server is to be reached through the proxy.
    pub(crate) fn is_for(&self, host: &str) -> bool {
        if self.networks.is_empty() {
            return true;
        }
        let Ok(address) = host.parse::<IpAddr>() else { return false };
        self.networks.iter().any(|&network| contains(network, address))
    }

    /// Makes the proxy open a stream to a server.
    ///
    /// # Errors
    ///
    /// What the proxy says, and whatever goes wrong on the way to it.
    pub(crate) async fn open(&self, mut stream: Stream, host: &str, port: u16) -> io::Result<Stream> {
        let methods: &[u8] = if self.login.is_some() {
            &[VERSION, 2, NO_AUTHENTICATION, USER_AND_PASSWORD]
        } else {
            &[VERSION, 1, NO_AUTHENTICATION]
        };
        stream.write_all(methods).await?;
        let mut chosen = [0; 2];
        stream.read_exact(&mut chosen).await?;
        match (chosen, &self.login) {
            ([VERSION, NO_AUTHENTICATION], _) => {}
            ([VERSION, USER_AND_PASSWORD], Some((user, password))) => log_in(&mut stream, user, password).await?,
            ([VERSION, NOTHING_ACCEPTABLE], _) => {
                return Err(refused("the proxy wants to know who asks: give a login"));
            }
            _ => return Err(refused("what listens there is no SOCKS5 proxy")),
        }
        let mut request = vec![VERSION, CONNECT, 0];
        match host.parse() {
            Ok(IpAddr::V4(address)) => {
                request.push(IPV4);
                request.extend(address.octets());
            }
            Ok(IpAddr::V6(address)) => {
                request.push(IPV6);
                request.extend(address.octets());
            }
            Err(_) => {
                request.push(NAME);
                push_short(&mut request, host)?;
            }
        }
        request.extend(port.to_be_bytes());
        stream.write_all(&request).await?;
        let mut answer = [0; 4];
        stream.read_exact(&mut answer).await?;
        if answer[1] != 0 {
            return Err(refused(reason(answer[1])));
        }
        // The address that the proxy has bound: of no use here, but to be read.
        let bound = match answer[3] {
            IPV4 => 4,
            IPV6 => 16,
            NAME => usize::from(stream.read_u8().await?),
            _ => return Err(refused("the proxy answers with an address of no known kind")),
        };
        let mut rest = [0; 255 + 2];
        stream.read_exact(&mut rest[..bound + 2]).await?;
        Ok(stream)
    }
}

/// RFC 1929.
async fn log_in(stream: &mut Stream, user: &str, password: &str) -> io::Result<()> {
    let mut request = vec![1];
    push_short(&mut request, user)?;
    push_short(&mut request, password)?;
    stream.write_all(&request).await?;
    let mut answer = [0; 2];
    stream.read_exact(&mut answer).await?;
    if answer[1] == 0 { Ok(()) } else { Err(refused("the proxy does not accept the login")) }
}

fn push_short(request: &mut Vec<u8>, text: &str) -> io::Result<()> {
    let length = u8::try_from(text.len()).map_err(|_| refused("a name, user or password of more than 255 bytes"))?;
    request.push(length);
    request.extend(text.as_bytes());
    Ok(())
}

fn reason(code: u8) -> &'static str {
    match code {
        2 => "the proxy's rules do not permit it",
        3 => "the proxy cannot reach the network",
        4 => "the proxy cannot reach the host",
        5 => "the server refused the proxy's connection",
        6 => "the proxy waited too long",
        7 | 8 => "the proxy does not know how",
        _ => "the proxy failed",
    }
}

fn refused(why: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::ConnectionRefused, why)
}

fn parse_network(text: &str) -> Option<(IpAddr, u8)> {
    let (address, bits) = text.split_once('/')?;
    let address: IpAddr = address.parse().ok()?;
    let most = if address.is_ipv4() { 32 } else { 128 };
    let bits = bits.parse().ok().filter(|bits| *bits <= most)?;
    Some((address, bits))
}

fn contains((network, bits): (IpAddr, u8), address: IpAddr) -> bool {
    let same = |a: u128, b: u128, width: u32| bits == 0 || (a ^ b) >> (width - u32::from(bits)) == 0;
    match (network, address) {
        (IpAddr::V4(a), IpAddr::V4(b)) => same(a.to_bits().into(), b.to_bits().into(), 32),
        (IpAddr::V6(a), IpAddr::V6(b)) => same(a.to_bits(), b.to_bits(), 128),
        _ => false,
    }
}

/// Does not show the password.
impl fmt::Debug for Socks5 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Socks5")
            .field("address", &self.address)
            .field("user", &self.login.as_ref().map(|(user, _)| user))
            .field("networks", &self.networks)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A proxy that expects these bytes and answers those, in turns.
    async fn talk(proxy: Socks5, host: &str, turns: &[(&[u8], &[u8])]) -> io::Result<()> {
        let (ours, mut theirs) = tokio::io::duplex(1024);
        let serve = async {
            for (expected, answer) in turns {
                let mut asked = vec![0; expected.len()];
                theirs.read_exact(&mut asked).await.expect("the client asks");
                assert_eq!(&asked, expected);
                theirs.write_all(answer).await.expect("the client listens");
            }
        };
        let (opened, ()) = tokio::join!(proxy.open(Stream::Memory(ours), host, 10911), serve);
        opened.map(drop)
    }

    #[tokio::test]
    async fn a_name_is_left_to_the_proxy() {
        let connect = [&[5, 1, 0, 3, 6][..], b"broker", &[0x2a, 0x9f]].concat();
        let answer = [5, 0, 0, 1, 10, 0, 0, 1, 0, 80];
        let turns: [(&[u8], &[u8]); 2] = [(&[5, 1, 0], &[5, 0]), (&connect, &answer)];
        talk(Socks5::new("p:1080"), "broker", &turns).await.expect("opened");
    }

    #[tokio::test]
    async fn a_login_is_given_when_it_is_asked_for() {
        let login = [&[1, 4][..], b"user", &[6], b"secret"].concat();
        let connect = [5, 1, 0, 1, 10, 0, 0, 7, 0x2a, 0x9f];
        let turns: [(&[u8], &[u8]); 3] =
            [(&[5, 2, 0, 2], &[5, 2]), (&login, &[1, 0]), (&connect, &[5, 0, 0, 3, 1, b'x', 0, 80])];
        let proxy = Socks5::new("p:1080").login("user", "secret");
        assert!(!format!("{proxy:?}").contains("secret"));
        talk(proxy.clone(), "10.0.0.7", &turns).await.expect("opened");
        let refused: [(&[u8], &[u8]); 2] = [(&[5, 2, 0, 2], &[5, 2]), (&login, &[1, 1])];
        assert!(talk(proxy, "10.0.0.7", &refused).await.is_err());
    }

    #[tokio::test]
    async fn refusals_are_errors() {
        assert!(talk(Socks5::new("p:1"), "h", &[(&[5, 1, 0], &[5, 0xff])]).await.is_err());
        assert!(talk(Socks5::new("p:1"), "h", &[(&[5, 1, 0], b"HT")]).await.is_err());
        let connect = [5, 1, 0, 3, 1, b'h', 0x2a, 0x9f];
        let error = talk(Socks5::new("p:1"), "h", &[(&[5, 1, 0], &[5, 0]), (&connect, &[5, 5, 0, 1])]).await;
        assert!(error.expect_err("refused").to_string().contains("the server refused"));
    }

    #[test]
    fn networks() {
        let proxy = Socks5::new("p:1").only_for("10.1.0.0/16").only_for("fd00::/8");
        for (host, through) in
            [("10.1.2.3", true), ("10.2.0.0", false), ("fd12::1", true), ("::1", false), ("b", false)]
        {
            assert_eq!(proxy.is_for(host), through, "{host}");
        }
        assert!(Socks5::new("p:1").is_for("anything"));
        assert!(Socks5::new("p:1").only_for("0.0.0.0/0").is_for("1.2.3.4"));
        assert_eq!(Socks5::new("p:1").only_for("10.0.0.0/33").refused_network(), Some("10.0.0.0/33"));
    }
}
