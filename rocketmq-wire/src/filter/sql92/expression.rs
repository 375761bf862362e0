//! The tree that a text stands for.

/// Part of an expression. Its value is a truth value, a number, a text or, where a property is missing, nothing.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Expression {
    /// A constant.
    Literal(Literal),
    /// The value of the property of that name: a text, or nothing where the message has no such property.
    Property(String),
    /// A property where a condition is expected: false if the message has it, since a text is no truth value, else
    /// nothing.
    PropertyAsCondition(String),
    /// Unary minus: the negative of a number, nothing for anything else.
    Negate(Box<Expression>),
    /// The other truth value; nothing of nothing.
    Not(Box<Expression>),
    /// All of these conditions, looked at from the first to the last as far as needed.
    And(Vec<Expression>),
    /// Any of these conditions, looked at from the first to the last as far as needed.
    Or(Vec<Expression>),
    /// Two values compared. `BETWEEN` is two of these, and `<>` the [`Not`](Self::Not) of an equality.
    Compare {
        /// How.
        comparison: Comparison,
        /// The left value.
        left: Box<Expression>,
        /// The right value.
        right: Box<Expression>,
    },
    /// Whether there is nothing: never nothing itself. `IS NOT NULL` is the [`Not`](Self::Not) of it.
    IsNull(Box<Expression>),
    /// Whether a property has one of these values.
    In {
        /// The property's name.
        property: String,
        /// The values, as written.
        values: Vec<String>,
        /// Whether it is `NOT IN`.
        negated: bool,
    },
    /// Whether a text holds another one. With nothing on the left, and for an empty text on the right, false, also
    /// when negated.
    Test {
        /// Where it is looked for.
        test: StringTest,
        /// The text to look in.
        value: Box<Expression>,
        /// The text to look for.
        text: String,
        /// Whether it is `NOT CONTAINS` and so on.
        negated: bool,
    },
}

/// A constant of an expression.
#[derive(Debug, Clone, PartialEq)]
pub enum Literal {
    /// `NULL`.
    Null,
    /// `TRUE` or `FALSE`.
    Boolean(bool),
    /// A whole number of 32 bits: properties compared with it must be one too.
    Integer(i32),
    /// A whole number that takes 64 bits.
    Long(i64),
    /// A number with a fraction or an exponent.
    Double(f64),
    /// A text.
    String(String),
}

/// How two values are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Comparison {
    /// `=`
    Equal,
    /// `>`
    Greater,
    /// `>=`
    GreaterOrEqual,
    /// `<`
    Less,
    /// `<=`
    LessOrEqual,
}

/// Where a text is looked for in another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StringTest {
    /// `CONTAINS`: anywhere.
    Contains,
    /// `STARTSWITH`: at the start.
    StartsWith,
    /// `ENDSWITH`: at the end.
    EndsWith,
}

impl Expression {
    /// Whether it is a condition by itself, so that it cannot be put in an order.
    pub(super) fn is_condition(&self) -> bool {
        match self {
            Self::Literal(literal) => matches!(literal, Literal::Null | Literal::Boolean(_)),
            Self::Property(_) | Self::Negate(_) => false,
            Self::PropertyAsCondition(_)
            | Self::Not(_)
            | Self::And(_)
            | Self::Or(_)
            | Self::Compare { .. }
            | Self::IsNull(_)
            | Self::In { .. }
            | Self::Test { .. } => true,
        }
    }
}

impl Literal {
    /// The number it is, for comparing two constants.
    pub(super) fn number(&self) -> Option<Number> {
        match *self {
            Self::Integer(value) => Some(Number::Whole(value.into())),
            Self::Long(value) => Some(Number::Whole(value)),
            Self::Double(value) => Some(Number::Double(value)),
            Self::Null | Self::Boolean(_) | Self::String(_) => None,
        }
    }
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Number {
    Whole(i64),
    Double(f64),
}

impl Number {
    pub(super) fn is_less_than(self, other: Self) -> bool {
        let double = |number| match number {
            Self::Whole(value) => value as f64,
            Self::Double(value) => value,
        };
        match (self, other) {
            (Self::Whole(left), Self::Whole(right)) => left < right,
            (left, right) => double(left) < double(right),
        }
    }
}
