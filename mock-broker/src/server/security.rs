//! Who may connect, and how: encryption and access control of one server.

use std::time::Duration;

use super::encryption::Encryption;
use crate::acl::AccessControl;
use crate::compatibility::Compatibility;
use crate::reply::{Command, Peer, Reply};
use crate::settings::Settings;

/// Encryption, and access control where it is switched on.
#[derive(Debug)]
pub(crate) struct Security {
    encryption: Encryption,
    access: Option<AccessControl>,
}

impl Security {
    /// Reads certificates and accounts.
    ///
    /// # Errors
    ///
    /// Says which file cannot be used, and why.
    pub(crate) fn new(settings: &Settings) -> Result<Self, String> {
        let encryption =
            Encryption::new(settings.tls.clone()).map_err(|error| format!("TLS cannot be set up: {error}"))?;
        let access = match (settings.access_control, &settings.accounts) {
            (true, Some(file)) => Some(AccessControl::open(file.clone())?),
            (true, None) => return Err("`aclEnable` needs `aclFile`, the path of a plain_acl.yml".to_owned()),
            (false, _) => None,
        };
        Ok(Self { encryption, access })
    }

    pub(crate) fn encryption(&self) -> &Encryption {
        &self.encryption
    }

    /// The answer to a request that is not to be served.
    #[inline]
    pub(super) fn refuse(
        &mut self,
        session_time: Duration,
        compatibility: Compatibility,
        peer: &Peer,
        command: &Command<'_>,
    ) -> Option<Reply<'static>> {
        let access = self.access.as_mut()?;
        access.refresh(session_time);
        let from = peer.address.ip();
        let (code, remark) = access.check(from, command)?.answer(compatibility, from);
        Some(Reply::refused(code, remark))
    }
}
