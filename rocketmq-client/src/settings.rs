//! Settings of a client from a file and from the environment.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use crate::client::ClientBuilder;
use crate::credentials::Credentials;
use crate::error::{Error, ErrorKind, Result};
use crate::transport::Socks5;

/// What variables of the environment begin with.
const PREFIX: &str = "ROCKETMQ_";

/// Every setting.
const NAMES: [&str; 22] = [
    "name_servers",
    "name_server_endpoint",
    "access_key",
    "secret_key",
    "secret_key_file",
    "security_token",
    "namespace",
    "instance_name",
    "unit_name",
    "tls",
    "tls_ca_file",
    "tls_certificate_file",
    "tls_key_file",
    "tls_server_name",
    "socks5",
    "socks5_user",
    "socks5_password",
    "request_timeout_ms",
    "connect_timeout_ms",
    "route_interval_ms",
    "heartbeat_interval_ms",
    "vip_channel",
];

/// The one setting that is a table.
const ADDRESS_MAP: &str = "address_map";

/// Settings as text, by their names. Never shown: some are secrets.
#[derive(Default)]
pub(crate) struct Settings {
    values: BTreeMap<String, String>,
    address_map: BTreeMap<String, String>,
}

impl Settings {
    /// Reads a TOML file.
    pub(crate) fn from_file(path: &Path) -> Result<Self> {
        let shown = path.display();
        let text = std::fs::read_to_string(path)
            .map_err(|error| invalid(format!("the file {shown} cannot be read: {error}")).with_source(error))?;
        Self::from_toml(&text).map_err(|error| invalid(format!("{shown}: {error}")))
    }

    fn from_toml(text: &str) -> Result<Self> {
        let table: toml::Table = text.parse().map_err(|error: toml::de::Error| {
            // The parser's own text would quote the line, which may hold a secret.
            let line = error.span().map_or(0, |span| text[..span.start.min(text.len())].matches('\n').count() + 1);
            invalid(format!("line {line} is no TOML: {}", error.message()))
        })?;
        let mut settings = Self::default();
        for (name, value) in table {
            if name == ADDRESS_MAP {
                let toml::Value::Table(map) = value else { return Err(wrong(&name, "a table of addresses")) };
                for (from, to) in map {
                    let toml::Value::String(to) = to else { return Err(wrong(ADDRESS_MAP, "a table of addresses")) };
                    settings.address_map.insert(from, to);
                }
                continue;
            }
            let value = match value {
                toml::Value::String(text) => text,
                toml::Value::Integer(number) => number.to_string(),
                toml::Value::Boolean(flag) => flag.to_string(),
                toml::Value::Array(list) if name == "name_servers" => {
                    let list: Option<Vec<&str>> = list.iter().map(toml::Value::as_str).collect();
                    list.ok_or_else(|| wrong(&name, "a list of addresses"))?.join(";")
                }
                _ => return Err(wrong(&name, "text, a number, true or false")),
            };
            settings.insert(&name, value)?;
        }
        Ok(settings)
    }

    /// Reads those variables of an environment that have the prefix.
    pub(crate) fn from_variables(variables: impl Iterator<Item = (String, String)>) -> Result<Self> {
        let mut settings = Self::default();
        for (variable, value) in variables {
            let Some(name) = variable.strip_prefix(PREFIX).map(str::to_ascii_lowercase) else { continue };
            if name != ADDRESS_MAP {
                // Apache's servers and tests have variables of their own with this prefix.
                if settings.insert(&name, value).is_err() {
                    tracing::debug!(variable, "a variable of the environment that is no setting of the client");
                }
                continue;
            }
            for pair in value.split(',').filter(|pair| !pair.trim().is_empty()) {
                let Some((from, to)) = pair.split_once('=') else {
                    return Err(wrong(&variable, "a list such as `from=to,from=to`"));
                };
                settings.address_map.insert(from.trim().to_owned(), to.trim().to_owned());
            }
        }
        Ok(settings)
    }

    fn insert(&mut self, name: &str, value: String) -> Result<()> {
        if !NAMES.contains(&name) {
            return Err(invalid(format!(
                "there is no setting `{name}`: there are {} and {ADDRESS_MAP}",
                NAMES.join(", ")
            )));
        }
        self.values.insert(name.to_owned(), value);
        Ok(())
    }

    fn take(&mut self, name: &str) -> Option<String> {
        debug_assert!(NAMES.contains(&name), "{name} is listed");
        self.values.remove(name)
    }

