//! Accounts as `plain_acl.yml` lists them. Pure.

use std::collections::BTreeMap;
use std::fmt;

use rocketmq_wire::acl::SigningKey;
use rocketmq_wire::message::names::RETRY_PREFIX;
use yaml_rust2::{Yaml, YamlLoader};

use super::address::WhiteList;

/// What may be done with a topic or group. Bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Permission(u8);

impl Permission {
    pub(crate) const DENY: Self = Self(1);
    pub(crate) const PUB: Self = Self(4);
    pub(crate) const SUB: Self = Self(8);

    /// Apache's words; everything else denies.
    fn parse(text: &str) -> Self {
        match text.trim() {
            "PUB" => Self::PUB,
            "SUB" => Self::SUB,
            "PUB|SUB" | "SUB|PUB" => Self(Self::PUB.0 | Self::SUB.0),
            _ => Self::DENY,
        }
    }

    /// Whether one who owns this may do what needs `needed`.
    fn allows(self, needed: Self) -> bool {
        self.0 & Self::DENY.0 == 0 && self.0 & needed.0 != 0
    }
}

/// One account.
pub(crate) struct Account {
    pub(crate) key: SigningKey,
    pub(crate) white_list: WhiteList,
    pub(crate) is_admin: bool,
    default_topic: Permission,
    default_group: Permission,
    /// Topics by their names, groups by those of their retry topics.
    resources: BTreeMap<String, Permission>,
}

impl Account {
    /// Whether a topic, or the group of a retry topic, may be used so.
    pub(crate) fn may(&self, resource: &str, needed: Permission) -> bool {
        let default = if resource.starts_with(RETRY_PREFIX) { self.default_group } else { self.default_topic };
        self.resources.get(resource).copied().unwrap_or(default).allows(needed)
    }
}

/// Shows nothing of the secret.
impl fmt::Debug for Account {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Account")
            .field("is_admin", &self.is_admin)
            .field("resources", &self.resources)
            .finish_non_exhaustive()
    }
}

/// The content of the file.
#[derive(Debug, Default)]
pub(crate) struct Accounts {
    pub(crate) white_lists: Vec<WhiteList>,
    pub(crate) by_access_key: BTreeMap<String, Account>,
}

impl Accounts {
    /// Reads the file's text.
    ///
    /// # Errors
    ///
    /// Says what is wrong, without the text itself, which holds secrets.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let documents =
            YamlLoader::load_from_str(text).map_err(|error| format!("line {} is no YAML", error.marker().line()))?;
        let Some(document) = documents.first() else { return Err("the file is empty".to_owned()) };
        let white_lists =
            list(&document["globalWhiteRemoteAddresses"]).iter().map(|entry| WhiteList::parse(&scalar(entry)));
        let mut accounts = Self { white_lists: white_lists.collect(), by_access_key: BTreeMap::new() };
        for (index, entry) in list(&document["accounts"]).iter().enumerate() {
            let (access_key, secret) = (scalar(&entry["accessKey"]), scalar(&entry["secretKey"]));
            // Apache's own rule.
            if access_key.len() <= 6 || secret.len() <= 6 {
                return Err(format!("account {}: accessKey and secretKey need more than 6 characters each", index + 1));
            }
            let key = SigningKey::new(&secret).ok_or("a secret is missing")?;
            let mut resources = BTreeMap::new();
            for (field, prefix) in [("topicPerms", ""), ("groupPerms", RETRY_PREFIX)] {
                for permission in list(&entry[field]) {
                    let text = scalar(permission);
                    let Some((name, permission)) = text.split_once('=') else {
                        return Err(format!(
                            "account {access_key}: {field} holds `{text}`, which is no `name=PUB|SUB`"
                        ));
                    };
                    resources.insert(format!("{prefix}{}", name.trim()), Permission::parse(permission));
                }
            }
            let account = Account {
                key,
                white_list: WhiteList::parse(&scalar(&entry["whiteRemoteAddress"])),
                is_admin: scalar(&entry["admin"]) == "true",
                default_topic: Permission::parse(&scalar(&entry["defaultTopicPerm"])),
                default_group: Permission::parse(&scalar(&entry["defaultGroupPerm"])),
                resources,
            };
            accounts.by_access_key.insert(access_key, account);
        }
        Ok(accounts)
    }
}

fn list(value: &Yaml) -> &[Yaml] {
    value.as_vec().map_or(&[], Vec::as_slice)
}

/// A scalar as text: a secret of digits alone is a number to YAML.
fn scalar(value: &Yaml) -> String {
    match value {
        Yaml::String(text) | Yaml::Real(text) => text.clone(),
        Yaml::Integer(number) => number.to_string(),
        Yaml::Boolean(flag) => flag.to_string(),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Apache's own example.
    const FILE: &str = "
globalWhiteRemoteAddresses:
- 10.10.103.*
- 192.168.0.*

accounts:
- accessKey: RocketMQ
  secretKey: 12345678
  whiteRemoteAddress:
  admin: false
  defaultTopicPerm: DENY
  defaultGroupPerm: SUB
  topicPerms:
  - topicA=DENY
  - topicB=PUB|SUB
  - topicC=SUB
  groupPerms:
  # the group should convert to retry topic
  - groupA=DENY
  - groupB=PUB|SUB
- accessKey: rocketmq2
  secretKey: 12345678
  whiteRemoteAddress: 192.168.1.*
  admin: true
";

    #[test]
    fn apaches_example() {
        let accounts = Accounts::parse(FILE).unwrap();
        assert_eq!(accounts.white_lists.len(), 2);
        let account = &accounts.by_access_key["RocketMQ"];
        for (resource, needed, may) in [
            ("topicA", Permission::SUB, false),
            ("topicB", Permission::PUB, true),
            ("topicC", Permission::PUB, false),
            ("topicC", Permission::SUB, true),
            ("other", Permission::SUB, false),
            ("%RETRY%groupA", Permission::SUB, false),
            ("%RETRY%groupB", Permission::SUB, true),
            ("%RETRY%other", Permission::SUB, true),
        ] {
            assert_eq!(account.may(resource, needed), may, "{resource} {needed:?}");
        }
        let admin = &accounts.by_access_key["rocketmq2"];
        assert!(admin.is_admin && admin.white_list.contains("192.168.1.7".parse().unwrap()));
        assert!(!format!("{accounts:?}").contains("12345678"));
    }

    #[test]
    fn what_is_wrong_is_said_without_the_secrets() {
        for (file, part) in [
            ("", "empty"),
            ("accounts:\n- accessKey: short\n  secretKey: hidden-secret", "more than 6"),
            ("accounts:\n- accessKey: long-enough\n  secretKey: hidden-secret\n  topicPerms:\n  - topic", "topicPerms"),
            ("a: [hidden-secret", "line"),
        ] {
            let error = Accounts::parse(file).unwrap_err();
            assert!(error.contains(part) && !error.contains("hidden"), "{error}");
        }
    }
}
