//! Which requests are meant: by what they ask for, their topic, group, queue, client or connection.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use rocketmq_wire::RequestCode;
use serde::de::{self, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Where a request came in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Port {
    /// The name server's port.
    NameServer,
    /// The broker's ports.
    Broker,
}

/// Requests that belong together, whichever of several codes a client uses for them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Family {
    /// Sends: 10 (Go), 310 and 320 (Java, Rust).
    Send,
    /// Pulls: 11 and 361.
    Pull,
    /// Offsets read, committed and searched: 14, 15, 29 to 32.
    Offset,
    /// Heartbeats: 34.
    Heartbeat,
    /// Leaving and listing groups, checking subscriptions: 35, 38, 46.
    Group,
    /// Messages handed back to be delivered again: 36.
    SendBack,
    /// Ends of transactions: 37.
    Transaction,
    /// Locks of queues: 41, 42.
    Lock,
    /// Replies to requests: 324, 325.
    Reply,
    /// Messages by id and key: 12, 33.
    Query,
    /// Routes and the cluster: 105, 106.
    Route,
    /// Brokers at the name server: 103, 104, 322, 904.
    Register,
    /// Everything else.
    Admin,
}

const FAMILIES: [(&str, Family); 13] = [
    ("send", Family::Send),
    ("pull", Family::Pull),
    ("offset", Family::Offset),
    ("heartbeat", Family::Heartbeat),
    ("group", Family::Group),
    ("send_back", Family::SendBack),
    ("transaction", Family::Transaction),
    ("lock", Family::Lock),
    ("reply", Family::Reply),
    ("query", Family::Query),
    ("route", Family::Route),
    ("register", Family::Register),
    ("admin", Family::Admin),
];

impl Family {
    /// The family of a code.
    #[must_use]
    pub fn of(code: RequestCode) -> Self {
        match code {
            RequestCode::SEND_MESSAGE | RequestCode::SEND_MESSAGE_V2 | RequestCode::SEND_BATCH_MESSAGE => Self::Send,
            RequestCode::PULL_MESSAGE | RequestCode::LITE_PULL_MESSAGE => Self::Pull,
            RequestCode::QUERY_CONSUMER_OFFSET
            | RequestCode::UPDATE_CONSUMER_OFFSET
            | RequestCode::SEARCH_OFFSET_BY_TIMESTAMP
            | RequestCode::GET_MAX_OFFSET
            | RequestCode::GET_MIN_OFFSET
            | RequestCode::GET_EARLIEST_MSG_STORETIME => Self::Offset,
            RequestCode::HEART_BEAT => Self::Heartbeat,
            RequestCode::UNREGISTER_CLIENT
            | RequestCode::GET_CONSUMER_LIST_BY_GROUP
            | RequestCode::CHECK_CLIENT_CONFIG => Self::Group,
            RequestCode::CONSUMER_SEND_MSG_BACK => Self::SendBack,
            RequestCode::END_TRANSACTION => Self::Transaction,
            RequestCode::LOCK_BATCH_MQ | RequestCode::UNLOCK_BATCH_MQ => Self::Lock,
            RequestCode::SEND_REPLY_MESSAGE | RequestCode::SEND_REPLY_MESSAGE_V2 => Self::Reply,
            RequestCode::QUERY_MESSAGE | RequestCode::VIEW_MESSAGE_BY_ID => Self::Query,
            RequestCode::GET_ROUTEINFO_BY_TOPIC | RequestCode::GET_BROKER_CLUSTER_INFO => Self::Route,
            RequestCode::REGISTER_BROKER
            | RequestCode::UNREGISTER_BROKER
            | RequestCode::QUERY_DATA_VERSION
            | RequestCode::BROKER_HEARTBEAT => Self::Register,
            _ => Self::Admin,
        }
    }

    fn name(self) -> &'static str {
        FAMILIES.iter().find(|(_, family)| *family == self).map_or("admin", |(name, _)| name)
    }
}

/// One kind of request, or a family of them. Written as a family's name (`send`), a code's name (`SEND_MESSAGE_V2`) or a
/// number (`310`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Requests {
    /// Requests of this code.
    Code(RequestCode),
    /// Requests of this family.
    Family(Family),
}

impl Requests {
    /// Whether a code is meant.
    #[must_use]
    pub fn contains(self, code: RequestCode) -> bool {
        match self {
            Requests::Code(wanted) => wanted == code,
            Requests::Family(family) => Family::of(code) == family,
        }
    }
}

