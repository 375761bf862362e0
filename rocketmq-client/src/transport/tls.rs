//! TLS over a stream, by rustls.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use tokio_rustls::rustls::crypto::{CryptoProvider, ring};
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use tokio_rustls::rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};

use super::Stream;
use crate::error::{Error, ErrorKind, Result};

/// How connections are encrypted and servers are verified. To be given to
/// [`ClientBuilder::tls`](crate::ClientBuilder::tls).
///
/// As it is made, servers must have a certificate that an authority of the operating system has issued for the host by
/// which the client reaches them. Brokers are reached by the addresses that they register with, which are numeric unless
/// set otherwise (`brokerIP1`): either their certificates name these, or [`server_name`](Self::server_name) says what to
/// look for.
///
/// ```no_run
/// # async fn example() -> Result<(), rocketmq_native::Error> {
/// use rocketmq_native::{Client, Tls};
///
/// let tls = Tls::new().ca_file("ca.pem").server_name("brokers.example.com");
/// let client = Client::builder("mq.example.com:9876").tls(tls).connect().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Default)]
pub struct Tls {
    authorities: Vec<Pem>,
    identity: Option<(Pem, Pem)>,
    server_name: Option<String>,
    accept_any_server: bool,
}

#[derive(Clone)]
enum Pem {
    Text(Vec<u8>),
    File(PathBuf),
}

impl Pem {
    fn read(&self) -> Result<Vec<u8>> {
        match self {
            Self::Text(text) => Ok(text.clone()),
            Self::File(path) => std::fs::read(path).map_err(|error| {
                invalid(format!("the file {} cannot be read: {error}", path.display())).with_source(error)
            }),
        }
    }
}

impl Tls {
    /// Verifies servers by the operating system's certificates.
    pub fn new() -> Self {
        Self::default()
    }

    /// Trusts the authorities of these PEM certificates instead of those of the operating system. May be called again for
    /// more.
    #[must_use]
    pub fn ca_pem(mut self, certificates: impl Into<Vec<u8>>) -> Self {
        self.authorities.push(Pem::Text(certificates.into()));
        self
    }

    /// Trusts the authorities of the PEM certificates in this file, as [`ca_pem`](Self::ca_pem); the file is read when the
    /// client is made.
    #[must_use]
    pub fn ca_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.authorities.push(Pem::File(path.into()));
        self
    }

    /// Shows a certificate to servers that ask for one: the chain, its own certificate first, and the private key, both as
    /// PEM.
    #[must_use]
    pub fn client_certificate_pem(mut self, chain: impl Into<Vec<u8>>, key: impl Into<Vec<u8>>) -> Self {
        self.identity = Some((Pem::Text(chain.into()), Pem::Text(key.into())));
        self
    }

    /// Shows the certificate of these files to servers, as [`client_certificate_pem`](Self::client_certificate_pem).
    #[must_use]
    pub fn client_certificate_files(mut self, chain: impl Into<PathBuf>, key: impl Into<PathBuf>) -> Self {
        self.identity = Some((Pem::File(chain.into()), Pem::File(key.into())));
        self
    }

    /// Sets the name that the certificates of all servers must be for, instead of each server's own host.
    #[must_use]
    pub fn server_name(mut self, name: impl Into<String>) -> Self {
        self.server_name = Some(name.into());
        self
    }

    /// Accepts any certificate of any server: the connection is encrypted, but anybody on the way can read and change what
    /// travels on it. For experiments alone.
    #[must_use]
    pub fn danger_accept_any_server(mut self) -> Self {
        self.accept_any_server = true;
        self
    }

    /// Reads the certificates. Blocks: there may be files to read.
    pub(crate) fn build(&self) -> Result<TlsClient> {
        let provider = Arc::new(ring::default_provider());
        let versions = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(|error| invalid(format!("TLS cannot be set up: {error}")).with_source(error))?;
        let verified = if self.accept_any_server {
            tracing::warn!(
                "servers are not verified: anybody on the way can read and change what is sent and received"
            );
            versions.dangerous().with_custom_certificate_verifier(Arc::new(AcceptAny(provider)))
        } else {
            versions.with_root_certificates(self.roots()?)
        };
        let config = match &self.identity {
            None => verified.with_no_client_auth(),
            Some((chain, key)) => {
                let chain = certificates(&chain.read()?, "the client certificate")?;
                let key = PrivateKeyDer::from_pem_slice(&key.read()?)
                    .map_err(|error| invalid(format!("the key of the client certificate is no PEM key: {error}")))?;
                verified.with_client_auth_cert(chain, key).map_err(|error| {
                    invalid(format!("the client certificate cannot be used: {error}")).with_source(error)
                })?
            }
        };
        let server_name = self.server_name.as_deref().map(server_name).transpose()?;
        Ok(TlsClient { connector: TlsConnector::from(Arc::new(config)), server_name })
    }

    fn roots(&self) -> Result<RootCertStore> {
        let mut roots = RootCertStore::empty();
        if self.authorities.is_empty() {
            let found = rustls_native_certs::load_native_certs();
            let (usable, _) = roots.add_parsable_certificates(found.certs);
            if usable == 0 {
                return Err(invalid(
                    "the operating system has no certificates of authorities: install them, or name one by `ca_file`",
                ));
            }
        }
        for authority in &self.authorities {
            for certificate in certificates(&authority.read()?, "the authority")? {
                roots.add(certificate).map_err(|error| {
                    invalid(format!("a certificate of an authority cannot be used: {error}")).with_source(error)
                })?;
            }
        }
        Ok(roots)
    }
}

