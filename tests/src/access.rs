//! Apache's brokers with access control, and who may do what there.

use crate::apache::{ApacheCluster, ApacheOptions};

/// An access key and its secret.
#[derive(Debug, Clone, Copy)]
pub struct Account {
    /// The access key; the user's name for brokers of 5.3.
    pub access_key: &'static str,
    /// The secret.
    pub secret_key: &'static str,
}

/// May do everything.
pub const ADMIN: Account = Account { access_key: "administrator", secret_key: "12345678" };

/// With 4.9, whose keys have more than six characters: may use the topics `open` and the groups of [`GROUPS`], and no other.
pub const CLERK: Account = Account { access_key: "clerk-key", secret_key: "clerk-secret" };

/// The groups that [`CLERK`] may consume in.
pub const GROUPS: [&str; 2] = ["clerk-group", "second-clerk-group"];

/// The topic that [`CLERK`] may use.
pub const TOPIC: &str = "open";

/// The accounts as the file of a 4.x broker.
pub fn plain_acl() -> String {
    let groups: String = GROUPS.iter().map(|group| format!("  - {group}=PUB|SUB\n")).collect();
    format!(
        "globalWhiteRemoteAddresses:\n\
         accounts:\n\
         - accessKey: {}\n  secretKey: {}\n  whiteRemoteAddress:\n  admin: true\n\
         - accessKey: {}\n  secretKey: {}\n  whiteRemoteAddress:\n  admin: false\n\
         \x20 defaultTopicPerm: DENY\n  defaultGroupPerm: DENY\n  topicPerms:\n  - {TOPIC}=PUB|SUB\n  groupPerms:\n{groups}",
        ADMIN.access_key, ADMIN.secret_key, CLERK.access_key, CLERK.secret_key
    )
}

/// Starts the servers of a version with access control: that of 4.x with [`plain_acl`], that of 5.3 with [`ADMIN`] alone.
pub fn start(version: &str, options: ApacheOptions) -> ApacheCluster {
    let options = if version.starts_with("4.") {
        options.set("aclEnable", "true").file("conf/plain_acl.yml", &plain_acl())
    } else {
        let provider = "org.apache.rocketmq.auth";
        let Account { access_key, secret_key } = ADMIN;
        options
            .set("authenticationEnabled", "true")
            .set("authenticationProvider", &format!("{provider}.authentication.provider.DefaultAuthenticationProvider"))
            .set(
                "authenticationMetadataProvider",
                &format!("{provider}.authentication.provider.LocalAuthenticationMetadataProvider"),
            )
            .set("authorizationEnabled", "true")
            .set("authorizationProvider", &format!("{provider}.authorization.provider.DefaultAuthorizationProvider"))
            .set(
                "authorizationMetadataProvider",
                &format!("{provider}.authorization.provider.LocalAuthorizationMetadataProvider"),
            )
            .set("initAuthenticationUser", &format!(r#"{{"username":"{access_key}","password":"{secret_key}"}}"#))
            .set(
                "innerClientAuthenticationCredentials",
                &format!(r#"{{"accessKey":"{access_key}","secretKey":"{secret_key}"}}"#),
            )
    };
    ApacheCluster::start(version, options)
}
