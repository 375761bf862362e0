//! Makes a tree of a text, by precedence.

use super::expression::{Comparison, Expression, Literal, StringTest};
use super::lexer::{Lexer, Token};
use super::{Dialect, SqlError};

/// How deep parentheses, and the tree itself, may go: neither parsing, evaluating nor dropping may use up the stack.
const DEEPEST: usize = 256;

/// The condition, and from where on the text is ignored.
pub(super) fn parse(text: &str, dialect: Dialect) -> Result<(Expression, Option<usize>), SqlError> {
    let mut lexer = Lexer::new(text, dialect);
    let ahead = lexer.next()?;
    let mut parser = Parser { lexer, ahead, unfinished: Vec::new(), parentheses: 0 };
    let root = parser.expression()?;
    let root = parser.condition(root)?;
    let (position, token) = &parser.ahead;
    Ok((root.expression, (*token != Token::End).then_some(*position)))
}

struct Parser<'a> {
    lexer: Lexer<'a>,
    /// The next word, which even after a complete expression must be one.
    ahead: (usize, Token<'a>),
    /// What waits for a part on its right, the innermost last. Kept here and not on the stack of the thread.
    unfinished: Vec<Unfinished>,
    parentheses: usize,
}

/// An expression and how deep it goes.
struct Node {
    expression: Expression,
    depth: usize,
    /// Where its first word stands.
    position: usize,
}

enum Unfinished {
    /// With the signs before the parenthesis.
    Parenthesis(Vec<Sign>),
    Or(Vec<Node>),
    And(Vec<Node>),
    Equal {
        left: Node,
        negated: bool,
    },
    Order {
        comparison: Comparison,
        left: Node,
    },
    BetweenLow {
        value: Node,
        negated: bool,
    },
    BetweenHigh {
        value: Node,
        low: Node,
        negated: bool,
    },
}

enum Sign {
    Not,
    Minus,
}

impl<'a> Parser<'a> {
    fn expression(&mut self) -> Result<Node, SqlError> {
        loop {
            let signs = self.signs()?;
            if self.ahead.1 == Token::Symbol("(") {
                self.parentheses += 1;
                if self.parentheses > DEEPEST {
                    return Err(self.too_deep(self.ahead.0));
                }
                self.advance()?;
                self.unfinished.push(Unfinished::Parenthesis(signs));
                continue;
            }
            let value = self.primary()?;
            let mut value = self.with_signs(value, signs)?;
            // Up through all that ends here, until something wants another value on its right.
            while let Some(finished) = self.comparison(value)? {
                let Some(chained) = self.equality(finished)? else { break };
                let Some(complete) = self.chain(chained)? else { break };
                let Some(Unfinished::Parenthesis(signs)) = self.unfinished.pop() else { return Ok(complete) };
                self.expect(&Token::Symbol(")"), "`)`")?;
                self.parentheses -= 1;
                value = self.with_signs(complete, signs)?;
            }
        }
    }

