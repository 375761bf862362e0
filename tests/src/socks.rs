//! A SOCKS5 proxy (RFC 1928, with the login of RFC 1929), and an HTTP endpoint that lists name servers.

use std::{
    collections::BTreeMap,
    io,
    net::{Ipv4Addr, SocketAddr},
    sync::{Arc, Mutex},
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional},
    net::{TcpListener, TcpStream},
    task::JoinHandle,
};

/// A proxy that asks for a user and a password, and knows names that nobody else does.
#[derive(Debug)]
pub struct SocksProxy {
    address: SocketAddr,
    shared: Arc<Shared>,
    accepting: JoinHandle<()>,
}

#[derive(Debug)]
struct Shared {
    user: String,
    password: String,
    /// The addresses of names.
    names: BTreeMap<String, String>,
    /// What clients wanted to be connected with.
    targets: Mutex<Vec<String>>,
    refused_logins: Mutex<usize>,
}

impl SocksProxy {
    /// Listens on a port of its own. `names` are pairs of a host and port and what they stand for.
    pub async fn start(user: &str, password: &str, names: &[(&str, &str)]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback has a free port");
        let address = listener.local_addr().expect("it listens");
        let shared = Arc::new(Shared {
            user: user.to_owned(),
            password: password.to_owned(),
            names: names.iter().map(|(name, address)| ((*name).to_owned(), (*address).to_owned())).collect(),
            targets: Mutex::default(),
            refused_logins: Mutex::default(),
        });
        let accepting = tokio::spawn({
            let shared = Arc::clone(&shared);
            async move {
                while let Ok((client, _)) = listener.accept().await {
                    let shared = Arc::clone(&shared);
                    // However a tunnel ends, it is the client that notices.
                    tokio::spawn(async move { shared.serve(client).await });
                }
            }
        });
        Self { address, shared, accepting }
    }

    /// Where it listens.
    pub fn address(&self) -> String {
        self.address.to_string()
    }

    /// What clients wanted to be connected with, in order.
    pub fn targets(&self) -> Vec<String> {
        self.shared.targets.lock().expect("no panic in here").clone()
    }

    /// How many clients gave another user or password.
    pub fn refused_logins(&self) -> usize {
        *self.shared.refused_logins.lock().expect("no panic in here")
    }
}

impl Drop for SocksProxy {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

impl Shared {
    async fn serve(&self, mut client: TcpStream) -> io::Result<()> {
        let [version, count] = read(&mut client).await?;
        let mut methods = vec![0; usize::from(count)];
        client.read_exact(&mut methods).await?;
        if version != 5 || !methods.contains(&2) {
            return client.write_all(&[5, 0xff]).await;
        }
        client.write_all(&[5, 2]).await?;
        let [_, length] = read(&mut client).await?;
        let user = text(&mut client, length).await?;
        let [length] = read(&mut client).await?;
        let password = text(&mut client, length).await?;
        if (&user, &password) != (&self.user, &self.password) {
            *self.refused_logins.lock().expect("no panic in here") += 1;
            return client.write_all(&[1, 1]).await;
        }
        client.write_all(&[1, 0]).await?;
        let [_, command, _, kind] = read(&mut client).await?;
        let host = match kind {
            1 => Ipv4Addr::from(read::<4>(&mut client).await?).to_string(),
            3 => {
                let [length] = read(&mut client).await?;
                text(&mut client, length).await?
            }
            _ => return answer(&mut client, 8).await,
        };
        let target = format!("{host}:{}", u16::from_be_bytes(read(&mut client).await?));
        self.targets.lock().expect("no panic in here").push(target.clone());
        if command != 1 {
            return answer(&mut client, 7).await;
        }
        let address = self.names.get(&target).unwrap_or(&target);
        match TcpStream::connect(address).await {
            Ok(mut server) => {
                answer(&mut client, 0).await?;
                copy_bidirectional(&mut client, &mut server).await.map(drop)
            }
            Err(_) => answer(&mut client, 5).await,
        }
    }
}

async fn answer(client: &mut TcpStream, code: u8) -> io::Result<()> {
    client.write_all(&[5, code, 0, 1, 0, 0, 0, 0, 0, 0]).await
}

async fn read<const N: usize>(stream: &mut TcpStream) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    stream.read_exact(&mut bytes).await?;
    Ok(bytes)
}

async fn text(stream: &mut TcpStream, length: u8) -> io::Result<String> {
    let mut bytes = vec![0; usize::from(length)];
    stream.read_exact(&mut bytes).await?;
    String::from_utf8(bytes).map_err(io::Error::other)
}

/// Answers every HTTP request with a text.
#[derive(Debug)]
pub struct HttpEndpoint {
    address: SocketAddr,
    serving: JoinHandle<()>,
}

impl HttpEndpoint {
    /// Listens on a port of its own.
    pub async fn start(text: String) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback has a free port");
        let address = listener.local_addr().expect("it listens");
        let serving = tokio::spawn(async move {
            while let Ok((mut client, _)) = listener.accept().await {
                let text = text.clone();
                tokio::spawn(async move {
                    let mut request = Vec::new();
                    while !request.ends_with(b"\r\n\r\n") && client.read_buf(&mut request).await? > 0 {}
                    let length = text.len();
                    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n");
                    client.write_all((head + &text).as_bytes()).await
                });
            }
        });
        Self { address, serving }
    }

    /// The address to ask.
    pub fn url(&self) -> String {
        format!("http://{}/rocketmq/nsaddr", self.address)
    }
}

impl Drop for HttpEndpoint {
    fn drop(&mut self) {
        self.serving.abort();
    }
}
