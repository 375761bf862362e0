//! Request codes, response codes, languages and versions: numbers that keep the values they do not know.

use std::fmt;

macro_rules! codes {
    ($(#[$meta:meta])* $type:ident($repr:ty) { $($name:ident = $code:literal,)* }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $type(pub $repr);

        #[allow(missing_docs, reason = "the protocol's own names")]
        impl $type {
            $(pub const $name: Self = Self($code);)*

            /// The protocol's name for this code; `None` for one that this table does not know.
            #[must_use]
            pub const fn known_name(self) -> Option<&'static str> {
                match self.0 {
                    $($code => Some(stringify!($name)),)*
                    _ => None,
                }
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self.known_name() {
                    Some(name) => write!(f, "{} ({name})", self.0),
                    None => write!(f, "{}", self.0),
                }
            }
        }

        impl fmt::Debug for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($type), "({})"), self)
            }
        }

        impl From<$type> for $repr {
            fn from(code: $type) -> Self {
                code.0
            }
        }
    };
}

codes! {
    /// What a request asks for. Codes above 32,767 do not fit the binary header and travel as JSON.
    RequestCode(i32) {
    SEND_MESSAGE = 10,
    PULL_MESSAGE = 11,
    QUERY_MESSAGE = 12,
    QUERY_CONSUMER_OFFSET = 14,
    UPDATE_CONSUMER_OFFSET = 15,
    UPDATE_AND_CREATE_TOPIC = 17,
    UPDATE_AND_CREATE_TOPIC_LIST = 18,
    GET_ALL_TOPIC_CONFIG = 21,
    UPDATE_BROKER_CONFIG = 25,
    GET_BROKER_CONFIG = 26,
    GET_BROKER_RUNTIME_INFO = 28,
    SEARCH_OFFSET_BY_TIMESTAMP = 29,
    GET_MAX_OFFSET = 30,
    GET_MIN_OFFSET = 31,
    GET_EARLIEST_MSG_STORETIME = 32,
    VIEW_MESSAGE_BY_ID = 33,
    HEART_BEAT = 34,
    UNREGISTER_CLIENT = 35,
    CONSUMER_SEND_MSG_BACK = 36,
    END_TRANSACTION = 37,
    GET_CONSUMER_LIST_BY_GROUP = 38,
    CHECK_TRANSACTION_STATE = 39,
    NOTIFY_CONSUMER_IDS_CHANGED = 40,
    LOCK_BATCH_MQ = 41,
    UNLOCK_BATCH_MQ = 42,
    GET_ALL_CONSUMER_OFFSET = 43,
    GET_ALL_DELAY_OFFSET = 45,
    CHECK_CLIENT_CONFIG = 46,
    GET_BROKER_CLUSTER_ACL_INFO = 52,
    GET_TIMER_CHECK_POINT = 60,
    GET_TIMER_METRICS = 61,
    PUT_KV_CONFIG = 100,
    GET_KV_CONFIG = 101,
    DELETE_KV_CONFIG = 102,
    REGISTER_BROKER = 103,
    UNREGISTER_BROKER = 104,
    GET_ROUTEINFO_BY_TOPIC = 105,
    GET_BROKER_CLUSTER_INFO = 106,
    UPDATE_AND_CREATE_SUBSCRIPTIONGROUP = 200,
    GET_ALL_SUBSCRIPTIONGROUP_CONFIG = 201,
    GET_TOPIC_STATS_INFO = 202,
    GET_CONSUMER_CONNECTION_LIST = 203,
    GET_PRODUCER_CONNECTION_LIST = 204,
    WIPE_WRITE_PERM_OF_BROKER = 205,
    GET_ALL_TOPIC_LIST_FROM_NAMESERVER = 206,
    DELETE_SUBSCRIPTIONGROUP = 207,
    GET_CONSUME_STATS = 208,
    DELETE_TOPIC_IN_BROKER = 215,
    DELETE_TOPIC_IN_NAMESRV = 216,
    REGISTER_TOPIC_IN_NAMESRV = 217,
    GET_KVLIST_BY_NAMESPACE = 219,
    RESET_CONSUMER_CLIENT_OFFSET = 220,
    GET_CONSUMER_STATUS_FROM_CLIENT = 221,
    INVOKE_BROKER_TO_RESET_OFFSET = 222,
    INVOKE_BROKER_TO_GET_CONSUMER_STATUS = 223,
    GET_TOPICS_BY_CLUSTER = 224,
    UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST = 225,
    QUERY_TOPIC_CONSUME_BY_WHO = 300,
    QUERY_CONSUME_TIME_SPAN = 303,
    GET_SYSTEM_TOPIC_LIST_FROM_NS = 304,
    GET_SYSTEM_TOPIC_LIST_FROM_BROKER = 305,
    CLEAN_EXPIRED_CONSUMEQUEUE = 306,
    GET_CONSUMER_RUNNING_INFO = 307,
    QUERY_CORRECTION_OFFSET = 308,
    CONSUME_MESSAGE_DIRECTLY = 309,
    SEND_MESSAGE_V2 = 310,
    GET_UNIT_TOPIC_LIST = 311,
    GET_HAS_UNIT_SUB_TOPIC_LIST = 312,
    GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST = 313,
    CLONE_GROUP_OFFSET = 314,
    VIEW_BROKER_STATS_DATA = 315,
    CLEAN_UNUSED_TOPIC = 316,
    GET_BROKER_CONSUME_STATS = 317,
    UPDATE_NAMESRV_CONFIG = 318,
    GET_NAMESRV_CONFIG = 319,
    SEND_BATCH_MESSAGE = 320,
    QUERY_CONSUME_QUEUE = 321,
    QUERY_DATA_VERSION = 322,
    RESUME_CHECK_HALF_MESSAGE = 323,
    SEND_REPLY_MESSAGE = 324,
    SEND_REPLY_MESSAGE_V2 = 325,
    PUSH_REPLY_MESSAGE_TO_CLIENT = 326,
    ADD_WRITE_PERM_OF_BROKER = 327,
    GET_ALL_PRODUCER_INFO = 328,
    DELETE_EXPIRED_COMMITLOG = 329,
    QUERY_TOPICS_BY_CONSUMER = 343,
    QUERY_SUBSCRIPTION_BY_CONSUMER = 345,
    GET_TOPIC_CONFIG = 351,
    GET_SUBSCRIPTIONGROUP_CONFIG = 352,
    UPDATE_AND_GET_GROUP_FORBIDDEN = 353,
    LITE_PULL_MESSAGE = 361,
    RECALL_MESSAGE = 370,
    QUERY_ASSIGNMENT = 400,
    SET_MESSAGE_REQUEST_MODE = 401,
    GET_ALL_MESSAGE_REQUEST_MODE = 402,
    UPDATE_AND_CREATE_STATIC_TOPIC = 513,
    GET_BROKER_MEMBER_GROUP = 901,
    BROKER_HEARTBEAT = 904,
    GET_BROKER_HA_STATUS = 907,
    AUTH_CREATE_USER = 3001,
    AUTH_UPDATE_USER = 3002,
    AUTH_DELETE_USER = 3003,
    AUTH_GET_USER = 3004,
    AUTH_LIST_USER = 3005,
    AUTH_CREATE_ACL = 3006,
    AUTH_DELETE_ACL = 3008,
    AUTH_GET_ACL = 3009,
    AUTH_LIST_ACL = 3010,
    POP_MESSAGE = 200050,
    ACK_MESSAGE = 200051,
    PEEK_MESSAGE = 200052,
    CHANGE_MESSAGE_INVISIBLETIME = 200053,
    NOTIFICATION = 200054,
    POLLING_INFO = 200055,
    POP_ROLLBACK = 200056,
    BATCH_ACK_MESSAGE = 200151,
    }
}