    /// Orders, ranges, lists and string tests. `None` when another value must follow.
    fn comparison(&mut self, mut left: Node) -> Result<Option<Node>, SqlError> {
        loop {
            left = match self.unfinished.pop() {
                Some(Unfinished::Order { comparison, left: first }) => self.order(comparison, first, left)?,
                Some(Unfinished::BetweenLow { value, negated }) => {
                    self.expect(&Token::And, "`AND` and the upper bound")?;
                    self.unfinished.push(Unfinished::BetweenHigh { value, low: left, negated });
                    return Ok(None);
                }
                Some(Unfinished::BetweenHigh { value, low, negated }) => self.between(value, low, left, negated)?,
                other => {
                    self.unfinished.extend(other);
                    left
                }
            };
            let negated = self.ahead.1 == Token::Not;
            if negated {
                self.advance()?;
            }
            left = match self.ahead.1 {
                Token::Symbol(symbol @ (">" | ">=" | "<" | "<=")) if !negated => {
                    self.advance()?;
                    let comparison = match symbol {
                        ">" => Comparison::Greater,
                        ">=" => Comparison::GreaterOrEqual,
                        "<" => Comparison::Less,
                        _ => Comparison::LessOrEqual,
                    };
                    self.unfinished.push(Unfinished::Order { comparison, left });
                    return Ok(None);
                }
                Token::Between => {
                    self.advance()?;
                    self.unfinished.push(Unfinished::BetweenLow { value: left, negated });
                    return Ok(None);
                }
                Token::In => {
                    self.advance()?;
                    let values = self.list()?;
                    let Expression::Property(property) = left.expression else {
                        return Err(self.error_at(left.position, "`IN` needs the name of a property on its left"));
                    };
                    self.node(Expression::In { property, values, negated }, 0, left.position)?
                }
                Token::Contains => self.test(StringTest::Contains, left, negated)?,
                Token::StartsWith => self.test(StringTest::StartsWith, left, negated)?,
                Token::EndsWith => self.test(StringTest::EndsWith, left, negated)?,
                _ if negated => return Err(self.unexpected("`IN`, `BETWEEN` or a string test after `NOT`")),
                _ => return Ok(Some(left)),
            }
        }
    }

    /// Equalities. `None` when another value must follow.
    fn equality(&mut self, mut left: Node) -> Result<Option<Node>, SqlError> {
        left = match self.unfinished.pop() {
            Some(Unfinished::Equal { left: first, negated }) => self.equal(first, left, negated)?,
            other => {
                self.unfinished.extend(other);
                left
            }
        };
        loop {
            match self.ahead.1 {
                Token::Symbol(symbol @ ("=" | "<>")) => {
                    self.advance()?;
                    self.unfinished.push(Unfinished::Equal { left, negated: symbol == "<>" });
                    return Ok(None);
                }
                Token::Is => {
                    self.advance()?;
                    let negated = self.ahead.1 == Token::Not;
                    if negated {
                        self.advance()?;
                    }
                    self.expect(&Token::Null, "`NULL`")?;
                    let (depth, position) = (left.depth, left.position);
                    left = self.node(Expression::IsNull(Box::new(left.expression)), depth, position)?;
                    if negated {
                        left = self.not(left)?;
                    }
                }
                _ => return Ok(Some(left)),
            }
        }
    }

    /// Conditions with `AND` and `OR` between them. `None` when another value must follow.
    fn chain(&mut self, part: Node) -> Result<Option<Node>, SqlError> {
        let mut all = match self.unfinished.pop() {
            Some(Unfinished::And(parts)) => parts,
            other => {
                self.unfinished.extend(other);
                Vec::new()
            }
        };
        all.push(part);
        if self.ahead.1 == Token::And {
            self.advance()?;
            self.unfinished.push(Unfinished::And(all));
            return Ok(None);
        }
        let part = self.joined(all, Expression::And)?;
        let mut any = match self.unfinished.pop() {
            Some(Unfinished::Or(parts)) => parts,
            other => {
                self.unfinished.extend(other);
                Vec::new()
            }
        };
        any.push(part);
        if self.ahead.1 == Token::Or {
            self.advance()?;
            self.unfinished.push(Unfinished::Or(any));
            return Ok(None);
        }
        self.joined(any, Expression::Or).map(Some)
    }

    /// One part stays as it is; several are conditions and make one.
    fn joined(&self, mut parts: Vec<Node>, join: fn(Vec<Expression>) -> Expression) -> Result<Node, SqlError> {
        if parts.len() == 1 {
            // There is one: it was just counted.
            return Ok(parts.swap_remove(0));
        }
        let position = parts[0].position;
        let depth = parts.iter().map(|part| part.depth).max().unwrap_or(0);
        let conditions = parts.into_iter().map(|part| self.condition(part).map(|part| part.expression));
        let expression = join(conditions.collect::<Result<_, _>>()?);
        self.node(expression, depth, position)
    }

