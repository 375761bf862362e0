//! Evaluates SQL92 expressions over the properties of a message, with the types, the nothing and the mistakes of
//! Apache's classes.
//!
//! Every property is a text. What it is compared with decides how it is read; a text that cannot be read so is a
//! mistake, and a message on which the evaluation makes a mistake is not wanted.

use std::cmp::Ordering;

use rocketmq_wire::filter::SqlExpression;
use rocketmq_wire::filter::sql92::{Comparison, Expression, Literal, StringTest};
use rocketmq_wire::message::{Properties, RecordView};

use super::numbers;

/// Whether a message fulfils an expression. One that cannot be decided does not.
pub(super) fn is_wanted(expression: &SqlExpression, record: &RecordView<'_>) -> bool {
    let properties = record.properties();
    let evaluated = evaluate(expression.root(), &|name| value_of(properties, name));
    matches!(evaluated, Ok(Value::Boolean(true)))
}

fn value_of<'p>(properties: Properties<'p>, name: &str) -> Option<&'p str> {
    properties.value(name)
}

/// What a part of an expression comes to.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Value<'v> {
    /// Nothing, as a property that a message lacks.
    Nothing,
    Boolean(bool),
    Integer(i32),
    Long(i64),
    Double(f64),
    Text(&'v str),
}

/// A text that is not what it is compared with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Mistake;

type Outcome<'v> = Result<Value<'v>, Mistake>;

fn evaluate<'v>(expression: &'v Expression, property: &impl Fn(&str) -> Option<&'v str>) -> Outcome<'v> {
    let text = |name: &str| property(name).map_or(Value::Nothing, Value::Text);
    Ok(match expression {
        Expression::Literal(literal) => constant(literal),
        Expression::Property(name) => text(name),
        Expression::PropertyAsCondition(name) => match text(name) {
            Value::Nothing => Value::Nothing,
            // A text is no truth value, whatever it says.
            _ => Value::Boolean(false),
        },
        Expression::Negate(inner) => match evaluate(inner, property)? {
            Value::Integer(value) => Value::Integer(value.wrapping_neg()),
            Value::Long(value) => Value::Long(value.wrapping_neg()),
            Value::Double(value) => Value::Double(-value),
            _ => Value::Nothing,
        },
        Expression::Not(inner) => match evaluate(inner, property)? {
            Value::Nothing => Value::Nothing,
            Value::Boolean(value) => Value::Boolean(!value),
            _ => return Err(Mistake),
        },
        Expression::And(conditions) => chain(conditions, property, false)?,
        Expression::Or(conditions) => chain(conditions, property, true)?,
        Expression::Compare { comparison, left, right } => compare(*comparison, left, right, property)?,
        Expression::IsNull(inner) => Value::Boolean(evaluate(inner, property)? == Value::Nothing),
        Expression::In { property: name, values, negated } => match text(name) {
            Value::Text(value) => Value::Boolean(values.iter().any(|wanted| wanted == value) != *negated),
            _ => Value::Nothing,
        },
        Expression::Test { test, value, text, negated } => match evaluate(value, property)? {
            Value::Text(value) if !text.is_empty() => Value::Boolean(holds(*test, value, text) != *negated),
            _ => Value::Boolean(false),
        },
        // The syntax may grow; what is not known decides nothing.
        _ => return Err(Mistake),
    })
}

fn constant(literal: &Literal) -> Value<'_> {
    match literal {
        Literal::Null => Value::Nothing,
        Literal::Boolean(value) => Value::Boolean(*value),
        Literal::Integer(value) => Value::Integer(*value),
        Literal::Long(value) => Value::Long(*value),
        Literal::Double(value) => Value::Double(*value),
        Literal::String(value) => Value::Text(value),
    }
}

/// Conditions joined by `OR`, which `true` decides, or by `AND`, which `false` decides. What stands behind a decision is
/// not looked at, so that it cannot be a mistake.
fn chain<'v>(conditions: &'v [Expression], property: &impl Fn(&str) -> Option<&'v str>, decides: bool) -> Outcome<'v> {
    let mut all_known = true;
    for condition in conditions {
        match evaluate(condition, property)? {
            Value::Boolean(value) if value == decides => return Ok(Value::Boolean(decides)),
            Value::Boolean(_) => {}
            Value::Nothing => all_known = false,
            _ => return Err(Mistake),
        }
    }
    Ok(if all_known { Value::Boolean(!decides) } else { Value::Nothing })
}

fn holds(test: StringTest, value: &str, text: &str) -> bool {
    match test {
        StringTest::Contains => value.contains(text),
        StringTest::StartsWith => value.starts_with(text),
        StringTest::EndsWith => value.ends_with(text),
    }
}

