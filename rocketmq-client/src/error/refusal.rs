//! What the refusals of servers mean. Pure.

use rocketmq_wire::ResponseCode as Code;

use super::ErrorKind;

/// The kind that a response code stands for; codes without a row of their own are [`ErrorKind::Rejected`].
pub(super) fn kind_of(code: i32) -> ErrorKind {
    match Code(code) {
        Code::SYSTEM_BUSY
        | Code::SERVICE_NOT_AVAILABLE
        | Code::POLLING_FULL
        | Code::BROKER_DISPATCH_NOT_COMPLETE
        | Code::FLOW_CONTROL
        | Code::GO_AWAY => ErrorKind::Busy,
        Code::REQUEST_CODE_NOT_SUPPORTED | Code::VERSION_NOT_SUPPORTED | Code::BROADCAST_CONSUMPTION => {
            ErrorKind::Unsupported
        }
        Code::FLUSH_DISK_TIMEOUT | Code::SLAVE_NOT_AVAILABLE | Code::FLUSH_SLAVE_TIMEOUT => ErrorKind::NotStored,
        Code::MESSAGE_ILLEGAL | Code::SUBSCRIPTION_PARSE_FAILED | Code::INVALID_PARAMETER => ErrorKind::InvalidArgument,
        Code::NO_PERMISSION | Code::ILLEGAL_OPERATION => ErrorKind::NotPermitted,
        Code::TOPIC_NOT_EXIST => ErrorKind::NoRoute,
        Code::PULL_NOT_FOUND
        | Code::PULL_OFFSET_MOVED
        | Code::QUERY_NOT_FOUND
        | Code::SUBSCRIPTION_NOT_EXIST
        | Code::SUBSCRIPTION_GROUP_NOT_EXIST
        | Code::FILTER_DATA_NOT_EXIST
        | Code::CONSUMER_NOT_ONLINE
        | Code::NO_MESSAGE
        | Code::BROKER_NOT_EXIST
        | Code::POLICY_NOT_EXIST => ErrorKind::NotFound,
        Code::CONSUME_MSG_TIMEOUT | Code::POLLING_TIMEOUT => ErrorKind::Timeout,
        Code::USER_NOT_EXIST => ErrorKind::Unauthenticated,
        _ => ErrorKind::Rejected,
    }
}

/// What can be done about a refusal, where the server's own text leaves that open.
pub(super) fn advice(code: i32) -> Option<&'static str> {
    Some(match Code(code) {
        Code::REQUEST_CODE_NOT_SUPPORTED | Code::VERSION_NOT_SUPPORTED => {
            "this server cannot do that: it needs another version, or another port"
        }
        Code::MESSAGE_ILLEGAL => "check the length of topic, body and properties against the broker's limits",
        Code::SERVICE_NOT_AVAILABLE => "the broker is stopping, a slave, or its disk is full",
        Code::NO_PERMISSION => "check the permission of the topic and the broker",
        Code::TOPIC_NOT_EXIST => "create the topic, or let the broker create it",
        Code::SUBSCRIPTION_PARSE_FAILED => "check the filter expression",
        Code::SUBSCRIPTION_NOT_EXIST | Code::SUBSCRIPTION_NOT_LATEST => {
            "the broker has not learnt of this subscription yet: try again"
        }
        Code::SUBSCRIPTION_GROUP_NOT_EXIST => "create the consumer group, or let the broker create it",
        Code::CONSUMER_NOT_ONLINE => "start a consumer of the group",
        Code::POLLING_FULL | Code::FLOW_CONTROL => "ask less often",
        Code::NOT_LEADER_FOR_QUEUE => "the queue has moved to another broker: try again",
        Code::GO_AWAY => "the server is stopping: try another",
        _ => return None,
    })
}

/// Whether Java's synchronous send, and so every send here, tries again after this refusal.
pub(super) fn is_retriable(code: i32) -> bool {
    matches!(
        Code(code),
        Code::SYSTEM_ERROR
            | Code::SYSTEM_BUSY
            | Code::SERVICE_NOT_AVAILABLE
            | Code::NO_PERMISSION
            | Code::TOPIC_NOT_EXIST
            | Code::NO_BUYER_ID
            | Code::NOT_IN_CURRENT_UNIT
            | Code::FLOW_CONTROL
            | Code::GO_AWAY
    )
}

