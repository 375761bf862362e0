//! Names of topics and groups: which are legal, which belong to the system, and the topics made from group names.

use thiserror::Error;

/// Longest topic that clients and brokers accept, in characters.
pub const MAX_TOPIC_LENGTH: usize = 127;
/// Longest topic made from a group name, in characters.
pub const MAX_RETRY_TOPIC_LENGTH: usize = 255;
/// Longest group name, in characters (later versions than 5.3.3 stop at 120).
pub const MAX_GROUP_LENGTH: usize = 255;

/// Starts the topic from which a group gets its failed messages again.
pub const RETRY_PREFIX: &str = "%RETRY%";
/// Starts the topic where the messages that a group gave up on end.
pub const DEAD_LETTER_PREFIX: &str = "%DLQ%";
/// Starts the names of system topics made at run time.
pub const SYSTEM_TOPIC_PREFIX: &str = "rmq_sys_";
/// Starts the names of system groups.
pub const SYSTEM_GROUP_PREFIX: &str = "CID_RMQ_SYS_";
/// Ends the topic that carries the replies of a cluster, after the cluster's name.
pub const REPLY_TOPIC_SUFFIX: &str = "REPLY_TOPIC";

/// The topic whose settings automatically created topics take.
pub const DEFAULT_TOPIC: &str = "TBW102";
/// The topic of delayed messages, one queue per level.
pub const SCHEDULE_TOPIC: &str = "SCHEDULE_TOPIC_XXXX";
/// The topic of half messages.
pub const HALF_TOPIC: &str = "RMQ_SYS_TRANS_HALF_TOPIC";
/// The topic that records which half messages are decided.
pub const HALF_OP_TOPIC: &str = "RMQ_SYS_TRANS_OP_HALF_TOPIC";
/// The topic of half messages that were checked too often.
pub const TRANSACTION_CHECK_MAX_TIME_TOPIC: &str = "TRANS_CHECK_MAX_TIME_TOPIC";
/// The topic of message traces.
pub const TRACE_TOPIC: &str = "RMQ_SYS_TRACE_TOPIC";
/// The topic with which a broker tests itself.
pub const SELF_TEST_TOPIC: &str = "SELF_TEST_TOPIC";
/// The topic for notices of moved offsets.
pub const OFFSET_MOVED_EVENT_TOPIC: &str = "OFFSET_MOVED_EVENT";
/// The topic of Apache's benchmark.
pub const BENCHMARK_TOPIC: &str = "BenchmarkTest";
/// The topic of check points (5.2.0).
pub const CHECKPOINT_TOPIC: &str = "CHECKPOINT_TOPIC";
/// The topic of timer messages (5.0).
pub const TIMER_TOPIC: &str = "rmq_sys_wheel_timer";

const NOT_FOR_SENDING: [&str; 6] = [
    SCHEDULE_TOPIC,
    HALF_TOPIC,
    HALF_OP_TOPIC,
    TRANSACTION_CHECK_MAX_TIME_TOPIC,
    SELF_TEST_TOPIC,
    OFFSET_MOVED_EVENT_TOPIC,
];

/// What is wrong with the name of a topic or group.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum NameError {
    /// It is empty or blank.
    #[error("the name is blank")]
    Blank,
    /// It holds a character other than letters, digits, `%`, `|`, `_` and `-`.
    #[error("the name holds {0:?}: only ASCII letters, digits and the characters % | _ - are allowed")]
    IllegalCharacter(char),
    /// It is too long.
    #[error("the name has {length} characters, {limit} are allowed")]
    TooLong {
        /// Its length in characters.
        length: usize,
        /// The limit.
        limit: usize,
    },
}

/// Checks the name of a topic as clients do before they use it.
///
/// # Errors
///
/// [`NameError`] if it is blank, has illegal characters or is longer than [`MAX_TOPIC_LENGTH`].
pub fn check_topic(topic: &str) -> Result<(), NameError> {
    check(topic, MAX_TOPIC_LENGTH)
}

/// Checks the name of a producer or consumer group as clients do before they use it.
///
/// # Errors
///
/// [`NameError`] if it is blank, has illegal characters or is longer than [`MAX_GROUP_LENGTH`].
pub fn check_group(group: &str) -> Result<(), NameError> {
    check(group, MAX_GROUP_LENGTH)
}

/// Checks a name against a limit of `limit` characters.
///
/// # Errors
///
/// [`NameError`] with the first thing that is wrong: blank, illegal characters, too long, in this order.
pub fn check(name: &str, limit: usize) -> Result<(), NameError> {
    if name.chars().all(char::is_whitespace) {
        return Err(NameError::Blank);
    }
    if let Some(illegal) = name.chars().find(|character| !is_legal(*character)) {
        return Err(NameError::IllegalCharacter(illegal));
    }
    // Legal characters are ASCII, so bytes are characters.
    let length = name.len();
    if length > limit { Err(NameError::TooLong { length, limit }) } else { Ok(()) }
}

/// Returns whether a name of a topic or group may hold `character`.
pub const fn is_legal(character: char) -> bool {
    character.is_ascii_alphanumeric() || matches!(character, '%' | '|' | '_' | '-')
}

/// Returns whether `topic` belongs to the system, so that users can neither create nor delete it.
pub fn is_system_topic(topic: &str) -> bool {
    !is_sendable(topic)
        || [DEFAULT_TOPIC, TRACE_TOPIC, BENCHMARK_TOPIC, CHECKPOINT_TOPIC].contains(&topic)
        || topic.starts_with(SYSTEM_TOPIC_PREFIX)
}

/// Returns whether clients may send to `topic`: six system topics are closed to them.
pub fn is_sendable(topic: &str) -> bool {
    !NOT_FOR_SENDING.contains(&topic)
}

/// Returns whether `group` belongs to the system.
pub fn is_system_group(group: &str) -> bool {
    group.starts_with(SYSTEM_GROUP_PREFIX)
}

/// Returns the topic from which `group` gets its failed messages again.
pub fn retry_topic(group: &str) -> String {
    [RETRY_PREFIX, group].concat()
}

/// Returns the topic where the messages that `group` gave up on end.
pub fn dead_letter_topic(group: &str) -> String {
    [DEAD_LETTER_PREFIX, group].concat()
}

/// Returns the topic that carries the replies of a cluster.
pub fn reply_topic(cluster: &str) -> String {
    [cluster, "_", REPLY_TOPIC_SUFFIX].concat()
}

/// Returns whether `topic` is named as the topic that carries the replies of a cluster.
pub fn is_reply_topic(topic: &str) -> bool {
    topic.strip_suffix(REPLY_TOPIC_SUFFIX).is_some_and(|cluster| cluster.ends_with('_'))
}

/// Returns whether `topic` is the retry topic of a group.
pub fn is_retry_topic(topic: &str) -> bool {
    topic.starts_with(RETRY_PREFIX)
}

/// Returns whether `topic` is the dead-letter topic of a group.
pub fn is_dead_letter_topic(topic: &str) -> bool {
    topic.starts_with(DEAD_LETTER_PREFIX)
}

/// Returns the group whose retry topic `topic` is.
pub fn group_of_retry_topic(topic: &str) -> Option<&str> {
    topic.strip_prefix(RETRY_PREFIX)
}