fn compare<'v>(
    comparison: Comparison,
    left: &'v Expression,
    right: &'v Expression,
    property: &impl Fn(&str) -> Option<&'v str>,
) -> Outcome<'v> {
    let left = evaluate(left, property)?;
    if comparison == Comparison::Equal {
        let right = evaluate(right, property)?;
        return Ok(match (left, right) {
            (Value::Nothing, Value::Nothing) => Value::Boolean(true),
            (Value::Nothing, _) => Value::Nothing,
            // Nothing on the right is unequal, not unknown.
            (_, Value::Nothing) => Value::Boolean(false),
            _ => Value::Boolean(order(left, right)? == Some(Ordering::Equal)),
        });
    }
    // Nothing on the left leaves the right unread, whatever mistake it holds.
    if left == Value::Nothing {
        return Ok(Value::Nothing);
    }
    let right = evaluate(right, property)?;
    if right == Value::Nothing {
        return Ok(Value::Nothing);
    }
    let ordering = match (left, right) {
        // Texts have no order; two that are numbers do.
        (Value::Text(left), Value::Text(right)) => {
            let double = |text| numbers::double(text).ok_or(Mistake);
            Some(order_of_doubles(double(left)?, double(right)?))
        }
        _ => order(left, right)?,
    };
    // Of two values that have nothing to do with each other the left one counts as less.
    let ordering = ordering.unwrap_or(Ordering::Less);
    Ok(Value::Boolean(match comparison {
        Comparison::Equal => ordering.is_eq(),
        Comparison::Greater => ordering.is_gt(),
        Comparison::GreaterOrEqual => ordering.is_ge(),
        Comparison::Less => ordering.is_lt(),
        Comparison::LessOrEqual => ordering.is_le(),
    }))
}

/// The order of two values. A text is read as what the other one is. None if they have nothing to do with each other.
fn order(left: Value<'_>, right: Value<'_>) -> Result<Option<Ordering>, Mistake> {
    use Value::{Boolean, Double, Integer, Long, Text};
    Ok(Some(match (left, right) {
        (Boolean(left), Boolean(right)) => left.cmp(&right),
        (Integer(left), Integer(right)) => left.cmp(&right),
        (Long(left), Long(right)) => left.cmp(&right),
        (Integer(left), Long(right)) => i64::from(left).cmp(&right),
        (Long(left), Integer(right)) => left.cmp(&i64::from(right)),
        (Double(left), Double(right)) => order_of_doubles(left, right),
        (Double(left), Integer(right)) => order_of_doubles(left, f64::from(right)),
        (Integer(left), Double(right)) => order_of_doubles(f64::from(left), right),
        (Double(left), Long(right)) => order_of_doubles(left, right as f64),
        (Long(left), Double(right)) => order_of_doubles(left as f64, right),
        // By UTF-16, as Java does; only whether they are equal is ever asked.
        (Text(left), Text(right)) => left.encode_utf16().cmp(right.encode_utf16()),
        // Apache's class casts the wrong one of the two.
        (Boolean(_), Text(_)) => return Err(Mistake),
        (Text(left), Boolean(right)) => left.eq_ignore_ascii_case("true").cmp(&right),
        (Text(left), Integer(right)) => numbers::integer(left).ok_or(Mistake)?.cmp(&right),
        (Integer(left), Text(right)) => left.cmp(&numbers::integer(right).ok_or(Mistake)?),
        (Text(left), Long(right)) => numbers::long(left).ok_or(Mistake)?.cmp(&right),
        (Long(left), Text(right)) => left.cmp(&numbers::long(right).ok_or(Mistake)?),
        (Text(left), Double(right)) => order_of_doubles(numbers::double(left).ok_or(Mistake)?, right),
        (Double(left), Text(right)) => order_of_doubles(left, numbers::double(right).ok_or(Mistake)?),
        _ => return Ok(None),
    }))
}

/// As Java orders them: negative zero below zero, and not-a-number equal to itself and above all.
fn order_of_doubles(left: f64, right: f64) -> Ordering {
    left.partial_cmp(&right).filter(|ordering| ordering.is_ne()).unwrap_or_else(|| {
        let key = |value: f64| if value.is_nan() { (1, false) } else { (0, value.is_sign_positive()) };
        match (left.is_nan(), right.is_nan()) {
            (true, false) => Ordering::Greater,
            (false, true) => Ordering::Less,
            _ => key(left).cmp(&key(right)),
        }
    })
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use rocketmq_wire::filter::sql92::Dialect;

    use super::*;

    #[test]
    fn expressions_come_to_what_apache_s_classes_say() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../rocketmq-wire/tests/golden/vectors/sql92.jsonl");
        let text = fs::read_to_string(&path).unwrap();
        let mut compared = 0;
        for line in text.lines() {
            let row: serde_json::Value = serde_json::from_str(line).unwrap();
            for (version, dialect) in [("4.9.7", Dialect::WithoutStringTests), ("5.3.3", Dialect::WithStringTests)] {
                let said = |field: &str| row.get(version).and_then(|own| own.get(field)).or_else(|| row.get(field));
                let expected = match said("result").unwrap_or_else(|| panic!("{line}")) {
                    serde_json::Value::Null => Ok(Value::Nothing),
                    serde_json::Value::Bool(value) => Ok(Value::Boolean(*value)),
                    _ => Err(Mistake),
                };
                compared += 1;
                let Ok(parsed) = SqlExpression::parse(row["expr"].as_str().unwrap(), dialect) else {
                    assert_eq!(expected, Err(Mistake), "{version}: {line}");
                    continue;
                };
                let property = |name: &str| row["props"].get(name)?.as_str();
                assert_eq!(evaluate(parsed.root(), &property), expected, "{version}: {line}");
            }
        }
        assert_eq!(compared, 2 * 1482);
    }

    #[test]
    fn doubles_are_ordered_as_java_does() {
        let ascending = [f64::NEG_INFINITY, -1.0, -0.0, 0.0, 1.0, f64::INFINITY, f64::NAN];
        for (left, one) in ascending.iter().enumerate() {
            for (right, other) in ascending.iter().enumerate() {
                assert_eq!(order_of_doubles(*one, *other), left.cmp(&right), "{one} {other}");
            }
        }
    }
}
