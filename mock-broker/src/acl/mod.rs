//! Access control: whose requests are served, as Apache's plain access control decides.
//!
//! A request is signed with the secret of an account of `plain_acl.yml`, and the account says which topics it may send to
//! and which topics and groups it may consume. The refusals are those of the version that the broker behaves like.

mod accounts;
mod address;
mod resources;

use std::borrow::Cow;
use std::fs;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use rocketmq_wire::acl::{ACCESS_KEY, SIGNATURE, UNIQUE_KEY_QUERY};
use rocketmq_wire::header::{DecodeFields, OwnedFields};
use rocketmq_wire::message::names::RETRY_PREFIX;
use rocketmq_wire::{RequestCode, ResponseCode, Version};

use self::accounts::{Account, Accounts};
use crate::compatibility::Compatibility;
use crate::reply::Command;

/// How often the file is looked at: as often as Apache's broker does.
const LOOK_INTERVAL: Duration = Duration::from_millis(500);

/// The accounts, kept as their file says.
#[derive(Debug)]
pub(crate) struct AccessControl {
    file: PathBuf,
    accounts: Accounts,
    stamp: Option<(SystemTime, u64)>,
    next_look: Duration,
}

/// Why a request is not served.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Refusal {
    NoAccessKey,
    UnknownAccessKey(String),
    WrongSignature(String),
    AdministratorsOnly(RequestCode, String),
    NotPermitted { account: String, resource: String },
}

impl AccessControl {
    /// Reads the file.
    ///
    /// # Errors
    ///
    /// Says what is wrong with it.
    pub(crate) fn open(file: PathBuf) -> Result<Self, String> {
        let wrong = |why: String| format!("the accounts of {}: {why}", file.display());
        let text = fs::read_to_string(&file).map_err(|error| wrong(error.to_string()))?;
        let accounts = Accounts::parse(&text).map_err(wrong)?;
        let stamp = stamp(&file);
        Ok(Self { file, accounts, stamp, next_look: Duration::ZERO })
    }

    /// Reads the file again if it has changed. One that cannot be read leaves the accounts as they are.
    pub(crate) fn refresh(&mut self, session_time: Duration) {
        if session_time < self.next_look {
            return;
        }
        self.next_look = session_time + LOOK_INTERVAL;
        let now = stamp(&self.file);
        if now == self.stamp {
            return;
        }
        self.stamp = now;
        match Self::open(self.file.clone()) {
            Ok(read) => self.accounts = read.accounts,
            Err(error) => tracing::error!(error, "the accounts stay as they were"),
        }
    }

    /// Why a request is not to be served; `None` when it is.
    pub(crate) fn check(&self, from: IpAddr, command: &Command<'_>) -> Option<Refusal> {
        if self.accounts.white_lists.iter().any(|list| list.contains(from)) {
            return None;
        }
        let fields = OwnedFields::decode_fields(command.header.fields).unwrap_or_default();
        let value = |name: &str| fields.iter().find(|(field, _)| *field == name).map(|(_, value)| value);
        let Some(access_key) = value(ACCESS_KEY).filter(|key| !key.is_empty()) else {
            return Some(Refusal::NoAccessKey);
        };
        let Some(account) = self.accounts.by_access_key.get(access_key) else {
            return Some(Refusal::UnknownAccessKey(access_key.to_owned()));
        };
        if account.white_list.contains(from) {
            return None;
        }
        // Clients before 4.9.4 do not sign this field.
        let old = command.header.head.version < Version::V4_9_4;
        let unsigned: &[&str] = if old { &[UNIQUE_KEY_QUERY] } else { &[] };
        if !account.key.verify(&fields, unsigned, command.body, value(SIGNATURE).unwrap_or_default()) {
            return Some(Refusal::WrongSignature(access_key.to_owned()));
        }
        permitted(account, access_key, command, &value)
    }
}

fn permitted<'a>(
    account: &Account,
    access_key: &str,
    command: &Command<'_>,
    value: &dyn Fn(&str) -> Option<&'a str>,
) -> Option<Refusal> {
    if account.is_admin {
        return None;
    }
    if resources::needs_administrator(command.code()) {
        return Some(Refusal::AdministratorsOnly(command.code(), access_key.to_owned()));
    }
    let refused = resources::of(command.code(), value, command.body)
        .into_iter()
        .find(|(resource, needed)| !account.may(resource, *needed));
    refused.map(|(resource, _)| Refusal::NotPermitted { account: access_key.to_owned(), resource })
}

fn stamp(file: &std::path::Path) -> Option<(SystemTime, u64)> {
    let metadata = fs::metadata(file).ok()?;
    Some((metadata.modified().ok()?, metadata.len()))
}

impl Refusal {
    /// The answer of a broker of that version.
    pub(crate) fn answer(&self, compatibility: Compatibility, from: IpAddr) -> (ResponseCode, Cow<'static, str>) {
        if compatibility.has_users() {
            return (ResponseCode::NO_PERMISSION, self.in_terms_of_users(from));
        }
        const CHECKS: &str = "org.apache.rocketmq.acl.plain.PlainPermissionManager";
        let (text, place) = match self {
            Self::NoAccessKey => ("No accessKey is configured".to_owned(), "validate(PlainPermissionManager.java:663)"),
            Self::UnknownAccessKey(key) => {
                (format!("No acl config for {key}"), "validate(PlainPermissionManager.java:667)")
            }
            Self::WrongSignature(key) => {
                (format!("Check signature failed for accessKey={key}"), "validate(PlainPermissionManager.java:683)")
            }
            Self::AdministratorsOnly(code, key) => (
                format!("Need admin permission for request code={}, but accessKey={key} is not", code.0),
                "checkPerm(PlainPermissionManager.java:577)",
            ),
            Self::NotPermitted { resource, .. } => (
                format!("No default permission for {}", printed(resource)),
                "checkPerm(PlainPermissionManager.java:605)",
            ),
        };
        let remark = format!("org.apache.rocketmq.acl.common.AclException: {text}, {CHECKS}.{place}");
        (ResponseCode::SYSTEM_ERROR, remark.into())
    }

    fn in_terms_of_users(&self, from: IpAddr) -> Cow<'static, str> {
        match self {
            Self::NoAccessKey => "username cannot be null.".into(),
            Self::UnknownAccessKey(key) => format!("User:{key} is not found.").into(),
            Self::WrongSignature(_) => "check signature failed.".into(),
            Self::AdministratorsOnly(_, key) => {
                format!("User:{key} has no permission to access Cluster:* from {from}, no matched policies.").into()
            }
            Self::NotPermitted { account, resource } => {
                let (kind, name) = match resource.strip_prefix(RETRY_PREFIX) {
                    Some(group) => ("Group", group),
                    None => ("Topic", resource.as_str()),
                };
                format!("User:{account} has no permission to access {kind}:{name} from {from}, no matched policies.")
                    .into()
            }
        }
    }
}

/// A resource as the refusals of 4.x name it.
fn printed(resource: &str) -> String {
    match resource.strip_prefix(RETRY_PREFIX) {
        Some(group) => format!("group:{group}"),
        None => format!("topic:{resource}"),
    }
}
