//! The namespace of a client: names outside of it, for users, and inside of it, for servers.
//!
//! Users, and everything in this crate, speak of `orders`; on the wire it is `tenant%orders`. Names are put into the
//! namespace where requests are written ([`Stamp`](crate::remoting::Stamp)), and taken out where requests of brokers and
//! messages are read. Only what travels in bodies has to be translated by who writes or reads the body.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use rocketmq_wire::message::{names, namespace};

use crate::error::{Error, ErrorKind, Result};

/// A namespace, or none; clones are cheap.
#[derive(Clone, Default, PartialEq, Eq)]
pub(crate) struct Namespace(Option<Arc<str>>);

impl Namespace {
    /// The namespace of that name; none for an empty one.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidArgument`] for a name that no topic could have.
    pub(crate) fn new(name: &str) -> Result<Self> {
        if name.is_empty() {
            return Ok(Self(None));
        }
        names::check_group(name).ok().filter(|()| !name.contains(namespace::SEPARATOR)).ok_or_else(|| {
            Error::new(
                ErrorKind::InvalidArgument,
                format!("{name:?} cannot be a namespace: write letters, digits, `_` and `-`"),
            )
        })?;
        Ok(Self(Some(name.into())))
    }

    /// Whether there is none.
    pub(crate) fn is_none(&self) -> bool {
        self.0.is_none()
    }

    /// A name of a topic or group as servers know it.
    pub(crate) fn wrap<'a>(&self, name: &'a str) -> Cow<'a, str> {
        match &self.0 {
            Some(namespace) => Cow::Owned(namespace::wrap(namespace, name)),
            None => Cow::Borrowed(name),
        }
    }

    /// As [`unwrap`](Self::unwrap), without an allocation: a retry or dead-letter topic stays as it is.
    pub(crate) fn plain<'a>(&self, name: &'a str) -> &'a str {
        let prefix = self.0.as_deref().filter(|namespace| namespace::is_wrapped(namespace, name));
        let rest = prefix.and_then(|namespace| name.strip_prefix(namespace)?.strip_prefix(namespace::SEPARATOR));
        rest.unwrap_or(name)
    }

    /// A name of a topic or group as users know it.
    pub(crate) fn unwrap<'a>(&self, name: &'a str) -> Cow<'a, str> {
        let Some(namespace) = &self.0 else { return Cow::Borrowed(name) };
        if !namespace::is_wrapped(namespace, name) {
            return Cow::Borrowed(name);
        }
        match self.plain(name) {
            plain if plain.len() < name.len() => Cow::Borrowed(plain),
            _ => Cow::Owned(namespace::unwrap(namespace, name)),
        }
    }
}

impl fmt::Debug for Namespace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_go_in_and_come_out() {
        let tenant = Namespace::new("tenant").expect("a namespace");
        for (plain, wrapped) in [
            ("orders", "tenant%orders"),
            ("%RETRY%billing", "%RETRY%tenant%billing"),
            ("%DLQ%billing", "%DLQ%tenant%billing"),
            ("TBW102", "TBW102"),
            ("other%orders", "tenant%other%orders"),
            ("", ""),
        ] {
            assert_eq!(tenant.wrap(plain), wrapped);
            assert_eq!(tenant.wrap(wrapped), wrapped, "once is enough");
            assert_eq!(tenant.unwrap(wrapped), plain);
            assert_eq!(tenant.unwrap(plain), plain);
        }
        let none = Namespace::default();
        assert_eq!((none.wrap("tenant%a"), none.unwrap("tenant%a")), ("tenant%a".into(), "tenant%a".into()));
    }

    #[test]
    fn what_cannot_be_a_namespace_is_refused() {
        for name in ["a b", "a%b", "a/b", "ä"] {
            assert_eq!(Namespace::new(name).expect_err(name).kind(), ErrorKind::InvalidArgument);
        }
        assert!(Namespace::new("").expect("none").is_none());
        assert!(Namespace::new("MQ_INST_1_2").is_ok());
    }
}
