//! SQL92 expressions over message properties: the syntax, without evaluation.
//!
//! A consumer parses its expression to find mistakes before it asks a broker; a broker parses it and evaluates the
//! [`Expression`]. Accepted is what the parser of Apache's brokers accepts, which is less than SQL in some places (no
//! arithmetic, no `LIKE`) and more in one: text that follows a complete expression is ignored.

mod expression;
mod lexer;
mod parser;

use thiserror::Error;

pub use expression::{Comparison, Expression, Literal, StringTest};

/// What the brokers at hand understand.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Dialect {
    /// Brokers before 5.1.3: `CONTAINS`, `STARTSWITH` and `ENDSWITH` are names like any other.
    WithoutStringTests,
    /// Brokers from 5.1.3 on.
    #[default]
    WithStringTests,
}

/// A parsed expression.
#[derive(Debug, Clone, PartialEq)]
pub struct SqlExpression {
    root: Expression,
    ignored_from: Option<usize>,
}

/// Why a text is no expression, and where.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("at character {column}: {problem}")]
pub struct SqlError {
    column: usize,
    problem: String,
}

impl SqlError {
    /// The character at which the mistake was noticed; the first one is 1.
    pub fn column(&self) -> usize {
        self.column
    }

    /// What is wrong there.
    pub fn problem(&self) -> &str {
        &self.problem
    }
}

impl SqlExpression {
    /// Reads an expression as Apache's brokers do.
    ///
    /// # Errors
    ///
    /// [`SqlError`] for what they refuse: a mistake in the syntax, a comparison that can never work (`a > 'x'`,
    /// `a = NULL`), a number that does not fit, something that is no condition (`1`). Also for nesting deeper than 256
    /// levels, which theirs bounds by the stack of the thread.
    pub fn parse(text: &str, dialect: Dialect) -> Result<Self, SqlError> {
        parser::parse(text, dialect).map(|(root, ignored_from)| Self { root, ignored_from })
    }

    /// The condition that messages must fulfil.
    pub fn root(&self) -> &Expression {
        &self.root
    }

    /// The byte position in the text from which on it has no meaning: brokers stop at the end of the first complete
    /// expression, so that `a = 3 b = 4` means `a = 3`. `None` if all of the text counts.
    pub fn ignored_from(&self) -> Option<usize> {
        self.ignored_from
    }
}
