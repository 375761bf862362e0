//! What a client says of itself in heartbeats.

use serde::{Deserialize, Deserializer, Serialize, de};

use super::null_is_default;

/// Values of [`ConsumerData::consume_type`].
pub mod consume_type {
    /// The client pulls when its user asks.
    pub const ACTIVELY: &str = "CONSUME_ACTIVELY";
    /// The client pushes messages to its user.
    pub const PASSIVELY: &str = "CONSUME_PASSIVELY";
}

/// Values of [`ConsumerData::message_model`].
pub mod model {
    /// The members share the queues.
    pub const CLUSTERING: &str = "CLUSTERING";
    /// Every member reads every queue.
    pub const BROADCASTING: &str = "BROADCASTING";
}

/// Values of [`ConsumerData::consume_from_where`].
pub mod consume_from {
    /// From the end.
    pub const LAST_OFFSET: &str = "CONSUME_FROM_LAST_OFFSET";
    /// From the beginning.
    pub const FIRST_OFFSET: &str = "CONSUME_FROM_FIRST_OFFSET";
    /// From a time on.
    pub const TIMESTAMP: &str = "CONSUME_FROM_TIMESTAMP";
}

/// A number, or the same number as text: the Go client writes tag hashes so, the C++ client versions.
#[derive(Deserialize)]
#[serde(untagged)]
enum Loose<'a> {
    Number(i64),
    Text(#[serde(borrow)] std::borrow::Cow<'a, str>),
}

impl Loose<'_> {
    fn number<E: de::Error>(&self) -> Result<i64, E> {
        match self {
            Loose::Number(number) => Ok(*number),
            Loose::Text(text) => text.parse().map_err(|_| E::invalid_value(de::Unexpected::Str(text), &"a number")),
        }
    }
}

fn loose_i64<'de, D: Deserializer<'de>>(deserializer: D) -> Result<i64, D::Error> {
    Option::<Loose<'_>>::deserialize(deserializer)?.map_or(Ok(0), |value| value.number())
}

fn loose_codes<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<i32>, D::Error> {
    let codes = Option::<Vec<Loose<'_>>>::deserialize(deserializer)?.unwrap_or_default();
    let code = |code: &Loose<'_>| {
        let number = code.number()?;
        i32::try_from(number).map_err(|_| de::Error::invalid_value(de::Unexpected::Signed(number), &"a hash code"))
    };
    codes.iter().map(code).collect()
}

/// Reads the name of a constant, or its position among `names` as the C++ client writes it.
fn constant<'de, D: Deserializer<'de>>(deserializer: D, names: &[&str]) -> Result<String, D::Error> {
    match Option::<Loose<'_>>::deserialize(deserializer)? {
        None => Ok(String::new()),
        Some(Loose::Text(name)) => Ok(name.into_owned()),
        Some(Loose::Number(position)) => {
            let name = usize::try_from(position).ok().and_then(|position| names.get(position));
            let unexpected = || de::Error::invalid_value(de::Unexpected::Signed(position), &"the position of a name");
            name.map(|name| (*name).to_owned()).ok_or_else(unexpected)
        }
    }
}

fn consume_type_name<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    constant(deserializer, &[consume_type::ACTIVELY, consume_type::PASSIVELY, "CONSUME_POP"])
}

fn model_name<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    constant(deserializer, &[model::BROADCASTING, model::CLUSTERING])
}

fn consume_from_name<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    const NAMES: [&str; 6] = [
        consume_from::LAST_OFFSET,
        "CONSUME_FROM_LAST_OFFSET_AND_FROM_MIN_WHEN_BOOT_FIRST",
        "CONSUME_FROM_MIN_OFFSET",
        "CONSUME_FROM_MAX_OFFSET",
        consume_from::FIRST_OFFSET,
        consume_from::TIMESTAMP,
    ];
    constant(deserializer, &NAMES)
}