impl From<RequestCode> for Requests {
    fn from(code: RequestCode) -> Self {
        Requests::Code(code)
    }
}

impl From<Family> for Requests {
    fn from(family: Family) -> Self {
        Requests::Family(family)
    }
}

impl fmt::Display for Requests {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Requests::Family(family) => f.write_str(family.name()),
            Requests::Code(code) => match code.known_name() {
                Some(name) => f.write_str(name),
                None => write!(f, "{}", code.0),
            },
        }
    }
}

impl FromStr for Requests {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Ok(code) = text.parse() {
            return Ok(Requests::Code(RequestCode(code)));
        }
        let plain = text.to_ascii_lowercase().replace('-', "_");
        if let Some((_, family)) = FAMILIES.iter().find(|(name, _)| *name == plain) {
            return Ok(Requests::Family(*family));
        }
        // All codes that have names lie in these.
        let codes = (0..4_000).chain(200_000..200_200).map(RequestCode);
        codes
            .into_iter()
            .find(|code| code.known_name().is_some_and(|name| name.eq_ignore_ascii_case(&plain)))
            .map(Requests::Code)
            .ok_or_else(|| {
                let families = FAMILIES.map(|(name, _)| name).join(", ");
                format!("`{text}` is no request: say a code such as 310 or SEND_MESSAGE_V2, or one of {families}")
            })
    }
}

impl Serialize for Requests {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Requests {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Text;
        impl Visitor<'_> for Text {
            type Value = Requests;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a request code, its name, or a family of requests")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Requests, E> {
                text.parse().map_err(E::custom)
            }

            fn visit_u64<E: de::Error>(self, code: u64) -> Result<Requests, E> {
                let code = i32::try_from(code).map_err(|_| E::custom("a request code has 31 bits"))?;
                Ok(Requests::Code(RequestCode(code)))
            }
        }
        deserializer.deserialize_any(Text)
    }
}

/// Which requests are meant. What is not said matches everything; what is said must all be true. A name that ends in `*`
/// stands for all that begin so.
///
/// The JSON form has the same names: `{"request":"send","topic":"orders","queue":0}`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RequestPattern {
    /// What is asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<Requests>,
    /// The topic named in the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub topic: Option<String>,
    /// The producer or consumer group named in the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// The queue id named in the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<i32>,
    /// The client's id, as it says it in heartbeats; a client is known by it from its first heartbeat on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client: Option<String>,
    /// The connection's number: the first of a broker is 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connection: Option<u64>,
    /// Where it came in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<Port>,
}

impl RequestPattern {
    /// Every request.
    #[must_use]
    pub fn any() -> Self {
        Self::default()
    }

    /// Requests of a code or a family.
    #[must_use]
    pub fn of(requests: impl Into<Requests>) -> Self {
        Self { request: Some(requests.into()), ..Self::default() }
    }

    /// Only requests that name this topic.
    #[must_use]
    pub fn topic(mut self, topic: impl Into<String>) -> Self {
        self.topic = Some(topic.into());
        self
    }

    /// Only requests that name this group.
    #[must_use]
    pub fn group(mut self, group: impl Into<String>) -> Self {
        self.group = Some(group.into());
        self
    }

    /// Only requests that name this queue id.
    #[must_use]
    pub fn queue(mut self, queue: i32) -> Self {
        self.queue = Some(queue);
        self
    }

    /// Only requests of this client id.
    #[must_use]
    pub fn client(mut self, client: impl Into<String>) -> Self {
        self.client = Some(client.into());
        self
    }

    /// Only requests of this connection.
    #[must_use]
    pub fn connection(mut self, connection: u64) -> Self {
        self.connection = Some(connection);
        self
    }

    /// Only requests to this port.
    #[must_use]
    pub fn port(mut self, port: Port) -> Self {
        self.port = Some(port);
        self
    }

    pub(crate) fn matches(&self, facts: &Facts<'_>) -> bool {
        self.differences(facts).next().is_none()
    }