/// What a refusal is that access control gave as a general one: 4.x answers code 1 with the name of an exception, 5.3 and
/// later answer 16 as for topics that permit no writing.
pub(super) fn by_access_control(code: i32, remark: &str) -> Option<ErrorKind> {
    const UNKNOWN_CALLER_4: [&str; 3] = ["No accessKey is configured", "No acl config for", "Check signature failed"];
    const UNKNOWN_CALLER_5: [&str; 2] = ["username cannot be null", "check signature failed"];
    let names_one = |texts: &[&str]| texts.iter().any(|text| remark.contains(text));
    match Code(code) {
        Code::SYSTEM_ERROR if remark.contains("acl.common.AclException") => {
            Some(if names_one(&UNKNOWN_CALLER_4) { ErrorKind::Unauthenticated } else { ErrorKind::NotPermitted })
        }
        Code::NO_PERMISSION if names_one(&UNKNOWN_CALLER_5) => Some(ErrorKind::Unauthenticated),
        Code::NO_PERMISSION if remark.starts_with("User:") && names_one(&["is not found", "is disabled"]) => {
            Some(ErrorKind::Unauthenticated)
        }
        Code::NO_PERMISSION if remark.contains("has no permission to access") => Some(ErrorKind::NotPermitted),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::{Error, Outcome};

    /// Every code that a client can meet, with its kind, and whether it is worth another try.
    #[test]
    fn every_code_has_its_kind() {
        use ErrorKind::{
            Busy, InvalidArgument, NoRoute, NotFound, NotPermitted, NotStored, Rejected, Timeout, Unauthenticated,
            Unsupported,
        };
        for (codes, kind, retriable) in [
            (&[1, 204, 205][..], Rejected, true),
            (
                &[4, 18, 20, 25, 28, 501, 200, 201, 202, 203, 2000, 2016, -1000, -1002, -1004, -1006, 12_345],
                Rejected,
                false,
            ),
            (&[2, 14, 215, 1500], Busy, true),
            (&[209, 212], Busy, false),
            (&[3, 15, 213], Unsupported, false),
            (&[10, 11, 12], NotStored, false),
            (&[13, 23, 29], InvalidArgument, false),
            (&[16], NotPermitted, true),
            (&[604], NotPermitted, false),
            (&[17], NoRoute, true),
            (&[19, 21, 22, 24, 26, 27, 206, 208, 211, 3002], NotFound, false),
            (&[207, 210], Timeout, false),
            (&[3001], Unauthenticated, false),
        ] {
            for &code in codes {
                let error = Error::from_response(code, None);
                assert_eq!(
                    (error.kind(), error.is_retriable(), error.response_code(), error.outcome()),
                    (kind, retriable, Some(code), Outcome::Refused),
                    "{code}"
                );
                assert!(error.to_string().contains(&code.to_string()), "{error}");
            }
        }
    }

    #[test]
    fn the_text_says_what_to_do() {
        for (code, part) in [(17, "create the topic"), (26, "create the consumer group"), (3, "another version")] {
            let text = Error::from_response(code, Some("as the server puts it")).to_string();
            assert!(text.starts_with("as the server puts it") && text.contains(part), "{text}");
        }
    }

    #[test]
    fn refusals_by_access_control_are_told_from_others_and_final() {
        let acl =
            |text: &str| format!("org.apache.rocketmq.acl.common.AclException: {text}, org.apache.rocketmq.acl.x");
        let of_user = |text: &str| format!("User:nobody {text}");
        for (code, remark, kind) in [
            (1, acl("No accessKey is configured"), ErrorKind::Unauthenticated),
            (1, acl("No acl config for ak-unknown"), ErrorKind::Unauthenticated),
            (1, acl("Check signature failed for accessKey=ak-test"), ErrorKind::Unauthenticated),
            (1, acl("No default permission for topic:T"), ErrorKind::NotPermitted),
            (1, acl("Need admin permission for request code=17, but accessKey=x is not"), ErrorKind::NotPermitted),
            (16, "username cannot be null.".to_owned(), ErrorKind::Unauthenticated),
            (16, "check signature failed.".to_owned(), ErrorKind::Unauthenticated),
            (16, of_user("is not found."), ErrorKind::Unauthenticated),
            (16, of_user("is disabled."), ErrorKind::Unauthenticated),
            (
                16,
                of_user("has no permission to access Topic:T from ::1, no matched policies."),
                ErrorKind::NotPermitted,
            ),
        ] {
            let error = Error::from_response(code, Some(&remark));
            assert_eq!((error.kind(), error.is_retriable()), (kind, false), "{error}");
            let renewed = error.renewed("other");
            assert_eq!((renewed.kind(), renewed.is_retriable(), renewed.response_code()), (kind, false, Some(code)));
        }
        let topic = Error::from_response(16, Some("the topic[T] sending message is forbidden"));
        assert_eq!((topic.kind(), topic.is_retriable()), (ErrorKind::NotPermitted, true));
        assert_eq!(Error::from_response(1, Some("java.lang.NullPointerException")).kind(), ErrorKind::Rejected);
    }
}
