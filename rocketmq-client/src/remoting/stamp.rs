//! What every request gets besides its own fields: the namespace in its names, and a signature.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use rocketmq_wire::RequestCode;
use rocketmq_wire::acl::{ACCESS_KEY, SECURITY_TOKEN, SIGNATURE, UNIQUE_KEY_QUERY};
use rocketmq_wire::header::{EncodeFields, EncodedFields, FieldWriter, OwnedFields};
use rocketmq_wire::message::names;
use rocketmq_wire::message::properties::{self, NAME_VALUE_SEPARATOR, PROPERTY_SEPARATOR};

use crate::credentials::CredentialsProvider;
use crate::error::Result;
use crate::namespace::Namespace;

/// Brokers of 4.7.0 to 5.0.x leave the field `_UNIQUE_KEY_QUERY` out when they check a signature.
const UNIQUE_KEY_QUERY_UNSIGNED: std::ops::RangeInclusive<i32> = 353..=432;

/// What every request gets besides its own fields. The default is nothing, which costs nothing.
#[derive(Clone, Default)]
pub struct Stamp {
    credentials: Option<Arc<dyn CredentialsProvider>>,
    namespace: Namespace,
}

impl Stamp {
    /// Signs requests.
    #[must_use]
    pub fn credentials(mut self, credentials: Arc<dyn CredentialsProvider>) -> Self {
        self.credentials = Some(credentials);
        self
    }

    /// Puts the names of topics and groups into a namespace.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidArgument`](crate::ErrorKind::InvalidArgument) for a name that cannot be a namespace.
    pub fn namespace(mut self, namespace: &str) -> Result<Self> {
        self.namespace = Namespace::new(namespace)?;
        Ok(self)
    }

    /// Whether requests stay as they are.
    pub(crate) fn is_blank(&self) -> bool {
        self.credentials.is_none() && self.namespace.is_none()
    }

    pub(crate) fn own_namespace(&self) -> &Namespace {
        &self.namespace
    }

    /// The fields to write for a request; `peer` is the version of the server, 0 before it is known.
    pub(super) fn fields<F: EncodeFields>(&self, code: i32, fields: &F, body: &Bytes, peer: i32) -> OwnedFields {
        let mut stamped = OwnedFields::new();
        if self.namespace.is_none() {
            fields.encode_fields(&mut stamped);
        } else {
            fields.encode_fields(&mut Wrapping {
                out: &mut stamped,
                code: RequestCode(code),
                namespace: &self.namespace,
            });
        }
        if let Some(provider) = &self.credentials {
            let credentials = provider.credentials();
            // Without a secret the request goes unsigned, and the server says so.
            if let Some(key) = credentials.key() {
                stamped.text(ACCESS_KEY, credentials.access_key());
                if let Some(token) = credentials.token() {
                    stamped.text(SECURITY_TOKEN, token);
                }
                let unsigned: &[&str] =
                    if UNIQUE_KEY_QUERY_UNSIGNED.contains(&peer) { &[UNIQUE_KEY_QUERY] } else { &[] };
                let signature = key.sign(&stamped, unsigned, body);
                stamped.text(SIGNATURE, &signature);
            }
        }
        stamped
    }

    /// The fields of a server's request with plain names; `None` when they are plain already.
    pub(super) fn plain<F: EncodeFields>(&self, code: RequestCode, fields: &F) -> Option<OwnedFields> {
        if self.namespace.is_none() {
            return None;
        }
        let mut plain = OwnedFields::new();
        let mut wrapped = OwnedFields::new();
        fields.encode_fields(&mut wrapped);
        for (name, value) in wrapped.iter() {
            match field(code, name) {
                Field::Name => plain.text(name, &self.namespace.unwrap(value)),
                Field::Properties | Field::Other => plain.text(name, value),
            }
        }
        Some(plain)
    }
}

/// Says nothing of the credentials.
impl fmt::Debug for Stamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stamp")
            .field("signs", &self.credentials.is_some())
            .field("namespace", &self.namespace)
            .finish_non_exhaustive()
    }
}