    /// What of the pattern is not so: the name, what is wanted, and what is there.
    pub(crate) fn differences<'p>(
        &'p self,
        facts: &'p Facts<'_>,
    ) -> impl Iterator<Item = (&'static str, String, String)> + 'p {
        let name = |what, wanted: &Option<String>, found: &mut dyn Iterator<Item = &str>| {
            let wanted = wanted.as_ref()?;
            let found: Vec<&str> = found.collect();
            let differs = !found.iter().any(|found| is_like(wanted, found));
            differs.then(|| (what, wanted.clone(), found.join(",")))
        };
        let number = |what, wanted: Option<i64>, found: Option<i64>| {
            let differs = wanted.is_some() && wanted != found;
            let text = |number: Option<i64>| number.map_or("-".to_owned(), |number| number.to_string());
            differs.then(|| (what, text(wanted), text(found)))
        };
        let request = self.request.filter(|wanted| !wanted.contains(facts.code));
        let port = self.port.filter(|wanted| *wanted != facts.port);
        [
            request.map(|wanted| ("request", wanted.to_string(), facts.code.to_string())),
            name("topic", &self.topic, &mut facts.topic.iter().map(|topic| &**topic)),
            name("group", &self.group, &mut facts.groups.iter().map(|group| &**group)),
            name("client", &self.client, &mut facts.client.iter().map(|client| &**client)),
            number("queue", self.queue.map(i64::from), facts.queue.map(i64::from)),
            number("connection", self.connection.map(|id| id as i64), Some(facts.connection as i64)),
            port.map(|wanted| ("port", format!("{wanted:?}"), format!("{:?}", facts.port))),
        ]
        .into_iter()
        .flatten()
    }
}

impl<R: Into<Requests>> From<R> for RequestPattern {
    fn from(requests: R) -> Self {
        Self::of(requests)
    }
}

impl fmt::Display for RequestPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts = Vec::new();
        let mut part = |name: &str, value: Option<String>| parts.extend(value.map(|value| format!("{name}={value}")));
        part("request", self.request.map(|request| request.to_string()));
        part("topic", self.topic.clone());
        part("group", self.group.clone());
        part("queue", self.queue.map(|queue| queue.to_string()));
        part("client", self.client.clone());
        part("connection", self.connection.map(|connection| connection.to_string()));
        part("port", self.port.map(|port| if port == Port::Broker { "broker" } else { "name_server" }.to_owned()));
        if parts.is_empty() { f.write_str("any request") } else { f.write_str(&parts.join(",")) }
    }
}

fn is_like(pattern: &str, name: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(start) => name.starts_with(start),
        None => pattern == name,
    }
}

/// What a pattern is compared with.
#[derive(Debug, Clone)]
pub(crate) struct Facts<'a> {
    pub(crate) port: Port,
    pub(crate) connection: u64,
    pub(crate) code: RequestCode,
    pub(crate) topic: Option<Cow<'a, str>>,
    pub(crate) groups: Vec<Cow<'a, str>>,
    pub(crate) queue: Option<i32>,
    pub(crate) client: Option<Cow<'a, str>>,
}

/// What the bodies of heartbeats and locks say.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Named {
    #[serde(alias = "clientID")]
    client_id: Option<String>,
    consumer_group: Option<String>,
    producer_data_set: Vec<Group>,
    consumer_data_set: Vec<Group>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Group {
    group_name: String,
}

