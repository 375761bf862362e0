//! TLS on the ports: which connections are encrypted, and by which certificate.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use rcgen::{CertificateParams, KeyPair};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{RootCertStore, ServerConfig};

/// The first byte of a TLS connection; no frame begins with it.
pub(crate) const HANDSHAKE: u8 = 0x16;

/// Which connections a server takes (`tls.server.mode`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum TlsMode {
    /// Plain ones only.
    Disabled,
    /// Both.
    #[default]
    Permissive,
    /// Encrypted ones only.
    Enforcing,
}

/// What is set of TLS. As Apache's servers, ours take both kinds of connections unless told otherwise, with a certificate
/// made on the spot.
#[derive(Clone, Default)]
pub(crate) struct TlsSettings {
    pub(crate) mode: TlsMode,
    /// The certificate chain (`tls.server.certPath`).
    pub(crate) certificate: Option<PathBuf>,
    /// Its key (`tls.server.keyPath`).
    pub(crate) key: Option<PathBuf>,
    /// Who issues the certificates of clients (`tls.server.trustCertPath`); with it clients must have one.
    pub(crate) client_authority: Option<PathBuf>,
    /// A host besides those of this machine that a certificate made on the spot is for.
    pub(crate) host: Option<String>,
}

impl fmt::Debug for TlsSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsSettings")
            .field("mode", &self.mode)
            .field("certificate", &self.certificate)
            .finish_non_exhaustive()
    }
}

/// Encrypts connections of one server; clones share the certificate.
#[derive(Clone)]
pub(crate) struct Encryption {
    settings: TlsSettings,
    made: Arc<OnceLock<Made>>,
}

struct Made {
    acceptor: TlsAcceptor,
    certificate: String,
}

impl Encryption {
    /// Reads the certificate, if one is given. One that is made is made when it is first needed.
    ///
    /// # Errors
    ///
    /// Files that cannot be read or are no certificate or key.
    pub(crate) fn new(settings: TlsSettings) -> io::Result<Self> {
        let this = Self { settings, made: Arc::default() };
        if this.settings.mode != TlsMode::Disabled
            && (this.settings.certificate.is_some() || this.settings.client_authority.is_some())
        {
            this.made()?;
        }
        Ok(this)
    }

    /// Which connections are taken.
    pub(crate) fn mode(&self) -> TlsMode {
        self.settings.mode
    }

    /// What encrypts.
    ///
    /// # Errors
    ///
    /// When no certificate can be made.
    pub(crate) fn acceptor(&self) -> io::Result<TlsAcceptor> {
        Ok(self.made()?.acceptor.clone())
    }

    /// The certificate, as PEM: what clients have to trust when it was made here.
    ///
    /// # Errors
    ///
    /// When no certificate can be made.
    pub(crate) fn certificate(&self) -> io::Result<String> {
        Ok(self.made()?.certificate.clone())
    }

    fn made(&self) -> io::Result<&Made> {
        if self.made.get().is_none() {
            let made = self.make()?;
            // Only the broker's own thread makes one.
            let _ = self.made.set(made);
        }
        self.made.get().ok_or_else(|| io::Error::other("no certificate was made"))
    }

    fn make(&self) -> io::Result<Made> {
        let (certificate, key) = match (&self.settings.certificate, &self.settings.key) {
            (Some(certificate), Some(key)) => (read(certificate)?, read(key)?),
            (None, None) => self.generate()?,
            _ => return Err(io::Error::other("`tls.server.certPath` and `tls.server.keyPath` belong together")),
        };
        let chain = certificates(&certificate)?;
        let key = PrivateKeyDer::from_pem_slice(key.as_bytes())
            .map_err(|error| io::Error::other(format!("the key of the certificate is no PEM key: {error}")))?;
        let provider = Arc::new(ring::default_provider());
        let versions = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(io::Error::other)?;
        let verifying = match &self.settings.client_authority {
            None => versions.with_no_client_auth(),
            Some(path) => {
                let mut roots = RootCertStore::empty();
                for authority in certificates(&read(path)?)? {
                    roots.add(authority).map_err(io::Error::other)?;
                }
                let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build();
                versions.with_client_cert_verifier(verifier.map_err(io::Error::other)?)
            }
        };
        let config = verifying.with_single_cert(chain, key).map_err(io::Error::other)?;
        Ok(Made { acceptor: TlsAcceptor::from(Arc::new(config)), certificate })
    }

    /// A certificate for this machine, signed by itself.
    fn generate(&self) -> io::Result<(String, String)> {
        let hosts = ["localhost", "127.0.0.1", "::1"].into_iter().chain(self.settings.host.as_deref());
        let parameters =
            CertificateParams::new(hosts.map(str::to_owned).collect::<Vec<_>>()).map_err(io::Error::other)?;
        let key = KeyPair::generate().map_err(io::Error::other)?;
        let certificate = parameters.self_signed(&key).map_err(io::Error::other)?;
        Ok((certificate.pem(), key.serialize_pem()))
    }
}

impl fmt::Debug for Encryption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.settings.fmt(f)
    }
}

fn read(path: &std::path::Path) -> io::Result<String> {
    std::fs::read_to_string(path).map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())))
}

fn certificates(pem: &str) -> io::Result<Vec<CertificateDer<'static>>> {
    let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem.as_bytes()).collect();
    let certificates = certificates.map_err(|error| io::Error::other(format!("no PEM certificate: {error}")))?;
    if certificates.is_empty() {
        return Err(io::Error::other("there is no PEM certificate in the file"));
    }
    Ok(certificates)
}