/// What a field is to a namespace.
enum Field {
    /// The name of a topic or group.
    Name,
    /// The properties of a message.
    Properties,
    Other,
}

/// The fields that hold names, in the requests of every version.
fn field(code: RequestCode, name: &str) -> Field {
    let short = matches!(
        code,
        RequestCode::SEND_MESSAGE_V2 | RequestCode::SEND_BATCH_MESSAGE | RequestCode::SEND_REPLY_MESSAGE_V2
    );
    // Replies go through a topic of the cluster's, which all namespaces share.
    let reply = matches!(code, RequestCode::SEND_REPLY_MESSAGE | RequestCode::SEND_REPLY_MESSAGE_V2);
    match name {
        "topic" | "b" if reply => Field::Other,
        "topic" | "originTopic" | "producerGroup" | "consumerGroup" | "group" | "groupName" => Field::Name,
        "a" | "b" if short => Field::Name,
        "i" if short => Field::Properties,
        "properties" => Field::Properties,
        _ => Field::Other,
    }
}

/// Puts names into a namespace on their way.
struct Wrapping<'a> {
    out: &'a mut OwnedFields,
    code: RequestCode,
    namespace: &'a Namespace,
}

impl FieldWriter for Wrapping<'_> {
    fn text(&mut self, name: &str, value: &str) {
        match field(self.code, name) {
            // As where replies are sent to: a topic of the cluster's.
            Field::Name if self.code == RequestCode::GET_ROUTEINFO_BY_TOPIC && names::is_reply_topic(value) => {
                self.out.text(name, value);
            }
            Field::Name => self.out.text(name, &self.namespace.wrap(value)),
            Field::Properties => match self.producer_group(value) {
                Some(value) => self.out.text(name, &value),
                None => self.out.text(name, value),
            },
            Field::Other => self.out.text(name, value),
        }
    }

    fn texts<const N: usize>(&mut self, name: &str, parts: [&str; N]) {
        self.text(name, &parts.concat());
    }

    fn integer(&mut self, name: &str, value: i64) {
        self.out.integer(name, value);
    }

    fn encoded(&mut self, fields: &EncodedFields) {
        fields.write_each(self);
    }
}

