//! Settings in a file: ours in TOML, or Apache's properties.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use rocketmq_mock_broker::Compatibility;
use serde::Deserialize;

use crate::arguments::ClockKind;

/// What a TOML file may say; the names are those of the flags.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ConfigFile {
    pub(crate) listen: Option<SocketAddr>,
    pub(crate) broker_listen: Option<SocketAddr>,
    pub(crate) advertise: Option<String>,
    pub(crate) store: Option<PathBuf>,
    pub(crate) console: Option<SocketAddr>,
    pub(crate) console_token: Option<String>,
    compatibility: Option<String>,
    pub(crate) clock: Option<ClockKind>,
    pub(crate) journal: Option<usize>,
    pub(crate) log: Option<String>,
    /// Queues by topic.
    #[serde(default)]
    pub(crate) topics: BTreeMap<String, u32>,
    /// As after `--fault`.
    #[serde(default)]
    pub(crate) faults: Vec<String>,
    /// Apache's.
    #[serde(default)]
    pub(crate) properties: BTreeMap<String, toml::Value>,
    /// Whether properties that are not honoured are passed over.
    #[serde(skip)]
    pub(crate) is_apache: bool,
}

impl ConfigFile {
    /// Reads a file.
    ///
    /// # Errors
    ///
    /// Says where it cannot be read, and why.
    pub(crate) fn read(path: &Path) -> Result<Self, String> {
        let text = std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
        if path.extension().is_some_and(|extension| extension == "toml") {
            return toml::from_str(&text).map_err(|error| format!("{}: {error}", path.display()));
        }
        Self::of_properties(&text).map_err(|error| format!("{}: {error}", path.display()))
    }

    /// Apache's form: `key=value` or `key:value` lines, comments after `#` or `!`, lines that go on after a `\`.
    fn of_properties(text: &str) -> Result<Self, String> {
        let mut file = ConfigFile { is_apache: true, ..Self::default() };
        let mut lines = text.lines();
        while let Some(line) = lines.next() {
            let line = line.trim();
            if line.is_empty() || line.starts_with(['#', '!']) {
                continue;
            }
            let mut whole = line.to_owned();
            while whole.ends_with('\\') {
                whole.pop();
                whole.push_str(lines.next().unwrap_or_default().trim());
            }
            let (key, value) = whole.split_once(['=', ':']).ok_or_else(|| format!("`{whole}` is not key=value"))?;
            let (key, value) = (key.trim(), value.trim());
            if key == "listenPort" {
                let port = value.parse().map_err(|_| format!("`{value}` is no port for listenPort"))?;
                file.broker_listen = Some(SocketAddr::from(([127, 0, 0, 1], port)));
                continue;
            }
            file.properties.insert(key.to_owned(), toml::Value::String(value.to_owned()));
        }
        Ok(file)
    }

    /// The line of releases to behave like.
    ///
    /// # Errors
    ///
    /// One that there is not.
    pub(crate) fn compatibility(&self) -> Result<Option<Compatibility>, String> {
        self.compatibility.as_deref().map(str::parse).transpose().map_err(|error| format!("compatibility: {error}"))
    }

    /// Apache's properties, as text.
    pub(crate) fn properties(&self) -> impl Iterator<Item = (&str, String)> {
        self.properties.iter().map(|(key, value)| {
            let value = match value {
                toml::Value::String(text) => text.clone(),
                toml::Value::Integer(number) => number.to_string(),
                toml::Value::Boolean(boolean) => boolean.to_string(),
                toml::Value::Float(number) => number.to_string(),
                // Refused by the property itself.
                other => format!("{other:?}"),
            };
            (key.as_str(), value)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn apache_s_files_are_read_as_java_reads_them() {
        let text =
            "# a broker\nbrokerName = b-1\nlistenPort=20911\n! more\ndeleteWhen:04\nmessageDelayLevel=1s \\\n  5s\n\n";
        let file = ConfigFile::of_properties(text).unwrap();
        assert_eq!(file.broker_listen.unwrap().port(), 20911);
        let properties: Vec<_> = file.properties().collect();
        let expected = [("brokerName", "b-1"), ("deleteWhen", "04"), ("messageDelayLevel", "1s 5s")];
        assert_eq!(properties, expected.map(|(key, value)| (key, value.to_owned())));
        assert!(ConfigFile::of_properties("brokerName").is_err());
    }

    #[test]
    fn ours_is_toml_with_the_names_of_the_flags() {
        let text = "listen = '127.0.0.1:0'\nclock = 'manual'\ncompatibility = '4.9'\nfaults = ['close']\n[topics]\norders = 4\n\
                    [properties]\nautoCreateTopicEnable = false\nbrokerName = 'b'\n";
        let file: ConfigFile = toml::from_str(text).unwrap();
        assert_eq!((file.clock, file.compatibility().unwrap()), (Some(ClockKind::Manual), Some(Compatibility::V4_9)));
        assert_eq!((file.topics["orders"], file.faults.len()), (4, 1));
        assert!(file.properties().any(|property| property == ("autoCreateTopicEnable", "false".to_owned())));
        assert!(toml::from_str::<ConfigFile>("lisen = ''").is_err());
    }
}
