//! Where our answers differ from the recorded ones, and why that is right. A line that nothing needs any more fails the
//! test, so the list only says what is true.

use crate::recording::Exchange;

/// A difference that is meant.
pub(crate) struct Difference {
    /// Names it in failures.
    pub(crate) reason: &'static str,
    pub(crate) is_it: fn(&Exchange) -> bool,
}

fn remark(exchange: &Exchange) -> &str {
    exchange.answer.remark.as_deref().unwrap_or_default()
}

fn answer_has(exchange: &Exchange, text: &str) -> bool {
    let body = &exchange.answer.body;
    body.windows(text.len()).any(|window| window == text.as_bytes())
}

/// The first that applies is the one that counts.
pub(crate) const DIFFERENCES: &[Difference] = &[
    Difference {
        reason: "access control is not served, so requests are not checked",
        is_it: |exchange| {
            exchange.scenario.starts_with("acl-") && !exchange.to_name_server && matches!(exchange.answer.code, 1 | 16)
        },
    },
    Difference {
        reason: "the recorded broker divided by a time of nothing",
        is_it: |exchange| exchange.request.code == 208 && answer_has(exchange, "\"consumeTps\":null"),
    },
    Difference {
        reason: "static topics are not served",
        is_it: |exchange| exchange.request.code == 105 && exchange.request.field("topic") == Some("GoldenStatic"),
    },
    Difference {
        reason: "the recorded broker had just gone, ours lives as long as its name server",
        is_it: |exchange| exchange.request.code == 106 && answer_has(exchange, "\"brokerAddrTable\":{}"),
    },
    Difference {
        reason: "the recorded broker was being stopped and sent its clients away",
        is_it: |exchange| exchange.answer.code == 1500,
    },
    Difference {
        reason: "the recorded broker was a SYNC_MASTER without slave",
        is_it: |exchange| exchange.answer.code == 11,
    },
    Difference {
        reason: "the recorded machine was too slow for its own broker",
        is_it: |exchange| remark(exchange).starts_with("[TIMEOUT_CLEAN_QUEUE]"),
    },
    Difference {
        reason: "a binary request gets a binary answer and a JSON request a JSON answer, whatever the version",
        is_it: |exchange| exchange.request.serialize_type != exchange.answer.serialize_type,
    },
];
