//! Which messages a consumer wants, as far as the broker decides: by the hash of the tag, or by an SQL92 expression.

pub(crate) mod bloom;
mod numbers;
mod sql92;
mod tag;

use std::sync::Arc;

use rocketmq_wire::filter::SqlExpression;
use rocketmq_wire::message::RecordView;

use crate::store::MessageFilter;

pub(crate) use tag::{TagFilter, is_tag_type};

/// What a consumer subscribed to.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Filter {
    /// By the tags code of a queue's entry.
    Tags(TagFilter),
    /// By the properties of the message. None if the expression could not be read: then every message passes, as
    /// with Apache's brokers.
    Sql(Option<Arc<SqlExpression>>),
}

impl MessageFilter for Filter {
    #[inline]
    fn matches_tags_code(&self, tags_code: i64) -> bool {
        match self {
            Self::Tags(tags) => tags.accepts(tags_code),
            Self::Sql(_) => true,
        }
    }

    #[inline]
    fn matches_record(&self, record: &[u8]) -> bool {
        match self {
            Self::Tags(_) | Self::Sql(None) => true,
            Self::Sql(Some(expression)) => {
                RecordView::parse(record).is_ok_and(|record| sql92::is_wanted(expression, &record))
            }
        }
    }
}