    fn flag(&mut self, name: &str) -> Result<Option<bool>> {
        self.take(name).map(|text| text.parse().map_err(|_| wrong(name, "true or false"))).transpose()
    }

    fn milliseconds(&mut self, name: &str) -> Result<Option<Duration>> {
        let number = self.take(name).map(|text| text.parse().map_err(|_| wrong(name, "a number of milliseconds")));
        Ok(number.transpose()?.map(Duration::from_millis))
    }

    /// Sets what is there.
    pub(crate) fn apply(mut self, mut builder: ClientBuilder) -> Result<ClientBuilder> {
        if let Some(list) = self.take("name_servers") {
            builder = builder.name_servers(list);
        }
        if let Some(url) = self.take("name_server_endpoint") {
            builder = builder.name_server_endpoint(url);
        }
        if let Some(credentials) = self.credentials()? {
            builder = builder.credentials(credentials);
        }
        if let Some(namespace) = self.take("namespace") {
            builder = builder.namespace(namespace);
        }
        if let Some(name) = self.take("instance_name") {
            builder = builder.instance_name(name);
        }
        if let Some(name) = self.take("unit_name") {
            builder = builder.unit_name(name);
        }
        builder = self.apply_tls(builder)?;
        if let Some(address) = self.take("socks5") {
            let mut proxy = Socks5::new(address);
            if let Some(user) = self.take("socks5_user") {
                proxy = proxy.login(user, self.take("socks5_password").unwrap_or_default());
            }
            builder = builder.socks5(proxy);
        }
        if let Some(time) = self.milliseconds("request_timeout_ms")? {
            builder = builder.request_timeout(time);
        }
        if let Some(time) = self.milliseconds("connect_timeout_ms")? {
            builder = builder.connect_timeout(time);
        }
        if let Some(time) = self.milliseconds("route_interval_ms")? {
            builder = builder.route_interval(time);
        }
        if let Some(time) = self.milliseconds("heartbeat_interval_ms")? {
            builder = builder.heartbeat_interval(time);
        }
        if let Some(on) = self.flag("vip_channel")? {
            builder = builder.vip_channel(on);
        }
        for (from, to) in self.address_map {
            builder = builder.map_address(from, to);
        }
        Ok(builder)
    }

    fn credentials(&mut self) -> Result<Option<Credentials>> {
        let secret = match (self.take("secret_key"), self.take("secret_key_file")) {
            (Some(_), Some(_)) => return Err(invalid("give either `secret_key` or `secret_key_file`")),
            (Some(secret), None) => Some(secret),
            (None, Some(path)) => {
                let read = std::fs::read_to_string(&path);
                let read = read.map_err(|error| invalid(format!("the file {path} cannot be read: {error}")))?;
                Some(read.trim().to_owned())
            }
            (None, None) => None,
        };
        let token = self.take("security_token");
        match (self.take("access_key"), secret) {
            (Some(access_key), Some(secret)) => {
                let credentials = Credentials::new(access_key, secret);
                Ok(Some(match token {
                    Some(token) => credentials.security_token(token),
                    None => credentials,
                }))
            }
            (None, None) => Ok(None),
            _ => Err(invalid("an access key needs a secret key, and a secret key an access key")),
        }
    }

    #[cfg(feature = "tls")]
    fn apply_tls(&mut self, builder: ClientBuilder) -> Result<ClientBuilder> {
        let on = self.flag("tls")?;
        let (authority, name) = (self.take("tls_ca_file"), self.take("tls_server_name"));
        let identity = match (self.take("tls_certificate_file"), self.take("tls_key_file")) {
            (Some(chain), Some(key)) => Some((chain, key)),
            (None, None) => None,
            _ => return Err(invalid("`tls_certificate_file` and `tls_key_file` belong together")),
        };
        if !on.unwrap_or(authority.is_some() || name.is_some() || identity.is_some()) {
            return Ok(builder);
        }
        let mut tls = crate::transport::Tls::new();
        if let Some(authority) = authority {
            tls = tls.ca_file(authority);
        }
        if let Some(name) = name {
            tls = tls.server_name(name);
        }
        if let Some((chain, key)) = identity {
            tls = tls.client_certificate_files(chain, key);
        }
        Ok(builder.tls(tls))
    }

    #[cfg(not(feature = "tls"))]
    fn apply_tls(&mut self, builder: ClientBuilder) -> Result<ClientBuilder> {
        let wanted = self.flag("tls")?.unwrap_or(false);
        let set =
            ["tls_ca_file", "tls_certificate_file", "tls_key_file", "tls_server_name"].map(|name| self.take(name));
        if wanted || set.iter().any(Option::is_some) {
            return Err(invalid("this build cannot encrypt: switch the feature `tls` on"));
        }
        Ok(builder)
    }
}