    fn equal(&self, left: Node, right: Node, negated: bool) -> Result<Node, SqlError> {
        for side in [&left, &right] {
            if matches!(side.expression, Expression::Literal(Literal::Null)) {
                return Err(self.error_at(side.position, "nothing equals `NULL`: write `IS NULL` or `IS NOT NULL`"));
            }
        }
        if let (Expression::Literal(Literal::Boolean(_)), Expression::Literal(other)) =
            (&left.expression, &right.expression)
            && !matches!(other, Literal::Boolean(_))
        {
            return Err(self.error_at(right.position, "`TRUE` and `FALSE` cannot be compared with this"));
        }
        let equal = self.compare(Comparison::Equal, left, right)?;
        if negated { self.not(equal) } else { Ok(equal) }
    }

    fn between(&self, value: Node, low: Node, high: Node, negated: bool) -> Result<Node, SqlError> {
        // Other constants are refused below.
        if let (Expression::Literal(from), Expression::Literal(to)) = (&low.expression, &high.expression)
            && let (Some(from), Some(to)) = (from.number(), to.number())
            && !negated
            && to.is_less_than(from)
        {
            return Err(self.error_at(low.position, "the lower bound of `BETWEEN` is above the upper one"));
        }
        let again = Node { expression: value.expression.clone(), ..value };
        let (depth, position) = (value.depth.max(low.depth).max(high.depth) + 1, value.position);
        let (below, above) = match negated {
            false => (Comparison::GreaterOrEqual, Comparison::LessOrEqual),
            true => (Comparison::Less, Comparison::Greater),
        };
        let parts = vec![self.order(below, value, low)?.expression, self.order(above, again, high)?.expression];
        let expression = if negated { Expression::Or(parts) } else { Expression::And(parts) };
        self.node(expression, depth, position)
    }

    fn order(&self, comparison: Comparison, left: Node, right: Node) -> Result<Node, SqlError> {
        for side in [&left, &right] {
            let is_text = matches!(side.expression, Expression::Literal(Literal::String(_)));
            if is_text || side.expression.is_condition() {
                return Err(self.error_at(side.position, "only numbers and properties can be put in an order"));
            }
        }
        self.compare(comparison, left, right)
    }

    fn compare(&self, comparison: Comparison, left: Node, right: Node) -> Result<Node, SqlError> {
        let (depth, position) = (left.depth.max(right.depth), left.position);
        let (left, right) = (Box::new(left.expression), Box::new(right.expression));
        self.node(Expression::Compare { comparison, left, right }, depth, position)
    }

    fn test(&mut self, test: StringTest, value: Node, negated: bool) -> Result<Node, SqlError> {
        self.advance()?;
        let text = self.string()?;
        let (depth, position) = (value.depth, value.position);
        let value = Box::new(value.expression);
        self.node(Expression::Test { test, value, text, negated }, depth, position)
    }

    fn list(&mut self) -> Result<Vec<String>, SqlError> {
        self.expect(&Token::Symbol("("), "`(` and texts in quotes")?;
        let mut values = vec![self.string()?];
        while self.ahead.1 == Token::Symbol(",") {
            self.advance()?;
            values.push(self.string()?);
        }
        self.expect(&Token::Symbol(")"), "`,` or `)`")?;
        Ok(values)
    }

    /// Unary minus and `NOT`; plus means nothing.
    fn signs(&mut self) -> Result<Vec<Sign>, SqlError> {
        let mut signs = Vec::new();
        loop {
            match self.ahead.1 {
                Token::Symbol("+") => {}
                Token::Symbol("-") => signs.push(Sign::Minus),
                Token::Not => signs.push(Sign::Not),
                _ => return Ok(signs),
            }
            self.advance()?;
        }
    }

    fn with_signs(&self, mut node: Node, signs: Vec<Sign>) -> Result<Node, SqlError> {
        for sign in signs.into_iter().rev() {
            node = match sign {
                Sign::Not => self.not(self.condition(node)?)?,
                Sign::Minus => {
                    let (depth, position) = (node.depth, node.position);
                    self.node(Expression::Negate(Box::new(node.expression)), depth, position)?
                }
            };
        }
        Ok(node)
    }