codes! {
    /// How a request was answered; 0 is success.
    ResponseCode(i32) {
    SUCCESS = 0,
    SYSTEM_ERROR = 1,
    SYSTEM_BUSY = 2,
    REQUEST_CODE_NOT_SUPPORTED = 3,
    TRANSACTION_FAILED = 4,
    FLUSH_DISK_TIMEOUT = 10,
    SLAVE_NOT_AVAILABLE = 11,
    FLUSH_SLAVE_TIMEOUT = 12,
    MESSAGE_ILLEGAL = 13,
    SERVICE_NOT_AVAILABLE = 14,
    VERSION_NOT_SUPPORTED = 15,
    NO_PERMISSION = 16,
    TOPIC_NOT_EXIST = 17,
    TOPIC_EXIST_ALREADY = 18,
    PULL_NOT_FOUND = 19,
    PULL_RETRY_IMMEDIATELY = 20,
    PULL_OFFSET_MOVED = 21,
    QUERY_NOT_FOUND = 22,
    SUBSCRIPTION_PARSE_FAILED = 23,
    SUBSCRIPTION_NOT_EXIST = 24,
    SUBSCRIPTION_NOT_LATEST = 25,
    SUBSCRIPTION_GROUP_NOT_EXIST = 26,
    FILTER_DATA_NOT_EXIST = 27,
    FILTER_DATA_NOT_LATEST = 28,
    INVALID_PARAMETER = 29,
    TRANSACTION_SHOULD_COMMIT = 200,
    TRANSACTION_SHOULD_ROLLBACK = 201,
    TRANSACTION_STATE_UNKNOW = 202,
    TRANSACTION_STATE_GROUP_WRONG = 203,
    NO_BUYER_ID = 204,
    NOT_IN_CURRENT_UNIT = 205,
    CONSUMER_NOT_ONLINE = 206,
    CONSUME_MSG_TIMEOUT = 207,
    NO_MESSAGE = 208,
    POLLING_FULL = 209,
    POLLING_TIMEOUT = 210,
    BROKER_NOT_EXIST = 211,
    BROKER_DISPATCH_NOT_COMPLETE = 212,
    BROADCAST_CONSUMPTION = 213,
    FLOW_CONTROL = 215,
    NOT_LEADER_FOR_QUEUE = 501,
    ILLEGAL_OPERATION = 604,
    GO_AWAY = 1500,
    USER_NOT_EXIST = 3001,
    POLICY_NOT_EXIST = 3002,
    }
}