/// Shows neither keys nor certificates.
impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls")
            .field("authorities", &self.authorities.len())
            .field("has_client_certificate", &self.identity.is_some())
            .field("server_name", &self.server_name)
            .field("accept_any_server", &self.accept_any_server)
            .finish()
    }
}

fn certificates(pem: &[u8], what: &str) -> Result<Vec<CertificateDer<'static>>> {
    let certificates: Vec<_> = CertificateDer::pem_slice_iter(pem)
        .collect::<Result<_, _>>()
        .map_err(|error| invalid(format!("{what} is no PEM certificate: {error}")))?;
    if certificates.is_empty() {
        return Err(invalid(format!("{what} holds no PEM certificate")));
    }
    Ok(certificates)
}

fn server_name(name: &str) -> Result<ServerName<'static>> {
    ServerName::try_from(name.to_owned())
        .map_err(|error| invalid(format!("{name:?} is no name that a certificate could have")).with_source(error))
}

fn invalid(message: impl Into<std::borrow::Cow<'static, str>>) -> Error {
    Error::new(ErrorKind::InvalidArgument, message).with_operation("set up TLS")
}

/// Encrypts streams; clones are cheap.
#[derive(Clone)]
pub(crate) struct TlsClient {
    connector: TlsConnector,
    server_name: Option<ServerName<'static>>,
}

impl TlsClient {
    /// Makes an encrypted stream of one that was opened to `host`.
    pub(crate) async fn encrypt(&self, host: &str, stream: Stream) -> Result<Stream> {
        let name = match &self.server_name {
            Some(name) => name.clone(),
            None => server_name(host)?,
        };
        let stream = self.connector.connect(name, stream).await.map_err(|error| {
            let message = format!(
                "no encrypted connection ({error}): check that the server speaks TLS, that `ca_file` names who issued its \
                 certificate, and that the certificate is for this host or `server_name`"
            );
            Error::new(ErrorKind::Connection, message).with_source(error)
        })?;
        Ok(Stream::from_io(Eager { stream, accepted: 0 }))
    }
}

impl fmt::Debug for TlsClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsClient").field("server_name", &self.server_name).finish_non_exhaustive()
    }
}

/// A TLS stream whose writes end when what they took is in the socket, so that nobody has to flush it.
///
/// A write that is pending has taken bytes all the same: it is to be called again with the same bytes until it is ready,
/// which is how a connection writes anyway.
#[derive(Debug)]
struct Eager {
    stream: TlsStream<Stream>,
    /// Bytes taken by the write under way.
    accepted: usize,
}

impl AsyncRead for Eager {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for Eager {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let mut stream = Pin::new(&mut this.stream);
        if this.accepted == 0 {
            this.accepted = ready!(stream.as_mut().poll_write(cx, buf))?;
        }
        ready!(stream.poll_flush(cx))?;
        Poll::Ready(Ok(std::mem::take(&mut this.accepted)))
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(cx)
    }
}

/// Takes every certificate for good.
#[derive(Debug)]
struct AcceptAny(Arc<CryptoProvider>);

impl ServerCertVerifier for AcceptAny {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, tokio_rustls::rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _cert: &CertificateDer<'_>,
        _dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, tokio_rustls::rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _message: &[u8],
        _cert: &CertificateDer<'_>,
        _dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, tokio_rustls::rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_used_is_named() {
        for (tls, part) in [
            (Tls::new().ca_file("/no/such/file.pem"), "/no/such/file.pem"),
            (Tls::new().ca_pem("no certificate"), "no PEM certificate"),
            (Tls::new().danger_accept_any_server().server_name("no name"), "no name"),
            (Tls::new().danger_accept_any_server().client_certificate_pem("x", "hidden-key"), "client certificate"),
        ] {
            let error = tls.build().expect_err("cannot be used");
            assert_eq!(error.kind(), ErrorKind::InvalidArgument);
            assert!(error.to_string().contains(part), "{error}");
            assert!(!format!("{tls:?} {error:?}").contains("hidden-key"), "{tls:?}");
        }
    }
}