/// A client, its producers and its consumers.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct HeartbeatData {
    /// The client's id.
    #[serde(rename = "clientID")]
    pub client_id: String,
    /// Its consumers.
    #[serde(deserialize_with = "null_is_default")]
    pub consumer_data_set: Vec<ConsumerData>,
    /// Fingerprint of the subscriptions; 0 without.
    pub heartbeat_fingerprint: i32,
    /// Its producers.
    #[serde(deserialize_with = "null_is_default")]
    pub producer_data_set: Vec<ProducerData>,
    /// Whether subscriptions are left out.
    pub without_sub: bool,
}

/// A producer group.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ProducerData {
    /// The group.
    pub group_name: String,
}

/// A consumer group and what it subscribes to.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ConsumerData {
    /// Where a group without offsets begins, one of [`consume_from`].
    #[serde(deserialize_with = "consume_from_name")]
    pub consume_from_where: String,
    /// One of [`consume_type`].
    #[serde(deserialize_with = "consume_type_name")]
    pub consume_type: String,
    /// The group.
    pub group_name: String,
    /// One of [`model`].
    #[serde(deserialize_with = "model_name")]
    pub message_model: String,
    /// Its subscriptions.
    #[serde(deserialize_with = "null_is_default")]
    pub subscription_data_set: Vec<SubscriptionData>,
    /// Whether the client works in unit mode.
    pub unit_mode: bool,
}

/// A subscription to one topic.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SubscriptionData {
    /// Whether a class filters on the server; always false today.
    pub class_filter_mode: bool,
    /// Java hash codes of the tags.
    #[serde(deserialize_with = "loose_codes")]
    pub code_set: Vec<i32>,
    /// `TAG` or `SQL92`; empty means `TAG`.
    #[serde(deserialize_with = "null_is_default")]
    pub expression_type: String,
    /// The expression; `*` for everything.
    #[serde(deserialize_with = "null_is_default")]
    pub sub_string: String,
    /// When the subscription was made, in milliseconds since 1970.
    #[serde(deserialize_with = "loose_i64")]
    pub sub_version: i64,
    /// The tags.
    #[serde(deserialize_with = "null_is_default")]
    pub tags_set: Vec<String>,
    /// The topic.
    pub topic: String,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fastjson;

    #[test]
    fn each_client_writes_numbers_its_own_way() {
        let go = r#"{"clientID":"a","producerDataSet":[],"consumerDataSet":[{"groupName":"G","consumeType":"CONSUME_PASSIVELY",
            "messageModel":"CLUSTERING","consumeFromWhere":"CONSUME_FROM_LAST_OFFSET","subscriptionDataSet":[{"topic":"T",
            "subString":"TagA","tagsSet":["TagA"],"codeSet":["2598919"],"subVersion":1700000000000000000,"expressionType":"TAG"}]}]}"#;
        let data: HeartbeatData = fastjson::from_slice("heartbeat", go.as_bytes()).unwrap();
        let subscription = &data.consumer_data_set[0].subscription_data_set[0];
        assert_eq!(
            (&subscription.code_set[..], subscription.sub_version),
            (&[2_598_919][..], 1_700_000_000_000_000_000)
        );

        let cpp = r#"{"clientID":"b","consumerDataSet":[{"consumeFromWhere":4,"consumeType":1,"groupName":"G","messageModel":1,
            "subscriptionDataSet":[{"codeSet":[0],"subString":"TagA","subVersion":"17","tagsSet":["TagA"],"topic":"T"},
            {"subString":"*","subVersion":"18","topic":"%RETRY%G"}]}]}"#;
        let data: HeartbeatData = fastjson::from_slice("heartbeat", cpp.as_bytes()).unwrap();
        let consumer = &data.consumer_data_set[0];
        assert_eq!(consumer.consume_from_where, consume_from::FIRST_OFFSET);
        assert_eq!((&*consumer.consume_type, &*consumer.message_model), (consume_type::PASSIVELY, model::CLUSTERING));
        assert_eq!(consumer.subscription_data_set[0].sub_version, 17);
        assert!(consumer.subscription_data_set[1].tags_set.is_empty());

        for broken in [r#"{"consumerDataSet":[{"messageModel":7}]}"#, r#"{"consumerDataSet":[{"messageModel":-1}]}"#] {
            assert!(fastjson::from_slice::<HeartbeatData>("heartbeat", broken.as_bytes()).is_err());
        }
    }
}
