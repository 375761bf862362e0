//! The way to a server: which address it is reached at, through what, and whether encrypted.

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::io;
use std::net::Ipv6Addr;
use std::sync::Arc;

use super::pool::PoolOptions;
use crate::env::Env;
use crate::error::{Error, ErrorKind, Result};
#[cfg(feature = "tls")]
use crate::transport::TlsClient;
use crate::transport::{Connector, Socks5, Stream};

/// Addresses of one name that are tried.
const MOST_ADDRESSES: usize = 16;

type Mapping = Arc<dyn Fn(&str) -> Option<String> + Send + Sync>;

/// How servers are reached. The default is at the address that they state, directly and in the clear.
#[derive(Clone, Default)]
pub struct Dial {
    table: BTreeMap<String, String>,
    mapping: Option<Mapping>,
    proxies: Vec<Socks5>,
    connector: Option<Arc<dyn Connector>>,
    #[cfg(feature = "tls")]
    tls: Option<TlsClient>,
}

impl Dial {
    pub(crate) fn map(&mut self, from: String, to: String) {
        self.table.insert(from, to);
    }

    pub(crate) fn map_by(&mut self, mapping: Mapping) {
        self.mapping = Some(mapping);
    }

    pub(crate) fn through(&mut self, proxy: Socks5) {
        self.proxies.push(proxy);
    }

    pub(crate) fn by(&mut self, connector: Arc<dyn Connector>) {
        self.connector = Some(connector);
    }

    #[cfg(feature = "tls")]
    pub(crate) fn encrypted(&mut self, tls: TlsClient) {
        self.tls = Some(tls);
    }

    /// Checks what can be checked before anything is dialled.
    pub(crate) fn check(&self) -> Result<()> {
        let wrong = |what: &str, text: &str| Error::new(ErrorKind::InvalidArgument, format!("{text:?} is no {what}"));
        let has_port = |text: &str| text.parse::<Ipv6Addr>().is_err() && split(text).is_some();
        for (from, to) in &self.table {
            let whole = has_port(from);
            if whole != has_port(to) || (!whole && (from.is_empty() || to.is_empty())) {
                return Err(wrong("address to map to: map `host:port` to `host:port`, or a host to a host", to));
            }
        }
        for proxy in &self.proxies {
            if split(proxy.address()).is_none() {
                return Err(wrong("address of a proxy: write `host:port`", proxy.address()));
            }
            if let Some(network) = proxy.refused_network() {
                return Err(wrong("network: write `10.0.0.0/8`", network));
            }
        }
        Ok(())
    }

    /// The address to dial for the one that a server states.
    pub(crate) fn address(&self, stated: &str) -> String {
        if let Some(address) = self.mapping.as_ref().and_then(|mapping| mapping(stated)) {
            return address;
        }
        if let Some(address) = self.table.get(stated) {
            return address.clone();
        }
        if let Some((host, port)) = stated.rsplit_once(':')
            && let Some(host) = self.table.get(host.trim_start_matches('[').trim_end_matches(']'))
        {
            return if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") };
        }
        stated.to_owned()
    }

    /// Opens a stream to the server that states this address.
    pub(super) async fn open(&self, env: &Env, stated: &Arc<str>, options: &PoolOptions) -> Result<Stream> {
        let address = self.address(stated);
        let named = |error: Error| {
            let error = if *address == **stated {
                error
            } else {
                let message = format!("at {address}, which it is mapped to: {error}");
                Error::new(error.kind(), message).with_source(error)
            };
            error.with_operation("connect").with_broker(Arc::clone(stated))
        };
        let target = Target { env, options, address: &address };
        let (host, port) = split(&address).ok_or_else(|| named(not_an_address()))?;
        let opened = async {
            let stream = match (&self.connector, self.proxies.iter().find(|proxy| proxy.is_for(host))) {
                (Some(connector), _) => target.limited(connector.connect(host, port)).await.map_err(unreachable),
                (None, Some(proxy)) => {
                    let to_proxy = Target { address: proxy.address(), ..target }.reach().await;
                    let through = |error: Error| {
                        let message = format!("through the proxy {}: {error}", proxy.address());
                        Error::new(error.kind(), message).with_source(error)
                    };
                    let stream = to_proxy.map_err(through)?;
                    target.limited(proxy.open(stream, host, port)).await.map_err(unreachable).map_err(through)
                }
                (None, None) => target.reach().await,
            };
            #[cfg(feature = "tls")]
            if let Some(tls) = &self.tls {
                let deadline = env.now() + options.connect_timeout;
                let encrypted = env.within(deadline, tls.encrypt(host, stream?)).await;
                return encrypted.unwrap_or_else(|| {
                    Err(Error::new(
                        ErrorKind::Connection,
                        "the server did not answer the TLS handshake in time: check that it speaks TLS",
                    ))
                });
            }
            stream
        };
        opened.await.map_err(named)
    }
}

