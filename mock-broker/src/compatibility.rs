//! Where Apache's brokers of different versions answer differently.
//!
//! Every difference is a question with a name and one answer for each version. Nothing else in this crate asks for the
//! version, so that a reader finds here all that changes with it. The answers were taken from running brokers 4.4.0,
//! 4.9.7 and 5.3.3.

use std::fmt;
use std::str::FromStr;

use rocketmq_wire::filter::sql92::Dialect;
use rocketmq_wire::message::properties;
use rocketmq_wire::{RequestCode, ResponseCode, Version};

use crate::store::Boundary;

/// The line of Apache releases that a broker and its name server behave like.
///
/// The default is 5.3.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
#[non_exhaustive]
pub enum Compatibility {
    /// Like 4.4.0.
    V4_4,
    /// Like 4.9.7.
    V4_9,
    /// Like 5.3.3.
    #[default]
    V5_3,
}

/// Text that names no line of releases.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownCompatibility(String);

impl fmt::Display for UnknownCompatibility {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` is no version this broker can behave like: choose 4.4, 4.9 or 5.3", self.0)
    }
}

impl std::error::Error for UnknownCompatibility {}

impl fmt::Display for Compatibility {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::V4_4 => "4.4",
            Self::V4_9 => "4.9",
            Self::V5_3 => "5.3",
        })
    }
}

impl FromStr for Compatibility {
    type Err = UnknownCompatibility;

    /// Reads `4.4`, `4.9` or `5.3`, a third number ignored.
    fn from_str(text: &str) -> Result<Self, UnknownCompatibility> {
        let mut numbers = text.split('.');
        match (numbers.next(), numbers.next()) {
            (Some("4"), Some("4")) => Ok(Self::V4_4),
            (Some("4"), Some("9")) => Ok(Self::V4_9),
            (Some("5"), Some("3")) => Ok(Self::V5_3),
            _ => Err(UnknownCompatibility(text.to_owned())),
        }
    }
}

/// How the permission of a topic that holds dead letters is set when the broker creates it.
const WRITE_ONLY: i32 = 2;
const READ_AND_WRITE: i32 = 6;

impl Compatibility {
    /// The version that answers claim.
    pub(crate) const fn version(self) -> Version {
        match self {
            Self::V4_4 => Version::V4_4_0,
            Self::V4_9 => Version::V4_9_7,
            Self::V5_3 => Version::V5_3_3,
        }
    }

    /// The name of that version.
    pub(crate) const fn version_name(self) -> &'static str {
        match self {
            Self::V4_4 => "V4_4_0",
            Self::V4_9 => "V4_9_7",
            Self::V5_3 => "V5_3_3",
        }
    }

    /// Whether a broker of this version knows the request at all. What it knows and this broker does not serve is
    /// answered 3 in every version.
    const fn knows(self, code: RequestCode) -> bool {
        match self {
            Self::V4_4 => code.0 <= 323,
            Self::V4_9 => code.0 <= 353,
            Self::V5_3 => true,
        }
    }

    /// Whether the broker says nothing to a request that its version does not know, instead of answering 3.
    pub(crate) const fn broker_ignores(self, code: RequestCode) -> bool {
        matches!(self, Self::V4_4) && (!self.knows(code) || code.known_name().is_none())
    }

    /// Whether the name server says nothing to a request that its version does not know, instead of answering 3.
    pub(crate) const fn name_server_ignores(self, code: RequestCode) -> bool {
        !matches!(self, Self::V5_3) && (!self.knows(code) || code.known_name().is_none())
    }

    /// Whether a synchronous master counts the brokers that are in sync, and slaves refuse rather than fail.
    #[inline]
    pub(crate) const fn counts_in_sync_replicas(self) -> bool {
        matches!(self, Self::V5_3)
    }

    /// How long a send waits for slaves by default, in milliseconds.
    #[inline]
    pub(crate) const fn replica_timeout_ms(self) -> u64 {
        if matches!(self, Self::V4_4) { 5000 } else { 3000 }
    }

    /// Whether there is a request to pull for lite pull consumers (361).
    pub(crate) const fn has_lite_pull(self) -> bool {
        matches!(self, Self::V5_3)
    }

    /// Whether the broker answers what one topic's settings are (351).
    pub(crate) const fn has_topic_config_request(self) -> bool {
        matches!(self, Self::V5_3)
    }

    /// Whether the broker lists all producers (328), the topics of a group (343) and its subscriptions (345), and deletes
    /// old log files when told to (329).
    pub(crate) const fn has_requests_of_4_9(self) -> bool {
        !matches!(self, Self::V4_4)
    }

    /// Whether topics and groups can be created several at once (18, 225).
    pub(crate) const fn creates_lists(self) -> bool {
        matches!(self, Self::V5_3)
    }

    /// Whether texts that describe groups list what came with pop consumption, and what is forbidden.
    pub(crate) const fn groups_have_attributes(self) -> bool {
        matches!(self, Self::V5_3)
    }

    /// Whether the progress of a group says how far it has pulled, and that of a topic how much is put a second.
    pub(crate) const fn counts_what_is_in_flight(self) -> bool {
        matches!(self, Self::V5_3)
    }

    /// Whether a broker can set the offsets of a group itself, without its members.
    pub(crate) const fn can_reset_on_server(self) -> bool {
        matches!(self, Self::V5_3)
    }

    /// Whether a question for entries of a consume queue is answered with the bounds and the entries; 4.4 writes the
    /// answer before it has looked.
    pub(crate) const fn shows_consume_queues(self) -> bool {
        !matches!(self, Self::V4_4)
    }

    /// Whether some properties are refused when an administrator sets them.
    pub(crate) const fn protects_properties(self) -> bool {
        matches!(self, Self::V5_3)
    }

    /// How the throughput of pulls is called among what a broker says of itself.
    pub(crate) const fn transferred_key(self) -> &'static str {
        match self {
            Self::V4_4 | Self::V4_9 => "getTransferedTps",
            Self::V5_3 => "getTransferredTps",
        }
    }

    /// Whether there are messages with an arbitrary delay. Before 5.0 their properties mean nothing.
    pub(crate) const fn has_timer_messages(self) -> bool {
        matches!(self, Self::V5_3)
    }

    /// The code for arguments that are wrong in themselves: a bad name, a queue that does not exist.
    pub(crate) const fn invalid_argument(self) -> ResponseCode {
        match self {
            Self::V4_4 | Self::V4_9 => ResponseCode::SYSTEM_ERROR,
            Self::V5_3 => ResponseCode::INVALID_PARAMETER,
        }
    }

    /// What ends many remarks: where to read on.
    pub(crate) const fn further_details(self) -> &'static str {
        match self {
            Self::V4_4 | Self::V4_9 => "\nSee http://rocketmq.apache.org/docs/faq/ for further details.",
            Self::V5_3 => "\nSee https://rocketmq.apache.org/docs/bestPractice/06FAQ for further details.",
        }
    }

    /// Whether names of topics are checked at all.
    pub(crate) const fn checks_topic_names(self) -> bool {
        !matches!(self, Self::V4_4)
    }

    /// Whether some topics of the system refuse sends, and administrators cannot change system topics.
    pub(crate) const fn protects_system_topics(self) -> bool {
        !matches!(self, Self::V4_4)
    }

    /// Whether sends to the default topic (`TBW102`) are refused.
    pub(crate) const fn reserves_default_topic(self) -> bool {
        matches!(self, Self::V4_4)
    }

    /// Whether a body may be empty.
    pub(crate) const fn takes_empty_bodies(self) -> bool {
        !matches!(self, Self::V5_3)
    }

    /// Whether a text that describes a topic lists its attributes.
    pub(crate) const fn topics_have_attributes(self) -> bool {
        matches!(self, Self::V5_3)
    }

    /// Whether the answer to a send repeats the unique id as transaction id.
    pub(crate) const fn send_answers_transaction_id(self) -> bool {
        matches!(self, Self::V5_3)
    }

    /// Which properties the broker adds to a message that it stores, in that order.
    pub(crate) const fn added_properties(self) -> &'static [&'static str] {
        match self {
            Self::V4_4 => &[],
            Self::V4_9 => &[properties::CLUSTER],
            Self::V5_3 => &[properties::MSG_REGION, properties::UNIQUE_ID, properties::CLUSTER, properties::TRACE_ON],
        }
    }

    /// Whether `WAIT` is taken out of a single message before it is stored.
    pub(crate) const fn drops_wait(self) -> bool {
        matches!(self, Self::V4_9)
    }

    /// Whether the last property of a stored message is followed by a separator.
    pub(crate) const fn ends_properties_with_separator(self) -> bool {
        !matches!(self, Self::V4_9)
    }

    /// The permission of a topic for dead letters.
    pub(crate) const fn dead_letter_perm(self) -> i32 {
        match self {
            Self::V4_4 => WRITE_ONLY,
            Self::V4_9 | Self::V5_3 => READ_AND_WRITE,
        }
    }

    /// What becomes of the delay level of a message sent straight to a retry topic beyond its limit: `Some` is the
    /// level put instead, so that the message is a dead letter at once; `None` leaves the client's, so that it becomes
    /// one after its delay.
    pub(crate) const fn delay_of_exhausted_retry(self) -> Option<&'static str> {
        match self {
            Self::V4_4 | Self::V4_9 => None,
            Self::V5_3 => Some("-1"),
        }
    }

    /// Whether a message can be sent back without saying how often it may be redelivered.
    pub(crate) const fn send_back_needs_limit(self) -> bool {
        matches!(self, Self::V4_4)
    }

    /// Whether a pull beyond the end of a queue that still has its first message is sent to the beginning.
    pub(crate) const fn overflow_restarts_at_zero(self) -> bool {
        matches!(self, Self::V4_4)
    }

    /// Whether answers to pulls carry the flags of the topic and the group, and the reason of a refusal.
    pub(crate) const fn pull_answers_flags(self) -> bool {
        matches!(self, Self::V5_3)
    }

    /// Whether a group without an offset is told 0 for an empty queue and for a topic that does not exist.
    pub(crate) const fn new_group_starts_empty_queue_at_zero(self) -> bool {
        !matches!(self, Self::V5_3)
    }

    /// Whether a client can ask not to be told 0 for a group without an offset.
    pub(crate) const fn reads_set_zero_if_not_found(self) -> bool {
        matches!(self, Self::V5_3)
    }

    /// Whether an offset is stored for existing groups and topics only.
    pub(crate) const fn checks_before_storing_offset(self) -> bool {
        matches!(self, Self::V5_3)
    }

    /// Which message a search by time finds; `upper` is the client's wish, which only 5.x knows.
    pub(crate) const fn search_boundary(self, upper: bool) -> Boundary {
        match self {
            Self::V4_4 | Self::V4_9 => Boundary::Nearest,
            Self::V5_3 if upper => Boundary::Upper,
            Self::V5_3 => Boundary::Lower,
        }
    }

    /// The remark of a successful answer to a question for the smallest offset.
    pub(crate) const fn min_offset_remark(self) -> Option<&'static str> {
        match self {
            Self::V4_4 | Self::V4_9 => None,
            Self::V5_3 => Some(""),
        }
    }

    /// The remark of a successful answer to a request to create a topic.
    pub(crate) const fn create_topic_remark(self) -> Option<&'static str> {
        match self {
            Self::V4_4 => None,
            Self::V4_9 | Self::V5_3 => Some("not set any response code"),
        }
    }

    /// Whether answers to heartbeats say that heartbeats without subscriptions are understood.
    pub(crate) const fn understands_short_heartbeats(self) -> bool {
        matches!(self, Self::V5_3)
    }

    /// Whether members of broadcasting groups are told of other members.
    pub(crate) const fn notifies_broadcasting_groups(self) -> bool {
        !matches!(self, Self::V5_3)
    }

    /// Whether the topics of delayed and of half messages are topics with settings like others.
    pub(crate) const fn lists_store_topics(self) -> bool {
        !matches!(self, Self::V4_4)
    }

    /// Milliseconds between two looks at half messages, if the settings say nothing else.
    pub(crate) const fn transaction_check_interval_ms(self) -> i64 {
        match self {
            Self::V4_4 | Self::V4_9 => 60_000,
            Self::V5_3 => 30_000,
        }
    }

    /// Whether a half message names its transaction.
    pub(crate) const fn names_transaction_of_half_message(self) -> bool {
        matches!(self, Self::V5_3)
    }

    /// Whether an op record lists half messages, each followed by a comma, instead of naming one.
    pub(crate) const fn lists_offsets_in_ops(self) -> bool {
        matches!(self, Self::V5_3)
    }

    /// Whether the outcome of a half message is refused that comes unasked after the message's own immunity.
    pub(crate) const fn refuses_outcome_after_immunity(self) -> bool {
        matches!(self, Self::V5_3)
    }

    /// Whether half messages that were asked for too often are kept in a topic.
    pub(crate) const fn keeps_discarded_half_messages(self) -> bool {
        !matches!(self, Self::V4_4)
    }

    /// Whether a question for a transaction's outcome names the broker and the topic of half messages.
    pub(crate) const fn checks_name_broker(self) -> bool {
        matches!(self, Self::V5_3)
    }

    /// What may be in an SQL92 expression.
    pub(crate) const fn sql_dialect(self) -> Dialect {
        match self {
            Self::V4_4 | Self::V4_9 => Dialect::WithoutStringTests,
            Self::V5_3 => Dialect::WithStringTests,
        }
    }

    /// Whether access control answers in terms of users (5.3 and later) instead of access keys.
    pub(crate) const fn has_users(self) -> bool {
        matches!(self, Self::V5_3)
    }

    /// Whether replies to requests are handed to the clients that asked (324, 325).
    pub(crate) const fn has_request_reply(self) -> bool {
        !matches!(self, Self::V4_4)
    }

    /// Whether there is a topic for replies.
    pub(crate) const fn has_reply_topic(self) -> bool {
        !matches!(self, Self::V4_4)
    }

    /// Whether there are the topics of pop consumption, timers and broker groups.
    pub(crate) const fn has_topics_of_5(self) -> bool {
        matches!(self, Self::V5_3)
    }

    /// Whether a route is written in standard JSON to a client of `version`, numbers as keys in quotes.
    pub(crate) fn quotes_route_keys(self, version: Version, standard_only: bool) -> bool {
        self != Self::V4_4 && (version >= Version::V4_9_4 || standard_only)
    }

    /// How a route names the system flag of a topic.
    pub(crate) const fn topic_sys_flag_key(self) -> &'static str {
        match self {
            Self::V4_4 => "topicSynFlag",
            Self::V4_9 | Self::V5_3 => "topicSysFlag",
        }
    }

    /// Whether a slave can act as master, and routes say so.
    pub(crate) const fn has_acting_masters(self) -> bool {
        matches!(self, Self::V5_3)
    }

    /// Whether the first registration of a broker is refused if it names exactly one topic, since it then is an
    /// update to a registration that was lost.
    pub(crate) const fn refuses_update_as_first_registration(self) -> bool {
        matches!(self, Self::V5_3)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_from_text() {
        assert_eq!("4.4.0".parse(), Ok(Compatibility::V4_4));
        assert_eq!("4.9".parse(), Ok(Compatibility::V4_9));
        assert_eq!("5.3.3".parse(), Ok(Compatibility::V5_3));
        assert_eq!(Compatibility::default(), Compatibility::V5_3);
        let error = "3.2".parse::<Compatibility>().unwrap_err();
        assert!(error.to_string().contains("`3.2`"), "{error}");
    }

    #[test]
    fn old_versions_say_nothing_to_codes_they_do_not_know() {
        let (unknown, pop, known) = (RequestCode(9999), RequestCode::POP_MESSAGE, RequestCode::QUERY_MESSAGE);
        assert!(Compatibility::V4_4.broker_ignores(unknown) && Compatibility::V4_4.broker_ignores(pop));
        assert!(!Compatibility::V4_4.broker_ignores(known));
        assert!(!Compatibility::V4_9.broker_ignores(unknown) && Compatibility::V4_9.name_server_ignores(unknown));
        assert!(!Compatibility::V5_3.broker_ignores(unknown) && !Compatibility::V5_3.name_server_ignores(unknown));
    }
}