impl Wrapping<'_> {
    /// The properties with the group of a transaction, by which the broker finds somebody to ask, inside the namespace.
    fn producer_group(&self, text: &str) -> Option<String> {
        let group = properties::Properties::from(text).value(properties::PRODUCER_GROUP)?;
        let entry =
            |group: &str| [properties::PRODUCER_GROUP, NAME_VALUE_SEPARATOR.encode_utf8(&mut [0; 4]), group].concat();
        let (plain, wrapped) = (entry(group), entry(&self.namespace.wrap(group)));
        let parts = text.split(PROPERTY_SEPARATOR).map(|part| if part == plain { wrapped.as_str() } else { part });
        Some(parts.collect::<Vec<_>>().join(PROPERTY_SEPARATOR.encode_utf8(&mut [0; 4])))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::credentials::Credentials;
    use rocketmq_wire::acl::SigningKey;
    use rocketmq_wire::header::NoFields;
    use rocketmq_wire::message::id::UniqueIdSuffix;
    use rocketmq_wire::request::send::{SendMessageRequestV2, SendTemplate, TemplatedSend};

    fn value<'a>(fields: &'a OwnedFields, name: &str) -> Option<&'a str> {
        fields.iter().find(|(field, _)| *field == name).map(|(_, value)| value)
    }

    fn request<'a>(template: &'a SendTemplate, properties: &'a str) -> TemplatedSend<'a> {
        TemplatedSend { template, sys_flag: 0, born_timestamp: 1, flag: 0, properties, unique_id: UNIQUE_ID }
    }

    const UNIQUE_ID: UniqueIdSuffix = UniqueIdSuffix { since_month_start_millis: 1, counter: 2 };

    fn template() -> SendTemplate {
        SendTemplate::new(
            &SendMessageRequestV2 {
                producer_group: "pg".into(),
                topic: "orders".into(),
                default_topic: "TBW102".into(),
                broker_name: Some("broker-a".into()),
                ..Default::default()
            },
            "U",
        )
    }

    #[test]
    fn names_are_put_into_the_namespace_wherever_they_stand() {
        let stamp = Stamp::default().namespace("ns").expect("a namespace");
        let template = template();
        let properties = "PGROUP\u{1}pg\u{2}KEYS\u{1}PGROUP\u{2}";
        let fields = stamp.fields(310, &request(&template, properties), &Bytes::new(), 0);
        assert_eq!(value(&fields, "a"), Some("ns%pg"));
        assert_eq!(value(&fields, "b"), Some("ns%orders"));
        assert_eq!(value(&fields, "c"), Some("TBW102"));
        assert_eq!(value(&fields, "n"), Some("broker-a"));
        assert_eq!(
            value(&fields, "i"),
            Some("PGROUP\u{1}ns%pg\u{2}KEYS\u{1}PGROUP\u{2}UNIQ_KEY\u{1}U000000010002\u{2}")
        );
        let reply = stamp.fields(325, &request(&template, "x\u{1}y\u{2}"), &Bytes::new(), 0);
        assert_eq!(
            (value(&reply, "b"), value(&reply, "i")),
            (Some("orders"), Some("x\u{1}y\u{2}UNIQ_KEY\u{1}U000000010002\u{2}"))
        );
        let plain = stamp.plain(RequestCode::SEND_MESSAGE_V2, &fields).expect("a namespace");
        assert_eq!((value(&plain, "a"), value(&plain, "b")), (Some("pg"), Some("orders")));
        assert_eq!(Stamp::default().plain(RequestCode::SEND_MESSAGE_V2, &fields), None);
        for (topic, expected) in [("orders", "ns%orders"), ("DefaultCluster_REPLY_TOPIC", "DefaultCluster_REPLY_TOPIC")]
        {
            let mut route = OwnedFields::new();
            route.text("topic", topic);
            assert_eq!(value(&stamp.fields(105, &route, &Bytes::new(), 0), "topic"), Some(expected));
        }
    }

    #[test]
    fn what_is_signed_is_what_is_sent() {
        let credentials = Credentials::new("ak-test", "sk-test-123456").security_token("token-test-1");
        let stamp = Stamp::default().credentials(Arc::new(credentials));
        let fields = stamp.fields(310, &request(&template(), ""), &Bytes::from_static(b"body"), 479);
        let key = SigningKey::new("sk-test-123456").expect("a secret");
        let signature = value(&fields, SIGNATURE).expect("a signature");
        assert!(key.verify(&fields, &[], b"body", signature));
        assert_eq!(value(&fields, SECURITY_TOKEN), Some("token-test-1"));
        let bare = stamp.fields(34, &NoFields, &Bytes::new(), 0);
        assert_eq!(bare.iter().map(|(name, _)| name).collect::<Vec<_>>(), [ACCESS_KEY, SECURITY_TOKEN, SIGNATURE]);
    }

    #[test]
    fn one_field_is_not_signed_for_some_versions() {
        let stamp = Stamp::default().credentials(Arc::new(Credentials::new("a", "s")));
        let mut query = OwnedFields::new();
        query.text(UNIQUE_KEY_QUERY, "true");
        let signed = |version| {
            let fields = stamp.fields(12, &query, &Bytes::new(), version);
            value(&fields, SIGNATURE).map(str::to_owned)
        };
        assert_eq!(signed(407), signed(353));
        assert_eq!(signed(479), signed(0));
        assert_ne!(signed(407), signed(479));
    }

    #[test]
    fn debug_tells_no_secret() {
        let stamp = Stamp::default().credentials(Arc::new(Credentials::new("ak", "hidden"))).namespace("ns");
        let shown = format!("{:?}", stamp.expect("a namespace"));
        assert!(shown.contains("ns") && !shown.contains("hidden"), "{shown}");
    }
}
