//! What a client is configured with, and the defaults.

use std::net::Ipv6Addr;
use std::time::Duration;

use crate::error::{Error, ErrorKind, Result};
use crate::telemetry::Telemetry;

/// The port of a name server whose address names none.
const NAME_SERVER_PORT: u16 = 9876;

/// Settings of a client that its parts share. The defaults are those of the Java client 5.3.3.
#[derive(Debug, Clone)]
pub(crate) struct Config {
    /// The limit of every request that has none of its own.
    pub(crate) request_timeout: Duration,
    /// How often routes are refreshed.
    pub(crate) route_interval: Duration,
    /// How often brokers are told that this client lives.
    pub(crate) heartbeat_interval: Duration,
    /// Whether messages go to the port two below the one stated.
    pub(crate) vip_channel: bool,
    /// What is told of the client's work.
    pub(crate) telemetry: Option<Telemetry>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            request_timeout: Duration::from_secs(3),
            route_interval: Duration::from_secs(30),
            heartbeat_interval: Duration::from_secs(30),
            vip_channel: false,
            telemetry: None,
        }
    }
}

/// What names the name servers of a cluster: one string, with `;` or `,` between addresses, or a list of strings.
///
/// An address is `host`, `host:port` or `[ipv6]:port`; the port is 9876 unless given. Blanks, empty parts and a leading
/// `http://` are passed over.
pub trait NameServers {
    /// The addresses as one string.
    fn joined(&self) -> String;
}

impl NameServers for str {
    fn joined(&self) -> String {
        self.to_owned()
    }
}

impl NameServers for String {
    fn joined(&self) -> String {
        self.clone()
    }
}

impl<S: AsRef<str>> NameServers for [S] {
    fn joined(&self) -> String {
        self.iter().map(AsRef::as_ref).collect::<Vec<_>>().join(";")
    }
}

impl<S: AsRef<str>, const N: usize> NameServers for [S; N] {
    fn joined(&self) -> String {
        self.as_slice().joined()
    }
}

impl<S: AsRef<str>> NameServers for Vec<S> {
    fn joined(&self) -> String {
        self.as_slice().joined()
    }
}

impl<T: NameServers + ?Sized> NameServers for &T {
    fn joined(&self) -> String {
        (**self).joined()
    }
}

/// The addresses in a list, as `host:port`, each once.
pub(crate) fn parse_name_servers(list: &str) -> Result<Vec<String>> {
    let mut addresses = Vec::new();
    for part in list.split([';', ',']).map(str::trim).filter(|part| !part.is_empty()) {
        let address = parse_address(part)?;
        if !addresses.contains(&address) {
            addresses.push(address);
        }
    }
    if addresses.is_empty() {
        return Err(Error::new(
            ErrorKind::InvalidArgument,
            format!("{list:?} names no name server: give `host:port`, several with `;` between them"),
        ));
    }
    Ok(addresses)
}

/// The namespace that a name server's address stands for: that of an instance in a cloud, `MQ_INST_owner_instance.host`.
pub(crate) fn instance_of(address: &str) -> Option<&str> {
    let (instance, _) = address.split_once('.')?;
    let (owner, instance_id) = instance.strip_prefix("MQ_INST_")?.split_once('_')?;
    let is_word = |text: &str| !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    (is_word(owner) && is_word(instance_id)).then_some(instance)
}

fn parse_address(text: &str) -> Result<String> {
    let refuse = |why: &str| {
        Err(Error::new(
            ErrorKind::InvalidArgument,
            format!("{text:?} is not the address of a name server: {why}; write `host:port` or `[ipv6]:port`"),
        ))
    };
    let address = text.strip_prefix("http://").unwrap_or(text);
    if let Some(rest) = address.strip_prefix('[') {
        let Some((host, rest)) = rest.split_once(']') else { return refuse("a bracket is not closed") };
        if host.parse::<Ipv6Addr>().is_err() {
            return refuse("what stands in brackets is no IPv6 address");
        }
        return match rest.strip_prefix(':').or(rest.is_empty().then_some("9876")).map(str::parse::<u16>) {
            Some(Ok(port)) if port > 0 => Ok(format!("[{host}]:{port}")),
            _ => refuse("the port is not a number from 1 to 65535"),
        };
    }
    if address.parse::<Ipv6Addr>().is_ok() {
        return Ok(format!("[{address}]:{NAME_SERVER_PORT}"));
    }
    let (host, port) = match address.split_once(':') {
        None => (address, NAME_SERVER_PORT),
        Some((_, port)) if port.contains(':') => return refuse("an IPv6 address needs brackets"),
        Some((host, port)) => match port.parse() {
            Ok(port) if port > 0 => (host, port),
            _ => return refuse("the port is not a number from 1 to 65535"),
        },
    };
    if host.is_empty() {
        return refuse("the host is missing");
    }
    if host.contains(|c: char| c.is_whitespace() || c.is_control() || matches!(c, '/' | '@' | '?' | '#')) {
        return refuse("the host holds a character that no host has");
    }
    Ok(format!("{host}:{port}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_in_every_spelling() {
        for (list, addresses) in [
            ("127.0.0.1:9876", &["127.0.0.1:9876"][..]),
            ("localhost", &["localhost:9876"]),
            (" a:1 ; b:2,c ;; a:1;", &["a:1", "b:2", "c:9876"]),
            ("name-server.prod.svc.cluster.local:10911", &["name-server.prod.svc.cluster.local:10911"]),
            ("[::1]:9877", &["[::1]:9877"]),
            ("[fe80::2]", &["[fe80::2]:9876"]),
            ("::1", &["[::1]:9876"]),
            ("http://MQ_INST_1_2.example.com:8080", &["MQ_INST_1_2.example.com:8080"]),
        ] {
            assert_eq!(parse_name_servers(list).expect(list), addresses, "{list}");
        }
        assert_eq!(["a:1", "b"].joined(), "a:1;b");
        assert_eq!(vec![String::from("a")].joined(), "a");
    }

    #[test]
    fn an_instance_has_a_namespace() {
        for (address, namespace) in [
            ("MQ_INST_12_ab.mq.example.com:8080", Some("MQ_INST_12_ab")),
            ("MQ_INST_12_a_b.x:1", Some("MQ_INST_12_a_b")),
            ("MQ_INST_12.x:1", None),
            ("MQ_INST__b.x:1", None),
            ("mq.example.com:8080", None),
            ("127.0.0.1:9876", None),
        ] {
            assert_eq!(instance_of(address), namespace, "{address}");
        }
    }

    #[test]
    fn what_is_no_address_is_refused_by_name() {
        for list in
            ["", " ; ,", "a:", "a:0", "a:65536", "a:x", ":9876", "[::1", "[a]:1", "::1:2:x", "a b:1", "http://a:1/x"]
        {
            let error = parse_name_servers(list).expect_err(list);
            assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{list}");
        }
        let error = parse_name_servers("good:1;bad:port").expect_err("bad port");
        assert!(error.to_string().contains("\"bad:port\""), "{error}");
    }
}