impl<'a> Facts<'a> {
    /// Reads what a request says; `field` finds a field of its header.
    pub(crate) fn read(
        port: Port,
        connection: u64,
        code: RequestCode,
        field: impl Fn(&str) -> Option<Cow<'a, str>>,
        body: &[u8],
        known_client: Option<Cow<'a, str>>,
    ) -> Self {
        let is_short = matches!(
            code,
            RequestCode::SEND_MESSAGE_V2 | RequestCode::SEND_BATCH_MESSAGE | RequestCode::SEND_REPLY_MESSAGE_V2
        );
        let first = |names: &[&str]| names.iter().find_map(|name| field(name));
        let (group, topic, queue) = if is_short {
            (field("a"), field("b"), field("e"))
        } else {
            let group = first(&["consumerGroup", "producerGroup", "group", "groupName"]);
            (group, first(&["topic", "originTopic"]), field("queueId"))
        };
        let mut facts = Facts {
            port,
            connection,
            code,
            topic,
            groups: group.into_iter().collect(),
            queue: queue.and_then(|queue| queue.parse().ok()),
            client: known_client.or_else(|| first(&["clientID", "clientId"])),
        };
        if matches!(Family::of(code), Family::Heartbeat | Family::Lock)
            && let Ok(named) = rocketmq_wire::fastjson::from_slice::<Named>("request", body)
        {
            let groups = named.producer_data_set.into_iter().chain(named.consumer_data_set);
            facts.groups.extend(groups.map(|group| Cow::Owned(group.group_name)));
            facts.groups.extend(named.consumer_group.map(Cow::Owned));
            facts.client = facts.client.or(named.client_id.map(Cow::Owned));
        }
        facts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts<'a>(code: RequestCode, fields: &'a [(&'a str, &'a str)], body: &[u8]) -> Facts<'a> {
        let field = |name: &str| fields.iter().find(|(key, _)| *key == name).map(|(_, value)| Cow::Borrowed(*value));
        Facts::read(Port::Broker, 7, code, field, body, None)
    }

    #[test]
    fn requests_are_named_by_family_code_or_number() {
        for (text, expected) in [
            ("send", Requests::Family(Family::Send)),
            ("send-back", Requests::Family(Family::SendBack)),
            ("PULL_MESSAGE", Requests::Code(RequestCode::PULL_MESSAGE)),
            ("310", Requests::Code(RequestCode::SEND_MESSAGE_V2)),
            ("200050", Requests::Code(RequestCode::POP_MESSAGE)),
            ("pop_message", Requests::Code(RequestCode::POP_MESSAGE)),
        ] {
            assert_eq!(text.parse(), Ok(expected), "{text}");
            assert_eq!(expected.to_string().parse(), Ok(expected));
        }
        assert!("sned".parse::<Requests>().unwrap_err().contains("send_back"));
        assert_eq!(serde_json::from_str::<Requests>("310").unwrap(), Requests::Code(RequestCode::SEND_MESSAGE_V2));
        assert_eq!(serde_json::from_str::<Requests>("\"pull\"").unwrap(), Requests::Family(Family::Pull));
    }

    #[test]
    fn a_pattern_matches_when_all_that_it_says_is_so() {
        let short = [("a", "p"), ("b", "orders"), ("e", "3")];
        let short = facts(RequestCode::SEND_MESSAGE_V2, &short, b"");
        let long = [("producerGroup", "p"), ("topic", "orders"), ("queueId", "3")];
        let long = facts(RequestCode::SEND_MESSAGE, &long, b"");
        for facts in [short, long] {
            let matches = |pattern: RequestPattern| pattern.matches(&facts);
            assert!(matches(RequestPattern::any()));
            assert!(matches(RequestPattern::of(Family::Send).topic("orders").group("p").queue(3).connection(7)));
            assert!(matches(RequestPattern::any().topic("ord*").port(Port::Broker)));
            assert!(!matches(RequestPattern::any().topic("ord")));
            assert!(!matches(RequestPattern::of(Family::Pull)));
            assert!(!matches(RequestPattern::any().queue(2)));
            assert!(!matches(RequestPattern::any().client("c")));
            assert!(!matches(RequestPattern::any().port(Port::NameServer)));
        }
    }

    #[test]
    fn groups_and_clients_are_read_from_bodies_too() {
        let heartbeat =
            br#"{"clientID":"c@1","producerDataSet":[{"groupName":"p"}],"consumerDataSet":[{"groupName":"g"}]}"#;
        let heartbeat = facts(RequestCode::HEART_BEAT, &[], heartbeat);
        assert!(RequestPattern::of(Family::Heartbeat).group("g").client("c@1").matches(&heartbeat));
        assert!(RequestPattern::any().group("p").matches(&heartbeat));
        let lock = facts(RequestCode::LOCK_BATCH_MQ, &[], br#"{"clientId":"c","consumerGroup":"g","mqSet":[]}"#);
        assert!(RequestPattern::of(Family::Lock).group("g").client("c").matches(&lock));
    }

    #[test]
    fn a_misspelt_name_is_refused() {
        assert!(serde_json::from_str::<RequestPattern>(r#"{"topc":"orders"}"#).is_err());
        let pattern = RequestPattern::of(Family::Send).topic("orders").port(Port::Broker);
        let json = serde_json::to_string(&pattern).unwrap();
        assert_eq!(json, r#"{"request":"send","topic":"orders","port":"broker"}"#);
        assert_eq!(serde_json::from_str::<RequestPattern>(&json).unwrap(), pattern);
    }
}