    fn primary(&mut self) -> Result<Node, SqlError> {
        let (position, token) = self.ahead.clone();
        let expression = match token {
            Token::Name(name) => Expression::Property(name.to_owned()),
            Token::String(text) => Expression::Literal(Literal::String(unquoted(text))),
            Token::Whole(text) => Expression::Literal(self.whole(position, text)?),
            Token::Fraction(text) => Expression::Literal(self.fraction(position, text)?),
            Token::True => Expression::Literal(Literal::Boolean(true)),
            Token::False => Expression::Literal(Literal::Boolean(false)),
            Token::Null => Expression::Literal(Literal::Null),
            _ => return Err(self.unexpected("a property, a constant or `(`")),
        };
        self.advance()?;
        Ok(Node { expression, depth: 0, position })
    }

    fn whole(&self, position: usize, text: &str) -> Result<Literal, SqlError> {
        let value: i64 = text
            .trim_end_matches(['l', 'L'])
            .parse()
            .map_err(|_| self.error_at(position, "a whole number is at most 9223372036854775807"))?;
        Ok(i32::try_from(value).map_or(Literal::Long(value), Literal::Integer))
    }

    fn fraction(&self, position: usize, text: &str) -> Result<Literal, SqlError> {
        match text.parse::<f64>() {
            Ok(value) if value.is_finite() && value > 0.0 => Ok(Literal::Double(value)),
            _ => {
                let rule = "a number with a fraction or an exponent is from 4.9E-324 to 1.7976931348623157E308; write `0` for zero";
                Err(self.error_at(position, rule))
            }
        }
    }

    fn string(&mut self) -> Result<String, SqlError> {
        let Token::String(text) = self.ahead.1 else { return Err(self.unexpected("a text in single quotes")) };
        self.advance()?;
        Ok(unquoted(text))
    }

    fn not(&self, condition: Node) -> Result<Node, SqlError> {
        let Node { expression, depth, position } = condition;
        self.node(Expression::Not(Box::new(expression)), depth, position)
    }

    /// A condition stays one, a property becomes one, and nothing else can.
    fn condition(&self, node: Node) -> Result<Node, SqlError> {
        let Node { expression, depth, position } = node;
        match expression {
            Expression::Property(name) => {
                Ok(Node { expression: Expression::PropertyAsCondition(name), depth, position })
            }
            expression if expression.is_condition() => Ok(Node { expression, depth, position }),
            _ => Err(self.error_at(position, "this is no condition: compare it with something")),
        }
    }

    fn node(&self, expression: Expression, deepest_part: usize, position: usize) -> Result<Node, SqlError> {
        let depth = deepest_part + 1;
        if depth > DEEPEST {
            return Err(self.too_deep(position));
        }
        Ok(Node { expression, depth, position })
    }

    fn too_deep(&self, position: usize) -> SqlError {
        self.error_at(position, &format!("the expression is nested deeper than {DEEPEST} levels"))
    }

    fn advance(&mut self) -> Result<(), SqlError> {
        self.ahead = self.lexer.next()?;
        Ok(())
    }

    fn expect(&mut self, token: &Token<'_>, name: &str) -> Result<(), SqlError> {
        if self.ahead.1 != *token {
            return Err(self.unexpected(name));
        }
        self.advance()
    }

    fn unexpected(&self, wanted: &str) -> SqlError {
        let (position, token) = &self.ahead;
        let found = match token {
            Token::End => "the end of the text".to_owned(),
            Token::Name(text) | Token::Whole(text) | Token::Fraction(text) => format!("`{text}`"),
            Token::String(text) => format!("'{text}'"),
            Token::Symbol(symbol) => format!("`{symbol}`"),
            keyword => format!("`{}`", format!("{keyword:?}").to_ascii_uppercase()),
        };
        self.error_at(*position, &format!("{wanted} is expected, and not {found}"))
    }

    fn error_at(&self, position: usize, problem: &str) -> SqlError {
        self.lexer.error(position, problem)
    }
}

fn unquoted(text: &str) -> String {
    text.replace("''", "'")
}
