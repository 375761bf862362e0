//! What stands behind the question mark of a request.

use std::collections::BTreeMap;
use std::str::FromStr;

use super::Problem;
use crate::journal::EntryKind;
use crate::pattern::RequestPattern;

/// Names and values; of several of one name the last counts.
#[derive(Debug)]
pub(super) struct Query(BTreeMap<String, String>);

impl Query {
    pub(super) fn parse(text: &str) -> Self {
        Query(form_urlencoded::parse(text.as_bytes()).into_owned().collect())
    }

    pub(super) fn text(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }

    pub(super) fn needed(&self, name: &str) -> Result<&str, Problem> {
        self.text(name).ok_or_else(|| Problem::bad(format!("`{name}` is missing from the query")))
    }

    pub(super) fn number<N: FromStr>(&self, name: &str) -> Result<Option<N>, Problem> {
        let parse = |text: &str| text.parse().map_err(|_| Problem::bad(format!("`{text}` is no number for `{name}`")));
        self.text(name).map(parse).transpose()
    }

    /// How many things at most; 100 if nothing is said, 10,000 if more is wanted.
    pub(super) fn limit(&self) -> Result<usize, Problem> {
        Ok(self.number("limit")?.unwrap_or(100).min(10_000))
    }

    /// Refuses what would be passed over in silence.
    pub(super) fn only(&self, names: &[&str]) -> Result<(), Problem> {
        match self.0.keys().find(|name| !names.contains(&name.as_str())) {
            Some(name) => Err(Problem::bad(format!("`{name}` is no name here; there are {}", names.join(", ")))),
            None => Ok(()),
        }
    }

    /// The names of [`pattern`](Self::pattern).
    pub(super) const PATTERN: [&str; 7] = ["request", "topic", "group", "queue", "client", "connection", "port"];

    pub(super) fn pattern(&self) -> Result<RequestPattern, Problem> {
        let owned = |name| self.text(name).map(str::to_owned);
        let port = self.text("port").map(|text| serde_json::from_value(text.into()));
        Ok(RequestPattern {
            request: self.text("request").map(str::parse).transpose().map_err(Problem::bad)?,
            topic: owned("topic"),
            group: owned("group"),
            queue: self.number("queue")?,
            client: owned("client"),
            connection: self.number("connection")?,
            port: port.transpose().map_err(|error| Problem::bad(format!("port: {error}")))?,
        })
    }

    pub(super) fn kind(&self) -> Result<Option<EntryKind>, Problem> {
        let kind = self.text("kind").map(|text| serde_json::from_value(text.into()));
        kind.transpose().map_err(|error| Problem::bad(format!("kind: {error}")))
    }
}
