//! What to do after an attempt to send. Pure.
//!
//! The rules are those of the Java client's synchronous send without a chosen queue.

use std::collections::BTreeSet;

use crate::error::{Error, ErrorKind};

use super::SendStatus;

/// What to do after an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The caller gets this outcome.
    Final,
    /// Try again, if attempts and time are left.
    Retry,
}

/// Judges a message that a broker took.
pub(super) fn of_status(status: SendStatus, retry_not_stored: bool) -> Verdict {
    if status != SendStatus::Ok && retry_not_stored { Verdict::Retry } else { Verdict::Final }
}

/// Judges a failed attempt. Of refusals these codes may pass, instead of the usual ones.
pub(super) fn of_error(error: &Error, retried_codes: Option<&BTreeSet<i32>>) -> Verdict {
    let is_retried = match (retried_codes, error.response_code()) {
        (Some(codes), Some(code)) => codes.contains(&code),
        _ => error.is_retriable(),
    };
    if is_retried { Verdict::Retry } else { Verdict::Final }
}

/// Whether a failed attempt hints that the route is out of date.
pub(super) fn suspects_route(error: &Error) -> bool {
    // 501 is a static topic's queue that has moved.
    matches!(error.kind(), ErrorKind::Connection | ErrorKind::NoRoute | ErrorKind::NotPermitted)
        || error.response_code() == Some(rocketmq_wire::ResponseCode::NOT_LEADER_FOR_QUEUE.0)
}

/// Whether the same broker should be left alone for a moment before it is tried again.
pub(super) fn needs_pause(error: &Error) -> bool {
    error.kind() == ErrorKind::Busy
}

#[cfg(test)]
mod tests {
    use super::*;
    use rocketmq_wire::ResponseCode;

    #[test]
    fn response_codes() {
        use Verdict::{Final, Retry};
        for (code, verdict, suspects, pause) in [
            (ResponseCode::SYSTEM_ERROR, Retry, false, false),
            (ResponseCode::SYSTEM_BUSY, Retry, false, true),
            (ResponseCode::REQUEST_CODE_NOT_SUPPORTED, Final, false, false),
            (ResponseCode::MESSAGE_ILLEGAL, Final, false, false),
            (ResponseCode::SERVICE_NOT_AVAILABLE, Retry, false, true),
            (ResponseCode::VERSION_NOT_SUPPORTED, Final, false, false),
            (ResponseCode::NO_PERMISSION, Retry, true, false),
            (ResponseCode::TOPIC_NOT_EXIST, Retry, true, false),
            (ResponseCode::SUBSCRIPTION_GROUP_NOT_EXIST, Final, false, false),
            (ResponseCode::INVALID_PARAMETER, Final, false, false),
            (ResponseCode::NO_BUYER_ID, Retry, false, false),
            (ResponseCode::NOT_IN_CURRENT_UNIT, Retry, false, false),
            (ResponseCode::FLOW_CONTROL, Retry, false, true),
            (ResponseCode::NOT_LEADER_FOR_QUEUE, Final, true, false),
            (ResponseCode::GO_AWAY, Retry, false, true),
            (ResponseCode(12_345), Final, false, false),
        ] {
            let error = Error::from_response(code.0, None);
            assert_eq!(
                (of_error(&error, None), suspects_route(&error), needs_pause(&error)),
                (verdict, suspects, pause),
                "{code}"
            );
        }
    }

    #[test]
    fn codes_of_the_callers_choice() {
        let codes = BTreeSet::from([13]);
        for (code, verdict) in [(13, Verdict::Retry), (1, Verdict::Final), (2, Verdict::Final)] {
            assert_eq!(of_error(&Error::from_response(code, None), Some(&codes)), verdict);
        }
    }

    #[test]
    fn failures_without_an_answer() {
        use Verdict::{Final, Retry};
        for (kind, verdict) in [
            (ErrorKind::Connection, Retry),
            (ErrorKind::Timeout, Retry),
            (ErrorKind::Protocol, Retry),
            (ErrorKind::Closed, Final),
            (ErrorKind::InvalidArgument, Final),
            (ErrorKind::MessageTooLarge, Final),
        ] {
            assert_eq!(of_error(&Error::new(kind, ""), None), verdict, "{kind:?}");
            assert_eq!(of_error(&Error::new(kind, ""), Some(&BTreeSet::new())), verdict, "not by code: {kind:?}");
        }
    }

    #[test]
    fn statuses() {
        for status in [SendStatus::FlushDiskTimeout, SendStatus::SlaveNotAvailable, SendStatus::FlushSlaveTimeout] {
            assert_eq!(of_status(status, false), Verdict::Final);
            assert_eq!(of_status(status, true), Verdict::Retry);
        }
        assert_eq!(of_status(SendStatus::Ok, true), Verdict::Final);
    }
}