fn wrong(name: &str, expected: &str) -> Error {
    invalid(format!("the setting `{name}` is not {expected}"))
}

fn invalid(message: impl Into<std::borrow::Cow<'static, str>>) -> Error {
    Error::new(ErrorKind::InvalidArgument, message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Client;

    const FILE: &str = r#"
        name_servers = ["a:1", "b:2"]
        access_key = "public"
        secret_key = "hidden-secret"
        security_token = "hidden-token"
        namespace = "tenant"
        instance_name = "fixed"
        unit_name = "unit"
        request_timeout_ms = 5000
        vip_channel = true
        socks5 = "proxy:1080"
        socks5_user = "me"
        socks5_password = "hidden-password"

        [address_map]
        "172.17.0.2:10911" = "127.0.0.1:10911"
    "#;

    fn applied(settings: Settings) -> Result<String> {
        settings.apply(Client::builder("")).map(|builder| format!("{builder:?}"))
    }

    #[test]
    fn a_file_and_the_environment_say_the_same() {
        let from_file = applied(Settings::from_toml(FILE).expect("good settings")).expect("good values");
        let variables = [
            ("PATH", "/bin"),
            ("ROCKETMQ_HOME", "/opt/rocketmq"),
            ("ROCKETMQ_NAME_SERVERS", "a:1;b:2"),
            ("ROCKETMQ_ACCESS_KEY", "public"),
            ("ROCKETMQ_SECRET_KEY", "hidden-secret"),
            ("ROCKETMQ_SECURITY_TOKEN", "hidden-token"),
            ("ROCKETMQ_NAMESPACE", "tenant"),
            ("ROCKETMQ_INSTANCE_NAME", "fixed"),
            ("ROCKETMQ_UNIT_NAME", "unit"),
            ("ROCKETMQ_REQUEST_TIMEOUT_MS", "5000"),
            ("ROCKETMQ_VIP_CHANNEL", "true"),
            ("ROCKETMQ_SOCKS5", "proxy:1080"),
            ("ROCKETMQ_SOCKS5_USER", "me"),
            ("ROCKETMQ_SOCKS5_PASSWORD", "hidden-password"),
            ("ROCKETMQ_ADDRESS_MAP", "172.17.0.2:10911=127.0.0.1:10911,"),
        ];
        let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned())).into_iter();
        let from_environment = applied(Settings::from_variables(variables).expect("good settings"));
        assert_eq!(from_environment.expect("good values"), from_file);
        for part in ["a:1;b:2", "tenant", "fixed", "unit", "5s", "vip_channel: true", "proxy:1080", "172.17.0.2:10911"]
        {
            assert!(from_file.contains(part), "{part} in {from_file}");
        }
        assert!(!from_file.contains("hidden"), "{from_file}");
    }

    #[test]
    fn what_is_wrong_is_named_and_secrets_are_not() {
        for (file, part) in [
            ("name_server = \"a\"", "no setting `name_server`"),
            ("request_timeout_ms = \"hidden\"", "`request_timeout_ms`"),
            ("vip_channel = 1", "`vip_channel`"),
            ("address_map = 1", "`address_map`"),
            ("secret_key = \"hidden\"", "access key"),
            ("a = 1\nsecret_key = hidden", "line 2"),
            ("access_key = \"a\"\nsecret_key = \"hidden\"\nsecret_key_file = \"x\"", "either"),
            ("access_key = \"a\"\nsecret_key_file = \"/no/such/file\"", "/no/such/file"),
            ("tls_key_file = \"x\"", "belong together"),
        ] {
            let error = Settings::from_toml(file).and_then(applied).expect_err(file);
            assert_eq!(error.kind(), ErrorKind::InvalidArgument);
            let shown = format!("{error} {error:?}");
            assert!(shown.contains(part) && !shown.contains("hidden"), "{shown}");
        }
    }

    #[test]
    fn every_setting_listed_is_known() {
        let mut settings = Settings::default();
        for name in NAMES {
            let value = match name {
                "tls" | "vip_channel" => "true",
                _ if name.ends_with("_ms") => "1",
                "secret_key_file" => continue,
                _ => "x",
            };
            settings.insert(name, value.to_owned()).expect("a setting");
        }
        applied(settings).expect("all of them");
    }
}