codes! {
    /// The language of a peer's client library.
    LanguageCode(u8) {
    JAVA = 0,
    CPP = 1,
    DOTNET = 2,
    PYTHON = 3,
    DELPHI = 4,
    ERLANG = 5,
    RUBY = 6,
    OTHER = 7,
    HTTP = 8,
    GO = 9,
    PHP = 10,
    OMS = 11,
    RUST = 12,
    NODE_JS = 13,
    }
}

impl LanguageCode {
    /// The number that stands for every name this table does not know; no peer uses it.
    pub const UNKNOWN: Self = Self(u8::MAX);

    /// The name in JSON headers; `OTHER` for numbers that have none.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self.known_name() {
            Some(name) => name,
            None => "OTHER",
        }
    }

    /// The language of that name in JSON headers, or [`UNKNOWN`](Self::UNKNOWN).
    #[must_use]
    pub fn from_name(name: &str) -> Self {
        (0..=13).map(Self).find(|code| code.name() == name).unwrap_or(Self::UNKNOWN)
    }
}

/// The release of a peer: the position in Apache's list of versions, snapshots included, so two per release.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Version(pub i32);

impl Version {
    /// 3.4.9: the first whose `maxReconsumeTimes` the broker honours.
    pub const V3_4_9: Self = Self(121);
    /// 4.1.0-SNAPSHOT: the first broker that filters by expressions other than tags.
    pub const V4_1_0_SNAPSHOT: Self = Self(232);
    /// 4.4.0.
    pub const V4_4_0: Self = Self(293);
    /// 4.9.4: the first whose route requests are answered in standard JSON, and the first to know `RUST`.
    pub const V4_9_4: Self = Self(401);
    /// 4.9.7.
    pub const V4_9_7: Self = Self(407);
    /// 5.0.0.
    pub const V5_0_0: Self = Self(413);
    /// 5.3.1: clients above it understand `GO_AWAY`.
    pub const V5_3_1: Self = Self(475);
    /// 5.3.2: the first to know `NODE_JS`.
    pub const V5_3_2: Self = Self(477);
    /// 5.3.3.
    pub const V5_3_3: Self = Self(479);
}

impl fmt::Debug for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Version({})", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_values_are_kept_and_shown() {
        assert_eq!(RequestCode(9999).to_string(), "9999");
        assert_eq!(RequestCode::SEND_MESSAGE_V2.to_string(), "310 (SEND_MESSAGE_V2)");
        assert_eq!(i32::from(ResponseCode(-7)), -7);
        assert_eq!(LanguageCode::from_name("NODE_JS"), LanguageCode::NODE_JS);
        assert_eq!(LanguageCode::from_name("COBOL"), LanguageCode::UNKNOWN);
        assert_eq!(LanguageCode(77).name(), "OTHER");
    }
}
