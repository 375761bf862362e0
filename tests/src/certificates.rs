//! Certificates of an authority of the test's own, as files for servers and clients.

use std::{fs, path::PathBuf};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use tempfile::TempDir;

/// An authority, a server's certificate for `127.0.0.1` and `brokers.test`, and a client's.
#[derive(Debug)]
pub struct Certificates {
    directory: TempDir,
}

impl Certificates {
    /// Makes them.
    ///
    /// # Panics
    ///
    /// When the files cannot be written.
    pub fn new() -> Self {
        let directory = TempDir::new().expect("a folder for certificates");
        let mut authority = CertificateParams::new(["test authority".to_owned()]).expect("a name");
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("a key");
        let authority = CertifiedIssuer::self_signed(authority, key).expect("a certificate");
        let certificates = Self { directory };
        certificates.write("ca.pem", &authority.pem());
        for (name, hosts) in [("server", ["127.0.0.1", "brokers.test"]), ("client", ["client", "test"])] {
            let key = KeyPair::generate().expect("a key");
            let parameters = CertificateParams::new(hosts.map(str::to_owned)).expect("names");
            let certificate = parameters.signed_by(&key, &authority).expect("a certificate");
            certificates.write(&format!("{name}.pem"), &certificate.pem());
            certificates.write(&format!("{name}.key"), &key.serialize_pem());
        }
        certificates
    }

    /// The file `ca.pem`, `server.pem`, `server.key`, `client.pem` or `client.key`.
    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Flags for the virtual machine of an Apache server that takes encrypted connections besides plain ones.
    pub fn server_flags(&self) -> Vec<String> {
        vec![
            "-Dtls.test.mode.enable=false".to_owned(),
            "-Dtls.server.mode=permissive".to_owned(),
            format!("-Dtls.server.certPath={}", self.path("server.pem").display()),
            format!("-Dtls.server.keyPath={}", self.path("server.key").display()),
        ]
    }

    /// Flags that make the server ask for the client's certificate as well.
    pub fn client_authentication_flags(&self) -> Vec<String> {
        vec![
            "-Dtls.server.need.client.auth=require".to_owned(),
            "-Dtls.server.authClient=true".to_owned(),
            format!("-Dtls.server.trustCertPath={}", self.path("ca.pem").display()),
        ]
    }

    fn write(&self, name: &str, pem: &str) {
        let path = self.path(name);
        fs::write(&path, pem).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    }
}

impl Default for Certificates {
    fn default() -> Self {
        Self::new()
    }
}
