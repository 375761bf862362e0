//! Signatures of requests, as both generations of Apache's access control check them.
//!
//! Signed are the values of all header fields but the signature itself, in the order of their names, one right after the
//! other, and then the body. The code, the opaque, the flag, the version and the remark are not. The signature is
//! HMAC-SHA1 in base64.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use sha1::Sha1;

use crate::header::OwnedFields;

/// The field that names the key.
pub const ACCESS_KEY: &str = "AccessKey";
/// The field with the token of temporary credentials.
pub const SECURITY_TOKEN: &str = "SecurityToken";
/// The field with the signature.
pub const SIGNATURE: &str = "Signature";
/// The field of a message query that some versions do not sign.
pub const UNIQUE_KEY_QUERY: &str = "_UNIQUE_KEY_QUERY";

/// A secret key, ready to sign with.
#[derive(Clone)]
pub struct SigningKey(Hmac<Sha1>);

impl SigningKey {
    /// The key of this secret; `None` for an empty one, with which nothing can be signed.
    #[must_use]
    pub fn new(secret: &str) -> Option<Self> {
        if secret.is_empty() {
            return None;
        }
        Hmac::new_from_slice(secret.as_bytes()).ok().map(Self)
    }

    /// The signature of a request with these fields, of which those named in `unsigned` are left out, and this body.
    #[must_use]
    pub fn sign(&self, fields: &OwnedFields, unsigned: &[&str], body: &[u8]) -> String {
        STANDARD.encode(self.digest(fields, unsigned, body).finalize().into_bytes())
    }

    /// Whether `signature` is that of a request with these fields and this body.
    #[must_use]
    pub fn verify(&self, fields: &OwnedFields, unsigned: &[&str], body: &[u8], signature: &str) -> bool {
        let Ok(signature) = STANDARD.decode(signature) else { return false };
        self.digest(fields, unsigned, body).verify_slice(&signature).is_ok()
    }

    fn digest(&self, fields: &OwnedFields, unsigned: &[&str], body: &[u8]) -> Hmac<Sha1> {
        let mut signed: Vec<_> =
            fields.iter().filter(|(name, _)| *name != SIGNATURE && !unsigned.contains(name)).collect();
        // Java compares names by their UTF-16 units.
        signed.sort_by(|(a, _), (b, _)| a.encode_utf16().cmp(b.encode_utf16()));
        let mut mac = self.0.clone();
        for (_, value) in signed {
            mac.update(value.as_bytes());
        }
        mac.update(body);
        mac
    }
}

/// Shows nothing of the secret.
impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SigningKey(..)")
    }
}