impl fmt::Debug for Dial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("Dial");
        debug.field("table", &self.table).field("proxies", &self.proxies).field("connector", &self.connector);
        #[cfg(feature = "tls")]
        debug.field("tls", &self.tls);
        debug.finish_non_exhaustive()
    }
}

#[derive(Clone, Copy)]
struct Target<'a> {
    env: &'a Env,
    options: &'a PoolOptions,
    address: &'a str,
}

impl Target<'_> {
    async fn limited<T>(&self, opening: impl Future<Output = io::Result<T>>) -> io::Result<T> {
        let opened = self.env.within(self.env.now() + self.options.connect_timeout, opening).await;
        opened.unwrap_or_else(|| Err(io::ErrorKind::TimedOut.into()))
    }

    /// Opens a stream to the first address that the name stands for and that can be reached.
    async fn reach(&self) -> Result<Stream> {
        let (host, port) = split(self.address).ok_or_else(not_an_address)?;
        let addresses = self.limited(self.env.resolve(host, port)).await.map_err(|error| {
            let message =
                format!("the name `{host}` cannot be resolved ({error}): check its spelling and the resolver");
            Error::new(ErrorKind::Connection, message).with_source(error)
        })?;
        let mut tried = Vec::new();
        let mut last = None;
        for candidate in addresses.into_iter().take(MOST_ADDRESSES) {
            match self.limited(self.env.connect(candidate)).await {
                Ok(stream) => return Ok(stream),
                Err(error) => {
                    tried.push(format!("{candidate}: {error}"));
                    last = Some(error);
                }
            }
        }
        let Some(last) = last else {
            return Err(Error::new(ErrorKind::Connection, format!("the name `{host}` has no address")));
        };
        let message =
            format!("no connection ({}): check that the server runs and that the address is right", tried.join("; "));
        Err(Error::new(ErrorKind::Connection, message).with_source(last))
    }
}

fn unreachable(error: io::Error) -> Error {
    Error::new(ErrorKind::Connection, format!("no connection: {error}")).with_source(error)
}

fn not_an_address() -> Error {
    Error::new(ErrorKind::InvalidArgument, "this is no address: write `host:port`, an IPv6 host in brackets")
}

/// Host and port of `host:port`; brackets around an IPv6 host are taken off.
pub(crate) fn split(address: &str) -> Option<(&str, u16)> {
    let (host, port) = address.rsplit_once(':')?;
    let host = host.strip_prefix('[').map_or(Some(host), |host| host.strip_suffix(']'))?;
    let port = port.parse().ok().filter(|&port| port != 0)?;
    (!host.is_empty() && !host.contains(char::is_whitespace)).then_some((host, port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_split_at_the_last_colon() {
        assert_eq!(split("broker-a:10911"), Some(("broker-a", 10911)));
        assert_eq!(split("[::1]:9876"), Some(("::1", 9876)));
        assert_eq!(split("::1:9876"), Some(("::1", 9876)));
        for wrong in ["", "broker", ":1", "broker:", "broker:x", "broker:0", "broker:65536", "[::1:9876", "a b:1"] {
            assert_eq!(split(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn addresses_are_mapped_whole_or_by_host_and_a_function_comes_first() {
        let mut dial = Dial::default();
        dial.map("172.17.0.2:10911".to_owned(), "127.0.0.1:20911".to_owned());
        dial.map("172.17.0.3".to_owned(), "gateway".to_owned());
        dial.map("172.17.0.4".to_owned(), "::1".to_owned());
        for (stated, dialled) in [
            ("172.17.0.2:10911", "127.0.0.1:20911"),
            ("172.17.0.2:10912", "172.17.0.2:10912"),
            ("172.17.0.3:1", "gateway:1"),
            ("172.17.0.4:1", "[::1]:1"),
            ("other:1", "other:1"),
        ] {
            assert_eq!(dial.address(stated), dialled);
        }
        dial.map_by(Arc::new(|stated| stated.strip_suffix(":10911").map(|host| format!("{host}:1"))));
        assert_eq!(dial.address("172.17.0.2:10911"), "172.17.0.2:1");
        assert_eq!(dial.address("172.17.0.3:1"), "gateway:1");
        assert!(dial.check().is_ok());
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for (from, to) in [("a:1", "b"), ("a", "b:1"), ("", "b"), ("a:1", "")] {
            let mut dial = Dial::default();
            dial.map(from.to_owned(), to.to_owned());
            assert_eq!(dial.check().expect_err(to).kind(), ErrorKind::InvalidArgument, "{from} to {to}");
        }
        for proxy in [Socks5::new("no port"), Socks5::new("p:1").only_for("10")] {
            let mut dial = Dial::default();
            dial.through(proxy);
            assert!(dial.check().is_err());
        }
    }
}
