//! What requests are signed with, for servers with access control.

use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use rocketmq_wire::acl::SigningKey;

use crate::error::{Error, ErrorKind, Result};

/// An access key, the secret that belongs to it, and perhaps the token of temporary credentials; clones are cheap.
///
/// With 4.x brokers the access key is that of `plain_acl.yml`, with the authentication of 5.3 and later it is the user's
/// name and the secret the password. The secret itself is not kept, and neither it nor the token is ever shown.
///
/// ```no_run
/// # async fn example() -> Result<(), rocketmq_native::Error> {
/// use rocketmq_native::{Client, Credentials};
///
/// let client = Client::builder("127.0.0.1:9876")
///     .credentials(Credentials::new("orders-service", std::env::var("SECRET").unwrap_or_default()))
///     .connect()
///     .await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Credentials(Arc<Inner>);

#[derive(Clone)]
struct Inner {
    access_key: String,
    /// `None` for an empty secret.
    key: Option<SigningKey>,
    security_token: Option<String>,
}

impl Credentials {
    /// Credentials of an access key and its secret.
    pub fn new(access_key: impl Into<String>, secret_key: impl AsRef<str>) -> Self {
        let key = SigningKey::new(secret_key.as_ref());
        Self(Arc::new(Inner { access_key: access_key.into(), key, security_token: None }))
    }

    /// Adds the token that temporary credentials come with.
    #[must_use]
    pub fn security_token(self, token: impl Into<String>) -> Self {
        Self(Arc::new(Inner { security_token: Some(token.into()), ..Arc::unwrap_or_clone(self.0) }))
    }

    /// The access key.
    pub fn access_key(&self) -> &str {
        &self.0.access_key
    }

    pub(crate) fn key(&self) -> Option<&SigningKey> {
        self.0.key.as_ref()
    }

    pub(crate) fn token(&self) -> Option<&str> {
        self.0.security_token.as_deref()
    }

    pub(crate) fn check(&self) -> Result<()> {
        let missing = match self {
            _ if self.0.access_key.is_empty() => "access key",
            _ if self.0.key.is_none() => "secret key",
            _ => return Ok(()),
        };
        Err(Error::new(
            ErrorKind::InvalidArgument,
            format!(
                "the credentials have no {missing}: give both, or no credentials to a server without access control"
            ),
        ))
    }
}

/// Shows the access key alone.
impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials").field("access_key", &self.0.access_key).finish_non_exhaustive()
    }
}

/// Says what to sign the next request with.
///
/// It is asked for every request, on the caller's thread, so it must not block: to fetch credentials from somewhere, do so
/// in a task of your own and hand them over by [`ChangeableCredentials`]. Implemented by [`Credentials`], which never
/// change, and by functions.
pub trait CredentialsProvider: Send + Sync {
    /// The credentials to use now.
    fn credentials(&self) -> Credentials;
}

impl CredentialsProvider for Credentials {
    fn credentials(&self) -> Credentials {
        self.clone()
    }
}

impl<F: Fn() -> Credentials + Send + Sync> CredentialsProvider for F {
    fn credentials(&self) -> Credentials {
        self()
    }
}

/// Credentials that can be replaced while clients use them; clones are the same.
///
/// ```
/// use rocketmq_native::{ChangeableCredentials, Credentials};
///
/// let credentials = ChangeableCredentials::new(Credentials::new("key", "yesterday's secret"));
/// let for_the_client = credentials.clone();
/// credentials.replace(Credentials::new("key", "today's secret")); // from the next request on
/// ```
#[derive(Debug, Clone)]
pub struct ChangeableCredentials(Arc<RwLock<Credentials>>);

impl ChangeableCredentials {
    /// Begins with these.
    pub fn new(credentials: Credentials) -> Self {
        Self(Arc::new(RwLock::new(credentials)))
    }

    /// Uses others from the next request on. Requests under way keep their signature.
    pub fn replace(&self, credentials: Credentials) {
        // A single assignment: a poisoned lock guards a whole value.
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = credentials;
    }
}

impl CredentialsProvider for ChangeableCredentials {
    fn credentials(&self) -> Credentials {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_secret_is_shown() {
        let credentials = Credentials::new("public", "hidden-secret").security_token("hidden-token");
        let shown = format!("{credentials:?} {:?}", ChangeableCredentials::new(credentials.clone()));
        assert!(shown.contains("public") && !shown.contains("hidden"), "{shown}");
    }

    #[test]
    fn empty_parts_are_refused() {
        assert!(Credentials::new("a", "b").check().is_ok());
        for credentials in [Credentials::new("", "b"), Credentials::new("a", "")] {
            assert_eq!(credentials.check().expect_err("a part is missing").kind(), ErrorKind::InvalidArgument);
        }
    }
}
