//! Name servers that an HTTP endpoint lists.

use std::io;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::Cluster;
use crate::config::parse_name_servers;
use crate::env::Env;
use crate::error::{Error, ErrorKind, Result};
use crate::remoting::split_address;

/// How often the list is asked for again.
const INTERVAL: Duration = Duration::from_secs(120);

/// How long one question may take.
const LIMIT: Duration = Duration::from_secs(3);

/// A longer answer is no list of name servers.
const LONGEST_ANSWER: u64 = 64 * 1024;

/// Where the list is: a document whose first line names the servers, with semicolons between them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Endpoint {
    /// `host:port`.
    address: String,
    path: String,
}

impl Endpoint {
    /// Reads `http://host[:port]/path`.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidArgument`] for anything else.
    pub(crate) fn parse(url: &str) -> Result<Self> {
        let refuse = |why: &str| {
            Error::new(
                ErrorKind::InvalidArgument,
                format!("{url:?} cannot be asked for name servers: {why}; write `http://host:port/path`"),
            )
        };
        let rest = url.strip_prefix("http://").ok_or_else(|| refuse("it is no `http://` address"))?;
        let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
        if url.contains(|c: char| c.is_whitespace() || c.is_control() || c == '#') || host.contains('@') {
            return Err(refuse("it holds a character that has no place there"));
        }
        let has_port = host.rsplit_once(':').is_some_and(|(_, port)| !port.contains(']'));
        let address = if has_port { host.to_owned() } else { format!("{host}:80") };
        if split_address(&address).is_none() {
            return Err(refuse("the host or the port is wrong"));
        }
        Ok(Self { address, path: format!("/{path}") })
    }

    /// Asks for the list.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Connection`] when the endpoint cannot be reached or does not answer with a list in time.
    pub(crate) async fn fetch(&self, env: &Env) -> Result<Vec<String>> {
        let failed = |why: String| {
            let message = format!("no list of name servers from http://{}{}: {why}", self.address, self.path);
            Error::new(ErrorKind::Connection, message)
        };
        let answer = env.within(env.now() + LIMIT, self.get(env)).await;
        let answer = answer.unwrap_or_else(|| Err(io::ErrorKind::TimedOut.into()));
        let answer = answer.map_err(|error| failed(error.to_string()).with_source(error))?;
        let body = body_of(&answer).map_err(failed)?;
        parse_name_servers(body.lines().next().unwrap_or_default()).map_err(|error| failed(error.to_string()))
    }

    async fn get(&self, env: &Env) -> io::Result<String> {
        let (host, port) = split_address(&self.address).ok_or(io::ErrorKind::InvalidInput)?;
        let mut last = io::Error::from(io::ErrorKind::NotFound);
        for candidate in env.resolve(host, port).await? {
            let mut stream = match env.connect(candidate).await {
                Ok(stream) => stream,
                Err(error) => {
                    last = error;
                    continue;
                }
            };
            // Answers to 1.0 end with the connection and come in one piece.
            let request = format!(
                "GET {} HTTP/1.0\r\nHost: {}\r\nAccept: text/plain\r\nConnection: close\r\n\r\n",
                self.path, self.address
            );
            stream.write_all(request.as_bytes()).await?;
            let mut answer = Vec::new();
            stream.take(LONGEST_ANSWER).read_to_end(&mut answer).await?;
            return String::from_utf8(answer).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error));
        }
        Err(last)
    }
}

fn body_of(answer: &str) -> Result<&str, String> {
    let (head, body) = answer.split_once("\r\n\r\n").ok_or("what it answers is no HTTP")?;
    let status = head.lines().next().unwrap_or_default();
    match status.split(' ').nth(1) {
        Some("200") if status.starts_with("HTTP/") => Ok(body.trim_start()),
        _ => Err(format!("it answers `{}`", status.chars().take(80).collect::<String>())),
    }
}

/// Asks again from time to time, until dropped. A list that cannot be had changes nothing.
pub(crate) async fn keep_fresh(endpoint: Endpoint, env: Env, name_servers: super::name_server::Addresses) {
    let mut next: Instant = env.now() + INTERVAL;
    loop {
        env.sleep_until(next).await;
        next = env.now() + INTERVAL;
        match endpoint.fetch(&env).await {
            Ok(addresses) => name_servers.replace(&addresses),
            Err(error) => tracing::warn!(%error, "the name servers stay as they were"),
        }
    }
}

impl Cluster {
    /// Keeps the name servers as the endpoint lists them, until the client ends.
    pub(crate) fn follow(&self, endpoint: Endpoint) {
        let addresses = self.routes().name_servers().changeable().clone();
        self.own(self.env().spawn(keep_fresh(endpoint, self.env().clone(), addresses)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    use crate::transport::MemoryNetwork;

    #[test]
    fn endpoints() {
        for (url, address, path) in [
            ("http://mq.example.com/rocketmq/nsaddr", "mq.example.com:80", "/rocketmq/nsaddr"),
            ("http://[::1]:8080/x?unit=a", "[::1]:8080", "/x?unit=a"),
            ("http://[::1]/", "[::1]:80", "/"),
            ("http://host:8080", "host:8080", "/"),
        ] {
            let endpoint = Endpoint { address: address.to_owned(), path: path.to_owned() };
            assert_eq!(Endpoint::parse(url).expect(url), endpoint);
        }
        for url in ["https://a/", "a:1", "http:///x", "http://a:x/", "http://a b/", "http://u:p@a/", "http://a/\r\nx"] {
            assert_eq!(Endpoint::parse(url).expect_err(url).kind(), ErrorKind::InvalidArgument, "{url}");
        }
    }

    #[tokio::test]
    async fn the_first_line_of_the_answer_is_the_list() {
        let network = MemoryNetwork::default();
        let mut listener = network.listen("10.0.0.9:8080".parse().expect("an address"), 1024);
        let (env, _clock) = Env::manual(1, Arc::new(network)).expect("inside a runtime");
        let endpoint = Endpoint::parse("http://10.0.0.9:8080/nsaddr").expect("an endpoint");
        for (answer, expected) in [
            ("HTTP/1.1 200 OK\r\nServer: x\r\n\r\na:1;b\nrest", Some(vec!["a:1".to_owned(), "b:9876".to_owned()])),
            ("HTTP/1.1 404 Not Found\r\n\r\na:1", None),
            ("HTTP/1.1 200 OK\r\n\r\n\r\n", None),
            ("junk", None),
        ] {
            let serve = async {
                let mut stream = listener.accept().await;
                let mut request = [0; 4];
                stream.read_exact(&mut request).await.expect("a request");
                assert_eq!(&request, b"GET ");
                stream.write_all(answer.as_bytes()).await.expect("the client listens");
            };
            let (list, ()) = tokio::join!(endpoint.fetch(&env), serve);
            assert_eq!(list.ok(), expected, "{answer}");
        }
    }
}
