//! A name server in the middle: it passes everything on, and can put bytes of its own between.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{
        TcpListener, TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
    sync::{broadcast, watch},
    task::JoinHandle,
    time,
};

/// The longest frame passed on.
const FRAME_LIMIT: usize = 32 << 20;

/// Stands between a client and one server.
///
/// Answers are passed on frame by frame, so that what is put between them does not cut one in two.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    inserted: broadcast::Sender<Arc<[u8]>>,
    connections: watch::Sender<usize>,
    cut: watch::Sender<bool>,
    accepting: JoinHandle<()>,
}

impl Proxy {
    /// Listens on a port of its own for connections to `target`.
    pub async fn start(target: &str) -> Self {
        Self::rewriting(target, Vec::new()).await
    }

    /// As [`start`](Self::start); in the bodies of answers, each of these texts is replaced by the other. A name server
    /// so names the proxies of brokers instead of the brokers.
    pub async fn rewriting(target: &str, texts: Vec<(String, String)>) -> Self {
        let target: SocketAddr = target.parse().expect("an address");
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback has a free port");
        let address = listener.local_addr().expect("it listens");
        let (inserted, _) = broadcast::channel(16);
        let connections = watch::Sender::new(0);
        let cut = watch::Sender::new(false);
        let accepting = tokio::spawn({
            let (inserted, connections, cut) = (inserted.clone(), connections.clone(), cut.clone());
            async move {
                while let Ok((client, _)) = listener.accept().await {
                    connections.send_modify(|count| *count += 1);
                    let (texts, inserted, cut) = (texts.clone(), inserted.subscribe(), cut.subscribe());
                    tokio::spawn(async move {
                        // A server that refuses: so does the proxy, by closing.
                        if let Ok(server) = TcpStream::connect(target).await {
                            serve(client, server, texts, inserted, cut).await;
                        }
                    });
                }
            }
        });
        Self { address, inserted, connections, cut, accepting }
    }

    /// Where it listens.
    pub fn address(&self) -> String {
        self.address.to_string()
    }

    /// Sends bytes to every client that is connected now, between two frames.
    pub fn insert(&self, bytes: &[u8]) {
        self.inserted.send(bytes.into()).expect("a client is connected");
    }

    /// From now on nothing passes, in either direction, and nothing is refused: as when a cable is pulled. What was sent
    /// meanwhile passes after [`mend`](Self::mend).
    pub fn cut(&self) {
        self.cut.send_replace(true);
    }

    /// Ends what [`cut`](Self::cut) began.
    pub fn mend(&self) {
        self.cut.send_replace(false);
    }

    /// How many connections there have been.
    pub fn connections(&self) -> usize {
        *self.connections.borrow()
    }

    /// Waits until there has been a connection after the first `before`.
    ///
    /// # Panics
    ///
    /// When none comes within 30 s.
    pub async fn connected_again(&self, before: usize) {
        let mut connections = self.connections.subscribe();
        let more = time::timeout(Duration::from_secs(30), connections.wait_for(|count| *count > before)).await;
        assert!(matches!(more, Ok(Ok(_))), "no client has connected again");
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

/// Ends when either side does, and both connections with it.
async fn serve(
    client: TcpStream,
    server: TcpStream,
    texts: Vec<(String, String)>,
    inserted: broadcast::Receiver<Arc<[u8]>>,
    cut: watch::Receiver<bool>,
) {
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    tokio::select! {
        _ = pass_bytes(from_client, to_server, cut.clone()) => {}
        _ = pass_frames(from_server, to_client, &texts, inserted, cut) => {}
    }
}

/// Waits while the line is cut.
async fn mended(cut: &mut watch::Receiver<bool>) {
    // An error means that the proxy is gone: the connection lives on.
    let _ = cut.wait_for(|cut| !*cut).await;
}

async fn pass_bytes(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    mut cut: watch::Receiver<bool>,
) -> std::io::Result<()> {
    let mut buffer = vec![0; 16 * 1024];
    loop {
        let count = from.read(&mut buffer).await?;
        if count == 0 {
            return Ok(());
        }
        mended(&mut cut).await;
        to.write_all(&buffer[..count]).await?;
    }
}

async fn pass_frames(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    texts: &[(String, String)],
    mut inserted: broadcast::Receiver<Arc<[u8]>>,
    mut cut: watch::Receiver<bool>,
) -> std::io::Result<()> {
    loop {
        let mut length = [0; 4];
        let mut read = 0;
        while read < length.len() {
            tokio::select! {
                count = from.read(&mut length[read..]) => match count? {
                    0 => return Ok(()),
                    count => read += count,
                },
                Ok(bytes) = inserted.recv(), if read == 0 => to.write_all(&bytes).await?,
            }
        }
        let length = u32::from_be_bytes(length) as usize;
        assert!((4..=FRAME_LIMIT).contains(&length), "the server sent a frame of {length} bytes");
        let mut frame = vec![0; length];
        from.read_exact(&mut frame).await?;
        mended(&mut cut).await;
        to.write_all(&rewrite(frame, texts)).await?;
    }
}

/// The frame with its length in front, the texts in its body replaced.
fn rewrite(frame: Vec<u8>, texts: &[(String, String)]) -> Vec<u8> {
    let header_end = 4 + u32::from_be_bytes([0, frame[1], frame[2], frame[3]]) as usize;
    let (header, body) = frame.split_at(header_end);
    let body = match std::str::from_utf8(body) {
        Ok(text) => texts.iter().fold(text.to_owned(), |text, (from, to)| text.replace(from, to)).into_bytes(),
        Err(_) => body.to_vec(),
    };
    let length = u32::try_from(header.len() + body.len()).expect("checked against the limit");
    [&length.to_be_bytes()[..], header, &body].concat()
}
