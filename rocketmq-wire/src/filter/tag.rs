//! Tag expressions: `*`, or tags joined by `||`.
//!
//! The broker compares hashes only, so a consumer has to compare the tags of what it gets once more.

use thiserror::Error;

use crate::message::tag_hash::tag_hash;

/// Subscribes to every message.
pub const ALL: &str = "*";
const SEPARATOR: &str = "||";

/// A parsed tag expression.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TagExpression {
    text: String,
    tags: Vec<String>,
    codes: Vec<i32>,
}

/// A tag expression that Java refuses.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("the tag expression `{0}` names no tag: write `*` for all messages, or tags joined by ||")]
pub struct TagExpressionError(String);

impl TagExpression {
    /// Reads an expression as Java does.
    ///
    /// The empty text means all, as `*` does. Parts are trimmed, and empty ones dropped. A text such as ` ` or `|| ||`
    /// in which every part is blank subscribes to nothing, and `*` beside other tags is the tag of that name.
    ///
    /// # Errors
    ///
    /// [`TagExpressionError`] for a text of separators alone, like `||`.
    pub fn parse(text: &str) -> Result<Self, TagExpressionError> {
        if text.is_empty() || text == ALL {
            return Ok(TagExpression { text: ALL.to_owned(), tags: Vec::new(), codes: Vec::new() });
        }
        // Java drops the empty parts at the end when it splits, and takes an empty result as an error.
        if text.split(SEPARATOR).all(str::is_empty) {
            return Err(TagExpressionError(text.to_owned()));
        }
        let mut tags: Vec<String> = Vec::new();
        let mut codes = Vec::new();
        for part in text.split(SEPARATOR) {
            let tag = trim(part);
            if tag.is_empty() || tags.iter().any(|known| known == tag) {
                continue;
            }
            tags.push(tag.to_owned());
            let code = tag_hash(tag);
            if !codes.contains(&code) {
                codes.push(code);
            }
        }
        Ok(TagExpression { text: text.to_owned(), tags, codes })
    }

    /// Returns the expression as it is sent in a subscription: `*` for an empty one.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Returns the tags named, each once, in the order of the text; none if all are wanted.
    pub fn tags(&self) -> &[String] {
        &self.tags
    }

    /// Returns the hashes of the tags, each once.
    pub fn codes(&self) -> &[i32] {
        &self.codes
    }

    /// Returns whether every message is wanted.
    pub fn is_all(&self) -> bool {
        self.text == ALL
    }

    /// Decides as the broker does, by the tags code that a consume queue keeps.
    ///
    /// Different tags may share a code, so a message that passes may still be unwanted.
    pub fn matches_code(&self, tags_code: i64) -> bool {
        self.is_all() || self.codes.contains(&(tags_code as i32))
    }

    /// Decides as the consumer does, by the tag of a message that the broker let pass.
    pub fn matches_tag(&self, tag: Option<&str>) -> bool {
        self.tags.is_empty() || tag.is_some_and(|tag| self.tags.iter().any(|wanted| wanted == tag))
    }
}

/// Trims as Java's `String.trim` does: characters up to the blank, and no Unicode spaces.
fn trim(part: &str) -> &str {
    part.trim_matches(|character: char| character <= ' ')
}
