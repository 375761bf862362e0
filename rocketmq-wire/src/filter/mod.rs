//! Subscription expressions: which messages of a topic a consumer wants.

pub mod sql92;
pub mod tag;

pub use sql92::{SqlError, SqlExpression};
pub use tag::{TagExpression, TagExpressionError};

/// Names the type of a tag expression in a subscription.
pub const TAG: &str = "TAG";
/// Names the type of an SQL92 expression in a subscription.
pub const SQL92: &str = "SQL92";

/// Returns whether a subscription of this type holds a tag expression: `TAG`, or no type at all.
pub fn is_tag_type(expression_type: Option<&str>) -> bool {
    expression_type.is_none_or(|expression_type| expression_type == TAG)
}
