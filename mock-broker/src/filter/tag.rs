//! Filters by the hash of the tag.

use rocketmq_wire::filter::{self, TagExpression};
use rocketmq_wire::model::SubscriptionData;

/// A filter on the tags code of a queue's entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum TagFilter {
    /// Every message.
    All,
    /// Messages with one of these codes.
    Codes(Vec<i32>),
}

impl TagFilter {
    /// The filter of a tag expression; none if the expression names no tag.
    pub(crate) fn parse(expression: &str) -> Option<Self> {
        let expression = TagExpression::parse(expression).ok()?;
        Some(if expression.is_all() { Self::All } else { Self::Codes(expression.codes().to_vec()) })
    }

    /// The filter of a subscription. The codes are the client's own: hashes of tags that are not ASCII differ between
    /// languages.
    pub(crate) fn of(subscription: &SubscriptionData) -> Self {
        if subscription.class_filter_mode || subscription.sub_string == filter::tag::ALL {
            Self::All
        } else {
            Self::Codes(subscription.code_set.clone())
        }
    }

    /// Whether a message with this code passes.
    #[inline]
    pub(crate) fn accepts(&self, tags_code: i64) -> bool {
        match self {
            Self::All => true,
            Self::Codes(codes) => codes.contains(&(tags_code as i32)),
        }
    }
}

/// Whether an expression type means tags. Apache takes the empty text for tags too.
pub(crate) fn is_tag_type(expression_type: Option<&str>) -> bool {
    filter::is_tag_type(expression_type.filter(|name| !name.is_empty()))
}
